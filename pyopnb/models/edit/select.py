"""Nodes of a model selected by name, op type, output, the node itself, or a function of the node."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from itertools import islice
from typing import Any

from onnx import ModelProto, NodeProto

from pyopnb.errors import ModelError
from pyopnb.models.nodes import Site, full_name, walk
from pyopnb.ops.messages import sanitize, suggest

__all__ = ["TAP_DOMAIN", "Where", "original_names", "select_sites"]

TAP_DOMAIN = "pyopnb.tap"
"""Domain of the nodes that `wrap` inserts. They are never selected: the names of their outputs mean the wrapped nodes."""

# A mistyped name is compared with those of this many nodes.
_MAX_COMPARED = 20_000

Where = str | NodeProto | Callable[[NodeProto], object] | Iterable[Any]
"""What selects nodes; see `select_sites`."""


def select_sites(proto: ModelProto, where: Where, original: object = None) -> list[Site]:
    """Select nodes of a model.

    Parameters
    ----------
    proto : ModelProto
    where : str, NodeProto, function, or several of these
        A text is a node's name, an output's name, or an op type: ``"::Softmax"`` of exactly that domain, ``"Softmax"`` of any
        domain. It may select several nodes, but only in one of these ways.
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
    sites = _Sites(list(walk(proto)), original)
    if isinstance(where, (str, NodeProto)) or callable(where):
        selectors = [where]
    else:
        selectors = _several(where)
    positions: set[int] = set()
    for selector in selectors:
        positions.update(sites.places(selector))
    if not positions:
        raise ModelError(
            "where", expected="nodes to choose", got="nothing", next='"Softmax", or lambda node: …'
        )
    return [sites.sites[position] for position in sorted(positions)]


def _several(where: Any) -> list[Any]:
    try:
        return list(where)
    except TypeError:
        raise _unknown_selector(where) from None


def _unknown_selector(where: object) -> ModelError:
    expected = "a node's name, an op type, an output's name, a node, a function of a node, or a list of these"
    if isinstance(where, type):
        # A class is callable and its objects are true, so that it would choose every node.
        name = sanitize(where.__name__)
        return ModelError("where", expected=expected, got=f"the class {name}", next=repr(name))
    return ModelError("where", expected=expected, got=type(where).__name__)


class _Sites:
    """The nodes of a model by all that selects them, each read once however many selectors there are."""

    def __init__(self, sites: Sequence[Site], original: object) -> None:
        self.sites = sites
        self._original = original

    def places(self, where: Any) -> list[int]:
        """Return the places of the nodes that one selector selects."""
        if isinstance(where, type):
            raise _unknown_selector(where)
        if isinstance(where, str):
            return self._by_text(where)
        if isinstance(where, NodeProto):
            positions = self._by_node(where)
            got = f"a node {sanitize(full_name(where))} that is not in the model"
        elif callable(where):
            positions = [position for position, site in self._untapped if where(site.node)]
            got = f"a function that chooses none of the {len(self.sites)} nodes"
        else:
            raise _unknown_selector(where)
        if not positions:
            raise ModelError(
                "where", expected="a node of the model", got=got, next="one of model.graph.node"
            )
        return positions

    @cached_property
    def _untapped(self) -> list[tuple[int, Site]]:
        return [
            (position, site)
            for position, site in enumerate(self.sites)
            if site.node.domain != TAP_DOMAIN
        ]

    def _by_node(self, node: NodeProto) -> list[int]:
        """Find a node by identity in the caller's model, else by equality."""
        position = self._place_in_original.get(id(node))
        if position is not None and position < len(self.sites):
            return [position]
        # Equal nodes have equal outputs, so only those few are compared whole.
        candidates = self._positions_by_outputs.get(tuple(node.output), [])
        return [position for position in candidates if self.sites[position].node == node]

    @cached_property
    def _positions_by_outputs(self) -> dict[tuple[str, ...], list[int]]:
        positions: dict[tuple[str, ...], list[int]] = {}
        for position, site in enumerate(self.sites):
            positions.setdefault(tuple(site.node.output), []).append(position)
        return positions

    @cached_property
    def _originals(self) -> list[NodeProto]:
        # Keep the nodes, as ids are those of live objects only.
        if isinstance(self._original, ModelProto):
            return [site.node for site in walk(self._original)]
        return []

    @cached_property
    def _place_in_original(self) -> dict[int, int]:
        return {id(node): position for position, node in enumerate(self._originals)}

    @cached_property
    def _meanings(self) -> dict[str, dict[str, list[int]]]:
        """Text to its meanings, and to the places of the nodes that it selects in each."""
        # A text is looked up in all meanings at once, so that one with two of them is refused.
        names = original_names(self.sites)
        meanings: dict[str, dict[str, list[int]]] = {}
        for position, site in self._untapped:
            node, full = site.node, full_name(site.node)
            means = [(node.name, "a node's name")]
            means += [
                (names.get((id(site.scope), name), name), "an output's name")
                for name in node.output
            ]
            means += [(text, f"op type {sanitize(full)}") for text in (node.op_type, full)]
            for text, meaning in dict.fromkeys(means):
                if text:
                    meanings.setdefault(text, {}).setdefault(meaning, []).append(position)
        return meanings

    def _by_text(self, text: str) -> list[int]:
        # ONNX's own domain has two names.
        domain, _, op_type = text.rpartition("::")
        if domain == "ai.onnx":
            text = f"::{op_type}"
        meanings = self._meanings.get(text, {})
        if not meanings:
            raise ModelError(
                f"where {sanitize(repr(text))}",
                expected="a node's name, an op type or an output's name of the model",
                got="none of these",
                next=_similar(self.sites, text),
            )
        first, *further = meanings.values()
        if any(positions != first for positions in further):
            raise ModelError(
                f"where {sanitize(repr(text))}",
                expected="one meaning",
                got=" and ".join(meanings),
                next=_exactly(meanings, text),
            )
        return first


def _exactly(meanings: Iterable[str], text: str) -> str:
    exact = {
        "a node's name": f"lambda node: node.name == {text!r}",
        "an output's name": f"lambda node: {text!r} in node.output",
    }
    return sanitize(
        ", or ".join(exact.get(m) or repr(m.removeprefix("op type ")) for m in meanings), 1000
    )


def _similar(sites: Sequence[Site], text: str) -> str:
    types = {full_name(site.node) for site in sites}
    names = types | {site.node.op_type for site in sites}
    for site in islice(sites, _MAX_COMPARED):
        names |= {name for name in (site.node.name, *site.node.output) if name}
    close = suggest(text, sorted(names))
    return sanitize(close if close in names else ", ".join(sorted(types)) or "a model with nodes")


def original_names(sites: Iterable[Site]) -> dict[tuple[int, str], str]:
    """Return the names that outputs had before `wrap`.

    Parameters
    ----------
    sites : iterable of Site

    Returns
    -------
    dict
        ``(id(scope), new name)`` to the old name.
    """
    before: dict[tuple[int, str], str] = {}
    for site in sites:
        if site.node.domain == TAP_DOMAIN:
            outputs = list(site.node.output)
            fresh = list(site.node.input)[-len(outputs) :]
            before |= {(id(site.scope), new): old for new, old in zip(fresh, outputs, strict=True)}
    for key, old in before.items():
        seen = {key[1]}
        while (key[0], old) in before and old not in seen:
            seen.add(old)
            old = before[key[0], old]
        before[key] = old
    return before
