"""The forms of messages, read from the places in the code that make them.

A form is the text of the arguments of one ``InputError(…)`` in the sources, put together by the
class itself, with ``{name}`` for a value.
"""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

import pyopnb

__all__ = ["forms"]

_PACKAGE = Path(pyopnb.__file__).parent
_Locals = dict[str, list[ast.expr]]


def forms(name: str) -> list[tuple[str, str]]:
    """Return ``(form, module)`` of each place that makes an error of this class, sorted.

    Parameters
    ----------
    name : str
        A subclass of `pyopnb.PyopError`, or the class itself.
    """
    cls = getattr(pyopnb.errors, name)
    return sorted(
        {
            (_form(cls, call, names), module)
            for called, call, names, module in _calls()
            if called == name
        }
    )


@cache
def _calls() -> list[tuple[str, ast.Call, _Locals, str]]:
    """Find each call of an error's class in the package.

    An item has the name of the class, the call, what the function around it assigns, and the
    module.
    """
    errors = set(pyopnb.errors.__all__)
    found = []
    for path in sorted(_PACKAGE.rglob("*.py")):
        module = ".".join(["pyopnb", *path.relative_to(_PACKAGE).with_suffix("").parts])
        ahead: list[tuple[ast.AST, _Locals]] = [(ast.parse(path.read_text(encoding="utf-8")), {})]
        while ahead:
            node, names = ahead.pop()
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                names = _assigned(node)
            match node:
                case ast.Call(func=ast.Name(id=name), args=[first, *_]) if (
                    name in errors and not isinstance(first, ast.Starred)
                ):
                    found.append((name, node, names, module))
            ahead += [(child, names) for child in ast.iter_child_nodes(node)]
    return found


def _assigned(function: ast.AST) -> _Locals:
    names: _Locals = {}
    for node in ast.walk(function):
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                names.setdefault(name, []).append(value)
            case ast.Assign(targets=[ast.Tuple(elts=targets)], value=ast.Tuple(elts=values)) if len(
                targets
            ) == len(values):
                for target, value in zip(targets, values, strict=True):
                    if isinstance(target, ast.Name):
                        names.setdefault(target.id, []).append(value)
    return names


def _form(cls: type[pyopnb.PyopError], call: ast.Call, names: _Locals) -> str:
    facts = {
        keyword.arg: _text(keyword.value, names)
        for keyword in call.keywords
        if keyword.arg is not None
    }
    return str(cls(_text(call.args[0], names), **facts))


def _text(value: ast.expr, names: _Locals) -> str:
    """Show an expression of the code as it looks in a message."""
    match value:
        case ast.Constant(value=str(text)):
            return text
        case ast.JoinedStr(values=parts):
            return "".join(_text(part, names) for part in parts)
        case ast.FormattedValue(value=ast.JoinedStr() as inner):
            return _text(inner, names)
        case ast.FormattedValue(value=inner):
            return _slot(inner)
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            return _text(left, names) + _text(right, names)
        case ast.IfExp(body=first, orelse=second):
            return " | ".join(text for text in (_text(first, names), _text(second, names)) if text)
        case ast.Name(id=name) if name in names and all(
            isinstance(one, ast.Constant | ast.JoinedStr) for one in names[name]
        ):
            return " | ".join(text for text in (_text(one, {}) for one in names[name]) if text)
        case _:
            return _slot(value)


def _slot(value: ast.expr) -> str:
    """Write ``{name}``, with the most telling name in an expression."""
    match value:
        case ast.Call(func=ast.Name(id="sanitize" | "str" | "repr" | "len"), args=[inner, *_]):
            return _slot(inner)
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return f"{{{name.strip('_')}}}"
        case ast.Constant(value=None):
            return ""
        case ast.IfExp(body=first):
            return _slot(first)
    return "{…}"
