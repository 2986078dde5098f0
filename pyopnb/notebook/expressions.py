"""Inputs and attrs as a line gives them, ``x=np.ones(3), limit=2.0``, and an op called with them."""

from __future__ import annotations

import ast
import linecache
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from pyopnb.ops.errors import FeedError, closest, sanitize
from pyopnb.ops.registry import Version
from pyopnb.ops.schema import Port
from pyopnb.ops.types import type_of

__all__ = ["Given", "Tried", "bound", "given", "tried"]

_FILE = "<values of the line>"


@dataclass(frozen=True)
class Given:
    """Expressions, in their places and under their names, and the text that they were read from."""

    placed: tuple[ast.expr, ...]
    named: tuple[tuple[str, ast.expr], ...]
    text: str

    def values(self, namespace: dict[str, Any]) -> tuple[list[Any], dict[str, Any]]:
        """What they are in a namespace."""
        __tracebackhide__ = True
        linecache.cache[_FILE] = (len(self.text), None, self.text.splitlines(keepends=True), _FILE)
        placed, named = [], {}
        for node in self.placed:
            placed.append(_value(node, namespace))
        for name, node in self.named:
            named[name] = _value(node, namespace)
        return placed, named


def given(text: str) -> Given:
    """Read expressions as a call of Python takes them, or SyntaxError; quotes around all of them are taken off."""
    called = f"call({text})"
    made = ast.parse(called, mode="eval").body
    if not isinstance(made, ast.Call) or not isinstance(made.func, ast.Name):
        raise SyntaxError("more than one call")
    match made:
        case ast.Call(args=[ast.Constant(value=str(inner))], keywords=[]) if "=" in inner:
            return given(inner)
    if any(keyword.arg is None for keyword in made.keywords) or any(isinstance(arg, ast.Starred) for arg in made.args):
        raise SyntaxError("values one by one")
    named = tuple((str(keyword.arg), keyword.value) for keyword in made.keywords)
    if len(dict(named)) != len(named):
        raise SyntaxError("a name twice")
    return Given(tuple(made.args), named, called)


def _value(node: ast.expr, namespace: dict[str, Any]) -> Any:
    __tracebackhide__ = True
    return eval(compile(ast.Expression(node), _FILE, "eval"), namespace)  # noqa: S307  # the user's own line


def bound(version: Version, what: Given, namespace: dict[str, Any]) -> tuple[list[Any], dict[str, Any]]:
    """Inputs in the order of the ports, None for one that is left out, and attrs.

    Raises
    ------
    FeedError
        A name is neither a port nor an attr, there are more inputs than ports, or one that must be there is not.
    """
    __tracebackhide__ = True
    placed, named = what.values(namespace)
    schema = version.schema
    ports = {port.name: port for port in schema.inputs}
    attrs = {name: value for name, value in named.items() if name not in ports}
    known = [*ports, *(attr.name for attr in schema.attrs)]
    unknown = [name for name in attrs if name not in known]
    if unknown and not schema.open_attrs:
        raise FeedError(
            f"{version}, {sanitize(unknown[0])}",
            expected=f"one of {', '.join(known)}" if known else "no inputs and no attrs",
            got=sanitize(unknown[0]),
            next=f"{close}=…" if (close := closest(unknown[0], known)) else f"the op takes {schema}",
        )
    return _inputs(version, list(schema.inputs), placed, named), attrs


def _inputs(version: Version, ports: list[Port], placed: list[Any], named: Mapping[str, Any]) -> list[Any]:
    inputs: list[Any] = []
    takes = f"the op takes {version.schema}"
    for place, port in enumerate(ports):
        if port.variadic:
            inputs += placed[place:] or list(named.get(port.name, ()))
            break
        if place < len(placed) and port.name in named:
            raise FeedError(f"{version}, input {port.name}", expected="one value", got="two", next=takes)
        inputs.append(placed[place] if place < len(placed) else named.get(port.name))
        if inputs[-1] is None and not port.optional:
            raise FeedError(f"{version}, input {port.name}", expected=str(port.type), got="nothing", next=f"{port.name}=…")
    else:
        if len(placed) > len(ports):
            raise FeedError(str(version), expected=f"at most {len(ports)} inputs", got=str(len(placed)), next=takes)
    while inputs and inputs[-1] is None:
        inputs.pop()
    return inputs


@dataclass(frozen=True, repr=False)
class Tried:
    """One call of an op.

    Attributes
    ----------
    results : tuple of numpy.ndarray
    seconds : float
        Of the call, with the session that was made for it.
    """

    version: Version
    inputs: tuple[Any, ...]
    attrs: Mapping[str, Any]
    results: tuple[np.ndarray, ...]
    seconds: float

    def __repr__(self) -> str:
        takes = ["None" if item is None else str(type_of(np.asarray(item))) for item in self.inputs]
        takes += [f"{name}={sanitize(repr(value), 40)}" for name, value in self.attrs.items()]
        gives = ", ".join(str(type_of(result)) for result in self.results)
        head = f"{self.version}: ({', '.join(takes)}) -> {gives}, {1000 * self.seconds:.3g} ms with making a session"
        return "\n".join([head, *(np.array2string(result, threshold=60, edgeitems=3) for result in self.results)])


def tried(version: Version, what: Given, namespace: dict[str, Any]) -> Tried:
    """Call an op, through ONNX Runtime, with the values of these expressions."""
    __tracebackhide__ = True
    from pyopnb.runtime.call import call

    inputs, attrs = bound(version, what, namespace)
    start = time.perf_counter()
    results = call(version.op, *inputs, **attrs)
    seconds = time.perf_counter() - start
    return Tried(version, tuple(inputs), attrs, results if isinstance(results, tuple) else (results,), seconds)
