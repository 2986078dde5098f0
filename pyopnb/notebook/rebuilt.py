"""Print a line of text under the cell when a session was rebuilt.

The warning of Python would be a red block that begins with the path of a temporary file.
"""

from __future__ import annotations

import warnings
from typing import Any

from pyopnb.errors import SessionRebuilt

__all__ = ["install", "uninstall"]


def install(shell: Any) -> None:
    """Print the warning `SessionRebuilt` of a cell as a notice; show other warnings as before."""
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
        # IPython knows which cell it has compiled under a name; a file of the user
        # keeps the usual warning.
        cell = shell.compile.format_code_name(filename)
        if file is None and cell is not None and issubclass(category, SessionRebuilt):
            print(f"{message} ({' '.join(cell)}, line {lineno})")
        else:
            show(message, category, filename, lineno, file, line)

    notice.replaced = show  # type: ignore[attr-defined]  # for uninstall
    warnings.showwarning = notice


def uninstall() -> None:
    """Undo `install`, unless other code has replaced `warnings.showwarning` since."""
    replaced = getattr(warnings.showwarning, "replaced", None)
    if replaced is not None:
        warnings.showwarning = replaced
