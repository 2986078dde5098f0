"""The subcommands of ``%pyop``: a table of what each takes, says and does."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from pyopnb.notebook.arguments import usage, words
from pyopnb.notebook.expressions import bound, given
from pyopnb.notebook.file_watcher import files
from pyopnb.notebook.names import model_of
from pyopnb.notebook.table import Source, history_table
from pyopnb.ops.errors import UnknownOp, closest, sanitize
from pyopnb.ops.registry import Version, registry

__all__ = ["COMMANDS", "Command", "Line", "read_line"]


@dataclass(frozen=True)
class Line:
    """What stands behind a subcommand.

    Attributes
    ----------
    places : list of str
        The words that are no options.
    options : set of str
    rest : str
        The text of expressions, where the subcommand takes some.
    """

    places: list[str]
    options: set[str]
    rest: str = ""

    def place(self, number: int) -> str | None:
        """The word of that place, or None."""
        return self.places[number] if number < len(self.places) else None


@dataclass(frozen=True)
class Command:
    """A subcommand: how it is typed, what it does in a few words, and the function that does it.

    In the form, a word in upper case stands for one that the user chooses, ``[N]`` for one that may be left out, ``...`` for
    more of the last kind, ``--cells`` for an option, and ``x=EXPR`` for expressions to the end of the line.
    """

    form: str
    does: str
    answer: Callable[[Any, Line], object]

    @property
    def name(self) -> str:
        return self.form.partition(" ")[0]

    @property
    def usage(self) -> str:
        return f"%pyop {self.form}"

    @property
    def takes(self) -> list[str]:
        """The words of the form that stand for words of the line, without brackets."""
        return [word.strip("[]") for word in self._parts if ("--" not in word and word.isupper()) or word == "FILE.py"]

    @property
    def options(self) -> list[str]:
        """The options of the form."""
        return [word.strip("[]") for word in self._parts if "--" in word]

    @property
    def _parts(self) -> list[str]:
        return [word for word in self.form.split()[1:] if word not in ("...", "[x=EXPR,...]")]

    @property
    def least(self) -> int:
        """How many words there must be."""
        return len([word for word in self._parts if "[" not in word and "--" not in word])

    @property
    def most(self) -> int | None:
        """How many words there may be; None where any number may."""
        return None if "..." in self.form.split() else len(self.takes)


def read_line(line: str) -> tuple[Command, Line]:
    """The subcommand of a ``%pyop`` line that is not empty, and what stands behind it, or UsageError."""
    name, _, behind = line.strip().partition(" ")
    command = COMMANDS.get(words(name)[0] if name[:1] in "'\"" else name)
    if command is None:
        close = closest(name, COMMANDS)
        raise usage("%pyop", f"{', '.join(COMMANDS)} or nothing", sanitize(name), COMMANDS[close].usage if close else "%pyop?")
    if "x=EXPR" in command.form:
        first, _, rest = behind.strip().partition(" ")
        read = Line(words(first), set(), rest.strip())
    else:
        split = words(behind)
        options = {word for word in split if word.startswith("--")}
        read = Line([word for word in split if word not in options], options)
    _refuse_wrong(command, read)
    return command, read


_KINDS = {
    "OP": "an op",
    "N": "a version",
    "A": "a version",
    "B": "a version",
    "MODEL": "a model's name or path",
    "NODE": "a node",
    "FILE.py": "a file that ends in .py",
}


def _refuse_wrong(command: Command, line: Line) -> None:
    named, takes = f"%pyop {command.name}", command.takes
    if unknown := sorted(line.options - set(command.options)):
        raise usage(named, " or ".join(command.options) or "no option", sanitize(unknown[0]), command.usage)
    if len(line.places) < command.least or (command.most is not None and len(line.places) > command.most):
        kinds = list(dict.fromkeys(_KINDS[word] for word in takes))
        raise usage(named, " and ".join(kinds), sanitize(" ".join(line.places)), command.usage)
    for word, text in zip(takes, line.places, strict=False):
        if word in ("N", "A", "B") and not text.isdecimal():
            raise usage(f"{named}, version", "a number", sanitize(text), command.usage)


# ---- what they do; each imports what it needs when it is first typed ---------------------------------------------------------


def _history(shell: Any, line: Line) -> object:
    return history_table(registry.history(line.places[0]))


def _rollback(shell: Any, line: Line) -> object:
    number = line.place(1)
    print(repr(registry.rollback(line.places[0], None if number is None else int(number))))
    return None


def _source(shell: Any, line: Line) -> object:
    version = _version(line.places[0], line.place(1))
    if version.source is None:
        raise UnknownOp(str(version), expected="a source", got="a class whose text was not kept")
    return Source(version.source)


def _version(op: str, number: str | None) -> Version:
    versions = registry.history(op)
    found = [version for version in versions if number is None or version.number == int(number)]
    if not found:
        kept = ", ".join(str(version.number) for version in versions)
        raise UnknownOp(f"op {versions[0].op}", expected=f"one of versions {kept}", got=str(number))
    return found[-1]


def _diff(shell: Any, line: Line) -> object:
    from pyopnb.diffs.api import diff

    op, first, second = line.places[0], line.place(1), line.place(2)
    versions = registry.history(op)
    if first is None and len(versions) < 2:
        raise UnknownOp(f"op {versions[0].op}, diff", expected="two versions", got="one", next="run its cell again, changed")
    old = versions[-2] if first is None else _version(op, first)
    return diff(old, _version(op, second))


def _check(shell: Any, line: Line) -> object:
    __tracebackhide__ = True
    from pyopnb.testing.check import check

    version = _version(line.places[0], None)
    try:
        what = given(line.rest)
    except SyntaxError:
        next_ = "%pyop check OP x=np.ones(3), limit=2.0"
        raise usage(f"%pyop check {line.places[0]}", "x=EXPR, y=EXPR", sanitize(line.rest), next_) from None
    names = {name for name, _ in what.named} & {port.name for port in version.schema.inputs}
    if not what.placed and not names:  # attrs alone: the inputs are made from the hints
        return check(version.op, **what.values(shell.user_ns)[1])
    inputs, attrs = bound(version, what, shell.user_ns)
    arrays = [None if item is None else np.asarray(item) for item in inputs]
    return check(version.op, (*arrays, attrs))


def _missing(shell: Any, line: Line) -> object:
    from pyopnb.models.support.missing import missing
    from pyopnb.onnx_reference.skeleton import skeleton

    model = model_of(line.places[0])
    found = missing(model)
    if "--cells" in line.options and found:
        rows = list({row.op: row for row in found if row.site is not None}.values())
        if rows:
            shell.set_next_input(str(skeleton(model, rows[0])))
            rest = f"; {len(rows) - 1} more to come, when this line runs again" if len(rows) > 1 else ""
            print(f"The cell below is for {rows[0].op}{rest}.")
    return found


def _skeleton(shell: Any, line: Line) -> object:
    from pyopnb.onnx_reference.skeleton import skeleton

    model, node = line.places
    shell.set_next_input(str(skeleton(model_of(model), node)))  # a cell below, or the next prompt
    return None


def _load(shell: Any, line: Line) -> object:
    __tracebackhide__ = True
    from pyopnb.ops.module_files import load_module

    path = line.places[0]
    for version in load_module(path):
        print(repr(version))
    files(shell).forget(path)
    if "--watch" in line.options:
        files(shell).follow(path)
        print(f"{sanitize(path)} is loaded again whenever it is saved; until: %pyop load {sanitize(path)}")
    return None


def _save(shell: Any, line: Line) -> object:
    from pyopnb.ops.module_files import save_module

    path, *ops = line.places
    for version in save_module(path, *ops, overwrite="--overwrite" in line.options):
        print(f"{sanitize(path)}: {version!r}")
    return None


COMMANDS = {
    command.name: command
    for command in (
        Command("history OP", "the versions of an op", _history),
        Command("rollback OP [N]", "bring an earlier version back", _rollback),
        Command("source OP [N]", "the text of a version", _source),
        Command("diff OP [A] [B]", "what changed between versions; the last two", _diff),
        Command("check OP [x=EXPR,...]", "is it fit to be used in models", _check),
        Command("missing MODEL [--cells]", "the nodes that ONNX Runtime cannot run; the first's cell below", _missing),
        Command("skeleton MODEL NODE", "the cell for one of them, put below", _skeleton),
        Command("load FILE.py [--watch]", "run a file for its ops; again whenever it is saved", _load),
        Command("save FILE.py [OP] ... [--overwrite]", "write ops as a file that can be imported", _save),
    )
}
"""Subcommands by their names."""
