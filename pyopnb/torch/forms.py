"""Replace wrong forms of the exporter: divisions that round down, and their remainders."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import onnx_ir
import torch
from onnxscript import opset18
from onnxscript.function_libs.torch_lib.ops import core, prims

from pyopnb.torch.calls import arguments_of, insert_call
from pyopnb.torch.program import calls_in

__all__ = ["scaled_by_fractions", "translations_of_forms", "widen_divisions"]

_ROUNDED = (torch.ops.aten.floor_divide, torch.ops.aten.remainder, torch.ops.aten.div)


def widen_divisions(program: Any) -> None:
    """Let narrow floats be divided in float32, as torch does where a quotient is rounded.

    Parameters
    ----------
    program : torch.export.ExportedProgram
        It is changed.
    """
    for node in list(calls_in(program)):
        if getattr(node.target, "overloadpacket", None) not in _ROUNDED:
            continue
        dtype = node.meta["val"].dtype
        is_exact = node.target in (torch.ops.aten.div.Tensor, torch.ops.aten.div.Scalar)
        if dtype in (torch.float16, torch.bfloat16) and not is_exact:
            _widen(node, dtype)


def scaled_by_fractions(program: Any) -> list[Any]:
    """List the calls that resize an open size by a factor with which Resize rounds differently.

    Between 1 and 1.5 a small size stays the same, and torch copies it. Halves and quarters have
    the same sizes and elements in float32, which Resize computes in.

    Parameters
    ----------
    program : torch.export.ExportedProgram
    """
    calls = []
    for node in calls_in(program):
        if not str(node.target).startswith(("aten.upsample_", "aten._upsample_")):
            continue
        values = {parameter.name: value for parameter, value in arguments_of(node)}
        sizes = node.all_input_nodes[0].meta["val"].shape[2:]
        for size, scale in zip(sizes, values.get("scale_factors") or (), strict=False):
            is_exact = scale in (1.0, 1.5) or (scale * 4 in range(1, 33) and not 1 < scale < 1.5)
            if not isinstance(size, int) and not is_exact:
                calls.append(node)
                break
    return calls


def _widen(node: Any, dtype: Any) -> None:
    cast = torch.ops.aten.to.dtype
    entries = []
    for entry in node.args:
        is_tensor = isinstance(entry, torch.fx.Node)
        entries.append(insert_call(node, cast, entry, torch.float32) if is_tensor else entry)
    node.args = tuple(entries)
    node.meta["val"] = node.meta["val"].float()
    result = insert_call(node, cast, node, dtype, after=True)
    node.replace_all_uses_with(result, delete_user_cb=lambda user: user is not result)


def translations_of_forms() -> dict[Any, Callable[..., Any]]:
    """Return translations for ``torch.onnx.export`` of such ops (torch 2.13, onnxscript 0.7)."""
    aten = torch.ops.aten
    return {
        aten.remainder.Tensor: _remainder,
        aten.remainder.Scalar: _remainder,
        aten.remainder.Scalar_Tensor: _remainder,
        aten.floor_divide.default: _floor_divide,
        aten.div.Tensor_mode: _divide,
        aten.log_sigmoid.default: _log_sigmoid,
        aten.log_sigmoid_forward.default: _log_sigmoid_forward,
        aten.log1p.default: _log1p,
        aten.expm1.default: _expm1,
        aten.sign.default: _sign,
        aten.sgn.default: _sign,
        aten.scalar_tensor.default: _scalar_tensor,
        aten.clamp.default: _clamp,
        aten.clamp_min.default: _clamp,
        aten.clamp_max.default: _clamp_max,
        aten.clamp_min.Tensor: _clamp_min_by_tensor,
        aten.clamp_max.Tensor: _clamp_max_by_tensor,
        aten.mean.default: _mean,
        aten.mean.dim: _mean_along,
        aten.mse_loss.default: _mse_loss,
        aten.cross_entropy_loss.default: _cross_entropy,
        torch.ops.prims.var.default: _var,
        aten.any.default: _any,
        aten.any.dim: _any,
        aten.any.dims: _any,
    }


def _remainder(dividend: Any, divisor: Any) -> Any:
    """Take the remainder with the divisor's sign, which a subtraction loses for large numbers."""
    tensor = divisor if isinstance(dividend, (int, float)) else dividend
    dividend, divisor = opset18.CastLike(dividend, tensor), opset18.CastLike(divisor, tensor)
    if tensor.dtype.is_integer():
        return opset18.Mod(dividend, divisor)
    rest = opset18.Mod(dividend, divisor, fmod=1)
    return opset18.Where(_is_below(rest, divisor), opset18.Add(rest, divisor), rest)


def _floor_divide(dividend: Any, divisor: Any) -> Any:
    """Divide by the exact remainder, as torch does: 1.0 // 0.1 is 9."""
    if dividend.dtype.is_integer():
        return core.aten_floor_divide(dividend, divisor)
    quotient = opset18.Div(dividend, divisor)
    rest = opset18.Mod(dividend, divisor, fmod=1)
    whole = opset18.Div(opset18.Sub(dividend, rest), divisor)
    one = opset18.CastLike(1.0, dividend)
    whole = opset18.Where(_is_below(rest, divisor), opset18.Sub(whole, one), whole)
    whole = opset18.Round(whole)
    zero = opset18.CastLike(0.0, dividend)
    whole = opset18.Where(opset18.Equal(whole, zero), opset18.Mul(quotient, zero), whole)
    return opset18.Where(opset18.Equal(divisor, zero), quotient, whole)


def _is_below(rest: Any, divisor: Any) -> Any:
    """Tell where a remainder, which has the dividend's sign, has another one than the divisor."""
    zero = opset18.CastLike(0.0, divisor)
    has_rest = opset18.Not(opset18.Equal(rest, zero))
    differ = opset18.Xor(opset18.Less(rest, zero), opset18.Less(divisor, zero))
    return opset18.And(has_rest, differ)


def _divide(dividend: Any, divisor: Any, rounding_mode: str | None = None) -> Any:
    if rounding_mode == "floor" and dividend.dtype.is_floating_point():
        return _floor_divide(dividend, divisor)
    return core.aten_div_mode(dividend, divisor, rounding_mode)


def _log_sigmoid(inputs: Any) -> Any:
    """Write it by softplus, which does not underflow, and has no kernel for float64."""
    if inputs.dtype.name == "DOUBLE":
        return opset18.Log(opset18.Sigmoid(inputs))
    return opset18.Neg(opset18.Softplus(opset18.Neg(inputs)))


def _log_sigmoid_forward(inputs: Any) -> tuple[Any, Any]:
    return _log_sigmoid(inputs), opset18.Sigmoid(inputs)


def _log1p(inputs: Any) -> Any:
    """Keep small numbers: the ratio gives back the digits that the sum rounds away."""
    one = opset18.CastLike(1, inputs)
    total = opset18.Add(inputs, one)
    rounded = opset18.Sub(total, one)
    logarithm = opset18.Log(total)
    mended = opset18.Mul(logarithm, opset18.Div(inputs, rounded))
    mended = opset18.Where(opset18.Equal(rounded, inputs), logarithm, mended)
    return opset18.Where(opset18.Equal(total, one), inputs, mended)


def _expm1(inputs: Any) -> Any:
    """Keep small numbers: the logarithm tells by how much the exponential was rounded."""
    one = opset18.CastLike(1, inputs)
    power = opset18.Exp(inputs)
    difference = opset18.Sub(power, one)
    mended = opset18.Mul(difference, opset18.Div(inputs, opset18.Log(power)))
    mended = opset18.Where(opset18.Less(opset18.Abs(inputs), one), mended, difference)
    return opset18.Where(opset18.Equal(power, one), inputs, mended)


def _sign(inputs: Any) -> Any:
    """Give 0 for NaN, as torch does."""
    zero = opset18.CastLike(0, inputs)
    above = opset18.CastLike(opset18.Greater(inputs, zero), inputs)
    return opset18.Sub(above, opset18.CastLike(opset18.Less(inputs, zero), inputs))


def _scalar_tensor(value: Any, dtype: int = 1, **_: Any) -> Any:
    """Keep all digits of a float64."""
    if not isinstance(value, (int, float)):
        return opset18.Cast(value, to=dtype)
    return opset18.Constant(value=onnx_ir.tensor(value, onnx_ir.DataType(dtype)))


def _clamp(inputs: Any, min: Any = None, max: Any = None) -> Any:
    """Give both bounds: with one of them, infinity becomes the largest finite number."""
    bounds = [min, max]
    for number, infinity in enumerate((float("-inf"), float("inf"))):
        if bounds[number] is None and inputs.dtype.is_floating_point():
            bounds[number] = infinity
        if bounds[number] is not None:
            bounds[number] = opset18.CastLike(bounds[number], inputs)
    return opset18.Clip(inputs, *bounds)


def _clamp_max(inputs: Any, max: Any) -> Any:
    return _clamp(inputs, None, max)


def _clamp_min_by_tensor(inputs: Any, bound: Any) -> Any:
    return opset18.Max(inputs, bound) if len(bound.shape) else _clamp(inputs, bound)


def _clamp_max_by_tensor(inputs: Any, bound: Any) -> Any:
    return opset18.Min(inputs, bound) if len(bound.shape) else _clamp(inputs, None, bound)


def _mean(inputs: Any, dtype: int = -1) -> Any:
    return _nan_of_nothing(core.aten_mean(inputs, dtype), inputs, None)


def _mean_along(inputs: Any, dim: Any, keepdim: bool = False, dtype: int = -1) -> Any:
    return _nan_of_nothing(core.aten_mean_dim(inputs, dim, keepdim, dtype), inputs, dim)


def _mse_loss(inputs: Any, target: Any, reduction: int = 1) -> Any:
    difference = opset18.Sub(inputs, target)
    squares = opset18.Mul(difference, difference)
    if reduction == 0:
        return squares
    if reduction == 2:
        return opset18.ReduceSum(squares, keepdims=0)
    return _nan_of_nothing(opset18.ReduceMean(squares, keepdims=0), inputs, None)


def _cross_entropy(
    inputs: Any,
    target: Any,
    weight: Any = None,
    reduction: int = 1,
    ignore_index: int = -100,
    label_smoothing: float = 0.0,
) -> Any:
    """Write two operators, as the kernel of SoftmaxCrossEntropyLoss raises for no rows."""
    if label_smoothing:
        raise NotImplementedError("label_smoothing")
    attrs = {"reduction": ("none", "mean", "sum")[reduction], "ignore_index": ignore_index}
    logs = opset18.LogSoftmax(inputs, axis=1)
    return opset18.NegativeLogLikelihoodLoss(logs, target, weight, **attrs)


def _var(inputs: Any, dims: Any, correction: float = 1.0) -> Any:
    return _nan_of_nothing(prims.prims_var(inputs, dims, correction), inputs, dims)


def _nan_of_nothing(result: Any, inputs: Any, dim: Any) -> Any:
    """Add 0 / n, which is NaN where there is nothing, while the mean of an operator is 0."""
    axes = [dim] if isinstance(dim, int) else list(dim or range(len(inputs.shape)))
    if all(isinstance(inputs.shape[axis], int) for axis in axes):
        return result
    sizes = opset18.Gather(opset18.Shape(inputs), opset18.Constant(value_ints=axes))
    count = opset18.CastLike(opset18.ReduceProd(sizes, keepdims=0), result)
    return opset18.Add(result, opset18.Div(opset18.CastLike(0.0, result), count))


def _any(inputs: Any, dim: Any = None, keepdim: bool = False) -> Any:
    """Count, as the largest of no numbers is the lowest integer, which is true."""
    counts = opset18.Cast(opset18.Cast(inputs, to=9), to=7)
    dims = [dim] if isinstance(dim, int) else dim
    axes = opset18.Constant(value_ints=list(dims)) if dims else None
    return opset18.Cast(opset18.ReduceSum(counts, axes, keepdims=int(keepdim)), to=9)
