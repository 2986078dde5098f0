"""The subcommands of ``%pyop``: a table with the form, the summary and the function of each."""

from __future__ import annotations

import os
from argparse import Namespace
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from onnx import ModelProto

from pyopnb.common import messages, sanitize
from pyopnb.engine import Version, registry
from pyopnb.errors import ModelError, UnknownName
from pyopnb.notebook.arguments import MagicParser, split_words, usage_error
from pyopnb.notebook.expressions import bind, check_expressions, user_namespace
from pyopnb.notebook.file_watcher import FileWatcher
from pyopnb.notebook.table import history_table

__all__ = ["COMMANDS", "Command", "find_model", "parse_command"]


@dataclass(frozen=True)
class Command:
    """A subcommand: its form, a sentence of help, and its function.

    In the form, a word in upper case is an argument, ``[N]`` an optional one, ``[OP...]`` any
    number of them, ``[--cells]`` an option, and ``[x=EXPR,...]`` expressions up to the end of
    the line.
    """

    form: str
    summary: str
    run: Callable[[Any, Namespace], object]

    @property
    def name(self) -> str:
        return self.form.partition(" ")[0]

    @property
    def usage(self) -> str:
        return f"%pyop {self.form}"

    @property
    def takes_expressions(self) -> bool:
        return "EXPR" in self.form

    @cached_property
    def parser(self) -> MagicParser:
        """Make the parser of the form without its expressions."""
        parser = MagicParser(f"%pyop {self.name}", next=self.usage)
        parser.allow_abbrev = False
        for word in self.form.replace(" [x=EXPR,...]", "").split()[1:]:
            name = word.strip("[].")
            if name.startswith("--"):
                parser.add_argument(name, action="store_true")
            else:
                nargs = "*" if "..." in word else "?" if "[" in word else None
                kind = int if name in ("N", "A", "B") else str
                # Without a default argparse lists "*" as required.
                default: list[str] | None = [] if nargs == "*" else None
                parser.add_argument(name, nargs=nargs, default=default, type=kind)
        return parser


def parse_command(line: str) -> tuple[Command, Namespace]:
    """Parse a ``%pyop`` line into its subcommand and arguments, or raise UsageError."""
    name, _, words = line.strip().partition(" ")
    command = COMMANDS.get(split_words(name)[0] if name[:1] in "'\"" else name)
    if command is None:
        close = messages.closest(name, COMMANDS)
        next_ = COMMANDS[close].usage if close else "%pyop?"
        raise usage_error("%pyop", f"{', '.join(COMMANDS)} or nothing", sanitize(name), next_)
    expressions = ""
    # Expressions are not split as a shell would: their quotes and spaces are Python's.
    if command.takes_expressions:
        words, _, expressions = words.strip().partition(" ")
    arguments = command.parser.parse_intermixed_args(
        split_words(words), Namespace(expressions=expressions.strip())
    )
    return command, arguments


def find_model(text: str) -> Any:
    """Return the notebook's variable of that name, or else the text, which is a path.

    Raises
    ------
    UnknownName
        There is no such file, and a variable with a model has a similar name.
    """
    variables = user_namespace()
    if text in variables:
        return variables[text]
    models = [name for name, value in variables.items() if isinstance(value, ModelProto)]
    near = messages.closest(text, models)
    if near and not os.path.exists(text):
        expected = "a variable with a model, or a file"
        raise UnknownName("model", expected=expected, got=text, next=near)
    return text


# ---- the functions; each imports its needs at first use ------------------------------------------


def _history(shell: Any, args: Namespace) -> object:
    return history_table(registry.history(args.OP))


def _rollback(shell: Any, args: Namespace) -> object:
    print(repr(registry.rollback(args.OP, args.N)))
    return None


def _panel(shell: Any, args: Namespace) -> object:
    from pyopnb.notebook.live.cells import LiveCells
    from pyopnb.notebook.live.panel import Panel

    return Panel(LiveCells.of(shell))


def _remove(shell: Any, args: Namespace) -> object:
    op = registry[args.OP]
    registry.remove(op.name)
    print(f"{op.name} is removed. Sessions that use it keep version {op.current.number}")
    return None


def _source(shell: Any, args: Namespace) -> object:
    version = _find_version(args.OP, args.N)
    if version.source is None:
        raise UnknownName(
            str(version),
            expected="its source",
            got="a class whose source was not recorded",
            next="define it in a cell with %%pyop",
        )
    print(messages.sanitize_source(version.source))
    return None


def _find_version(op: str, number: int | None) -> Version:
    if number is None:
        return registry[op].versions[-1]
    return registry[op].find_version(number)


def _diff(shell: Any, args: Namespace) -> object:
    from pyopnb.diffs import diff

    versions = registry.history(args.OP)
    if args.A is None and len(versions) < 2:
        raise UnknownName(
            f"op {versions[0].op}, diff",
            expected="two versions",
            got="one",
            next="edit its cell and run it again",
        )
    old = versions[-2] if args.A is None else _find_version(args.OP, args.A)
    return diff(old, _find_version(args.OP, args.B))


def _check(shell: Any, args: Namespace) -> object:
    __tracebackhide__ = True
    from pyopnb.testing import check

    return _on_examples("check", check, shell, args)


def _forms(shell: Any, args: Namespace) -> object:
    __tracebackhide__ = True
    from pyopnb.lowering import forms

    return _on_examples("forms", forms, shell, args)


def _on_examples(name: str, function: Callable[..., object], shell: Any, args: Namespace) -> object:
    """Call a function with the current version of an op and the inputs and attrs of the line."""
    __tracebackhide__ = True
    version = _find_version(args.OP, None)
    try:
        text = check_expressions(args.expressions)
    except SyntaxError:
        where, next_ = f"%pyop {name} {args.OP}", f"%pyop {name} OP x=np.ones(3), limit=2.0"
        raise usage_error(where, "x=EXPR, y=EXPR", sanitize(args.expressions), next_) from None
    inputs, attrs = bind(version, text, shell.user_ns)
    # Attrs alone leave the inputs to the function, which generates some by the schema.
    return function(version.op, *inputs, **attrs)


def _missing(shell: Any, args: Namespace) -> object:
    from pyopnb.models import missing
    from pyopnb.onnx_reference import skeleton

    model = find_model(args.MODEL)
    table = missing(model)
    # One cell serves all nodes of an op, so each op is offered once.
    rows = list({row.op: row for row in table if row.site is not None}.values())
    while args.cells and rows:
        row = rows.pop(0)
        try:
            cell = skeleton(model, row)
        except ModelError as error:
            # An op cannot have sequences, for example. The next node may have a cell.
            print(f"There is no cell for {row.op}: {error}")
            continue
        shell.set_next_input(str(cell))
        remark = f"; {len(rows)} more missing: run this line again" if rows else ""
        print(f"The cell below is for {row.op}{remark}.")
        break
    return table


def _skeleton(shell: Any, args: Namespace) -> object:
    from pyopnb.onnx_reference import skeleton

    # Jupyter puts it into a cell below, IPython at the next prompt.
    shell.set_next_input(str(skeleton(find_model(args.MODEL), args.NODE)))
    return None


def _catalog(shell: Any, args: Namespace) -> object:
    from pyopnb.catalog import search

    return search(" ".join(args.TEXT))


def _load(shell: Any, args: Namespace) -> object:
    __tracebackhide__ = True
    from pyopnb.models import load_module

    for version in load_module(args.FILE):
        print(repr(version))
    watcher = FileWatcher.of(shell)
    # A plain load of a watched file ends the watching, which is how it is stopped.
    watcher.unwatch(args.FILE)
    if args.watch:
        watcher.watch(args.FILE)
        print(
            f"{sanitize(args.FILE)} is reloaded whenever it is saved. "
            f"To stop: %pyop load {sanitize(args.FILE)}"
        )
    return None


def _save(shell: Any, args: Namespace) -> object:
    from pyopnb.models import save_module

    for version in save_module(args.FILE, *args.OP, overwrite=args.overwrite):
        print(f"{sanitize(args.FILE)}: {version!r}")
    return None


COMMANDS = {
    command.name: command
    for command in (
        Command("history OP", "list the versions of an op", _history),
        Command("rollback OP [N]", "restore an earlier version", _rollback),
        Command("remove OP", "remove an op; live sessions keep it", _remove),
        Command("source OP [N]", "show the source of a version", _source),
        Command("diff OP [A] [B]", "compare two versions; default: the last two", _diff),
        Command("check OP [x=EXPR,...]", "test whether an op is ready for use in models", _check),
        Command(
            "forms OP [x=EXPR,...]",
            "compare the forms of an op, as Python and as an ONNX function: results, times, nodes",
            _forms,
        ),
        Command("panel", "show the ops with buttons, and the sessions that use them", _panel),
        Command(
            "missing MODEL [--cells]",
            "list the nodes that ONNX Runtime cannot run; "
            "--cells puts a cell for the first one below",
            _missing,
        ),
        Command("skeleton MODEL NODE", "put a cell for one of these nodes below", _skeleton),
        Command(
            "catalog [TEXT...]",
            "list operators that fill=True runs and that ONNX and ONNX Runtime lack",
            _catalog,
        ),
        Command(
            "load FILE [--watch]",
            "run a file that defines ops; --watch runs it again whenever it is saved",
            _load,
        ),
        Command(
            "save FILE [OP...] [--overwrite]", "write ops to a module that can be imported", _save
        ),
    )
}
"""Subcommands by name."""
