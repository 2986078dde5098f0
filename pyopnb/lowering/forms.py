"""The forms of one op side by side: are their results equal, how fast is each, and of how many nodes."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np
from onnx import ModelProto

from pyopnb.diffs.arrays.diff import Diff, compared
from pyopnb.errors import InputError, PyopError
from pyopnb.lowering.form_table import Form, Forms
from pyopnb.lowering.one_op import called_on, lower_op, source_of
from pyopnb.lowering.trace_op import ranks_of, without_warnings
from pyopnb.lowering.verify import called
from pyopnb.models.holders import held_model
from pyopnb.ops.arguments import check_arguments
from pyopnb.ops.messages import hide_internal_frames
from pyopnb.ops.op import Op, Version
from pyopnb.ops.registry import find_op, registry
from pyopnb.runtime.forms import asks_for_numba
from pyopnb.runtime.one_run import kernel_runner
from pyopnb.testing.sizes import ExampleSizes
from pyopnb.testing.subject import Example, Subject, read_examples

__all__ = ["forms"]

_Run = Callable[[Mapping[str, Any]], list[Any]]

# Seconds of a call beyond which an example does not grow.
_SLOW = 0.05
# Seconds of runs for each form and size.
_SPENT = 0.15
_LEAST_RUNS = 3


@hide_internal_frames
@check_arguments
def forms(op: Any, /, *inputs: Any, sizes: Sequence[int] | None = None, **attrs: Any) -> Forms:
    """Compare the forms of an op: Python, the ONNX function that `lower` makes of it, C++ and Numba.

    Of each language it is the newest version that the op has, if any. Each runs in ONNX Runtime, in a model of one node, with
    one thread. The results are compared with those of Python at three sizes: the example's, a middle one, and the largest to
    which the first dimension that can change is doubled, until the example has a million elements or a call takes 50 ms.

    Parameters
    ----------
    op : str or type
        The name of an op in the registry, or its class; or a model or session that has nodes of one op.
    *inputs
        An array for each input, None for one that is left out. Without them, some are generated from the hints of ``compute``.
    sizes : sequence of int, optional
        The sizes of that dimension instead.
    **attrs
        The attrs of the node.

    Returns
    -------
    Forms

    Raises
    ------
    InputError
        No version is in Python. Sizes are given, and the hints fix all dimensions; or one is negative, or needs more than a
        million elements.
    UnknownOp, InputError
        As from `check`.
    Exception
        What the op raises.

    Examples
    --------
    See `Forms`.
    """
    target = find_op(_op_in(op))
    versions = {_language(version.cls): version for version in target.versions}
    if _PYTHON not in versions:
        raise InputError(
            f"forms of {target.name}",
            expected="a version in Python",
            got=f"{', '.join(versions)} alone",
        )
    # The Python version alone, whatever serves the name now.
    python = Op(target.name, (versions[_PYTHON],))
    (example,) = read_examples(python, inputs, (), attrs)
    subject = Subject(python, [example])
    examples = _grown(subject, example) if sizes is None else _resized(subject, example, sizes)
    with _named(target, versions) as ops:
        rows = _compared_forms(subject, ops, examples)
    return Forms(str(subject.version), tuple(examples), rows)


def _op_in(op: Any) -> Any:
    """Return the op that a model has nodes of; anything else as it is."""
    model, _ = held_model(op)
    if not isinstance(model, ModelProto):
        return op
    names = []
    for entry in registry:
        if any(entry.name == f"{node.domain}::{node.op_type}" for node in model.graph.node):
            names.append(entry.name)
    if len(names) == 1:
        return names[0]
    raise InputError(
        "forms, op",
        expected="the name of an op, or a model with nodes of one",
        got=f"a model with {', '.join(names) or 'none'}",
        next=f'pyopnb.forms("{names[0]}")' if names else "%pyop, which lists the ops",
    )


@contextmanager
def _named(op: Op, versions: Mapping[str, Version]) -> Iterator[dict[str, Op]]:
    """Define versions of an op as ops with names of their own, so that each can serve a session."""
    ops: dict[str, Op] = {}
    try:
        for position, (language, version) in enumerate(versions.items()):
            name = f"pyopnb.forms::{op.op_type}_{position}"
            registry.define(version.cls, name, opset=version.opset, source=version.source)
            ops[language] = registry[name]
        yield ops
    finally:
        for temporary in ops.values():
            registry.remove(temporary.name)


def _compared_forms(
    subject: Subject, ops: Mapping[str, Op], examples: Sequence[Example]
) -> tuple[Form, ...]:
    """Make all forms, time them in turns, and compare their results with Python's."""
    expected = [called_on(subject, example) for example in examples]
    rows: dict[str, Form] = {}
    runs: dict[str, _Run] = {}
    for name, make in _MAKERS.items():
        if name != _FUNCTION and name not in ops:
            continue
        op = ops.get(name, subject.op)
        try:
            runs[name], rows[name] = make(subject, op, expected[0])
        except PyopError as error:
            reason = str(error).replace(op.name, subject.op.name)
            rows[name] = Form(name, reason=reason, source=getattr(error, "source", None))
    # Each size in turn, with all forms beside each other, as a machine's speed drifts.
    seconds = [_fastest(runs, example.feeds()) for example in examples]
    for name, run in runs.items():
        diffs = []
        if name != _PYTHON:
            for example, arrays in zip(examples, expected, strict=True):
                diffs.append(_compared(run, example, arrays))
        times = tuple(item[name] for item in seconds)
        rows[name] = replace(rows[name], name=name, diffs=tuple(diffs), seconds=times)
    return tuple(rows.values())


def _compared(run: _Run, example: Example, expected: Sequence[np.ndarray]) -> Diff:
    """Compare the results of a form with those of Python."""
    names = [f"output {number}" for number in range(len(expected))]
    results = run(example.feeds())
    return compared(dict(zip(names, results, strict=True)), dict(zip(names, expected, strict=True)))


# ---- the forms ---------------------------------------------------------------------------------------------------------------

_PYTHON, _FUNCTION, _CPP, _NUMBA = "Python", "ONNX function", "C++", "Numba"


def _language(cls: type) -> str:
    if hasattr(cls, "__pyopnb_native__"):
        return _CPP
    return _NUMBA if asks_for_numba(cls) else _PYTHON


def _op(subject: Subject, op: Op, expected: Sequence[np.ndarray]) -> tuple[_Run, Form]:
    (example,) = subject.examples
    caller = Subject(op, [example])
    session = caller.session(example, len(expected), ranks_of(example))
    return lambda feeds: list(session.run(None, feeds)), Form(_PYTHON)


def _function(subject: Subject, op: Op, expected: Sequence[np.ndarray]) -> tuple[_Run, Form]:
    (example,) = subject.examples
    lowered = lower_op(op, [example])
    nodes = sum(node.op_type != "Constant" for node in lowered.function.node)
    form = Form(_FUNCTION, nodes=nodes, source=source_of(op, lowered))
    return kernel_runner(called(lowered, subject, example, expected)), form


_MAKERS: dict[str, Callable[[Subject, Op, Sequence[np.ndarray]], tuple[_Run, Form]]] = {
    _PYTHON: _op,
    _FUNCTION: _function,
    _CPP: _op,
    _NUMBA: _op,
}
"""Each makes a form that takes the feeds of an example at any size; PyopError where there is none."""


# ---- sizes -------------------------------------------------------------------------------------------------------------------


def _first_dimension(groups: ExampleSizes) -> str | None:
    """Return the first dimension that can change."""
    for dims in groups.groups:
        for dim in dims:
            if isinstance(dim, str):
                return dim
    return None


def _grown(subject: Subject, example: Example) -> list[Example]:
    """Return an example and two larger ones, as far as it can grow."""
    groups = ExampleSizes.of(subject, example)
    name = _first_dimension(groups)
    if name is None or not groups.sizes[name]:
        return [example]
    larger = [example]
    size = groups.sizes[name]
    while _seconds_of(subject, larger[-1]) < _SLOW:
        size *= 2
        bigger = groups.resize({**groups.sizes, name: size})
        # It is too large, or of a size that the op does not take.
        if bigger is None or not _takes(subject, bigger):
            break
        larger.append(bigger)
    shown = sorted({0, len(larger) // 2, len(larger) - 1})
    return [larger[position] for position in shown]


def _takes(subject: Subject, example: Example) -> bool:
    """Tell whether the op runs on an example of sizes that nobody gave."""
    try:
        called_on(subject, example)
    except Exception:
        return False
    return True


def _seconds_of(subject: Subject, example: Example) -> float:
    """Time the second call, as the first may import, without what others on the machine take."""
    called_on(subject, example)
    begin = time.thread_time()
    called_on(subject, example)
    return time.thread_time() - begin


def _resized(subject: Subject, example: Example, sizes: Sequence[int]) -> list[Example]:
    groups = ExampleSizes.of(subject, example)
    name = _first_dimension(groups)
    if name is None:
        raise InputError(
            f"forms of {subject.op.name}, sizes",
            expected="none: the hints fix all",
            got=str(list(sizes)),
        )
    examples = []
    for size in sizes:
        resized = groups.resize({**groups.sizes, name: size}) if size >= 0 else None
        if resized is None:
            expected = f"sizes of {name} that give at most a million elements"
            raise InputError(f"forms of {subject.op.name}, sizes", expected=expected, got=str(size))
        examples.append(resized)
    return examples


# ---- time --------------------------------------------------------------------------------------------------------------------


def _fastest(runs: Mapping[str, _Run], feeds: Mapping[str, Any]) -> dict[str, float]:
    """Time each form several times in turns, and return the fastest of each."""
    best: dict[str, float] = {}
    rounds, until = 0, time.perf_counter() + _SPENT * len(runs)
    with without_warnings():
        while rounds < _LEAST_RUNS or time.perf_counter() < until:
            for name, run in runs.items():
                begin = time.perf_counter()
                run(feeds)
                spent = time.perf_counter() - begin
                best[name] = min(spent, best.get(name, spent))
            rounds += 1
    return best
