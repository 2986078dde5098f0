"""The tests of an op's fitness: each says what it found, or raises `Failed` or `Skipped`."""

from __future__ import annotations

import linecache
import sys
import threading
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

import ml_dtypes
import numpy as np
import onnx.defs
from onnx import ModelProto

from pyopnb.models.build import model, node
from pyopnb.models.nodes import attribute_values
from pyopnb.ops.dtypes import dtype
from pyopnb.ops.errors import EscapedInput, ModelError, PyopError, ResultError, sanitize
from pyopnb.ops.schema import REQUIRED
from pyopnb.ops.types import TensorType, type_of
from pyopnb.runtime.session import Session, run_kernels
from pyopnb.testing.difference import RELATIVE, difference, is_float, ulps
from pyopnb.testing.subject import Example, Subject, listed

__all__ = ["TRIALS", "Failed", "Skipped", "raised"]

_ULPS = 64
_THREADS = 8
_RUNS = 8  # of each thread
_SWITCHES = 1e-5  # seconds after which Python lets another thread run, meanwhile: races show sooner
_SIZES = 10  # most sets of sizes that are tried
_LARGEST = 1_000_000  # elements of an input, beyond which no larger one is made


class Skipped(Exception):
    """The test does not apply, and why."""


class Failed(Exception):
    """The test failed: what was found, and what to change."""


def raised(error: BaseException) -> str:
    """An exception as the last line of its traceback, and the line of code that it comes from."""
    try:
        text = f"{type(error).__name__}: {error}"
    except BaseException:  # a class can make its instances unreadable
        text = f"{type(error).__name__}, whose text cannot be made"
    if isinstance(error, PyopError):
        return str(error)
    frames = traceback.extract_tb(error.__traceback__)
    if not frames:
        return text
    last = frames[-1]
    code = linecache.getline(last.filename, last.lineno or 0).strip()
    return f"{text} (in {last.name}, line {last.lineno}{': ' + code if code else ''})"


def _clear(error: BaseException) -> bool:
    """Whether an exception is meant for the reader, and not an accident."""
    if isinstance(error, PyopError):
        return not isinstance(error, ResultError)
    return isinstance(error, (ValueError, NotImplementedError)) and bool(str(error))


def _schema(subject: Subject) -> str:
    schema = subject.schema
    found = []
    for example in subject.examples:
        instance = subject.instance(example)
        value = instance.compute(*example.copies())  # type: ignore[attr-defined]  # every op has it
        subject.ran = True
        schema.check_inputs(example.types, subject.op.name)
        _check_sizes(subject, example)
        given = len(value) if isinstance(value, tuple) else 1
        if schema.outputs is not None and given != len(schema.outputs):
            raise Failed(f"outputs: expected {len(schema.outputs)}, as compute's hint says, got {given}. Try: change the hint")
        found.append(listed([type_of(result) for result in subject.call(example)]))
    for attr in schema.attrs:
        if attr.default is REQUIRED or attr.default is None or attr.kind == "any":
            continue
        # What a node that writes the default out would hand over.
        held = attribute_values(node("check::Attr", [], [], value=attr.default), ModelProto(), subject.op.name)
        attr.take(held["value"], f"{subject.op.name}, default")
    return f"gives {'; '.join(dict.fromkeys(found))}"


def _check_sizes(subject: Subject, example: Example) -> None:
    """Raise for an example whose dimensions are not those of the hints."""
    sizes: dict[str, int] = {}
    for place, array in enumerate(example.inputs):
        port = subject.schema.port(place) if subject.schema.inputs else None
        if array is not None and port is not None and not port.type.accepts_shape(array.shape, sizes):
            raise ModelError(
                f"input {port.name}",
                expected=f"{port.type}, with one size a symbol",
                got=f"{type_of(array)} in the example {example}",
                next=f"change the example, or the hint of {port.name} in compute",
            )


def _inputs_unmodified(subject: Subject) -> str:
    if not subject.schema.copy_inputs:
        for example in subject.examples:
            inputs = example.copies()
            subject.instance(example).compute(*inputs)  # type: ignore[attr-defined]  # every op has it
            for place, (before, after) in enumerate(zip(example.inputs, inputs, strict=True)):
                if before is not None and after is not None and (found := difference(after, before)):
                    name = subject.schema.port(place).name
                    raise Failed(
                        f"compute writes into input {name}: {found}; in ONNX Runtime its inputs are read-only. "
                        f"Try: {name} = {name}.copy(), or copy_inputs = True in the class"
                    )
    elif not subject.schema.inputs:
        raise Skipped("no inputs")
    for example in subject.examples:
        feeds = {name: array.copy() for name, array in example.feeds().items()}
        error = _in_session(subject, example, feeds)
        for name, array in example.feeds().items():
            if found := difference(feeds[name], array):
                raise Failed(f"the feed of input {name[1:]} was changed by the run: {found}")
        if error is not None:  # for schema, shapes and runtime to judge; here it only says how far this test came
            raise Skipped(f"a plain call writes nothing into them, and a session does not run the op: {raised(error)}")
    return "the op gets copies, and the feeds stay" if subject.schema.copy_inputs else "nothing is written into them"


def _in_session(subject: Subject, example: Example, feeds: dict[str, np.ndarray]) -> Exception | None:
    """Run the op in a session; what it raised, other than that it keeps a view."""
    try:
        session = subject.session(example, len(subject.call(example)))
        for _ in range(3):  # the first call of a kernel gets copies, later ones views
            session(**feeds)
    except EscapedInput:
        raise
    except Exception as error:
        return error
    return None


@dataclass(frozen=True)
class _Sizes:
    """Dimensions of an example that go together: those with one symbol in the hints, or without hint and of one size.

    Attributes
    ----------
    groups : list
        For each input its dimensions: the name of a group, or the size that a hint fixes.
    sizes : dict
        The example's, by group.
    """

    groups: list[list[int | str]]
    sizes: dict[str, int]

    def others(self) -> list[dict[str, int]]:
        """Other sizes to try: each group alone, then all."""
        tried = [{**self.sizes, name: n} for name, size in self.sizes.items() for n in (size + 1, 1)]
        tried += [{name: size + step for name, size in self.sizes.items()} for step in (1, 3)]
        return [one for place, one in enumerate(tried) if one != self.sizes and one not in tried[:place]]


def _sizes_of(subject: Subject, example: Example) -> _Sizes:
    groups: list[list[int | str]] = []
    sizes: dict[str, int] = {}
    for place, array in enumerate(example.inputs):
        hint = subject.schema.port(place).type.shape if subject.schema.inputs else None
        dims: list[int | str] = []
        for axis, size in enumerate(() if array is None else array.shape):
            dim = hint[axis] if hint is not None else None
            dims.append(size if isinstance(dim, int) else dim or f"size {size}")
            if isinstance(dims[-1], str):
                sizes[dims[-1]] = size
        groups.append(dims)
    return _Sizes(groups, sizes)


def _resized(example: Example, groups: Sequence[Sequence[int | str]], sizes: Mapping[str, int]) -> Example | None:
    """The example at other sizes, its values repeated; None where that is too much."""
    inputs: list[np.ndarray | None] = []
    for array, dims in zip(example.inputs, groups, strict=True):
        shape = tuple(sizes[dim] if isinstance(dim, str) else dim for dim in dims)
        if array is None:
            inputs.append(None)
        elif np.prod(shape, dtype=np.float64) > max(_LARGEST, array.size):
            return None
        else:
            inputs.append(np.resize(array, shape) if array.size else np.zeros(shape, array.dtype))
    return Example(tuple(inputs), example.attrs)


def _shapes(subject: Subject) -> str:
    schema = subject.schema
    if not schema.infers and (schema.outputs is None or all(kind.shape is None for kind in schema.outputs)):
        raise Skipped('neither infer nor the hints promise a shape; -> "float32[N,3]" would')
    ran = refused = 0
    for example in subject.examples:
        known = _sizes_of(subject, example)
        symbols = {name: f"N{place}" for place, name in enumerate(known.sizes)}
        kinds = [
            kind and TensorType(kind.dtype, tuple(symbols.get(dim, dim) if isinstance(dim, str) else dim for dim in dims))
            for kind, dims in zip(example.types, known.groups, strict=True)
        ]
        session = subject.session(example, len(subject.call(example)), kinds)
        session(**example.feeds())
        ran += 1
        for sizes in islice(known.others(), _SIZES):
            other = _resized(example, known.groups, sizes)
            if other is None:
                continue
            try:
                instance = subject.instance(other)
                instance.compute(*other.copies())  # type: ignore[attr-defined]  # every op has it
            except Exception:
                refused += 1  # sizes that do not go together are made here blindly
                continue
            subject.call(other, instance)  # against what is promised where all sizes are known …
            session(**other.feeds())  # … and where they are symbols
            ran += 1
    return f"as promised at {ran} {'set' if ran == 1 else 'sets'} of sizes" + (f" ({refused} more refused)" if refused else "")


def _same(results: Sequence[np.ndarray], wanted: Sequence[np.ndarray], rtol: Any = None) -> str | None:
    """The first difference among outputs, with its place."""
    if len(results) != len(wanted):
        return f"{len(results)} outputs instead of {len(wanted)}"
    for place, (result, want) in enumerate(zip(results, wanted, strict=True)):
        found = difference(result, want, rtol(want) if rtol else None)
        if found:
            return f"output {place}{found}" if found.startswith("[") else f"output {place} is {found}"
    return None


def _repeatable(subject: Subject) -> str:
    remedy = "Try: keep nothing on self that compute changes, and seed random numbers by an attr"
    wanted = [subject.call(example) for example in subject.examples]
    instances = [subject.instance(example) for example in subject.examples]
    for what in ("the first call of another instance", "the second call of one instance"):
        for example, instance, want in zip(subject.examples, instances, wanted, strict=True):
            if found := _same(subject.call(example, instance), want):
                raise Failed(f"{what}: {found}. {remedy}")
    for example in subject.examples:
        sessions = [subject.session(example, len(wanted[0])) for _ in range(2)]
        first = list(sessions[0](**example.feeds()))
        for session, what in ((sessions[0], "the second run of a session"), (sessions[1], "the first run of another session")):
            if found := _same(list(session(**example.feeds())), first):
                raise Failed(f"{what}: {found}. {remedy}")
    return "the same bits from two runs, two instances and two sessions"


def _threads(subject: Subject) -> str:
    # Several feeds a session, so that what one thread leaves behind is wrong for the others.
    for example in subject.examples:
        outputs = len(subject.call(example))
        session = subject.session(example, outputs)
        ready = []
        for change in (np.copy, np.flip, np.zeros_like):
            feeds = {name: np.ascontiguousarray(change(array)).reshape(array.shape) for name, array in example.feeds().items()}
            try:
                ready.append((feeds, list(session(**feeds))))
            except Exception:  # an op need not take numbers that are made here; the example's own it must
                if change is np.copy:
                    raise
        _race(session, ready)
    return f"{_THREADS} threads with {_RUNS} runs each give what one gives"


def _race(session: Session, ready: Sequence[tuple[dict[str, np.ndarray], list[np.ndarray]]]) -> None:
    barrier = threading.Barrier(_THREADS)
    failures: list[str] = []

    def work(number: int) -> None:
        barrier.wait()
        for step in range(_RUNS):
            feeds, want = ready[(number + step) % len(ready)]
            try:
                found = _same(list(session(**feeds)), want)
            except BaseException as error:  # it is the op's, in a thread that would only print it
                found = raised(error)
            if found:
                failures.append(found)
                return

    threads = [threading.Thread(target=work, args=(number,)) for number in range(_THREADS)]
    before = sys.getswitchinterval()
    sys.setswitchinterval(_SWITCHES)
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(before)
    if failures:
        remedy = "Try: keep what compute calculates in local variables, not on self, or write serial = True in the class"
        raise Failed(f"with {_THREADS} threads at once: {failures[0]}. {remedy}")


def _attempt(subject: Subject, example: Example, what: str, remedy: str) -> str | None:
    """Call the op with strange inputs; None if it works, else the clear error with which it refuses."""
    try:
        subject.call(example)
    except ResultError as error:
        raise Failed(f"{what}: {error}") from error
    except Exception as error:
        if _clear(error):
            return f"{what}: {type(error).__name__}, {error}"
        raise Failed(f"{what}: {raised(error)}. Try: {remedy}") from error
    return None


def _empty(subject: Subject) -> str:
    refused = []
    for example in subject.examples:
        known = _sizes_of(subject, example)
        for name in known.sizes:
            other = _resized(example, known.groups, {**known.sizes, name: 0})
            if other is not None:
                remedy = "let compute work without elements, raise a ValueError that says why not, or hint a size"
                refused.append(_attempt(subject, other, f"inputs {listed(other.types)}", remedy))
    if not refused:
        raise Skipped("no dimension that could be 0: each is hinted, or there is none")
    return _worked(refused)


def _worked(attempts: Sequence[str | None]) -> str:
    refused = [text for text in attempts if text]
    if not refused:
        return f"works ({len(attempts)} tried)"
    return f"refuses clearly {len(refused)} of {len(attempts)}: {refused[0]}"


def _scalar(subject: Subject) -> str:
    refused = []
    for example in subject.examples:
        inputs = list(example.inputs)
        for place, array in enumerate(inputs):
            if array is not None and subject.schema.port(place).type.shape is None:
                inputs[place] = (array if array.size else np.zeros(1, array.dtype)).ravel()[:1].reshape(())
        if any(new is not old for new, old in zip(inputs, example.inputs, strict=True)):
            other = Example(tuple(inputs), example.attrs)
            remedy = 'hint the rank, as x: "float32[N,C]", or let compute work without dimensions'
            refused.append(_attempt(subject, other, f"inputs {listed(other.types)}", remedy))
    if not refused:
        raise Skipped("the hints say the rank of each input, or there is none")
    return _worked(refused)


def _runtime(subject: Subject) -> str:
    for example in subject.examples:
        want = subject.call(example)
        session = subject.session(example, len(want))
        for run in ("first", "second"):  # the first gets copies, the second views
            if found := _same(list(session(**example.feeds())), want):
                raise Failed(
                    f"the {run} run in ONNX Runtime is not what a plain call gives: {found}. "
                    "Try: let compute depend on nothing but the values of its inputs, which are read-only and contiguous there"
                )
    return "ONNX Runtime gives what a plain call gives, bit for bit"


def _precision(subject: Subject) -> str:
    most: dict[str, float] = {}
    why = "no input or output of float16, bfloat16 or float32"
    for example in subject.examples:
        if not any(a is not None and is_float(a) for a in example.inputs):
            continue
        for name in ("float32", "float16", "bfloat16"):
            low = _cast(example, np.dtype(getattr(np, name, None) or getattr(ml_dtypes, name)))
            try:
                subject.schema.check_inputs(_cast(low, np.dtype(np.float64)).types, subject.op.name)
                subject.schema.check_inputs(low.types, subject.op.name)
            except ModelError:
                why = "the hints take no float64, or none of the smaller dtypes"
                continue
            found = _lost(subject, low)
            if found is None:
                why = "the op gives no float64 for float64, or refuses it"
                continue
            if not found[0] <= _ULPS:
                raise Failed(
                    f"{name}: {found[0]:.3g} units in the last place from the same op in float64, at most {_ULPS} expected: "
                    f"{found[1]}. Try: calculate in a larger dtype, x.astype(np.float64), or in another order"
                )
            most[name] = max(found[0], most.get(name, 0.0))
    if not most:
        raise Skipped(why)
    said = ", ".join(f"{name} {off:.3g}" for name, off in most.items())
    return f"units in the last place from float64: {said}; at most {_ULPS} expected"


def _cast(example: Example, to: np.dtype) -> Example:
    return Example(tuple(a if a is None or not is_float(a) else a.astype(to) for a in example.inputs), example.attrs)


def _lost(subject: Subject, low: Example) -> tuple[float, str] | None:
    """The largest error of the outputs of a smaller dtype, and where; None where there is nothing to compare."""
    high = _cast(low, np.dtype(np.float64))
    try:
        results, exact = subject.call(low), subject.call(high)
    except Exception:  # an op need not take every dtype that its ports leave open
        return None
    pairs = [(g, e) for g, e in zip(results, exact, strict=False) if is_float(g) and g.dtype != e.dtype == np.float64]
    pairs = [(g, e) for g, e in pairs if g.shape == e.shape]
    return max((ulps(g, e) for g, e in pairs), key=lambda one: one[0], default=None)


# ---- against others' operators of that name ----------------------------------------------------------------------------------


def _has_operator(subject: Subject) -> None:
    if not onnx.defs.has(subject.op.op_type, domain=""):
        raise Skipped(f"ONNX has no operator {sanitize(subject.op.op_type)}")


def _operator(subject: Subject, example: Example, outputs: int) -> ModelProto:
    """A model of ONNX's operator of the op's type."""
    made = subject.node(example, f"::{subject.op.op_type}")
    made.output[:] = [f"y{place}" for place in range(outputs)]
    kinds = {f"x{place}": array for place, array in enumerate(example.inputs) if array is not None}
    return model([made], kinds, list(made.output))


def _relative(want: np.ndarray) -> float | None:
    return RELATIVE[dtype(want.dtype).name] if is_float(want) else None


def _agree(subject: Subject, run: Callable[[ModelProto, dict[str, np.ndarray]], list[Any]], whose: str) -> str:
    said, why = 0, ""
    for example in subject.examples:
        results = subject.call(example)
        try:
            want = run(_operator(subject, example, len(results)), example.feeds())
        except Exception as error:  # neither has one type for its refusals
            why = f"{whose} does not take {example}: {_first_line(error)}"
            continue
        said += 1
        if found := _same(results, want, _relative):
            raise Failed(
                f"{example}, against {whose}, relative tolerance {_limits(want)}: {found}. "
                f"Try: correct compute, or name the op otherwise if it is not meant to be {sanitize(subject.op.op_type)}"
            )
    if not said:
        raise Skipped(why)
    return f"agrees with {whose}" + (f" on {said} of {len(subject.examples)} examples" if why else "")


def _limits(arrays: Sequence[np.ndarray]) -> str:
    return ", ".join(dict.fromkeys(f"{RELATIVE[dtype(a.dtype).name]:g}" if is_float(a) else "0" for a in arrays))


def _first_line(error: BaseException) -> str:
    return sanitize(str(error).strip().partition("\n")[0])


def _kernel(subject: Subject) -> str:
    _has_operator(subject)
    return _agree(subject, run_kernels, f"ONNX Runtime's own {sanitize(subject.op.op_type)}")


def _reference(subject: Subject) -> str:
    _has_operator(subject)
    for example in subject.examples:
        try:
            run_kernels(_operator(subject, example, len(subject.call(example))), example.feeds())
        except Exception as error:
            if _lacks(error):
                continue
        raise Skipped("ONNX Runtime has a kernel of that name: see kernel")

    def run(proto: ModelProto, feeds: dict[str, np.ndarray]) -> list[Any]:
        from onnx.reference import ReferenceEvaluator  # it imports every operator of ONNX

        return [np.asarray(one) for one in ReferenceEvaluator(proto).run(None, feeds)]

    return _agree(subject, run, f"ONNX's reference implementation of {sanitize(subject.op.op_type)}")


def _lacks(error: Exception) -> bool:
    """Whether the runtime refused a model for want of a kernel, and not because of what the node says."""
    return type(error).__name__ == "NotImplemented" or "is not a registered function/op" in str(error)


_IN_SESSION = ("schema", "inputs_unmodified")
TRIALS: dict[str, tuple[Callable[[Subject], str], tuple[str, ...]]] = {
    "schema": (_schema, ()),
    "inputs_unmodified": (_inputs_unmodified, ()),
    "shapes": (_shapes, _IN_SESSION),
    "repeatable": (_repeatable, _IN_SESSION),
    "threads": (_threads, (*_IN_SESSION, "repeatable")),
    "empty": (_empty, ("schema", "shapes")),
    "scalar": (_scalar, ("schema", "shapes")),
    "runtime": (_runtime, (*_IN_SESSION, "repeatable")),
    "precision": (_precision, ("schema", "repeatable")),
    "kernel": (_kernel, ("schema", "repeatable")),
    "reference": (_reference, ("schema", "repeatable")),
}
"""The tests in their order, each with those whose failure would make it fail as well."""
