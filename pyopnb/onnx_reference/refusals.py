"""Operators whose wrong results in the onnx reference implementation are not worth a correction."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import onnx
from onnx import AttributeProto, TensorProto, helper, numpy_helper

from pyopnb.common import sanitize
from pyopnb.errors import ModelError

__all__ = ["refuse_wrong"]

_NEXT = "run it in ONNX Runtime"
# onnx 1.19 does not know its name.
_E8M0 = 24


def refuse_wrong(
    domain: str,
    op_type: str,
    opset: int,
    attrs: Mapping[str, AttributeProto],
    outputs: int,
    where: str,
) -> None:
    """Refuse an operator for which the reference gives wrong results, or fails by accident.

    Raises
    ------
    ModelError
    """
    if (domain, op_type) == ("", "Dropout") and opset < 10 and outputs > 1:
        # Before version 10 the mask has the dtype of the input; onnx's is bool.
        expected = "a Dropout without its mask before opset 10"
        raise ModelError(where, expected=expected, got="a second output", next="opset=13")
    if (domain, op_type) == ("", "Attention") and outputs > 3 and "softcap" in attrs:
        # In onnx, the fourth output in mode 0 is the product after softcap; it should be the one
        # before.
        expected = "qk_matmul_output_mode other than 0 with softcap and a fourth output"
        if not attrs.get("qk_matmul_output_mode", AttributeProto()).i and attrs["softcap"].f:
            raise ModelError(where, expected=expected, got="mode 0", next=_NEXT)
    refusal = _REFUSALS.get(f"{domain}::{op_type}")
    if refusal is None:
        return
    values = {name: _plain(attr) for name, attr in attrs.items() if not attr.ref_attr_name}
    fault = refusal(values)
    if fault is not None:
        expected, got = fault
        raise ModelError(where, expected=expected, got=sanitize(got), next=_NEXT)


def _plain(attr: AttributeProto) -> Any:
    value = helper.get_attribute_value(attr)
    return value.decode(errors="replace") if isinstance(value, bytes) else value


_Fault = tuple[str, str] | None


def _left_to_kernels(_attrs: Mapping[str, Any]) -> _Fault:
    """ONNX leaves parts of these open, onnx is wrong in others, and kernels take every dtype."""
    return "an operator that onnx computes as ONNX Runtime does", "one that it does not"


def _regressor(attrs: Mapping[str, Any]) -> _Fault:
    """ONNX Runtime ignores most transforms of one target, and onnx knows none of them."""
    transform = attrs.get("post_transform", "NONE")
    return None if transform == "NONE" else ("post_transform NONE", f"post_transform {transform}")


def _label_encoder(attrs: Mapping[str, Any]) -> _Fault:
    """No key of onnx equals NaN."""
    keys = attrs.get("keys_floats", [])
    if "keys_tensor" in attrs:
        keys = numpy_helper.to_array(attrs["keys_tensor"]).tolist()
    return ("keys without NaN", "NaN") if any(key != key for key in keys) else None


def _linear_regressor(attrs: Mapping[str, Any]) -> _Fault:
    if not attrs.get("intercepts") and attrs.get("targets", 1) > 1:
        return "intercepts, or one target", "several targets without"
    return _regressor(attrs)


def _svm_regressor(attrs: Mapping[str, Any]) -> _Fault:
    if not attrs.get("kernel_params"):
        return "kernel_params", "none"
    return _regressor(attrs)


def _convolution(attrs: Mapping[str, Any]) -> _Fault:
    padding = attrs.get("auto_pad", "NOTSET")
    if _is_old() and padding != "NOTSET":
        return "auto_pad NOTSET, or a newer onnx", f"auto_pad {padding}"
    return None


def _dft(attrs: Mapping[str, Any]) -> _Fault:
    if _is_old() and attrs.get("inverse") and attrs.get("onesided"):
        return "inverse or onesided, or a newer onnx", "both"
    return None


def _reduction(attrs: Mapping[str, Any]) -> _Fault:
    if _is_old() and attrs.get("noop_with_empty_axes"):
        return "noop_with_empty_axes 0, or a newer onnx", "noop_with_empty_axes 1"
    return None


def _is_old() -> bool:
    """Tell whether onnx may be a version whose classes were corrected until 1.23."""
    release = onnx.__version__.split(".")[:2]
    return [int(part) for part in release] < [1, 23]


def _range(attrs: Mapping[str, Any]) -> _Fault:
    if attrs.get("stash_type", 1) not in (TensorProto.FLOAT, TensorProto.DOUBLE):
        return "stash_type 1 or 11", f"stash_type {attrs['stash_type']}"
    return None


def _random(attrs: Mapping[str, Any]) -> _Fault:
    floats = (TensorProto.FLOAT16, TensorProto.FLOAT, TensorProto.DOUBLE, TensorProto.BFLOAT16)
    dtype = attrs.get("dtype", TensorProto.FLOAT)
    return None if dtype in floats else ("a float dtype", f"dtype {dtype}")


def _constant(attrs: Mapping[str, Any]) -> _Fault:
    if "sparse_value" in attrs:
        return "a dense value", "sparse_value"
    return None


def _regex_full_match(attrs: Mapping[str, Any]) -> _Fault:
    if "pattern" not in attrs:
        return "a pattern", "none"
    return None


def _attention(attrs: Mapping[str, Any]) -> _Fault:
    if _is_old():
        # It takes heads for one another, and gives NaN for rows that are masked as a whole.
        return "onnx 1.23 or newer", onnx.__version__
    return None


def _cast_like(attrs: Mapping[str, Any]) -> _Fault:
    if attrs.get("round_mode", "up") != "up":
        return "round_mode up", f"round_mode {attrs['round_mode']}"
    return None


def _cast(attrs: Mapping[str, Any]) -> _Fault:
    if attrs.get("to") == _E8M0 and not attrs.get("saturate", 1):
        return "saturate 1 where `to` is FLOAT8E8M0", "saturate 0"
    return None


_REFUSALS: dict[str, Callable[[Mapping[str, Any]], _Fault]] = {
    "::RandomNormal": _random,
    "::RandomNormalLike": _random,
    "::RandomUniform": _random,
    "::RandomUniformLike": _random,
    "::Attention": _attention,
    "::Cast": _cast,
    "::CastLike": _cast_like,
    "::Constant": _constant,
    "::Conv": _convolution,
    "::ConvInteger": _convolution,
    "::DFT": _dft,
    "::QLinearConv": _convolution,
    "::Range": _range,
    **dict.fromkeys(("::ReduceMax", "::ReduceMean", "::ReduceMin", "::ReduceProd"), _reduction),
    "::RegexFullMatch": _regex_full_match,
    "ai.onnx.ml::LabelEncoder": _label_encoder,
    "ai.onnx.ml::LinearClassifier": _left_to_kernels,
    "ai.onnx.ml::LinearRegressor": _linear_regressor,
    "ai.onnx.ml::SVMClassifier": _left_to_kernels,
    "ai.onnx.ml::SVMRegressor": _svm_regressor,
    "ai.onnx.ml::TreeEnsemble": _left_to_kernels,
    "ai.onnx.ml::TreeEnsembleClassifier": _left_to_kernels,
    "ai.onnx.ml::TreeEnsembleRegressor": _left_to_kernels,
}
