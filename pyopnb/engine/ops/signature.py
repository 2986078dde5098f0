"""The schema of an op read from its class: from signatures, annotations and defaults."""

from __future__ import annotations
import __future__

import builtins
import functools
import inspect
import re
import types
import typing
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import onnx

from pyopnb.common import messages, sanitize
from pyopnb.engine.ops.argument_checks import describe
from pyopnb.engine.ops.attr_kinds import ATTR_KINDS, kind_of_class, kind_of_value
from pyopnb.engine.ops.backward import has_backward
from pyopnb.engine.ops.dtypes import is_element
from pyopnb.engine.ops.op_schema import REQUIRED, Attr, Port, Schema
from pyopnb.engine.ops.types import ANY, TensorType, tensor_type
from pyopnb.errors import DefinitionError, InputError

__all__ = ["schema_of"]

# Usual names of a method's first parameter. Any other name belongs to an input, and self was
# forgotten.
_SELF = re.compile("_*(self|this|cls)?_*")

_KIND_NAMES = [row.name for row in ATTR_KINDS]
_UNIONS = (typing.Union, types.UnionType)


def schema_of(cls: type) -> Schema:
    """Read the schema from a class.

    Parameters
    ----------
    cls : type
        A plain class with ``compute``. ``__init__``'s parameters are attrs, ``compute``'s are
        inputs (``x=None`` optional, ``*xs`` variadic), its return annotation the outputs.

    Raises
    ------
    DefinitionError
        The class has no callable ``compute``, a ``backward`` that cannot be called with inputs,
        outputs and gradients, or a parameter that an op cannot have.
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
            "pyop", expected="a class", got=describe(cls), next="class SoftClip: …"
        )
    where = f"class {cls.__name__}"
    compute = getattr(cls, "compute", None)
    if not callable(compute):
        advice = "def compute(self, x): return x"
        got = describe(compute)
        raise DefinitionError(where, expected="a method compute", got=got, next=advice)
    _refuse_generator(compute, f"{where}, compute", "its outputs")
    if has_backward(cls):
        _check_backward(cls, where)
    attrs, open_attrs = _attrs(cls, where)
    inputs, outputs = _ports(cls, compute, where)
    return Schema(
        attrs,
        open_attrs,
        inputs,
        outputs,
        infers=callable(getattr(cls, "infer", None)),
        copy_inputs=bool(getattr(cls, "copy_inputs", False)),
        serial=bool(getattr(cls, "serial", False)),
        differentiable=has_backward(cls),
        home=getattr(cls, "_attrs_of", "__init__"),
        doc=inspect.getdoc(cls) or "",
    )


def _refuse_generator(function: object, where: str, returned: str) -> None:
    """Refuse a function that returns a coroutine or generator instead of arrays."""
    is_async = inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function)
    if is_async or inspect.isgeneratorfunction(function):
        got = "async def" if is_async else "a generator (yield)"
        raise DefinitionError(where, expected=f"a function that returns {returned}", got=got)


def _check_backward(cls: Any, where: str) -> None:
    """Refuse a ``backward`` that cannot be called with inputs, outputs and gradients."""
    where = f"{where}, backward"
    advice = "def backward(self, inputs, outputs, grads): …"
    _refuse_generator(cls.backward, where, "its gradients")
    is_static = isinstance(inspect.getattr_static(cls, "backward"), (staticmethod, classmethod))
    got = repr(cls.backward)
    try:
        signature = inspect.signature(cls.backward)
        got = str(signature)
        signature.bind(*[None] * (3 if is_static else 4))
    except TypeError:  # it is no function, or takes other arguments
        expected = "(self, inputs, outputs, grads)"
        got = sanitize(got, 60)
        raise DefinitionError(where, expected=expected, got=got, next=advice) from None


# ---- attrs ---------------------------------------------------------------------------------------


def _attrs(cls: type, where: str) -> tuple[tuple[Attr, ...], bool]:
    """Read the attrs from the constructor's parameters, and whether it takes any others."""
    # A class that was made of a function says its attrs itself.
    if "_attrs_declared" in vars(cls):
        return tuple(vars(cls)["_attrs_declared"]), True
    constructor = cls.__init__  # type: ignore[misc]  # of this very class
    if constructor is object.__init__:
        return (), False
    # A dataclass has a constructor that Python wrote, with the same parameters.
    parameters = _parameters(cls, "__init__", inspect.signature(constructor))
    open_attrs = any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters)
    attrs = []
    for parameter in parameters:
        if parameter.kind in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
            attr = _attr(parameter, constructor, where)
            attrs.append(replace(attr, home=getattr(cls, "_attrs_of", attr.home)))
        # ``*args, **kwargs`` passes arguments on to another class.
        elif parameter.kind is parameter.POSITIONAL_ONLY or not open_attrs:
            expected = "parameters that can be given by name"
            got = str(parameter)
            raise DefinitionError(f"{where}, __init__", expected=expected, got=got, next="**attrs")
    return tuple(attrs), open_attrs


def _attr(parameter: inspect.Parameter, constructor: object, where: str) -> Attr:
    default = REQUIRED if parameter.default is parameter.empty else parameter.default
    if parameter.annotation is not parameter.empty:
        hint = _evaluate(parameter.annotation, constructor)
        attr_kind = _kind_of_hint(hint)
        if attr_kind is None:
            raise DefinitionError(
                f"{where}, attr {parameter.name}",
                expected=(
                    f"an annotation of {', '.join(_KIND_NAMES[:5])}, a list of these, "
                    "np.ndarray or onnx.ModelProto"
                ),
                got=sanitize(str(parameter.annotation)),
            )
        return Attr(parameter.name, attr_kind, default, _choices(hint))
    default_kind = kind_of_value(default)
    # An empty list says nothing about its items, and None nothing at all.
    is_known = default_kind.removeprefix("list[").removesuffix("]") in _KIND_NAMES
    return Attr(parameter.name, default_kind if is_known else "any", default)


def _kind_of_hint(hint: Any) -> str | None:
    """Return the kind of attr that an annotation means; None where no attr can have it."""
    hint = _plain_hint(hint)
    if hint in (Any, object):
        return "any"
    if hint in (list, tuple, Sequence):
        return "list"
    origin = typing.get_origin(hint)
    arguments = [argument for argument in typing.get_args(hint) if argument is not Ellipsis]
    if origin is typing.Literal:
        kinds = {kind_of_value(item) for item in arguments}
        return kinds.pop() if len(kinds) == 1 else None
    if origin in _UNIONS:
        return "any"
    if origin in (list, tuple, Sequence):
        item_kinds = {_kind_of_hint(item) for item in arguments}
        if len(item_kinds) != 1 or None in item_kinds:
            return None
        return f"list[{item_kinds.pop()}]"
    if origin is np.ndarray:
        return "tensor"
    return kind_of_class(hint)


def _choices(hint: Any) -> tuple[Any, ...]:
    hint = _plain_hint(hint)
    return typing.get_args(hint) if typing.get_origin(hint) is typing.Literal else ()


# ---- ports ---------------------------------------------------------------------------------------


def _ports(
    cls: type, compute: Any, where: str
) -> tuple[tuple[Port, ...], tuple[TensorType, ...] | None]:
    """Read the inputs and outputs from the signature of ``compute``."""
    # ``compute = np.add`` has no signature, but says how many inputs it takes.
    if isinstance(compute, np.ufunc):
        return tuple(Port(f"x{n + 1}") for n in range(compute.nin)), None
    try:
        signature = inspect.signature(compute)
    except ValueError:  # a builtin whose signature is not known
        return (Port("xs", variadic=True),), None
    parameters = _parameters(cls, "compute", signature)
    kinds = [parameter.kind for parameter in parameters]
    if kinds == [inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD]:
        parameters.pop()  # a wrapper that passes everything on; nothing is passed by name
    ports = [_port(parameter, compute, where) for parameter in parameters]
    return tuple(ports), _outputs(signature.return_annotation, compute, where)


def _port(parameter: inspect.Parameter, compute: object, where: str) -> Port:
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
    hint = _type_of_hint(parameter.annotation, compute, f"{where}, input {parameter.name}")
    is_variadic = parameter.kind is parameter.VAR_POSITIONAL
    return Port(parameter.name, hint or ANY, parameter.default is None, is_variadic)


def _outputs(hint: Any, compute: object, where: str) -> tuple[TensorType, ...] | None:
    """Read the return annotation: one hint, or several in a tuple; None where it does not tell."""
    evaluated = None if _is_notation(hint) else _evaluate(hint, compute)
    items = evaluated if isinstance(evaluated, (tuple, list)) else None
    if typing.get_origin(evaluated) is tuple:
        items = typing.get_args(evaluated)
    if items is None:
        single = _type_of_hint(hint, compute, f"{where}, output")
        return None if single is None else (single,)
    if Ellipsis in items:
        return None  # tuple[np.ndarray, ...] does not say how many
    outputs = []
    # One hint that tells is enough to know the number of outputs.
    for number, item in enumerate(items):
        outputs.append(_type_of_hint(item, compute, f"{where}, output {number}"))
    if not any(outputs):
        return None
    return tuple(output or ANY for output in outputs)


def _type_of_hint(hint: Any, compute: object, where: str) -> TensorType | None:
    """Read the type of a port from its hint; return None where the hint does not tell."""
    if hint in ("float", "bool") and _postpones_annotations(compute):
        return None  # a Python float, as without the __future__ import
    if isinstance(hint, str) and not _is_notation(hint):
        evaluated = _evaluate(hint, compute)
        # Text that is not even a Python expression was meant as a type, and tensor_type says why it
        # is not one.
        hint = hint if evaluated is None and hint != "None" else evaluated
    if isinstance(hint, (str, TensorType)):
        try:
            return tensor_type(hint)
        except InputError as error:
            raise messages.moved(error, f"{where}: {error.where}", error.next) from None
    hint = _plain_hint(hint)
    if isinstance(hint, typing.ForwardRef):  # as in Optional["float32[N]"]
        return _type_of_hint(hint.__forward_arg__, compute, where)
    if typing.get_origin(hint) is np.ndarray:
        # npt.NDArray[np.float32] is np.ndarray[shape, np.dtype[np.float32]].
        scalars = typing.get_args(typing.get_args(hint)[-1])
        if scalars and is_element(scalars[0]):
            return ANY.like(dtype=scalars[0])
    return None


# ---- hints ---------------------------------------------------------------------------------------


def _plain_hint(hint: Any) -> Any:
    """Strip an annotation of ``| None`` and the alias of a ``type`` statement."""
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if hasattr(origin or hint, "__value__"):
        # numpy.typing.NDArray is such an alias from NumPy 2.5 on.
        value = (origin or hint).__value__
        return _plain_hint(value[arguments] if arguments else value)
    if origin in _UNIONS:
        without_none = [argument for argument in arguments if argument is not type(None)]
        return _plain_hint(without_none[0]) if len(without_none) == 1 else hint
    return hint


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


def _evaluate(hint: Any, function: object) -> Any:
    """Evaluate a hint that is a string, in its function's globals; return None where that fails."""
    if not isinstance(hint, str):
        return hint
    # The common names are there without an import, as annotations are often copied into a cell.
    names = {**vars(typing), **vars(builtins), "np": np, "onnx": onnx}
    names.update(getattr(function, "__globals__", {}))
    try:
        # It is the user's own annotation, and typing.get_type_hints does the same.
        return eval(hint, names)  # noqa: S307
    except Exception:  # any text may be a hint, and evaluating it may raise anything
        return None


# ---- parameters ----------------------------------------------------------------------------------


def _parameters(cls: type, method: str, signature: inspect.Signature) -> list[inspect.Parameter]:
    """List the parameters of a method without self."""
    parameters = list(signature.parameters.values())
    function = inspect.getattr_static(cls, method)
    # Callables that are not functions of the class, such as callable objects, get no self.
    takes_self = hasattr(type(function), "__get__")
    if isinstance(function, (staticmethod, classmethod, functools.partial)) or not takes_self:
        return parameters
    if parameters and parameters[0].kind is inspect.Parameter.VAR_POSITIONAL:
        return parameters
    names = [parameter.name for parameter in parameters]
    is_wrong = inspect.isfunction(function) and names and not _SELF.fullmatch(names[0])
    if is_wrong or not names:
        where = f"class {cls.__name__}, {method}"
        got = f"({', '.join(names)})"
        advice = f"def {method}({', '.join(['self', *names])}):"
        raise DefinitionError(where, expected="self as the first parameter", got=got, next=advice)
    return parameters[1:]
