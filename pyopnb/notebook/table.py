"""Tables of ops and versions, and a source."""

from __future__ import annotations

import html
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from pyopnb.ops.messages import sanitize_source
from pyopnb.ops.op import Op, Version
from pyopnb.ops.text_table import Table

__all__ = ["Source", "history_table", "registry_table"]


@dataclass(frozen=True, repr=False)
class Source:
    """The source of a version."""

    text: str

    def __repr__(self) -> str:
        return self.text

    def _repr_html_(self) -> str:
        text = html.escape(sanitize_source(self.text), quote=True)
        return f'<pre style="font-family:monospace;margin:0;white-space:pre;overflow-x:auto">{text}</pre>'


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
