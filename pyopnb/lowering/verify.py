"""A function compared with the op that it was lowered from: at other sizes, on other values, in other dtypes."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from onnx import ModelProto, NodeProto, helper

from pyopnb.diffs.arrays.diff import Diff, compared
from pyopnb.lowering.tracer import LoweredOp
from pyopnb.models.nodes import nodes_in, set_attribute
from pyopnb.models.ort_capabilities import newest_ir_version, takes_empty
from pyopnb.ops.errors import NotLowered, one_line, sanitize
from pyopnb.ops.schema import Schema
from pyopnb.ops.types import type_of
from pyopnb.runtime.one_run import kernel_runner
from pyopnb.testing.sizes import ExampleSizes
from pyopnb.testing.subject import Example, Subject

__all__ = ["FLOATS", "NoKernel", "called", "compare", "give_attrs", "in_dtype", "trials", "tries_empty", "verify"]

FLOATS = (np.dtype(np.float16), np.dtype(np.float32), np.dtype(np.float64))
"""The dtypes in which an op of floats is tried."""


class NoKernel(NotLowered):
    """ONNX Runtime does not take the nodes."""


_SEEDS = 3
_MOST_SIZES = 4
_RELATIVE = {"float16": 2e-2, "float32": 1e-4, "float64": 1e-9}
_OF_LARGEST = {"float16": 1e-2, "float32": 2e-5, "float64": 1e-11}
_OF_PYTHONS = 4.0  # how many times as far off as the op's own float16 a float16 may be


def give_attrs(node: NodeProto, lowered: LoweredOp, schema: Schema, values: Mapping[str, Any], where: str) -> None:
    """Give a node the attributes of a function: a float where it has an int, which an op takes as well."""
    for attr in schema.attrs:
        if attr.name in lowered.open and attr.name in values:
            set_attribute(node, attr.name, attr.take(values[attr.name], where))


def called(lowered: LoweredOp, subject: Subject, example: Example, outputs: Sequence[np.ndarray]) -> ModelProto:
    """A model of one call of a function, for the example's dtypes and ranks."""
    function, node = lowered.function, subject.node(example)
    give_attrs(node, lowered, subject.schema, example.attrs, subject.op.name)
    node.output[:] = [f"y{place}" for place in range(len(outputs))]
    inputs = [_info(f"x{place}", array) for place, array in enumerate(example.inputs) if array is not None]
    graph = helper.make_graph([node], "call", inputs, [_info(f"y{place}", array) for place, array in enumerate(outputs)])
    (imported,) = (entry.version for entry in function.opset_import)
    imports = [helper.make_opsetid("", imported), helper.make_opsetid(function.domain, 1)]
    return helper.make_model(
        graph, functions=[function], opset_imports=imports, ir_version=newest_ir_version(), producer_name="pyopnb"
    )


def _info(name: str, array: np.ndarray) -> Any:
    return helper.make_tensor_value_info(name, type_of(array).dtype.onnx, [None] * array.ndim)  # type: ignore[union-attr]  # arrays have one


def verify(lowered: LoweredOp, subject: Subject, examples: Sequence[Example], *, finite: bool, sizes: bool = False) -> Diff:
    """Run a function in plain ONNX Runtime, and compare it with the op.

    Parameters
    ----------
    lowered : LoweredOp
    subject : Subject
    examples : sequence of Example
        Of the same dtypes and ranks; the op takes the first.
    finite : bool
        Whether no array has a NaN.
    sizes : bool
        Whether the function is for the examples' sizes alone.

    Returns
    -------
    Diff
        Of the first example.

    Raises
    ------
    NotLowered
        A result differs.
    """
    first, run, inside = None, None, _floats_inside(lowered)
    for what, example in trials(subject, examples, finite=finite, sizes=sizes):
        if what == _EMPTY and not tries_empty(lowered):
            continue
        expected = _call(subject, example)
        if expected is None:
            continue  # of sizes and values that are made here, an op may refuse some
        if what == _EMPTY and finite and not all(np.isfinite(array).all() for array in expected if array.dtype in FLOATS):
            continue  # a mean of nothing
        if run is None:
            run = _runner(called(lowered, subject, example, expected), lowered, subject)
        try:
            found = compare(run, subject, example, expected, inside)
        except Exception as error:  # the runtime's exceptions have no base class of their own
            if what == _EMPTY:
                continue  # an error is no wrong number, and some of the runtime's kernels refuse what is empty
            if not type(error).__module__.startswith("onnxruntime."):
                raise
            raise _refused(error, lowered, subject, example) from None
        if not found.ok:
            raise _differs(subject, example, what, found)
        first = found if first is None else first
    assert first is not None, "the op takes the first example"  # noqa: S101  # which has been called before
    return first


def tries_empty(lowered: LoweredOp) -> bool:
    """Whether a function is run on arrays without elements: some kernels give anything for them, or end the process.

    Parameters
    ----------
    lowered : LoweredOp

    Returns
    -------
    bool
        False also with Unique along an axis in the function: in 1.32, slices without elements end the process.
    """
    along = any(
        node.op_type == "Unique" and any(attribute.name == "axis" for attribute in node.attribute)
        for node in nodes_in(lowered.function)
    )
    return takes_empty() and not along


def _runner(model: ModelProto, lowered: LoweredOp, subject: Subject) -> Callable[[Any], list[Any]]:
    try:
        return kernel_runner(model)
    except Exception as error:  # the runtime's exceptions have no base class of their own
        text = sanitize(str(error).strip().partition("\n")[0])
        line = next((line for name, line in lowered.lines.items() if f"'{name}'" in text and line), "")
        where = f"{subject.op.name}{', ' if line else ''}{line}"
        raise NoKernel(where, expected="nodes that ONNX Runtime has kernels for", got=text) from None


def _refused(error: Exception, lowered: LoweredOp, subject: Subject, example: Example) -> NotLowered:
    """An operator raises where the op does not: a Pad by reflection, say, along an axis of one element."""
    text = one_line(sanitize(str(error).rpartition("Status Message: ")[2]))
    kind = re.search(r"running (\w+) node", str(error))
    places = [node.output[0] for node in lowered.function.node if kind and node.op_type == kind[1]]
    line = next((lowered.lines[place] for place in places if lowered.lines.get(place)), "")
    advice = "the sizes that the op has in the hints, float32[3,N], if there are no others; or leave this op in Python"
    return NotLowered(
        f"{subject.op.name}, {line}{', ' if line else ''}for {example}",
        expected="operators that take what compute takes",
        got=text.rstrip("."),
        next=advice,
    )


def _floats_inside(lowered: LoweredOp) -> set[str]:
    """The dtypes of floats that a function casts to: its results are no more exact than they."""
    found = {attribute.i for node in lowered.function.node if node.op_type == "Cast" for attribute in node.attribute}
    return {dtype.name for dtype in FLOATS if helper.np_dtype_to_tensor_dtype(dtype) in found}


def compare(
    run: Callable[[Any], list[Any]],
    subject: Subject,
    example: Example,
    expected: Sequence[np.ndarray],
    inside: Collection[str] = (),
) -> Diff:
    """The diff of what the runtime gives for an example and what the op gives.

    Parameters
    ----------
    run : callable
        Of feeds.
    subject : Subject
    example : Example
    expected : sequence of ndarray
        The op's results.
    inside : collection of str
        Dtypes of floats in which parts of the function compute.

    Returns
    -------
    Diff
    """
    got = run(example.feeds())
    names = [f"output {place}" for place in range(len(expected))]
    mine, theirs = dict(zip(names, got, strict=True)), dict(zip(names, expected, strict=True))
    results = {array.dtype.name for array in expected}
    kind = _narrowest(results, "float32")
    diff = _within(kind, mine, theirs)
    if diff.ok:
        return diff
    # What computes in a narrower dtype than that of its results rounds there, ONNX Runtime less often than NumPy.
    narrow = _narrowest({*results, *inside, *(array.dtype.name for array in example.inputs if array is not None)}, kind)
    if narrow == "float16" and _is_as_good(subject, example, expected, got):
        return compared(dict.fromkeys(names, np.zeros(0)), dict.fromkeys(names, np.zeros(0)))
    return diff if narrow == kind else _within(narrow, mine, theirs)


def _narrowest(names: Collection[str], otherwise: str) -> str:
    return next((name for name in _RELATIVE if name in names), otherwise)


def _within(kind: str, mine: dict[str, Any], theirs: dict[str, Any]) -> Diff:
    return compared(mine, theirs, _RELATIVE[kind], 6e-8 if kind == "float16" else 0.0, _OF_LARGEST[kind])


def _is_as_good(subject: Subject, example: Example, expected: Sequence[np.ndarray], got: Sequence[np.ndarray]) -> bool:
    """Whether float16 is not much farther from the op's own float64 than its float16 is: the runtime rounds less often."""
    exact = _call(subject, in_dtype(example, np.dtype(np.float64)))
    if exact is None:
        return False
    for mine, theirs, truth in zip(got, expected, exact, strict=True):
        if mine.dtype != theirs.dtype or mine.shape != theirs.shape:
            return False
        if not _is_near(*(array.astype(np.float64) for array in (mine, theirs, truth))):
            return False
    return True


def _is_near(mine: np.ndarray, theirs: np.ndarray, truth: np.ndarray) -> bool:
    finite = np.isfinite(mine) & np.isfinite(theirs) & np.isfinite(truth)
    with np.errstate(invalid="ignore"):
        ours, others = (np.abs(each - truth) for each in (mine, theirs))
        same = (mine == theirs) | (np.isnan(mine) & np.isnan(theirs))
        # Where NumPy's float16 has overflowed on the way, the runtime's need not have.
        beyond = ~np.isfinite(theirs) & (ours <= _RELATIVE["float16"] * np.abs(truth))
    return bool((finite | same | beyond).all()) and ours.max(initial=0, where=finite) <= _OF_PYTHONS * others.max(
        initial=0, where=finite
    )


def _differs(subject: Subject, example: Example, what: str, diff: Diff) -> NotLowered:
    got = "; ".join(one_line(line) for line in diff.headline()[:2])
    advice = "finite=True, if no array has NaN or infinity" if what == _NOT_FINITE else None
    return NotLowered(
        f"{subject.op.name}, {what} {example}", expected="the results of compute", got=got.rstrip("."), next=advice
    )


def _call(subject: Subject, example: Example) -> tuple[np.ndarray, ...] | None:
    """What the op gives; None where it raises."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            return subject.call(example)
        except Exception:
            return None


# ---- examples ----------------------------------------------------------------------------------------------------------------

_NOT_FINITE = "with NaN and infinities in"
_EMPTY = "for the empty"


def trials(subject: Subject, examples: Sequence[Example], *, finite: bool, sizes: bool) -> Iterator[tuple[str, Example]]:
    """The examples, then others like them: in other sizes, without elements, with other values, and with NaN and infinities."""
    for example in examples:
        yield "for", example
    random = np.random.default_rng(0)
    of_sizes = list(examples[:1])
    if not sizes:
        groups = ExampleSizes.of(subject, examples[0])
        larger = [{name: size + step for name, size in groups.sizes.items()} for step in (1, 3)]
        others = [other for other in (*larger, *groups.others()) if other != groups.sizes]
        resized = [groups.resize(other) for other in others[: _MOST_SIZES + 2]]
        of_sizes += [example for example in resized if example is not None][:_MOST_SIZES]
        nothing = [{**groups.sizes, name: 0} for name in groups.sizes] + [dict.fromkeys(groups.sizes, 0)]
        distinct = [other for place, other in enumerate(nothing) if other and other not in nothing[:place]]
        for other in distinct:
            without = groups.resize(other)
            if without is not None:
                yield _EMPTY, without
    for place, example in enumerate(of_sizes):
        for _ in range(_SEEDS if place < 2 else 1):
            yield "for", _like(example, random)
    if not finite:
        for example in of_sizes[:2]:
            spoilt = _spoilt(_like(example, random), random)
            if spoilt is not None:
                yield _NOT_FINITE, spoilt


def in_dtype(example: Example, dtype: np.dtype) -> Example:
    """An example with all floats in one dtype."""
    with np.errstate(over="ignore"):
        arrays = [array.astype(dtype) if array is not None and array.dtype in FLOATS else array for array in example.inputs]
    return Example(tuple(arrays), example.attrs)


def _like(example: Example, random: np.random.Generator) -> Example:
    """An example with other values of the kind."""
    return Example(tuple(array if array is None else _values(array, random) for array in example.inputs), example.attrs)


def _values(array: np.ndarray, random: np.random.Generator) -> np.ndarray:
    if not array.size:
        return array
    chosen = random.choice(array.ravel(), array.shape)
    if array.dtype not in FLOATS:
        return np.asarray(chosen, array.dtype)
    wide = chosen.astype(np.float64)
    finite = np.where(np.isfinite(wide), wide, 0.0)
    spread = float(finite.std()) or float(np.abs(finite).max()) or 1.0
    noise = random.normal(size=array.shape) * 0.1 * spread
    with np.errstate(over="ignore"):
        return np.asarray((wide + noise).astype(array.dtype))


def _spoilt(example: Example, random: np.random.Generator) -> Example | None:
    """An example with some values that are not finite; None where none has floats."""
    arrays: list[np.ndarray | None] = []
    for array in example.inputs:
        if array is None or array.dtype not in FLOATS or not array.size:
            arrays.append(array)
            continue
        places = random.random(array.shape) < 0.15
        arrays.append(np.where(places, random.choice([np.nan, np.inf, -np.inf, 0.0], array.shape), array).astype(array.dtype))
    changed = any(a is not b for a, b in zip(arrays, example.inputs, strict=True))
    return Example(tuple(arrays), example.attrs) if changed else None
