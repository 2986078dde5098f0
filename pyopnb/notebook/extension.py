"""The parts that ``%load_ext pyopnb`` adds to a shell, and ``%unload_ext pyopnb`` removes."""

from __future__ import annotations

from typing import Any

from pyopnb.common import progress
from pyopnb.display import TARGET, clicked
from pyopnb.notebook import notices, tracebacks
from pyopnb.notebook.completion import complete
from pyopnb.notebook.cppop_magic import CppopMagics
from pyopnb.notebook.listeners import close_all, is_ours
from pyopnb.notebook.onnx_magic import OnnxMagics
from pyopnb.notebook.patched import PatchedOps
from pyopnb.notebook.progress import progress_bar, progress_panel
from pyopnb.notebook.pyop_cell import OpRegistration, transform_lines
from pyopnb.notebook.pyop_magic import PyopMagics

__all__ = ["load", "unload"]

_SKELETON = "pyopnb.onnx_reference.skeletons.SkeletonCell"
_FUNCTION = "onnx.onnx_ml_pb2.FunctionProto"


def load(shell: Any) -> None:
    """Add the extension to a shell. Loading twice has the effect of loading once."""
    # Loading again replaces the parts that an earlier load or import of the package left in
    # the shell.
    unload(shell)
    shell.register_magics(PyopMagics, CppopMagics, OnnxMagics)
    shell.input_transformers_cleanup.append(transform_lines)
    shell.ast_transformers += [PatchedOps(shell), OpRegistration()]
    shell.Completer.custom_matchers.append(complete)
    tracebacks.install(shell)
    notices.install(shell)
    progress.set_bar(progress_bar)
    progress.set_panel(progress_panel)
    if comms := _comm_manager(shell):
        comms.register_target(
            TARGET, lambda comm, _: comm.on_msg(lambda message: _on_netron_click(shell, message))
        )
    # A skeleton that ends a cell is put below it, ready to run. Registered by name, so that
    # nothing is imported for it.
    shell.display_formatter.ipython_display_formatter.for_type(
        _SKELETON, lambda cell: shell.set_next_input(str(cell))
    )
    # lower returns a proto, which cannot draw itself.
    shell.display_formatter.formatters["text/html"].for_type(_FUNCTION, _function_html)


def _function_html(function: object) -> str:
    from pyopnb.display import show

    return show(function).body


def unload(shell: Any) -> None:
    """Remove the extension from a shell. Its ops stay in the registry; live outputs end."""
    close_all(shell)
    for part in shell.ast_transformers:
        if is_ours(part) and hasattr(part, "close"):
            part.close()
    shell.display_formatter.ipython_display_formatter.pop(_SKELETON, None)
    shell.display_formatter.formatters["text/html"].pop(_FUNCTION, None)
    progress.set_bar(None)
    progress.set_panel(None)
    tracebacks.uninstall()
    notices.uninstall()
    if comms := _comm_manager(shell):
        comms.targets.pop(TARGET, None)
    magics = shell.magics_manager
    for table in (magics.magics["line"], magics.magics["cell"], magics.registry):
        # IPython has no way to take a magic out again.
        for name in [name for name, part in table.items() if is_ours(part)]:
            del table[name]
    for parts in (
        shell.input_transformers_cleanup,
        shell.ast_transformers,
        shell.Completer.custom_matchers,
        shell.configurables,
    ):
        parts[:] = [part for part in parts if not is_ours(part)]


def _comm_manager(shell: Any) -> Any:
    """Return the kernel's comms, or None in a plain IPython, which has no kernel."""
    kernel = getattr(shell, "kernel", None)
    if kernel is None:
        return None
    return kernel.comm_manager


def _on_netron_click(shell: Any, message: Any) -> None:
    """Pass a click in Netron, reported by the JupyterLab extension, to its view."""
    __tracebackhide__ = True
    data = message["content"]["data"]
    try:
        clicked(str(data.get("view")), str(data.get("node")))
    except Exception:
        # From the user's callback: displayed below the view like a cell's error; the
        # kernel would only log it.
        shell.showtraceback()
