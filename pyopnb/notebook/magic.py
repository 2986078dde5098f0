"""``%%pyop`` and ``%pyop``."""

from __future__ import annotations

from typing import Any

from IPython.core.error import UsageError
from IPython.core.magic import Magics, line_cell_magic, magics_class, no_var_expand

from pyopnb.gaps.missing import missing
from pyopnb.notebook.cell import briefly, described, run
from pyopnb.notebook.line import CELL, read, read_subcommand
from pyopnb.notebook.models import model_of
from pyopnb.notebook.table import Source, history_table, registry_table
from pyopnb.ops.errors import UnknownOp
from pyopnb.ops.registry import Version, registry
from pyopnb.standins.skeleton import skeleton

__all__ = ["PyopMagics"]

CELL.description = """\
Make the class in this cell an op of ONNX. Running the cell again replaces the op in every live session.

    %%pyop -d demo
    class SoftClip:
        def __init__(self, limit: float = 1.0):
            self.limit = limit
        def compute(self, x):
            return self.limit * np.tanh(x / self.limit)

A cell that fails, its last expression included, leaves the version before it in place.

    %pyop                     the ops that there are
    %pyop history OP          the versions of an op
    %pyop rollback OP [N]     bring an earlier version back
    %pyop source OP [N]       the text of a version
    %pyop missing MODEL       the nodes that the installed ONNX Runtime cannot run
    %pyop skeleton MODEL NODE the cell for one of them, put below
"""


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
    if not line.strip():
        return registry_table(registry)
    command, op, second = read_subcommand(line)
    if command == "skeleton":
        shell.set_next_input(str(skeleton(model_of(op), second)))  # a cell below, or the next prompt
        return None
    number = None if second is None else int(second)
    if command == "missing":
        return missing(model_of(op))
    if command == "history":
        return history_table(registry.history(op))
    if command == "source":
        return _source(_version(op, number))
    print(described(registry.rollback(op, number)))
    return None


def _version(op: str, number: int | None) -> Version:
    versions = registry.history(op)
    found = [version for version in versions if number in (None, version.number)]
    if not found:
        kept = ", ".join(str(version.number) for version in versions)
        raise UnknownOp(f"op {versions[0].op}", expected=f"one of versions {kept}", got=str(number))
    return found[-1]


def _source(version: Version) -> Source:
    if version.source is None:
        raise UnknownOp(str(version), expected="a source", got="a class whose text was not kept")
    return Source(version.source)
