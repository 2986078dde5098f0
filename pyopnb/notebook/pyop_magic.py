"""``%%pyop`` and ``%pyop``."""

from __future__ import annotations

from IPython.core.error import UsageError
from IPython.core.magic import Magics, line_cell_magic, magics_class, no_var_expand

from pyopnb.display import show
from pyopnb.engine import registry
from pyopnb.notebook.arguments import PYOP, parse_pyop_line
from pyopnb.notebook.commands import COMMANDS, parse_command
from pyopnb.notebook.pyop_cell import run_cell
from pyopnb.notebook.tracebacks import one_line_errors

__all__ = ["PyopMagics"]

_DESCRIPTION = """\
Turn the class in this cell into an ONNX op. Running the cell again replaces the op in every live
session.

    %%pyop -d demo
    class SoftClip:
        def __init__(self, limit: float = 1.0):
            self.limit = limit
        def compute(self, x):
            return self.limit * np.tanh(x / self.limit)

The class is registered at the end of its statement, so later lines of the cell use it. If any line
of the cell raises, the new version is withdrawn and the previous one is used again.

    %%pyop -d demo --run x=np.float32([1, 2]), limit=2.0

also calls the op at once, like pyopnb.call. The arguments of --run are Python expressions: inputs
by name or position, and attrs by name. --run comes last on the line.

{commands}
"""


def _description() -> str:
    width = max(len(command.usage) for command in COMMANDS.values())
    rows = [
        ("%pyop", "list the ops"),
        *((command.usage, command.summary) for command in COMMANDS.values()),
    ]
    return _DESCRIPTION.format(
        commands="\n".join(f"    {form:{width}} {summary}" for form, summary in rows)
    )


PYOP.description = _description()


def _pyop(self: PyopMagics, line: str, cell: str | None = None) -> object:
    __tracebackhide__ = True
    if cell is not None:
        parse_pyop_line(line)
        if not cell.strip():
            raise UsageError(
                "%%pyop: expected a class with compute, got an empty cell. Try: %%pyop?"
            )
        return run_cell(self.shell, line, cell)
    with one_line_errors():
        if not line.strip():
            return show(registry)
        command, arguments = parse_command(line)
        return command.run(self.shell, arguments)


_pyop.__name__ = "pyop"
_pyop.__doc__ = PYOP.format_help()


@magics_class
class PyopMagics(Magics):
    """The magics that define and inspect ops."""

    pyop = no_var_expand(line_cell_magic(_pyop))
