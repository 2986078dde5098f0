"""A ``%%pyop`` cell: how it becomes Python that IPython itself compiles, and what its classes become afterwards.

The first line turns into a statement, so that the body keeps its line numbers and IPython gives tracebacks, syntax errors,
breakpoints and the value of the last expression as in any cell. What is added to the cell is added to its syntax tree and not
to its text: it can never stand in a traceback.
"""

from __future__ import annotations

import argparse
import ast
import importlib
import importlib.util
import linecache
import re
import sys
import types
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, cast

from IPython.core.error import UsageError

from pyopnb.notebook.arguments import op_name, read
from pyopnb.notebook.expressions import tried
from pyopnb.ops.errors import DefinitionError, PyopError
from pyopnb.ops.registry import registry
from pyopnb.ops.signature import schema_of

__all__ = ["Registration", "as_python", "briefly", "check", "define", "run"]

_FIRST_LINE = re.compile(r"%%pyop(?:\s+(?P<line>.*))?", re.DOTALL)


def as_python(lines: list[str]) -> list[str]:
    """The input transformer: ``%%pyop LINE`` becomes a string literal, which `Registration` knows again.

    ``%%pyop`` alone stays as it is: a prompt then waits for the body, as for any cell magic.
    """
    first = _FIRST_LINE.fullmatch(lines[0].rstrip()) if lines else None
    if first is None or (first["line"] or "").endswith("?") or not "".join(lines[1:]).strip():
        return lines
    # The prefix u, which nobody writes any more, tells it from a cell that merely begins with such a string.
    return [f"u{first[0]!r}\n", *lines[1:]]


class Registration(ast.NodeTransformer):
    """The syntax tree transformer: arguments are checked before the body runs, and ops are defined after all of it ran.

    The last expression goes through `define`, so that its value is shown, and a test that stands there keeps a wrong op out.
    """

    def visit(self, tree: ast.AST) -> ast.AST:
        line = _line_of(tree)
        if line is None or not isinstance(tree, ast.Module):
            return tree
        first, *body = tree.body
        last = body[-1] if body else first
        call = _call(f"define({line!r}, {_bound(body)!r})", at=last)
        if body and isinstance(last, ast.Expr):
            call.args.append(last.value)
            body.pop()
        tree.body = [_statement(_call(f"check({line!r})", at=first)), *body, _statement(call)]
        return tree


def _line_of(tree: ast.AST) -> str | None:
    match tree:
        case ast.Module(body=[ast.Expr(value=ast.Constant(value=str(text), kind="u")), *_]):
            first = _FIRST_LINE.fullmatch(text)
            return None if first is None else first["line"] or ""
    return None


def _call(call: str, at: ast.stmt) -> ast.Call:
    """A call of a function of this module that stands where ``at`` stands."""
    expression = cast(ast.Call, ast.parse(f"__import__({__name__!r}, fromlist=['']).{call}", mode="eval").body)
    for node in ast.walk(expression):
        ast.copy_location(node, at)
    return expression


def _statement(call: ast.Call) -> ast.Expr:
    return ast.copy_location(ast.Expr(call), call)


def _bound(body: list[ast.stmt]) -> list[str]:
    """The names that statements bind in their own namespace, in their order."""
    names: dict[str, None] = {}
    ahead: list[ast.AST] = [*reversed(body)]
    while ahead:
        node = ahead.pop()
        if isinstance(node, (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
            names[node.name] = None
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names[node.id] = None
        elif not isinstance(node, (ast.Lambda, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)):
            ahead.extend(reversed(list(ast.iter_child_nodes(node))))
    return list(names)


def check(line: str) -> None:
    """What runs in a cell before its body: UsageError for a wrong line."""
    __tracebackhide__ = True
    read(line)


def define(line: str, names: list[str], value: object = None) -> object:
    """What runs in a cell after its body: the classes with ``compute`` among ``names`` become ops.

    Returns
    -------
    object
        ``value``, which is that of the cell's last expression; where it has none, the last call of ``--run``.
    """
    __tracebackhide__ = True
    cell = sys._getframe(1)
    args = read(line)
    with briefly():
        classes = _ops_among(names, cell.f_locals, args)
        wanted = [(cls, op_name(args, cls.__name__)) for cls in classes]
        for cls in classes:  # all of them are looked at before the first is put into the registry
            schema_of(cls)
        source = "".join(linecache.getlines(cell.f_code.co_filename)[1:]) or None
        for cls, name in wanted:
            _house(cls, cell.f_code.co_filename, cell.f_locals.get("__name__"))
            version = registry.define(cls, name, opset=args.opset, module=args.module, source=source)
            if not args.quiet:
                print(repr(version))
        if not args.run:
            return value
        for what in args.run:
            last = tried(version, what, cell.f_globals)
            if value is not None or what is not args.run[-1]:
                print(last)
    return last if value is None else value


def _ops_among(names: list[str], namespace: dict[str, Any], args: argparse.Namespace) -> list[type]:
    bound = dict.fromkeys(namespace[name] for name in names if isinstance(namespace.get(name), type))
    here = [cls for cls in bound if cls.__module__ == namespace.get("__name__")]
    ops = [cls for cls in here if hasattr(cls, "compute")]
    if not ops:
        where = f"class {', '.join(cls.__name__ for cls in here)}" if here else "%%pyop cell"
        expected, got = ("a method compute", "no compute") if here else ("a class with compute", "no class")
        raise DefinitionError(where, expected=expected, got=got, next="def compute(self, x): return x")
    if args.run and len(ops) > 1:
        several = ", ".join(cls.__name__ for cls in ops)
        raise UsageError(f"%%pyop --run: expected one class with compute, got {several}. Try: one cell each, or pyopnb.call")
    if args.name and len(ops) > 1:
        several = ", ".join(cls.__name__ for cls in ops)
        raise UsageError(f"%%pyop {args.name}: expected one class with compute, got {several}. Try: one cell each, or no NAME")
    return ops


def _house(cls: type, file: str, home: str | None) -> None:
    """Give a class of a cell a module of its own, which is what inspect, pickle and cloudpickle look for.

    A class is looked for in its module's ``__file__``, and ``__main__`` of a notebook has none. The module's name has no dot,
    because pickle imports the parent of a dotted one. The class that had the place goes back to ``__main__``: its source is no
    longer to be found under this name, and nothing must show the new one for it.
    """
    name = f"pyop_cell_{cls.__name__}"
    module = sys.modules.setdefault(name, types.ModuleType(name, "Holds a class that was defined in a notebook cell."))
    former = getattr(module, cls.__name__, None)
    if former is not None and former is not cls and home is not None:
        _move(former, home)
    module.__file__ = file
    setattr(module, cls.__name__, cls)
    _move(cls, name)
    if importlib.util.find_spec("cloudpickle") is not None:
        importlib.import_module("cloudpickle").register_pickle_by_value(module)


def _move(cls: type, module: str) -> None:
    # Python 3.13 forgets the line of a class whose module is set, and inspect reads nothing else.
    line = vars(cls).get("__firstlineno__")
    cls.__module__ = module
    if line is not None:
        cls.__firstlineno__ = line  # type: ignore[attr-defined]  # new in 3.13


@contextmanager
def briefly() -> Iterator[None]:
    """What pyopnb refuses is shown as one line: no line of the user's raised it, so that a traceback leads nowhere."""
    __tracebackhide__ = True
    try:
        yield
    except PyopError as error:
        text = f"{type(error).__name__}: {error}"
        error._render_traceback_ = lambda: [text]  # type: ignore[attr-defined]  # IPython's protocol
        raise


def run(shell: Any, line: str, body: str) -> object:
    """Run a cell that did not come through the input transformer: ``run_cell_magic("pyop", line, body)``."""
    __tracebackhide__ = True
    raw = f"%%pyop {line}\n{body}"
    text = shell.transform_cell(raw)
    name = shell.compile.cache(text, shell.execution_count - 1, raw_code=raw)  # the cell that runs has been counted
    *first, last = shell.transform_ast(shell.compile.ast_parse(text, name)).body
    for node in first:
        # What IPython does with every cell; there is no other way to run one.
        exec(shell.compile(ast.Module([node], []), name, "exec"), shell.user_global_ns, shell.user_ns)  # noqa: S102
    return eval(shell.compile(ast.Expression(last.value), name, "eval"), shell.user_global_ns, shell.user_ns)  # noqa: S307
