"""Say what `export` did other than torch's exporter, with the cell that replaces each op it put in."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Sequence
from typing import Any

from pyopnb.ops.messages import plural
from pyopnb.ops.names import split_name
from pyopnb.torch.calls import attr_name, find_target, op_name
from pyopnb.torch.holes import Hole
from pyopnb.torch.sizes import FixedSize

__all__ = ["StandIns", "cell"]

_SHOWN = 10
_HINTS = {"int": "int", "float": "float", "bool": "bool", "str": "str", "number": "float"}


class StandIns(UserWarning):
    """What an export does other than torch's exporter: Python nodes that call torch, and sizes that are fixed.

    Attributes
    ----------
    holes : tuple of Hole
        The calls for which the exporter has no operator, or a wrong one.
    cells : dict of str to str
        By op (``torch.aten::inverse``) the text of a ``%%pyop`` cell in which it can be written instead.
    fixed : tuple of FixedSize
        The dimensions that were to be open and are numbers in the model.
    verified : bool
        False for an export with ``verify=False``.
    """

    def __init__(
        self, holes: Iterable[Hole], fixed: Iterable[FixedSize] = (), *, verified: bool = True
    ) -> None:
        self.holes, self.fixed, self.verified = tuple(holes), tuple(fixed), verified
        self.cells: dict[str, str] = {}
        for hole in sorted(self.holes, key=lambda hole: op_name(hole.target)):
            # One cell an op, with the types of its first call.
            op = op_name(hole.target)
            self.cells[op] = self.cells.get(op) or cell(op, hole)
        super().__init__(self._text())

    def __reduce__(self) -> tuple[Any, ...]:
        return UserWarning, (str(self),)

    def _text(self) -> str:
        lines = []
        if not self.verified:
            lines.append("Not compared with torch, as verify=False was given.")
        if self.fixed:
            lines.append(f"{plural(len(self.fixed), 'size')} that cannot change:")
            lines += _first_lines(self.fixed)
        if self.holes:
            nodes = plural(len(self.holes), "Python node")
            lines.append(f"{nodes}, run by torch, for what its exporter lacks:")
            lines += _first_lines(self.holes)
            lines.append("To write one yourself, run its cell:")
            lines += self.cells.values()
        return "\n".join(lines)


def _first_lines(entries: Sequence[object]) -> list[str]:
    lines = [f"  {entry}" for entry in entries[:_SHOWN]]
    if len(entries) > _SHOWN:
        lines.append(f"  … and {len(entries) - _SHOWN} more")
    return lines


def cell(op: str, hole: Hole) -> str:
    """Write the ``%%pyop`` cell that defines an op which `export` put in.

    Parameters
    ----------
    op : str
        ``torch.aten::inverse``.
    hole : Hole
        One of its calls.

    Returns
    -------
    str
    """
    target = find_target(op)
    domain, op_type = split_name(op)
    inputs = ", ".join(_inputs(target))
    attrs = []
    for argument in target._schema.arguments:
        type_text, name = str(argument.type), attr_name(argument.name)
        if "Tensor" not in type_text and (name in hole.attrs or _HINTS.get(type_text)):
            attrs.append((name, _parameter(name, type_text, argument)))
    parameters = ", ".join([*(text for _, text in attrs), "**attrs"])
    lines = [
        f"%%pyop -d {domain}",
        "import numpy as np",
        "",
        "",
        f"class {op_type}:",
        f'    """{target._schema}',
        "",
        f"    Seen: {hole.types}",
        '    """',
        "",
        f"    def __init__(self, {parameters}):",
    ]
    lines += [f"        self.{name} = {name}" for name, _ in attrs]
    lines += [
        '        self.dtypes = attrs["torch_dtypes"]',
        "",
        f"    def compute(self, {inputs}):",
        f"        # Return {_results(hole)}.",
        f'        raise NotImplementedError("{op}")',
        "",
        f"    def infer(self, {inputs}):",
        '        return [f"{dtype}[...]" for dtype in self.dtypes]',
        "",
    ]
    return "\n".join(lines)


def _inputs(target: Any) -> list[str]:
    """Write the parameters of compute."""
    inputs: list[str] = []
    has_optional = False
    for argument in target._schema.arguments:
        type_text = str(argument.type)
        if "Tensor" not in type_text:
            continue
        # Torch calls the first tensor of most ops self.
        name = "x" if argument.name == "self" else attr_name(argument.name)
        has_optional = has_optional or "Optional" in type_text
        # Python takes one list of arguments, and nothing by position behind it.
        if inputs and inputs[-1].startswith("*"):
            return ["*inputs"]
        is_later = has_optional and inputs
        if "List" in type_text:
            inputs.append(f"*{name}")
        else:
            inputs.append(f"{name}=None" if is_later else name)
    return inputs


def _parameter(name: str, type_text: str, argument: Any) -> str:
    """Write the parameter of __init__ for an argument that is no tensor."""
    base = type_text
    for wrapper in ("Optional[", "List["):
        base = base.removeprefix(wrapper).removesuffix("]")
    hint = _HINTS.get(base)
    default = argument.default_value if argument.has_default_value() else None
    if base == "number" or hint is None:
        # It has no annotation that pyopnb knows, so the default gives the type.
        if not isinstance(default, (int, float, str)):
            default = None
        return f"{name}={default!r}"
    if "List" in type_text:
        hint = f"list[{hint}]"
    return f"{name}: {hint} | None = None" if default is None else f"{name}: {hint} = {default!r}"


def _results(hole: Hole) -> str:
    types = hole.types.rpartition(" -> ")[2]
    if "], " in types:
        return textwrap.shorten(f"arrays of types {types}", 100)
    return f"an array of type {types}"
