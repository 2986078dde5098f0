"""A model as text: its inputs and outputs, and its nodes in topological order."""

from __future__ import annotations

from collections.abc import Sequence

from onnx import NodeProto

from pyopnb.common import Table, messages, plural, sanitize
from pyopnb.display.model_info import Scope, attrs_of, constant_text, title_of

__all__ = ["model_text"]

# If a model has too many nodes, this many of the first and of the last are shown.
_MOST, _HEAD, _TAIL = 25, 18, 7
_MOST_ENDS = 8
# A longer line is cut after this many characters.
_LONGEST = 120


def model_text(title: str, scope: Scope) -> str:
    """Write a graph in at most 30 lines, the first of them a title."""
    signature = f"({_ends(scope, scope.inputs)}) -> ({_ends(scope, scope.outputs)})"
    nodes = scope.nodes
    if len(nodes) > _MOST:
        nodes = nodes[:_HEAD] + nodes[-_TAIL:]
    rows = [_row(scope, node) for node in nodes]
    if len(nodes) < len(scope.nodes):
        omitted = plural(len(scope.nodes) - len(nodes), "node")
        rows.insert(_HEAD, (f"  … {omitted} more", ""))
    remarks = [messages.one_line(sanitize(remark, 300)) for remark in scope.info.remarks[:2]]
    # The first line of the table is its head, which says nothing here.
    lines = repr(Table(("", ""), rows)).split("\n")[1:]
    return "\n".join([title, sanitize(signature, _LONGEST), *lines, *remarks])


def _ends(scope: Scope, names: Sequence[str]) -> str:
    texts = []
    for name in names[:_MOST_ENDS]:
        texts.append(": ".join(filter(None, [sanitize(name, 40), scope.type_of(name)])))
    if len(names) > _MOST_ENDS:
        texts.append(f"… {len(names) - _MOST_ENDS} more")
    return messages.one_line(", ".join(texts))


def _row(scope: Scope, node: NodeProto) -> tuple[str, str]:
    """Write a node and the types of its outputs."""
    outputs = ", ".join(sanitize(name, 30) or "_" for name in node.output)
    inputs = ", ".join(_input(scope, name) for name in node.input)
    call = f"{title_of(node)}({inputs})"
    if outputs:
        call = f"{outputs} = {call}"
    words = [f"  {call}", attrs_of(node, scope.info.operator(node)[1])]
    for title, body in scope.info.bodies(node):
        words.append(f"{title}: {plural(len(body.node), 'node')}")
    types = ", ".join(filter(None, map(scope.type_of, node.output)))
    return sanitize(" ".join(filter(None, words)), _LONGEST), sanitize(types, _LONGEST)


def _input(scope: Scope, name: str) -> str:
    value = None
    if name:
        value = scope.constant(name)
    if value is None:
        return sanitize(name, 30) or "_"
    text = constant_text(value)
    # A small constant is written as its value.
    if text.startswith("="):
        return text.removeprefix("= ")
    return f"{sanitize(name, 20)}{text}"
