"""Report where `export` differs from the torch exporter, and which parts run in torch."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from onnx import ModelProto, NodeProto, ValueInfoProto

from pyopnb.common import Table, messages, plural
from pyopnb.engine import protos
from pyopnb.onnx_reference import skeleton
from pyopnb.torch.calls import op_name
from pyopnb.torch.holes import Hole
from pyopnb.torch.sizes import FixedSize

__all__ = ["Report", "StandIns", "metadata_of", "note_holes", "report"]

# Facts on a hole are kept at its node in the model, so that a report needs the model alone.
_NOTES = ("op", "line", "types", "reason", "path", "remedy")
_NOTE = "pyopnb.torch."

# Metadata that the exporter writes at each node.
_STACK_TRACE, _SCOPES = "pkg.torch.onnx.stack_trace", "pkg.torch.onnx.name_scopes"


class StandIns(UserWarning):
    """Where an export differs from the torch exporter.

    Nodes call torch, or sizes became fixed.

    Attributes
    ----------
    holes : tuple of Hole
        The calls for which the exporter has no operator, or a wrong one.
    fixed : tuple of FixedSize
        The dimensions that should be open but are fixed numbers in the model.
    verified : bool
        False for an export with ``verify=False``.
    """

    def __init__(
        self, holes: Iterable[Hole], fixed: Iterable[FixedSize] = (), *, verified: bool = True
    ) -> None:
        self.holes, self.fixed, self.verified = tuple(holes), tuple(fixed), verified
        super().__init__(self._text())

    def __reduce__(self) -> tuple[Any, ...]:
        return UserWarning, (str(self),)

    def _text(self) -> str:
        parts = []
        if not self.verified:
            parts.append("not compared with torch, as verify=False was given")
        if self.fixed:
            parts.append(
                f"{plural(len(self.fixed), 'size')} that cannot change: {_some(self.fixed)}"
            )
        if self.holes:
            nodes = plural(len(self.holes), "Python node")
            parts.append(f"{nodes}, run by torch: {_some(self.holes)}")
            parts.append("pyopnb.torch.report(model) has the table and the cells")
        return "; ".join(parts)


def _some(entries: Sequence[object]) -> str:
    text = str(entries[0])
    return f"{text}, and {len(entries) - 1} more" if len(entries) > 1 else text


# ---- the report ----------------------------------------------------------------------------------


def note_holes(model: ModelProto, holes: Sequence[Hole]) -> None:
    """Write the facts about its call at each node that calls torch.

    Parameters
    ----------
    model : ModelProto
        It is changed.
    """
    holes_of: dict[str, list[Hole]] = {}
    for hole in holes:
        holes_of.setdefault(op_name(hole.target), []).append(hole)
    for node in protos.nodes_in(model.graph):
        calls = holes_of.get(f"{node.domain}::{node.op_type}")
        if calls is None:
            continue
        # The exporter merges equal calls, so that the order does not tell.
        metadata = metadata_of(node)
        alike = [call for call in calls if _is_at(metadata, call.node)]
        hole = (alike or calls)[0]
        for name in _NOTES:
            node.metadata_props.add(key=f"{_NOTE}{name}", value=getattr(hole, name))


def _is_at(metadata: Mapping[str, str], call: Any) -> bool:
    """Tell whether a node comes from the line and the submodule of a call."""
    paths = [path for path, _ in (call.meta.get("nn_module_stack") or {}).values()]
    scopes = metadata.get(_SCOPES, "")
    in_submodule = scopes.startswith(repr(paths).removesuffix("]"))
    return in_submodule and metadata.get(_STACK_TRACE) == call.meta.get("stack_trace")


def metadata_of(entry: NodeProto | ValueInfoProto) -> dict[str, str]:
    """Read the metadata of the exporter and `note_holes` at a node or a tensor."""
    return {pair.key: pair.value for pair in entry.metadata_props}


@messages.hide_internal_frames
def report(model: ModelProto) -> Report:
    """List the nodes of a model that run in torch, and why.

    Parameters
    ----------
    model : ModelProto
        A model from `export`.

    Returns
    -------
    Report
        It prints as a table, with the reason for each node.

    Examples
    --------
    >>> import torch, pyopnb, pyopnb.torch
    >>> model = pyopnb.torch.export(torch.nn.ReLU().eval(), (torch.ones(3),))
    >>> pyopnb.torch.report(model)
    Nothing runs in torch: the exporter has every op
    """
    return Report(model)


class Report(Sequence[Hole]):
    """The nodes of a model that run in torch, as a table; false if there are none.

    Attributes
    ----------
    cells : dict of str to str
        For each op (``torch.aten::inverse``), the text of a ``%%pyop`` cell to write it yourself.
    """

    def __init__(self, model: ModelProto) -> None:
        self._rows: list[Hole] = []
        self.cells: dict[str, str] = {}
        for node in protos.nodes_in(model.graph):
            metadata = metadata_of(node)
            if f"{_NOTE}op" not in metadata:
                continue
            notes = {name: metadata.get(f"{_NOTE}{name}", "") for name in _NOTES}
            self._rows.append(Hole(**notes))
            # One cell an op, with the types of its first call.
            op = f"{node.domain}::{node.op_type}"
            if op not in self.cells:
                self.cells[op] = skeleton(model, node)

    def __getitem__(self, place: Any) -> Any:
        return self._rows[place]

    def __len__(self) -> int:
        return len(self._rows)

    def _table(self) -> Table:
        head = ["op", "in", "called in", "types", "reason", "to have it in ONNX"]
        rows = []
        for hole in self._rows:
            remedy = hole.remedy or "an op of yours: its cell"
            rows.append([hole.op, hole.path, hole.line, hole.types, hole.reason, remedy])
        return Table(head, rows, "Nothing runs in torch: the exporter has every op")

    def __repr__(self) -> str:
        return repr(self._table())

    def _repr_html_(self) -> str:
        return self._table()._repr_html_()
