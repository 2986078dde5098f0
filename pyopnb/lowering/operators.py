"""Python operators (``+``, ``<``, ``@`` …) on traced numbers and arrays.

They become methods of both classes when this module is imported.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from pyopnb.lowering.elementwise import (
    add,
    div,
    equal,
    greater,
    greater_equal,
    less,
    less_equal,
    mod,
    mul,
    sub,
    where,
)
from pyopnb.lowering.refusal import refuse
from pyopnb.lowering.tensors import Tensor
from pyopnb.lowering.tracing import Number, Traced, arithmetic, call, refuse_size

__all__: list[str] = []

# ---- between numbers -----------------------------------------------------------------------------


def _is_number(x: Any) -> bool:
    return type(x) in (int, float, bool) or type(x) is Number


def _value_of(x: Any) -> Any:
    if type(x) is Number:
        return x.value
    return x


def _integer_remainder(a: Tensor, b: Tensor) -> Tensor:
    # Dividing integers by zero would crash the process; on the example, Python has raised already.
    if b.const is None:
        b = where(equal(b, 0), 1, b)
    return mod(a, b)


def _integer_quotient(a: Tensor, b: Tensor) -> Tensor:
    return div(sub(a, _integer_remainder(a, b)), b)


_Record = Callable[[Tensor, Tensor], Tensor]

_OF_NUMBERS: Mapping[Any, _Record] = {
    operator.add: add,
    operator.sub: sub,
    operator.mul: mul,
    operator.truediv: div,
    operator.lt: less,
    operator.le: less_equal,
    operator.gt: greater,
    operator.ge: greater_equal,
    operator.eq: equal,
}
_OF_INTEGERS: Mapping[Any, _Record] = {
    operator.floordiv: _integer_quotient,
    operator.mod: _integer_remainder,
}


def _of_numbers(function: Any, a: Any, b: Any) -> Any:
    """Apply a Python operator to two numbers, at least one of them traced."""
    if function in (operator.eq, operator.ne) and _is_same_size(a, b):
        return function is operator.eq
    x = _value_of(a)
    y = _value_of(b)
    value = function(x, y)
    # Python calculates with floats where one is a float, and where it divides.
    number_type: type = int
    if float in (type(value), type(x), type(y)):
        number_type = float
    record = _OF_NUMBERS.get(function)
    if record is None and number_type is int:
        record = _OF_INTEGERS.get(function)
    if record is None:
        refuse_size(f"the operator {function.__name__}")

    def recorded() -> Tensor:
        first = arithmetic(a, number_type)
        second = arithmetic(b, number_type)
        return record(first, second)

    return Number(value, recorded)


def _is_same_size(a: Any, b: Any) -> bool:
    """Tell whether two numbers are the size of one axis."""
    if type(a) is not Number or type(b) is not Number:
        return False
    if a.origin is None or b.origin is None:
        return False
    tensor, axis = a.origin
    return tensor is b.origin[0] and axis == b.origin[1]


# ---- methods of both -----------------------------------------------------------------------------

# The names of the Python methods, and the ufuncs that do the same to arrays.
_BINARY: dict[str, np.ufunc] = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply,
    "truediv": np.divide, "floordiv": np.floor_divide, "mod": np.remainder,
    "pow": np.power, "matmul": np.matmul,
    "and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor,
    "lshift": np.left_shift, "rshift": np.right_shift,
}  # fmt: skip
_COMPARISONS: dict[str, np.ufunc] = {
    "lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal,
    "eq": np.equal, "ne": np.not_equal,
}  # fmt: skip
_UNARY: dict[str, np.ufunc] = {
    "neg": np.negative,
    "pos": np.positive,
    "abs": np.absolute,
    "invert": np.invert,
}

_OPERANDS = (Traced, Number, np.ndarray, np.generic, int, float, bool, list, tuple)


def _operator(ufunc: np.ufunc, of_numbers: Any, swapped: bool = False) -> Callable[[Any, Any], Any]:
    def method(self: Any, other: Any) -> Any:
        if not isinstance(other, _OPERANDS):
            # Python would answer x == None by itself, where NumPy asks each element.
            if of_numbers in (operator.eq, operator.ne):
                refuse(f"a comparison with {type(other).__name__}", "is None")
            return NotImplemented
        a, b = (other, self) if swapped else (self, other)
        if _is_number(a) and _is_number(b):
            return _of_numbers(of_numbers, a, b)
        return call(ufunc, (a, b))

    return method


def _in_place(ufunc: np.ufunc) -> Callable[[Any, Any], Any]:
    def method(self: Traced, other: Any) -> Any:
        return self.added(ufunc, other)

    return method


def _of_one(ufunc: np.ufunc) -> Callable[[Traced], Any]:
    def method(self: Traced) -> Any:
        return call(ufunc, (self,))

    return method


for _name, _ufunc in (_BINARY | _COMPARISONS).items():
    _python = getattr(operator, f"__{_name}__")
    for _class in (Traced, Number):
        setattr(_class, f"__{_name}__", _operator(_ufunc, _python))
for _name, _ufunc in _BINARY.items():
    _python = getattr(operator, f"__{_name}__")
    # 1 - x asks x, as an int does not know it.
    for _class in (Traced, Number):
        setattr(_class, f"__r{_name}__", _operator(_ufunc, _python, swapped=True))
    setattr(Traced, f"__i{_name}__", _in_place(_ufunc))
for _name, _ufunc in _UNARY.items():
    setattr(Traced, f"__{_name}__", _of_one(_ufunc))
