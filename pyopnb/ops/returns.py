"""What ``compute`` returned, where it is refused: the line that returned it, and what to type instead.

Nothing is recorded while ``compute`` runs. Where a result is refused, the statements that can have returned it are read from
the source of the function; often there is only one.
"""

from __future__ import annotations

import ast
import inspect
import linecache
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from pyopnb.ops.coerce import cast_expression, describe_value
from pyopnb.ops.dtypes import DType
from pyopnb.ops.errors import ResultError, one_line, sanitize
from pyopnb.ops.schema import Schema
from pyopnb.ops.types import ANY, TensorType, type_of

__all__ = ["Origin", "Output", "origin_of", "wrong_count"]

_SYMBOLS = "NMKLPQRSTUVWABCDEFGHIJ"
_MAX_TEXT = 60  # characters of a statement that a message shows

_parsing = threading.RLock()

_LISTS = (ast.List, ast.ListComp)
_NEVER_NONE = (*_LISTS, ast.BinOp, ast.Compare, ast.Dict, ast.JoinedStr, ast.Lambda, ast.Set, ast.Tuple, ast.UnaryOp)


class Origin(NamedTuple):
    """The statements of ``compute`` that can have returned a value.

    Attributes
    ----------
    lines : tuple of int
        In the cell or file; empty where there is no source.
    statement : ast.stmt or None
        The only one of them. None where there are several.
    ends : tuple of ast.stmt
        Those after which the function ends without a return.
    """

    lines: tuple[int, ...] = ()
    statement: ast.stmt | None = None
    ends: tuple[ast.stmt, ...] = ()

    def __str__(self) -> str:
        """As messages have it after the name of a node; empty where nothing is known."""
        if not self.lines:
            return ""
        text = "" if self.statement is None else f", `{_shorten(ast.unparse(self.statement))}`"
        *others, last = map(str, self.lines)
        return f"line {', '.join(others)}{' or ' if others else ''}{last}{text}"

    def describe_none(self, method: str = "compute") -> str:
        """What came where None did."""
        if not self.ends:
            return "None"
        return f"None: {method} {'can end' if len(self.ends) < len(self.lines) else 'ended'} without a return"

    def missing_return(self) -> str | None:
        """The return statement that was most likely forgotten; None where nothing suggests one."""
        names = {_last_value(statement) for statement in self.ends}
        name = names.pop() if len(names) == 1 else None
        return name and f"return {name}"

    def rewritten(self, form: str, number: int = 0) -> str:
        """The return statement with one output in another form, ``"np.abs({})"``; of a variable ``y`` where it is not known."""
        value = self.statement.value if isinstance(self.statement, ast.Return) else None
        if isinstance(value, ast.Tuple) and number < len(value.elts):
            parts = [ast.unparse(each) for each in value.elts]
            parts[number] = form.format(parts[number])
            return f"return {', '.join(parts)}"
        # of several returns none is known to be the one
        return f"return {form.format('y' if value is None else ast.unparse(value))}"


def origin_of(function: Any, value: Any, number: int | None, count: int) -> Origin:
    """Find the statements that can have returned a value.

    Parameters
    ----------
    function : callable
        ``compute``.
    value : object
        What it returned, or one of several.
    number : int or None
        Its place among several; None where the value is all that was returned.
    count : int
        How many were returned.

    Returns
    -------
    Origin

    Examples
    --------
    >>> import inspect
    >>> origin_of(inspect.getdoc, None, None, 1).lines == ()
    False
    >>> print(origin_of(len, None, None, 1))
    <BLANKLINE>
    """
    function = getattr(function, "__func__", function)
    found = _definition(function)
    if found is None:
        return Origin()
    if isinstance(found, ast.Lambda):
        return Origin((found.lineno,), ast.Return(found.body))
    ends = tuple(_ends(found.body)) if value is None and count == 1 else ()
    statements = [*(s for s in _returns(found) if _can_give(s.value, value, number, count)), *ends]
    lines = tuple(sorted({s.lineno for s in statements}))
    if hasattr(function, "__wrapped__"):  # a decorator can have made something else of the value
        return Origin(lines)
    return Origin(lines, statements[0] if len(statements) == 1 else None, ends)


def _definition(function: Any) -> ast.FunctionDef | ast.Lambda | None:
    """The definition of a function in its source; None for a builtin, or where the source is not that of the function."""
    code = getattr(inspect.unwrap(function), "__code__", None)
    if code is None:
        return None
    try:
        with _parsing:
            return _search("".join(linecache.getlines(code.co_filename)), code.co_name, code.co_firstlineno)
    except (SyntaxError, ValueError):  # a file that changed
        return None
    except SystemError:
        # CPython 3.11 counts the depth of a tree for all threads together, and gives up where another one, or what a collection
        # runs, parses meanwhile. The refusal is told without its line then.
        return None


@lru_cache(maxsize=32)  # an op that is refused again and again must not cost its whole file each time
def _search(text: str, name: str, first: int) -> ast.FunctionDef | ast.Lambda | None:
    found = [node for node in ast.walk(ast.parse(text)) if _is_code(node, name, first)]
    return found[0] if len(found) == 1 else None  # type: ignore[return-value]  # _is_code lets no other pass


def _is_code(node: ast.AST, name: str, first: int) -> bool:
    if isinstance(node, ast.Lambda):
        return name == "<lambda>" and node.lineno == first
    if not isinstance(node, ast.FunctionDef) or node.name != name:
        return False
    return first == min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])


def _returns(function: ast.FunctionDef) -> Iterator[ast.Return]:
    ahead: list[ast.AST] = [*reversed(function.body)]
    while ahead:
        node = ahead.pop()
        if isinstance(node, ast.Return):
            yield node
        elif not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)):
            ahead += reversed(list(ast.iter_child_nodes(node)))


def _can_give(expression: ast.expr | None, value: Any, number: int | None, count: int) -> bool:
    """Whether an expression can have that value; what is not plain from its form can."""
    if isinstance(expression, ast.Tuple) and not any(isinstance(each, ast.Starred) for each in expression.elts):
        if len(expression.elts) != count:
            return False
        return number is None or _can_give(expression.elts[number], value, None, 1)
    if expression is None or isinstance(expression, ast.Constant):
        constant = None if expression is None else expression.value
        return count == 1 and type(constant) is type(value) and constant == value
    if isinstance(expression, _LISTS):
        return count == 1 and isinstance(value, list)
    return not (value is None and count == 1 and isinstance(expression, _NEVER_NONE))


def _ends(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """The statements after which the end of a body is reached."""
    last = body[-1]
    match last:
        case ast.Return() | ast.Raise() | ast.While(test=ast.Constant(value=True)):
            return
        case ast.If():
            yield from _ends(last.body)
            yield from _ends(last.orelse) if last.orelse else [last]
        case ast.With():
            yield from _ends(last.body)
        case ast.Try():
            for inner in (last.orelse or last.body, *(handler.body for handler in last.handlers)):
                yield from _ends(inner)
        case _:
            yield last


def _last_value(statement: ast.stmt) -> str | None:
    """What a statement made, as an expression."""
    match statement:
        case ast.For(body=[*_, last]) | ast.While(body=[*_, last]):
            return _last_value(last)
        case (
            ast.Assign(targets=[ast.Name(id=name) | ast.Subscript(value=ast.Name(id=name))])
            | ast.AugAssign(target=ast.Name(id=name) | ast.Subscript(value=ast.Name(id=name)))
            | ast.Expr(value=ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr="append" | "extend" | "sort" | "fill")))
        ):
            return name
        case ast.Expr(value=ast.Call(func=ast.Name(id="print")) | ast.Constant()):
            return None
        case ast.Expr(value=value):
            return ast.unparse(value)
    return None


def _shorten(text: str) -> str:
    line = one_line(text.partition("\n")[0])
    return line if len(line) <= _MAX_TEXT else f"{line[:_MAX_TEXT]}…"


# ---- refusals ----------------------------------------------------------------------------------------------------------------


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
        """A result of ``compute`` as an array of exactly the declared dtype; nothing is cast.

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
            The value is None, masked, ragged, of another dtype, or has an element that is no string where strings are declared.
        """
        if value is None:
            raise self.refusal(value, "None", None)
        if arrays_only and not isinstance(value, (np.ndarray, np.generic)):
            got = f"{describe_value(value)}; a retired PyOp returns ndarrays"
            raise self.refusal(value, got, cast_expression("{}", want))
        if isinstance(value, np.ma.MaskedArray) and np.ma.is_masked(value):
            raise self.refusal(value, "a masked array; ONNX has no masks", "np.ma.filled({}, 0)")
        try:
            # NumPy's own string arrays drop trailing zeros, and turn numbers beside strings into strings.
            dtype = object if want.name == "string" and isinstance(value, (str, list, tuple)) else None
            array = value if isinstance(value, np.ndarray) else np.asarray(value, dtype=dtype)
        except ValueError as error:
            raise self.refusal(value, f"{describe_value(value)}: {sanitize(str(error))}", None) from None
        if want.name == "string":
            return self._strings(array, value)
        if array.dtype != want.numpy and array.dtype.newbyteorder("=") != want.numpy:
            form = cast_expression("{}", want) if _is_castable(array) else None
            raise self.refusal(value, describe_value(value), form)
        return np.asarray(array, dtype=want.numpy).view(np.ndarray)

    def _strings(self, array: np.ndarray, value: Any) -> np.ndarray:
        if array.dtype.kind in "UT":
            return np.asarray(array.astype(object))
        if array.dtype != object:
            raise self.refusal(value, describe_value(value), "np.asarray({}).astype(str)")
        if not all(isinstance(item, str) for item in array.flat):
            index, item = next((index, item) for index, item in np.ndenumerate(array) if not isinstance(item, str))
            at = f"[{', '.join(map(str, index))}]" if index else ""
            got = f"{type(item).__name__} {sanitize(repr(item))}"
            form = None if item is None else "np.asarray({}).astype(str)"
            raise self.refusal(value, got, form, at=at, expected="str")
        return np.asarray(array).view(np.ndarray)

    def wrong_shape(self, value: Any, inputs: str = "") -> ResultError:
        """The error for an array of another shape than the op promised.

        Parameters
        ----------
        value : ndarray
        inputs : str
            What compute was given, if that is to be said.

        Returns
        -------
        ResultError
        """
        kind = type_of(value)
        promised = f"{self.expected}, as {'infer' if self.schema.infers else 'the hint of compute'} says"
        if self.schema.infers:
            unknown = kind.like(shape=[None] * len(kind.shape or ()))
            remedy = f'in infer: return "{unknown}"'
        else:
            remedy = self._hint(kind)
        return ResultError(self._place(self._origin(value)), expected=promised, got=f"{kind}{inputs}", next=remedy)

    def refusal(self, value: Any, got: str, form: str | None, *, at: str = "", expected: str = "") -> ResultError:
        """The error for a value.

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
        origin = self._origin(value)
        remedy = origin.missing_return() if value is None else form and origin.rewritten(form, self.number)
        if value is None:
            got = origin.describe_none()
        elif hint := self._better_hint(value):
            remedy = hint if self._is_assumed or remedy is None else f"{hint}; or {remedy}"
        if self._is_assumed and value is not None:
            got += "; without a hint an output has the dtype of the first input"
        return ResultError(self._place(origin) + at, expected=expected or str(self.expected), got=got, next=remedy)

    def _origin(self, value: Any) -> Origin:
        return origin_of(self.function, value, self.number if self.count > 1 else None, self.count)

    def _place(self, origin: Origin) -> str:
        return ", ".join(filter(None, (self.where, str(origin), self.label or f"output {self.number}")))

    @property
    def _is_assumed(self) -> bool:
        """Whether neither op nor model say the dtype."""
        hint = self.schema.outputs[self.number] if self.schema.outputs else ANY
        return self.hintable and not self.schema.infers and hint.dtype is None

    def _better_hint(self, value: Any) -> str | None:
        """The hint that takes a value as it is, where there is none yet, or where a cast would lose something."""
        try:
            kind = type_of(value)
        except ValueError:  # ragged, or a dtype that ONNX does not have
            return None
        got, want = kind.dtype, self.expected.dtype
        if not self.hintable or self.schema.infers or got is None or want is None or got == want or not got.carried:
            return None
        floats = "float" in got.name and "float" in want.name  # float64 where float32 went in is mostly an oversight
        lossy = "string" in (got.name, want.name) or not np.can_cast(got.numpy, want.numpy, "same_kind")
        return self._hint(kind) if lossy or (self._is_assumed and not floats) else None

    def _hint(self, kind: TensorType) -> str:
        hints = list(self.schema.outputs or (ANY,) * self.count)
        hints[self.number] = _fitting(hints[self.number], kind, _free_symbols(self.schema))
        return _hint_text(hints)


def wrong_count(where: str, function: Any, schema: Schema, value: Any, wanted: int) -> ResultError:
    """The error for another number of results than the node needs.

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
    given = len(value) if isinstance(value, tuple) else 1
    origin = origin_of(function, value, None, given)
    got = f"a tuple of {given}" if isinstance(value, tuple) else describe_value(value)
    remedy = None
    if value is None:
        got, remedy = origin.describe_none(), origin.missing_return()
    elif isinstance(value, (list, np.ndarray)) and np.ndim(value) and len(value) == wanted:
        remedy = origin.rewritten("tuple({})")
    elif given > 1 or schema.outputs is not None:
        remedy = _hint_of_values(value if isinstance(value, tuple) else (value,), schema)
    place = ", ".join(filter(None, (where, str(origin), "outputs")))
    return ResultError(place, expected="one array" if wanted == 1 else f"a tuple of {wanted}", got=got, next=remedy)


def _hint_of_values(values: tuple[Any, ...], schema: Schema) -> str | None:
    symbols = _free_symbols(schema)
    try:
        return _hint_text([_fitting(ANY, type_of(value), symbols) for value in values])
    except ValueError:
        return None


def _hint_text(types: list[TensorType]) -> str:
    hints = ", ".join(f'"{kind}"' for kind in types)
    return f"-> {hints if len(types) == 1 else f'({hints})'} after the parameters of compute"


def _free_symbols(schema: Schema) -> Iterator[str]:
    """Names of dimensions that no hint has."""
    types = [*(port.type for port in schema.inputs), *(schema.outputs or ())]
    taken = {dim for kind in types for dim in kind.shape or ()}
    return (symbol for symbol in _SYMBOLS if symbol not in taken)


def _fitting(hint: TensorType, kind: TensorType, symbols: Iterator[str]) -> TensorType:
    """A hint that takes a type: what does not fit is replaced."""
    shape = kind.shape or ()
    if hint.shape is None or len(hint.shape) != len(shape):
        return TensorType(kind.dtype, tuple(next(symbols, None) for _ in shape))
    dims = tuple(
        dim if not isinstance(dim, int) or dim == size else next(symbols, None)
        for dim, size in zip(hint.shape, shape, strict=True)
    )
    if (kind.dtype, dims) == (hint.dtype, hint.shape):  # one symbol, two sizes
        dims = tuple(dim if isinstance(dim, int) else next(symbols, None) for dim in dims)
    return TensorType(kind.dtype, dims)


def _is_castable(array: np.ndarray) -> bool:
    if array.dtype == object:
        return all(isinstance(item, (bool, int, float)) for item in array.flat)
    return array.dtype.kind not in "Mm" and array.dtype.names is None
