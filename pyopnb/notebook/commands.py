"""The subcommands of ``%pyop``: a table with the form, the summary and the function of each."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from IPython.core.getipython import get_ipython
from onnx import ModelProto

from pyopnb.notebook.arguments import split_words, usage_error
from pyopnb.notebook.expressions import bind, parse_expressions
from pyopnb.notebook.file_watcher import FileWatcher
from pyopnb.notebook.table import Source, history_table
from pyopnb.ops.errors import UnknownOp, closest, sanitize
from pyopnb.ops.registry import Version, registry

__all__ = ["COMMANDS", "Arguments", "Command", "find_model", "parse_command", "user_namespace"]


@dataclass(frozen=True)
class Arguments:
    """What follows a subcommand on its line.

    Attributes
    ----------
    words : list of str
        The words that are not options.
    options : set of str
    expressions : str
        Unparsed, where the subcommand takes some.
    """

    words: list[str]
    options: set[str]
    expressions: str = ""

    def optional(self, index: int) -> str | None:
        """The word at an index, or None."""
        return self.words[index] if index < len(self.words) else None


@dataclass(frozen=True)
class Command:
    """A subcommand: how it is typed, what it does, and the function that does it.

    In the form, a word in upper case is a placeholder, ``[N]`` an optional one, ``...`` repeats the last one, ``--cells`` is an
    option, and ``x=EXPR`` stands for expressions up to the end of the line.
    """

    form: str
    summary: str
    run: Callable[[Any, Arguments], object]

    @property
    def name(self) -> str:
        return self.form.partition(" ")[0]

    @property
    def usage(self) -> str:
        return f"%pyop {self.form}"

    @property
    def placeholders(self) -> list[str]:
        """The placeholders of the form, without brackets."""
        return [word.strip("[]") for word in self._parts if ("--" not in word and word.isupper()) or word == "FILE.py"]

    @property
    def options(self) -> list[str]:
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
        """How many words there may be; None if there is no limit."""
        return None if "..." in self.form.split() else len(self.placeholders)

    @property
    def takes_expressions(self) -> bool:
        return "x=EXPR" in self.form


def parse_command(line: str) -> tuple[Command, Arguments]:
    """The subcommand of a ``%pyop`` line that is not empty, and its arguments, or UsageError."""
    name, _, rest = line.strip().partition(" ")
    command = COMMANDS.get(split_words(name)[0] if name[:1] in "'\"" else name)
    if command is None:
        close = closest(name, COMMANDS)
        next_ = COMMANDS[close].usage if close else "%pyop?"
        raise usage_error("%pyop", f"{', '.join(COMMANDS)} or nothing", sanitize(name), next_)
    if command.takes_expressions:
        first, _, expressions = rest.strip().partition(" ")
        arguments = Arguments(split_words(first), set(), expressions.strip())
    else:
        words = split_words(rest)
        options = {word for word in words if word.startswith("--")}
        arguments = Arguments([word for word in words if word not in options], options)
    _check_arguments(command, arguments)
    return command, arguments


_PLACEHOLDERS = {
    "OP": "an op",
    "N": "a version",
    "A": "a version",
    "B": "a version",
    "MODEL": "a model's name or path",
    "NODE": "a node",
    "FILE.py": "a file that ends in .py",
}


def _check_arguments(command: Command, arguments: Arguments) -> None:
    where, placeholders, words = f"%pyop {command.name}", command.placeholders, arguments.words
    if unknown := sorted(arguments.options - set(command.options)):
        raise usage_error(where, " or ".join(command.options) or "no option", sanitize(unknown[0]), command.usage)
    if len(words) < command.least or (command.most is not None and len(words) > command.most):
        expected = " and ".join(dict.fromkeys(_PLACEHOLDERS[word] for word in placeholders))
        raise usage_error(where, expected, sanitize(" ".join(words)), command.usage)
    for placeholder, word in zip(placeholders, words, strict=False):
        if placeholder in ("N", "A", "B") and not word.isdecimal():
            raise usage_error(f"{where}, version", "a number", sanitize(word), command.usage)


def user_namespace() -> dict[str, Any]:
    """The notebook's variables; empty where there is no shell."""
    shell = get_ipython()
    return shell.user_ns if shell is not None else {}


def find_model(text: str) -> Any:
    """The notebook's variable of that name if it holds a model or a path; otherwise the text itself, as a path."""
    value = user_namespace().get(text)
    return value if isinstance(value, (ModelProto, bytes, str, os.PathLike)) else text


# ---- the functions; each imports what it needs when it is first used ---------------------------------------------------------


def _history(shell: Any, arguments: Arguments) -> object:
    return history_table(registry.history(arguments.words[0]))


def _rollback(shell: Any, arguments: Arguments) -> object:
    number = arguments.optional(1)
    print(repr(registry.rollback(arguments.words[0], None if number is None else int(number))))
    return None


def _source(shell: Any, arguments: Arguments) -> object:
    version = _find_version(arguments.words[0], arguments.optional(1))
    if version.source is None:
        raise UnknownOp(str(version), expected="its source", got="a class whose source was not recorded")
    return Source(version.source)


def _find_version(op: str, number: str | None) -> Version:
    versions = registry.history(op)
    if number is None:
        return versions[-1]
    for version in versions:
        if version.number == int(number):
            return version
    known = ", ".join(str(version.number) for version in versions)
    raise UnknownOp(f"op {versions[0].op}", expected=f"one of versions {known}", got=number)


def _diff(shell: Any, arguments: Arguments) -> object:
    from pyopnb.diffs.api import diff

    op, first, second = arguments.words[0], arguments.optional(1), arguments.optional(2)
    versions = registry.history(op)
    if first is None and len(versions) < 2:
        raise UnknownOp(f"op {versions[0].op}, diff", expected="two versions", got="one", next="edit its cell and run it again")
    old = versions[-2] if first is None else _find_version(op, first)
    return diff(old, _find_version(op, second))


def _check(shell: Any, arguments: Arguments) -> object:
    __tracebackhide__ = True
    from pyopnb.testing.check import check

    version = _find_version(arguments.words[0], None)
    try:
        expressions = parse_expressions(arguments.expressions)
    except SyntaxError:
        where, next_ = f"%pyop check {arguments.words[0]}", "%pyop check OP x=np.ones(3), limit=2.0"
        raise usage_error(where, "x=EXPR, y=EXPR", sanitize(arguments.expressions), next_) from None
    ports = {port.name for port in version.schema.inputs}
    if not expressions.positional and not any(name in ports for name, _ in expressions.named):  # check generates the inputs
        return check(version.op, **expressions.evaluate(shell.user_ns)[1])
    inputs, attrs = bind(version, expressions, shell.user_ns)
    arrays = [None if item is None else np.asarray(item) for item in inputs]
    return check(version.op, (*arrays, attrs))


def _missing(shell: Any, arguments: Arguments) -> object:
    from pyopnb.models.support.missing import missing
    from pyopnb.onnx_reference.skeleton import skeleton

    model = find_model(arguments.words[0])
    table = missing(model)
    rows = list({row.op: row for row in table if row.site is not None}.values())
    if "--cells" in arguments.options and rows:
        shell.set_next_input(str(skeleton(model, rows[0])))
        rest = f"; {len(rows) - 1} more missing: run this line again" if len(rows) > 1 else ""
        print(f"The cell below is for {rows[0].op}{rest}.")
    return table


def _skeleton(shell: Any, arguments: Arguments) -> object:
    from pyopnb.onnx_reference.skeleton import skeleton

    model, node = arguments.words
    shell.set_next_input(str(skeleton(find_model(model), node)))  # in a cell below, or at the next prompt
    return None


def _load(shell: Any, arguments: Arguments) -> object:
    __tracebackhide__ = True
    from pyopnb.ops.module_files import load_module

    path = arguments.words[0]
    for version in load_module(path):
        print(repr(version))
    watcher = FileWatcher.of(shell)
    watcher.unwatch(path)
    if "--watch" in arguments.options:
        watcher.watch(path)
        print(f"{sanitize(path)} is reloaded whenever it is saved. To stop: %pyop load {sanitize(path)}")
    return None


def _save(shell: Any, arguments: Arguments) -> object:
    from pyopnb.ops.module_files import save_module

    path, *ops = arguments.words
    for version in save_module(path, *ops, overwrite="--overwrite" in arguments.options):
        print(f"{sanitize(path)}: {version!r}")
    return None


COMMANDS = {
    command.name: command
    for command in (
        Command("history OP", "list the versions of an op", _history),
        Command("rollback OP [N]", "restore an earlier version", _rollback),
        Command("source OP [N]", "show the source of a version", _source),
        Command("diff OP [A] [B]", "compare two versions; default: the last two", _diff),
        Command("check OP [x=EXPR,...]", "test whether an op is ready for use in models", _check),
        Command("missing MODEL [--cells]", "list the nodes ONNX Runtime cannot run; put a cell for the first below", _missing),
        Command("skeleton MODEL NODE", "put a cell for one of these nodes below", _skeleton),
        Command("load FILE.py [--watch]", "run a file for its ops; again whenever it is saved", _load),
        Command("save FILE.py [OP] ... [--overwrite]", "write ops to a module that can be imported", _save),
    )
}
"""Subcommands by name."""
