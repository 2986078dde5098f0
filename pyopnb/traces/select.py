"""The tensors of a model that a trace can show, and making outputs of them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from fnmatch import translate

from onnx import GraphProto, ModelProto, NodeProto

from pyopnb.common import messages, sanitize
from pyopnb.engine import op_names, protos
from pyopnb.errors import InputError
from pyopnb.models import Types

__all__ = ["NamedTensor", "expose", "match_names", "named_tensors", "tappable_tensors"]

_WITH_BODIES = {"If": False, "Loop": True, "Scan": True}  # whether the body runs more than once


@dataclass(frozen=True)
class NamedTensor:
    """An output of a node.

    Attributes
    ----------
    name : str
        The name in the trace, with the path if the tensor is in a body: ``"loop/body/t"``.
    inner : str
        In its graph.
    inside : str or None
        Of a tensor in a body: the first output of the node of the main graph that
        the body belongs to.
    repeats : bool
        Whether that body can run more than once.
    """

    name: str
    inner: str
    scope: GraphProto
    node: NodeProto
    inside: str | None = None
    repeats: bool = False


def named_tensors(model: ModelProto, *, bodies: bool = False) -> list[NamedTensor]:
    """List the outputs of the main graph's nodes, each after the outputs in the node's bodies."""
    tensors = list(_named(model.graph, "", None, False, bodies))
    names = {tensor.name for tensor in tensors if tensor.inside is None}
    for number, tensor in enumerate(tensors):
        if tensor.inside is not None:
            # A tensor of the main graph may also be called "loop/body/t".
            tensors[number] = replace(tensor, name=op_names.fresh_name(tensor.name, names))
    return tensors


def _named(
    scope: GraphProto, path: str, inside: str | None, repeats: bool, bodies: bool
) -> Iterator[NamedTensor]:
    for node in scope.node:
        if bodies and node.op_type in _WITH_BODIES and not op_names.canonical_domain(node.domain):
            # The node of the main graph by which all of its bodies' tensors are listed.
            outer = protos.first_output(node) if inside is None else inside
            runs_often = repeats or _WITH_BODIES[node.op_type]
            for attribute, body in protos.named_bodies(node):
                body_path = f"{path}{node.name or protos.first_output(node)}/{attribute}/"
                yield from _named(body, body_path, outer, runs_often, bodies)
        for name in dict.fromkeys(filter(None, node.output)):
            yield NamedTensor(path + name, name, scope, node, inside, repeats)


def match_names(names: Sequence[str], only: str | Iterable[str]) -> set[str]:
    """Find the names that are equal to a text of ``only`` or match it as a glob (``"layer1/*"``).

    Raises
    ------
    InputError
        One of them matches nothing.
    """
    selected: set[str] = set()
    # Looking into the list would be a walk for each text.
    index = dict.fromkeys(names)
    texts = [only] if isinstance(only, str) else only
    for text in texts:
        matching = {text}
        if text not in index:
            pattern = re.compile(translate(str(text)))
            matching = {name for name in names if pattern.match(name)}
        if not matching:
            advice = None
            if names:
                advice = f"write {sanitize(messages.suggest(str(text), names))}"
            raise InputError(
                "trace, only",
                expected="names of tensors that nodes of the model give, or globs of them",
                got=sanitize(repr(text)),
                next=advice,
            )
        selected |= matching
    return selected


def tappable_tensors(model: ModelProto, named: Sequence[NamedTensor]) -> list[NamedTensor]:
    """Select the tensors whose dtypes ONNX Runtime gives to custom ops, and so to taps."""
    # Inferring the types of a large model takes longer than most traces, which
    # look at outputs alone.
    if not named:
        return []
    types = Types(model)
    tappable = []
    for tensor in named:
        carried = types.carried(tensor.scope, tensor.inner)
        # Only operators of ONNX's own give sequences, maps and optionals, whose types are known.
        if carried or (carried is None and op_names.canonical_domain(tensor.node.domain)):
            tappable.append(tensor)
    return tappable


def expose(model: ModelProto, names: Iterable[str]) -> None:
    """Make the tensors outputs of the model; ONNX Runtime infers their types."""
    # A tensor can be an output already, and ONNX Runtime refuses a second one of the name.
    exposed = {info.name for info in model.graph.output}
    for name in names:
        if name not in exposed:
            model.graph.output.add(name=name)
