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
_Fault = tuple[str, str] | None

# ONNX leaves parts of these open, onnx is wrong in others, and ONNX Runtime takes every dtype.
_LEFT_TO_KERNELS = (
    *("ai.onnx.ml::LinearClassifier", "ai.onnx.ml::SVMClassifier", "ai.onnx.ml::TreeEnsemble"),
    *("ai.onnx.ml::TreeEnsembleClassifier", "ai.onnx.ml::TreeEnsembleRegressor"),
)
# Attributes with the values for which the onnx class is correct, the default first.
_CORRECT_VALUES: dict[str, tuple[str, tuple[Any, ...]]] = {
    "::CastLike": ("round_mode", ("up",)),
    "::LayerNormalization": ("stash_type", (TensorProto.FLOAT,)),
    "::Range": ("stash_type", (TensorProto.FLOAT, TensorProto.DOUBLE)),
    # ONNX Runtime ignores most transforms of one target, and onnx knows none of them.
    "ai.onnx.ml::LinearRegressor": ("post_transform", ("NONE",)),
    "ai.onnx.ml::SVMRegressor": ("post_transform", ("NONE",)),
}
# Attributes that, all set, the classes before onnx 1.23 get wrong.
_WRONG_WHEN_OLD: dict[str, tuple[str, ...]] = {
    # It takes heads for one another, and gives NaN for rows that are masked as a whole.
    "::Attention": (),
    "::Conv": ("auto_pad",),
    "::ConvInteger": ("auto_pad",),
    "::DFT": ("inverse", "onesided"),
    "::DequantizeLinear": ("output_dtype",),
    "::QLinearConv": ("auto_pad",),
    # Its sums wrap around.
    "::QLinearMatMul": (),
    "::ReduceL1": ("noop_with_empty_axes",),
    "::ReduceL2": ("noop_with_empty_axes",),
    "::ReduceMax": ("noop_with_empty_axes",),
    "::ReduceMean": ("noop_with_empty_axes",),
    "::ReduceMin": ("noop_with_empty_axes",),
    "::ReduceProd": ("noop_with_empty_axes",),
    "::ReduceSumSquare": ("noop_with_empty_axes",),
}
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
    name = f"{domain}::{op_type}"
    if name not in _JUDGED:
        return
    values = {name: _plain(attr) for name, attr in attrs.items() if not attr.ref_attr_name}
    fault = _fault_of(name, values)
    if fault is not None:
        expected, got = fault
        raise ModelError(where, expected=expected, got=sanitize(got), next=_NEXT)


def _fault_of(name: str, attrs: Mapping[str, Any]) -> _Fault:
    if name in _LEFT_TO_KERNELS:
        return "an operator that onnx computes as ONNX Runtime does", "one that it does not"
    if name in _CORRECT_VALUES:
        attr, values = _CORRECT_VALUES[name]
        value = attrs.get(attr, values[0])
        if value not in values:
            return f"{attr} {' or '.join(map(str, values))}", f"{attr} {value}"
    if name in _WRONG_WHEN_OLD and _is_old():
        given = [attrs.get(attr, 0) for attr in _WRONG_WHEN_OLD[name]]
        if not any(value in (0, "NOTSET") for value in given):
            return " ".join(("onnx 1.23 or newer for", *_WRONG_WHEN_OLD[name])), onnx.__version__
    if name in _REFUSALS:
        return _REFUSALS[name](attrs)
    return None


def _plain(attr: AttributeProto) -> Any:
    value = helper.get_attribute_value(attr)
    return value.decode(errors="replace") if isinstance(value, bytes) else value


def _loss(attrs: Mapping[str, Any]) -> _Fault:
    # The onnx class takes -1 for no attribute.
    if attrs.get("ignore_index") == -1:
        return "ignore_index other than -1", "-1"
    return None


def _string_split(attrs: Mapping[str, Any]) -> _Fault:
    """White space at the end stays, which is no part of what is split."""
    if attrs.get("maxsplit", -1) >= 0 and not attrs.get("delimiter"):
        return "a delimiter, or no maxsplit", "maxsplit alone"
    return None


def _label_encoder(attrs: Mapping[str, Any]) -> _Fault:
    """No key of onnx equals NaN."""
    keys = attrs.get("keys_floats", [])
    if "keys_tensor" in attrs:
        keys = numpy_helper.to_array(attrs["keys_tensor"]).tolist()
    return ("keys without NaN", "NaN") if any(key != key for key in keys) else None


def _linear_regressor(attrs: Mapping[str, Any]) -> _Fault:
    if not attrs.get("intercepts") and attrs.get("targets", 1) > 1:
        return "intercepts, or one target", "several targets without"
    return None


def _svm_regressor(attrs: Mapping[str, Any]) -> _Fault:
    if not attrs.get("kernel_params"):
        return "kernel_params", "none"
    return None


def _is_old() -> bool:
    """Tell whether onnx may be a version whose classes were corrected until 1.23."""
    release = onnx.__version__.split(".")[:2]
    return [int(part) for part in release] < [1, 23]


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


def _cast(attrs: Mapping[str, Any]) -> _Fault:
    if attrs.get("to") == _E8M0 and not attrs.get("saturate", 1):
        return "saturate 1 where `to` is FLOAT8E8M0", "saturate 0"
    return None


_REFUSALS: dict[str, Callable[[Mapping[str, Any]], _Fault]] = {
    "::RandomNormal": _random,
    "::RandomNormalLike": _random,
    "::RandomUniform": _random,
    "::RandomUniformLike": _random,
    "::Cast": _cast,
    "::Constant": _constant,
    "::NegativeLogLikelihoodLoss": _loss,
    "::RegexFullMatch": _regex_full_match,
    "::StringSplit": _string_split,
    "ai.onnx.ml::LabelEncoder": _label_encoder,
    "ai.onnx.ml::LinearRegressor": _linear_regressor,
    "ai.onnx.ml::SVMRegressor": _svm_regressor,
}
_JUDGED = frozenset((*_LEFT_TO_KERNELS, *_CORRECT_VALUES, *_WRONG_WHEN_OLD, *_REFUSALS))
