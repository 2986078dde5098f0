"""Python's operators between what is traced: ``+``, ``<``, ``@`` and their like, of numbers and of arrays.

They become methods of both classes when this module is imported.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from pyopnb.lowering.refusal import refuse
from pyopnb.lowering.tensors import INT64, Tensor, constant, elementwise, where
from pyopnb.lowering.tracing import Number, Traced, arithmetic, call

# ---- between numbers ---------------------------------------------------------------------------------------------------------


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
    """Apply an operator of Python's to numbers of which one is traced."""
    attrs = frozenset().union(*(x.attrs for x in (a, b) if type(x) is Number))
    if function in (operator.eq, operator.ne) and _is_same_size(a, b):
        return function is operator.eq
    x, y = (item.value if type(item) is Number else item for item in (a, b))
    value = function(x, y)
    kind = float if float in (type(value), type(x), type(y)) else int
    if function in _SIMPLE:
        return Number(
            value,
            lambda: elementwise(_SIMPLE[function], arithmetic(a, kind), arithmetic(b, kind)),
            attrs,
        )
    if function in _COMPARED:
        return Number(
            value,
            lambda: elementwise(
                _COMPARED[function], arithmetic(a, kind), arithmetic(b, kind), dtype=bool
            ),
            attrs,
        )
    if function in (operator.floordiv, operator.mod) and kind is int:
        return Number(
            value,
            lambda: _integer_division(function, arithmetic(a, int), arithmetic(b, int)),
            attrs,
        )
    traced = a if type(a) is Number else b
    Number(value, traced.record, attrs).need(f"the operator {function.__name__}")


def _is_same_size(a: Any, b: Any) -> bool:
    if type(a) is not Number or type(b) is not Number or a.origin is None or b.origin is None:
        return False
    return a.origin[0] is b.origin[0] and a.origin[1] == b.origin[1]


def _integer_division(function: Any, a: Tensor, b: Tensor) -> Tensor:
    if (
        b.const is None
    ):  # an integer division by zero would end the process; Python has raised before
        b = where(elementwise("Equal", b, constant(0, INT64), dtype=bool), constant(1, INT64), b)
    remainder = elementwise("Mod", a, b)
    return (
        remainder
        if function is operator.mod
        else elementwise("Div", elementwise("Sub", a, remainder), b)
    )


# ---- methods of both ---------------------------------------------------------------------------------------------------------

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
        if not isinstance(
            other, (Traced, Number, np.ndarray, np.generic, int, float, bool, list, tuple)
        ):
            if type(self) is Traced and of_numbers in (operator.eq, operator.ne):
                return _never_equal(self, other, of_numbers is operator.ne)
            return NotImplemented
        pair = (other, self) if swapped else (self, other)
        if all(map(_is_number, pair)):
            return _of_numbers(of_numbers, *pair)
        return call(ufunc, pair)

    return method


def _never_equal(x: Traced, other: Any, answer: bool) -> Any:
    """Answer ``x == None``, which NumPy does for each element."""
    if not (np.asarray(x.value == other) == np.False_).all():
        refuse(f"a comparison with {type(other).__name__}")
    return call(np.logical_or if answer else np.logical_and, (x, answer))


def _in_place(ufunc: np.ufunc) -> Callable[[Any, Any], Any]:
    def method(self: Traced, other: Any) -> Any:
        if not isinstance(self.value, np.ndarray):  # a scalar is another one afterwards
            return call(ufunc, (self, other))
        return call(ufunc, (self, other), {"out": (self,)})

    return method


for _name, (_ufunc, _python) in _BINARY.items():
    for _class in (Traced, Number):
        setattr(_class, f"__{_name}__", _operator(_ufunc, _python))
        setattr(_class, f"__r{_name}__", _operator(_ufunc, _python, swapped=True))
    setattr(Traced, f"__i{_name}__", _in_place(_ufunc))
for _name, (_ufunc, _python) in _COMPARISONS.items():
    for _class in (Traced, Number):
        setattr(_class, f"__{_name}__", _operator(_ufunc, _python))
for _name, _ufunc in {
    "neg": np.negative,
    "pos": np.positive,
    "abs": np.absolute,
    "invert": np.invert,
}.items():
    setattr(Traced, f"__{_name}__", lambda self, ufunc=_ufunc: call(ufunc, (self,)))
