"""Inputs and attrs written on a line, ``x=np.ones(3), limit=2.0``, and an op called with them."""

from __future__ import annotations

import ast
import linecache
from dataclasses import dataclass
from typing import Any

from pyopnb.errors import InputError
from pyopnb.ops.messages import closest, sanitize
from pyopnb.ops.op import Version

__all__ = ["Expressions", "bind", "parse_expressions", "try_op"]

_FILE = "<values of the line>"


@dataclass(frozen=True)
class Expressions:
    """The arguments of a call, not yet evaluated.

    Attributes
    ----------
    positional : tuple of ast.expr
    named : tuple of (str, ast.expr)
    text : str
        The call that they were parsed from, which tracebacks show.
    """

    positional: tuple[ast.expr, ...]
    named: tuple[tuple[str, ast.expr], ...]
    text: str

    def evaluate(self, namespace: dict[str, Any]) -> tuple[list[Any], dict[str, Any]]:
        """Their values in a namespace."""
        __tracebackhide__ = True
        # Tracebacks and debuggers look up the line of an expression here.
        linecache.cache[_FILE] = (len(self.text), None, self.text.splitlines(keepends=True), _FILE)
        positional, keywords = [], {}
        # A comprehension would be a frame in the user's traceback.
        for node in self.positional:
            positional.append(_evaluate(node, namespace))
        for name, node in self.named:
            keywords[name] = _evaluate(node, namespace)
        return positional, keywords


def parse_expressions(text: str) -> Expressions:
    """Parse the arguments of a Python call, or raise SyntaxError. Quotes around all of them are removed."""
    call_text = f"call({text})"
    call = ast.parse(call_text, mode="eval").body
    if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Name):
        raise SyntaxError("more than one call")
    match call:
        case ast.Call(args=[ast.Constant(value=str(inner))], keywords=[]) if "=" in inner:
            return parse_expressions(inner)
    keywords = {keyword.arg: keyword.value for keyword in call.keywords}
    if None in keywords or len(keywords) < len(call.keywords):
        raise SyntaxError("a starred argument, or a repeated name")
    if any(isinstance(arg, ast.Starred) for arg in call.args):
        raise SyntaxError("a starred argument")
    named = tuple((str(name), value) for name, value in keywords.items())
    return Expressions(tuple(call.args), named, call_text)


def _evaluate(node: ast.expr, namespace: dict[str, Any]) -> Any:
    __tracebackhide__ = True
    return eval(compile(ast.Expression(node), _FILE, "eval"), namespace)  # noqa: S307  # the user's own line


def bind(
    version: Version, expressions: Expressions, namespace: dict[str, Any]
) -> tuple[list[Any], dict[str, Any]]:
    """Evaluate expressions as the arguments of an op: inputs by position or by name, and attrs.

    Returns
    -------
    tuple of list and dict
        The inputs in the order of the ports, None for an omitted one; and the attrs.

    Raises
    ------
    InputError
        A name is neither a port nor an attr, or an input is given twice.
    """
    __tracebackhide__ = True
    inputs, attrs = expressions.evaluate(namespace)
    schema = version.schema
    ports = [port.name for port in schema.inputs]
    names = [*ports, *(attr.name for attr in schema.attrs)]
    for name in attrs:
        is_twice = name in ports[: len(inputs)]
        if is_twice or not (name in names or schema.open_attrs):
            where = f"{version}, {sanitize(name)}"
            expected = "one value" if is_twice else f"one of {', '.join(names) or 'nothing'}"
            next_ = f"{closest(name, names) or '…'}=…"
            raise InputError(where, expected=expected, got=sanitize(name), next=next_)
    for name in ports[len(inputs) :]:
        inputs.append(attrs.pop(name, None))
    # What is left out at the end is left out as a node would leave it out.
    while inputs and inputs[-1] is None:
        inputs.pop()
    return inputs, attrs


def try_op(version: Version, expressions: Expressions, namespace: dict[str, Any]) -> Any:
    """Call an op in ONNX Runtime with the values of expressions; return what `pyopnb.call` does."""
    __tracebackhide__ = True
    from pyopnb.runtime.call import call

    inputs, attrs = bind(version, expressions, namespace)
    return call(version.op, *inputs, **attrs)
