"""The nodes of a model that the installed ONNX Runtime cannot run, and why; nothing is tried and no weight is read."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, overload

from pyopnb.gaps.flow import Lack, lacks
from pyopnb.models.installed import newest_version
from pyopnb.models.nodes import Site, first_output, full_name
from pyopnb.models.source import glance
from pyopnb.models.table import Table
from pyopnb.ops.errors import shown

__all__ = ["Missing", "MissingNode", "missing"]


@dataclass(frozen=True)
class MissingNode:
    """A node that the runtime cannot run.

    Attributes
    ----------
    site : Site or None
        The node itself and where it stands; None for an import that is too new as such.
    op : str
        ``domain::OpType`` and the version of its domain in which it came: ``::Erf-13``.
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
        return (self.site.node.name or first_output(self.site.node)) if self.site else ""

    @property
    def path(self) -> str:
        """Where the node stands: ``""`` in the main graph."""
        return self.site.path if self.site else ""

    @property
    def where(self) -> str:
        """The node as messages name it."""
        return self.site.where if self.site else f"import of {self.op}"


class Missing(Sequence[MissingNode]):
    """What `missing` found: a sequence that is false where the runtime runs every node."""

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
        rows = [(row.node, row.op, f"{row.kind}: {row.reason}", row.path) for row in self._rows]
        return Table(("node", "op", "reason", "in"), rows, "Nothing is missing: the installed ONNX Runtime has every node's kernel")

    def __repr__(self) -> str:
        return repr(self._table())

    def _repr_html_(self) -> str:
        return self._table()._repr_html_()


def missing(model: Any) -> Missing:
    """List the nodes that the installed ONNX Runtime cannot run."""
    proto = glance(model)
    found = lacks(proto)
    rows = [MissingNode(site, _op(site, lack), lack.kind, lack.reason) for site, lack in found]
    told = {row.site.node.domain for row in rows if row.site and row.kind == "opset too new"}
    for entry in proto.opset_import:
        newest = newest_version(entry.domain)
        if newest is not None and entry.version > newest and not {entry.domain, entry.domain or "ai.onnx"} & told:
            about = entry.domain or "ai.onnx"
            rows.append(
                MissingNode(None, f"{about}-{entry.version}", "opset too new", f"the runtime takes {about} up to {newest}")
            )
    return Missing(rows)


def _op(site: Site, lack: Lack) -> str:
    return shown(full_name(site.node)) + (f"-{lack.since}" if lack.since else "")
