"""How the reference does in each case."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from onnx.defs import get_schema
from onnx.helper import np_dtype_to_tensor_dtype, tensor_dtype_to_np_dtype

import pyopnb
from audit.cases import Case
from audit.exceptions import is_left_open, kernel_is_old, kernel_is_wrong
from audit.judges import NoJudge, kernel_results, plain_results
from audit.loops import LOOPS
from audit.same import same_cases

__all__ = ["Outcome", "difference", "judge", "verdict_of"]

_TOLERANCES = {"float16": 1e-2, "bfloat16": 5e-2, "float32": 1e-4, "float64": 1e-6}


@dataclass(frozen=True)
class Outcome:
    """A case and its verdict: right, mended, refused, raw, wrong, not judged, or invalid."""

    case: Case
    verdict: str
    detail: str = ""
    judge: str = ""


def difference(got: Any, expected: Any, tolerance: float | None = None) -> str:
    """Say how a result differs from the right one; empty if it does not."""
    if isinstance(expected, dict) or isinstance(got, dict):
        return "" if got == expected else f"{got} for {expected}"
    if isinstance(expected, list) or isinstance(got, list):
        if not (isinstance(expected, list) and isinstance(got, list)):
            return f"{type(got).__name__} for {type(expected).__name__}"
        if len(got) != len(expected):
            return f"{len(got)} elements for {len(expected)}"
        texts = [difference(a, b) for a, b in zip(got, expected, strict=True)]
        return next(filter(None, texts), "")
    if got is None or expected is None:
        return "" if got is expected else f"{got} for {expected}"
    got, expected = np.asarray(got), np.asarray(expected)
    if expected.dtype.kind in "OUT" and got.dtype.kind in "OUT":
        return "" if got.shape == expected.shape and got.tolist() == expected.tolist() else "text"
    if got.dtype != expected.dtype:
        return f"dtype {got.dtype} for {expected.dtype}"
    if got.shape != expected.shape:
        return f"shape {got.shape} for {expected.shape}"
    if got.dtype.kind in "iub":
        equal = got == expected
    else:
        tolerance = tolerance or _TOLERANCES.get(got.dtype.name, 1e-2)
        wide = (np.complex128 if got.dtype.kind == "c" else np.float64,) * 2
        a, b = got.astype(wide[0]), expected.astype(wide[1])
        with np.errstate(all="ignore"):
            equal = np.isclose(a, b, tolerance, tolerance * 0.1, equal_nan=True)
    if np.all(equal):
        return ""
    place = np.unravel_index(np.argmin(equal), equal.shape)
    return f"{got[place]} for {expected[place]} at {list(map(int, place))}"


def _call(case: Case) -> list[Any]:
    name = f"{case.domain}::{case.op}"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        results = pyopnb.reference(
            name, *case.inputs, opset=case.version, outputs=case.outputs, **case.attrs
        )
    return list(results) if case.outputs > 1 else [results]


_ACCIDENT = "inputs and attrs that the reference implementation can run"

_DRAWN = {
    *("RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike"),
    *("Bernoulli", "Multinomial"),
}


def _allowed(case: Case, results: list[Any]) -> list[Any]:
    """Return for values that are drawn those results, if they are such as may be drawn."""
    (values,) = results
    attrs = case.attrs
    if case.op.startswith("RandomUniform"):
        is_allowed = (values >= attrs.get("low", 0)) & (values <= attrs.get("high", 1))
    elif case.op.startswith("RandomNormal"):
        # Six standard deviations: one in 500 million.
        is_allowed = np.abs(values - attrs.get("mean", 0)) < 6 * attrs.get("scale", 1)
    else:
        classes = 2 if case.op == "Bernoulli" else case.inputs[0].shape[1]
        is_allowed = (values >= 0) & (values < classes)
    shape = attrs["shape"] if "shape" in attrs else case.inputs[0].shape
    kind = {"Multinomial": 6}.get(case.op, 1)
    if case.inputs and case.op != "Multinomial":
        kind = np_dtype_to_tensor_dtype(case.inputs[0].dtype)
    if case.op == "Multinomial":
        shape = (len(case.inputs[0]), attrs.get("sample_size", 1))
    dtype = tensor_dtype_to_np_dtype(attrs.get("dtype", kind))
    fine = is_allowed.all() and values.shape == tuple(shape) and values.dtype == dtype
    return [values if fine else np.full(shape, 77, dtype)]


def _expected(case: Case) -> tuple[list[Any], str]:
    """Return what is right and who says so."""
    if case.op in LOOPS and kernel_is_wrong(case):
        return list(LOOPS[case.op](case)), "loop"
    if is_left_open(case):
        raise NoJudge("ONNX leaves it open")
    if kernel_is_old(case):
        raise NoJudge("the kernel of this onnxruntime is wrong")
    reasons = []
    try:
        return kernel_results(case), "kernel"
    except NoJudge as error:
        reasons.append(str(error))
    for same, restored in same_cases(case):
        try:
            return restored(kernel_results(same)), f"kernel of {same.version}"
        except NoJudge as error:
            reasons.append(str(error))
    if case.op in LOOPS:
        return list(LOOPS[case.op](case)), "loop"
    raise NoJudge(" ".join(reasons[0].split())[:150])


def _tolerance(case: Case) -> float | None:
    """Return the tolerance where a case computes in lower precision than its dtype."""
    if case.attrs.get("softmax_precision") == 10:
        return 1e-2
    computes_in_float32 = "stash_type" in get_schema(case.op, case.version, case.domain).attributes
    return 1e-4 if computes_in_float32 and case.inputs[0].dtype == np.float64 else None


def _compare(case: Case, results: list[Any], expected: list[Any]) -> str:
    if case.op == "BatchNormalization" and len(expected) == 5:
        # The kernel saves the inverse of the standard deviation instead of the variance.
        variance = 1 / expected[4].astype(np.float64) ** 2 - case.attrs.get("epsilon", 1e-5)
        expected = [*expected[:4], variance.astype(np.float32)]
    if case.op == "Attention" and len(expected) == 4:
        # The kernel has the lowest number where the definition adds minus infinity.
        lowest = np.finfo(np.float32).min
        masked = np.where(expected[3] == lowest, np.float32(-np.inf), expected[3])
        expected = [*expected[:3], masked]
    if len(results) != len(expected):
        return f"{len(results)} results for {len(expected)}"
    for position, (got, right) in enumerate(zip(results, expected, strict=True)):
        text = difference(got, right, _tolerance(case))
        if text:
            return f"output {position}: {text}" if len(expected) > 1 else text
    return ""


def judge(case: Case, plainly: bool = False) -> Outcome:
    """Judge the reference in one case; `plainly` tells whether onnx alone is also right."""
    try:
        expected, who = _expected(case)
        reason = ""
    except NoJudge as error:
        expected, who, reason = None, "", str(error)
    try:
        results = _call(case)
    except pyopnb.errors.PyopError as error:
        if _ACCIDENT in str(error) and expected is not None:
            # An exception of onnx, which a message wraps.
            return Outcome(case, "raw", str(error), who)
        return Outcome(case, "refused" if expected is not None else "refused both", str(error), who)
    except Exception as error:
        text = f"{type(error).__name__}: {' '.join(str(error).split())[:150]}"
        verdict = "raw" if expected is not None else "invalid"
        return Outcome(case, verdict, f"{text} | {reason}" if reason else text, who)
    if case.op in _DRAWN:
        expected, who = _allowed(case, results), "the range"
    if expected is None:
        return Outcome(case, "not judged", reason)
    text = _compare(case, results, expected)
    if text:
        return Outcome(case, "wrong", text, who)
    if plainly and _plain_fault(case, expected):
        return Outcome(case, "mended", _plain_fault(case, expected), who)
    return Outcome(case, "right", "", who)


def _plain_fault(case: Case, expected: list[Any]) -> str:
    try:
        return _compare(case, plain_results(case), expected)
    except Exception as error:
        return f"{type(error).__name__}: {' '.join(str(error).split())[:100]}"


_WORST = ("wrong", "raw", "refused", "refused both", "not judged", "mended", "right", "invalid")


def verdict_of(outcomes: list[Outcome]) -> str:
    """Return the worst verdict of an operator in one version."""
    verdicts = {outcome.verdict for outcome in outcomes}
    return next((verdict for verdict in _WORST if verdict in verdicts), "not judged")
