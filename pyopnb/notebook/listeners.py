"""Objects that a shell calls before each cell, until the extension is unloaded."""

from __future__ import annotations

from typing import Any, Self

__all__ = ["ShellListener", "close_all", "is_ours"]


class ShellListener:
    """An object that a shell calls before each cell; a shell has at most one of each subclass."""

    def __init__(self, shell: Any) -> None:
        self._shell = shell
        shell.events.register("pre_run_cell", self.before_cell)

    @classmethod
    def of(cls, shell: Any) -> Self:
        """Return the shell's listener of this class, creating it on first use.

        Only the shell's list of callbacks holds a reference to it.
        """
        # A package that is imported again finds the listener of the earlier import there.
        for callback in shell.events.callbacks["pre_run_cell"]:
            if isinstance(listener := getattr(callback, "__self__", None), cls):
                return listener
        return cls(shell)

    def before_cell(self, info: Any) -> None:
        """Take note that a cell is about to run; IPython calls this."""
        raise NotImplementedError

    def close(self) -> None:
        """Stop listening."""
        self._shell.events.unregister("pre_run_cell", self.before_cell)


def close_all(shell: Any) -> None:
    """Close every listener of a shell."""
    for callback in [
        callback for callback in shell.events.callbacks["pre_run_cell"] if is_ours(callback)
    ]:
        callback.__self__.close()


def is_ours(part: object) -> bool:
    """Tell whether this room defined the object.

    The module's name decides: a package that was imported again must recognize the objects of the
    earlier import in the shell.
    """
    return (getattr(part, "__module__", None) or "").startswith("pyopnb.notebook.")
