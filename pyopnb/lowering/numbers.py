"""Python's numbers while ``compute`` is traced: sizes of inputs, attrs, and what is computed from them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

import numpy as np

from pyopnb.lowering.protocols import call, call_ufunc
from pyopnb.lowering.refusal import NeedsValue, refuse
from pyopnb.lowering.tensors import INT64, Tensor, cast, constant, elementwise, squeeze, unsqueeze

__all__ = ["Number", "arithmetic"]

_FLOAT64 = np.dtype(np.float64)


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
        return call_ufunc(ufunc, method, inputs, kwargs)

    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
        return call(function, args, kwargs)

    def __neg__(self) -> Number:
        return Number(
            -self.value, lambda: elementwise("Neg", arithmetic(self, type(-self.value))), self.attrs
        )

    def __pos__(self) -> Number:
        return self

    def __abs__(self) -> Number:
        return Number(
            abs(self.value),
            lambda: elementwise("Abs", arithmetic(self, type(self.value))),
            self.attrs,
        )


def arithmetic(x: Any, kind: type) -> Tensor:
    """A number as the tensor that Python would calculate with."""
    dtype = _FLOAT64 if kind is float else INT64
    return cast(x.tensor, dtype) if isinstance(x, Number) else constant(x, dtype)
