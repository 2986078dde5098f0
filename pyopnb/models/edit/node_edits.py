"""Select nodes of a model by name, op type, output, identity or a function, and put ops there."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from onnx import ModelProto, NodeProto

from pyopnb.common import messages, sanitize
from pyopnb.engine import ModelSource, model_files, model_functions, op_names, protos, registry
from pyopnb.errors import ModelError

__all__ = ["Where", "imports_of_scopes", "open_for_edit", "put_ops", "select_sites"]

# A mistyped name is compared with the names of this many nodes.
_MAX_COMPARED = 20_000

_Meanings = dict[str, dict[str, list[int]]]

Where = str | NodeProto | Callable[[NodeProto], object] | Iterable[Any]
"""The argument that selects nodes; see `select_sites`."""


def select_sites(proto: ModelProto, where: Where, original: object = None) -> list[protos.Site]:
    """Select nodes of a model.

    Parameters
    ----------
    where : str, NodeProto, function, or several of these
        A text is a node's name, an output's name, or an op type: ``"::Softmax"`` of
        exactly that domain, ``"Softmax"`` of any domain. It may select several nodes, but
        only in one of these ways.
    original : object
        The model that ``proto`` is a copy of, if a NodeProto is one of its nodes.

    Returns
    -------
    list of Site
        In the order of `walk`.

    Raises
    ------
    ModelError
        No node is selected, or a text has two meanings.
    """
    sites = list(protos.walk(proto))
    selectors = [where]
    if not isinstance(where, (str, NodeProto)) and not callable(where):
        try:
            selectors = list(where)
        except TypeError:
            raise _unknown_selector(where) from None
    # Keep them alive during the lookup, because only live objects have unique ids.
    originals = list(protos.walk(original)) if isinstance(original, ModelProto) else []
    numbers = {id(site.node): number for number, site in enumerate(originals[: len(sites)])}
    # Read once, so that a list of a thousand names does not go through the model a thousand times.
    meanings = _meanings_by_text(sites)
    positions: set[int] = set()
    for selector in selectors:
        if isinstance(selector, NodeProto):
            # A node is found by identity in the caller's model, else by equality.
            if id(selector) in numbers:
                selected = [numbers[id(selector)]]
            else:
                selected = [n for n, site in enumerate(sites) if site.node == selector]
            got = f"a node {sanitize(protos.full_name(selector))} that is not in the model"
        elif isinstance(selector, str):
            selected = _by_text(sites, meanings, selector)
            got = ""
        elif callable(selector) and not isinstance(selector, type):
            selected = [
                n for n, site in enumerate(sites) if _selectable(site) and selector(site.node)
            ]
            got = f"a function that chooses none of the {len(sites)} nodes"
        else:
            raise _unknown_selector(selector)
        if not selected:
            expected, advice = "a node of the model", "one of model.graph.node"
            raise ModelError("where", expected=expected, got=got, next=advice)
        positions.update(selected)
    if not positions:
        expected, advice = "nodes to choose", '"Softmax", or lambda node: …'
        raise ModelError("where", expected=expected, got="nothing", next=advice)
    return [sites[position] for position in sorted(positions)]


def _unknown_selector(where: object) -> ModelError:
    expected = (
        "a node's name, an op type, an output's name, a node, a function of a node, "
        "or a list of these"
    )
    if isinstance(where, type):
        # A class is callable and its objects are true, so that it would choose every node.
        name = sanitize(where.__name__)
        return ModelError("where", expected=expected, got=f"the class {name}", next=repr(name))
    return ModelError("where", expected=expected, got=type(where).__name__, next='"Relu"')


def _selectable(site: protos.Site) -> bool:
    return site.node.domain != model_functions.TAP_DOMAIN


def _meanings_by_text(sites: Sequence[protos.Site]) -> _Meanings:
    """List for each text its possible meanings, and the positions of these nodes."""
    meanings: _Meanings = {}

    def add(text: str, meaning: str, position: int) -> None:
        positions = meanings.setdefault(text, {}).setdefault(meaning, [])
        # A node can have one text as its ONNX operator and as its output.
        if position not in positions[-1:]:
            positions.append(position)

    for position, site in enumerate(sites):
        if not _selectable(site):
            continue
        node, full = site.node, protos.full_name(site.node)
        add(node.name, "a node's name", position)
        for name in node.output:
            add(name, "an output's name", position)
        for text in (node.op_type, full):
            add(text, f"op type {sanitize(full)}", position)
    return meanings


def _by_text(sites: Sequence[protos.Site], meanings_by_text: _Meanings, text: str) -> list[int]:
    # The ONNX domain has two names.
    domain, _, op_type = text.rpartition("::")
    if domain == "ai.onnx":
        text = f"::{op_type}"
    # A text is looked up in all meanings at once, so that one with two of them is refused.
    meanings = meanings_by_text.get(text, {})
    where = f"where {sanitize(repr(text))}"
    if not text or not meanings:
        expected = "a node's name, an op type or an output's name of the model"
        advice = _similar(sites, text)
        raise ModelError(where, expected=expected, got="none of these", next=advice)
    first, *further = meanings.values()
    if any(positions != first for positions in further):
        got, advice = " and ".join(meanings), f"lambda node: node.name == {text!r}"
        raise ModelError(where, expected="one meaning", got=got, next=sanitize(advice))
    return first


def _similar(sites: Sequence[protos.Site], text: str) -> str:
    types = {protos.full_name(site.node) for site in sites}
    names = types | {site.node.op_type for site in sites}
    for site in sites[:_MAX_COMPARED]:
        names |= {name for name in (site.node.name, *site.node.output) if name}
    close = messages.closest(text, sorted(names))
    return sanitize(close or ", ".join(sorted(types)) or "a model with nodes")


def open_for_edit(model: Any, base_dir: str | os.PathLike[str] | None) -> ModelSource:
    """Read a model to edit it, without its weights.

    Parameters
    ----------
    model, base_dir
        As for `replace`.

    Raises
    ------
    ModelError
        It is in the ONNX Runtime format, or no model.
    """
    source = model_files.read_model(model, base_dir, data=False)
    if not source.proto.HasField("graph"):
        got = "the ONNX Runtime format, whose nodes are fixed"
        raise ModelError(
            "model",
            expected="an ONNX model",
            got=got,
            next="give the .onnx file that it was made from",
        )
    return source


def put_ops(proto: ModelProto, changes: Iterable[tuple[protos.Site, str]]) -> None:
    """Turn nodes into nodes of ops, and import the ops' domains, also in functions.

    Nothing is checked; the ops need not be in the registry yet.

    Parameters
    ----------
    proto : ModelProto
        It is changed.
    changes : iterable of (Site, str)
        Sites of ``proto`` and ``"domain::OpType"`` for each.
    """
    versions: dict[str, int] = {}
    for site, name in changes:
        domain, op_type = op_names.split_name(name)
        site.node.domain, site.node.op_type = domain, op_type
        # An onnx before 1.16 has no overloads. An op has none, so a call of a function loses its
        # own.
        if "overload" in site.node.DESCRIPTOR.fields_by_name:
            site.node.ClearField("overload")
        op = registry.find(domain, op_type)
        versions[domain] = max(versions.get(domain, 1), op.current.opset if op else 1)
    # A function sees its own imports only.
    for scope in (proto, *proto.functions):
        protos.add_imports(scope, versions)


# ---- whether the op fits -------------------------------------------------------------------------


def imports_of_scopes(proto: ModelProto) -> Iterator[tuple[int, dict[str, int]]]:
    """Yield the versions of domains that the nodes of functions see."""
    for function in proto.functions:
        versions = protos.imported_versions(function)
        yield from ((id(node), versions) for node in protos.nodes_in(function))
