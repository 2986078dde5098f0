"""Refuse bodies that Numba would compute in other dtypes than NumPy does.

Numba computes integers narrower than 64 bits in 64, takes a Python float beside a float32 for
float64, adds float32 one by one, and converts or overflows where Python raises. The compiled body
is therefore read once with the types that Numba inferred, and only operations that are known to
agree are let through. An operation that no table here lists is refused.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable
from typing import Any

import numba.core.types
import numpy as np
from numba.core import ir

__all__ = ["NotInNumpyDtypes", "check_body"]

_types: Any = numba.core.types  # the stubs of Numba lack half of them


def _names(text: str) -> list[str]:
    return text.split()


_COMPARISONS = {operator.lt, operator.le, operator.gt, operator.ge, operator.eq, operator.ne}
_ARITHMETIC = {operator.add, operator.sub, operator.mul, operator.truediv}
_INPLACE: dict[Any, Any] = {}
for _sign in _names("add sub mul truediv floordiv mod pow and or xor"):
    _INPLACE[getattr(operator, f"__i{_sign}__")] = getattr(operator, f"__{_sign}__")
_BITS = {operator.and_, operator.or_, operator.xor}
_SIGNS = {operator.neg, operator.pos}

# NumPy's functions of numbers, and those that compare numbers.
_CALCULATING = set(
    _names("""exp exp2 expm1 log log2 log10 log1p sqrt sin cos tan arcsin arccos arctan sinh cosh
    tanh arcsinh arccosh arctanh arctan2 hypot floor ceil trunc rint fabs copysign add subtract
    multiply divide true_divide negative absolute abs square maximum minimum fmax fmin""")
)
_COMPARING = set(_names("less less_equal greater greater_equal equal not_equal"))
# Functions and methods that make arrays or move elements, and compute nothing.
_MOVING = set(
    _names("""zeros ones empty eye identity empty_like zeros_like ones_like reshape ravel flatten
    transpose copy ascontiguousarray expand_dims swapaxes flip fliplr flipud broadcast_to take
    repeat""")
)

_WIDE = frozenset({_types.int64, _types.float64})
_FLOATS = frozenset({_types.float32, _types.float64})
_COMPARED = frozenset({_types.float32, _types.boolean, *_WIDE})

# Functions and the dtypes for which they compute what NumPy does. The dtypes are of all their
# numbers, or of their arrays alone.
_BOOLS = frozenset({_types.boolean})
_INT64 = frozenset({_types.int64})
_DTYPES_OF_NUMBERS = {
    **dict.fromkeys(_names("isnan isinf isfinite"), _FLOATS),
    **dict.fromkeys(_names("logical_and logical_or logical_xor logical_not"), _BOOLS),
    "arange": _INT64,
}
_DTYPES_OF_ARRAYS = {
    # Numba adds floats one by one: the mean of 20 million ones in float32 would be 0.84, and a
    # thousand equal float64 are off in the 15th digit.
    **dict.fromkeys(("sum", "cumsum"), _INT64),
    **dict.fromkeys(("mean", "std", "var"), frozenset[Any]()),
    **dict.fromkeys(("prod", "cumprod"), _WIDE),
    **dict.fromkeys(_names("max min amax amin argmax argmin any all"), _COMPARED),
    **dict.fromkeys(("dot", "outer"), _FLOATS),
}
_LARGEST_EXACT = 2**24  # of the integers that each float dtype here has


class NotInNumpyDtypes(Exception):
    """Say which operation Numba would compute differently."""


def check_body(blocks: Any, typemap: Any) -> None:
    """Raise `NotInNumpyDtypes` for the first operation that may differ from NumPy's.

    Parameters
    ----------
    blocks, typemap : dict
        The intermediate representation that Numba has typed, without fused array expressions.
    """
    body = _Body(blocks, typemap)
    for block in blocks.values():
        for statement in block.body:
            body.check(statement)


class _Body:
    """The statements of a typed function, and the facts about its variables."""

    def __init__(self, blocks: Any, typemap: Any) -> None:
        self.typemap = typemap
        self.definitions: dict[str, Any] = {}
        self.loop_variables: set[str] = set()
        for block in blocks.values():
            for statement in block.find_insts(ir.Assign):
                name = statement.target.name
                # A variable that is assigned twice is nobody's constant, and may grow in a loop.
                if name in self.definitions or _is_expression(statement.value, "phi"):
                    self.loop_variables.add(name)
                self.definitions[name] = statement.value

    # ---- what is known of a variable -----------------------------------------------------------

    def dtype(self, variable: Any) -> Any:
        """Return the number type of a scalar or of an array's elements; None for anything else."""
        numba_type = _types.unliteral(self.typemap[variable.name])
        if isinstance(numba_type, _types.Array):
            return numba_type.dtype
        if isinstance(numba_type, (_types.Number, _types.Boolean)):
            return numba_type
        return None

    def is_array(self, variable: Any) -> bool:
        return isinstance(self.typemap[variable.name], _types.Array)

    def dtypes(self, variables: Iterable[Any]) -> set[Any]:
        """Collect the dtypes of some variables, None among them."""
        return {self.dtype(variable) for variable in variables}

    def arrays(self, variables: Iterable[Any]) -> list[Any]:
        """Select the variables that are arrays."""
        return [variable for variable in variables if self.is_array(variable)]

    def constant(self, variable: Any) -> Any:
        """Return the value of a literal; None for anything else."""
        if variable.name in self.loop_variables:
            return None
        value: Any = self.definitions.get(variable.name)
        if isinstance(value, ir.Var):
            return self.constant(value)
        if _is_expression(value, "unary") and value.fn is operator.neg:
            positive = self.constant(value.value)
            if positive is None:
                return None
            return -positive
        if isinstance(value, ir.Const):
            return value.value
        return None

    def is_exact(self, variable: Any) -> bool:
        """Tell whether a literal means the same number in every dtype that it can meet."""
        value = self.constant(variable)
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            return False
        if isinstance(value, int):
            return abs(value) <= _LARGEST_EXACT
        return (
            float(np.float32(value)) == value
        )  # np.float32 itself would round the value to compare

    def grows(self, variable: Any) -> bool:
        """Tell whether a variable carries a value from one round of a loop to the next."""
        if variable.name in self.loop_variables:
            return True
        value = self.definitions.get(variable.name)
        return isinstance(value, ir.Var) and self.grows(value)

    # ---- statements ----------------------------------------------------------------------------

    def check(self, statement: Any) -> None:
        if isinstance(statement, ir.Assign):
            self.check_assignment(statement)
        elif isinstance(statement, (ir.SetItem, ir.StaticSetItem)):
            dtype = self.dtype(statement.target)
            self.check_convertible(statement.value, dtype, statement.loc)
        elif not isinstance(statement, (ir.Del, ir.Jump, ir.Branch, ir.Return, *_RAISING)):
            self.refuse(f"a statement ({type(statement).__name__})", statement.loc)

    def check_assignment(self, statement: Any) -> None:
        value = statement.value
        if isinstance(value, ir.Var):
            self.check_same(value, statement.target, statement.loc)
        elif isinstance(value, ir.Expr):
            check = getattr(self, f"check_{value.op}", None)
            if check is not None:
                check(value, statement.target)
            elif value.op not in _PLAIN:
                self.refuse(f"what Numba calls {value.op}", statement.loc)

    def check_same(self, source: Any, target: Any, loc: Any) -> None:
        """Refuse a variable that is an int in one branch and a float in another."""
        if isinstance(source, ir.UndefinedType) or source.name not in self.typemap:
            return
        before = _types.unliteral(self.typemap[source.name])
        after = _types.unliteral(self.typemap[target.name])
        # None in one branch is what an optional input is for.
        if isinstance(before, _types.NoneType):
            return
        if isinstance(after, (_types.Optional, _types.NoneType)):
            return
        dtype = self.dtype(target)
        if before == after or self.dtype(source) == dtype:
            return
        # A literal such as 0 is the same number as a float.
        if dtype == _types.float64 and self.is_exact(source):
            return
        self.refuse(f"a variable that is {before} here and {after} there", loc)

    def check_phi(self, expression: Any, target: Any) -> None:
        for source in expression.incoming_values:
            self.check_same(source, target, expression.loc)

    def check_cast(self, expression: Any, target: Any) -> None:
        self.check_same(expression.value, target, expression.loc)

    def check_unary(self, expression: Any, target: Any) -> None:
        dtype = self.dtype(expression.value)
        if expression.fn is operator.not_ and (dtype is None or dtype == _types.boolean):
            return
        # Of a Python bool, ~ is an integer.
        is_bools = dtype == _types.boolean and self.is_array(expression.value)
        if expression.fn is operator.invert and is_bools:
            return
        if expression.fn not in _SIGNS:
            self.refuse(f"the operator {_name(expression.fn)} of {dtype}", expression.loc)
        self.check_arithmetic(expression.fn, [expression.value], expression.loc)

    def check_binop(self, expression: Any, target: Any) -> None:
        self.check_operator(expression.fn, [expression.lhs, expression.rhs], expression.loc)

    def check_inplace_binop(self, expression: Any, target: Any) -> None:
        operands = [expression.lhs, expression.rhs]
        fn = _INPLACE.get(expression.fn, expression.fn)
        # The array keeps its dtype, and NumPy refuses what does not fit where Numba converts.
        if self.is_array(operands[0]) and self.dtype(operands[0]) != self.dtype(operands[1]):
            self.refuse(f"the operator {_name(fn)}= of unlike dtypes", expression.loc)
        self.check_operator(fn, operands, expression.loc)

    def check_operator(self, fn: Any, operands: list[Any], loc: Any) -> None:
        if None in self.dtypes(operands):
            # Texts, tuples of sizes and None are compared and joined as in Python.
            if fn not in _COMPARISONS and fn not in (operator.is_, operator.is_not, operator.add):
                self.refuse(f"the operator {_name(fn)}", loc)
            if self.arrays(operands) and fn not in (operator.is_, operator.is_not):
                self.refuse(f"the operator {_name(fn)} of an array and something else", loc)
            return
        if fn in _COMPARISONS:
            self.check_comparison(fn, operands, loc)
        elif fn in _BITS:
            self.check_bits(fn, operands, loc)
        elif fn in (operator.floordiv, operator.mod):
            self.check_division(fn, operands, loc)
        elif fn is operator.matmul:
            self.check_dtypes("@", operands, _FLOATS, loc)
        elif fn in _ARITHMETIC:
            self.check_arithmetic(fn, operands, loc)
        else:
            self.refuse(f"the operator {_name(fn)}", loc)

    # ---- operators -----------------------------------------------------------------------------

    def check_comparison(self, fn: Any, operands: list[Any], loc: Any) -> None:
        # A literal takes the dtype of what it is compared with, if that has its number.
        dtypes = {self.dtype(operand) for operand in operands if not self.is_exact(operand)}
        if len(dtypes) <= 1:
            # A literal float beside an integer, or one below 0 beside uint64, is another matter.
            dtype = next(iter(dtypes), _types.int64)
            literals = [self.constant(operand) for operand in operands if self.is_exact(operand)]
            if dtype in (_types.float32, *_WIDE) or not literals:
                return
            fits = all(type(number) is int and number >= 0 for number in literals)
            if isinstance(dtype, _types.Integer) and fits:
                return
        elif dtypes == _WIDE:
            return
        self.refuse_mixed(f"the comparison {_name(fn)}", operands, loc)

    def check_bits(self, fn: Any, operands: list[Any], loc: Any) -> None:
        dtypes = self.dtypes(operands)
        if dtypes not in ({_types.boolean}, {_types.int64}):
            self.refuse_mixed(f"the operator {_name(fn)}", operands, loc)

    def check_division(self, fn: Any, operands: list[Any], loc: Any) -> None:
        divisor = self.constant(operands[1])
        # Of other divisors Numba has other results than NumPy: min // -1, x // 0, inf // x.
        if self.dtype(operands[0]) == _types.int64 and type(divisor) is int and divisor > 0:
            return
        self.refuse(f"the operator {_name(fn)} of anything but int64 and a positive literal", loc)

    def check_arithmetic(self, name: Any, operands: list[Any], loc: Any) -> None:
        dtypes = self.dtypes(operands)
        if len(dtypes) == 1 and dtypes <= {_types.float32, *_WIDE}:
            self.check_growth(name, operands, loc)
            return
        if dtypes == _WIDE:
            return
        # Arrays are promoted alike; a number beside them takes their dtype in NumPy alone.
        if len(self.arrays(operands)) == len(operands) and dtypes <= {_types.float32, *_WIDE}:
            return
        self.refuse_mixed(_name(name), operands, loc)

    def check_growth(self, name: Any, operands: list[Any], loc: Any) -> None:
        """Refuse products and sums of integers that grow in a loop: Python's never wrap."""
        if self.arrays(operands) or self.dtype(operands[0]) != _types.int64:
            return
        # A sum with a constant grows slowly; a product, or a sum of two that grow, can
        # pass 2**63 in a moment.
        growing = [self.grows(operand) for operand in operands]
        if (name is operator.mul and any(growing)) or (len(growing) == 2 and all(growing)):
            self.refuse("integers that may grow beyond 64 bits in a loop", loc)

    def check_dtypes(
        self, name: str, operands: Iterable[Any], allowed: Iterable[Any], loc: Any
    ) -> None:
        dtypes = self.dtypes(operands) - {None}
        if len(dtypes) != 1 or not dtypes <= set(allowed):
            match = " and ".join(sorted(map(str, dtypes)))
            self.refuse(f"{name} of {match}", loc)

    def check_convertible(self, value: Any, to: Any, loc: Any) -> None:
        """Refuse a conversion in which Python raises and Numba does not."""
        dtype = self.dtype(value)
        if dtype is None or to is None or dtype == to:
            return
        is_number = isinstance(dtype, (_types.Float, _types.Integer, _types.Boolean))
        if isinstance(to, _types.Float) and is_number:
            return
        # Every narrower integer fits into an int64.
        is_narrow = isinstance(dtype, _types.Integer) and dtype.bitwidth < 64
        if to == _types.int64 and (is_narrow or dtype == _types.boolean):
            return
        # A literal that the dtype has; anything else may not fit.
        literal = self.constant(value)
        is_int = type(literal) is int and isinstance(to, _types.Integer)
        if is_int and to.minval <= literal <= to.maxval:
            return
        self.refuse(f"the conversion of {dtype} to {to}", loc)

    # ---- calls ---------------------------------------------------------------------------------

    def check_call(self, expression: Any, target: Any) -> None:
        function_type = self.typemap[expression.func.name]
        loc = expression.loc
        arguments = [*expression.args, *(value for _, value in expression.kws)]
        if expression.vararg is not None:
            self.refuse("a call with *arguments", loc)
        if isinstance(function_type, _types.NumberClass):
            self.check_conversion(function_type.instance_type, arguments, loc)
        elif isinstance(function_type, _types.BoundFunction):
            definition = self.definitions[expression.func.name]
            if not isinstance(function_type.this, _types.Array):
                self.refuse(f"the method {definition.attr} of {function_type.this}", loc)
            self.check_function(definition.attr, [definition.value, *arguments], target, loc)
        else:
            self.check_named(function_type, arguments, target, loc)

    def check_named(self, function_type: Any, arguments: list[Any], target: Any, loc: Any) -> None:
        function = getattr(function_type, "typing_key", None)
        name = getattr(function, "__name__", str(function_type))
        if function in (len, range, enumerate, zip, slice):
            return
        if function is float or isinstance(function_type, _types.ExceptionClass):
            return
        if function is bool and self.dtype(arguments[0]) is not None:
            return
        if function is int:
            self.check_conversion(_types.int64, arguments, loc)
        elif function is abs:
            self.check_arithmetic("abs", arguments, loc)
        elif function in (min, max):
            self.check_dtypes(name, arguments, {_types.int64}, loc)
        elif function is not None and getattr(np, name, None) is function:
            self.check_function(name, arguments, target, loc)
        else:
            self.refuse(f"the function {name}", loc)

    def check_conversion(self, to: Any, arguments: list[Any], loc: Any) -> None:
        for argument in arguments:
            # In Python, int(x) is an integer that never wraps, and int(nan) raises.
            if to == _types.int64 and self.dtype(argument) == _types.int64:
                self.refuse("int() of an int64. Try: x itself", loc)
            self.check_convertible(argument, to, loc)

    def check_function(self, name: str, arguments: list[Any], target: Any, loc: Any) -> None:
        numbers = [argument for argument in arguments if self.dtype(argument) is not None]
        arrays = self.arrays(arguments)
        if name in _CALCULATING:
            self.check_arithmetic(name, numbers, loc)
        elif name in _COMPARING:
            self.check_comparison(name, numbers, loc)
        elif name in _DTYPES_OF_NUMBERS:
            self.check_dtypes(name, numbers, _DTYPES_OF_NUMBERS[name], loc)
        elif name in _DTYPES_OF_ARRAYS:
            self.check_dtypes(name, arrays, _DTYPES_OF_ARRAYS[name], loc)
        elif name == "where" and len(arguments) == 3:
            # The condition is of another dtype than what it chooses from.
            self.check_dtypes(name, arguments[1:], _COMPARED, loc)
        elif name in ("full", "full_like", "astype"):
            self.check_filling(name, arguments, target, loc)
        elif name not in _MOVING:
            self.refuse(f"np.{name}", loc)

    def check_filling(self, name: str, arguments: list[Any], target: Any, loc: Any) -> None:
        value = arguments[1]
        if name == "astype":
            value = arguments[0]
        self.check_convertible(value, self.dtype(target), loc)

    # ---- refusals ------------------------------------------------------------------------------

    def refuse_mixed(self, name: str, operands: list[Any], loc: Any) -> None:
        dtypes = sorted(map(str, self.dtypes(operands)))
        advice = ""
        if "float32" in dtypes and len(dtypes) > 1:
            advice = ". Try: np.float32(…) around each number that meets float32"
        self.refuse(f"{name} of {' and '.join(dtypes)}{advice}", loc)

    def refuse(self, operation: str, loc: Any) -> None:
        raise NotInNumpyDtypes(
            f"Line {loc.line} has what Numba may compute otherwise than NumPy: {operation}"
        )


# Expressions that take values from one variable to another.
_PLAIN = {
    "getattr",
    "getitem",
    "static_getitem",
    "build_tuple",
    "getiter",
    "iternext",
    "pair_first",
    "pair_second",
    "exhaust_iter",
    "null",
}
_RAISING = (ir.Raise, ir.StaticRaise, ir.TryRaise, ir.StaticTryRaise)


def _is_expression(value: Any, op: str) -> bool:
    return isinstance(value, ir.Expr) and value.op == op


def _name(fn: Any) -> str:
    if isinstance(fn, str):
        return fn
    return str(fn.__name__)
