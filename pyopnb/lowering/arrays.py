"""Arrays while ``compute`` is traced: they know their value on the example and their tensor in the graph.

They have the methods of ndarray, indexing and writing. A written array is replaced in the graph; a view is recorded anew when
its source was written.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NoReturn

import numpy as np

from pyopnb.lowering.numbers import Number
from pyopnb.lowering.protocols import call, call_ufunc
from pyopnb.lowering.refusal import refuse
from pyopnb.lowering.tensors import INT64, Tensor, cast, constant, node, shape

__all__ = ["METHODS", "Traced", "size_of"]

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
                refuse(
                    "a write into a view", "y = x.copy(), before you take views of y, or np.where"
                )
            self._write(new)
            self._seen = self.source._stamp()
        self._tensor, self.version = new, self.version + 1

    # ---- what NumPy asks for ----

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **kwargs: Any) -> Any:
        return call_ufunc(ufunc, method, inputs, kwargs)

    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
        return call(function, args, kwargs)

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
        return call(np.transpose, (self,))

    @property
    def mT(self) -> Any:  # noqa: N802  # ndarray's
        return call(np.swapaxes, (self, -1, -2))

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
        refuse(
            f".{name}{'' if name in _ATTRIBUTES else '()'} of an array",
            "np.where" if name == "itemset" else None,
        )

    # ---- reading and writing ----

    def __getitem__(self, key: Any) -> Any:
        from pyopnb.lowering.indexing import take

        return take(self, key)

    def __setitem__(self, key: Any, value: Any) -> None:
        from pyopnb.lowering.indexing import put

        put(self, key, value)

    # ---- methods ----

    def astype(
        self,
        dtype: Any,
        order: str = "K",
        casting: str = "unsafe",
        subok: bool = True,
        copy: bool = True,
    ) -> Any:
        result = self.value.astype(dtype, casting=casting)
        if not copy and result.dtype == self.dtype:
            return self
        if self.constant:
            return Traced(result)
        if result.dtype.kind not in "biuf":
            refuse(f".astype({result.dtype})")
        return Traced(result, cast(self.tensor, result.dtype))

    def copy(self, order: str = "C") -> Traced:
        return (
            Traced(np.array(self.value))
            if self.constant
            else Traced(np.array(self.value), self.tensor)
        )

    __copy__ = copy

    def __deepcopy__(self, memo: Any) -> Traced:
        return self.copy()

    def reshape(self, *shape: Any, order: str = "C") -> Any:
        if order != "C":
            refuse(f".reshape with order={order!r}", "x.T.reshape(…)")
        return call(np.reshape, (self, shape[0] if len(shape) == 1 else shape))

    def transpose(self, *axes: Any) -> Any:
        return call(
            np.transpose, (self, *([axes[0]] if len(axes) == 1 else [axes] if axes else []))
        )

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
        return call(function, (self, *args), kwargs)

    method.__name__ = name
    return method


METHODS = (
    *(
        "sum",
        "prod",
        "mean",
        "var",
        "std",
        "max",
        "min",
        "argmax",
        "argmin",
        "any",
        "all",
        "cumsum",
        "cumprod",
    ),
    *(
        "round",
        "ravel",
        "squeeze",
        "swapaxes",
        "take",
        "repeat",
        "dot",
        "argsort",
        "nonzero",
        "diagonal",
        "trace",
    ),
    *("compress", "choose", "searchsorted", "partition", "argpartition"),
)
"""The methods of ndarray that are what a function of the same name is."""

for _name in METHODS:
    setattr(Traced, _name, _method(_name, getattr(np, _name)))
Traced.conj = Traced.conjugate = _method("conj", np.positive)  # type: ignore[attr-defined]  # complex numbers are not traced


def size_of(x: Traced, axis: int) -> Any:
    """A size of an array: an int where it is the same for all inputs."""
    size = int(x.value.shape[axis])
    if x.constant:
        return size
    tensor = x.tensor
    if tensor.dims[axis] is not None:
        return size
    return Number(size, lambda: shape(tensor, axis, axis + 1), origin=(tensor, axis))
