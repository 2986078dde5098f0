"""Inputs and attrs written on a line, ``x=np.ones(3), limit=2.0``, and an op called with them."""

from __future__ import annotations

import ast
import linecache
from typing import Any

from IPython.core.getipython import get_ipython

from pyopnb.common import messages, sanitize
from pyopnb.engine import Version
from pyopnb.errors import InputError

__all__ = ["bind", "check_expressions", "evaluate", "try_op", "user_namespace"]

_FILE = "<values of the line>"


def user_namespace() -> dict[str, Any]:
    """Return the notebook's variables, or an empty dict without a shell."""
    shell = get_ipython()
    return shell.user_ns if shell is not None else {}


def check_expressions(text: str) -> str:
    """Check the arguments of a Python call, and return them without quotes around all of them.

    Any other text raises SyntaxError.
    """
    line = f"call({text})"
    # A name that is repeated is found by the compiler alone.
    compile(line, _FILE, "eval")
    call = ast.parse(line, mode="eval").body
    if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Name):
        raise SyntaxError("more than one call")
    match call:
        case ast.Call(args=[ast.Constant(value=str(inner))], keywords=[]) if "=" in inner:
            return check_expressions(inner)
    return text


def evaluate(text: str, namespace: dict[str, Any]) -> tuple[list[Any], dict[str, Any]]:
    """Return the values of the arguments of a call, by position and by name."""
    __tracebackhide__ = True
    line = f"call({text})"
    # Tracebacks and debuggers look up the line here.
    linecache.cache[_FILE] = (len(line), None, [line], _FILE)
    code = ast.parse(line, mode="eval")
    # The user may have a function of that name, which has no space in it.
    code.body.func.id = "the call"  # type: ignore[attr-defined]  # checked before
    names = {"the call": lambda *inputs, **attrs: (list(inputs), attrs)}
    # The line is the user's own.
    return eval(compile(code, _FILE, "eval"), namespace, names)  # type: ignore[no-any-return]  # noqa: S307


def bind(
    version: Version, text: str, namespace: dict[str, Any]
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
    inputs, attrs = evaluate(text, namespace)
    schema = version.schema
    ports = [port.name for port in schema.inputs]
    names = [*ports, *(attr.name for attr in schema.attrs)]
    for name in attrs:
        is_twice = name in ports[: len(inputs)]
        if is_twice or not (name in names or schema.open_attrs):
            where = f"{version}, {name}"
            expected = "one value" if is_twice else f"one of {', '.join(names) or 'nothing'}"
            free = [other for other in names[len(inputs) :] if other not in attrs]
            meant = messages.closest(name, free) or next(iter(free), None)
            next_ = f"write {meant} for {name}" if meant and not is_twice else f"leave {name} out"
            raise InputError(where, expected=expected, got=sanitize(name), next=next_)
    for name in ports[len(inputs) :]:
        inputs.append(attrs.pop(name, None))
    # A node would have no entries for inputs that are omitted at the end.
    while inputs and inputs[-1] is None:
        inputs.pop()
    return inputs, attrs


def try_op(version: Version, text: str, namespace: dict[str, Any]) -> Any:
    """Call an op in ONNX Runtime with the values of expressions, as `pyopnb.call` does."""
    __tracebackhide__ = True
    from pyopnb.engine import call

    inputs, attrs = bind(version, text, namespace)
    return call(version.op, *inputs, **attrs)
