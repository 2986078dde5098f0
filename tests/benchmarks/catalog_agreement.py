"""How far each operator of the catalog is from its references, and how long both take.

The examples and the references come from tests/catalog: its tests run here, and what they call
and compare is written down. catalog.csv beside this file keeps the table, and the page of the
catalog shows it. This alone: ``python tests/benchmarks/catalog_agreement.py``.
"""

from __future__ import annotations

import csv
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import starmap
from pathlib import Path
from unittest import mock

import numpy as np
import pytest
from bench_catalog import in_plain_runtime, in_session
from table import timed

import pyopnb
from pyopnb.catalog.index import Entry, find_entry
from pyopnb.models.support.catalog_names import node_entry

__all__ = ["COLUMNS", "RESULTS", "measure"]

RESULTS = Path(__file__).with_name("catalog.csv")
COLUMNS = ("file", "difference", "milliseconds", "reference", "reference_milliseconds")
TESTS = Path(__file__).parents[1] / "catalog"
REPEATS = 20
COARSE = ("float8_e4m3fn", "bfloat16", "float16")


Prepare = Callable[[], tuple[partial, partial]]


@dataclass(frozen=True)
class Call:
    """A call that a test made: its outputs, and what prepares the same call for the clock."""

    name: str
    inputs: Sequence[object]
    outputs: tuple[np.ndarray, ...]
    prepare: Callable[[], partial]

    def returned(self, array: np.ndarray) -> bool:
        """Tell whether an array is an output of this call, or a view of one."""
        return any(np.may_share_memory(output, array) for output in self.outputs)


class Recorder:
    """A plugin of pytest that writes down what the tests of the catalog call and compare."""

    def __init__(self) -> None:
        # Calls of the test that runs: their outputs must live, so that no two are at one address.
        self.entry_calls: list[Call] = []
        self.kernel_calls: list[Call] = []
        self.compared: list[tuple[Call, Call]] = []
        self.differences: dict[str, dict[str, tuple[float, str]]] = {}
        # The reference that an entry's time is compared with, and what prepares both for the clock.
        self.by_kernel: dict[str, tuple[str, Prepare]] = {}
        self.by_form: dict[str, tuple[str, Prepare]] = {}

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        recorded = {"run": self.run, "run_old": self.run_old, "lowered": self.lowered}
        for module in {item.getparent(pytest.Module).obj for item in session.items}:
            for name, method in recorded.items():
                if hasattr(module, name):
                    setattr(module, name, partial(method, getattr(module, name), module))

    def pytest_runtest_teardown(self) -> None:
        # Where a test calls more kernels than entries, several together are the reference of one.
        if len(self.kernel_calls) <= len(self.entry_calls):
            for entry_call, kernel_call in self.compared:
                both = partial(_both, entry_call, kernel_call)
                self.by_kernel.setdefault(entry_call.name, (kernel_call.name, both))
        self.compared.clear()
        self.entry_calls.clear()
        self.kernel_calls.clear()

    def run(self, function, module, name, /, *inputs, **attrs):
        result = function(name, *inputs, **attrs)
        outputs = _as_tuple(result)
        entry = find_entry(name, len(inputs))
        again = partial(_session_of_entry, entry, inputs, len(outputs), attrs)
        self.entry_calls.append(Call(_file_of(entry), inputs, outputs, again))
        return result

    def run_old(self, function, module, op, opset, *inputs, outputs=1, **attrs):
        results = function(op, opset, *inputs, outputs=outputs, **attrs)
        model = module.old_model(op, opset, inputs, outputs, **attrs)
        entry = node_entry(model.graph.node[0], opset)
        feeds = {}
        for number, array in enumerate(inputs):
            if array is not None:
                feeds[f"i{number}"] = array
        again = partial(_session_run, model, feeds)
        self.entry_calls.append(Call(_file_of(entry), inputs, tuple(results), again))
        return results

    def lowered(self, function, module, name, /, *inputs, **attrs):
        operators = function(name, *inputs, **attrs)
        entry = find_entry(name, len(inputs))
        both = partial(_entry_and_form, entry, name, inputs, attrs)
        self.by_form.setdefault(_file_of(entry), ("lowered", both))
        return operators

    def call(self, function, op, *inputs, **options):
        result = function(op, *inputs, **options)
        # An op of the registry is an entry that a test runs.
        if isinstance(op, str) and not op.startswith("test.catalog::"):
            outputs = _as_tuple(result)
            again = partial(_session_of_kernel, op, inputs, len(outputs), options)
            self.kernel_calls.append(Call(op, inputs, outputs, again))
        return result

    def compare(self, function, actual, desired, *options, **tolerances):
        function(actual, desired, *options, **tolerances)
        if not isinstance(actual, np.ndarray) or not actual.size or actual.dtype.kind in "OUS":
            return
        entry_call = _maker_of(actual, self.entry_calls)
        # Another entry is no reference: the two may share their code.
        if entry_call is None or _maker_of(desired, self.entry_calls) is not None:
            return
        desired = np.asarray(desired)
        ratio, text = _difference(actual, desired)
        dtype = _dtype_of(actual, desired, *entry_call.inputs)
        by_dtype = self.differences.setdefault(entry_call.name, {})
        worst, _ = by_dtype.get(dtype, (-1.0, ""))
        if ratio > worst:
            by_dtype[dtype] = ratio, text
        kernel_call = _maker_of(desired, self.kernel_calls)
        if kernel_call is not None and _is_same_work(entry_call, kernel_call, self.kernel_calls):
            self.compared.append((entry_call, kernel_call))


def _as_tuple(result) -> tuple[np.ndarray, ...]:
    return result if isinstance(result, tuple) else (result,)


def _maker_of(array: object, calls: list[Call]) -> Call | None:
    """Return the call of which an array is an output; None if it was computed in another way."""
    for call in reversed(calls):
        if isinstance(array, np.ndarray) and call.returned(array):
            return call
    return None


def _is_same_work(entry_call: Call, kernel_call: Call, kernel_calls: list[Call]) -> bool:
    """Tell whether a kernel alone computes all of an entry's first output, which its time can then be compared with."""
    # The reference may be a chain of kernels, or one part of the batch.
    is_chain = any(_maker_of(array, kernel_calls) for array in kernel_call.inputs)
    return not is_chain and entry_call.outputs[0].size == kernel_call.outputs[0].size


def _dtype_of(actual: np.ndarray, *others: object) -> str:
    """Return the dtype that limits how well floats agree: the coarsest of the result, the reference and the inputs."""
    if actual.dtype.name not in COARSE and actual.dtype.kind != "f":
        return actual.dtype.name
    names = {array.dtype.name for array in others if isinstance(array, np.ndarray)}
    for coarse in COARSE:
        if coarse in names or coarse == actual.dtype.name:
            return coarse
    return actual.dtype.name


def _file_of(entry: Entry) -> str:
    return entry.op_class.__module__.removeprefix("pyopnb.catalog.")


def _session_of_entry(entry: Entry, inputs, outputs: int, attrs) -> partial:
    # An op of the registry serves also where the file would have to declare the types of outputs.
    pyopnb.registry.define(entry.op_class, f"measured::{entry.op_class.__name__}")
    return in_session(f"measured::{entry.op_class.__name__}", inputs, outputs, attrs)


def _entry_and_form(entry: Entry, name: str, inputs, attrs) -> tuple[partial, partial]:
    form = in_plain_runtime(name, *inputs, **attrs)
    return _session_of_entry(entry, inputs, len(form()), attrs), form


def _both(entry_call: Call, kernel_call: Call) -> tuple[partial, partial]:
    return entry_call.prepare(), kernel_call.prepare()


def _session_of_kernel(op: str, inputs, outputs: int, options) -> partial:
    arrays = [None if array is None else np.asarray(array) for array in inputs]
    attrs = {key: value for key, value in options.items() if key not in ("outputs", "opset")}
    return in_session(op, arrays, outputs, attrs, opset=options.get("opset"))


def _session_run(model, feeds) -> partial:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", pyopnb.errors.Filled)
        return partial(pyopnb.Session(model, fill=True).run, None, feeds)


def _difference(actual: np.ndarray, desired: np.ndarray) -> tuple[float, str]:
    """Return the largest difference that diff sees, as a share of the largest number and as text."""
    desired = np.broadcast_to(desired, actual.shape)
    if actual.dtype != desired.dtype:
        # A formula in float64 is not rounded before it is compared.
        actual, desired = actual.astype(np.float64), desired.astype(np.float64)
    facts = pyopnb.diff(np.ascontiguousarray(actual), np.ascontiguousarray(desired)).parts[0].facts
    largest, peak = facts.largest or 0, facts.peak or 0
    if not facts.differing:
        return 0.0, "equal"
    return largest / (peak or 1), f"{largest:.1e} of {peak:.2g}"


def measure(tests: Path = TESTS) -> list[dict[str, str]]:
    """Run the tests of the catalog, print the table of agreement, and write it to catalog.csv."""
    recorder = Recorder()
    with (
        mock.patch.object(pyopnb, "call", partial(recorder.call, pyopnb.call)),
        mock.patch.object(
            np.testing, "assert_allclose", partial(recorder.compare, np.testing.assert_allclose)
        ),
        mock.patch.object(
            np.testing,
            "assert_array_equal",
            partial(recorder.compare, np.testing.assert_array_equal),
        ),
    ):
        # Plugins may be imported before: anyio, by other benchmarks.
        warnings = ["-W", "ignore::pytest.PytestAssertRewriteWarning"]
        arguments = ["-q", "-p", "no:cacheprovider", *warnings, str(tests)]
        code = pytest.main(arguments, plugins=[recorder])
    if code:
        raise RuntimeError("the tests of the catalog fail: nothing is written down")
    pairs = recorder.by_form | recorder.by_kernel
    rows = []
    for file in sorted({*recorder.differences, *pairs}):
        texts = recorder.differences.get(file, {})
        row = {"file": file}
        row["difference"] = ", ".join(f"{dtype} {text}" for dtype, (_, text) in texts.items())
        if file in pairs:
            row["reference"], prepare = pairs[file]
            entry, reference = prepare()
            if not texts:
                outputs = zip(entry(), reference(), strict=True)
                _, row["difference"] = max(starmap(_difference, outputs))
            seconds = timed({"entry": entry, "reference": reference}, REPEATS)
            row["milliseconds"] = f"{seconds['entry'] * 1e3:.3f}"
            row["reference_milliseconds"] = f"{seconds['reference'] * 1e3:.3f}"
        print(" | ".join(row.values()), flush=True)
        rows.append(row)
    with RESULTS.open("w", encoding="utf-8", newline="") as table:
        writer = csv.DictWriter(table, COLUMNS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    return rows


if __name__ == "__main__":
    measure()
