"""What ``compute`` gets while it is traced: arrays and numbers that know their value on the example and their node.

Arrays implement NEP 13 (``__array_ufunc__``) and NEP 18 (``__array_function__``), the methods of ndarray, indexing and writing.
A written array is replaced in the graph; a view is recorded anew when its source was written.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NoReturn

import numpy as np

from pyopnb.lowering.refusal import NeedsValue, refuse
from pyopnb.lowering.tensors import INT64, Tensor, cast, constant, elementwise, node, shape, squeeze, unsqueeze, where

__all__ = ["METHODS", "Number", "Traced", "is_constant", "is_traced", "plain", "size_of", "tensor_of"]

_FLOAT64 = np.dtype(np.float64)


def _call(function: Any, args: Any, kwargs: Mapping[str, Any] | None = None) -> Any:
    from pyopnb.lowering.dispatch import call  # which is written in terms of these classes

    return call(function, args, kwargs or {})


# ---- Python's numbers --------------------------------------------------------------------------------------------------------


class Number:
    """A number of Python's that depends on sizes of the inputs or on attrs.

    Parameters
    ----------
    value : int, float or bool
        On the example.
    record : callable
        Gives the tensor: a scalar or a vector of one.
    attrs : frozenset of str
        The attrs that it depends on.
    origin : tuple of (Tensor, int), optional
        The tensor and axis that it is the size of.
    """

    __slots__ = ("_made", "_record", "attrs", "origin", "value")

    def __init__(
        self,
        value: Any,
        record: Callable[[], Tensor],
        attrs: frozenset[str] = frozenset(),
        origin: tuple[Tensor, int] | None = None,
    ) -> None:
        self.value, self._record, self.attrs, self.origin = value, record, attrs, origin
        self._made: Tensor | None = None

    @property  # type: ignore[misc]  # isinstance asks for it where the type itself is another
    def __class__(self) -> type:
        return type(self.value)

    @property
    def tensor(self) -> Tensor:
        """A scalar or a vector of one, of int64, float64 or bool; a float attr as float32."""
        if self._made is None:
            self._made = self._record()
        return self._made

    @property
    def scalar(self) -> Tensor:
        """Without dimensions."""
        return squeeze(self.tensor, [0]) if self.tensor.ndim else self.tensor

    @property
    def vector(self) -> Tensor:
        """As a vector of one."""
        return self.tensor if self.tensor.ndim else unsqueeze(self.tensor, [0])

    def need(self, what: str) -> NoReturn:
        """The value is needed while the op is traced: those of attrs are given, sizes change from input to input."""
        if self.attrs:
            raise NeedsValue(self.attrs)
        refuse(
            f"{what} of a size that can change",
            'the size as a number in the hint of the input, "float32[N,3]", or NumPy functions, np.arange(n), np.minimum',
            "a size that is the same for all inputs",
        )

    def __bool__(self) -> NoReturn:
        self.need("a condition")

    def __index__(self) -> NoReturn:
        self.need("the value")

    def __int__(self) -> NoReturn:
        self.need("int()")

    def __float__(self) -> NoReturn:
        self.need("float()")

    def __hash__(self) -> NoReturn:
        self.need("the hash")

    def __str__(self) -> str:
        self.need("the text")

    __repr__ = __str__

    def __format__(self, spec: str) -> str:
        self.need("the text")

    def __round__(self, digits: int | None = None) -> NoReturn:
        self.need("round()")

    __trunc__ = __ceil__ = __floor__ = __int__

    def __array__(self, *args: Any, **kwargs: Any) -> NoReturn:
        self.need("the value")

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        self.need(f".{name}")

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **kwargs: Any) -> Any:
        return Traced.__array_ufunc__(self, ufunc, method, *inputs, **kwargs)  # type: ignore[arg-type]  # it uses the inputs alone

    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
        return _call(function, args, kwargs)

    def __neg__(self) -> Number:
        return Number(-self.value, lambda: elementwise("Neg", _arithmetic(self, type(-self.value))), self.attrs)

    def __pos__(self) -> Number:
        return self

    def __abs__(self) -> Number:
        return Number(abs(self.value), lambda: elementwise("Abs", _arithmetic(self, type(self.value))), self.attrs)


def _arithmetic(x: Any, kind: type) -> Tensor:
    """A number as the tensor that Python would calculate with."""
    dtype = _FLOAT64 if kind is float else INT64
    return cast(x.tensor, dtype) if isinstance(x, Number) else constant(x, dtype)


def _is_number(x: Any) -> bool:
    return type(x) in (int, float, bool) or type(x) is Number


_SIMPLE = {operator.add: "Add", operator.sub: "Sub", operator.mul: "Mul", operator.truediv: "Div"}
_COMPARED = {
    operator.lt: "Less",
    operator.le: "LessOrEqual",
    operator.gt: "Greater",
    operator.ge: "GreaterOrEqual",
    operator.eq: "Equal",
}


def _of_numbers(function: Any, a: Any, b: Any) -> Any:
    """An operator of Python's between numbers of which one is traced."""
    attrs = frozenset().union(*(x.attrs for x in (a, b) if type(x) is Number))
    if function in (operator.eq, operator.ne) and _is_same_size(a, b):
        return function is operator.eq
    x, y = plain(a), plain(b)
    value = function(x, y)
    kind = float if float in (type(value), type(x), type(y)) else int
    if function in _SIMPLE:
        return Number(value, lambda: elementwise(_SIMPLE[function], _arithmetic(a, kind), _arithmetic(b, kind)), attrs)
    if function in _COMPARED:
        return Number(
            value, lambda: elementwise(_COMPARED[function], _arithmetic(a, kind), _arithmetic(b, kind), dtype=bool), attrs
        )
    if function in (operator.floordiv, operator.mod) and kind is int:
        return Number(value, lambda: _integer_division(function, _arithmetic(a, int), _arithmetic(b, int)), attrs)
    whole = a if type(a) is Number else b
    whole = Number(value, whole._record, attrs)
    whole.need(f"the operator {function.__name__}")


def _is_same_size(a: Any, b: Any) -> bool:
    if type(a) is not Number or type(b) is not Number or a.origin is None or b.origin is None:
        return False
    return a.origin[0] is b.origin[0] and a.origin[1] == b.origin[1]


def _integer_division(function: Any, a: Tensor, b: Tensor) -> Tensor:
    if b.const is None:  # an integer division by zero would end the process; Python has raised before
        b = where(elementwise("Equal", b, constant(0, INT64), dtype=bool), constant(1, INT64), b)
    rest = elementwise("Mod", a, b)
    return rest if function is operator.mod else elementwise("Div", elementwise("Sub", a, rest), b)


# ---- arrays ------------------------------------------------------------------------------------------------------------------

_ATTRIBUTES = {"nbytes", "strides", "flat", "ctypes", "data", "base", "imag"}
_ITEM = "a scalar array stays one: use it as it is"


class Traced:
    """An array, or a scalar of NumPy's, of the example.

    Parameters
    ----------
    value : ndarray or numpy.generic
        On the example; NumPy's own functions have made it.
    tensor : Tensor, optional
        None for a constant.
    source : Traced, optional
        Of a view: what it is a view of.
    rederive : callable, optional
        Of a view: gives its tensor from the source's as that is now.
    write : callable, optional
        Of a view that can be written: writes a tensor into the source.
    """

    __slots__ = ("_rederive", "_seen", "_tensor", "_write", "source", "value", "version")
    __array_priority__ = 1000

    def __init__(
        self,
        value: Any,
        tensor: Tensor | None = None,
        *,
        source: Traced | None = None,
        rederive: Callable[[], Tensor] | None = None,
        write: Callable[[Tensor], None] | None = None,
    ) -> None:
        self.value, self._tensor, self.version = value, tensor, 0
        self.source, self._rederive, self._write = source, rederive, write
        self._seen = 0 if source is None else source._stamp()

    @property  # type: ignore[misc]  # isinstance asks for it where the type itself is another
    def __class__(self) -> type:
        return type(self.value)

    def _stamp(self) -> int:
        return self.version + (self.source._stamp() if self.source is not None else 0)

    @property
    def constant(self) -> bool:
        """Whether it is the same for all inputs."""
        return self._tensor is None and (self.source is None or self.source.constant)

    @property
    def tensor(self) -> Tensor:
        """Its place in the graph, as it is now."""
        if self.constant:
            return constant(np.array(self.value))
        if self.source is not None and (self._tensor is None or self.source._stamp() != self._seen):
            self._tensor, self._seen = self._rederive(), self.source._stamp()  # type: ignore[misc]  # views have one
        return self._tensor  # type: ignore[return-value]  # it is no constant

    def assign(self, new: Tensor) -> None:
        """Replace the whole content, as a write in place does."""
        if self.source is not None:
            if self._write is None:
                refuse("a write into a view", "y = x.copy(), before you take views of y, or np.where")
            self._write(new)
            self._seen = self.source._stamp()
        self._tensor, self.version = new, self.version + 1

    # ---- what NumPy asks for ----

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **kwargs: Any) -> Any:
        if method == "__call__":
            return _call(ufunc, inputs, kwargs)
        reduced = {np.add: np.sum, np.multiply: np.prod, np.maximum: np.max, np.minimum: np.min}
        reduced |= {np.logical_and: np.all, np.logical_or: np.any}
        if method == "reduce" and ufunc in reduced:
            array, *rest = inputs
            axis = rest[0] if rest else kwargs.get("axis", 0)
            return _call(reduced[ufunc], (array,), {"axis": axis, "keepdims": kwargs.get("keepdims", False)})
        if method == "accumulate" and ufunc is np.add:
            return _call(np.cumsum, (inputs[0],), {"axis": kwargs.get("axis", 0)})
        if method == "outer":
            a, b = inputs
            return _call(ufunc, (_call(np.reshape, (a, (*np.shape(a), *[1] * np.ndim(b)))), b))
        refuse(f"np.{ufunc.__name__}.{method}")

    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
        return _call(function, args, kwargs)

    def __array__(self, *args: Any, **kwargs: Any) -> NoReturn:
        refuse(
            "the array's values, for code that NumPy does not hand over: scipy, a loop, np.float32(x)",
            "NumPy functions on whole arrays, x.astype(np.float32); or leave this op in Python",
        )

    # ---- what Python asks for ----

    def __bool__(self) -> NoReturn:
        refuse("a condition that depends on values", "np.where(condition, a, b)")

    def __float__(self) -> NoReturn:
        refuse("float() of an array", _ITEM)

    def __int__(self) -> NoReturn:
        refuse("int() of an array", f"{_ITEM}, or x.astype(np.int64)")

    def __index__(self) -> NoReturn:
        refuse("a value as a Python integer", "an index array, np.take(x, i)")

    def __complex__(self) -> NoReturn:
        refuse("complex() of an array")

    def __hash__(self) -> NoReturn:
        refuse("the hash of a value", "np.where, or np.take of a table")

    def __str__(self) -> str:
        refuse("the text of an array", "nothing that prints")

    __repr__ = __str__

    def __format__(self, spec: str) -> str:
        refuse("the text of an array", "nothing that prints")

    def __len__(self) -> int:
        if not self.ndim:
            raise TypeError("len() of unsized object")
        size = self.shape[0]
        if isinstance(size, Number) and type(size) is Number:
            size.need("len()")
        return int(size)

    def __iter__(self) -> Iterator[Any]:
        size = self.shape[0] if self.ndim else 0
        if type(size) is Number:
            refuse(
                "a loop over an axis whose size can change",
                'NumPy functions on whole arrays, or the size in the hint, "float32[3,N]"',
            )
        return iter([self[place] for place in range(size)])

    def __contains__(self, item: Any) -> NoReturn:
        refuse("a condition that depends on values", "(x == item).any() as an array")

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
        if self.constant or None not in self.tensor.dims:
            return int(np.size(self.value))
        tensor = self.tensor
        return Number(int(np.size(self.value)), lambda: node("Size", [tensor], INT64, ()))

    @property
    def flags(self) -> Any:
        return self.value.flags  # memory: no result depends on it

    @property
    def T(self) -> Any:  # noqa: N802  # ndarray's
        return _call(np.transpose, (self,))

    @property
    def mT(self) -> Any:  # noqa: N802  # ndarray's
        return _call(np.swapaxes, (self, -1, -2))

    @property
    def real(self) -> Any:
        if self.dtype.kind == "c":
            refuse("complex numbers")
        return self

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        if not hasattr(np.ndarray, name):
            raise AttributeError(f"'numpy.ndarray' object has no attribute '{name}'")
        refuse(f".{name}{'' if name in _ATTRIBUTES else '()'} of an array", "np.where" if name == "itemset" else None)

    # ---- reading and writing ----

    def __getitem__(self, key: Any) -> Any:
        from pyopnb.lowering.indexing import take

        return take(self, key)

    def __setitem__(self, key: Any, value: Any) -> None:
        from pyopnb.lowering.indexing import put

        put(self, key, value)

    # ---- methods ----

    def astype(self, dtype: Any, order: str = "K", casting: str = "unsafe", subok: bool = True, copy: bool = True) -> Any:
        result = self.value.astype(dtype, casting=casting)
        if not copy and result.dtype == self.dtype:
            return self
        if self.constant:
            return Traced(result)
        if result.dtype.kind not in "biuf":
            refuse(f".astype({result.dtype})")
        return Traced(result, cast(self.tensor, result.dtype))

    def copy(self, order: str = "C") -> Traced:
        return Traced(np.array(self.value)) if self.constant else Traced(np.array(self.value), self.tensor)

    __copy__ = copy

    def __deepcopy__(self, memo: Any) -> Traced:
        return self.copy()

    def reshape(self, *shape: Any, order: str = "C") -> Any:
        if order != "C":
            refuse(f".reshape with order={order!r}", "x.T.reshape(…)")
        return _call(np.reshape, (self, shape[0] if len(shape) == 1 else shape))

    def transpose(self, *axes: Any) -> Any:
        return _call(np.transpose, (self, *([axes[0]] if len(axes) == 1 else [axes] if axes else [])))

    def flatten(self, order: str = "C") -> Any:
        if order != "C":
            refuse(f".flatten with order={order!r}", "x.T.flatten()")
        return _call(np.ravel, (self,)).copy()

    def fill(self, value: Any) -> None:
        self[...] = value

    def sort(self, axis: int = -1, kind: Any = None, order: Any = None) -> None:
        self[...] = _call(np.sort, (self, axis))

    def view(self, *args: Any) -> Any:
        if args and args[0] is not np.ndarray:
            refuse(".view with another dtype", ".astype")
        return self[...]

    def item(self, *args: Any) -> NoReturn:
        refuse(".item()", _ITEM)

    def tolist(self) -> NoReturn:
        refuse(".tolist()", "NumPy functions on whole arrays")

    def __round__(self, digits: int | None = None) -> Any:
        refuse("round() of an array", "np.round(x)")

    def __divmod__(self, other: Any) -> Any:
        return self // other, self % other


def _method(name: str, function: Any) -> Callable[..., Any]:
    def method(self: Traced, *args: Any, **kwargs: Any) -> Any:
        return _call(function, (self, *args), kwargs)

    method.__name__ = name
    return method


METHODS = (
    *("sum", "prod", "mean", "var", "std", "max", "min", "argmax", "argmin", "any", "all", "cumsum", "cumprod", "clip"),
    *("round", "ravel", "squeeze", "swapaxes", "take", "repeat", "dot", "argsort", "nonzero", "diagonal", "trace"),
    *("compress", "choose", "searchsorted", "partition", "argpartition"),
)
"""The methods of ndarray that are what a function of the same name is."""

for _name in METHODS:
    setattr(Traced, _name, _method(_name, getattr(np, _name)))
Traced.conj = Traced.conjugate = _method("conj", np.positive)  # type: ignore[attr-defined]  # complex numbers are not traced


# ---- operators ---------------------------------------------------------------------------------------------------------------

_BINARY = {
    "add": (np.add, operator.add), "sub": (np.subtract, operator.sub), "mul": (np.multiply, operator.mul),
    "truediv": (np.divide, operator.truediv), "floordiv": (np.floor_divide, operator.floordiv),
    "mod": (np.remainder, operator.mod), "pow": (np.power, operator.pow), "matmul": (np.matmul, operator.matmul),
    "and": (np.bitwise_and, operator.and_), "or": (np.bitwise_or, operator.or_), "xor": (np.bitwise_xor, operator.xor),
    "lshift": (np.left_shift, operator.lshift), "rshift": (np.right_shift, operator.rshift),
}  # fmt: skip
_COMPARISONS = {
    "lt": (np.less, operator.lt), "le": (np.less_equal, operator.le), "gt": (np.greater, operator.gt),
    "ge": (np.greater_equal, operator.ge), "eq": (np.equal, operator.eq), "ne": (np.not_equal, operator.ne),
}  # fmt: skip


def _operator(ufunc: np.ufunc, of_numbers: Any, swapped: bool = False) -> Callable[[Any, Any], Any]:
    def method(self: Any, other: Any) -> Any:
        if not isinstance(other, (Traced, Number, np.ndarray, np.generic, int, float, bool, list, tuple)):
            if type(self) is Traced and of_numbers in (operator.eq, operator.ne):
                return _never_equal(self, other, of_numbers is operator.ne)
            return NotImplemented
        pair = (other, self) if swapped else (self, other)
        if all(map(_is_number, pair)):
            return _of_numbers(of_numbers, *pair)
        return _call(ufunc, pair)

    return method


def _never_equal(x: Traced, other: Any, answer: bool) -> Any:
    """``x == None``, which NumPy answers for each element."""
    if not (np.asarray(x.value == other) == np.False_).all():
        refuse(f"a comparison with {type(other).__name__}")
    return _call(np.logical_or if answer else np.logical_and, (x, answer))


def _in_place(ufunc: np.ufunc) -> Callable[[Any, Any], Any]:
    def method(self: Traced, other: Any) -> Any:
        if not isinstance(self.value, np.ndarray):  # a scalar is another one afterwards
            return _call(ufunc, (self, other))
        return _call(ufunc, (self, other), {"out": (self,)})

    return method


for _name, (_ufunc, _python) in _BINARY.items():
    for _class in (Traced, Number):
        setattr(_class, f"__{_name}__", _operator(_ufunc, _python))
        setattr(_class, f"__r{_name}__", _operator(_ufunc, _python, swapped=True))
    setattr(Traced, f"__i{_name}__", _in_place(_ufunc))
for _name, (_ufunc, _python) in _COMPARISONS.items():
    for _class in (Traced, Number):
        setattr(_class, f"__{_name}__", _operator(_ufunc, _python))
for _name, _ufunc in {"neg": np.negative, "pos": np.positive, "abs": np.absolute, "invert": np.invert}.items():
    setattr(Traced, f"__{_name}__", lambda self, ufunc=_ufunc: _call(ufunc, (self,)))


# ---- from one to the other ---------------------------------------------------------------------------------------------------


def plain(value: Any) -> Any:
    """A value as NumPy has it on the example."""
    if type(value) in (Traced, Number):
        return value.value
    if type(value) in (tuple, list):
        return type(value)(map(plain, value))
    if type(value) is slice:
        return slice(plain(value.start), plain(value.stop), plain(value.step))
    if type(value) is dict:
        return {key: plain(item) for key, item in value.items()}
    return value


def is_traced(value: Any) -> bool:
    """Whether a value, or one inside it, is traced; a constant array is."""
    if type(value) in (tuple, list):
        return any(map(is_traced, value))
    if type(value) is slice:
        return any(map(is_traced, (value.start, value.stop, value.step)))
    return type(value) in (Traced, Number)


def is_constant(value: Any) -> bool:
    """Whether a value is the same for all inputs."""
    if type(value) is Number:
        return False
    if type(value) is Traced:
        return value.constant
    if type(value) in (tuple, list):
        return all(map(is_constant, value))
    if type(value) is slice:
        return all(map(is_constant, (value.start, value.stop, value.step)))
    return all(map(is_constant, value.values())) if isinstance(value, dict) else True


def size_of(x: Traced, axis: int) -> Any:
    """A size of an array: an int where it is the same for all inputs."""
    size = int(x.value.shape[axis])
    if x.constant:
        return size
    tensor = x.tensor
    if tensor.dims[axis] is not None:
        return size
    return Number(size, lambda: shape(tensor, axis, axis + 1), origin=(tensor, axis))


def tensor_of(value: Any, dtype: Any = None) -> Tensor:
    """The tensor of a value, cast to a dtype."""
    if type(value) is Traced:
        made = value.tensor
    elif type(value) is Number:
        made = value.scalar
    elif is_traced(value):
        made = tensor_of(_call(np.stack, ([_as_array(item) for item in value],)))
    else:
        made = constant(value)
    return made if dtype is None else cast(made, dtype)


def _as_array(value: Any) -> Any:
    return (
        value
        if type(value) is Traced
        else Traced(np.asarray(value.value), value.scalar)
        if type(value) is Number
        else np.asarray(value)
    )
