"""Feeds and results: arrays on their way into a session and out of it."""

from __future__ import annotations

import itertools
import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np
import onnxruntime

from pyopnb.common import messages, sanitize
from pyopnb.engine.ops.argument_checks import describe, is_text
from pyopnb.engine.ops.coerce import (
    cast_expression,
    describe_value,
    dtype_expression,
    foreign_array,
)
from pyopnb.engine.ops.dtypes import DType
from pyopnb.engine.ops.plain_values import is_plain, plain_array
from pyopnb.engine.ops.types import TensorType, tensor_type
from pyopnb.errors import InputError, UnknownName

__all__ = [
    "as_array",
    "check_feed",
    "check_inner",
    "check_names",
    "check_output_names",
    "check_sizes",
    "check_texts",
    "example_expression",
    "known_dims",
    "named_dims",
    "refuse_masked",
    "shared_dims",
]


# Two dimensions of one name have one size for ONNX Runtime, so each unknown one gets a number.
_UNKNOWN = "pyopnb unknown "
_unknowns = itertools.count()


def named_dims(shape: Sequence[Any]) -> tuple[Any, ...]:
    """Name unknown dimensions, which ONNX Runtime would read as sizes of -1."""
    dims = []
    for dim in shape:
        if dim is None:
            dim = f"{_UNKNOWN}{next(_unknowns)}"
        dims.append(dim)
    return tuple(dims)


def known_dims(shape: Sequence[Any]) -> tuple[Any, ...]:
    """Undo `named_dims`; sizes that ONNX Runtime infers below 0 are unknown, as no run has them."""
    dims = []
    for dim in shape:
        is_unnamed = isinstance(dim, str) and dim.startswith(_UNKNOWN)
        if is_unnamed or (isinstance(dim, int) and dim < 0):
            dim = None
        dims.append(dim)
    return tuple(dims)


def check_names(
    feeds: Collection[str],
    types: Mapping[str, TensorType | str | None],
    optional: Collection[str] = (),
) -> None:
    """Refuse feeds with missing or unknown names.

    Parameters
    ----------
    types : Mapping
        The inputs and their types, as texts where they are no tensors.
    optional : collection of str
        Inputs that have a default.

    Raises
    ------
    InputError
    """
    missing = [name for name in types if name not in feeds]
    unknown = [name for name in feeds if name not in types and name not in optional]
    if not missing and not unknown:
        return
    where = "feeds"
    if unknown and missing:
        # One unknown and one missing name: most likely a misspelling.
        next_ = f"write {messages.suggest(str(unknown[0]), types)} for {unknown[0]}"
    elif unknown:
        next_ = f"leave {unknown[0]} out"
    else:
        # These words are ONNX Runtime's.
        listed = missing
        where = f"Required inputs ({listed}) are missing from input feed"
        expression = example_expression(types[missing[0]])
        next_ = f"{listed[0]}={expression}"
        if not missing[0].isidentifier():
            next_ = f'session({{"{listed[0]}": {expression}, …}}), or a table with these columns'
    inputs = [f"{name}: {type_ or 'no tensor'}" for name, type_ in types.items()]
    raise InputError(
        where,
        expected=", ".join(inputs) or "no feeds",
        got=", ".join(map(str, feeds)) or "nothing",
        next=next_,
    )


# Exporters write these for an unknown size.
_UNNAMED = ("?", "*", "-1", "None")


def shared_dims(types: Mapping[str, TensorType | None]) -> dict[str, list[tuple[str, int]]]:
    """Find the dimensions that occur more than once: each with the inputs and axes that have it."""
    places: dict[str, list[tuple[str, int]]] = {}
    for name, declared in types.items():
        for axis, dim in enumerate((declared and declared.shape) or ()):
            if isinstance(dim, str) and dim not in _UNNAMED:
                places.setdefault(dim, []).append((name, axis))
    return {dim: found for dim, found in places.items() if len(found) > 1}


def check_sizes(
    feeds: Mapping[str, Any],
    types: Mapping[str, TensorType | None],
    shared: Mapping[str, Sequence[tuple[str, int]]],
) -> None:
    """Refuse feeds in which one dimension has several sizes.

    ONNX Runtime does not compare them, and an operator may broadcast one of the arrays.

    Parameters
    ----------
    feeds : mapping
        By name; other checks refuse values without a shape, or of another rank.
    types : mapping
        The inputs and their types.
    shared : mapping
        As `shared_dims` returns it.

    Raises
    ------
    InputError
    """
    for dim, places in shared.items():
        first: tuple[str, int] | None = None
        for name, axis in places:
            shape = _shape_of(feeds.get(name))
            declared = types[name]
            if declared is None or len(shape) != declared.rank:
                continue
            if first is None:
                first, size = (name, axis), shape[axis]
            elif shape[axis] != size:
                where = f"feeds {first[0]} and {name}"
                both = f"{types[first[0]]} and {declared}"
                if first[0] == name:
                    where = f"feed {name}, axes {first[1]} and {axis}"
                    both = str(declared)
                expected = f"one size for {dim}, as in {both}"
                advice = "arrays of one size, or session.run(None, feeds), which takes these"
                raise InputError(
                    where, expected=expected, got=f"{size} and {shape[axis]}", next=advice
                )


def _shape_of(value: Any) -> tuple[int, ...]:
    shape = getattr(value, "shape", None)
    if isinstance(value, (int, float, list, range)):
        try:
            return np.shape(value)
        except ValueError:  # lists of several lengths
            return ()
    if callable(shape):  # of an OrtValue
        shape = shape()
    return tuple(shape or ())


def check_output_names(names: Any, outputs: Sequence[str]) -> None:
    """Refuse names that no output has.

    Raises
    ------
    UnknownName
    """
    if not isinstance(names, Collection):
        got, first = describe(names), messages.suggest_key("", outputs)
        raise InputError(
            "outputs", expected="a list of names, or None", got=got, next=first and f"[{first}]"
        )
    for name in names:
        if not isinstance(name, str) or name not in outputs:
            listed = ", ".join(outputs)
            next_ = messages.suggest_key(str(name), outputs)
            raise UnknownName("outputs", expected=listed, got=sanitize(name), next=next_) from None


def check_feed(name: str, value: Any, expected: TensorType | str | None, inside: str = "") -> Any:
    """Check a feed, and make an array of the expected type of it.

    Parameters
    ----------
    value : object
        An array, or anything that can be converted to one: numbers, lists, tables, tensors of other
        libraries.
    expected : TensorType, str or None
        The text of a type that is not a tensor's; None if that is not known.
    inside : str
        The element of a sequence, ``"[0]"``, that the value is.

    Raises
    ------
    InputError
    """
    if isinstance(expected, str):
        return check_inner(name, value, expected)
    if expected is None or expected.dtype is None:
        return value
    where = f"feed {name}{inside}"
    array = value
    refuse_masked(value, where, str(expected), f"{name}{inside}")
    if not isinstance(value, np.ndarray):
        array = as_array(value, expected, where, f"{name}{inside}", not inside)
    if not _same_dtype(array, expected.dtype) or not expected.accepts_shape(array.shape):
        variable = f"{name}{inside}"
        fix = _suggest_fix(variable, array, expected, isinstance(value, np.ndarray))
        got = describe_value(value if array.dtype == object else array)
        if array.dtype != object and not isinstance(value, (np.ndarray, np.generic)):
            got = f"{type(value).__name__}, which is {got}"
        if not array.dtype.isnative:
            got += " of another byte order"
        remedy = fix and f"{variable} = {fix}" if inside else fix and f"{variable}={fix}"
        raise InputError(where, expected=str(expected), got=got, next=remedy)
    if array.dtype.kind in "OUT":
        check_texts(array, where, str(expected))
        # ONNX Runtime does not know the texts of variable width that NumPy 2 has.
        if array.dtype.kind == "T":
            array = array.astype(object)
    return array


_WRAPPED = re.compile(r"(seq|optional)\((.*)\)")
_TENSOR = re.compile(r"\w+(\[.*\])?")


def check_inner(name: str, value: Any, kind: str, where: str = "") -> Any:
    """Check the feed of a sequence or an optional, and make arrays of its elements.

    Parameters
    ----------
    kind : str
        Its type, ``"seq(float32)"``; others, such as maps, are left to ONNX Runtime.
    where : str
        The element of the feed.

    Raises
    ------
    InputError
    """
    place = f"feed {name}{where}"
    wrapped = _WRAPPED.fullmatch(kind)
    if wrapped is None:
        if _TENSOR.fullmatch(kind):
            return check_feed(name, value, tensor_type(kind), where)
        return value
    if isinstance(value, onnxruntime.OrtValue):
        return value
    if wrapped[1] == "optional":
        return None if value is None else check_inner(name, value, wrapped[2], where)
    if not isinstance(value, (list, tuple)):
        got = describe(value) if value is None else describe_value(value)
        advice = f"{name}={example_expression(kind)}"
        if isinstance(value, np.ndarray) and value.ndim > 1:
            advice = f"{name}=list({name})"
        elif isinstance(value, np.ndarray):
            advice = f"{name}=[{name}]"
        raise InputError(place, expected=f"a list of arrays, {kind}", got=got, next=advice)
    return [
        check_inner(name, item, wrapped[2], f"{where}[{number}]")
        for number, item in enumerate(value)
    ]


def refuse_masked(value: Any, where: str, expected: str, name: str) -> None:
    """Refuse an array with masked elements.

    A tensor has no mask, and the values under the mask have no meaning.
    """
    if isinstance(value, np.ma.MaskedArray) and np.ma.is_masked(value):
        fix = f"np.ma.filled({name}, 0)"
        raise InputError(where, expected=expected, got="masked elements", next=fix)


def check_texts(array: np.ndarray, where: str, expected: str) -> None:
    """Refuse elements that are not valid UTF-8 strings; onnxruntime would feed str(None) as "None".

    Parameters
    ----------
    array : ndarray
        An array of objects, or of NumPy strings.
    where, expected : str
        For the error.

    Raises
    ------
    InputError
    """
    for index, item in np.ndenumerate(array):
        if not is_text(item):
            at = f"[{', '.join(map(str, index))}]" if index else ""
            raise InputError(
                f"{where}{at}", expected=f"str, as in {expected}", got=sanitize(ascii(item), 60)
            )


def as_array(
    value: Any, want: TensorType, where: str, name: str, keyword: bool = False
) -> np.ndarray:
    """Convert to an array; plain values get the declared dtype, arrays keep their own.

    Parameters
    ----------
    want : TensorType
        The declared type; its dtype may be unknown.
    where : str
        For the error.
    name : str
        The variable that the advice converts.
    keyword : bool
        Whether it is given by that name.

    Raises
    ------
    InputError
    """
    row = want.dtype
    if isinstance(value, range):
        value = list(value)
    nested = isinstance(value, (list, tuple))
    if row is not None and row.name == "string":
        # NumPy string arrays turn numbers and None beside strings into strings.
        return foreign_array(value, where, str(want), object if nested else None)
    if row is not None:
        if not nested and not isinstance(value, (bool, int, float, complex, type(None))):
            value = foreign_array(value, where, str(want))
            # pandas has objects in columns of several types.
            if value.dtype == object and value.ndim:
                value = value.tolist()
        if is_plain(value, row):
            prefix = f"{name}=" if keyword else ""
            return plain_array(value, row, where, str(want), name, prefix)
    return foreign_array(value, where, str(want))


def _same_dtype(array: np.ndarray, want: DType) -> bool:
    if want.name == "string":
        return array.dtype.kind in "OUT"
    return array.dtype == want.numpy


def _suggest_fix(name: str, array: np.ndarray, want: TensorType, is_array: bool) -> str | None:
    """Suggest the expression to feed instead; None if the data themselves are wrong."""
    if want.dtype is None or array.dtype.kind not in "biufU":
        return None
    same_dtype = _same_dtype(array, want.dtype)
    # Tables have NaN for missing values, and no integer can represent that.
    if array.dtype.kind == "U" and want.dtype.name != "string":
        # A column of a file has its numbers as texts; a text that is no number stays one.
        try:
            array.astype(want.dtype.numpy)
        except ValueError:
            return None
    if array.dtype.kind == "f" and want.dtype.numpy.kind in "iu" and not np.isfinite(array).all():
        return None
    expression = name
    # NumPy would choose another dtype for numbers and lists, and Pillow pictures have no axes.
    if not (same_dtype and is_array):
        expression = cast_expression(name, want.dtype)
    if want.accepts_shape(array.shape):
        return expression
    return _fit_axes(expression, array.shape, want)


def _fit_axes(expression: str, shape: tuple[int, ...], want: TensorType) -> str | None:
    """Write the expression that gives an array the axes of a type without mixing its elements."""
    missing = (want.rank or 0) - len(shape)
    if missing > 0 and want.accepts_shape((1,) * missing + shape):
        return f"{expression}[{', '.join(['np.newaxis'] * missing)}]"
    # Pictures have their channels last in Pillow, OpenCV and TensorFlow, and first in torch.
    if len(shape) == 3 and missing == 1 and want.accepts_shape((1, shape[2], *shape[:2])):
        return f"np.moveaxis({expression}, -1, 0)[np.newaxis]"
    if len(shape) == 4 and missing == 0:
        batch, *sizes = shape
        if want.accepts_shape((batch, sizes[2], *sizes[:2])):
            return f"np.moveaxis({expression}, -1, 1)"
        if want.accepts_shape((batch, *sizes[1:], sizes[0])):
            return f"np.moveaxis({expression}, 1, -1)"
    return None


def example_expression(want: TensorType | str | None) -> str:
    """Write an expression that makes an array of a type, or a list of arrays."""
    if isinstance(want, str):
        wrapped = _WRAPPED.fullmatch(want)
        if wrapped is not None and wrapped[1] == "seq":
            return f"[{example_expression(wrapped[2])}]"
        if wrapped is not None:
            return example_expression(wrapped[2])
        want = tensor_type(want) if _TENSOR.fullmatch(want) else None
        if want is not None and want.shape is None:
            want = want.like(shape=("N",))
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
