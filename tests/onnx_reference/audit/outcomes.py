"""How the reference does in each case."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np

import pyopnb
from audit.cases import Case
from audit.exceptions import kernel_is_wrong
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


def difference(got: Any, expected: Any) -> str:
    """Say in what a result differs from what is right; empty if it does not."""
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
        tolerance = _TOLERANCES.get(got.dtype.name, 1e-2)
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


def _expected(case: Case) -> tuple[list[Any], str]:
    """Return what is right and who says so."""
    if case.op in LOOPS and kernel_is_wrong(case):
        return list(LOOPS[case.op](case)), "loop"
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


def _compare(results: list[Any], expected: list[Any]) -> str:
    if len(results) != len(expected):
        return f"{len(results)} results for {len(expected)}"
    for position, (got, right) in enumerate(zip(results, expected, strict=True)):
        text = difference(got, right)
        if text:
            return f"output {position}: {text}" if len(expected) > 1 else text
    return ""


def judge(case: Case, plainly: bool = False) -> Outcome:
    """Judge the reference in one case; `plainly` tells whether onnx alone is right as well."""
    try:
        expected, who = _expected(case)
        reason = ""
    except NoJudge as error:
        expected, who, reason = None, "", str(error)
    try:
        results = _call(case)
    except pyopnb.errors.PyopError as error:
        return Outcome(case, "refused" if expected is not None else "refused both", str(error), who)
    except Exception as error:
        text = f"{type(error).__name__}: {' '.join(str(error).split())[:150]}"
        verdict = "raw" if expected is not None else "invalid"
        return Outcome(case, verdict, f"{text} | {reason}" if reason else text, who)
    if expected is None:
        return Outcome(case, "not judged", reason)
    text = _compare(results, expected)
    if text:
        return Outcome(case, "wrong", text, who)
    if plainly and _plain_fault(case, expected):
        return Outcome(case, "mended", _plain_fault(case, expected), who)
    return Outcome(case, "right", "", who)


def _plain_fault(case: Case, expected: list[Any]) -> str:
    try:
        return _compare(plain_results(case), expected)
    except Exception as error:
        return f"{type(error).__name__}: {' '.join(str(error).split())[:100]}"


_WORST = ("wrong", "raw", "refused", "refused both", "not judged", "mended", "right", "invalid")


def verdict_of(outcomes: list[Outcome]) -> str:
    """Return the worst verdict of an operator in one version."""
    verdicts = {outcome.verdict for outcome in outcomes}
    return next((verdict for verdict in _WORST if verdict in verdicts), "not judged")
