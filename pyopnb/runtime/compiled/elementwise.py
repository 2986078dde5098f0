"""The body of an op that treats each element by itself, as a function of one number in each of its inputs.

Such a body is arithmetic and NumPy's elementwise functions of floats of one dtype. What it does with attrs and literals alone
is computed here, by Python and once; where a number of Python's meets an array, it takes the dtype of the array, as in NumPy.
"""

from __future__ import annotations

import ast
import dis
import inspect
import operator
import textwrap
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from types import CodeType, FunctionType
from typing import Any

import numpy as np

__all__ = ["Elementwise", "loop_text", "read_elementwise"]

# NumPy's function of each operator, Python's, and how compiled code has it.
_OPERATORS: dict[type[ast.AST], tuple[np.ufunc, Callable[..., Any], str]] = {
    ast.Add: (np.add, operator.add, "({} + {})"),
    ast.Sub: (np.subtract, operator.sub, "({} - {})"),
    ast.Mult: (np.multiply, operator.mul, "({} * {})"),
    ast.Div: (np.divide, operator.truediv, "({} / {})"),
    ast.USub: (np.negative, operator.neg, "(-{})"),
    ast.UAdd: (np.positive, operator.pos, "{}"),
    ast.Lt: (np.less, operator.lt, "({} < {})"),
    ast.LtE: (np.less_equal, operator.le, "({} <= {})"),
    ast.Gt: (np.greater, operator.gt, "({} > {})"),
    ast.GtE: (np.greater_equal, operator.ge, "({} >= {})"),
    ast.Eq: (np.equal, operator.eq, "({} == {})"),
    ast.NotEq: (np.not_equal, operator.ne, "({} != {})"),
}
_TEXTS = {function: text for function, _, text in _OPERATORS.values()}
_BOOL = np.dtype(bool)
_POWERS: dict[float, np.ufunc] = {2: np.square, 0.5: np.sqrt}  # as NumPy: of -inf, C has another root
_JUMPS = {*dis.hasjrel, *dis.hasjabs}
_LEFT_OUT = {"PUSH_NULL", "EXTENDED_ARG", "NOP"}


class _Otherwise(Exception):
    """The body is not read: it is no such body, or in doubt."""


@dataclass(frozen=True)
class Elementwise:
    """A function of numbers.

    Attributes
    ----------
    text : str
        Of the function ``one``, with a parameter for each input that is there.
    namespace : dict
        The names in it.
    dtypes : tuple of numpy.dtype
        Of the results.
    several : bool
        Whether it returns a tuple.
    """

    text: str
    namespace: dict[str, Any]
    dtypes: tuple[np.dtype, ...]
    several: bool


@dataclass(frozen=True)
class _Element:
    """An element of an array: the text that computes it, and its dtype."""

    text: str
    dtype: np.dtype


def read_elementwise(
    function: FunctionType, attributes: dict[str, Any], dtypes: Sequence[np.dtype | None]
) -> Elementwise | None:
    """Read the body of ``compute``.

    Parameters
    ----------
    function : function
        The ``compute`` of a class.
    attributes : dict
        What ``self`` has.
    dtypes : sequence of (numpy.dtype or None)
        Of the inputs; None for what is left out.

    Returns
    -------
    Elementwise or None
        None where the body looks at more than one element at a time, or where in doubt.
    """
    given = {dtype for dtype in dtypes if dtype is not None}
    if len(given) != 1 or not given <= {np.dtype("float32"), np.dtype("float64")}:
        return None
    try:
        with np.errstate(all="ignore"):
            return _Reader(function, attributes, dtypes, given.pop()).read()
    except Exception:  # what the body does with attrs alone may raise anything: it is for the whole body to do so
        return None


def loop_text(body: Elementwise, inputs: Sequence[bool | None], results: Sequence[int]) -> str:
    """The text of ``loop``, over flat arrays, the inputs and then the results; it calls ``wide_vectors`` and ``one``.

    Parameters
    ----------
    body : Elementwise
    inputs : sequence of (bool or None)
        Whether each has elements to go through or is a single number; None for what is left out.
    results : sequence of int
        The places of those that are wanted.

    Returns
    -------
    str
    """
    names = [f"x{n}" for n, whole in enumerate(inputs) if whole is not None]
    numbers = [f"x{n}[{'i' if whole else 0}]" for n, whole in enumerate(inputs) if whole is not None]
    into = [f"y{place}" for place in results]
    lines = [f"        {name}[i] = result{f'[{place}]' * body.several}" for name, place in zip(into, results, strict=True)]
    head = [f"def loop({', '.join(names + into)}):", "    wide_vectors()", f"    for i in range({into[0]}.size):"]
    return "\n".join([*head, f"        result = one({', '.join(numbers)})", *lines, ""])


class _Reader:
    """Goes through the statements of a body once, in their order."""

    def __init__(
        self,
        function: FunctionType,
        attributes: dict[str, Any],
        dtypes: Sequence[np.dtype | None],
        dtype: np.dtype,
    ) -> None:
        self.function, self.attributes, self.dtype = function, attributes, dtype
        self.namespace: dict[str, Any] = {"np": np}
        self.lines: list[str] = []
        parameters = list(inspect.signature(function).parameters.values())
        if any(parameter.kind is not parameter.POSITIONAL_OR_KEYWORD for parameter in parameters):
            raise _Otherwise
        self.owner, *names = (parameter.name for parameter in parameters)
        self.values: dict[str, Any] = {parameter.name: parameter.default for parameter in parameters[1:]}
        for n, (name, kind) in enumerate(zip(names, dtypes, strict=False)):
            self.values[name] = None if kind is None else _Element(f"x{n}", kind)
        self.parameters = [f"x{n}" for n, kind in enumerate(dtypes) if kind is not None]
        if len(dtypes) > len(names) or any(value is inspect.Parameter.empty for value in self.values.values()):
            raise _Otherwise

    def read(self) -> Elementwise:
        returned = self.run(_statements(self.function))
        several = isinstance(returned, tuple)
        elements = returned if several else (returned,)
        if not all(isinstance(element, _Element) for element in elements):
            raise _Otherwise
        value = ", ".join(element.text for element in elements)
        head = f"def one({', '.join(self.parameters)}):"
        text = "\n".join([head, *(f"    {line}" for line in self.lines), f"    return {value}{',' * several}", ""])
        return Elementwise(text, self.namespace, tuple(element.dtype for element in elements), several)

    def run(self, statements: Iterable[ast.stmt]) -> Any:
        """What the statements return; None where they go on."""
        for statement in statements:
            match statement:
                case ast.Expr(ast.Constant()):  # a docstring
                    continue
                case ast.Assign([ast.Name(name)], value):
                    self.assign(name, self.value(value))
                case ast.AugAssign(ast.Name(name), sign, value):
                    self.change(name, sign, self.value(value))
                case ast.If(test, body, orelse):
                    if (returned := self.run(body if self.plain(test) else orelse)) is not None:
                        return returned
                case ast.Return(ast.Tuple(elts)):
                    return tuple(map(self.value, elts))
                case ast.Return(ast.expr() as value):
                    return self.value(value)
                case _:
                    raise _Otherwise
        return None

    def assign(self, name: str, value: Any) -> None:
        another = isinstance(value, _Element) and value in self.values.values()  # a second name for one array
        self.values[name] = self.local(value) if isinstance(value, _Element) and not another else value

    def change(self, name: str, sign: ast.operator, operand: Any) -> None:
        before = self.values[name]
        # It would change the array under its other names too, or an input, which cannot be written.
        if isinstance(before, _Element) and (
            before.text in self.parameters or sum(value == before for value in self.values.values()) > 1
        ):
            raise _Otherwise
        self.assign(name, self.operate(sign, before, operand))

    def local(self, element: _Element) -> _Element:
        """The same, computed before all that follows and once."""
        name = f"v{len(self.lines)}"
        self.lines.append(f"{name} = {element.text}")
        return _Element(name, element.dtype)

    def plain(self, node: ast.expr) -> Any:
        """The value of what has no element in it."""
        value = self.value(node)
        if isinstance(value, _Element):
            raise _Otherwise
        return value

    def value(self, node: ast.expr) -> Any:
        """An element, or a value of Python."""
        match node:
            case ast.Constant(value):
                return value
            case ast.Name(name):
                return self.name(name)
            case ast.Attribute(ast.Name(name), attribute) if name == self.owner:
                return self.attributes[attribute]
            case ast.Attribute(value, attribute):
                return _of_numpy(self.plain(value), attribute)
            case ast.UnaryOp(ast.Not(), operand):
                return not self.plain(operand)
            case ast.UnaryOp(sign, operand):
                return self.operate(sign, self.value(operand))
            case ast.BinOp(left, ast.Pow(), right):
                return self.power(self.value(left), self.plain(right))
            case ast.BinOp(left, sign, right):
                return self.operate(sign, self.value(left), self.value(right))
            case ast.Compare(left, [ast.Is() | ast.IsNot() as sign], [ast.Constant(None)]):
                return (self.value(left) is None) == isinstance(sign, ast.Is)
            case ast.Compare(left, [sign], [right]):
                return self.operate(sign, self.value(left), self.value(right))
            case ast.IfExp(test, body, orelse):
                return self.value(body if self.plain(test) else orelse)
            case ast.Call(function, args, []):
                return self.call(self.plain(function), [self.value(argument) for argument in args])
        raise _Otherwise

    def name(self, name: str) -> Any:
        if name in self.values:
            return self.values[name]
        if name in self.function.__code__.co_varnames:  # no value yet, whatever a global of that name has
            raise _Otherwise
        return abs if name == "abs" and name not in self.function.__globals__ else self.function.__globals__[name]

    def operate(self, sign: ast.AST, *operands: Any) -> Any:
        function, python, _ = _OPERATORS[type(sign)]
        if not any(isinstance(operand, _Element) for operand in operands):
            return python(*operands)
        return self.apply(function, operands)

    def call(self, function: Any, args: Sequence[Any]) -> Any:
        if not any(isinstance(argument, _Element) for argument in args):
            if function in (abs, np.float32, np.float64) or isinstance(function, np.ufunc):
                return function(*args)
            raise _Otherwise
        if function is np.where and len(args) == 3:
            return self.where(*args)
        if function is abs:
            function = np.absolute
        if (
            not isinstance(function, np.ufunc)
            or function.signature is not None
            or (function.nin, function.nout) != (len(args), 1)
        ):
            raise _Otherwise
        return self.apply(function, args)

    def where(self, condition: Any, *choices: Any) -> _Element:
        # Of two numbers of Python's, NumPy makes an array of float64 or int64.
        if not isinstance(condition, _Element) or condition.dtype != _BOOL:
            raise _Otherwise
        if not any(isinstance(choice, _Element) for choice in choices):
            raise _Otherwise
        first, second = (self.local(self.number(choice)) for choice in choices)  # a loop with a branch is no vector loop
        if first.dtype != second.dtype:
            raise _Otherwise
        return _Element(f"({first.text} if {condition.text} else {second.text})", first.dtype)

    def power(self, base: Any, exponent: Any) -> Any:
        if not isinstance(base, _Element):
            return base**exponent
        if type(exponent) in (int, float) and exponent in _POWERS:
            return self.apply(_POWERS[exponent], [base])
        return self.apply(np.power, [base, exponent])

    def apply(self, function: np.ufunc, args: Sequence[Any]) -> _Element:
        elements = [self.number(argument) for argument in args]
        inputs = tuple(element.dtype for element in elements)
        *taken, result = function.resolve_dtypes((*inputs, None))
        # Arithmetic of bools is another one in compiled code.
        if tuple(taken) != inputs or result not in (self.dtype, _BOOL) or (_BOOL in inputs and result != _BOOL):
            raise _Otherwise
        if _BOOL in inputs and function not in (np.logical_and, np.logical_or, np.logical_not):
            raise _Otherwise
        texts = [element.text for element in elements]
        if function in _TEXTS:
            return _Element(_TEXTS[function].format(*texts), result)
        if getattr(np, function.__name__, None) is not function:
            raise _Otherwise
        return _Element(f"np.{function.__name__}({', '.join(texts)})", result)

    def number(self, value: Any) -> _Element:
        """A value as an operand beside an element: a number of Python's takes the dtype of the arrays."""
        if isinstance(value, _Element):
            return value
        if type(value) not in (int, float, self.dtype.type):
            raise _Otherwise
        name = f"c{len(self.namespace)}"
        self.namespace[name] = self.dtype.type(value)
        return _Element(name, self.dtype)


def _of_numpy(module: Any, attribute: str) -> Any:
    if module is not np:
        raise _Otherwise
    return getattr(np, attribute)


def _statements(function: FunctionType) -> list[ast.stmt]:
    """The statements of a function, from a text that is that of its code."""
    source = textwrap.dedent(inspect.getsource(function))
    tree = ast.parse(source)
    (definition,) = tree.body
    if not isinstance(definition, ast.FunctionDef):
        raise _Otherwise
    definition.decorator_list = []
    module = compile(tree, function.__code__.co_filename, "exec", dont_inherit=True)
    (code,) = (value for value in module.co_consts if isinstance(value, CodeType) and value.co_name == function.__name__)
    if _instructions(code) != _instructions(function.__code__):
        raise _Otherwise  # the file was edited since
    return definition.body


def _instructions(code: CodeType) -> list[tuple[str, object]]:
    """What code does, without what depends on the text around it: how a module's functions are called, and where jumps go."""
    return [
        (instruction.opname.replace("LOAD_METHOD", "LOAD_ATTR"), None if instruction.opcode in _JUMPS else instruction.argval)
        for instruction in dis.get_instructions(code)
        if instruction.opname not in _LEFT_OUT
    ]
