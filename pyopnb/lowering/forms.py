"""The forms of one op side by side: are their results equal, how fast is each, and of how many nodes."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np

from pyopnb.diffs.arrays.diff import Diff, compared
from pyopnb.errors import InputError, PyopError
from pyopnb.lowering.form_table import Form, Forms
from pyopnb.lowering.one_op import called_on, lower_op
from pyopnb.lowering.verify import called
from pyopnb.ops.messages import hide_internal_frames
from pyopnb.ops.op import Op, Version
from pyopnb.ops.registry import find_op, registry
from pyopnb.runtime.forms import asks_for_numba
from pyopnb.runtime.one_run import kernel_runner
from pyopnb.testing.sizes import ExampleSizes
from pyopnb.testing.subject import Example, Subject, generate_example, read_example, refuse_tuples

__all__ = ["forms"]

_Run = Callable[[Mapping[str, Any]], list[Any]]

_SLOW = 0.05  # seconds of a call beyond which an example does not grow
_SPENT = 0.15  # seconds of runs for each form and size
_LEAST_RUNS = 3


@hide_internal_frames
def forms(op: Any, /, *inputs: Any, sizes: Sequence[int] | None = None, **attrs: Any) -> Forms:
    """Compare the forms of an op: Python, the ONNX function that `lower` makes of it, C++ and Numba.

    Of each language it is the newest version that the op has, if any. Each runs in ONNX Runtime, in a model of one node, with
    one thread. The results are compared with those of Python at three sizes: the example's, a middle one, and the largest to
    which the first dimension that can change is doubled, until the example has a million elements or a call takes 50 ms.

    Parameters
    ----------
    op : str or type
        The name of an op in the registry, or its class.
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
    target = find_op(op)
    refuse_tuples(target, inputs)
    versions = {_language(version.cls): version for version in target.versions}
    if _PYTHON not in versions:
        raise InputError(
            f"forms of {target.name}",
            expected="a version in Python",
            got=f"{', '.join(versions)} alone",
        )
    python = Op(target.name, (versions[_PYTHON],))
    example = (
        read_example(python, tuple(inputs), attrs, 0) if inputs else generate_example(python, attrs)
    )
    subject = Subject(python, [example])
    examples = _grown(subject, example) if sizes is None else _resized(subject, example, sizes)
    expected = [called_on(subject, item) for item in examples]
    with _named(target, versions) as ops:
        tensor = _made(subject, ops, examples, expected)
    return Forms(str(subject.version), tuple(examples), tensor)


@contextmanager
def _named(op: Op, versions: Mapping[str, Version]) -> Iterator[dict[str, Op]]:
    """Versions of an op as ops with names of their own, so that each can serve a session."""
    names = {
        language: f"pyopnb.forms::{op.op_type}_{position}"
        for position, language in enumerate(versions)
    }
    try:
        for language, version in versions.items():
            registry.define(
                version.cls, names[language], opset=version.opset, source=version.source
            )
        yield {language: registry[name] for language, name in names.items()}
    finally:
        for name in names.values():
            if name in registry:
                registry.remove(name)


def _made(
    subject: Subject,
    ops: Mapping[str, Op],
    examples: Sequence[Example],
    expected: Sequence[Sequence[np.ndarray]],
) -> tuple[Form, ...]:
    tensor: dict[str, Form] = {}
    runs: dict[str, _Run] = {}
    for name, make in _MAKERS.items():
        if name == _FUNCTION or name in ops:
            op = ops.get(name, subject.op)
            try:
                runs[name], nodes = make(subject, op, expected[0])
                tensor[name] = Form(name, nodes=nodes)
            except PyopError as error:
                tensor[name] = Form(name, why_not=str(error).replace(op.name, subject.op.name))
    seconds = [_fastest(runs, item.feeds()) for item in examples]
    for name, run in runs.items():
        pairs = zip(examples, expected, strict=True)
        diffs = () if name == _PYTHON else tuple(_compared(run, item, want) for item, want in pairs)
        tensor[name] = replace(
            tensor[name], diffs=diffs, seconds=tuple(item[name] for item in seconds)
        )
    return tuple(tensor.values())


def _compared(run: _Run, example: Example, expected: Sequence[np.ndarray]) -> Diff:
    """Compare the results of a form with those of Python."""
    names = [f"output {number}" for number in range(len(expected))]
    results = run(example.feeds())
    return compared(dict(zip(names, results, strict=True)), dict(zip(names, expected, strict=True)))


# ---- the forms ---------------------------------------------------------------------------------------------------------------

_PYTHON, _FUNCTION, _CPP, _NUMBA = "Python", "ONNX function", "C++", "Numba"


def _language(cls: type) -> str:
    return _CPP if hasattr(cls, "__pyopnb_native__") else _NUMBA if asks_for_numba(cls) else _PYTHON


def _op(subject: Subject, op: Op, expected: Sequence[np.ndarray]) -> tuple[_Run, None]:
    (example,) = subject.examples
    caller = Subject(op, [example])
    session = caller.session(
        example, len(expected), [kind and kind.without_sizes() for kind in example.types]
    )
    return lambda feeds: list(session.run(None, feeds)), None


def _function(subject: Subject, op: Op, expected: Sequence[np.ndarray]) -> tuple[_Run, int]:
    (example,) = subject.examples
    lowered = lower_op(op, [example])
    count = sum(node.op_type != "Constant" for node in lowered.function.node)
    return kernel_runner(called(lowered, subject, example, expected)), count


_MAKERS: dict[str, Callable[[Subject, Op, Sequence[np.ndarray]], tuple[_Run, int | None]]] = {
    _PYTHON: _op,
    _FUNCTION: _function,
    _CPP: _op,
    _NUMBA: _op,
}
"""Each makes a form that takes the feeds of an example at any size, and counts its nodes; PyopError where there is none."""


# ---- sizes -------------------------------------------------------------------------------------------------------------------


def _first_dimension(groups: ExampleSizes) -> str | None:
    return next((dim for dims in groups.groups for dim in dims if isinstance(dim, str)), None)


def _grown(subject: Subject, example: Example) -> list[Example]:
    """Return an example and two larger ones, as far as it can grow."""
    groups = ExampleSizes.of(subject, example)
    name = _first_dimension(groups)
    if name is None or not groups.sizes[name]:
        return [example]
    larger = [example]
    while _seconds_of(subject, larger[-1]) < _SLOW:
        bigger = groups.resize({**groups.sizes, name: groups.sizes[name] * 2 ** len(larger)})
        if bigger is None or not _takes(subject, bigger):
            break  # it is too large, or of a size that the op does not take
        larger.append(bigger)
    return [larger[position] for position in sorted({0, len(larger) // 2, len(larger) - 1})]


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
    tensor = []
    for size in sizes:
        resized = groups.resize({**groups.sizes, name: size}) if size >= 0 else None
        if resized is None:
            expected = f"sizes of {name} that give at most a million elements"
            raise InputError(f"forms of {subject.op.name}, sizes", expected=expected, got=str(size))
        tensor.append(resized)
    return tensor


# ---- time --------------------------------------------------------------------------------------------------------------------


def _fastest(runs: Mapping[str, _Run], feeds: Mapping[str, Any]) -> dict[str, float]:
    """Time each form several times in turns, and return the fastest of each."""
    best: dict[str, float] = {}
    rounds, until = 0, time.perf_counter() + _SPENT * len(runs)
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        while rounds < _LEAST_RUNS or time.perf_counter() < until:
            for name, run in runs.items():
                begin = time.perf_counter()
                run(feeds)
                spent = time.perf_counter() - begin
                best[name] = min(spent, best.get(name, spent))
            rounds += 1
    return best
