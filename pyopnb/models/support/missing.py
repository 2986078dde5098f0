"""The nodes of a model that the installed ONNX Runtime cannot run, and why."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from onnx import ModelProto

from pyopnb.common import Table, sanitize
from pyopnb.engine import check_arguments, model_files, op_names, opset_versions, protos
from pyopnb.models.support.catalog_names import misuse, node_entry
from pyopnb.models.support.lacking import lacks
from pyopnb.models.support.unsupported import MIXED, WRONG_ATTR

__all__ = ["Missing", "MissingNode", "missing"]


_SHOWN = 200
"""Rows that the table shows; the sequence has all of them."""


@dataclass(frozen=True)
class MissingNode:
    """A node that the runtime cannot run.

    Attributes
    ----------
    site : Site or None
        The node and its position; None for an import that is too new.
    op : str
        ``domain::OpType-N``, where N is the version that introduced the operator, if that is known.
    kind : str
        ``"unknown op"``, ``"unknown domain"``, ``"no kernel"``, ``"no kernel for dtype"``,
        ``"mixed dtypes"``, ``"wrong attr"`` or ``"opset too new"``.
    reason : str
        A sentence for the table of `missing`.
    is_in_catalog : bool
        Whether `fill` runs it with an operator of the catalog.
    """

    site: protos.Site | None
    op: str
    kind: str
    reason: str
    is_in_catalog: bool = False

    @property
    def node(self) -> str:
        """Return the node's name, or its first output if it has no name."""
        if self.site is None:
            return ""
        return self.site.node.name or protos.first_output(self.site.node)

    @property
    def path(self) -> str:
        """Return the body or function that the node is in; ``""`` for the main graph."""
        if self.site is None:
            return ""
        return self.site.path

    @property
    def where(self) -> str:
        """Return the node as messages name it."""
        if self.site is None:
            return f"import of {self.op}"
        return self.site.where

    @property
    def is_misuse(self) -> bool:
        """Tell whether the operator is there, and takes no such inputs or attributes."""
        return self.kind in (MIXED, WRONG_ATTR)

    def __str__(self) -> str:
        return f"{self.where}: {self.kind}: {self.reason}"


class Missing(tuple[MissingNode, ...]):
    """The result of `missing`: a tuple of nodes that prints as a table.

    It is false if the runtime can run every node.
    """

    __slots__ = ()

    def _table(self) -> Table:
        rows = []
        for row in self[:_SHOWN]:
            catalog = "has it" if row.is_in_catalog else ""
            rows.append((row.node, row.op, row.kind, row.reason, catalog, row.path))
        if len(self) > _SHOWN:
            rows.append((f"and {len(self) - _SHOWN} more", "", "", "", "", ""))
        head = ("node", "op", "missing", "reason", "catalog", "in")
        # The last two are mostly empty.
        filled = [n for n in range(len(head)) if n < 4 or any(row[n] for row in rows)]
        text = "Nothing is missing: the installed ONNX Runtime has a kernel for every node"
        return Table([head[n] for n in filled], [[row[n] for n in filled] for row in rows], text)

    def __repr__(self) -> str:
        return repr(self._table())

    def _repr_html_(self) -> str:
        return self._table()._repr_html_()


@check_arguments
def missing(model: ModelProto | bytes | str | os.PathLike[str]) -> Missing:
    """List the nodes that the installed ONNX Runtime cannot run on the CPU, and why.

    The answer comes from the runtime lists of operators and kernels, so the model is not
    loaded and external data is not read. Kernels that refuse some attributes are made alone. Bodies
    are included, and local functions once per call.
    Nodes of registered ops and of the retired PyOp do not count as missing. The IR version is not
    checked, nor refusals of a kernel at run time.

    Parameters
    ----------
    model : ModelProto, bytes, str or os.PathLike
        The rows refer to the nodes of a ModelProto itself, not to copies.

    Returns
    -------
    Missing
        A tuple of `MissingNode`, which is empty if every node runs.

    Raises
    ------
    ModelError
        There is no model, a name is defined twice, nodes form a cycle, or a function calls itself.

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
    proto = model_files.as_proto(model)
    new = list(opset_versions.new_imports(proto))
    rows = []
    imported = protos.imported_versions(proto)
    for site, lack in lacks(proto, new):
        op = sanitize(protos.full_name(site.node))
        if lack.since:
            op = f"{op}-{lack.since}"
        version = imported.get(op_names.canonical_domain(site.node.domain))
        is_known = node_entry(site.node, version) is not None and not misuse(site.node, version)
        rows.append(MissingNode(site, op, lack.kind, lack.reason, is_known))
    shown = {
        protos.full_name(row.site.node).partition("::")[0]
        for row in rows
        if row.site and row.kind == "opset too new"
    }
    return Missing([*rows, *_imports(new, shown)])


def _imports(new: Sequence[opset_versions.NewImport], shown: set[str]) -> Iterator[MissingNode]:
    """Yield a row for each import that is too new and whose changes the installed onnx cannot list.

    A domain that a row of a node shows gets none.
    """
    for new_import in new:
        if not new_import.known and new_import.domain not in shown:
            shown.add(new_import.domain)
            name = f"{sanitize(new_import.domain or 'ai.onnx')}"
            reason = (
                f"the runtime takes {name} up to {new_import.newest}, "
                "and the installed onnx cannot say what changed"
            )
            yield MissingNode(None, f"{name}-{new_import.entry.version}", "opset too new", reason)
