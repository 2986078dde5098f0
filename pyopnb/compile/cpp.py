"""Ops in C++: a text becomes a class whose ``compute`` is a compiled function."""

from __future__ import annotations

import ast
import ctypes
import inspect
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from pyopnb.compile.compiler import CELL, library_of
from pyopnb.compile.interface import Attrs, call_compiled
from pyopnb.compile.signature import (
    ELEMENTS,
    CppPort,
    Signature,
    check_int32,
    lines_with_includes,
    read_signature,
)
from pyopnb.engine import ANY, TensorType, Version, check_arguments, op_definitions, op_schema
from pyopnb.errors import DefinitionError, ModelError

__all__ = ["CppOp", "cpp_class", "cpp_op", "entry_text"]

_ENTRY = "pyopnb_entry"


@check_arguments
def cpp_op(
    source: str,
    name: str | None = None,
    *,
    opset: int = 1,
    flags: Sequence[str] = (),
) -> type:
    r"""Compile a C++ function and register it as an op.

    Its signature is the op's schema: ``Input<float>`` parameters are inputs, ``Output<float>``
    parameters are outputs, and all others are attrs with their defaults. The header ``pyopnb.h``,
    which is always included, documents the other types. A session calls the function through a
    pointer, without the GIL. A memory error in it ends the process.

    Parameters
    ----------
    source : str
        C++17 in which exactly one function has an ``Output`` among its parameters; it may call
        others.
    name : str, optional
        ``domain::OpType``; by default, the function's own name in the default domain.
    opset : int
        First version of the domain that has the op.
    flags : sequence of str
        Further arguments for the compiler: ``["-I/usr/include/eigen3"]``.

    Returns
    -------
    type
        The op's class, whose instances work as for an op in Python: ``Twice().compute(x)``.

    Raises
    ------
    DefinitionError
        No op has such a signature, there is no compiler, or the compiler refuses the text.

    Examples
    --------
    >>> Twice = cpp_op('''
    ... void Twice(Input<float> x, Output<float> y, float by = 2.0f) {
    ...   y.allocate(x.shape());
    ...   for (int64_t i = 0; i < x.size(); ++i) y[i] = by * x[i];
    ... }''', "doctest::Twice")
    >>> Twice(by=3.0).compute(np.float32([1, 2]))
    array([3., 6.], dtype=float32)
    """
    cls = cpp_class(source, flags=flags)
    op_definitions.define_op(cls, name, opset=opset, source=source)
    return cls


class CppOp:
    """Base class of the ops in C++; the attrs of an instance are its attributes."""

    signature: Signature
    source: str
    flags: tuple[str, ...]
    address: int

    @classmethod
    def _module_source(cls, version: Version) -> str:
        """Write the text of a module that compiles and defines the op again."""
        arguments = [_literal(cls.source), repr(version.op)]
        if version.opset != 1:
            arguments.append(f"opset={version.opset}")
        if cls.flags:
            arguments.append(f"flags={list(cls.flags)!r}")
        return f"import pyopnb\n\npyopnb.cpp_op({', '.join(arguments)})\n"

    @classmethod
    def __pyopnb_reduce__(cls) -> tuple[tuple[str, str], tuple[Any, ...]]:
        """Pickle the class as its source, because its address is valid in this process only."""
        return (__name__, cpp_class.__name__), (cls.source, cls.flags)

    def __pyopnb_native__(
        self, inputs: Sequence[TensorType | None], outputs: Sequence[TensorType | None]
    ) -> Any:
        attrs = _attrs(self)
        return type(self).address, attrs.address, attrs.count, attrs


def _literal(text: str) -> str:
    """Write a text as a literal of Python, with three quotes if that gives the same text."""
    lines = f'r"""{text}"""'
    try:
        if ast.literal_eval(lines) == text:
            return lines
        return repr(text)
    except (SyntaxError, ValueError):  # it has three quotes, or ends with one
        return repr(text)


def cpp_class(source: str, flags: Sequence[str] = (), *, first: int = 1) -> type:
    """Compile the class of an op in C++ without registering it.

    Parameters
    ----------
    source : str
        As for `cpp_op`.
    flags : sequence of str
        Further arguments for the compiler.
    first : int
        The number that messages give the first line.

    Raises
    ------
    DefinitionError
        As for `cpp_op`.
    """
    if not isinstance(source, str):
        raise DefinitionError(
            "cpp_op",
            expected="the text of a function in C++",
            got=f"an object of {type(source).__name__}",
            next='cpp_op(open("op.cpp").read())',
        )
    # Read the head of the function before the compiler starts, to report a wrong parameter at once.
    signature = read_signature(source, first)
    text = '#include "pyopnb.h"\n' + entry_text(source, signature, first, _ENTRY)
    path = library_of(text, source, first, tuple(flags))
    # The library is never unloaded: sessions hold the address.
    address = ctypes.cast(getattr(ctypes.CDLL(str(path)), _ENTRY), ctypes.c_void_p).value
    members = {
        "__doc__": signature.doc or None,
        "__module__": __name__,
        "__init__": _constructor(signature),
        "compute": _compute(signature),
        "signature": signature,
        "source": source,
        "flags": tuple(flags),
        "address": address,
    }
    # Only a template has outputs whose dtype depends on the inputs.
    if signature.elements:
        members["infer"] = _infer(signature)
    return type(signature.name, (CppOp,), members)


def entry_text(source: str, signature: Signature, first: int, entry: str) -> str:
    """Write a function with the C interface that calls the user's function.

    The user's text is in a namespace of its own.

    Parameters
    ----------
    first : int
        The number of the source's first line.
    entry : str
        The name of the C function.
    """
    # The user's #include lines must be outside the namespace, and so must all lines before them.
    lines = source.splitlines()
    split = lines_with_includes(source)
    head, body = "\n".join(lines[:split]), "\n".join(lines[split:])
    call = f"pyopnb::invoke(&of_{entry}::{signature.name}{{}}, call);"
    if signature.elements:
        call = _dispatch(signature, call)
    else:
        call = call.format("")
    return f"""
#line {first} "{CELL}"
{head}
namespace of_{entry} {{
using namespace pyopnb;
namespace {{
#line {first + split} "{CELL}"
{body}
}}  // namespace
}}  // namespace of_{entry}
#line 1 "<entry>"
extern "C" PYOPNB_EXPORT int32_t {entry}(pyopnb_call* call) {{
  return pyopnb::guarded(call, [&] {{ {call} }});
}}
"""


def _dispatch(signature: Signature, call: str) -> str:
    """Write the switch that calls a template with the dtype of the input.

    If there are several inputs of the template's type, the first that is not optional decides.
    """
    certain = []
    for position, port in enumerate(signature.inputs):
        if port.element is None and not port.optional:
            certain.append(position)
    cases = ""
    for element in signature.elements:
        cases += f"case pyopnb::dtype_of<{element}>: return {call.format(f'<{element}>')} "
    dtype = f"call->inputs[{certain[0]}].dtype"
    return f'switch ({dtype}) {{ {cases}}} throw std::invalid_argument("no such dtype");'


# ---- the members of the class --------------------------------------------------------------------

_KEYWORD = inspect.Parameter.POSITIONAL_OR_KEYWORD
_SELF = inspect.Parameter("self", _KEYWORD)


def _constructor(signature: Signature) -> Callable[..., None]:
    parameters = []
    for attr in signature.attrs:
        default = attr.default
        if default is op_schema.REQUIRED:
            default = inspect.Parameter.empty
        parameter = inspect.Parameter(attr.name, _KEYWORD, default=default, annotation=attr.type)
        parameters.append(parameter)
    # An attr without a default may follow one with a default, because all are passed by name.
    # inspect wants parameters with defaults last.
    ordered = sorted(parameters, key=lambda parameter: parameter.default is not parameter.empty)
    bound = inspect.Signature([_SELF, *ordered])

    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:  # noqa: N807  # a method, made here
        arguments = bound.bind(self, *args, **kwargs)
        arguments.apply_defaults()
        for attr in signature.attrs:
            check_int32(attr, arguments.arguments[attr.name])
        del arguments.arguments["self"]
        vars(self).update(arguments.arguments)

    __init__.__signature__ = bound  # type: ignore[attr-defined]  # inspect reads it
    return __init__


def _compute(signature: Signature) -> Callable[..., Any]:
    parameters = []
    for port in signature.inputs:
        parameter = inspect.Parameter(port.name, _KEYWORD, annotation=_annotation(port))
        # A variadic input has no default, and an optional one is None where the node lacks it.
        if port.variadic:
            parameter = parameter.replace(kind=inspect.Parameter.VAR_POSITIONAL)
        elif port.optional:
            parameter = parameter.replace(default=None)
        parameters.append(parameter)
    outputs = tuple(_annotation(port) for port in signature.outputs)
    bound = inspect.Signature([_SELF, *parameters], return_annotation=outputs)

    def compute(self: Any, *arrays: np.ndarray | None) -> Any:
        results = call_compiled(type(self).address, _attrs(self), arrays, len(signature.outputs))
        if len(results) == 1:
            return results[0]
        return tuple(results)

    compute.__signature__ = bound  # type: ignore[attr-defined]  # inspect reads it
    compute.__code__ = compute.__code__.replace(
        co_filename=CELL
    )  # a message must not quote these lines as the user's
    return compute


def _annotation(port: CppPort) -> str:
    """Write a port's type as the hint of an op in Python."""
    return f"{port.element or 'any'}[...]"


def _infer(signature: Signature) -> Callable[..., tuple[TensorType, ...]]:
    dtypes = [ELEMENTS[element] for element in signature.elements]

    def infer(self: Any, *types: TensorType | None) -> tuple[TensorType, ...]:
        chosen = None
        for position, type_ in enumerate(types):
            # The inputs of a variadic port all follow the last one.
            port = signature.inputs[min(position, len(signature.inputs) - 1)]
            if port.element is not None or type_ is None or type_.dtype is None:
                continue
            dtype = type_.dtype
            chosen = chosen or dtype
            where = f"input {port.name}"
            if dtype is not chosen:
                raise ModelError(
                    where, expected=str(chosen), got=dtype.name, next="a Cast before it"
                )
            if dtype.name not in dtypes:
                advice = "a Cast before it"
                raise ModelError(where, expected=" or ".join(dtypes), got=dtype.name, next=advice)
        return tuple(ANY.like(dtype=port.element or chosen) for port in signature.outputs)

    return infer


def _attrs(instance: Any) -> Attrs:
    """Read the attrs of an instance, in the order of the compiled function's parameters."""
    attrs = type(instance).signature.attrs
    values = [getattr(instance, attr.name) for attr in attrs]
    return Attrs(values, [attr.type in (float, list[float]) for attr in attrs])
