"""ONNX's own node tests, run: what `tests/gaps/test_fill.py` asserts and ``tests/benchmarks/bench_fill.py`` prints.

A case counts as passed where the model loads, runs on every data set of the case, and each result has the expected dtype and
shape, and values within the tolerances of the case.
"""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numpy as np
import onnxruntime
from onnx import ModelProto, TensorProto, TypeProto, numpy_helper
from onnx.backend.test.case.node import collect_testcases
from onnx.backend.test.case.test_case import TestCase

import pyopnb
from pyopnb.gaps.fill import Filled, fill
from pyopnb.ops.dtypes import DTYPES, dtype
from pyopnb.runtime.values import from_ortvalue, texts_to_ortvalue, to_ortvalue

__all__ = ["cases", "outcome", "plainly"]

DRAWN = ("test_bernoulli", "test_bernoulli_double", "test_bernoulli_seed")
"""Other random numbers than those of the expectation are right as well: dtype and shape are compared."""

_CARRIED_BY_NUMPY = {row.name for row in DTYPES if row.numpy.isbuiltin == 1 and row.name != "string"}


@cache
def cases() -> dict[str, TestCase]:
    """All node tests by name; expanded function bodies are cases of their own."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # some of ONNX's cases compute with infinities and warn while they are made
        made = collect_testcases(*[None] * bool(inspect.signature(collect_testcases).parameters))  # onnx 1.19 wants an op type
    return {case.name: case for case in made}


def plainly(model: ModelProto, feeds: dict[str, Any]) -> list[Any]:
    """The results of plain onnxruntime."""
    session = onnxruntime.InferenceSession(model.SerializeToString(), _quiet(), ["CPUExecutionProvider"], enable_fallback=0)
    return _run(session, model, feeds)


def _quiet() -> onnxruntime.SessionOptions:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    return options


def _run(session: onnxruntime.InferenceSession, model: ModelProto, feeds: dict[str, Any]) -> list[Any]:
    """Run a session on anything that a case feeds: dtypes that NumPy lacks, strings, sequences, optionals left out."""
    run = onnxruntime.RunOptions()
    run.log_severity_level = 4
    kinds = {info.name: _element(info.type) for info in [*model.graph.input, *model.graph.output]}
    given = {name: _fed(value, kinds[name]) for name, value in feeds.items() if value is not None}
    names = [info.name for info in model.graph.output]
    if all(kinds[name] is None or kinds[name].name in _CARRIED_BY_NUMPY | {"string"} for name in names):
        return onnxruntime.InferenceSession.run(session, names, given, run)
    values = {n: v if isinstance(v, onnxruntime.OrtValue) else _as_ortvalue(v) for n, v in given.items()}
    got = onnxruntime.InferenceSession.run_with_ort_values(session, names, values, run)
    return [from_ortvalue(value, kinds[name]) for name, value in zip(names, got, strict=True)]


def _as_ortvalue(array: np.ndarray) -> onnxruntime.OrtValue:
    return texts_to_ortvalue(array) if array.dtype.kind in "OUT" else onnxruntime.OrtValue.ortvalue_from_numpy(array)


def _element(kind: TypeProto) -> Any:
    """The dtype of a tensor or an optional tensor; None for anything else."""
    kind = kind.optional_type.elem_type if kind.HasField("optional_type") else kind
    return dtype(kind.tensor_type.elem_type) if kind.HasField("tensor_type") else None


def _fed(value: Any, kind: Any) -> Any:
    if kind is None or isinstance(value, list) or kind.name in _CARRIED_BY_NUMPY | {"string"}:
        return value
    return to_ortvalue(value, kind)


def data_sets(case: TestCase) -> list[tuple[dict[str, Any], list[Any]]]:
    """Feeds by name and expected results, for each data set of a case."""
    names = [info.name for info in case.model.graph.input]
    return [
        (dict(zip(names, map(_value, given), strict=True)), list(map(_value, expected))) for given, expected in case.data_sets
    ]


def _value(value: Any) -> Any:
    """Arrays as they are; what NumPy has no dtype for stands in the case as a TensorProto."""
    if isinstance(value, TensorProto):
        return numpy_helper.to_array(value)
    if value is None or isinstance(value, (np.ndarray, dict)):
        return value
    return list(map(_value, value)) if isinstance(value, (list, tuple)) else np.asarray(value)


def outcome(case: TestCase, way: Callable[[ModelProto, dict[str, Any]], Sequence[Any]]) -> str | None:
    """What went wrong on one way; None where nothing did."""
    for feeds, expected in data_sets(case):
        try:
            got = way(case.model, feeds)
        except Exception as error:  # any exception at all is a failure of the case, and is told in the table
            return f"{type(error).__name__}: {error}"
        if len(got) != len(expected):
            return f"{len(got)} results, expected {len(expected)}"
        for info, result, want in zip(case.model.graph.output, got, expected, strict=True):
            if wrong := unlike(case, result, want):
                return f"output {info.name}: {wrong}"
    return None


def unlike(case: TestCase, got: Any, want: Any) -> str | None:
    """How a result differs from the expected one."""
    if want is None or got is None:
        return None if want is got else f"{type(got).__name__}, expected {type(want).__name__}"
    if isinstance(want, dict):
        return None if got == want else "another map"
    if isinstance(want, list):
        if not isinstance(got, list) or len(got) != len(want):
            return f"{type(got).__name__} of {len(got)}, expected a list of {len(want)}"
        return next(filter(None, (unlike(case, g, w) for g, w in zip(got, want, strict=True))), None)
    if not isinstance(got, (np.ndarray, np.generic)):
        return f"a {type(got).__name__}"
    if dtype(got.dtype) is not dtype(want.dtype):
        return f"dtype {got.dtype}, expected {want.dtype}"
    if got.shape != want.shape:
        return f"shape {got.shape}, expected {want.shape}"
    if case.name in DRAWN:
        return None
    if got.dtype.kind in "OUT":
        return None if got.astype(object).tolist() == want.astype(object).tolist() else "other strings"
    wide = np.float64 if got.dtype.kind in "fV" else got.dtype
    if not np.allclose(got.astype(wide), want.astype(wide), rtol=case.rtol, atol=case.atol, equal_nan=True):
        return "other values"
    return None


def filled(model: ModelProto, feeds: dict[str, Any]) -> list[Any]:
    """The results of the model after `fill`."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", Filled)
        whole = fill(model)
    return _run(pyopnb.Session(whole), whole, feeds)
