"""The table of the versions of an op."""

from __future__ import annotations

import time
from collections.abc import Sequence

from pyopnb.common import Table
from pyopnb.engine import Version

__all__ = ["history_table"]


def history_table(versions: Sequence[Version]) -> Table:
    """List all versions of one op, the newest last."""
    rows = []
    for version in versions:
        restored = "" if version.restored is None else f"version {version.restored}"
        defined = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(version.defined))
        numbers = str(version.number), str(version.schema), str(version.opset)
        rows.append((version.op, *numbers, defined, restored))
    return Table(("op", "version", "schema", "opset", "defined", "restored from"), rows)
