"""What ``%load_ext pyopnb`` puts into a shell, and ``%unload_ext pyopnb`` takes out again."""

from __future__ import annotations

from typing import Any

from pyopnb.notebook import clicks, graph, line
from pyopnb.notebook.cell import Registration, as_python
from pyopnb.notebook.magic import PyopMagics

__all__ = ["load", "unload"]

_CELL = "pyopnb.standins.skeleton.Cell"


def load(shell: Any) -> None:
    """Put the extension into a shell. Loading twice is loading once."""
    unload(shell)
    shell.register_magics(PyopMagics, graph.OnnxMagics)
    shell.input_transformers_cleanup.append(as_python)
    shell.ast_transformers.append(Registration())
    shell.Completer.custom_matchers += [line.complete, graph.complete]
    clicks.hear(shell)
    # A skeleton that a cell ends in appears below, ready to run; by name, so that nothing is imported for it.
    shell.display_formatter.ipython_display_formatter.for_type(_CELL, lambda cell: shell.set_next_input(str(cell)))


def unload(shell: Any) -> None:
    """Take the extension out of a shell. Ops that it defined stay in the registry."""
    shell.display_formatter.ipython_display_formatter.pop(_CELL, None)
    clicks.stop(shell)
    for kind in ("line", "cell"):
        _drop_ours_from_table(shell.magics_manager.magics[kind])
    _drop_ours_from_table(shell.magics_manager.registry)
    for parts in (
        shell.input_transformers_cleanup,
        shell.ast_transformers,
        shell.Completer.custom_matchers,
        shell.configurables,
    ):
        parts[:] = [part for part in parts if not _is_ours(part)]


def _drop_ours_from_table(table: dict[str, Any]) -> None:
    for name in [name for name, part in table.items() if _is_ours(part)]:
        del table[name]


def _is_ours(part: object) -> bool:
    # By name, not by identity: a package that was imported anew must still find what its former self left.
    return (getattr(part, "__module__", None) or "").startswith("pyopnb.notebook.")
