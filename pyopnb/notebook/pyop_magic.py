"""``%%pyop`` and ``%pyop``."""

from __future__ import annotations

from typing import Any

from IPython.core.error import UsageError
from IPython.core.magic import Magics, line_cell_magic, magics_class, no_var_expand

from pyopnb.notebook.arguments import CELL, read
from pyopnb.notebook.commands import COMMANDS, read_line
from pyopnb.notebook.pyop_cell import briefly, run
from pyopnb.notebook.table import registry_table
from pyopnb.ops.registry import registry

__all__ = ["PyopMagics"]

_DESCRIPTION = """\
Make the class in this cell an op of ONNX. Running the cell again replaces the op in every live session.

    %%pyop -d demo
    class SoftClip:
        def __init__(self, limit: float = 1.0):
            self.limit = limit
        def compute(self, x):
            return self.limit * np.tanh(x / self.limit)

A cell that fails, its last expression included, leaves the version before it in place.

    %%pyop -d demo --run x=np.float32([1, 2]), limit=2.0

tries the op at once, as pyopnb.call does. What --run says is Python, names of inputs first, then of attrs; it stands last on
the line.

{commands}
"""


def _described() -> str:
    wide = max(len(command.usage) for command in COMMANDS.values())
    rows = [("%pyop", "the ops that there are"), *((command.usage, command.does) for command in COMMANDS.values())]
    return _DESCRIPTION.format(commands="\n".join(f"    {form:{wide}} {does}" for form, does in rows))


CELL.description = _described()


def _pyop(self: PyopMagics, line: str, cell: str | None = None) -> object:
    __tracebackhide__ = True
    if cell is None:
        with briefly():
            return _answer(self.shell, line)
    read(line)
    if not cell.strip():
        raise UsageError("%%pyop: expected a class with compute, got an empty cell. Try: %%pyop?")
    return run(self.shell, line, cell)


_pyop.__name__ = "pyop"
_pyop.__doc__ = CELL.format_help()


@magics_class
class PyopMagics(Magics):
    """The magics that define ops and look at them."""

    pyop = no_var_expand(line_cell_magic(_pyop))


def _answer(shell: Any, line: str) -> object:
    __tracebackhide__ = True
    if not line.strip():
        return registry_table(registry)
    command, given = read_line(line)
    return command.answer(shell, given)
