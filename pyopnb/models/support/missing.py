"""The nodes of a model that the installed ONNX Runtime cannot run, and why."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, overload

from onnx import ModelProto

from pyopnb.models.io import as_proto
from pyopnb.models.nodes import Site, first_output, full_name, imported_versions
from pyopnb.models.ort_capabilities import newest_version
from pyopnb.models.support.type_flow import lacks
from pyopnb.ops.errors import hide_internal_frames, sanitize
from pyopnb.ops.text_table import Table

__all__ = ["Missing", "MissingNode", "missing"]


_TOLD = 200
"""Rows that a table shows; all of them are in the sequence."""


@dataclass(frozen=True)
class MissingNode:
    """A node that the runtime cannot run.

    Attributes
    ----------
    site : Site or None
        The node itself and where it stands; None where it is the import that is too new, and no node.
    op : str
        ``domain::OpType-N``, with the version of the domain in which the operator came, where that is known.
    kind : str
        ``"unknown op"``, ``"unknown domain"``, ``"no kernel"``, ``"no kernel for dtype"`` or ``"opset too new"``.
    reason : str
    """

    site: Site | None
    op: str
    kind: str
    reason: str

    @property
    def node(self) -> str:
        """The node's name, or its first output where it has none."""
        return "" if self.site is None else self.site.node.name or first_output(self.site.node)

    @property
    def path(self) -> str:
        """The body or function that the node stands in; ``""`` for the main graph."""
        return "" if self.site is None else self.site.path

    @property
    def where(self) -> str:
        """The node as messages name it."""
        return f"import of {self.op}" if self.site is None else self.site.where

    def __str__(self) -> str:
        return f"{self.where}: {self.kind}: {self.reason}"


class Missing(Sequence[MissingNode]):
    """What `missing` found; false where the runtime can run every node."""

    def __init__(self, rows: Sequence[MissingNode]) -> None:
        self._rows = tuple(rows)

    @overload
    def __getitem__(self, place: int) -> MissingNode: ...
    @overload
    def __getitem__(self, place: slice) -> Missing: ...
    def __getitem__(self, place: Any) -> Any:
        return Missing(self._rows[place]) if isinstance(place, slice) else self._rows[place]

    def __len__(self) -> int:
        return len(self._rows)

    def __iter__(self) -> Iterator[MissingNode]:
        return iter(self._rows)

    def _table(self) -> Table:
        told = self._rows[:_TOLD]
        inside = any(row.path for row in told)
        rows = [(row.node, row.op, row.kind, row.reason, *([row.path] if inside else [])) for row in told]
        if len(told) < len(self._rows):
            rows.append((f"and {len(self._rows) - len(told)} more", *[""] * (len(rows[0]) - 1)))
        head = ("node", "op", "missing", "reason", *(["in"] if inside else []))
        return Table(head, rows, "Nothing is missing: the installed ONNX Runtime has a kernel for every node")

    def __repr__(self) -> str:
        return repr(self._table())

    def _repr_html_(self) -> str:
        return self._table()._repr_html_()


@hide_internal_frames
def missing(model: ModelProto | bytes | str | os.PathLike[str]) -> Missing:
    """List the nodes that the installed ONNX Runtime cannot run on the CPU, and why.

    It is looked up in the runtime's own lists of operators and kernels; the model is not tried, and external data not looked
    for. Bodies are walked into, and local functions as they are called. Nodes that run through ops of the registry, or that are
    the retired PyOp's, are not missing. The IR version is not looked at, nor what a kernel refuses once it is there.

    Parameters
    ----------
    model : ModelProto, bytes, str or os.PathLike
        Its nodes, where it is a ModelProto, are those that the rows hold.

    Returns
    -------
    Missing
        A sequence of `MissingNode`, empty and false where every node runs.

    Raises
    ------
    ModelError
        There is no model, a name is made twice, nodes wait for each other, or a function calls itself.

    Examples
    --------
    >>> import pyopnb
    >>> nodes = [pyopnb.node("Erf", "x", "y"), pyopnb.node("demo::SoftClip", "y", "z")]
    >>> found = missing(pyopnb.model(nodes, {"x": "float64[N]"}, "z"))
    >>> [(row.node, row.op, row.kind) for row in found]
    [('y', '::Erf-13', 'no kernel for dtype'), ('z', 'demo::SoftClip', 'unknown domain')]
    >>> found[0].reason
    'T is float64; there are kernels for ...float32'
    """
    proto = as_proto(model)
    rows = [
        MissingNode(site, sanitize(full_name(site.node)) + (f"-{lack.since}" if lack.since else ""), lack.kind, lack.reason)
        for site, lack in lacks(proto)
    ]
    told = {full_name(row.site.node).partition("::")[0] for row in rows if row.site and row.kind == "opset too new"}
    return Missing([*rows, *_imports(proto, told)])


def _imports(proto: ModelProto, told: set[str]) -> Iterator[MissingNode]:
    """A row for each import that the runtime refuses although it could run every node."""
    for scope in (proto, *proto.functions):
        for domain, version in imported_versions(scope).items():
            newest = newest_version(domain)
            if newest is not None and version > newest and domain not in told:
                told.add(domain)
                name = domain or "ai.onnx"
                reason = f"the runtime takes {name} up to {newest}"
                yield MissingNode(None, f"{sanitize(name)}-{version}", "opset too new", reason)
