"""What `export` says of the calls for which it put in ops: where they are, and the cell that replaces each."""

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
_KINDS = {"int": "int", "float": "float", "bool": "bool", "str": "str", "number": "float"}


class StandIns(UserWarning):
    """What an export does other than torch's exporter: calls that run in torch, and sizes that are fixed.

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
        first = {op_name(hole.target): hole for hole in reversed(self.holes)}
        self.cells = {op: cell(op, first[op]) for op in sorted(first)}
        super().__init__(self._text())

    def __reduce__(self) -> tuple[Any, ...]:
        return UserWarning, (str(self),)

    def _text(self) -> str:
        lines = []
        if not self.verified:
            lines.append("Not compared with torch, as verify=False was given.")
        if self.fixed:
            lines.append(f"{plural(len(self.fixed), 'size')} that cannot change:")
            lines += _shown(self.fixed)
        if self.holes:
            lines.append(
                f"{plural(len(self.holes), 'call')} of ops that the exporter lacks, by torch itself:"
            )
            lines += _shown(self.holes)
            lines.append("To write one yourself, run its cell:")
            lines += self.cells.values()
        return "\n".join(lines)


def _shown(entries: Sequence[object]) -> list[str]:
    lines = [f"  {entry}" for entry in entries[:_SHOWN]]
    if len(entries) > _SHOWN:
        lines.append(f"  … and {len(entries) - _SHOWN} more")
    return lines


def cell(op: str, hole: Hole) -> str:
    """The ``%%pyop`` cell that defines an op which `export` put in.

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
    tensors, attrs = [], []
    for argument in target._schema.arguments:
        kind, name = str(argument.type), attr_name(argument.name)
        if "Tensor" in kind:
            tensors.append(name if "List" not in kind else f"*{name}")
        elif name in hole.attrs or (name.isidentifier() and _KINDS.get(kind)):
            attrs.append(_parameter(name, kind, argument))
    inputs = [name.replace("self_", "x") for name in tensors]
    if any(name.startswith("*") for name in inputs[:-1]):
        inputs = ["*inputs"]
    optional = [
        name if n == 0 or name.startswith("*") else f"{name}=None" for n, name in enumerate(inputs)
    ]
    given = (
        optional
        if any(
            "Optional" in str(a.type) for a in target._schema.arguments if "Tensor" in str(a.type)
        )
        else inputs
    )
    names = [entry.partition(":")[0] for entry in attrs]
    body = [
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
        f"    def __init__(self, {', '.join([*attrs, '**attrs'])}):",
        *[f"        self.{name} = {name}" for name in names],
        '        self.dtypes = attrs["torch_dtypes"]',
        "",
        f"    def compute(self, {', '.join(given)}):",
        f"        # Return {_results(hole)}.",
        f'        raise NotImplementedError("{op}")',
        "",
        f"    def infer(self, {', '.join(given)}):",
        '        return [f"{dtype}[...]" for dtype in self.dtypes]',
    ]
    return "\n".join(body) + "\n"


def _parameter(name: str, kind: str, argument: Any) -> str:
    base = kind.removeprefix("Optional[").removesuffix("]").removeprefix("List[").removesuffix("]")
    hint = _KINDS.get(base)
    default = argument.default_value if argument.has_default_value() else None
    hint = f"list[{hint}]" if hint and "List" in kind else hint
    if base == "number" or hint is None:
        return (
            f"{name}={default!r}"
            if isinstance(default, (int, float, str, type(None)))
            else f"{name}=None"
        )
    return (
        f"{name}: {hint} = {default!r}" if default is not None else f"{name}: {hint} | None = None"
    )


def _results(hole: Hole) -> str:
    kinds = hole.types.rpartition(" -> ")[2]
    return (
        f"an array of type {kinds}"
        if "], " not in kinds
        else textwrap.shorten(f"arrays of types {kinds}", 100)
    )
