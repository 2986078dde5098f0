"""Clicks in Netron, from the JupyterLab extension to the views of this kernel."""

from __future__ import annotations

from typing import Any

from pyopnb.display.netron.view import TARGET, clicked

__all__ = ["hear", "stop"]


def hear(shell: Any) -> None:
    """Take clicks from now on, where the shell has a kernel; a plain IPython has none."""
    kernel = getattr(shell, "kernel", None)
    if kernel is not None:
        kernel.comm_manager.register_target(TARGET, lambda comm, _: comm.on_msg(lambda message: _tell(shell, message)))


def stop(shell: Any) -> None:
    """Take no more."""
    kernel = getattr(shell, "kernel", None)
    if kernel is not None:
        kernel.comm_manager.targets.pop(TARGET, None)


def _tell(shell: Any, message: Any) -> None:
    __tracebackhide__ = True
    data = message["content"]["data"]
    try:
        clicked(str(data.get("view")), str(data.get("node")))
    except Exception:  # the user's function: shown as a cell's error is, below the view; the kernel would only log it
        shell.showtraceback()
