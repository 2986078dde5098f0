"""Check the results of ``compute``, and explain why one is refused.

Nothing is recorded while ``compute`` runs. If a result is refused, the lines that return are read
from the code of the function; often there is only one.
"""

from __future__ import annotations

import ast
import dis
import inspect
import linecache
from dataclasses import dataclass
from typing import Any

import numpy as np

from pyopnb.common import messages, sanitize
from pyopnb.engine.ops.coerce import cast_expression, describe_value
from pyopnb.engine.ops.dtypes import DType
from pyopnb.engine.ops.op_schema import Schema
from pyopnb.engine.ops.types import ANY, TensorType, type_of
from pyopnb.errors import ResultError

__all__ = ["Output", "describe_none", "origin_of", "wrong_count"]

_MAX_TEXT = 60  # characters of a statement that a message shows


def describe_none(method: str = "compute") -> str:
    """Describe a missing result for a message."""
    return f"None: {method} ended without a return, or returned None"


def origin_of(function: Any) -> tuple[str, str]:
    """Find the lines where a function returns a value, and the expressions there.

    Parameters
    ----------
    function : callable
        ``compute``.

    Returns
    -------
    location : str
        As messages have it after the name of a node; empty for a builtin.
    expression : str
        ``y`` where there are several, or the text is not known.

    Examples
    --------
    >>> origin_of(len)
    ('', 'y')
    """
    code = getattr(inspect.unwrap(getattr(function, "__func__", function)), "__code__", None)
    if code is None:
        return "", "y"
    lines: set[int] = set()
    before: Any = None
    for step in dis.get_instructions(code):
        # The end of every function returns None, which no message is about.
        ends = before is not None and before.opname == "LOAD_CONST" and before.argval is None
        if step.opname == "RETURN_VALUE" and step.positions is not None and not ends:
            lines.add(step.positions.lineno or 0)
        before = step
    location = f"line {' or '.join(map(str, sorted(lines)))}" if lines else ""
    if len(lines) != 1:
        return location, "y"
    text = linecache.getline(code.co_filename, lines.pop()).strip()
    try:
        [statement] = ast.parse(text).body
        value = statement.value  # type: ignore[attr-defined]  # any other statement is no return
    except (
        SyntaxError,
        ValueError,
        AttributeError,
        SystemError,
    ):  # half a statement, or a file that changed
        return location, "y"
    if len(text) <= _MAX_TEXT:
        location += f", `{messages.one_line(text)}`"
    # A decorator can have made something else of the value.
    is_certain = isinstance(value, ast.expr) and not hasattr(function, "__wrapped__")
    if not is_certain or isinstance(value, ast.Tuple):
        return location, "y"
    return location, ast.unparse(value)


# ---- refusals ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Output:
    """One output of a node, which checks its result of ``compute`` and explains a refusal.

    Attributes
    ----------
    where : str
        The node; can be empty.
    function : callable
        ``compute``.
    number, count : int
        Its place, and how many values ``compute`` has to return.
    hintable : bool
        Whether a hint of ``compute`` settles the type: the model declares none.
    label : str
        The name in messages; ``output`` and its place if empty.
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
        arrays_only : bool
            Refuse anything but an ndarray, as the retired PyOp does.

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
            raise ResultError(self._at(""), expected=str(self.expected), got=describe_none())
        if arrays_only and not isinstance(value, (np.ndarray, np.generic)):
            got = f"{describe_value(value)}; a retired PyOp returns ndarrays"
            raise self.refusal(value, got, cast_expression("{}", want))
        if isinstance(value, np.ma.MaskedArray) and np.ma.is_masked(value):
            raise self.refusal(value, "a masked array; ONNX has no masks", "np.ma.filled({}, 0)")
        # NumPy string arrays drop trailing zeros, and turn numbers beside
        # strings into strings.
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
            is_number = array.dtype.kind in "biufcV" and array.dtype.names is None
            form = cast_expression("{}", want) if is_number else None
            # A cast would drop the imaginary part, and NumPy only warns of it.
            if array.dtype.kind == "c":
                form = cast_expression("np.abs({})", want)
            raise self.refusal(value, describe_value(value), form)
        return np.asarray(array, dtype=want.numpy).view(np.ndarray)

    def _strings(self, array: np.ndarray, value: Any) -> np.ndarray:
        # NumPy texts of fixed width, and NumPy strings of any width.
        if array.dtype.kind in "UT":
            array = array.astype(object)
        # Without elements, the dtype alone tells that these are no strings.
        if array.dtype != object and not array.size:
            got = f"an empty array of {array.dtype}"
            raise self.refusal(value, got, "np.asarray({}).astype(str)", expected="str")
        for index, item in np.ndenumerate(array):
            if type(item) is str and item.isascii():
                continue
            at = f"[{', '.join(map(str, index))}]" if index else ""
            if not isinstance(item, str):
                got = f"{type(item).__name__} {sanitize(repr(item))}"
                raise self.refusal(value, got, "np.asarray({}).astype(str)", at=at, expected="str")
            if not _is_encodable(item):
                line, _ = origin_of(self.function)
                expected, got = "str that UTF-8 can have", sanitize(repr(item))
                raise ResultError(self._at(line) + at, expected=expected, got=got)
        return np.asarray(array, dtype=object).view(np.ndarray)

    def wrong_shape(self, value: Any, inputs: str = "") -> ResultError:
        """Make the error for an array of another shape than the op promised.

        Parameters
        ----------
        value : ndarray
        inputs : str
            The arguments of compute, if the message should show them.
        """
        type_ = type_of(value)
        promised = f"{self.expected}, as the hint of compute says"
        remedy = self._hint(type_.without_sizes())
        if self.schema.infers:
            promised = f"{self.expected}, as infer says"
            remedy = f'in infer: return "{type_.without_sizes()}"'
        location = self._at(origin_of(self.function)[0])
        return ResultError(location, expected=promised, got=f"{type_}{inputs}", next=remedy)

    def refusal(
        self, value: Any, got: str, form: str | None, *, at: str = "", expected: str = ""
    ) -> ResultError:
        """Make the error for a value.

        Parameters
        ----------
        form : str or None
            The expression that makes it right, with ``{}`` for the value.
        at : str
            The index of the element that it is about.
        expected : str
            The type if not given.
        """
        line, expression = origin_of(self.function)
        remedy = None if form is None else f"return {form.format(expression)}"
        want = self.expected.dtype
        if (
            not self.hintable
            and want is not None
            and want.numpy.kind == "f"
            and _are_indices(value)
        ):
            # np.argsort and its kind return indices, which no cast to floats makes right.
            got += ", as indices are"
            type_ = type_of(value).without_sizes()
            # The names of sizes that the model has say more than none.
            if self.expected.shape is not None and self.expected.rank == value.ndim:
                type_ = TensorType(type_.dtype, self.expected.shape)
            remedy = f"{type_} for it in the model, and {self._hint(type_)}"
        hint = self.schema.outputs[self.number] if self.schema.outputs else ANY
        # Neither op nor model declares the dtype: then a hint takes the value as it is.
        if self.hintable and not self.schema.infers and hint.dtype is None:
            got += "; without a hint an output has the dtype of the first input"
            remedy = self._better_hint(value) or remedy
        location = self._at(line) + at
        return ResultError(location, expected=expected or str(self.expected), got=got, next=remedy)

    def _at(self, line: str) -> str:
        label = self.label or f"output {self.number}"
        return ", ".join(filter(None, (self.where, line, label)))

    def _better_hint(self, value: Any) -> str | None:
        """Suggest the hint that takes a value as it is.

        No other float dtype is suggested: float64 where float32 went in is mostly an oversight.
        """
        want = self.expected.dtype
        try:
            type_ = type_of(value)
        except ValueError:  # ragged, or a dtype that ONNX does not have
            return None
        got = type_.dtype
        if got is None or want is None or got == want or not got.carried:
            return None
        are_floats = "float" in got.name and "float" in want.name
        # An array of objects need not hold texts.
        return (
            None
            if are_floats or np.asarray(value).dtype == object
            else self._hint(type_.without_sizes())
        )

    def _hint(self, type_: TensorType) -> str:
        """Write the hints of compute with another one for this output."""
        hints = list(self.schema.outputs or (ANY,) * self.count)
        hints[self.number] = type_
        listed = ", ".join(f'"{hint}"' for hint in hints)
        if len(hints) > 1:
            listed = f"({listed})"
        return f"-> {listed} after the parameters of compute"


def _is_encodable(text: str) -> bool:
    try:
        # Bytes that are no UTF-8 arrive so, and go out as they came.
        text.encode(errors="surrogateescape")
    except UnicodeEncodeError:
        return False
    return True


def wrong_count(where: str, function: Any, value: Any, wanted: int) -> ResultError:
    """Make the error for another number of results than the node needs.

    Parameters
    ----------
    function : callable
        ``compute``.
    value : object
        All that it returned.
    """
    line, expression = origin_of(function)
    remedy = None
    if value is None:
        got, line = describe_none(), ""
    elif isinstance(value, tuple):
        got = f"a tuple of {len(value)}"
    else:
        got = describe_value(value)
        # A list or stack of all outputs was meant as a tuple.
        if isinstance(value, (list, np.ndarray)) and np.ndim(value) and len(value) == wanted:
            remedy = f"return tuple({expression})"
    location = ", ".join(filter(None, (where, line, "outputs")))
    expected = "one array" if wanted == 1 else f"a tuple of {wanted}"
    return ResultError(location, expected=expected, got=got, next=remedy)


def _are_indices(value: Any) -> bool:
    return isinstance(value, np.ndarray) and value.dtype == np.int64
