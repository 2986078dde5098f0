"""A model as text: its inputs and outputs, and its nodes in topological order."""

from __future__ import annotations

from collections.abc import Sequence

from onnx import NodeProto

from pyopnb.display.model_boxes import Scope, Wishes, attrs_of, constant_text, title_of
from pyopnb.ops.messages import plural, sanitize

__all__ = ["model_text"]

_LINES = 30
_HEAD, _TAIL = 18, 7  # nodes shown of a model that has too many
_LONGEST = 120  # characters of a line
_TYPE_COLUMN = 64  # the rightmost, in which types are aligned
_SIGNS = {"added": "+", "removed": "-", "changed": "~"}


def model_text(title: str, scope: Scope, wishes: Wishes) -> str:
    """A graph in at most 30 lines.

    Parameters
    ----------
    title : str
        The first line.
    scope : Scope
    wishes : Wishes
        Its marks become signs before the nodes, its values numbers after them.

    Returns
    -------
    str
    """
    lines = [title, f"({_ends(scope, scope.inputs)}) -> ({_ends(scope, scope.outputs)})"]
    nodes = scope.nodes
    if len(nodes) + len(lines) + len(scope.facts.remarks[:2]) <= _LINES:
        lines += _rows(scope, nodes, wishes)
    else:
        lines += _rows(scope, nodes[:_HEAD], wishes)
        lines.append(f"  … {plural(len(nodes) - _HEAD - _TAIL, 'node')} more")
        lines += _rows(scope, nodes[-_TAIL:], wishes)
    lines = [line if len(line) <= _LONGEST else line[: _LONGEST - 1] + "…" for line in lines]
    return "\n".join(
        [*lines, *(sanitize(remark, 300).replace("\n", " ") for remark in scope.facts.remarks[:2])]
    )


def _ends(scope: Scope, names: Sequence[str]) -> str:
    kinds = [(sanitize(name, 40), scope.facts.type_of(scope.container, name)) for name in names[:8]]
    ends = [f"{name}: {kind}" if kind else name for name, kind in kinds]
    return ", ".join([*ends, f"… {len(names) - 8} more"] if len(names) > 8 else ends).replace(
        "\n", " "
    )


def _rows(scope: Scope, nodes: Sequence[NodeProto], wishes: Wishes) -> list[str]:
    rows = [_row(scope, node, wishes).replace("\n", " ") for node in nodes]
    column = max((len(row) for row in rows if len(row) <= _TYPE_COLUMN), default=0)
    types = [
        ", ".join(
            filter(None, (scope.facts.type_of(scope.container, name) for name in node.output))
        )
        for node in nodes
    ]
    return [f"{row:<{column}}  {kind}".rstrip() for row, kind in zip(rows, types, strict=True)]


def _row(scope: Scope, node: NodeProto, wishes: Wishes) -> str:
    sign = _SIGNS.get(wishes.marks.get(id(node), ""), "*" if id(node) in wishes.marks else " ")
    outputs = ", ".join(sanitize(name, 30) or "_" for name in node.output)
    inputs = ", ".join(_input(scope, name) for name in node.input)
    attrs = attrs_of(node, scope.facts.operator(node)[1])
    attrs += [f"{what}: {plural(len(body.node), 'node')}" for what, body in scope.facts.held(node)]
    value = [f"[{wishes.values[id(node)]:.3g}]"] if id(node) in wishes.values else []
    return " ".join([sign, f"{outputs} = {title_of(node)}({inputs})", *attrs, *value])


def _input(scope: Scope, name: str) -> str:
    if not name:
        return "_"
    value = scope.constant(name)
    if value is None:
        return sanitize(name, 30)
    text = constant_text(value)
    return text.removeprefix("= ") if text.startswith("=") else f"{sanitize(name, 20)}{text}"
