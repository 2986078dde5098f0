"""Tables of ops and versions."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence

from pyopnb.engine.ops.op import Op, Version
from pyopnb.engine.ops.text_table import Table

__all__ = ["history_table", "registry_table"]


def registry_table(ops: Iterable[Op]) -> Table:
    """List the ops with their current versions."""
    rows = [_row(op.name, op.current) for op in ops]
    return Table(
        ("op", "version", "schema", "opset", "defined"),
        rows,
        "No op is defined. Try: %%pyop in a cell",
    )


def history_table(versions: Sequence[Version]) -> Table:
    """List all versions of one op, the newest last."""
    rows = [
        (*_row(v.op, v), "" if v.restored is None else f"version {v.restored}") for v in versions
    ]
    return Table(("op", "version", "schema", "opset", "defined", "restored from"), rows)


def _row(name: str, version: Version) -> tuple[str, ...]:
    defined = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(version.defined))
    return name, str(version.number), str(version.schema), str(version.opset), defined
