"""What ``%load_ext pyopnb`` puts into a shell, and ``%unload_ext pyopnb`` takes out again."""

from __future__ import annotations

from typing import Any

from pyopnb.notebook import clicks, completion, onnx_magic
from pyopnb.notebook.live.shell import end
from pyopnb.notebook.progress import progress_bar
from pyopnb.notebook.pyop_cell import Registration, as_python
from pyopnb.notebook.pyop_magic import PyopMagics
from pyopnb.notebook.tracebacks import show_briefly, show_fully
from pyopnb.ops.progress import set_bar

__all__ = ["load", "unload"]

_CELL = "pyopnb.onnx_reference.skeleton.Cell"


def load(shell: Any) -> None:
    """Put the extension into a shell. Loading twice is loading once."""
    unload(shell)
    shell.register_magics(PyopMagics, onnx_magic.OnnxMagics)
    shell.input_transformers_cleanup.append(as_python)
    shell.ast_transformers.append(Registration())
    shell.Completer.custom_matchers += [completion.complete, onnx_magic.complete]
    show_briefly(shell)
    set_bar(progress_bar)
    clicks.hear(shell)
    # A skeleton that a cell ends in appears below, ready to run; by name, so that nothing is imported for it.
    shell.display_formatter.ipython_display_formatter.for_type(_CELL, lambda cell: shell.set_next_input(str(cell)))


def unload(shell: Any) -> None:
    """Take the extension out of a shell. Ops that it defined stay in the registry; what is live in outputs ends."""
    end(shell)
    shell.display_formatter.ipython_display_formatter.pop(_CELL, None)
    set_bar(None)
    show_fully()
    for callback in list(shell.events.callbacks["pre_run_cell"]):
        if _is_ours(callback):
            shell.events.unregister("pre_run_cell", callback)
            callback.__self__.end()
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
