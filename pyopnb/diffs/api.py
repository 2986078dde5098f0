"""The function that compares arrays, runs, models and versions of ops."""

from __future__ import annotations

import os
from collections.abc import Container, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from onnx import ModelProto

from pyopnb.common import sanitize
from pyopnb.diffs.arrays.diff import compared
from pyopnb.diffs.arrays.files import ENDINGS, arrays_in
from pyopnb.diffs.arrays.rows import as_sets
from pyopnb.diffs.base import Comparable
from pyopnb.diffs.models.diff import diff_models
from pyopnb.diffs.ops import diff_versions
from pyopnb.diffs.tolerances import Tolerances
from pyopnb.engine import Op, Result, Version, check_arguments, model_files
from pyopnb.errors import InputError, ModelError
from pyopnb.traces import Profile, Trace

if TYPE_CHECKING:
    from pyopnb.diffs.traces.diff import TraceDiff

__all__ = ["diff"]


@check_arguments
def diff(
    a: Any,
    b: Any,
    *,
    rtol: float | None = None,
    atol: float | None = None,
    stol: float | None = None,
    rows: str | None = None,
) -> Any:
    """Compare two values, two runs, two models, or two versions of an op.

    Parameters
    ----------
    a, b : ndarray, scalar, str, None, list, tuple, dict or Result
        Two values; ``b`` is the reference. Lists are compared by position, dicts and results by
        name. Nothing is broadcast, cast or reshaped: a different dtype or shape is
        ``incomparable``. Complex numbers are compared as floats, their parts along a last axis.
    a, b : path that ends in .npy, .npz or .pb
        The array, the arrays by name, or the tensor in that file. A str is such a path unless the
        other side is another text.
    a, b : ModelProto, os.PathLike, str that ends in .onnx, or bytes
        Two models. If one side is a ModelProto or a PathLike, bytes and any text on the other are a
        model. Otherwise both sides must end in .onnx or be the bytes of a model; if not, they are
        compared as values or texts. Objects that hold a model, as for `Session`, count as models.
    a, b : Trace
        Two runs, whose tensors and nodes may have different names; or one run, and arrays by the
        names of its tensors. ``a`` may be a run in torch, made by `pyopnb.torch.trace`. If ``a`` is
        a run of a float model and ``b`` of its quantized form, tensors are compared after
        dequantization, and ``quantization`` says what each scale loses.
    a, b : Version or Op
        Two versions of an op, from ``pyopnb.registry``; an Op means its current version.
    a, b : Profile
        Two profiles, for example before and after a change.
    a, b : Training
        Two trainings, for example with two optimizers.
    rtol, atol, stol : float, optional
        An element passes if ``|a - b| <= atol + rtol * |b| + stol * scale``, where ``scale`` is the
        largest finite ``|b|`` of the array; for models, this applies to weights. By default,
        ``rtol`` and ``atol`` are 1e-7 and 1e-12 for float64, 1e-5 and 1e-5 for float32, 1e-3 and
        1e-5 for float16, 1.6e-2 and 1e-5 for bfloat16, and 0 for all others. If you pass some of
        the three, the others are 0. ``stol=True`` means the dtype's default ``rtol``, and
        leaves the other two as they are. It is the default for two traces made by ONNX Runtime at
        different levels of optimization, or if torch made one of them, because their kernels add up
        in different orders. Only ``atol`` applies to integers, and no tolerance to bools and
        strings. NaN agrees with NaN at the same index, and an infinity with an infinity of the same
        sign.
    rows : {"set"}, optional
        For values: compare rows without their order, such as detections. Arrays by name are
        columns of one table, whose rows belong together. A first axis of one, as of a batch, is
        left out. So are rows that only one side has and that hold nothing but 0, -1 or NaN.

    Returns
    -------
    Diff, TraceDiff, ModelDiff, OpDiff, ProfileDiff or TrainingDiff
        For values, a `Diff`, whose verdict is one of

        - ``bit-identical``,
        - ``value-identical``: the same except for -0.0 against 0.0 and the bits of NaN,
        - ``close``: every element is within the tolerance,
        - ``different``: some are not,
        - ``incomparable``: types, names or lengths differ.

        ``ok`` says whether it is one of the first three. For runs, a `TraceDiff`: what each
        node does to the difference, and as ``origin`` the first node that introduces one. For
        models, a `ModelDiff`: ``identical``, ``close`` (only weights differ, all within the
        tolerance) or ``different``; other names, another order of nodes, a default that is
        written out and documentation do not count. For versions of an op, an `OpDiff`:
        ``identical`` or ``different``. For profiles, a `ProfileDiff`: ``slower``, ``faster`` or
        ``same`` within the spread of the runs. For trainings, a `TrainingDiff`: ``identical``
        to the bit, or ``different``.

    Raises
    ------
    InputError
        A value is not made of arrays, only one side is a model, a run or an op, a tolerance is
        negative or not finite, two runs have no tensor in common, only ``b`` is a run in torch, an
        array's name does not occur in the run, or a file does not exist.
    ModelError
        A file does not contain a model.

    Notes
    -----
    For two runs, each node of ``b`` runs twice more, in isolation on the tensors of ``a``. If a
    node is then over the tolerance, it also runs twice on the tensors of each run, to measure how
    far isolation itself is off. All these runs also call ``compute`` of your ops.

    With ``stol=True``, a tensor that depends on values in float16 or bfloat16 gets that dtype's
    tolerance.

    Examples
    --------
    >>> import numpy as np
    >>> diff(np.float32([1, 2, 3]), np.float32([1, 2, 3.00001]))
    close: float32[3], 1 of 3 elements differs, within rtol 1e-05, atol 1e-05
    where: [2], a = 3.0, b = 3.00001
    how much: |a-b| 1.001e-05, 3.34e-06 × |b|
      mean of |a-b| 3.338e-06, rms 5.781e-06, mean of a-b -3.338e-06, at most 42 ULP
      cosine 1, SNR 111.4 dB, PSNR 114.3 dB (peak 3)
      would just pass: atol=1.002e-05 or rtol=3.338e-06
    >>> diff({"y": np.zeros(2)}, {"z": np.zeros(2)}).verdict
    'incomparable'
    """
    # Most calls in a notebook compare two arrays, so these go straight to the comparison.
    tolerances = Tolerances(rtol, atol, stol)
    if rows is None and isinstance(a, np.ndarray) and isinstance(b, np.ndarray):
        return compared(a, b, tolerances)
    a, b = _read_arrays(a, b)
    if rows is not None:
        if rows != "set":
            got = sanitize(repr(rows), 80)
            raise InputError("diff, rows", expected='"set"', got=got, next='rows="set"')
        for side in (a, b):
            if isinstance(side, (Trace, Profile, Version, Op, Comparable, ModelProto)):
                got = type(side).__name__
                advice = "diff(a, b) without rows"
                raise InputError("diff, rows", expected="two values", got=got, next=advice)
        a, b, said = as_sets(a, b)
        return replace(compared(a, b, tolerances), rows=said)
    # The kind of one side decides what the other must be. A trace may also be compared with arrays,
    # and everything else only with its own kind.
    sides = a, b
    if isinstance(a, Trace) or isinstance(b, Trace):
        return _diff_runs(a, b, tolerances)
    if isinstance(a, (Version, Op)) or isinstance(b, (Version, Op)):
        _require(sides, (Version, Op), "a version of an op", 'registry.history("demo::SoftClip")')
        _refuse_tolerances("versions of an op", tolerances)
        return diff_versions(a, b)
    if isinstance(a, Profile) or isinstance(b, Profile):
        # Imported here, as other diffs do not need it.
        from pyopnb.diffs.profiles import diff_profiles

        _require(sides, (Profile,), "a profile", "pyopnb.profile(session, x)")
        _refuse_tolerances("profiles", tolerances)
        return diff_profiles(a, b)
    if isinstance(a, Comparable) or isinstance(b, Comparable):
        noun = next(side._NOUN for side in sides if isinstance(side, Comparable))
        _require(sides, (Comparable,), f"a {noun}", f"another {noun}")
        _refuse_tolerances(f"{noun}s", tolerances)
        return a._diff(b)
    # Bytes and texts can be models or values. They are models if the other side surely is one, or
    # if both look like one.
    models = model_files.held_model(a)[0], model_files.held_model(b)[0]
    surely = any(isinstance(side, (ModelProto, os.PathLike)) for side in models)
    if surely or (_is_model(a) and _is_model(b)):
        types = (ModelProto, os.PathLike, str, bytes, bytearray, memoryview)
        _require(models, types, "a model", "a ModelProto, bytes or a path")
        return diff_models(a, b, tolerances)
    return compared(a, b, tolerances)


def _read_arrays(a: Any, b: Any) -> tuple[Any, Any]:
    """Read arrays from paths; two strings count as paths only if both are."""
    is_file_a = _ends_in(a, ENDINGS)
    is_file_b = _ends_in(b, ENDINGS)
    if isinstance(a, str) and isinstance(b, str):
        are_paths = (is_file_a and is_file_b) or _is_model(a) or _is_model(b)
        if not are_paths:
            return a, b
    if is_file_a:
        a = arrays_in(a)
    if is_file_b:
        b = arrays_in(b)
    return a, b


def _ends_in(side: Any, endings: Container[str]) -> bool:
    if not isinstance(side, (str, os.PathLike)):
        return False
    return os.path.splitext(os.fspath(side))[1].lower() in endings


def _require(sides: tuple[Any, ...], types: tuple[type, ...], noun: str, suggestion: str) -> None:
    for name, side in zip("ab", sides, strict=True):
        if not isinstance(side, types):
            expected = f"{noun}, as the other side is one"
            got = type(side).__name__
            raise InputError(f"diff, {name}", expected=expected, got=got, next=suggestion)


def _refuse_tolerances(noun: str, tolerances: Tolerances) -> None:
    for name, value in tolerances._asdict().items():
        if value is not None:
            raise InputError(
                f"diff, {name}",
                expected=f"no tolerance for {noun}",
                got=str(value),
                next=f"leave {name} out",
            )


def _diff_runs(a: Any, b: Any, tolerances: Tolerances) -> TraceDiff:
    # Imported here, as other diffs need neither alignment nor a runtime.
    from pyopnb.diffs.traces.compare import diff_traces, diff_with_arrays

    if isinstance(a, Trace) and isinstance(b, Trace):
        return diff_traces(a, b, tolerances)
    if isinstance(a, Trace):
        # The order of the sides is kept, as b is the reference of relative tolerances.
        trace = a
        arrays = b
    else:
        trace = b
        arrays = a
    if not isinstance(arrays, (Mapping, Result)):
        expected = "a trace, or arrays by name, to compare with a trace"
        raise InputError("diff", expected=expected, got=type(arrays).__name__, next='{"y": array}')
    return diff_with_arrays(trace, dict(arrays.items()), tolerances, first=trace is a)


def _is_model(side: Any) -> bool:
    if isinstance(side, (str, os.PathLike)):
        return _ends_in(side, (".onnx",))
    if not isinstance(side, (bytes, bytearray, memoryview)):
        return False
    try:
        # Protobuf reads nearly any bytes as an empty message, so that a model also has nodes or
        # outputs.
        proto = model_files.as_proto(bytes(side))
    except ModelError:
        return False
    return bool(proto.graph.node or proto.graph.output)
