"""Compare the forms of an op: whether results agree, their speed, and their numbers of nodes."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np

from pyopnb.diffs import Diff, array_diffs
from pyopnb.engine import Op, Version, check_arguments, find_op, one_run, registry
from pyopnb.errors import InputError, PyopError
from pyopnb.lowering.form_table import Form, Forms
from pyopnb.lowering.one_op import called_on, lower_op, source_of
from pyopnb.lowering.trace_op import ranks_of, without_warnings
from pyopnb.lowering.verify import called
from pyopnb.testing import OpExample, Subject, read_examples

__all__ = ["forms"]

_Run = Callable[[Mapping[str, Any]], list[Any]]

_FACTORS = (32, 1024)
# Seconds of a call beyond which an example does not grow.
_SLOW = 0.05
# Seconds of runs for each form and size.
_SPENT = 0.15
_LEAST_RUNS = 3


@check_arguments
def forms(op: Any, /, *inputs: Any, **attrs: Any) -> Forms:
    """Compare the forms of an op: Python, `lower`'s ONNX function and C++.

    For each language, the op's newest version in that language is taken. Each form runs in ONNX
    Runtime, in a model of one node, on one thread. The results are compared with Python at
    up to three sizes: the example's, and sizes whose first variable dimension is 32 and 1,024 times
    as large, as long as arrays stay below a million elements and calls below 50 ms.

    Parameters
    ----------
    op : str or type
        The name of an op in the registry, or its class.
    *inputs
        An array for each input, and None for an optional input that is left out. By default, arrays
        are generated from the hints of ``compute``.
    **attrs
        The attrs of the node.

    Returns
    -------
    Forms
        The differences and times of each form; it prints as a table.

    Raises
    ------
    InputError
        No version of the op is in Python.
    UnknownName, InputError
        As for `check`.
    Exception
        The exception that the op raises.

    Examples
    --------
    See `Forms`.
    """
    target = find_op(op)
    versions = {_language(version.cls): version for version in target.versions}
    if _PYTHON not in versions:
        raise InputError(
            f"forms of {target.name}",
            expected="a version in Python",
            got=f"{', '.join(versions)} alone",
        )
    # The version in Python alone, even if the name has another current version.
    python = Op(target.name, (versions[_PYTHON],))
    (example,) = read_examples(python, inputs, (), attrs)
    subject = Subject(python, [example])
    examples = _grown(subject, example)
    with _named(target, versions) as ops:
        rows = _compared_forms(subject, ops, examples)
    return Forms(str(subject.version), tuple(examples), rows)


@contextmanager
def _named(op: Op, versions: Mapping[str, Version]) -> Iterator[dict[str, Op]]:
    """Define each version of an op under a name of its own, so that each gets its own session."""
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
    subject: Subject, ops: Mapping[str, Op], examples: Sequence[OpExample]
) -> tuple[Form, ...]:
    """Make all forms, time them in turns, and compare their results with Python's."""
    expected = [called_on(subject, example) for example in examples]
    rows: dict[str, Form] = {}
    runs: dict[str, _Run] = {}
    for name in _ORDER:
        if name != _FUNCTION and name not in ops:
            continue
        if name == _FUNCTION:
            make = _function
        else:
            make = _op
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


def _compared(run: _Run, example: OpExample, expected: Sequence[np.ndarray]) -> Diff:
    """Compare the results of a form with Python."""
    names = [f"output {number}" for number in range(len(expected))]
    results = run(example.feeds())
    return array_diffs.compared(
        dict(zip(names, results, strict=True)), dict(zip(names, expected, strict=True))
    )


# ---- the forms -----------------------------------------------------------------------------------

_PYTHON = "Python"
_FUNCTION = "ONNX function"
_CPP = "C++"


def _language(cls: type) -> str:
    if hasattr(cls, "__pyopnb_native__"):
        return _CPP
    return _PYTHON


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
    return one_run.kernel_runner(called(lowered, subject, example, expected)), form


_ORDER = (_PYTHON, _FUNCTION, _CPP)


# ---- sizes ---------------------------------------------------------------------------------------


def _grown(subject: Subject, example: OpExample) -> list[OpExample]:
    """Return an example and up to two larger copies of it."""
    free_sizes = subject.free_sizes(example)
    examples = [example]
    if not free_sizes:
        return examples
    # The first free dimension grows.
    name, size = next(iter(free_sizes.items()))
    for factor in _FACTORS:
        larger = subject.resized(example, {**free_sizes, name: size * factor})
        # The example is too large, or the op refuses it or takes too long.
        if larger is None or not _is_quick(subject, larger):
            break
        examples.append(larger)
    return examples


def _is_quick(subject: Subject, example: OpExample) -> bool:
    begin = time.thread_time()
    try:
        called_on(subject, example)
    except Exception:  # a size that no example has
        return False
    return time.thread_time() - begin < _SLOW


# ---- time ----------------------------------------------------------------------------------------


def _fastest(runs: Mapping[str, _Run], feeds: Mapping[str, Any]) -> dict[str, float]:
    """Time each form several times in turns, and return the fastest of each."""
    best: dict[str, float] = {}
    rounds = 0
    until = time.perf_counter() + _SPENT * len(runs)
    with without_warnings():
        while rounds < _LEAST_RUNS or time.perf_counter() < until:
            for name, run in runs.items():
                begin = time.perf_counter()
                run(feeds)
                spent = time.perf_counter() - begin
                best[name] = min(spent, best.get(name, spent))
            rounds += 1
    return best
