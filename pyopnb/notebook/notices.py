"""Print the warnings of pyopnb as plain text under the cell that caused them.

A warning of Python would be a red block that begins with the path of a temporary file.
"""

from __future__ import annotations

import warnings
from typing import Any

from pyopnb.notebook.tracebacks import cell_of

__all__ = ["install", "uninstall"]


def install(shell: Any) -> None:
    """Print warnings of pyopnb that a cell caused as notices; show other warnings as before."""
    uninstall()
    show = warnings.showwarning

    def notice(
        message: Warning | str,
        category: type[Warning],
        filename: str,
        lineno: int,
        file: Any = None,
        line: str | None = None,
    ) -> None:
        # A file of the user keeps the usual warning.
        cell = cell_of(shell, filename)
        if file is None and cell and category.__module__.startswith("pyopnb."):
            head, newline, rest = str(message).partition("\n")
            colon = ":" if head.endswith(":") else ""
            print(f"{head.removesuffix(':')} ({cell}, line {lineno}){colon}{newline}{rest}")
        else:
            show(message, category, filename, lineno, file, line)

    notice.replaced = show  # type: ignore[attr-defined]  # for uninstall
    warnings.showwarning = notice


def uninstall() -> None:
    """Undo `install`, unless other code has replaced `warnings.showwarning` since."""
    replaced = getattr(warnings.showwarning, "replaced", None)
    if replaced is not None:
        warnings.showwarning = replaced
