"""Which operator is corrected in which of its versions."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

from onnx import AttributeProto, helper

from pyopnb.catalog import entries, entries_named
from pyopnb.engine import op_names
from pyopnb.onnx_reference.attributes import default_of, has_default
from pyopnb.onnx_reference.corrections import (
    convolution,
    elementwise,
    features,
    indexing,
    normalization,
    pooling,
    quantization,
    recurrent,
    reductions,
    resize,
    sampling,
    shaping,
    softmax,
    texts,
)
from pyopnb.onnx_reference.mends import MENDED_INPUTS

__all__ = ["corrected_operators", "correction_of"]

_NEWEST = 2**31

# The first and the last version of the domain in which a function serves. Operators outside of
# the ONNX domain have its name before theirs.
_FUNCTIONS: dict[str, tuple[tuple[int, int, Callable[..., Any]], ...]] = {
    "ArgMax": ((1, _NEWEST, indexing.arg_max),),
    "ArgMin": ((1, _NEWEST, indexing.arg_min),),
    "AveragePool": ((7, _NEWEST, pooling.average_pool),),
    "BatchNormalization": ((7, _NEWEST, normalization.batch_normalization),),
    "ConvTranspose": ((1, _NEWEST, convolution.conv_transpose),),
    "GatherElements": ((11, _NEWEST, indexing.gather_elements),),
    "Dropout": ((10, 10, elementwise.dropout_10),),
    "Flatten": ((1, _NEWEST, indexing.flatten),),
    "GRU": ((7, _NEWEST, recurrent.gru),),
    "GridSample": ((16, _NEWEST, sampling.grid_sample),),
    "GlobalLpPool": ((2, _NEWEST, pooling.global_lp_pool),),
    "GlobalMaxPool": ((1, _NEWEST, pooling.global_max_pool),),
    "Hardmax": ((1, 12, softmax.hardmax_1),),
    "LRN": ((1, _NEWEST, normalization.local_response_normalization),),
    "LSTM": ((7, _NEWEST, recurrent.lstm),),
    "LogSoftmax": ((1, 12, softmax.log_softmax_1), (13, _NEWEST, softmax.log_softmax)),
    "LpNormalization": ((1, _NEWEST, normalization.lp_normalization),),
    "LpPool": ((1, _NEWEST, pooling.lp_pool),),
    "MaxPool": ((1, _NEWEST, pooling.max_pool),),
    "MeanVarianceNormalization": ((9, _NEWEST, normalization.mean_variance_normalization),),
    "Mean": ((8, _NEWEST, elementwise.mean),),
    "NonZero": ((9, _NEWEST, shaping.non_zero),),
    "OneHot": ((9, _NEWEST, indexing.one_hot),),
    # onnx puts the value into a list, which OptionalGetElement does not take apart.
    "Optional": ((15, _NEWEST, lambda value=None, type=None: value),),
    "Pad": ((2, 2, indexing.pad_2), (11, _NEWEST, indexing.pad)),
    "QuantizeLinear": ((10, _NEWEST, quantization.quantize_linear),),
    "RNN": ((7, _NEWEST, recurrent.rnn),),
    "ReduceLogSum": ((1, _NEWEST, reductions.log_sum),),
    "ReduceLogSumExp": ((1, _NEWEST, reductions.log_sum_exp),),
    "Reshape": ((1, 4, shaping.reshape_1),),
    "Resize": ((10, 10, resize.resize_10), (11, _NEWEST, resize.resize)),
    "ScatterElements": ((11, _NEWEST, shaping.scatter_elements),),
    "ScatterND": ((11, _NEWEST, shaping.scatter_nd),),
    "SequenceInsert": ((11, _NEWEST, shaping.insert),),
    "Softmax": ((1, 12, softmax.softmax_1),),
    "ai.onnx.ml::LabelEncoder": ((1, 1, features.label_encoder_1),),
    "ai.onnx.ml::Normalizer": ((1, _NEWEST, features.normalizer),),
    "Split": ((1, 1, shaping.split_1),),
    "Softplus": ((1, _NEWEST, shaping.softplus),),
    "Softsign": ((1, _NEWEST, shaping.softsign),),
    "Squeeze": ((1, 12, shaping.squeeze),),
    "StringNormalizer": ((10, _NEWEST, texts.string_normalizer),),
    "Unique": ((11, _NEWEST, shaping.unique),),
    "Unsqueeze": ((1, 12, shaping.unsqueeze),),
    "Upsample": ((7, 8, resize.upsample_7), (9, 9, resize.resize_10)),
}


@cache
def corrected_operators() -> frozenset[tuple[str, str]]:
    """Return domain and name of each operator with a corrected version."""
    names = [name if "::" in name else f"::{name}" for name in _FUNCTIONS]
    names += MENDED_INPUTS
    for entry in entries():
        if entry.versions:
            names += entry.names
    return frozenset(op_names.split_name(name) for name in names)


def correction_of(
    schema: Any, attributes: Mapping[str, AttributeProto], outputs: int
) -> Callable[..., tuple[Any, ...]] | None:
    """Return the correction that replaces the onnx class; None if that class is correct."""
    if (schema.domain, schema.name) not in corrected_operators():
        return None
    values = {}
    for name, attr in schema.attributes.items():
        # In a function, a node may have the attrs of a call, whose values are not known here.
        if name in attributes and not attributes[name].ref_attr_name:
            values[name] = _value(attributes[name])
        elif has_default(attr):
            values[name] = _value(default_of(attr))
    # They only let a runtime write over its inputs.
    values.pop("consumed_inputs", None)
    name = f"{schema.domain}::{schema.name}"
    function = _function_of(name, schema.since_version, values, outputs)
    if function is None:
        return None

    def compute(*inputs: Any) -> tuple[Any, ...]:
        results = function(*inputs)
        return results[:outputs] if isinstance(results, tuple) else (results,)

    return compute


def _function_of(
    name: str, version: int, values: dict[str, Any], outputs: int
) -> Callable[..., Any] | None:
    for first, last, function in _FUNCTIONS.get(name.removeprefix("::"), ()):
        if first <= version <= last:
            if "outputs" in inspect.signature(function).parameters:
                values = {**values, "outputs": outputs}
            return lambda *inputs: function(*inputs, **values)
    # The catalog has operators of the first ONNX versions.
    for entry in entries_named(name):
        if version in entry.versions:
            compute: Callable[..., Any] = entry.op_class(**values).compute
            return compute
    return None


def _value(attribute: AttributeProto) -> Any:
    value = helper.get_attribute_value(attribute)
    if isinstance(value, bytes):
        return value.decode()
    if isinstance(value, list):
        return [item.decode() if isinstance(item, bytes) else item for item in value]
    return value
