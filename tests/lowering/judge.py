"""Judge what is lowered by other allowances than ``pyopnb.testing.verification``: exact integers, and floats beside a wider run.

A float may be off by the rounding of NumPy itself: the distance between its result and that
of wider floats, and what moving all inputs, and all that functions give, by a unit changes. Where
such a move changes a whole number or a bool, the body jumps there, and the element says nothing.
"""

from __future__ import annotations

import linecache
import re
import warnings
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnxruntime

import pyopnb
from pyopnb.errors import NotLowered
from pyopnb.lowering.trace_op import trace_op
from pyopnb.lowering.verify import called, verify
from pyopnb.testing.subject import OpExample, Subject
from pyopnb.testing.verification.jitter import draw_shares, jittered

__all__ = ["FLOATS", "INTEGERS", "Tally", "nasty", "run_body", "wrong_element"]

FLOATS = (np.float16, np.float32, np.float64)
INTEGERS = (np.int8, np.uint8, np.int16, np.uint16, np.int32, np.uint32, np.int64, np.uint64)
_WIDER = {"float16": np.float64, "float32": np.float64, "float64": np.longdouble}
_MOVES = 8  # a remainder modulo 3 of a huge sum is the same by chance in 4 of them, once in 81
_ORDERS = 8  # integers of 2e18 that cancel in a mean leave another small number in each order
_OWN_ERRORS = 16  # how many times the error of NumPy itself
_UNITS = 64  # of the last place of the result


@dataclass
class Tally:
    """Counts of bodies: converted, refused by reason, unable to run, and the wrong numbers."""

    converted: int = 0
    refused: Counter[str] = field(default_factory=Counter)
    unable: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        lines = [
            f"converted {self.converted}, refused {self.refused.total()}, NumPy refuses {self.unable.total()}"
        ]
        lines += [f"  {count:5} {reason}" for reason, count in self.refused.most_common(40)]
        return "\n".join([*lines, f"wrong numbers: {len(self.wrong)}", *self.wrong[:40]])


def nasty(
    dtype: Any, shape: tuple[int, ...], random: np.random.Generator, variety: int = 0
) -> np.ndarray:
    """Draw an array: extremes and small numbers of integers; of floats kind, tiny, huge, equal or not finite ones."""
    dtype = np.dtype(dtype)
    if dtype.kind == "b":
        return random.random(shape) < 0.5
    if dtype.kind in "iu":
        limits = np.iinfo(dtype)
        edges = [
            limits.min,
            limits.min + 1,
            0,
            1,
            2,
            3,
            5,
            limits.max - 1,
            limits.max,
            limits.max // 2 + 1,
        ]
        if dtype.kind == "i":
            edges += [-1, -2, -3, -7]
        if dtype.itemsize == 8:
            edges += [2**53 + 1, 2**53 + 3]
        small = random.integers(max(-5, limits.min), 6, shape).astype(dtype)
        if variety == 0:
            return small
        chosen = np.array(edges, dtype)[random.integers(0, len(edges), shape)]
        return np.where(random.random(shape) < 0.6, chosen, small)
    plain = random.normal(size=shape).astype(dtype)
    if variety == 0:
        return plain
    limits = np.finfo(dtype)
    edges = [
        0.0,
        -0.0,
        1,
        -1,
        0.5,
        limits.eps,
        -(float(limits.eps) ** 2),
        limits.tiny,
        1e-3,
        30,
        -30,
        2.5,
        3.5,
    ]
    if variety == 2:
        edges += [np.nan, np.inf, -np.inf, limits.max, limits.min, 1e4]
    with np.errstate(all="ignore"):
        chosen = np.array(edges).astype(dtype)[random.integers(0, len(edges), shape)]
    return np.where(random.random(shape) < 0.5, chosen, plain)


def _call(subject: Subject, inputs: Any) -> tuple[np.ndarray, ...] | None:
    """Call the body; None where it raises, or casts what no integer holds, for which C promises nothing."""
    with warnings.catch_warnings(), np.errstate(all="ignore", invalid="warn"):
        warnings.simplefilter("ignore")
        warnings.filterwarnings("error", message="invalid value encountered in cast")
        try:
            result = subject.version.cls().compute(*[array.copy() for array in inputs])
        except Exception:
            return None
    results = result if isinstance(result, tuple) else (result,)
    return tuple(np.asarray(array) for array in results)


def wrong_element(
    subject: Subject, inputs: Any, want: Any, got: Any, cancels: bool = False
) -> str | None:
    """Name the first element that is wrong, if one is; ``cancels``: beside the largest number alone."""
    if want.dtype != got.dtype or want.shape != got.shape:
        return f"{got.dtype}{list(got.shape)} for {want.dtype}{list(want.shape)}"
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        bad = (
            _wrong_floats(subject, inputs, want, got)
            if want.dtype.kind == "f"
            else _wrong_others(subject, inputs, want, got)
        )
    if cancels and want.dtype.kind == "f":
        bad &= _beside_the_largest(inputs, want, got)
    if not bad.any():
        return None
    place = tuple(int(axis) for axis in np.argwhere(bad)[0])
    return f"at {place} {got[place]!r} for {want[place]!r}"


def _beside_the_largest(inputs: Any, want: np.ndarray, got: np.ndarray) -> np.ndarray:
    """Tell which elements are off by more than rounding of the largest number allows."""
    largest = np.float64(1)
    for array in (*inputs, want):
        finite = array[np.isfinite(array)].astype(float)
        largest = np.maximum(largest, np.abs(finite).max(initial=0))
    with np.errstate(all="ignore"):
        allowed = _UNITS * np.finfo(want.dtype).eps * np.square(largest)
        is_finite = np.isfinite(want) & np.isfinite(got)
        return is_finite & (np.abs(want.astype(float) - got.astype(float)) > allowed)


def _moved(
    subject: Subject, inputs: Any, shape: tuple[int, ...], index: int = 0, wants_float: bool = False
) -> list[np.ndarray]:
    """Run the body at inputs moved by about a unit in the last place, and with functions that round otherwise."""
    runs = []
    for seed in range(_MOVES):
        random = np.random.default_rng(seed)
        arrays = []
        for array in inputs:
            if array.dtype.kind == "f":
                unit = np.finfo(array.dtype).eps
                array = (
                    array * (1 + random.choice([-1, 1], array.shape) * unit).astype(array.dtype)
                ).astype(array.dtype)
            elif array.dtype.kind in "iu" and array.dtype.itemsize >= 4 and wants_float:
                # A float32 of a large integer is rounded as a moved float is.
                low, high = np.iinfo(array.dtype).min, np.iinfo(array.dtype).max
                steps = array // 2**23 * random.choice([0, 1], array.shape).astype(array.dtype)
                array = np.where(
                    (array > low // 2) & (array < high // 2), array + steps, array - steps
                )
            arrays.append(jittered(array, draw_shares(seed)))
        results = _call(subject, arrays)
        if results is not None and results[index].shape == shape:
            runs.append(results[index])
    return runs


def _wrong_others(subject: Subject, inputs: Any, want: np.ndarray, got: np.ndarray) -> np.ndarray:
    bad = np.asarray(want != got)
    if bad.any():
        for run in [*_moved(subject, inputs, want.shape), *_wide(subject, inputs, want.shape)]:
            bad &= run == want
    if bad.any():
        for run in _reordered(subject, inputs, want.shape):
            bad &= run == want
    return bad


class _Reordered(np.ndarray):
    """An array whose floats are summed in another order."""

    random = np.random.default_rng()

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:
        arrays = [_plain(array) for array in inputs]
        if "out" in options:
            options["out"] = tuple(map(_plain, options["out"]))
        if ufunc is np.add and method == "reduce" and isinstance(options.get("axis"), int):
            arrays[0] = self.random.permuted(arrays[0], axis=options["axis"])
        result = getattr(ufunc, method)(*arrays, **options)
        return result.view(_Reordered) if isinstance(result, np.ndarray) else result


def _plain(array: Any) -> Any:
    return array.view(np.ndarray) if isinstance(array, _Reordered) else array


def _reordered(subject: Subject, inputs: Any, shape: tuple[int, ...]) -> Iterator[np.ndarray]:
    """Run the body with sums in other orders, as each library has its own."""
    for seed in range(_ORDERS):
        _Reordered.random = np.random.default_rng(seed)
        results = _call(subject, [array.view(_Reordered) for array in inputs])
        if results is not None and results[0].shape == shape:
            yield results[0]


def _wide(subject: Subject, inputs: Any, shape: tuple[int, ...]) -> list[np.ndarray]:
    """Run the body in wider floats; small integers, of which NumPy makes narrow floats, also as float64."""
    wide = [
        array.astype(_WIDER[array.dtype.name]) if array.dtype.kind == "f" else array
        for array in inputs
    ]
    all_wide = [
        array.astype(np.float64) if array.dtype.itemsize < 4 and array.dtype.kind in "iu" else array
        for array in wide
    ]
    runs = [_call(subject, arrays) for arrays in (wide, all_wide)]
    return [run[0] for run in runs if run is not None and run[0].shape == shape]


def _wrong_floats(subject: Subject, inputs: Any, want: np.ndarray, got: np.ndarray) -> np.ndarray:
    same = (want == got) | (np.isnan(want) & np.isnan(got))
    if same.all():
        return ~same
    limits = np.finfo(want.dtype)
    truth, ours = want.astype(np.longdouble), got.astype(np.longdouble)
    allowed = _UNITS * np.maximum(limits.eps * np.abs(truth), limits.smallest_normal * limits.eps)
    narrow = [array.dtype for array in inputs if array.dtype.kind == "f"]
    if any(array.dtype.kind in "iu" and array.dtype.itemsize == 2 for array in inputs):
        narrow.append(np.dtype(np.float32))  # which NumPy makes of them
    if narrow:  # it computes in a narrower dtype than its result has
        unit = max(np.finfo(dtype).eps for dtype in narrow)
        tiny = max(
            (np.finfo(dtype).smallest_normal for dtype in narrow if dtype != np.float16), default=0
        )
        # Tanh and Erf of the runtime are off there by a millionth.
        allowed = np.maximum(allowed, 8 * unit * np.abs(truth) + tiny)
    if not any(array.dtype.kind == "f" for array in inputs):
        # Integers do not move, but what is made of them cancels as floats do.
        largest = max(
            (float(np.abs(array.astype(float)).max(initial=1)) for array in inputs), default=1.0
        )
        allowed = np.maximum(allowed, _OWN_ERRORS * limits.eps * largest)
    unsure = np.zeros(want.shape, bool)
    for run in [
        *_moved(subject, inputs, want.shape, wants_float=True),
        *_wide(subject, inputs, want.shape),
    ]:
        other = run.astype(np.longdouble)
        allowed = np.maximum(
            allowed, _OWN_ERRORS * np.nan_to_num(np.abs(other - truth), nan=0, posinf=0)
        )
        unsure |= np.isfinite(other) != np.isfinite(truth)
        unsure |= np.isnan(other) != np.isnan(truth)
        # Where a rounding error changes an element by a percent, as a remainder of a huge
        # number, it says nothing.
        unsure |= np.abs(other - truth) > 0.01 * np.abs(truth)
    near = np.isfinite(ours) & np.isfinite(truth) & (np.abs(ours - truth) <= allowed)
    opposite = np.isinf(truth) & np.isinf(ours) & (truth != ours)
    return ~(same | near | unsure) | opposite


_number = 0


def subject_of(source: str, name: str = "Judged") -> Subject:
    """Define an op of a class's source, whose lines messages can quote."""
    global _number
    _number += 1
    file = f"<judged {_number % 50}>"
    linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
    names: dict[str, Any] = {}
    exec(compile(source, file, "exec"), names)
    pyopnb.registry.define(names[name], f"judged::{name}")
    return Subject(pyopnb.registry[f"judged::{name}"], [])


def _session(
    subject: Subject, lowered: Any, example: OpExample, outputs: Any
) -> onnxruntime.InferenceSession:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    model = called(lowered, subject, example, outputs)
    return onnxruntime.InferenceSession(
        model.SerializeToString(), options, ["CPUExecutionProvider"]
    )


def _refusal_of_lower(
    source: str, example: OpExample, results: Any, finite: bool = False
) -> NotLowered | None:
    """Return why `lower` refuses a body that was traced; it compares what it returns."""
    hints = ", ".join(f'"{result.dtype}[...]"' for result in results)
    subject = subject_of(re.sub(r"(def compute\(.*?\)):", rf"\1 -> ({hints},):", source, count=1))
    try:
        lowered = trace_op(subject, example, results, opset=20)
        verify(lowered, subject, [example], finite=finite)
    except NotLowered as error:
        return error
    return None


def run_body(source: str, draws: Any, tally: Tally, label: str, cancels: bool = False) -> None:
    """Lower a body for the first of some inputs, run it on all, and count what becomes of it."""
    subject = subject_of(source)
    first, results = draws[0], _call(subject, draws[0])
    if results is None:
        tally.unable[label] += 1
        return
    example = OpExample(tuple(first), {})
    try:
        lowered = trace_op(subject, example, results, opset=20)
        session = _session(subject, lowered, example, results)
    except NotLowered as error:
        tally.refused[f"{error.got}"[:90]] += 1
        return
    except Exception as error:
        if type(error).__module__.startswith("onnxruntime."):
            tally.refused["no kernel"] += 1
            return
        tally.wrong.append(f"{label}: {type(error).__name__}: {error}")
        return
    tally.converted += 1
    for inputs in draws:
        expected = _call(subject, inputs)
        if expected is None:
            continue
        try:
            got = session.run(None, OpExample(tuple(inputs), {}).feeds())
        except Exception as error:
            if all(array.size for array in inputs):
                tally.refused[f"raises at run: {str(error)[-80:]}"] += 1
            continue
        for want, mine in zip(expected, got, strict=True):
            why = wrong_element(subject, inputs, want, mine, cancels)
            if why is not None:
                if _refusal_of_lower(source, example, results) is not None:
                    tally.converted -= 1
                    tally.refused["verified: a result differs"] += 1
                    return
                shown = ", ".join(
                    np.array2string(array.ravel()[:8], separator=",") for array in inputs
                )
                tally.wrong.append(f"{label}: {why}; inputs {shown}"[:420])
                return
