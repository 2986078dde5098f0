"""Where ONNX Runtime itself is wrong, each with its reason; a plain loop judges there."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnxruntime

from audit.cases import Case

__all__ = ["is_left_open", "kernel_is_old", "kernel_is_wrong"]


def _same_with_dilations(case: Case) -> bool:
    """The poolings leave the dilations out where they count the windows of SAME_UPPER."""
    return case.attrs.get("auto_pad", "").startswith("SAME") and "dilations" in case.attrs


def _pools_to_a_part(case: Case) -> bool:
    """Until onnxruntime 1.25, the last window of ceil_mode counts elements that nothing pads."""
    return _same_with_dilations(case) or bool(case.attrs.get("ceil_mode"))


def _has_nan(case: Case) -> bool:
    """Until onnxruntime 1.25, NaN became a number."""
    return bool(np.isnan(case.inputs[0]).any()) if case.inputs[0].dtype.kind == "f" else False


def _is_scalar(case: Case) -> bool:
    """ONNX wants no axis for a scalar, and says so; ONNX Runtime gives one, as NumPy once did."""
    return case.inputs[0].ndim == 0


def _is_inverse_and_onesided(case: Case) -> bool:
    """Of too many elements, and of too few for an even length, it gives wrong numbers."""
    return bool(case.attrs.get("inverse") and case.attrs.get("onesided"))


def _is_resized_to_a_fraction(case: Case) -> bool:
    """Of align_corners, ONNX divides by the resized length before it is rounded, by its own tests."""
    scales = case.inputs[2] if len(case.inputs) > 2 and case.version > 10 else None
    aligned = case.attrs.get("coordinate_transformation_mode") == "align_corners"
    if not aligned or scales is None or len(scales) != case.inputs[0].ndim:
        return False
    lengths = scales * np.array(case.inputs[0].shape)
    return bool((np.abs(lengths - np.floor(lengths + 1e-4)) > 1e-3).any())


def _has_output_shape(case: Case) -> bool:
    """By the ONNX tests, the indices count in the shape that the kernel gives."""
    return len(case.inputs) > 2


def _overflows(case: Case) -> bool:
    """In version 28 exponentials overflow."""
    x = case.inputs[0]
    is_large = x.ndim == 1 and bool((x > 88).any()) and bool(np.isfinite(x).all())
    return case.version >= 28 and is_large


def _has_empty_text(case: Case) -> bool:
    """An empty text is one substring where there is a delimiter; ONNX Runtime counts none."""
    return bool(case.attrs.get("delimiter")) and "" in case.inputs[0].ravel().tolist()


_REASONS: dict[str, Callable[[Case], bool]] = {
    "AveragePool": _pools_to_a_part,
    "DFT": _is_inverse_and_onesided,
    "Erf": _has_nan,
    "LpPool": _same_with_dilations,
    "MaxPool": _same_with_dilations,
    "MaxUnpool": _has_output_shape,
    "NonZero": _is_scalar,
    "ReduceLogSumExp": _overflows,
    "Resize": _is_resized_to_a_fraction,
    "StringSplit": _has_empty_text,
}


def kernel_is_wrong(case: Case) -> bool:
    """Tell whether the ONNX Runtime kernel computes something else than the definition says."""
    reason = _REASONS.get(case.op)
    return reason is not None and reason(case)


def is_left_open(case: Case) -> bool:
    """Tell whether ONNX does not say what the result is.

    It says "plain floating-point representation" of numbers as texts, and no more.
    """
    if case.op == "Cast" and case.attrs.get("to") == 8:
        return case.inputs[0].dtype.kind != "i"
    return False


def kernel_is_old(case: Case) -> bool:
    """Tell whether the kernel of onnxruntime 1.25 is wrong, and newer ones are not."""
    if tuple(map(int, onnxruntime.__version__.split(".")[:2])) >= (1, 32) or not case.inputs:
        return False
    x = case.inputs[0]
    has_infinity = isinstance(x, np.ndarray) and x.dtype.kind == "f" and not np.isfinite(x).all()
    if case.op == "RNN":
        # It reads beyond the parameters of activations.
        return "activations" in case.attrs
    if case.op == "QuantizeLinear":
        return x.dtype == np.float16 or (has_infinity and "block_size" in case.attrs)
    if case.op == "STFT":
        # Of complex signals, it reads what is not there.
        return x.shape[-1] == 2
    if case.op == "Resize":
        # It ends the process.
        return case.attrs.get("axes") == [-1, -2]
    if case.op == "LinearClassifier" and "intercepts" not in case.attrs:
        return True
    if case.op in ("LinearClassifier", "TreeEnsembleClassifier"):
        return case.attrs.get("post_transform") == "LOGISTIC"
    if case.op == "Pad":
        # It wraps once.
        return case.attrs.get("mode") == "wrap"
    return case.op in ("PRelu", "ReduceLogSumExp") and has_infinity
