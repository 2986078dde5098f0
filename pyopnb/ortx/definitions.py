"""Turn functions into ops with the decorator and the dtype numbers of onnxruntime-extensions."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from inspect import Parameter
from types import FunctionType
from typing import Any

import numpy as np

from pyopnb.common import sanitize
from pyopnb.engine import (
    ANY,
    TensorType,
    argument_checks,
    attr_kinds,
    class_texts,
    dtype,
    op_definitions,
    op_schema,
)
from pyopnb.errors import DefinitionError, InputError, ResultError

__all__ = [
    "Opdef",
    "PyCustomOpDef",
    "default_opset_domain",
    "onnx_op",
]

_DOMAIN = "ai.onnx.contrib"


def default_opset_domain() -> str:
    """Return the domain of ops whose names have none.

    Returns
    -------
    str
        ``ai.onnx.contrib``.
    """
    return _DOMAIN


class PyCustomOpDef:
    """The dtypes of inputs, outputs and attrs, with the numbers of ``onnx.TensorProto``.

    An input of dtype ``undefined`` accepts any dtype; an output of dtype ``undefined`` has the
    dtype of the first input.

    Examples
    --------
    >>> PyCustomOpDef.dt_float, PyCustomOpDef.dt_string
    (1, 8)
    """

    undefined = 0
    dt_float = 1
    dt_uint8 = 2
    dt_int8 = 3
    dt_uint16 = 4
    dt_int16 = 5
    dt_int32 = 6
    dt_int64 = 7
    dt_string = 8
    dt_bool = 9
    dt_float16 = 10
    dt_double = 11
    dt_uint32 = 12
    dt_uint64 = 13
    dt_complex64 = 14
    dt_complex128 = 15
    dt_bfloat16 = 16


_ATTR_TYPES: Mapping[int, type] = {
    PyCustomOpDef.dt_string: str,
    PyCustomOpDef.dt_float: float,
    PyCustomOpDef.dt_double: float,
    PyCustomOpDef.dt_bool: bool,
    PyCustomOpDef.dt_int64: int,
    PyCustomOpDef.dt_int32: int,
}


class Opdef:
    """A decorated function, which can still be called, and whose ``body`` can be replaced.

    Parameters
    ----------
    op_type : str
        The name as it was declared.
    func : callable
        The decorated function.

    Attributes
    ----------
    op_type : str
        The name as it was declared.
    body : callable
        The function that runs call. Assign another one, and later runs call that.
    """

    def __init__(self, op_type: str, func: Callable[..., Any]) -> None:
        self.op_type, self.body = op_type, func

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.body(*args, **kwargs)

    def __repr__(self) -> str:
        return f"<Opdef {_full_name(self.op_type)}>"

    @staticmethod
    def create(
        func: Callable[..., Any],
        *,
        op_type: str | None = None,
        inputs: Sequence[int] | None = None,
        outputs: Sequence[int] | None = None,
        attrs: Mapping[str, int] | Sequence[str] = (),
    ) -> Opdef:
        """Turn a function into an op, as `onnx_op` does.

        Returns
        -------
        Opdef
            It can be called like the function.

        Raises
        ------
        DefinitionError
            A dtype that is none, or that no tensor of the ONNX Runtime custom ops can have.
        """
        opdef = Opdef(op_type or func.__name__, func)
        name = _full_name(opdef.op_type)
        where = f"op {sanitize(name)}"
        parameters = _parameters(func)
        cls = _class_of(
            opdef,
            _ports(parameters, _dtypes(inputs, f"{where}, inputs"), attrs or ()),
            _dtypes(outputs, f"{where}, outputs"),
            _attrs(attrs, parameters, where),
        )
        op_definitions.define_op(cls, name, opset=1, source=_source(func))
        return opdef


def onnx_op(
    *,
    op_type: str | None = None,
    inputs: Sequence[int] | None = None,
    outputs: Sequence[int] | None = None,
    attrs: Mapping[str, int] | Sequence[str] = (),
) -> Callable[[Callable[..., Any]], Opdef]:
    """Turn a function of arrays into an op, like the decorator of onnxruntime-extensions.

    Parameters
    ----------
    op_type : str, optional
        By default, the function's name. With a domain, ``"my.domain::Name"``.
    inputs, outputs : list of int, optional
        Dtypes from `PyCustomOpDef`; by default, one float32 each.
    attrs : dict of str to int, or list of str
        The dtype of each attr, or a list with the names of string attrs. The function gets attrs as
        keyword arguments.

    Returns
    -------
    callable
        The decorator, which returns an `Opdef`.

    Raises
    ------
    DefinitionError
        A dtype that is none, or that no tensor of the ONNX Runtime custom ops can have.

    Notes
    -----
    The function may write to the arrays that it gets. A result with another dtype than declared is
    converted if its values stay the same, except for the last digits of floats; otherwise it is a
    `ResultError`. A second op with the same name replaces the first, also in live sessions.
    ``PyCustomOpDef.undefined`` accepts several dtypes.

    Examples
    --------
    >>> import numpy as np, pyopnb
    >>> double = [PyCustomOpDef.dt_double]
    >>> attrs = {"by": PyCustomOpDef.dt_float}
    >>> @onnx_op(op_type="Shift", inputs=double, outputs=double, attrs=attrs)
    ... def shift(x, by):
    ...     return x + by
    >>> shift(np.array([1.0]), by=2.0)
    array([3.])
    >>> model = pyopnb.parse(
    ...     "(double[N] x) => (double[N] y) { y = ai.onnx.contrib.Shift<by = 0.5>(x) }"
    ... )
    >>> pyopnb.run(model, x=[1.0])["y"]
    array([1.5])
    """
    return partial(Opdef.create, op_type=op_type, inputs=inputs, outputs=outputs, attrs=attrs)


def _full_name(op_type: str) -> str:
    return op_type if "::" in op_type else f"{_DOMAIN}::{op_type}"


# ---- declarations --------------------------------------------------------------------------------


def _dtypes(declared: Sequence[int] | None, where: str) -> tuple[int, ...]:
    if declared is None:
        return (PyCustomOpDef.dt_float,)
    for number in declared:
        if number != PyCustomOpDef.undefined and not _is_carried(number):
            raise DefinitionError(
                where,
                expected="dtypes that a custom op of ONNX Runtime can have",
                got=_name_of(number),
                next="[PyCustomOpDef.dt_float]",
            )
    return tuple(declared)


def _is_carried(number: int) -> bool:
    try:
        return dtype(number).carried
    except InputError:
        # There is no dtype of that number.
        return False


def _name_of(number: Any) -> str:
    """Name a dtype as it is declared."""
    for name, value in vars(PyCustomOpDef).items():
        if name.startswith("dt_") and value == number:
            return name
    return sanitize(repr(number))


def _parameters(function: Callable[..., Any]) -> dict[str, Parameter]:
    try:
        return dict(inspect.signature(function).parameters)
    except (TypeError, ValueError):  # a builtin whose signature is not known
        return {}


def _ports(
    parameters: Mapping[str, Parameter], numbers: Sequence[int], attrs: Any
) -> list[Parameter]:
    """Name the inputs as the function does; inputs with a default are optional."""
    positional = (Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD)
    named = [p for p in parameters.values() if p.kind in positional and p.name not in attrs]
    ports = []
    for position, number in enumerate(numbers):
        name, default = f"input{position}", Parameter.empty
        if position < len(named):
            name, default = named[position].name, named[position].default
        annotation = _type(number) if number else Parameter.empty
        ports.append(Parameter(name, Parameter.POSITIONAL_ONLY, default=default))
        ports[-1] = ports[-1].replace(annotation=annotation)
    return ports


def _attrs(
    declared: Any, parameters: Mapping[str, Parameter], where: str
) -> tuple[op_schema.Attr, ...]:
    if not isinstance(declared, Mapping):
        # Names alone declare strings.
        declared = dict.fromkeys(declared or (), PyCustomOpDef.dt_string)
    attrs = []
    for name, number in declared.items():
        if number not in _ATTR_TYPES or not name.isidentifier():
            raise DefinitionError(
                f"{where}, attr {name}",
                expected="a name, with dt_int64, dt_float, dt_string or dt_bool",
                got=_name_of(number),
                next='attrs={"name": PyCustomOpDef.dt_int64}',
            )
        kind = str(attr_kinds.kind_of_class(_ATTR_TYPES[number]))
        default = op_schema.REQUIRED
        if name in parameters and parameters[name].default is not Parameter.empty:
            default = parameters[name].default
        attrs.append(
            op_schema.Attr(name, kind, default, home="the function", lists=kind in ("int", "float"))
        )
    return tuple(attrs)


# ---- the class -----------------------------------------------------------------------------------


def _class_of(
    opdef: Opdef,
    inputs: Sequence[Parameter],
    outputs: Sequence[int],
    attrs: Sequence[op_schema.Attr],
) -> type:
    """Build the class of an op, with the declared dtypes and attrs."""
    defaults = [port.default for port in inputs]

    def __init__(self: Any, **values: Any) -> None:  # noqa: N807  # it becomes a method
        # Attrs that the node lacks have the default of the function.
        self._attrs = {attr.name: values[attr.name] for attr in attrs if attr.name in values}

    def compute(self: Any, *arrays: Any) -> Any:
        given = list(arrays)
        for position, array in enumerate(arrays):
            if array is None and defaults[position] is not Parameter.empty:
                given[position] = defaults[position]
        returned = opdef.body(*given, **self._attrs)
        is_several = isinstance(returned, list) and len(outputs) > 1
        results = returned if is_several or isinstance(returned, tuple) else (returned,)
        where = f"op {sanitize(_full_name(opdef.op_type))}"
        if len(results) != len(outputs):
            raise ResultError(
                f"{where}, outputs",
                expected=f"{len(outputs)}, as outputs= declares",
                got=str(len(results)),
                next="a tuple of as many arrays, or another outputs=",
            )
        # A value must stay the same; fewer digits of a float are the only loss.
        converted = []
        for position, (result, number) in enumerate(zip(results, outputs, strict=True)):
            converted.append(_converted(result, number, f"{where}, output {position}"))
        return tuple(converted)

    # pyopnb reads the ports of an op from the signature of compute.
    ports = [Parameter("self", Parameter.POSITIONAL_ONLY)]
    for port in inputs:
        is_optional = port.default is not Parameter.empty
        ports.append(port.replace(default=None) if is_optional else port)
    returns = list(map(_type, outputs))
    compute.__signature__ = inspect.Signature(ports, return_annotation=returns)  # type: ignore[attr-defined]
    members = {
        # Functions for onnxruntime-extensions may write to their arguments, so they get copies.
        "copy_inputs": True,
        "__doc__": inspect.getdoc(opdef.body),
        "__init__": __init__,
        "_attrs_declared": attrs,
        "_attrs_of": "the function",
        "_function_now": staticmethod(lambda: opdef.body),
        "compute": compute,
    }
    return type(opdef.op_type.rpartition("::")[2] or "Op", (), members)


def _type(number: int) -> TensorType:
    return TensorType(dtype(number), None) if number else ANY


def _converted(value: Any, number: int, where: str) -> Any:
    """Convert numbers to the declared dtype, and refuse to change more than digits of a float."""
    array = np.asarray(value)
    # An output of undefined dtype has the dtype of the first input, which the session checks.
    if not number or array.dtype == dtype(number).numpy:
        return array
    want = dtype(number)
    if array.dtype.kind == "U" and want.name == "string":
        return array.astype(object)
    # Floats are not integers, even if they are whole numbers.
    keeps_values = array.dtype.kind in "biu"
    if array.dtype.kind in "biuf":
        with np.errstate(all="ignore"):
            cast = array.astype(want.numpy)
        if "float" in want.name:
            keeps_values = np.array_equal(np.isfinite(cast), np.isfinite(array))
        elif keeps_values:
            keeps_values = np.array_equal(cast, array)
    if not keeps_values:
        raise ResultError(
            where,
            expected=f"{want.name}, as outputs= declares",
            got=argument_checks.describe(value),
            next="another dtype in outputs=, or numbers that it has",
        )
    return cast


def _source(func: Callable[..., Any]) -> str | None:
    """Return the function's text, to compare versions by; None where it is not known."""
    return class_texts.function_source(func) if isinstance(func, FunctionType) else None
