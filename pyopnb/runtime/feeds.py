"""Feeds and results: arrays on their way into a session and out of it."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np
import onnxruntime

from pyopnb.errors import InputError, UnknownOp
from pyopnb.ops.arguments import describe
from pyopnb.ops.coerce import cast_expression, describe_value, dtype_expression
from pyopnb.ops.dtypes import DTYPES, DType
from pyopnb.ops.dtypes import dtype as find_dtype
from pyopnb.ops.messages import plural, sanitize, suggest, suggest_key
from pyopnb.ops.plain_values import is_plain, plain_array
from pyopnb.ops.types import TensorType
from pyopnb.runtime.ortvalues import RUNTIME_NAMES, needs_ml_dtypes, to_ortvalue

__all__ = [
    "Feeds",
    "as_array",
    "check_characters",
    "check_feed",
    "check_names",
    "check_output_names",
    "example_expression",
    "feeds_by_name",
    "known_dims",
    "named_dims",
]

_TENSOR = re.compile(r"tensor\((\w+)\)")
_BY_TEXT = {
    **{row.name.replace("_", ""): row for row in DTYPES},
    "float4e2m1": find_dtype("float4_e2m1fn"),
    "float8e8m0": find_dtype("float8_e8m0fnu"),
}


# Two dimensions of one name have one size for ONNX Runtime, so each unknown one gets a number.
_UNKNOWN = "pyopnb unknown "
_unknowns = itertools.count()


def named_dims(shape: Sequence[Any]) -> tuple[Any, ...]:
    """Name the unknown dimensions for ONNX Runtime, which takes them for sizes of -1."""
    dims = []
    for dim in shape:
        if dim is None:
            dim = f"{_UNKNOWN}{next(_unknowns)}"
        dims.append(dim)
    return tuple(dims)


def known_dims(shape: Sequence[Any]) -> tuple[Any, ...]:
    """Make unknown again what `named_dims` has named."""
    dims = []
    for dim in shape:
        if isinstance(dim, str) and dim.startswith(_UNKNOWN):
            dim = None
        dims.append(dim)
    return tuple(dims)


def _declared(meta: Any, scalars: Collection[str]) -> TensorType | None:
    """Read the type of a session's input or output; None where it is no tensor.

    onnxruntime shows an unknown rank as it shows a scalar's, so the model itself must say which of them is a scalar.
    """
    match = _TENSOR.fullmatch(meta.type)
    if match is None:
        return None
    row = _BY_TEXT.get(RUNTIME_NAMES.get(match[1], match[1]))
    if row is None:
        return None
    shape = None
    if meta.shape or meta.name in scalars:
        shape = known_dims(meta.shape)
    return TensorType(row, shape)


def _declared_types(metas: Sequence[Any], scalars: Collection[str]) -> dict[str, TensorType | None]:
    types = {}
    for meta in metas:
        types[meta.name] = _declared(meta, scalars)
    return types


class Feeds:
    """What a session takes, and the check that a feed is that.

    Parameters
    ----------
    session : onnxruntime.InferenceSession
    scalars : collection of str
        Names of inputs and outputs that the model declares as scalars.
    """

    def __init__(
        self, session: onnxruntime.InferenceSession, scalars: Collection[str] = ()
    ) -> None:
        self.types = _declared_types(session.get_inputs(), scalars)
        # Initializers that are inputs as well: a run may feed them, and need not.
        self._optional = _declared_types(session.get_overridable_initializers(), scalars)
        self.outputs = _declared_types(session.get_outputs(), scalars)
        self.output_names = list(self.outputs)
        unlike_numpy = set()
        for name, tensor_type in self.outputs.items():
            if needs_ml_dtypes(tensor_type):
                unlike_numpy.add(name)
        self._unlike_numpy = frozenset(unlike_numpy)
        # What the check of a plain array looks at. A row with None is one that only the whole check can pass.
        self._rows = []
        for name, tensor_type in self.types.items():
            self._rows.append((name, *_plain_row(tensor_type)))

    def check(self, feeds: Mapping[str, Any]) -> tuple[dict[str, Any], bool]:
        """Check feeds, and tell whether an OrtValue is among them.

        Raises
        ------
        InputError
            A name is missing or unknown, or an array has another dtype or shape than the model's input.
        """
        try:
            checked = dict(feeds)
        except (TypeError, ValueError):
            first = next(iter(self.types), None)
            pair = ""
            if first:
                pair = f'"{sanitize(first)}": {example_expression(self.types[first])}'
            raise InputError(
                "feeds",
                expected="a dict of name to array",
                got=type(feeds).__name__,
                next=f"{{{pair}}}",
            ) from None
        # Every run passes here: one look at each array, and no more.
        if len(checked) == len(self._rows):
            for name, dtype, shape in self._rows:
                value = checked.get(name)
                if (
                    type(value) is not np.ndarray
                    or value.dtype is not dtype
                    or len(value.shape) != len(shape)
                ):
                    break
                if shape != value.shape and not _same_sizes(value.shape, shape):
                    break
            else:
                return checked, False
        return self._check_each(checked)

    def check_names(self, feeds: Collection[str]) -> None:
        """Raise `InputError` where a name is missing or unknown."""
        if set(feeds) != self.types.keys():
            check_names(feeds, self.types, self._optional)

    def _check_each(self, feeds: dict[str, Any]) -> tuple[dict[str, Any], bool]:
        self.check_names(feeds)
        checked = {}
        with_ortvalues = False
        for name, value in feeds.items():
            checked[name] = self._check_feed(name, value)
            with_ortvalues |= isinstance(checked[name], onnxruntime.OrtValue)
        return checked, with_ortvalues

    def by_name(self, feeds: Sequence[Any], named: Mapping[str, Any]) -> dict[str, Any]:
        """Return the feeds of a call as one dict; see `feeds_by_name`."""
        __tracebackhide__ = True
        # A single dict is itself a feed where an input is a map.
        return feeds_by_name(list(self.types), feeds, named, takes_dict=all(self.types.values()))

    def arrays(self, feeds: Mapping[str, Any]) -> dict[str, Any]:
        """Make arrays of feeds that are kept; leave what is onnxruntime's own as it is.

        Raises
        ------
        InputError
            As from `check`.
        """
        check_names(feeds, self.types, self._optional)
        return {name: self._to_array(name, value) for name, value in feeds.items()}

    def _to_array(self, name: str, value: Any) -> Any:
        if isinstance(value, (onnxruntime.OrtValue, onnxruntime.SparseTensor)):
            return value
        return check_feed(name, value, self._expected(name))

    def _expected(self, name: str) -> TensorType | None:
        if name in self.types:
            return self.types[name]
        return self._optional[name]

    def _check_feed(self, name: str, value: Any) -> Any:
        expected = self._expected(name)
        array = self._to_array(name, value)
        if isinstance(array, (onnxruntime.OrtValue, onnxruntime.SparseTensor)):
            return array
        # onnxruntime makes no tensors of ml_dtypes' arrays, as those of bfloat16 and int4 are.
        if expected and expected.dtype and needs_ml_dtypes(expected):
            return to_ortvalue(array, expected.dtype)
        return array

    def needs_ortvalues(self, names: Sequence[str] | None) -> bool:
        """Tell whether one of these outputs has a dtype that onnxruntime gives no array for."""
        return bool(self._unlike_numpy) and (not names or not self._unlike_numpy.isdisjoint(names))


def check_names(
    feeds: Collection[str], types: Mapping[str, TensorType | None], optional: Collection[str] = ()
) -> None:
    """Refuse feeds whose names are not those of the inputs.

    Raises
    ------
    InputError
        A name is missing or unknown.
    """
    missing = [name for name in types if name not in feeds]
    unknown = [name for name in feeds if name not in types and name not in optional]
    if not missing and not unknown:
        return
    inputs = []
    for name, tensor_type in types.items():
        inputs.append(f"{sanitize(name)}: {tensor_type or 'no tensor'}")
    where = "feeds"
    if unknown and missing:
        # A name too many and one too few: most likely the one is the other, misspelt.
        next_ = f"write {suggest(str(unknown[0]), types)} for {sanitize(unknown[0])}"
    elif unknown:
        next_ = f"leave {sanitize(unknown[0])} out"
    else:
        # These words are ONNX Runtime's.
        where = (
            f"Required inputs ({_quoted(missing)}) are missing from input feed ({_quoted(feeds)})"
        )
        next_ = f"{sanitize(missing[0])}={example_expression(types[missing[0]])}"
    raise InputError(
        where,
        expected=", ".join(inputs) or "no feeds",
        got=", ".join(map(sanitize, feeds)) or "nothing",
        next=next_,
    )


def _quoted(names: Collection[str]) -> list[str]:
    return [sanitize(name) for name in names]


def check_output_names(names: Any, outputs: Sequence[str]) -> None:
    """Refuse names that are not those of outputs.

    Raises
    ------
    UnknownOp
    """
    if not isinstance(names, Collection):
        got, first = describe(names), suggest_key("", outputs)
        raise InputError(
            "outputs", expected="a list of names, or None", got=got, next=first and f"[{first}]"
        )
    for name in names:
        if not isinstance(name, str) or name not in outputs:
            listed = ", ".join(map(sanitize, outputs))
            next_ = suggest_key(str(name), outputs)
            raise UnknownOp("outputs", expected=listed, got=sanitize(name), next=next_) from None


def check_feed(name: str, value: Any, expected: TensorType | None) -> Any:
    """Check a feed, and make an array of the expected type of it.

    Python's numbers get the expected dtype, if that has their values; of what has a dtype nothing is cast.

    Raises
    ------
    InputError
        The array has another dtype or shape.
    """
    if expected is None or expected.dtype is None:
        return value
    if isinstance(value, np.ndarray):
        array = value
    else:
        array = as_array(value, expected, f"feed {sanitize(name)}", sanitize(name), True)
    if expected.dtype.name == "string" and array.dtype.kind in "SV" and array.dtype.names is None:
        array = _decoded(name, array, expected)
    if not _same_dtype(array, expected.dtype) or not expected.accepts_shape(array.shape):
        fix = _suggest_fix(sanitize(name), value, array, expected)
        remedy = fix and f"{sanitize(name)}={fix}"
        raise InputError(
            f"feed {sanitize(name)}",
            expected=str(expected),
            got=_describe(value, array),
            next=remedy,
        )
    if array.dtype == object:
        _refuse_other_than_str(name, array, expected)
    if array.dtype.kind in "OU":
        check_characters(array, f"feed {sanitize(name)}")
    return array


def check_characters(array: np.ndarray, where: str) -> None:
    """Refuse texts with half a character: a lone surrogate, which UTF-8 does not have, and so no string of ONNX Runtime's.

    Parameters
    ----------
    array : ndarray of str
    where : str

    Raises
    ------
    InputError
        It names the element.
    """
    # Most texts are ASCII, and to ask for that is cheaper than the search.
    if all(map(str.isascii, array.flat)):
        return
    index = next((n for n, text in enumerate(array.flat) if _SURROGATE.search(text)), None)
    if index is None:
        return
    text = str(array.flat[index])
    at = ""
    if array.ndim:
        at = f"[{', '.join(map(str, np.unravel_index(index, array.shape)))}]"
    # UTF-16 joins the halves of a character that came as two, and a lone half becomes a �.
    repaired = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    got, next_ = sanitize(ascii(text), 60), sanitize(ascii(repaired), 60)
    raise InputError(f"{where}{at}", expected="characters that UTF-8 has", got=got, next=next_)


_SURROGATE = re.compile("[\ud800-\udfff]")


def _decoded(name: str, array: np.ndarray, expected: TensorType) -> np.ndarray:
    """Decode an array of bytes; onnxruntime would read some texts past their end."""
    texts = np.empty(array.shape, object)
    for index, item in np.ndenumerate(array):
        try:
            texts[index] = bytes(item).decode()
        except UnicodeDecodeError:
            at = ""
            if index:
                at = f"[{', '.join(map(str, index))}]"
            got = sanitize(repr(bytes(item)), 60)
            raise InputError(
                f"feed {sanitize(name)}{at}", expected=f"UTF-8, as in {expected}", got=got
            ) from None
    return texts


def _describe(value: Any, array: np.ndarray) -> str:
    """Describe a feed that does not fit, and the array that was made of it."""
    is_foreign = not isinstance(value, (np.ndarray, np.generic, str, list, tuple))
    if array.dtype == object and array.ndim and is_foreign:
        return f"{type(value).__name__}, as {describe_value(array.tolist())}"
    if isinstance(value, (np.ndarray, np.generic, str)) or array.dtype == object:
        return describe_value(value)
    return f"{type(value).__name__}, which is {describe_value(array)}"


def _refuse_other_than_str(name: str, array: np.ndarray, expected: TensorType) -> None:
    """Raise for an element that is no str: onnxruntime would feed its text, "None" for None."""
    for index, item in np.ndenumerate(array):
        if isinstance(item, str):
            continue
        at = ""
        if index:
            at = f"[{', '.join(map(str, index))}]"
        # The advice writes a short array out, with a str for each element.
        texts = [_to_str(each) for each in array.ravel()[:9]]
        reshape = ""
        if array.ndim != 1:
            reshape = f".reshape{array.shape!r}"
        expression = f"{sanitize(name)}=np.array({texts!r}, dtype=object){reshape}"
        if array.size >= 9 or not expression.isprintable() or len(expression) > 200:
            expression = f'"" or another str for {sanitize(repr(item), 60)}'
        got = "None"
        if item is not None:
            got = f"{type(item).__name__} {sanitize(repr(item), 60)}"
        raise InputError(
            f"feed {sanitize(name)}{at}",
            expected=f"str, as in {expected}",
            got=got,
            next=expression,
        )


def _to_str(item: object) -> str:
    # Tables have None or NaN for a text that is missing.
    if item is None or (isinstance(item, float) and item != item):
        return ""
    if isinstance(item, bytes):
        return item.decode(errors="replace")
    return str(item)


def feeds_by_name(
    names: Sequence[str], feeds: Sequence[Any], named: Mapping[str, Any], *, takes_dict: bool = True
) -> dict[str, Any]:
    """Gather feeds, given by name, in the order of the model's inputs or in one dict, in one dict.

    Parameters
    ----------
    names : sequence of str
        The model's inputs.
    takes_dict : bool
        Whether a single dict holds the feeds by name; otherwise it is itself a feed.

    Raises
    ------
    InputError
        There are more feeds than inputs.
    """
    __tracebackhide__ = True
    if takes_dict and len(feeds) == 1 and isinstance(feeds[0], Mapping):
        return {**feeds[0], **named}
    # One feed for several inputs is a table or a mistake, so nothing else pays for the look at it.
    if len(names) > 1 and len(feeds) + len(named) == 1:
        columns = _columns(names, next(iter((*feeds, *named.values()))))
        if columns:
            return columns
    if len(feeds) > len(names):
        shown = _quoted(names)
        expected = "no inputs"
        if names:
            expected = f"{plural(len(names), 'input')} ({', '.join(shown)})"
        keywords = []
        for name in shown:
            # A name such as "/x:0" cannot be a keyword as it stands.
            keywords.append(f"{name}={name}" if name.isidentifier() else f"**{{{name!r}: …}}")
        next_ = ", ".join(keywords) or None
        raise InputError("feeds", expected=expected, got=str(len(feeds)), next=next_)
    return {**dict(zip(names, feeds, strict=False)), **named}


def _columns(names: Sequence[str], table: Any) -> dict[str, Any]:
    """Take the inputs of a model from the columns of a DataFrame, as those of a pipeline; {} where it is none."""
    # Recognised by what it has, as neither pandas nor polars is imported.
    if not hasattr(table, "columns") or not hasattr(table, "to_numpy"):
        return {}
    known = [name for name in names if name in table.columns]
    return {name: table[[name]].to_numpy() for name in known}


def _plain_row(kind: TensorType | None) -> tuple[np.dtype[Any] | None, tuple[Any, ...]]:
    """Return the dtype and shape of a plain array for an input; None where it takes a longer look."""
    if kind is None or kind.dtype is None or kind.shape is None:
        return None, ()
    # Texts are looked at one by one, and arrays of ml_dtypes become OrtValues.
    if kind.dtype.name == "string" or needs_ml_dtypes(kind):
        return None, ()
    return kind.dtype.numpy, kind.shape


def _same_sizes(shape: Sequence[int], expected: Sequence[Any]) -> bool:
    # A generator costs twice as much.
    for size, dim in zip(shape, expected, strict=True):  # noqa: SIM110
        if size != dim and isinstance(dim, int):
            return False
    return True


def as_array(
    value: Any, want: TensorType, where: str, name: str, keyword: bool = False
) -> np.ndarray:
    """Make an array: plain values get the declared dtype, all else keeps its own.

    Parameters
    ----------
    value : object
    want : TensorType
    where, name : str
        For errors: the place, and the variable that the advice converts.
    keyword : bool
        Whether the advice is to be typed with the name in front, as a feed is.

    Raises
    ------
    InputError
        It cannot be an array, or the declared dtype does not have a plain value.
    """
    row = want.dtype
    if isinstance(value, range):
        value = list(value)
    nested = isinstance(value, (list, tuple))
    # NumPy's own string arrays turn numbers and None beside strings into strings.
    as_objects = nested and row is not None and row.name == "string"
    if row is not None and row.name != "string":
        if not (nested or isinstance(value, (bool, int, float, complex))) and value is not None:
            array = _foreign_array(value, where, want)
            # Objects are what pandas has in columns of several types.
            value = array
            if array.dtype == object and array.ndim:
                value = array.tolist()
        if is_plain(value, row):
            prefix = f"{name}=" if keyword else ""
            return plain_array(value, row, where, str(want), name, prefix)
    if as_objects:
        return _foreign_array(value, where, want, object)
    return _foreign_array(value, where, want)


def _foreign_array(value: Any, where: str, want: TensorType, dtype: Any = None) -> np.ndarray:
    """Convert a table or tensor by NumPy or DLPack, without a copy where that can be."""
    try:
        if hasattr(value, "requires_grad"):
            value = value.detach()  # a tensor of torch's, which gives no array while it records
        if hasattr(value, "__dlpack__") and not hasattr(value, "__array__"):
            return np.from_dlpack(value)
        return np.asarray(value, dtype=dtype)
    except (TypeError, RuntimeError, BufferError) as error:  # its own words: on another device, say
        raise InputError(
            where, expected=str(want), got=f"{describe_value(value)}: {sanitize(error).rstrip('.')}"
        ) from error
    except ValueError:
        raise InputError(where, expected=str(want), got=describe_value(value)) from None


def _same_dtype(array: np.ndarray, want: DType) -> bool:
    if want.name == "string":
        return array.dtype.kind in "OUT"
    return array.dtype == want.numpy


def _suggest_fix(name: str, value: Any, array: np.ndarray, want: TensorType) -> str | None:
    """Write the expression to feed instead; None where the data are wrong."""
    if want.dtype is None:
        return None
    if array.dtype == object and any(item is None for item in array.flat):
        return example_expression(want)
    if _same_dtype(array, want.dtype):
        rank = want.rank or 0
        # A bare number or text for an array of one element: brackets make it one.
        if isinstance(value, (str, int, float)) and want.accepts_shape((1,) * rank):
            # Python has no literals for these, so the advice names the variable.
            if repr(value) in ("nan", "inf", "-inf"):
                text = name
            else:
                text = repr(value)
            return "[" * rank + text + "]" * rank
        if not hasattr(value, "reshape"):
            name = cast_expression(name, want.dtype)
        return _reshaped(name, array.shape, want)
    has_nulls = array.dtype.kind == "f" and bool(np.isnan(array).any())
    if has_nulls and np.dtype(want.dtype.numpy).kind in "iu":
        # Tables have NaN for what is missing, which no integer stands for.
        if np.isinf(array).any():
            return None
        filled = f"np.nan_to_num(np.asarray({name}, dtype=np.{array.dtype.name}))"
        return f"{filled}.astype({dtype_expression(want.dtype)})"
    try:
        with np.errstate(all="ignore"):
            array.astype(want.dtype.numpy)
    except (ValueError, TypeError):  # None, a dict, a text that is no number
        return example_expression(want)
    return cast_expression(name, want.dtype)


def _reshaped(name: str, shape: tuple[int, ...], want: TensorType) -> str | None:
    """Write the expression that gives an array the axes of a type, where there is just one."""
    missing = len(want.shape or ()) - len(shape)
    if missing > 0 and want.accepts_shape((1,) * missing + shape):
        return f"{name}[{', '.join(['np.newaxis'] * missing)}]"
    # Pictures have their channels at the other end, with or without an axis for the batch.
    if missing == 1 and len(shape) == 3 and want.accepts_shape((1, shape[2], *shape[:2])):
        return f"np.moveaxis({name}, -1, 0)[np.newaxis]"
    if missing == 0 and len(shape) > 1:
        # The axis of the channels: behind that of the batch, if there is one.
        first = 0
        if len(shape) > 3:
            first = 1
        for source, target in ((-1, first), (first, -1)):
            moved = np.moveaxis(np.broadcast_to(0, shape), source, target)
            if want.accepts_shape(moved.shape):
                return f"np.moveaxis({name}, {source}, {target})"
    # Any other reshape would mix up the axes.
    if missing < 0 or (missing > 0 and len(shape) == 1):
        return _flattened(name, math.prod(shape), want)
    return None


def _flattened(name: str, count: int, want: TensorType) -> str | None:
    """Write the reshape to a type with at most one open size; None where the elements do not fit."""
    sizes = []
    for dim in want.shape or ():
        sizes.append(dim if isinstance(dim, int) else -1)
    fixed = math.prod([size for size in sizes if size >= 0])
    if -1 not in sizes:
        fits = count == fixed
    else:
        fits = sizes.count(-1) == 1 and fixed > 0 and count % fixed == 0
    shape = ", ".join(map(str, sizes)) or "()"
    if fits:
        return f"{name}.reshape({shape})"
    return None


def example_expression(want: TensorType | None) -> str:
    """Write an expression that makes an array of a type."""
    if want is None or want.dtype is None:
        return "…"
    sizes = []
    for dim in want.shape or ():
        sizes.append(dim if isinstance(dim, int) else 1)
    if len(sizes) == 1:
        shape = str(sizes[0])
    else:
        shape = str(tuple(sizes))
    if want.dtype.name == "string":
        return f'np.full({shape}, "text")'
    return f"np.zeros({shape}, {dtype_expression(want.dtype)})"
