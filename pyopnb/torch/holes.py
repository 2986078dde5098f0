"""The calls for which torch's exporter has no ONNX operator."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, overload

import torch

from pyopnb.errors import ModelError
from pyopnb.ops.messages import sanitize
from pyopnb.ops.text_table import Table
from pyopnb.torch.calls import Unwritable, encode, target_name
from pyopnb.torch.exporter_internals import Elsewhere, failed_node, untranslated
from pyopnb.torch.program import calls_in, where_of
from pyopnb.torch.source import line_of

__all__ = ["Hole", "Holes", "failed_call", "find_holes", "hole_of"]

_FAILED = re.compile(r"Error when translating node %(?P<name>\w+)")


@dataclass(frozen=True)
class Hole:
    """A call that the exporter cannot write as ONNX.

    Attributes
    ----------
    op : str
        The torch op, as ``ops=`` of `export` and Python take it: ``torch.ops.aten.inverse.default``.
    line : str
        The user's line that calls it; empty where it is not known.
    types : str
        Of the tensors that go in and come out.
    reason : str
        What the exporter lacks.
    """

    op: str
    line: str
    types: str
    reason: str
    node: Any = field(default=None, repr=False)
    target: Any = field(default=None, repr=False)
    attrs: tuple[str, ...] = field(default=(), repr=False)

    def __str__(self) -> str:
        return f"{f'{self.line}: ' if self.line else ''}{self.op} {self.types}: {self.reason}"


class Holes(Sequence[Hole]):
    """What `pyopnb.torch.missing` found; false where the exporter has everything."""

    def __init__(self, rows: Sequence[Hole]) -> None:
        self._rows = tuple(rows)

    @overload
    def __getitem__(self, place: int) -> Hole: ...
    @overload
    def __getitem__(self, place: slice) -> Holes: ...
    def __getitem__(self, place: Any) -> Any:
        return Holes(self._rows[place]) if isinstance(place, slice) else self._rows[place]

    def __len__(self) -> int:
        return len(self._rows)

    def __iter__(self) -> Iterator[Hole]:
        return iter(self._rows)

    def _table(self) -> Table:
        rows = [(row.op, row.line, row.types, row.reason) for row in self._rows]
        return Table(
            ("op", "called in", "types", "reason"),
            rows,
            "Nothing is missing: the exporter has every op",
        )

    def __repr__(self) -> str:
        return repr(self._table())

    def _repr_html_(self) -> str:
        return self._table()._repr_html_()


def find_holes(program: Any, failure: BaseException) -> list[Hole]:
    """The calls of a program that made the exporter fail.

    Parameters
    ----------
    program : torch.export.ExportedProgram
    failure : BaseException
        What the exporter raised.

    Returns
    -------
    list of Hole
        Empty where the failure has another reason.

    Raises
    ------
    ModelError
        The call is one that no op can stand in for.
    """
    found = None
    try:
        found = untranslated(program)
    except (
        Elsewhere
    ) as error:  # the public way is taken; whoever reads of a failure there shall know
        failure.add_note(str(error))
    if found is not None and found[1]:
        return _traced_back(program, found[1])
    named = failed_call(failure)
    if named is None:
        return []
    name, reason = named
    failed = failed_node(failure, name)
    if failed is None:
        low = program.run_decompositions() if found is None else found[0]
        nodes = [node for node, _ in calls_in(low) if node.name == name]
    else:
        nodes = [failed]
    return _traced_back(program, [(node, reason) for node in nodes])


def failed_call(failure: BaseException | None) -> tuple[str, str] | None:
    """The name of the call at which the exporter gave up, and why."""
    name = None
    while failure is not None:
        match = _FAILED.search(str(failure))
        name = match["name"] if match else name
        last, failure = failure, failure.__cause__
    return None if name is None else (name, str(last).partition("\n")[0])


def _traced_back(program: Any, lacking: Sequence[tuple[Any, str]]) -> list[Hole]:
    """The calls that the user wrote, of those that they were decomposed into."""
    # A body of control flow may use the names of the graph around it: an op more calls torch then, which does no harm.
    calls: dict[str, list[tuple[Any, tuple[Any, ...]]]] = {}
    for node, around in calls_in(program):
        calls.setdefault(node.name, []).append((node, around))
    holes: dict[int, Hole] = {}
    for low, reason in lacking:
        names = [*(source.name for source in reversed(low.meta.get("from_node", []))), low.name]
        found = next((calls[name] for name in names if name in calls), [])
        if not found:
            where = line_of(low) or "module"
            raise ModelError(
                where,
                expected="an op with an ONNX function",
                got=sanitize(str(low.target)),
                next="rewrite that line",
            )
        for node, around in found:
            holes.setdefault(id(node), hole_of(node, around, reason))
    return list(holes.values())


def hole_of(node: Any, around: tuple[Any, ...], reason: str) -> Hole:
    """A call as a hole.

    Parameters
    ----------
    node : torch.fx.Node
    around : tuple of torch.fx.Node
        The calls in whose bodies it is.
    reason : str

    Returns
    -------
    Hole

    Raises
    ------
    ModelError
        No op can stand in for it.
    """
    try:
        call = encode(node)
    except Unwritable as error:
        where, why = where_of(node, around), f"{reason}; expected {error.expected}, got {error.got}"
        raise ModelError(
            where,
            expected="an op of the exporter's, or one that torch can stand in for",
            got=sanitize(why, 400),
        ) from None
    ins = ", ".join(
        "none" if value is None else _type_text(value.meta["val"]) for value in call.inputs
    )
    values = node.meta["val"]
    outs = ", ".join(map(_type_text, [values] if isinstance(values, torch.Tensor) else values))
    lacks = reason.startswith("No ") and "complex" not in reason
    said = "no ONNX function" if lacks else sanitize(reason)
    return Hole(
        target_name(node.target),
        line_of(node, *around),
        f"({ins}) -> {outs}",
        said,
        node,
        node.target,
        tuple(call.attrs),
    )


def _type_text(value: Any) -> str:
    """``float32[N,3]``: the type of a fake tensor, with a letter for each size that may change."""
    if not isinstance(value, torch.Tensor):
        return "int64[]"
    dims = [str(size) if isinstance(size, int) else _symbol(size) for size in value.shape]
    return f"{str(value.dtype).removeprefix('torch.')}[{','.join(dims)}]"


def _symbol(size: Any) -> str:
    text = str(size)
    return text if text.isidentifier() else "?"
