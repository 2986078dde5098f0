"""Arrays and numbers that record NumPy calls while ``compute`` is traced.

A `Traced` array and a `Number` know their value on the example and their tensor in the graph.
Each call is carried out twice: by NumPy on the example, which determines shape, dtype and
errors, and by a rule of `rules.TABLE`, which records nodes. A call that depends only on constants
is left to NumPy.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NoReturn

import numpy as np

from pyopnb.lowering.elementwise import neg
from pyopnb.lowering.refusal import refuse
from pyopnb.lowering.rules import BRACKETS, METADATA, REASONS, TABLE, Rule, name_of
from pyopnb.lowering.tensors import (
    INT64,
    Tensor,
    cast,
    constant,
    fit,
    node,
    shape,
    squeeze,
    unsqueeze,
)

__all__ = [
    "METHODS",
    "Number",
    "Traced",
    "arithmetic",
    "as_array",
    "call",
    "is_constant",
    "is_traced",
    "plain",
    "refuse_size",
    "size_of",
    "tensor_of",
]

_FLOAT64 = np.dtype(np.float64)
# Attributes of an array that a trace cannot have. A message writes them without brackets.
_ATTRIBUTES = {"nbytes", "strides", "flat", "ctypes", "data", "base", "imag"}
_ITEM = "a scalar array stays one: use it as it is"
# Their rules return sizes, and no tensor that could be compared with the NumPy result.
_OF_SIZES = {np.shape, np.size, np.ndim}
# Memory and casting: the values do not depend on them, and ``out`` is written by `call`.
_IGNORED_ARGUMENTS = {"out", "order", "subok", "like", "copy", "casting"}


# ---- numbers -------------------------------------------------------------------------------------


class Number:
    """A Python number that depends on the sizes of the inputs.

    Parameters
    ----------
    value : int, float or bool
        On the example.
    record : callable
        Gives the tensor: a scalar or a vector of one.
    origin : tuple of (Tensor, int), optional
        The tensor and axis that it is the size of.
    """

    __slots__ = ("_recorded", "origin", "record", "value")

    def __init__(
        self,
        value: Any,
        record: Callable[[], Tensor],
        origin: tuple[Tensor, int] | None = None,
    ) -> None:
        self.value = value
        self.record = record
        self.origin = origin
        self._recorded: Tensor | None = None

    @property  # type: ignore[misc]  # isinstance asks for it where the type itself is another
    def __class__(self) -> type:
        return type(self.value)

    @property
    def tensor(self) -> Tensor:
        """Record it as a scalar or a vector of one, of int64, float64 or bool."""
        # Recorded on first use, as most sizes are never used.
        if self._recorded is None:
            self._recorded = self.record()
        return self._recorded

    @property
    def scalar(self) -> Tensor:
        """Return the tensor without dimensions."""
        if self.tensor.ndim:
            return squeeze(self.tensor, [0])
        return self.tensor

    @property
    def vector(self) -> Tensor:
        """Return the tensor as a vector of one."""
        if self.tensor.ndim:
            return self.tensor
        return unsqueeze(self.tensor, [0])

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        refuse_size(f".{name}")

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **kwargs: Any) -> Any:
        return call_ufunc(ufunc, method, inputs, kwargs)

    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
        return call(function, args, kwargs)

    def __neg__(self) -> Number:
        value = -self.value
        return Number(value, lambda: neg(arithmetic(self, type(value))))


def refuse_size(what: str) -> NoReturn:
    """Refuse operations that need the value of a size while the op is traced."""
    refuse(
        f"{what} of a size that can change",
        'a fixed size in the hint of the input, "float32[3,N]", or NumPy functions on whole arrays',
        "a size that is the same for all inputs",
    )


def _needing_value(self: Number, *args: Any, **kwargs: Any) -> NoReturn:
    refuse_size("the value")


_WITH_VALUE = "bool index array int trunc ceil floor float hash str repr format round"
for _name in _WITH_VALUE.split():
    setattr(Number, f"__{_name}__", _needing_value)


def arithmetic(x: Any, kind: type) -> Tensor:
    """Record a number as the tensor that Python would calculate with."""
    dtype: np.dtype = INT64
    if kind is float:
        dtype = _FLOAT64
    if isinstance(x, Number):
        return cast(x.tensor, dtype)
    return constant(x, dtype)


# ---- arrays --------------------------------------------------------------------------------------


class Traced:
    """An array or NumPy scalar computed from the example.

    A write replaces its tensor in the graph. A view that was taken before the write
    cannot be used after it.

    Parameters
    ----------
    value : ndarray or numpy.generic
        The results of the NumPy functions on the example.
    tensor : Tensor, optional
        None for a constant.
    source : Traced, optional
        Of a view: the array that has its memory.
    """

    __slots__ = ("_seen", "_tensor", "_writes", "source", "unassigned", "value")
    __array_priority__ = 1000

    def __init__(
        self, value: Any, tensor: Tensor | None = None, source: Traced | None = None
    ) -> None:
        self.value = value
        self._tensor = tensor
        self._writes = 0
        # A view of a view has the memory of the first array.
        self.source: Traced | None = source
        if source is not None and source.source is not None:
            self.source = source.source
        self._seen = 0 if self.source is None else self.source._writes
        # The result of ``y[0] += 1`` before Python assigns it to y[0].
        self.unassigned: Traced | None = None

    @property  # type: ignore[misc]  # isinstance asks for it where the type itself is another
    def __class__(self) -> type:
        return type(self.value)

    @property
    def constant(self) -> bool:
        """Tell whether it is the same for all inputs."""
        if self._tensor is not None or self.unassigned is not None:
            return False
        return self.source is None or self.source.constant

    @property
    def tensor(self) -> Tensor:
        """Return the tensor that currently holds its value."""
        base = self
        if self.source is not None:
            base = self.source
        is_old = self.source is not None and base._writes != self._seen
        if base.unassigned is not None or is_old:
            refuse(
                "a view of an array that was written", "y = x.copy(), or the view after the write"
            )
        if self._tensor is None:
            return constant(np.array(self.value))
        return self._tensor

    def assign(self, new: Tensor) -> None:
        """Replace the whole content, as a write in place does."""
        if self.source is not None:
            refuse("a write into a view", "y[0, 1] = … in one step, or y = x.copy() before")
        self._tensor, self._writes = new, self._writes + 1

    def added(self, ufunc: np.ufunc, other: Any) -> Any:
        """Carry out ``self += other``, or another operator in place."""
        # Scalars are immutable, so the result is a new one.
        if not isinstance(self.value, np.ndarray):
            return call(ufunc, (self, other))
        if self.source is None:
            return call(ufunc, (self, other), {"out": (self,)})
        # Python assigns the result of y[0] += 1 to y[0] next, and the brackets of
        # y take it from there.
        result = call(ufunc, (self, other)).astype(self.dtype, casting="same_kind")
        self.source.unassigned = result
        return result

    # ---- the protocols of NumPy and Python ----

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **kwargs: Any) -> Any:
        return call_ufunc(ufunc, method, inputs, kwargs)

    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
        return call(function, args, kwargs)

    def __len__(self) -> int:
        if not self.ndim:
            raise TypeError("len() of unsized object")
        size = self.shape[0]
        if type(size) is Number:
            refuse_size("len()")
        return int(size)

    def __iter__(self) -> Iterator[Any]:
        size = self.shape[0] if self.ndim else 0
        # The number of iterations would be baked into the graph.
        if type(size) is Number:
            refuse_size("a loop over an axis")
        return iter([self[position] for position in range(size)])

    # ---- attributes ----

    @property
    def shape(self) -> tuple[Any, ...]:
        return tuple(size_of(self, axis) for axis in range(self.ndim))

    @property
    def ndim(self) -> int:
        return int(np.ndim(self.value))

    @property
    def dtype(self) -> np.dtype:
        return self.value.dtype  # type: ignore[no-any-return]  # of an ndarray

    @property
    def itemsize(self) -> int:
        return self.dtype.itemsize

    @property
    def size(self) -> Any:
        size = int(np.size(self.value))
        if self.constant or None not in self.tensor.dims:
            return size
        tensor = self.tensor
        return Number(size, lambda: node("Size", [tensor], INT64, ()))

    @property
    def flags(self) -> Any:
        return self.value.flags  # memory: no result depends on it

    @property
    def T(self) -> Any:  # noqa: N802  # ndarray's
        return call(np.transpose, (self,))

    def __getattr__(self, name: str) -> Any:
        # NumPy and Python probe for protocol methods; these must look absent.
        if name.startswith("__"):
            raise AttributeError(name)
        if not hasattr(np.ndarray, name):
            raise AttributeError(f"'numpy.ndarray' object has no attribute '{name}'")
        brackets = "()"
        if name in _ATTRIBUTES:
            brackets = ""
        refuse(f".{name}{brackets} of an array")

    # ---- reading and writing ----

    def __getitem__(self, key: Any) -> Any:
        return BRACKETS["read"](self, key)

    def __setitem__(self, key: Any, value: Any) -> None:
        BRACKETS["write"](self, key, value)

    # ---- methods ----

    def astype(
        self,
        dtype: Any,
        order: str = "K",
        casting: str = "unsafe",
        subok: bool = True,
        copy: bool = True,
    ) -> Any:
        # NumPy refuses a cast that the casting rule forbids.
        result = self.value.astype(dtype, casting=casting)
        if not copy and result.dtype == self.dtype:
            return self
        if self.constant:
            return Traced(result)
        if result.dtype.kind not in "biuf":
            refuse(f".astype({result.dtype})")
        return Traced(result, cast(self.tensor, result.dtype))

    def copy(self, order: str = "C") -> Traced:
        if self.constant:
            tensor = None
        else:
            tensor = self.tensor
        return Traced(np.array(self.value), tensor)

    __copy__ = copy

    def __deepcopy__(self, memo: Any) -> Traced:
        return self.copy()

    def reshape(self, *shape: Any, order: str = "C") -> Any:
        if order != "C":
            refuse(f".reshape with order={order!r}", "x.T.reshape(…)")
        return call(np.reshape, (self, shape[0] if len(shape) == 1 else shape))

    def transpose(self, *axes: Any) -> Any:
        if not axes:
            return call(np.transpose, (self,))
        return call(np.transpose, (self, axes[0] if len(axes) == 1 else axes))

    def flatten(self, order: str = "C") -> Any:
        if order != "C":
            refuse(f".flatten with order={order!r}", "x.T.flatten()")
        return call(np.ravel, (self,)).copy()

    def clip(self, min: Any = None, max: Any = None, **kwargs: Any) -> Any:
        return call(np.clip, (self, min, max), kwargs)

    def fill(self, value: Any) -> None:
        self[...] = value

    def sort(self, axis: int = -1, kind: Any = None, order: Any = None) -> None:
        self[...] = call(np.sort, (self, axis))


_REFUSED_METHODS: dict[str, tuple[str, str | None]] = {
    "__array__": (
        "the array's values, for code that NumPy does not hand over: scipy, a loop, np.float32(x)",
        "NumPy functions on whole arrays, x.astype(np.float32); or leave this op in Python",
    ),
    "__bool__": ("a condition that depends on values", "np.where(condition, a, b)"),
    "__float__": ("float() of an array", _ITEM),
    "__int__": ("int() of an array", f"{_ITEM}, or x.astype(np.int64)"),
    "__index__": ("a value as a Python integer", "an index array, np.take(x, i)"),
    "__complex__": ("complex() of an array", None),
    "__hash__": ("the hash of a value", "np.where, or np.take of a table"),
    "__str__": ("the text of an array", "nothing that prints"),
    "__repr__": ("the text of an array", "nothing that prints"),
    "__format__": ("the text of an array", "nothing that prints"),
    "__contains__": ("a condition that depends on values", "(x == item).any() as an array"),
    "__round__": ("round() of an array", "np.round(x)"),
    "item": (".item()", _ITEM),
    "tolist": (".tolist()", "NumPy functions on whole arrays"),
}

_NAMES_OF_METHODS = """sum prod mean var std max min argmax argmin any all cumsum cumprod round
ravel squeeze swapaxes take repeat dot argsort nonzero diagonal trace compress choose searchsorted
partition argpartition"""
METHODS = tuple(_NAMES_OF_METHODS.split())
"""The ndarray methods that do the same as the NumPy function of that name."""


def _refused(got: str, next_: str | None) -> Callable[..., NoReturn]:
    def method(self: Traced, *args: Any, **kwargs: Any) -> NoReturn:
        refuse(got, next_)

    return method


def _of_function(function: Any) -> Callable[..., Any]:
    def method(self: Traced, *args: Any, **kwargs: Any) -> Any:
        return call(function, (self, *args), kwargs)

    return method


for _name, (_got, _next) in _REFUSED_METHODS.items():
    setattr(Traced, _name, _refused(_got, _next))
for _name in METHODS:
    setattr(Traced, _name, _of_function(getattr(np, _name)))


def size_of(x: Traced, axis: int) -> Any:
    """Return a size of an array: an int if it is fixed, else a `Number`."""
    size = int(x.value.shape[axis])
    if x.constant:
        return size
    tensor = x.tensor
    if tensor.dims[axis] is not None:
        return size
    return Number(size, lambda: shape(tensor, axis, axis + 1), origin=(tensor, axis))


# ---- values of both ------------------------------------------------------------------------------


def plain(value: Any) -> Any:
    """Return the concrete value that NumPy computed on the example."""
    if type(value) in (Traced, Number):
        return value.value
    if type(value) in (tuple, list):
        return type(value)(map(plain, value))
    if type(value) is slice:
        return slice(plain(value.start), plain(value.stop), plain(value.step))
    if type(value) is dict:
        return {key: plain(item) for key, item in value.items()}
    return value


def _traced_items(value: Any) -> Iterator[Any]:
    """Yield the traced values in a value, also inside of lists, tuples, slices and dicts."""
    parts: Iterable[Any] = ()
    if type(value) in (Traced, Number):
        yield value
    elif type(value) in (tuple, list):
        parts = value
    elif type(value) is slice:
        parts = (value.start, value.stop, value.step)
    elif type(value) is dict:
        parts = value.values()
    for part in parts:
        yield from _traced_items(part)


def is_traced(value: Any) -> bool:
    """Tell whether a value, or one inside it, is traced, a constant array included."""
    return next(_traced_items(value), None) is not None


def is_constant(value: Any) -> bool:
    """Tell whether a value is the same for all inputs."""
    return all(type(item) is Traced and item.constant for item in _traced_items(value))


def tensor_of(value: Any, dtype: Any = None) -> Tensor:
    """Record the tensor of a value, cast to a dtype."""
    if type(value) is Traced:
        tensor = value.tensor
    elif type(value) is Number:
        tensor = value.scalar
    # A list with traced items is an array, as it is for NumPy.
    elif is_traced(value):
        tensor = _stacked(value, np.array(plain(value)).dtype)
    else:
        tensor = constant(value)
    if dtype is None:
        return tensor
    return cast(tensor, dtype)


def as_array(value: Any) -> Any:
    """Return a value as an array that records."""
    if type(value) is Traced:
        return value
    return Traced(np.asarray(plain(value)), None if is_constant(value) else tensor_of(value))


def _stacked(value: Any, dtype: np.dtype) -> Tensor:
    """Record a nested list as an array, level by level."""
    if type(value) not in (tuple, list):
        return tensor_of(value, dtype)
    parts = []
    for item in value:
        array = np.asarray(plain(item), dtype)
        parts.append(Traced(array, _stacked(item, dtype)))
    return tensor_of(call(np.stack, (parts,)))


# ---- calls ---------------------------------------------------------------------------------------


def call(function: Any, args: Sequence[Any], kwargs: Mapping[str, Any] | None = None) -> Any:
    """Call a NumPy function with some traced arguments.

    Raises
    ------
    Refusal
        There is no rule, or not for these arguments.
    Exception
        The exception that NumPy raises on the example.
    """
    kwargs = {key: value for key, value in (kwargs or {}).items() if value is not np._NoValue}
    if function in METADATA:
        return function(*plain(args), **plain(kwargs))
    out = kwargs.get("out")
    for ignored in _IGNORED_ARGUMENTS:
        kwargs.pop(ignored, None)
    # NumPy itself runs on the example first, and raises its own errors.
    result = function(*plain(args), **plain(kwargs))
    if is_constant(args) and is_constant(kwargs):
        value = _wrap_constants(result)
    else:
        value = _record(function, result, args, kwargs)
    if out is None:
        return value
    # A ufunc has a tuple of outputs.
    if isinstance(out, tuple):
        target = out[0]
    else:
        target = out
    target[...] = value
    return target


def _wrap_constants(result: Any) -> Any:
    if type(result) is list:
        return [_wrap_constants(item) for item in result]
    if isinstance(result, (tuple, list)):  # np.linalg.eigh gives a named tuple
        return tuple(map(_wrap_constants, result))
    if isinstance(result, np.ndarray):
        return Traced(result)
    return result


def _record(function: Any, result: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """Record the nodes of a call by the rule for its function."""
    rule = TABLE.get(function)
    if rule is None:
        why, next_ = REASONS.get(
            function, (f"{name_of(function)}, for which there is no operator", None)
        )
        refuse(why, next_)
    _check_arguments(function, rule, args, kwargs)
    recorded = rule(result, *args, **kwargs)
    if function in _OF_SIZES:
        return recorded
    if type(recorded) in (Tensor, Traced):
        return _fitted(result, recorded, args)
    if not isinstance(recorded, (list, tuple)) or not isinstance(result, (list, tuple)):
        return recorded
    parts = [_fitted(value, tensor, args) for value, tensor in zip(result, recorded, strict=True)]
    if type(result) is list:
        return parts
    return tuple(parts)


def _fitted(result: Any, recorded: Any, args: Sequence[Any]) -> Traced:
    """Return a NumPy result with its tensor; it may be a view of an argument."""
    if type(recorded) is Traced:
        recorded = recorded.tensor
    return Traced(result, fit(recorded, result), _source_of(result, args))


_OF_METHODS: dict[str, dict[np.ufunc, Any]] = {
    "reduce": {
        np.add: np.sum,
        np.multiply: np.prod,
        np.maximum: np.max,
        np.minimum: np.min,
        np.logical_and: np.all,
        np.logical_or: np.any,
    },
    "accumulate": {np.add: np.cumsum, np.multiply: np.cumprod},
}


def call_ufunc(ufunc: np.ufunc, method: str, inputs: tuple[Any, ...], kwargs: Any) -> Any:
    """Handle a ufunc call, as the NumPy ``__array_ufunc__`` protocol."""
    if method in _OF_METHODS and ufunc in _OF_METHODS[method]:
        # A method of a ufunc works on the first axis, where a function takes all.
        return call(_OF_METHODS[method][ufunc], inputs, {"axis": 0, **kwargs})
    if method == "outer":
        first, second = map(as_array, inputs)
        spread = first[(..., *(None,) * second.ndim)]
        return call_ufunc(ufunc, "__call__", (spread, second), kwargs)
    if method != "__call__":
        refuse(f"np.{ufunc.__name__}.{method}, for which there is no operator")
    if ufunc is np.divmod:
        return call(np.floor_divide, inputs), call(np.remainder, inputs)
    return call(ufunc, inputs, kwargs)


def _check_arguments(
    function: Any, rule: Rule, args: Sequence[Any], kwargs: dict[str, Any]
) -> None:
    """Drop arguments left at their defaults, and refuse arguments that the rule does not know."""
    signature = inspect.signature(rule)
    # A rule that takes all arguments reads them itself.
    kinds = {parameter.kind for parameter in signature.parameters.values()}
    if inspect.Parameter.VAR_KEYWORD in kinds:
        return
    for key in list(kwargs):
        if key in signature.parameters:
            continue
        if kwargs[key] is not None:
            refuse(f"{name_of(function)} with {key}=")
        del kwargs[key]
    # NumPy accepted the arguments, so a mismatch means that the rule does not support one.
    try:
        signature.bind(None, *args, **kwargs)
    except TypeError:
        refuse(f"{name_of(function)} with these arguments")


def _source_of(result: Any, args: Sequence[Any]) -> Traced | None:
    """Return the argument that the NumPy result is a view of."""
    if not isinstance(result, np.ndarray):
        return None
    arrays: list[Any] = []
    for arg in args:
        arrays.extend(arg if isinstance(arg, (list, tuple)) else [arg])
    # Compare memory bounds only; proving that elements overlap would be slow.
    for array in arrays:
        if type(array) is not Traced or not isinstance(array.value, np.ndarray):
            continue
        if np.may_share_memory(result, array.value):
            return array
    return None
