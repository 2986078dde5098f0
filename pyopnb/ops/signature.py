"""The schema of an op read from its class: from signatures, annotations and defaults."""

from __future__ import annotations
import __future__

import ast
import builtins
import functools
import inspect
import re
import types
import typing
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import onnx

from pyopnb.errors import DefinitionError, InputError
from pyopnb.ops.backward import check_backward, has_backward
from pyopnb.ops.dtypes import is_element
from pyopnb.ops.messages import sanitize
from pyopnb.ops.schema import KINDS, OBJECTS, REQUIRED, SCALARS, Attr, Port, Schema, kind_of_value
from pyopnb.ops.types import ANY, TensorType, tensor_type

__all__ = ["schema_of"]

_NOT_FUNCTIONS: tuple[tuple[Callable[[object], bool], str], ...] = (
    (inspect.iscoroutinefunction, "async def"),
    (inspect.isasyncgenfunction, "async def with yield"),
    (inspect.isgeneratorfunction, "a generator (yield)"),
)


_SELF = re.compile("_*(self|this|cls)?_*")
"""What people call the first parameter of a method; another name is that of an input, and self was forgotten."""


_KERNELS = ("python", "numba")
"""What a class may ask for in ``kernel``."""


def schema_of(cls: type) -> Schema:
    """Read the schema from a class.

    Parameters
    ----------
    cls : type
        A plain class with ``compute``. ``__init__``'s parameters are attrs, ``compute``'s are inputs (``x=None`` optional,
        ``*xs`` variadic), its return annotation the outputs.

    Returns
    -------
    Schema

    Raises
    ------
    DefinitionError
        The class has no callable ``compute``, a ``backward`` that cannot be called with inputs, outputs and gradients, or a
        parameter that an op cannot have.
    InputError
        A hint is no type.

    Examples
    --------
    >>> class SoftClip:
    ...     def __init__(self, limit: float = 1.0): ...
    ...     def compute(self, x: "float32[N,3]") -> "float32[N,3]": ...
    >>> print(schema_of(SoftClip))
    (x: float32[N,3])<limit: float = 1.0> -> float32[N,3]
    """
    if not isinstance(cls, type):
        raise DefinitionError(
            "pyop", expected="a class", got=f"{type(cls).__name__} {sanitize(repr(cls))}"
        )
    where = f"class {cls.__name__}"
    if not callable(getattr(cls, "compute", None)):
        got = (
            "no compute"
            if not hasattr(cls, "compute")
            else f"compute = {sanitize(repr(_compute(cls)))}"
        )
        raise DefinitionError(
            where, expected="a method compute", got=got, next="def compute(self, x): return x"
        )
    for is_kind, kind in _NOT_FUNCTIONS:
        if is_kind(_compute(cls)):
            raise DefinitionError(
                f"{where}, compute", expected="a function that returns its outputs", got=kind
            )
    kernel = getattr(cls, "kernel", None)
    if isinstance(kernel, str) and kernel not in _KERNELS:
        expected = " or ".join(map(repr, _KERNELS))
        raise DefinitionError(f"{where}, kernel", expected=expected, got=sanitize(repr(kernel)))
    check_backward(cls)
    attrs, open_attrs = _attrs(cls, where)
    inputs, outputs = _ports(cls, where)
    return Schema(
        attrs,
        open_attrs,
        inputs,
        outputs,
        infers=callable(getattr(cls, "infer", None)),
        copy_inputs=bool(getattr(cls, "copy_inputs", False)),
        serial=bool(getattr(cls, "serial", False)),
        differentiable=has_backward(cls),
        doc=inspect.getdoc(cls) or "",
    )


def _attrs(cls: type, where: str) -> tuple[tuple[Attr, ...], bool]:
    constructor = _constructor(cls)
    if constructor is None:
        return (), False
    parameters = _parameters(cls, constructor, inspect.signature(getattr(cls, constructor)))
    open_attrs = any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters)
    attrs = []
    for parameter in parameters:
        if parameter.kind is parameter.POSITIONAL_ONLY or (
            parameter.kind is parameter.VAR_POSITIONAL and not open_attrs
        ):
            raise DefinitionError(
                f"{where}, {constructor}",
                expected="parameters that can be given by name",
                got=str(parameter),
                next="**attrs",
            )
        if parameter.kind not in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            attrs.append(_attr(parameter, getattr(cls, constructor), where))
    return tuple(attrs), open_attrs


def _constructor(cls: type) -> str | None:
    # Immutable classes, such as named tuples, have only __new__.
    return next(
        (
            name
            for name in ("__init__", "__new__")
            if getattr(cls, name) is not getattr(object, name)
        ),
        None,
    )


def _attr(parameter: inspect.Parameter, function: Callable[..., object], where: str) -> Attr:
    default = REQUIRED if parameter.default is parameter.empty else parameter.default
    if parameter.annotation is not parameter.empty:
        hint = _evaluate(parameter.annotation, function)
        kind = _kind_of_hint(hint)
        if kind is None:
            raise DefinitionError(
                f"{where}, attr {parameter.name}",
                expected=f"an annotation of {', '.join(KINDS[:5])}, a list of these, np.ndarray or onnx.ModelProto",
                got=sanitize(str(parameter.annotation)),
            )
        return Attr(parameter.name, kind, default, _choices(hint))
    if (
        default is REQUIRED
        or default is None
        or (isinstance(default, (list, tuple)) and not default)
    ):
        return Attr(parameter.name, "any", default)
    kind = kind_of_value(default)
    known = kind.removeprefix("list[").removesuffix("]") in KINDS
    return Attr(parameter.name, kind if known else "any", default)


def _unaliased(hint: Any) -> Any:
    """Resolve a ``type X[T] = …`` alias, which numpy.typing.NDArray is from NumPy 2.5 on."""
    while hasattr(alias := typing.get_origin(hint) or hint, "__value__"):
        inner = typing.get_args(hint)
        hint = alias.__value__[inner] if inner else alias.__value__
    return hint


def _kind_of_hint(hint: Any) -> str | None:
    hint = _unaliased(hint)
    if hint in (Any, object, typing.Any):
        return "any"
    for table in (SCALARS, OBJECTS):
        if isinstance(hint, type) and hint in table:
            return table[hint]
    if hint in (list, tuple, Sequence):
        return "list"
    if isinstance(hint, typing.NewType):
        return _kind_of_hint(hint.__supertype__)
    origin, inner = (
        typing.get_origin(hint),
        [a for a in typing.get_args(hint) if a not in (type(None), Ellipsis)],
    )
    if origin in (typing.Annotated, typing.Final):
        return _kind_of_hint(inner[0])
    if origin in (typing.Union, types.UnionType):
        return _kind_of_hint(inner[0]) if len(inner) == 1 else "any"
    if origin in (list, tuple, Sequence):
        kinds = {_kind_of_hint(item) for item in inner}
        return f"list[{kinds.pop()}]" if len(kinds) == 1 and None not in kinds else None
    if origin is np.ndarray:
        return "tensor"
    if origin is typing.Literal:
        kinds = {kind_of_value(item) for item in inner}
        return kinds.pop() if len(kinds) == 1 else None
    return None


def _choices(hint: Any) -> tuple[Any, ...]:
    hint = _unaliased(hint)
    if typing.get_origin(hint) is typing.Literal:
        return typing.get_args(hint)
    if typing.get_origin(hint) in (typing.Union, types.UnionType):
        inner = [arg for arg in typing.get_args(hint) if arg is not type(None)]
        return _choices(inner[0]) if len(inner) == 1 else ()
    return ()


def _ports(cls: type, where: str) -> tuple[tuple[Port, ...], tuple[TensorType, ...] | None]:
    if isinstance(_compute(cls), np.ufunc):
        return tuple(Port(f"x{n + 1}") for n in range(_compute(cls).nin)), None
    try:
        signature = inspect.signature(_compute(cls))
    except ValueError:  # a builtin whose signature is not known
        return (Port("xs", variadic=True),), None
    parameters = _parameters(cls, "compute", signature)
    if [parameter.kind for parameter in parameters] == [
        inspect.Parameter.VAR_POSITIONAL,
        inspect.Parameter.VAR_KEYWORD,
    ]:
        parameters.pop()  # a wrapper that passes everything on; nothing is passed by name
    ports: list[Port] = []
    for parameter in parameters:
        if parameter.kind in (parameter.KEYWORD_ONLY, parameter.VAR_KEYWORD):
            raise DefinitionError(
                f"{where}, compute",
                expected="inputs only",
                got=str(parameter),
                next=f"give {parameter.name} to __init__",
            )
        if parameter.default is not parameter.empty and parameter.default is not None:
            raise DefinitionError(
                f"{where}, compute, input {parameter.name}",
                expected="no default, or None for an optional input",
                got=sanitize(repr(parameter.default)),
                next=f"{parameter.name}=None",
            )
        variadic = parameter.kind is parameter.VAR_POSITIONAL
        hint = _type_of_hint(parameter.annotation, cls, f"{where}, input {parameter.name}")
        ports.append(Port(parameter.name, hint or ANY, parameter.default is None, variadic))
    return tuple(ports), _outputs(cls, signature.return_annotation, where)


def _outputs(cls: type, returned: Any, where: str) -> tuple[TensorType, ...] | None:
    if _is_notation(returned):
        hint = _type_of_hint(returned, cls, f"{where}, output")
        return None if hint is None else (hint,)
    if isinstance(returned, str):
        returned = _unquote(returned)
    if not isinstance(returned, (tuple, list)):
        evaluated = _evaluate(returned, _compute(cls))
        if typing.get_origin(evaluated) is not tuple:
            hint = _type_of_hint(returned, cls, f"{where}, output")
            return None if hint is None else (hint,)
        returned = typing.get_args(evaluated)
        if Ellipsis in returned:
            return None
    types_ = [_type_of_hint(item, cls, f"{where}, output {n}") for n, item in enumerate(returned)]
    return tuple(hint or ANY for hint in types_) if any(types_) else None


def _compute(cls: type) -> Any:
    return cls.compute  # type: ignore[attr-defined]  # schema_of has checked it


def _type_of_hint(hint: Any, cls: type, where: str) -> TensorType | None:
    """Read the type of a port from its hint; return None where the hint does not tell."""
    if isinstance(hint, str):
        if hint in ("float", "bool") and _postpones_annotations(_compute(cls)):
            return None  # Python's own float, as without the __future__ import
        hint = hint if _is_notation(hint) else _unquote(hint)
    if isinstance(hint, TensorType):
        return hint
    if isinstance(hint, str):
        try:
            return tensor_type(hint)
        except InputError as error:
            evaluated = _evaluate(hint, _compute(cls))
            if isinstance(evaluated, str):
                raise InputError(
                    f"{where}: {error.where}",
                    expected=error.expected,
                    got=error.got,
                    next=error.next,
                ) from None
            hint = evaluated
    if isinstance(hint, typing.ForwardRef):
        return _type_of_hint(hint.__forward_arg__, cls, where)
    hint = _unaliased(hint)
    origin, inner = typing.get_origin(hint), typing.get_args(hint)
    if origin is typing.Annotated:
        notes = [note for note in hint.__metadata__ if isinstance(note, (str, TensorType))]
        return _type_of_hint(notes[0] if notes else inner[0], cls, where)
    if origin in (typing.Union, types.UnionType):
        inner = tuple(arg for arg in inner if arg is not type(None))
        return _type_of_hint(inner[0], cls, where) if len(inner) == 1 else None
    if origin is np.ndarray:  # npt.NDArray[np.float32] is ndarray[shape, dtype[float32]]
        scalars = typing.get_args(inner[-1])
        return ANY.like(dtype=scalars[0]) if scalars and is_element(scalars[0]) else None
    return None


def _is_notation(hint: object) -> bool:
    """Tell whether a hint is in pyopnb's notation, which is not evaluated as Python."""
    try:
        return isinstance(hint, str) and tensor_type(hint) is not None
    except InputError:
        return False


def _postpones_annotations(function: object) -> bool:
    """Tell whether ``from __future__ import annotations`` made a function's hints strings."""
    code = getattr(inspect.unwrap(function), "__code__", None)  # type: ignore[arg-type]
    return code is not None and bool(code.co_flags & __future__.annotations.compiler_flag)


def _unquote(text: str) -> Any:
    """Unquote a hint: under ``from __future__ import annotations`` a quoted one arrives quoted twice."""
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return text


def _evaluate(hint: Any, function: Callable[..., object]) -> Any:
    """Evaluate a hint that is a string, in the globals of its function; as it is if that fails."""
    if isinstance(hint, typing.ForwardRef):
        hint = hint.__forward_arg__
    if not isinstance(hint, str):
        return hint
    names = {
        **vars(typing),
        **vars(builtins),
        "np": np,
        "onnx": onnx,
        **getattr(function, "__globals__", {}),
    }
    try:
        return eval(hint, names)  # noqa: S307  # the user's own annotation, as typing.get_type_hints does
    except Exception:  # any text may be a hint, and evaluating it may raise anything
        return hint


def _parameters(cls: type, method: str, signature: inspect.Signature) -> list[inspect.Parameter]:
    """List the parameters of a method without self."""
    parameters = list(signature.parameters.values())
    attribute = inspect.getattr_static(cls, method)
    # Up to Python 3.13 a partial is called without self; in 3.13 it has a __get__ that only warns.
    plain = (staticmethod, classmethod, functools.partial)
    takes_self = method == "__new__" or (
        hasattr(type(attribute), "__get__") and not isinstance(attribute, plain)
    )
    if not takes_self or (parameters and parameters[0].kind is inspect.Parameter.VAR_POSITIONAL):
        return parameters
    if not parameters:
        raise DefinitionError(
            f"class {cls.__name__}, {method}", expected="self", got="no parameter", next="(self, x)"
        )
    first = parameters[0].name
    if inspect.isfunction(attribute) and not _SELF.fullmatch(first):
        names, where = (
            ", ".join(parameter.name for parameter in parameters),
            f"class {cls.__name__}, {method}",
        )
        in_class = attribute.__qualname__.endswith(f"{cls.__name__}.{method}")
        advice = (
            f"def {method}(self, {names}):"
            if in_class
            else f"{method} = staticmethod({attribute.__name__})"
        )
        raise DefinitionError(
            where, expected="self as the first parameter", got=f"({names})", next=advice
        )
    return parameters[1:]
