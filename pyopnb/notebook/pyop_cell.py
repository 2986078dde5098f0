"""A ``%%pyop`` cell: how it becomes Python that IPython itself compiles, and how its classes become ops.

The first line is rewritten as a statement, so that the body keeps its line numbers, and IPython handles tracebacks, syntax
errors, breakpoints and the value of the last expression as in any cell. Calls are added to the syntax tree and not to the text,
so that they never show in a traceback.
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
from typing import Any, cast

from IPython.core.error import UsageError

from pyopnb.notebook.arguments import full_op_name, parse_pyop_line
from pyopnb.notebook.expressions import try_op
from pyopnb.notebook.tracebacks import one_line_errors
from pyopnb.ops.errors import DefinitionError
from pyopnb.ops.registry import registry
from pyopnb.ops.signature import schema_of

__all__ = ["OpRegistration", "check", "define", "run_cell", "transform_lines"]

_FIRST_LINE = re.compile(r"%%pyop(?:\s+(?P<line>.*))?", re.DOTALL)


def transform_lines(lines: list[str]) -> list[str]:
    """The input transformer: turns ``%%pyop LINE`` into a string literal that `OpRegistration` recognises.

    ``%%pyop`` without a body is left as it is: a prompt then waits for the body, as for any cell magic.
    """
    first = _FIRST_LINE.fullmatch(lines[0].rstrip()) if lines else None
    if first is None or (first["line"] or "").endswith("?") or not "".join(lines[1:]).strip():
        return lines
    # The obsolete prefix u distinguishes it from a cell that happens to begin with such a string.
    return [f"u{first[0]!r}\n", *lines[1:]]


class OpRegistration(ast.NodeTransformer):
    """The syntax tree transformer: adds a call of `check` before the body of the cell, and one of `define` after it.

    The last expression is passed through `define`, so that IPython displays its value, and a test written there can reject
    the op.
    """

    def visit(self, tree: ast.AST) -> ast.AST:
        line = _magic_line(tree)
        if line is None or not isinstance(tree, ast.Module):
            return tree
        first, *body = tree.body
        last = body[-1] if body else first
        call = _call(f"define({line!r}, {_assigned_names(body)!r})", at=last)
        if body and isinstance(last, ast.Expr):
            call.args.append(last.value)
            body.pop()
        tree.body = [_statement(_call(f"check({line!r})", at=first)), *body, _statement(call)]
        return tree


def _magic_line(tree: ast.AST) -> str | None:
    """What follows ``%%pyop`` if the tree is that of a transformed cell, otherwise None."""
    match tree:
        case ast.Module(body=[ast.Expr(value=ast.Constant(value=str(text), kind="u")), *_]):
            first = _FIRST_LINE.fullmatch(text)
            return None if first is None else first["line"] or ""
    return None


def _call(source: str, at: ast.stmt) -> ast.Call:
    """A call of a function of this module, at the position of another statement."""
    call = cast(ast.Call, ast.parse(f"__import__({__name__!r}, fromlist=['']).{source}", mode="eval").body)
    for node in ast.walk(call):
        ast.copy_location(node, at)
    return call


def _statement(call: ast.Call) -> ast.Expr:
    return ast.copy_location(ast.Expr(call), call)


def _assigned_names(body: list[ast.stmt]) -> list[str]:
    """The names that statements bind in their own namespace, in order."""
    names: dict[str, None] = {}
    stack: list[ast.AST] = [*reversed(body)]
    while stack:
        node = stack.pop()
        if isinstance(node, (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
            names[node.name] = None
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names[node.id] = None
        elif not isinstance(node, (ast.Lambda, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)):
            stack.extend(reversed(list(ast.iter_child_nodes(node))))
    return list(names)


def check(line: str) -> None:
    """Runs before the body of a cell: UsageError for a wrong line."""
    __tracebackhide__ = True
    parse_pyop_line(line)


def define(line: str, names: list[str], value: object = None) -> object:
    """Runs after the body of a cell: defines the classes with ``compute`` among ``names`` as ops.

    Returns
    -------
    object
        ``value``, which is the value of the cell's last expression; if there is none, the last call of ``--run``.
    """
    __tracebackhide__ = True
    frame = sys._getframe(1)
    args = parse_pyop_line(line)
    with one_line_errors():
        classes = _op_classes(names, frame.f_locals, args)
        op_names = [full_op_name(args, cls.__name__) for cls in classes]
        for cls in classes:  # all are checked before the first is defined
            schema_of(cls)
        source = "".join(linecache.getlines(frame.f_code.co_filename)[1:]) or None
        for cls, name in zip(classes, op_names, strict=True):
            _move_to_own_module(cls, frame.f_code.co_filename, frame.f_locals.get("__name__"))
            version = registry.define(cls, name, opset=args.opset, module=args.module, source=source)
            if not args.quiet:
                print(repr(version))
        for expressions in args.run:
            trial = try_op(version, expressions, frame.f_globals)
            if value is not None or expressions is not args.run[-1]:
                print(trial)
    return trial if args.run and value is None else value


def _op_classes(names: list[str], namespace: dict[str, Any], args: argparse.Namespace) -> list[type]:
    bound = dict.fromkeys(namespace[name] for name in names if isinstance(namespace.get(name), type))
    classes = [cls for cls in bound if cls.__module__ == namespace.get("__name__")]
    ops = [cls for cls in classes if hasattr(cls, "compute")]
    if not ops:
        where = f"class {', '.join(cls.__name__ for cls in classes)}" if classes else "%%pyop cell"
        expected, got = ("a compute method", "none") if classes else ("a class with compute", "no class")
        raise DefinitionError(where, expected=expected, got=got, next="def compute(self, x): return x")
    several = ", ".join(cls.__name__ for cls in ops)
    if args.run and len(ops) > 1:
        raise UsageError(f"%%pyop --run: expected one class with compute, got {several}. Try: one cell each, or pyopnb.call")
    if args.name and len(ops) > 1:
        raise UsageError(f"%%pyop {args.name}: expected one class with compute, got {several}. Try: one cell each, or no NAME")
    return ops


def _move_to_own_module(cls: type, file: str, main: str | None) -> None:
    """Give a class of a cell a module of its own, which inspect, pickle and cloudpickle need.

    They look for a class in its module's ``__file__``, and a notebook's ``__main__`` has none. The module's name has no dot,
    because pickle imports the parent of a dotted name. The previous class of that name returns to ``__main__``: the module now
    has the new source, which must not be shown for the old class.
    """
    name = f"pyop_cell_{cls.__name__}"
    module = sys.modules.setdefault(name, types.ModuleType(name, "Holds a class that was defined in a notebook cell."))
    previous = getattr(module, cls.__name__, None)
    if previous is not None and previous is not cls and main is not None:
        _set_module(previous, main)
    module.__file__ = file
    setattr(module, cls.__name__, cls)
    _set_module(cls, name)
    if importlib.util.find_spec("cloudpickle") is not None:
        importlib.import_module("cloudpickle").register_pickle_by_value(module)


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
    name = shell.compile.cache(text, shell.execution_count - 1, raw_code=raw)  # the running cell is already counted
    *first, last = shell.transform_ast(shell.compile.ast_parse(text, name)).body
    for node in first:
        # What IPython does with every cell; there is no other way to run one.
        exec(shell.compile(ast.Module([node], []), name, "exec"), shell.user_global_ns, shell.user_ns)  # noqa: S102
    return eval(shell.compile(ast.Expression(last.value), name, "eval"), shell.user_global_ns, shell.user_ns)  # noqa: S307
