"""The one function that holds anything against anything."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeAlias, overload

import numpy as np
from onnx import ModelProto

from pyopnb.diffs.arrays.diff import Diff, compared
from pyopnb.diffs.models.diff import ModelDiff, diff_models
from pyopnb.diffs.ops import OpDiff, diff_versions
from pyopnb.models.io import as_proto
from pyopnb.ops.errors import FeedError, ModelError, hide_internal_frames
from pyopnb.ops.registry import Op, Version
from pyopnb.ops.result import Result
from pyopnb.runtime.trace.trace import Trace

if TYPE_CHECKING:
    from pyopnb.diffs.traces.diff import TraceDiff

__all__ = ["diff"]

_Value: TypeAlias = np.ndarray | Mapping[str, Any] | list[Any]


@overload
def diff(a: Trace, b: Any, *, rtol: float | None = None, atol: float | None = None) -> TraceDiff: ...
@overload
def diff(a: Version | Op, b: Version | Op) -> OpDiff: ...
@overload
def diff(a: ModelProto | os.PathLike[str], b: Any, *, rtol: float | None = None, atol: float | None = None) -> ModelDiff: ...
@overload
def diff(a: _Value, b: _Value, *, rtol: float | None = None, atol: float | None = None) -> Diff: ...
@overload
def diff(a: Any, b: Any, *, rtol: float | None = None, atol: float | None = None) -> Any: ...
@hide_internal_frames
def diff(a: Any, b: Any, *, rtol: float | None = None, atol: float | None = None) -> Any:
    """Hold two values, two runs, two models, or two versions of an op against each other.

    Parameters
    ----------
    a, b : ndarray, scalar, str, None, list, tuple, dict or Result
        ``b`` is the reference. Lists are compared by position, dicts and results by name. Nothing is broadcast, cast or
        reshaped: another dtype or shape is ``incomparable``.
    a, b : ModelProto, os.PathLike, str that ends in .onnx, or bytes
        Two models. Beside a ModelProto or a PathLike, bytes and any text are a model; without one, both sides must end in
        .onnx, or be the bytes of a model, and are values otherwise.
    a, b : Trace
        Two runs, whose tensors and nodes may have other names; or one run and arrays by the names of its tensors.
    a, b : Version or Op
        Two versions of an op, from ``pyopnb.registry``; an Op stands for its current version.
    rtol, atol : float, optional
        For models: of the weights.
        An element passes where ``|a - b| <= atol + rtol * |b|``. Without both: 1e-7 and 1e-12 for float64, 1e-5 and 1e-5 for
        float32, 1e-3 and 1e-5 for float16, 1.6e-2 and 1e-5 for bfloat16, complex numbers as their parts, and 0 for all others.
        Given one, the other is 0. To integers only ``atol`` applies, to bools and strings neither. NaN agrees with NaN at the
        same place, an infinity with that of its sign.

    Returns
    -------
    Diff, TraceDiff, ModelDiff or OpDiff
        For runs, a `TraceDiff`: what each node does to the difference, and as ``origin`` the first that makes one.
        The verdict of models is ``identical``, ``close`` (nothing but weights differ, all within the tolerance) or
        ``different``: other names, another order of nodes, a default written out or not, and documentation are no changes.
        That of an op's versions is ``identical`` or ``different``. That of values:

        - ``bit-identical``,
        - ``value-identical``: the same but for -0.0 against 0.0 and for the bits of NaN,
        - ``close``: every element is within the tolerance,
        - ``different``: some are not,
        - ``incomparable``: types, names or lengths are not the same.

        ``ok`` says whether it is one of the first three.

    Raises
    ------
    FeedError
        Something is not made of arrays, a model is held against something else, a tolerance is negative or not finite,
        two runs have no tensor in common, or an array has a name that the run has not.
    ModelError
        There is no model in a file.

    Notes
    -----
    Between runs each node of b runs again, alone and twice, on the tensors of a: an op's ``compute`` is called twice more.

    Examples
    --------
    >>> import numpy as np
    >>> diff(np.float32([1, 2, 3]), np.float32([1, 2, 3.00001]))
    close: float32[3], rtol 1e-05, atol 1e-05
    1 of 3 elements differ, 0 are over |a-b| <= atol + rtol*|b|
    |a-b| at most 1.001e-05, mean 3.338e-06, rms 5.781e-06, a-b on average -3.338e-06
    |a-b|/|b| at most 3.338e-06 where b is not 0; at most 42 units in the last place
    cosine 1, SNR 111.4 dB, PSNR 114.3 dB of the peak 3
    would pass: atol 0 with rtol 1e-05, or rtol 4.527e-09 with atol 1e-05
    worst: [2] 3.0 against 3.00001: 1.001e-05 apart, 42 ulp
    >>> diff({"y": np.zeros(2)}, {"z": np.zeros(2)}).verdict
    'incomparable'
    """
    if isinstance(a, Trace) or isinstance(b, Trace):
        return _runs(a, b, rtol, atol)
    if isinstance(a, (Version, Op)) or isinstance(b, (Version, Op)):
        return _versions(a, b, rtol, atol)
    if isinstance(a, (ModelProto, os.PathLike)) or isinstance(b, (ModelProto, os.PathLike)) or (_is_model(a) and _is_model(b)):
        return _models(a, b, rtol, atol)
    return compared(a, b, rtol, atol)


def _runs(a: Any, b: Any, rtol: float | None, atol: float | None) -> TraceDiff:
    from pyopnb.diffs.traces.compare import diff_traces, diff_with_arrays  # what other diffs do not need

    if isinstance(a, Trace) and isinstance(b, Trace):
        return diff_traces(a, b, rtol, atol)
    trace, other = (a, b) if isinstance(a, Trace) else (b, a)
    if not isinstance(other, (Mapping, Result)):
        got = type(other).__name__
        raise FeedError("diff", expected="a trace, or arrays by name, to hold against a trace", got=got, next='{"y": array}')
    return diff_with_arrays(trace, dict(other.items()), rtol, atol, first=trace is a)


def _versions(a: Any, b: Any, rtol: float | None, atol: float | None) -> OpDiff:
    for name, side in (("a", a), ("b", b)):
        if not isinstance(side, (Version, Op)):
            expected = "a version of an op, as the other side is one"
            raise FeedError(
                f"diff, {name}", expected=expected, got=type(side).__name__, next='registry.history("demo::SoftClip")'
            )
    for name, tolerance in (("rtol", rtol), ("atol", atol)):
        if tolerance is not None:
            raise FeedError(f"diff, {name}", expected="none, for versions of an op", got=str(tolerance))
    return diff_versions(a, b)


def _models(a: Any, b: Any, rtol: float | None, atol: float | None) -> ModelDiff:
    for name, side in (("a", a), ("b", b)):
        if not isinstance(side, (ModelProto, os.PathLike, str, bytes, bytearray, memoryview)):
            expected = "a model, as the other side is one"
            raise FeedError(f"diff, {name}", expected=expected, got=type(side).__name__, next="a ModelProto, bytes or a path")
    return diff_models(a, b, rtol, atol)


def _is_model(side: Any) -> bool:
    if isinstance(side, (str, os.PathLike)):
        return os.fspath(side).endswith(".onnx")
    return isinstance(side, (bytes, bytearray, memoryview)) and _holds_model(bytes(side))


def _holds_model(data: bytes) -> bool:
    try:
        return bool(as_proto(data).graph.node or as_proto(data).graph.output)
    except ModelError:
        return False
