"""The one function that holds anything against anything."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, overload

from pyopnb.compare.diffs import Diff, compared
from pyopnb.ops.errors import FeedError, briefly
from pyopnb.runtime.session import Result
from pyopnb.traces.trace import Trace

if TYPE_CHECKING:
    from pyopnb.divergence.traces import TraceDiff

__all__ = ["diff"]


@overload
def diff(a: Trace, b: Any, *, rtol: float | None = None, atol: float | None = None) -> TraceDiff: ...
@overload
def diff(a: Any, b: Trace, *, rtol: float | None = None, atol: float | None = None) -> TraceDiff: ...
@overload
def diff(a: Any, b: Any, *, rtol: float | None = None, atol: float | None = None) -> Diff: ...
@briefly
def diff(a: Any, b: Any, *, rtol: float | None = None, atol: float | None = None) -> Diff | TraceDiff:
    """Hold two values, or two runs, against each other.

    Parameters
    ----------
    a, b : ndarray, scalar, str, None, list, tuple, dict, Result or Trace
        ``b`` is the reference. Lists are compared by position, dicts and results by name. Nothing is broadcast, cast or
        reshaped: another dtype or shape is ``incomparable``. A trace is held against another one, whose tensors and nodes may
        have other names, or against arrays by the names of its tensors.
    rtol, atol : float, optional
        An element passes where ``|a - b| <= atol + rtol * |b|``. Without both: 1e-7 and 1e-12 for float64, 1e-5 and 1e-5 for
        float32, 1e-3 and 1e-5 for float16, 1.6e-2 and 1e-5 for bfloat16, complex numbers as their parts, and 0 for all others.
        Given one, the other is 0. To integers only ``atol`` applies, to bools and strings neither. NaN agrees with NaN at the
        same place, an infinity with that of its sign.

    Returns
    -------
    Diff or TraceDiff
        A `TraceDiff` for traces: what each node does to the difference, and as ``origin`` the first that makes one. Of both the
        ``verdict``:

        - ``bit-identical``,
        - ``value-identical``: the same but for -0.0 against 0.0 and for the bits of NaN,
        - ``close``: every element is within the tolerance,
        - ``different``: some are not,
        - ``incomparable``: types, names or lengths are not the same.

        ``ok`` says whether it is one of the first three.

    Raises
    ------
    FeedError
        Something is not made of arrays, a tolerance is negative or not finite, two runs have no tensor in common, or an array
        has a name that the trace has not.

    Notes
    -----
    Between traces each node of b runs again, alone and twice, on the tensors of a: so an op's ``compute`` is called twice more.

    Examples
    --------
    >>> import numpy as np, pyopnb
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
    >>> graph = "(float[N] x) => (float[N] y) { a = Abs(x)  b = Elu<alpha = %s>(a)  y = Neg(b) }"
    >>> one, other = (pyopnb.trace(pyopnb.parse(graph % alpha), x=np.float32([-1, 2])) for alpha in ("1.0", "2.0"))
    >>> diff(one, other).verdict
    'bit-identical'
    >>> graph = graph.replace("Abs", "Neg")
    >>> one, other = (pyopnb.trace(pyopnb.parse(graph % alpha), x=np.float32([-1, 2])) for alpha in ("1.0", "2.0"))
    >>> diff(one, other)
    different: of 3 tensors 1 bit-identical, 2 different, onnxruntime ..., all optimisations
    origin: b (Elu); b: different, float32[2], 1 of 2 differ, at most 0.8647; alone at most 0.8647
      attr alpha: 1.0 → 2.0
    nodes: 1 where it begins, 1 propagate, 1 the same
    outputs: y different, float32[2], 1 of 2 differ, at most 0.8647
    """
    if isinstance(a, Trace) or isinstance(b, Trace):
        return _of_traces(a, b, rtol, atol)
    return compared(a, b, rtol, atol)


def _of_traces(a: Any, b: Any, rtol: float | None, atol: float | None) -> TraceDiff:
    from pyopnb.divergence.runs import against_arrays, apart  # what a diff of arrays does not need

    if isinstance(a, Trace) and isinstance(b, Trace):
        return apart(a, b, rtol, atol)
    trace, other = (a, b) if isinstance(a, Trace) else (b, a)
    if not isinstance(other, (Mapping, Result)):
        got = type(other).__name__
        raise FeedError("diff", expected="a trace, or arrays by name, to hold against a trace", got=got, next='{"y": array}')
    return against_arrays(trace, dict(other.items()), rtol, atol, first=trace is a)
