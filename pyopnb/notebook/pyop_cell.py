"""Turn a ``%%pyop`` cell into Python that IPython compiles, and its classes into ops.

The first line is rewritten as a statement, so that the body keeps its line numbers, and IPython
handles tracebacks, syntax errors, breakpoints and the value of the last expression as in any cell.
Calls are added to the syntax tree and not to the text, so they never appear in a traceback.
"""

from __future__ import annotations

import ast
import importlib
import importlib.util
import linecache
import re
import sys
import types
from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass
from types import FrameType
from typing import Any, cast

from IPython.core.error import UsageError

from pyopnb.engine import Version, op_names, op_run, ort_capabilities, registry, schema_of
from pyopnb.errors import DefinitionError
from pyopnb.notebook.arguments import full_op_name, parse_pyop_line, refuse_domain
from pyopnb.notebook.expressions import try_op
from pyopnb.notebook.tracebacks import one_line_errors

__all__ = [
    "Cell",
    "OpRegistration",
    "check",
    "define",
    "end",
    "run_cell",
    "transform_lines",
    "value",
]

_FIRST_LINE = re.compile(r"%%pyop(?:\s+(?P<line>.*))?", re.DOTALL)


def transform_lines(lines: list[str]) -> list[str]:
    """Turn ``%%pyop LINE`` into a string literal that `OpRegistration` recognizes.

    This is an input transformer of IPython. ``%%pyop`` without a body is left as it is: a prompt
    then waits for the body, as for any cell magic.
    """
    first = _FIRST_LINE.fullmatch(lines[0].rstrip()) if lines else None
    if first is None or (first["line"] or "").endswith("?") or not "".join(lines[1:]).strip():
        return lines
    # The obsolete prefix u distinguishes it from a cell that happens to begin with such a string.
    return [f"u{first[0]!r}\n", *lines[1:]]


class OpRegistration(ast.NodeTransformer):
    """The syntax tree transformer, which makes the body run in a `Cell`.

    The cell defines each class where its statement ends. The value of the last expression is passed
    through the cell: IPython displays it, and a test written there can reject the op.
    """

    def visit(self, tree: ast.AST) -> ast.AST:
        line = _magic_line(tree)
        if line is None or not isinstance(tree, ast.Module):
            return tree
        # Remove the literal in place of the magic's line, but keep its position for the calls
        # that are added.
        first, *body = tree.body
        last = tree.body[-1]
        end = _call(f"end({_assigned_names(body)!r})", at=last)
        # The value of the last expression is handed to the cell, so that a failing assertion there
        # still withdraws the op.
        if body and isinstance(last, ast.Expr):
            end.args.append(last.value)
            body.pop()
        futures: list[ast.stmt] = []
        guarded: list[ast.stmt] = []
        for statement in body:
            if isinstance(statement, ast.ImportFrom) and statement.module == "__future__":
                futures.append(statement)
                continue
            guarded.append(statement)
            # Define after each statement that may bind a class, such as ``A = made()``, because the
            # next statement may already run a session.
            names = _assigned_names([statement])
            if names:
                guarded.append(_statement(_call(f"define({names!r})", at=statement)))
        cell = ast.With(
            [ast.withitem(_call(f"Cell({line!r})", at=first))], [*guarded, _statement(end)]
        )
        tree.body = [
            _statement(_call(f"check({line!r})", at=first)),
            # Python wants them outside of any block.
            *futures,
            ast.copy_location(cell, first),
            _statement(_call("value()", at=last)),
        ]
        return tree


def _magic_line(tree: ast.AST) -> str | None:
    """Return the arguments of ``%%pyop`` in a transformed cell's tree, or None for other trees."""
    match tree:
        case ast.Module(body=[ast.Expr(value=ast.Constant(value=str(text), kind="u")), *_]):
            first = _FIRST_LINE.fullmatch(text)
            return first and (first["line"] or "")
    return None


def _call(source: str, at: ast.stmt) -> ast.Call:
    """Make a call of a function of this module, at the position of another statement."""
    call = cast(
        ast.Call, ast.parse(f"__import__({__name__!r}, fromlist=['']).{source}", mode="eval").body
    )
    # Without positions of the user's own lines a traceback would point at lines that do not
    # exist.
    for node in ast.walk(call):
        ast.copy_location(node, at)
    return call


def _statement(call: ast.Call) -> ast.Expr:
    return ast.copy_location(ast.Expr(call), call)


def _assigned_names(body: list[ast.stmt]) -> list[str]:
    """List the names that statements bind in their own namespace, in order."""
    names: dict[str, None] = {}
    stack: list[ast.AST] = [*reversed(body)]
    while stack:
        node = stack.pop()
        if isinstance(node, (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
            names[node.name] = None
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names[node.id] = None
        elif not isinstance(
            node, (ast.Lambda, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
        ):
            stack.extend(reversed(list(ast.iter_child_nodes(node))))
    return list(names)


def check(line: str) -> None:
    """Raise a UsageError for a wrong line, before the body of the cell runs."""
    __tracebackhide__ = True
    parse_pyop_line(line)


class Cell:
    """The body of a cell while it runs, whose ops are withdrawn if it fails."""

    def __init__(self, line: str) -> None:
        self.args = parse_pyop_line(line)
        self.value: object = None
        self._defined: list[_Defined] = []

    def __enter__(self) -> None:
        # A context variable and not a global: cells of several threads or tasks can run at once.
        self._token = _running.set(self)

    def __exit__(self, error: type[BaseException] | None, *_: object) -> None:
        __tracebackhide__ = True
        _running.reset(self._token)
        # Only a cell that ran to its end may change the versions in sessions.
        if error is None:
            _ended.set(self)
        else:
            self._withdraw()

    @property
    def version(self) -> Version:
        """Return the version that was defined last."""
        return self._defined[-1].version

    def define(self, names: list[str], frame: FrameType) -> None:
        """Define the classes with ``compute`` that have these names, unless they are defined."""
        __tracebackhide__ = True
        # Classes that were imported or made elsewhere belong to another module and are no ops of
        # this cell.
        main = frame.f_locals.get("__name__")
        bound = dict.fromkeys(
            frame.f_locals[name] for name in names if isinstance(frame.f_locals.get(name), type)
        )
        classes = [op_run.written_class(defined.version.cls) for defined in self._defined]
        for cls in bound:
            is_op = hasattr(cls, "compute") or op_run.is_op_run(cls)
            if cls.__module__ == main and cls not in classes and is_op:
                self._refuse_several([*classes, cls])
                self._define(cls, frame)

    def _refuse_several(self, classes: list[type]) -> None:
        several = ", ".join(dict.fromkeys(cls.__name__ for cls in classes))
        option = "--run" if self.args.run else self.args.name
        if option and "," in several:
            text = f"%%pyop {option}: expected one class with compute, got {several}"
            raise UsageError(f"{text}. Try: one cell each")

    def _define(self, cls: type, frame: FrameType) -> None:
        args, file = self.args, frame.f_code.co_filename
        refuse_domain(args, cls.__name__)
        name = full_op_name(args, cls.__name__)
        # Refuse before anything is changed.
        schema_of(op_run.as_op(cls))
        former = _move_to_own_module(cls, file, frame.f_locals.get("__name__"))
        modules = registry.modules_of(name)
        # IPython keeps the cell's text in linecache. Its first line is the magic.
        source = "".join(linecache.getlines(file)[1:]) or None
        try:
            registry.define(cls, name, opset=args.opset, module=args.module, source=source)
        finally:
            # If a listener raised, the version is defined nevertheless.
            op = registry.find(*op_names.split_name(name))
            if op is not None and op_run.written_class(op.current.cls) is cls:
                self._defined.append(_Defined(op.current, modules, former))
        if not args.quiet:
            print(repr(self.version))
            if self.version.gradient is not None:
                print(f"  with its gradient, {self.version.gradient.op}")
            if len(registry[name].versions) == 1:
                _say_if_it_replaces(name)

    def end(self, names: list[str], frame: FrameType) -> None:
        """Define classes that are new or have changed, and refuse a cell without an op."""
        __tracebackhide__ = True
        self.define(names, frame)
        bound = [value for name in names if isinstance(value := frame.f_locals.get(name), type)]
        outdated = [item.version.cls for item in self._defined if item.is_outdated]
        for cls in map(op_run.written_class, outdated):
            # The cell has set an attribute of the class since.
            self._define(cls, frame)
        if not self._defined:
            main = frame.f_locals.get("__name__")
            several = ", ".join(cls.__name__ for cls in bound if cls.__module__ == main)
            if several:
                next_ = "def compute(self, x): return x"
                where = f"class {several}"
                raise DefinitionError(where, expected="a compute method", got="none", next=next_)
            next_ = "class Same: compute = lambda self, x: x"
            expected = "a class with compute"
            raise DefinitionError("%%pyop cell", expected=expected, got="no class", next=next_)

    def _withdraw(self) -> None:
        # In reverse, so that an op that was defined twice ends at the version from before the cell.
        for item in reversed(self._defined):
            registry.withdraw(item.version, modules=item.modules)
            item.restore_module()
            op = registry.find(*op_names.split_name(item.version.op))
            now = f"version {op.current.number} is current again" if op else "the op is not defined"
            if not self.args.quiet:
                print(f"{item.version} is withdrawn because its cell failed; {now}")


def _say_if_it_replaces(name: str) -> None:
    domain, op_type = op_names.split_name(name)
    if ort_capabilities.has_op(domain, op_type):
        whose = f"the ONNX Runtime {domain}::{op_type}" if domain else f"the ONNX {op_type}"
        text = f"{name} takes the place of {whose} in each session that is made from now on"
        print(f"{text}. To undo: %pyop remove {name}")


@dataclass(frozen=True)
class _Defined:
    """A version that a cell has defined, and the one to restore if the cell fails."""

    version: Version
    modules: tuple[str, ...]
    restore_module: Callable[[], None]

    @property
    def is_outdated(self) -> bool:
        return schema_of(op_run.as_op(self.version.cls)) != self.version.schema


_running: ContextVar[Cell] = ContextVar("running")
_ended: ContextVar[Cell] = ContextVar("ended")


def define(names: list[str]) -> None:
    """Define the classes that a statement may have bound.

    The rewritten cell calls this after each statement that binds a name.
    """
    __tracebackhide__ = True
    with one_line_errors():
        _running.get().define(names, sys._getframe(1))


def end(names: list[str], value: object = None) -> None:
    """End a cell with the value of its last expression.

    The rewritten cell calls this as its last statement.
    """
    __tracebackhide__ = True
    cell = _running.get()
    cell.value = value
    with one_line_errors():
        cell.end(names, sys._getframe(1))


def value() -> object:
    """Call the op for each ``--run``, after the body of the cell.

    Returns
    -------
    object
        The value of the cell's last expression; if there is none, the last call of ``--run``.
    """
    __tracebackhide__ = True
    cell, namespace = _ended.get(), sys._getframe(1).f_globals
    trials = []
    with one_line_errors():
        for expressions in cell.args.run:
            trials.append(try_op(cell.version, expressions, namespace))
    if trials and cell.value is None:
        cell.value = trials.pop()
    for trial in trials:
        print(trial)
    return cell.value


def _move_to_own_module(cls: type, file: str, main: str | None) -> Callable[[], None]:
    """Give a class of a cell a module of its own, which inspect, pickle and cloudpickle need.

    They look for a class in its module's ``__file__``, and a notebook's ``__main__`` has none. The
    module's name has no dot, because pickle imports the parent of a dotted name. The previous
    class of that name returns to ``__main__``: the module now has the new source, which must not
    be shown for the old class.

    Returns
    -------
    callable
        Undoes it.
    """
    name = f"pyop_cell_{cls.__name__}"
    module = sys.modules.setdefault(name, types.ModuleType(name))
    previous, previous_file = getattr(module, cls.__name__, None), getattr(module, "__file__", None)
    if previous is not None and previous is not cls and main is not None:
        _set_module(previous, main)
    module.__file__ = file
    setattr(module, cls.__name__, cls)
    _set_module(cls, name)
    if importlib.util.find_spec("cloudpickle") is not None:
        importlib.import_module("cloudpickle").register_pickle_by_value(module)

    def undo() -> None:
        if main is not None:
            _set_module(cls, main)
        setattr(module, cls.__name__, previous)
        module.__file__ = previous_file
        if previous is not None:
            _set_module(previous, name)

    return undo


def _set_module(cls: type, module: str) -> None:
    # Python 3.13 drops the line number of a class whose module is set, and inspect relies on it.
    line = vars(cls).get("__firstlineno__")
    cls.__module__ = module
    if line is not None:
        cls.__firstlineno__ = line  # type: ignore[attr-defined]  # new in 3.13


def run_cell(shell: Any, line: str, body: str) -> object:
    """Run a cell that bypassed the input transformer: ``run_cell_magic("pyop", line, body)``."""
    __tracebackhide__ = True
    raw = f"%%pyop {line}\n{body}"
    text = shell.transform_cell(raw)
    # The running cell is already counted.
    name = shell.compile.cache(
        text,
        shell.execution_count - 1,
        raw_code=raw,
    )
    *first, last = shell.transform_ast(shell.compile.ast_parse(text, name)).body
    for node in first:
        # As IPython does with every cell; there is no other way to run one.
        code = shell.compile(ast.Module([node], []), name, "exec")
        exec(code, shell.user_global_ns, shell.user_ns)  # noqa: S102
    code = shell.compile(ast.Expression(last.value), name, "eval")
    return eval(code, shell.user_global_ns, shell.user_ns)  # noqa: S307
