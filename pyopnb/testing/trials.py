"""Put an op through trials, which return their result or raise `Failed` or `NotApplicable`."""

from __future__ import annotations

import os
import sys
import threading
import traceback
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from operator import itemgetter
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import onnx.defs
from onnx import ModelProto

from pyopnb.common import plural, sanitize
from pyopnb.diffs import array_diffs
from pyopnb.engine import TensorType, model, one_run, type_of
from pyopnb.errors import PyopError, ResultError
from pyopnb.onnx_reference import Evaluator
from pyopnb.testing.subject import OpExample, Subject, format_types
from pyopnb.testing.verification.trials import other_sizes

__all__ = ["TRIALS", "Failed", "NotApplicable", "format_exception"]

_MAX_ULPS = 64
_THREADS = 8
# Runs of each thread.
_RUNS = 8
# Seconds after which Python switches threads during the trial, so that races show sooner.
_SWITCH_INTERVAL = 1e-5
# The most combinations of sizes to try.
_MAX_SIZES = 10

_INTERNAL = (f"{Path(__file__).parents[1]}{os.sep}", f"{os.sep}onnxruntime{os.sep}capi{os.sep}")


class NotApplicable(Exception):
    """The trial does not apply, and why."""


class Failed(Exception):
    """The trial failed; the text has the finding and the advice."""


def format_exception(error: BaseException) -> str:
    """Write an exception, with the last line of the op's own file that led to it."""
    # The traceback module copes with an exception whose own __str__ raises.
    text = "".join(traceback.format_exception_only(error)).strip()
    if isinstance(error, PyopError):
        return str(error)
    frames = []
    for frame in traceback.extract_tb(error.__traceback__):
        if not any(path in frame.filename for path in _INTERNAL):
            frames.append(frame)
    # Deeper frames are in the libraries that the op calls.
    of_op = [frame for frame in frames if frame.filename == frames[0].filename]
    if not of_op:
        return text
    return f"{text} (in {of_op[-1].name}, line {of_op[-1].lineno}: {of_op[-1].line})"


def _check_same(
    results: Sequence[np.ndarray], expected: Sequence[np.ndarray], where: str, remedy: str
) -> None:
    """Fail where two results have different bits."""
    text = _first_difference(results, expected)
    if text:
        raise Failed(f"{where}: {text}. Try: {remedy}")


def _first_difference(
    results: Sequence[np.ndarray], expected: Sequence[np.ndarray], tolerant: bool = False
) -> str:
    if len(results) != len(expected):
        return f"{len(results)} outputs instead of {len(expected)}"
    for index, (result, reference) in enumerate(zip(results, expected, strict=True)):
        text = array_diffs.mismatch(result, reference, tolerant=tolerant)
        if text:
            return f"output {index}: {text}"
    return ""


# ---- promises of the op --------------------------------------------------------------------------


def _try_schema(subject: Subject) -> str:
    schema = subject.schema
    results = []
    for example in subject.examples:
        value = subject.instance(example).compute(*example.copies())
        subject.runs = True
        schema.check_inputs(example.types, subject.op.name)
        outputs = 1
        if isinstance(value, tuple):
            outputs = len(value)
        if schema.outputs is not None and outputs != len(schema.outputs):
            raise Failed(
                f"outputs: expected {len(schema.outputs)}, as compute's hint says, "
                f"got {outputs}. Try: change the hint"
            )
        types = [type_of(result) for result in subject.call(example)]
        results.append(format_types(types))
    return f"returns {'; '.join(dict.fromkeys(results))}"


def _try_inputs_unmodified(subject: Subject) -> str:
    for example in subject.examples:
        inputs = example.copies()
        subject.instance(example).compute(*inputs)
        # A session does not let an op write into inputs, but gives it copies if it asks for them.
        name, text = _first_change(example, OpExample(inputs, example.attrs))
        if text and not subject.schema.copy_inputs:
            name = subject.schema.port(int(name)).name
            raise Failed(
                f"compute writes into input {name}: {text}; "
                "in ONNX Runtime its inputs are read-only. "
                f"Try: {name} = {name}.copy(), or copy_inputs = True in the class"
            )
        fed = OpExample(example.copies(), example.attrs)
        session = subject.session(example, len(subject.call(example)))
        # The first call of a kernel gets copies, later ones views, which an op may keep.
        for _ in range(3):
            session(**fed.feeds())
        name, text = _first_change(example, fed)
        if text:
            raise Failed(f"the run changed the feed of input {name}: {text}")
    return "no input is modified"


def _first_change(before: OpExample, after: OpExample) -> tuple[str, str]:
    """Return the number of the first input that differs, and how; empty texts if none does."""
    for index, (array, changed) in enumerate(zip(before.inputs, after.inputs, strict=True)):
        if array is not None and changed is not None:
            text = array_diffs.mismatch(changed, array)
            if text:
                return str(index), text
    return "", ""


def _try_shapes(subject: Subject) -> str:
    shapes = [tensor_type.shape for tensor_type in subject.schema.outputs or ()]
    if not subject.schema.infers and all(shape is None for shape in shapes):
        raise NotApplicable(
            'neither infer nor the hints declare a shape, as -> "float32[N,3]" would'
        )
    passed = refused = 0
    for example in subject.examples:
        dims = subject.dims(example)
        free_sizes = subject.free_sizes(example)
        # Types with a symbol for each dimension that may change.
        symbols: dict[int | str, str] = {name: f"N{n}" for n, name in enumerate(free_sizes)}
        types: list[TensorType | None] = []
        for tensor_type, axes in zip(example.types, dims, strict=True):
            shape = [symbols.get(dim, dim) for dim in axes]
            types.append(None if tensor_type is None else tensor_type.like(shape=shape))
        session = subject.session(example, len(subject.call(example)), types)
        for sizes in [free_sizes, *other_sizes(free_sizes)[:_MAX_SIZES]]:
            resized = subject.resized(example, sizes)
            # Inputs without elements have a trial of their own.
            if resized is None or 0 in sizes.values():
                continue
            try:
                instance = subject.instance(resized)
                instance.compute(*resized.copies())
            except Exception:
                # The sizes are combined blindly, so that some do not go together.
                refused += 1
                continue
            # Check the promise of the op for these sizes, then for symbols.
            subject.call(resized, instance)
            session(**resized.feeds())
            passed += 1
    text = f"as promised at {plural(passed, 'set')} of sizes"
    if refused:
        text += f" ({refused} more refused)"
    return text


def _try_empty(subject: Subject) -> str:
    """Call the op without elements, which it may refuse with a clear error."""
    tried, refusals = 0, []
    for example in subject.examples:
        free_sizes = subject.free_sizes(example)
        for name in free_sizes:
            variant = subject.resized(example, {**free_sizes, name: 0})
            if variant is None:
                continue
            tried += 1
            inputs = f"inputs {format_types(variant.types)}"
            try:
                subject.call(variant)
            except (PyopError, ValueError, NotImplementedError) as error:
                # A wrong result is not a refusal.
                if isinstance(error, ResultError) or not str(error):
                    raise Failed(f"{inputs}: {error}") from error
                refusals.append(f"{inputs}: {type(error).__name__}, {error}")
            except Exception as error:
                # An index out of range is a wrong input; any other IndexError is an accident.
                if isinstance(error, IndexError) and _has_indices(variant):
                    refusals.append(f"{inputs}: IndexError, {error}")
                    continue
                remedy = (
                    "let compute work without elements, raise a ValueError that says why not, "
                    "or hint a size"
                )
                raise Failed(f"{inputs}: {format_exception(error)}. Try: {remedy}") from error
    if not tried:
        raise NotApplicable("no dimension that could be 0: each is hinted, or there is none")
    if refusals:
        return f"refuses clearly {len(refusals)} of {tried}: {refusals[0]}"
    return f"works ({tried} tried)"


def _has_indices(example: OpExample) -> bool:
    """Tell whether an input holds whole numbers, which can name rows of another one."""
    arrays = [array for array in example.inputs if array is not None]
    return any(array.dtype.kind in "iu" and array.ndim and array.size for array in arrays)


# ---- the same result again -----------------------------------------------------------------------


def _try_repeatable(subject: Subject) -> str:
    remedy = "keep nothing on self that compute changes, and seed random numbers by an attr"
    for example in subject.examples:
        expected = subject.call(example)
        instance = subject.instance(example)
        for run in ("the first call of another instance", "the second call of one instance"):
            _check_same(subject.call(example, instance), expected, run, remedy)
    return "two calls and two instances give the same bits"


def _try_runtime(subject: Subject) -> str:
    remedy = (
        "let compute depend on nothing but the values of its inputs, "
        "which are read-only and contiguous there"
    )
    for example in subject.examples:
        expected = subject.call(example)
        session = subject.session(example, len(expected))
        # The first gets copies, the second views.
        for run in ("first", "second"):
            where = f"the {run} run in ONNX Runtime differs from a plain call"
            _check_same(list(session(**example.feeds())), expected, where, remedy)
    return "ONNX Runtime gives the same bits as a plain call"


def _try_threads(subject: Subject) -> str:
    # Several feeds in one session, so that a leftover of one thread is wrong for the others.
    for example in subject.examples:
        session = subject.session(example, len(subject.call(example)))
        runs = []
        for change in (np.copy, np.flip, np.zeros_like):
            feeds = {}
            for name, array in example.feeds().items():
                # NumPy makes a contiguous array of a scalar one of one axis.
                feeds[name] = np.ascontiguousarray(change(array)).reshape(array.shape)
            try:
                runs.append((feeds, list(session(**feeds))))
            except Exception:
                # An op may refuse values that are generated here, but not the example's own.
                if change is np.copy:
                    raise
        _race(session, runs)
    return f"{_THREADS} threads with {_RUNS} runs each give the same as one thread"


def _race(
    session: Callable[..., Any],
    runs: Sequence[tuple[dict[str, np.ndarray], list[np.ndarray]]],
) -> None:
    """Run feeds in many threads at once, and compare the results with the expected ones."""
    barrier = threading.Barrier(_THREADS)
    remedy = (
        "keep what compute calculates in local variables, not on self, "
        "or write serial = True in the class"
    )

    def work(number: int) -> None:
        # All begin at once, however long a thread takes to start.
        barrier.wait()
        for step in range(_RUNS):
            feeds, expected = runs[(number + step) % len(runs)]
            _check_same(
                list(session(**feeds)), expected, f"with {_THREADS} threads at once", remedy
            )

    interval = sys.getswitchinterval()
    sys.setswitchinterval(_SWITCH_INTERVAL)
    try:
        with ThreadPoolExecutor(_THREADS) as pool:
            list(pool.map(work, range(_THREADS)))
    finally:
        sys.setswitchinterval(interval)


# ---- precision -----------------------------------------------------------------------------------


def _try_precision(subject: Subject) -> str:
    worst: dict[str, float] = {}
    for example in subject.examples:
        for kind in (np.float32, np.float16, ml_dtypes.bfloat16):
            error = _rounding_error(subject, example.cast(kind))
            if error is None:
                continue
            name = np.dtype(kind).name
            ulps, where = error
            # NaN is no pass: it is not larger than the limit either.
            if not ulps <= _MAX_ULPS:
                raise Failed(
                    f"{name}: {ulps:.3g} units in the last place from the same op in float64, "
                    f"at most {_MAX_ULPS} expected: {where}. "
                    "Try: calculate in a larger dtype, x.astype(np.float64), or in another order"
                )
            worst[name] = max(ulps, worst.get(name, 0.0))
    if not worst:
        raise NotApplicable("the op does not run in both float64 and a smaller float")
    errors = ", ".join(f"{name} {error:.3g}" for name, error in worst.items())
    return f"units in the last place from float64: {errors}; at most {_MAX_ULPS} expected"


def _rounding_error(subject: Subject, low: OpExample) -> tuple[float, str] | None:
    """Return the largest error in ULPs against float64, and where; None if there is none."""
    # The same rounded numbers in float64, so that only the op's own rounding counts.
    wide = low.cast(np.float64)
    if wide.types == low.types:
        return None
    results = []
    for example in (low, wide):
        try:
            subject.schema.check_inputs(example.types, subject.op.name)
            results.append(subject.call(example))
        except Exception:
            # An op need not take every dtype that its ports leave open.
            return None
    errors = []
    for result, exact in zip(*results, strict=False):
        is_wider = result.dtype != exact.dtype == np.float64
        if array_diffs.is_float(result) and is_wider and result.shape == exact.shape:
            errors.append(array_diffs.rounding_error(result, exact))
    return max(errors, key=itemgetter(0), default=None)


# ---- another implementation of the operator ------------------------------------------------------


def _try_operator(subject: Subject) -> str:
    """Compare with the ONNX operator of the same name: its kernel, or else the reference."""
    op_type = sanitize(subject.op.op_type)
    if not onnx.defs.has(subject.op.op_type, domain=""):
        raise NotApplicable(f"ONNX has no operator {op_type}")
    compared, refusal = 0, ""
    for example in subject.examples:
        results = subject.call(example)
        proto = subject.node(example, f"::{subject.op.op_type}")
        proto.output[:] = [f"y{index}" for index in range(len(results))]
        try:
            operator = model([proto], example.feeds(), list(proto.output))
            whose, expected = _operator_results(operator, example.feeds())
        except Exception as error:
            # Neither runtime has one type for its refusals.
            refusal = f"the ONNX {op_type} does not take {example}: {sanitize(error)}"
            continue
        compared += 1
        text = _first_difference(results, expected, tolerant=True)
        if text:
            raise Failed(
                f"{example}, against {whose} of {op_type}: {text}. "
                f"Try: correct compute, or rename the op if it is not meant to be {op_type}"
            )
    if not compared:
        raise NotApplicable(refusal)
    examples = plural(len(subject.examples), "example")
    return f"agrees with the ONNX {op_type} on {compared} of {examples}"


def _operator_results(
    operator: ModelProto, feeds: dict[str, np.ndarray]
) -> tuple[str, list[np.ndarray]]:
    try:
        return "the ONNX Runtime kernel", one_run.kernel_runner(operator)(feeds)
    except Exception:
        # Not all operators have a kernel, and not all kernels take all dtypes.
        results = Evaluator(operator, ()).outputs(feeds)
        arrays = list(map(np.asarray, results.values()))
        return "the ONNX reference implementation", arrays


_IN_SESSION = ("schema", "inputs_unmodified")
TRIALS: dict[str, tuple[Callable[[Subject], str], tuple[str, ...]]] = {
    "schema": (_try_schema, ()),
    "inputs_unmodified": (_try_inputs_unmodified, ("schema",)),
    "shapes": (_try_shapes, _IN_SESSION),
    "repeatable": (_try_repeatable, _IN_SESSION),
    "threads": (_try_threads, (*_IN_SESSION, "repeatable")),
    "empty": (_try_empty, ("schema", "shapes")),
    "runtime": (_try_runtime, (*_IN_SESSION, "repeatable")),
    "precision": (_try_precision, ("schema", "repeatable")),
    "operator": (_try_operator, ("schema", "repeatable")),
}
"""The trials in their order, each with the earlier ones whose failure would make it fail."""
