"""The check of what ``compute`` returned, and the message if it is refused.

Nothing is recorded while ``compute`` runs. If a result is refused, the return statements are read
from the source of the function; often there is only one.
"""

from __future__ import annotations

import ast
import inspect
import linecache
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from pyopnb.errors import ResultError
from pyopnb.ops.coerce import cast_expression, describe_value
from pyopnb.ops.dtypes import DType
from pyopnb.ops.messages import one_line, sanitize
from pyopnb.ops.schema import Schema
from pyopnb.ops.types import ANY, TensorType, type_of

__all__ = ["Output", "ReturnOrigin", "describe_none", "origin_of", "wrong_count"]

_MAX_TEXT = 60  # characters of a statement that a message shows
_NESTED = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)


class ReturnOrigin(NamedTuple):
    """The return statements that can have given a value.

    Attributes
    ----------
    lines : tuple of int
        In the cell or file; empty where there is no source.
    statement : ast.Return or None
        The only one of them. None where there are several.
    """

    lines: tuple[int, ...] = ()
    statement: ast.Return | None = None

    def __str__(self) -> str:
        """Name the lines as messages do after the name of a node."""
        if not self.lines:
            return ""
        text = f"line {' or '.join(map(str, self.lines))}"
        if self.statement is not None:
            statement = one_line(ast.unparse(self.statement).partition("\n")[0])
            if len(statement) > _MAX_TEXT:
                statement = f"{statement[:_MAX_TEXT]}…"
            text += f", `{statement}`"
        return text

    def rewritten(self, form: str, number: int = 0) -> str:
        """Write the return statement with one output in another form, such as ``"np.abs({})"``."""
        value = None if self.statement is None else self.statement.value
        if value is None:
            return f"return {form.format('y')}"
        if isinstance(value, ast.Tuple) and number < len(value.elts):
            parts = [ast.unparse(element) for element in value.elts]
            parts[number] = form.format(parts[number])
            return f"return {', '.join(parts)}"
        return f"return {form.format(ast.unparse(value))}"


def describe_none(method: str = "compute") -> str:
    """Say what came where None did."""
    return f"None: {method} ended without a return, or returned None"


def origin_of(function: Any, count: int) -> ReturnOrigin:
    """Find the return statements that can have given a number of values.

    Parameters
    ----------
    function : callable
        ``compute``.
    count : int

    Returns
    -------
    ReturnOrigin

    Examples
    --------
    >>> import inspect
    >>> origin_of(inspect.getdoc, 1).lines == ()
    False
    >>> print(origin_of(len, 1))
    <BLANKLINE>
    """
    function = getattr(function, "__func__", function)
    definition = _definition(function)
    if definition is None:
        return ReturnOrigin()
    statements = []
    for statement in _returns(definition):
        if _can_give(statement.value, count):
            statements.append(statement)
    lines = sorted({statement.lineno for statement in statements})
    # A decorator can have made something else of the value.
    is_certain = len(statements) == 1 and not hasattr(function, "__wrapped__")
    return ReturnOrigin(tuple(lines), statements[0] if is_certain else None)


def _definition(function: Any) -> ast.FunctionDef | None:
    """Find a function in its source; return None for a builtin, or where the source has changed."""
    code = getattr(inspect.unwrap(function), "__code__", None)
    if code is None:
        return None
    text = "".join(linecache.getlines(code.co_filename))
    try:
        return _search(text, code.co_name, code.co_firstlineno)
    except (SyntaxError, ValueError):  # a file that changed
        return None
    except SystemError:
        # CPython 3.11 counts the depth of a tree for all threads together, and gives up where
        # another one parses meanwhile. The refusal is told without its line then.
        return None


@lru_cache(
    maxsize=32
)  # an op that is refused again and again must not cost its whole file each time
def _search(text: str, name: str, line: int) -> ast.FunctionDef | None:
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef) and node.name == name:
            decorators = [decorator.lineno for decorator in node.decorator_list]
            if line == min([node.lineno, *decorators]):
                return node
    return None


def _returns(function: ast.FunctionDef) -> Iterator[ast.Return]:
    """Yield the return statements of a function, without those of functions inside it."""
    nodes: list[ast.AST] = [*function.body]
    for node in nodes:  # grows while it is walked
        if isinstance(node, ast.Return):
            yield node
        elif not isinstance(node, _NESTED):
            nodes += ast.iter_child_nodes(node)


def _can_give(expression: ast.expr | None, count: int) -> bool:
    """Tell whether a return statement can give that many values, and not None."""
    if expression is None or (isinstance(expression, ast.Constant) and expression.value is None):
        return False
    if not isinstance(expression, ast.Tuple):
        return True  # only a tuple shows how many it has
    has_star = any(isinstance(element, ast.Starred) for element in expression.elts)
    return has_star or len(expression.elts) == count


# ---- refusals ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Output:
    """One output of a node: the check of what ``compute`` returned for it, and the words of a refusal.

    Attributes
    ----------
    where : str
        The node; can be empty.
    function : callable
        ``compute``.
    schema : Schema
    number, count : int
        Its place, and how many values ``compute`` has to return.
    expected : TensorType
    hintable : bool
        Whether a hint of ``compute`` settles the type: the model declares none.
    label : str
        What messages call it; ``output`` and its place if empty.
    """

    where: str
    function: Any
    schema: Schema
    number: int
    count: int
    expected: TensorType
    hintable: bool = True
    label: str = ""

    def array(self, value: Any, want: DType, *, arrays_only: bool = False) -> np.ndarray:
        """Take a result of ``compute`` as an array of exactly the declared dtype; nothing is cast.

        Parameters
        ----------
        value : object
        want : DType
        arrays_only : bool
            Refuse what is no ndarray, as the retired PyOp does.

        Returns
        -------
        numpy.ndarray
            Of dtype ``want.numpy``; a view of the value where it is an array.

        Raises
        ------
        ResultError
            The value is None, masked, ragged, of another dtype, or has an element that is no string
            where strings are declared.
        """
        if value is None:
            # No return statement may have been reached, so none is named.
            location = self._place(ReturnOrigin())
            raise ResultError(location, expected=str(self.expected), got=describe_none())
        if arrays_only and not isinstance(value, (np.ndarray, np.generic)):
            got = f"{describe_value(value)}; a retired PyOp returns ndarrays"
            raise self.refusal(value, got, cast_expression("{}", want))
        if isinstance(value, np.ma.MaskedArray) and np.ma.is_masked(value):
            raise self.refusal(value, "a masked array; ONNX has no masks", "np.ma.filled({}, 0)")
        # NumPy's own string arrays drop trailing zeros, and turn numbers beside strings into strings.
        is_text = want.name == "string" and isinstance(value, (str, list, tuple))
        try:
            array = np.asanyarray(value, dtype=object if is_text else None)
        except ValueError as error:
            got = f"{describe_value(value)}: {sanitize(str(error))}"
            raise self.refusal(value, got, None) from None
        if want.name == "string":
            return self._strings(array, value)
        # Another byte order is the same dtype, and np.asarray swaps the bytes below.
        if array.dtype.newbyteorder("=") != want.numpy:
            # np.argsort and its kind return indices, which no cast to floats makes right.
            if not self.hintable and array.dtype == np.int64 and want.numpy.kind == "f":
                raise self._indices(value)
            form = cast_expression("{}", want) if _is_castable(array) else None
            raise self.refusal(value, describe_value(value), form)
        return np.asarray(array, dtype=want.numpy).view(np.ndarray)

    def _indices(self, value: Any) -> ResultError:
        """Make the error for integers where the model declares floats."""
        type_ = type_of(value).without_sizes()
        # The names of sizes that the model has say more than none.
        if self.expected.shape is not None and self.expected.rank == np.ndim(value):
            type_ = TensorType(type_.dtype, self.expected.shape)
        hints = list(self.schema.outputs or (ANY,) * self.count)
        hints[self.number] = type_
        return ResultError(
            self._place(origin_of(self.function, self.count)),
            expected=f"{self.expected}, as the model declares",
            got=f"{describe_value(value)}, as indices are",
            next=f"{type_} for it in the model, and {_hint_text(hints)}",
        )

    def _strings(self, array: np.ndarray, value: Any) -> np.ndarray:
        # NumPy's fixed-width texts, and its own strings.
        if array.dtype.kind in "UT":
            return np.asarray(array.astype(object))
        if array.dtype != object:
            raise self.refusal(value, describe_value(value), "np.asarray({}).astype(str)")
        for index, item in np.ndenumerate(array):
            if not isinstance(item, str):
                at = f"[{', '.join(map(str, index))}]" if index else ""
                got = f"{type(item).__name__} {sanitize(repr(item))}"
                form = None if item is None else "np.asarray({}).astype(str)"
                raise self.refusal(value, got, form, at=at, expected="str")
        return np.asarray(array).view(np.ndarray)

    def wrong_shape(self, value: Any, inputs: str = "") -> ResultError:
        """Make the error for an array of another shape than the op promised.

        Parameters
        ----------
        value : ndarray
        inputs : str
            What compute was given, if that is to be said.

        Returns
        -------
        ResultError
        """
        type_ = type_of(value)
        if self.schema.infers:
            promised = f"{self.expected}, as infer says"
            remedy = f'in infer: return "{type_.without_sizes()}"'
        else:
            promised = f"{self.expected}, as the hint of compute says"
            remedy = self._hint(type_)
        location = self._place(origin_of(self.function, self.count))
        return ResultError(location, expected=promised, got=f"{type_}{inputs}", next=remedy)

    def refusal(
        self, value: Any, got: str, form: str | None, *, at: str = "", expected: str = ""
    ) -> ResultError:
        """Make the error for a value.

        Parameters
        ----------
        value : object
        got : str
        form : str or None
            The expression that makes it right, with ``{}`` for the value.
        at : str
            The index of the element that it is about.
        expected : str
            The type if not given.

        Returns
        -------
        ResultError
        """
        origin = origin_of(self.function, self.count)
        remedy = None if form is None else origin.rewritten(form, self.number)
        # Where nobody declared a dtype, a hint is the better advice; else it is one of two.
        hint = self._better_hint(value)
        if hint is not None:
            keeps_hint = remedy is not None and not self._is_assumed
            remedy = f"{hint}; or {remedy}" if keeps_hint else hint
        if self._is_assumed:
            got += "; without a hint an output has the dtype of the first input"
        return ResultError(
            self._place(origin) + at, expected=expected or str(self.expected), got=got, next=remedy
        )

    def _place(self, origin: ReturnOrigin) -> str:
        label = self.label or f"output {self.number}"
        return ", ".join(filter(None, (self.where, str(origin), label)))

    @property
    def _is_assumed(self) -> bool:
        """Tell whether neither op nor model say the dtype."""
        hint = self.schema.outputs[self.number] if self.schema.outputs else ANY
        return self.hintable and not self.schema.infers and hint.dtype is None

    def _better_hint(self, value: Any) -> str | None:
        """Suggest the hint that takes a value as it is, where a cast would lose something."""
        want = self.expected.dtype
        if not self.hintable or self.schema.infers or want is None:
            return None
        try:
            type_ = type_of(value)
        except ValueError:  # ragged, or a dtype that ONNX does not have
            return None
        got = type_.dtype
        if got is None or got == want or not got.carried:
            return None
        # float64 where float32 went in is mostly an oversight.
        are_floats = "float" in got.name and "float" in want.name
        is_lossy = "string" in (got.name, want.name)
        is_lossy = is_lossy or not np.can_cast(got.numpy, want.numpy, "same_kind")
        if is_lossy or (self._is_assumed and not are_floats):
            return self._hint(type_)
        return None

    def _hint(self, type_: TensorType) -> str:
        """Write the hints of compute with that of this output replaced."""
        hints = list(self.schema.outputs or (ANY,) * self.count)
        hints[self.number] = type_.without_sizes()
        return _hint_text(hints)


def wrong_count(where: str, function: Any, schema: Schema, value: Any, wanted: int) -> ResultError:
    """Make the error for another number of results than the node needs.

    Parameters
    ----------
    where : str
    function : callable
        ``compute``.
    schema : Schema
    value : object
        All that it returned.
    wanted : int

    Returns
    -------
    ResultError
    """
    count = len(value) if isinstance(value, tuple) else 1
    origin = origin_of(function, count)
    remedy = None
    if value is None:
        got, origin = describe_none(), ReturnOrigin()
    elif isinstance(value, tuple):
        got = f"a tuple of {count}"
        remedy = _hint_of_values(value)
    else:
        got = describe_value(value)
        # A list or stack of all outputs was meant as a tuple.
        if isinstance(value, (list, np.ndarray)) and np.ndim(value) and len(value) == wanted:
            remedy = origin.rewritten("tuple({})")
        elif schema.outputs is not None:
            remedy = _hint_of_values((value,))
    location = ", ".join(filter(None, (where, str(origin), "outputs")))
    expected = "one array" if wanted == 1 else f"a tuple of {wanted}"
    return ResultError(location, expected=expected, got=got, next=remedy)


def _hint_of_values(values: tuple[Any, ...]) -> str | None:
    try:
        return _hint_text([type_of(value).without_sizes() for value in values])
    except ValueError:  # ragged, or a dtype that ONNX does not have
        return None


def _hint_text(types: list[TensorType]) -> str:
    hints = ", ".join(f'"{type_}"' for type_ in types)
    if len(types) > 1:
        hints = f"({hints})"
    return f"-> {hints} after the parameters of compute"


def _is_castable(array: np.ndarray) -> bool:
    if array.dtype == object:
        return all(isinstance(item, (bool, int, float)) for item in array.flat)
    return array.dtype.kind not in "Mm" and array.dtype.names is None
