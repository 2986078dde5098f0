"""Which operator is corrected in which of its versions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

from onnx import AttributeProto, helper

from pyopnb.catalog.index import entries, entries_named
from pyopnb.onnx_reference.attributes import default_of, has_default
from pyopnb.onnx_reference.corrections import (
    convolution,
    indexing,
    normalization,
    pooling,
    recurrent,
    softmax,
)

__all__ = ["corrected_names", "correction_of", "is_corrected"]

_NEWEST = 2**31

# The first and the last version of ONNX in which a function serves.
_FUNCTIONS: dict[str, tuple[tuple[int, int, Callable[..., Any]], ...]] = {
    "AveragePool": ((1, _NEWEST, pooling.average_pool),),
    "ConvTranspose": ((1, _NEWEST, convolution.conv_transpose),),
    "GatherElements": ((11, _NEWEST, indexing.gather_elements),),
    "GRU": ((7, _NEWEST, recurrent.gru),),
    "GlobalMaxPool": ((1, _NEWEST, pooling.global_max_pool),),
    "Hardmax": ((1, 12, softmax.hardmax),),
    "LRN": ((1, _NEWEST, normalization.local_response_normalization),),
    "LSTM": ((7, _NEWEST, recurrent.lstm),),
    "LogSoftmax": ((1, 12, softmax.log_softmax),),
    "LpNormalization": ((1, _NEWEST, normalization.lp_normalization),),
    "LpPool": ((1, _NEWEST, pooling.lp_pool),),
    "MaxPool": ((1, _NEWEST, pooling.max_pool),),
    # onnx puts the value into a list, which OptionalGetElement does not take apart.
    "Optional": ((15, _NEWEST, lambda value=None, type=None: value),),
    "RNN": ((7, _NEWEST, recurrent.rnn),),
    "Softmax": ((1, 12, softmax.softmax),),
}


@cache
def corrected_names() -> frozenset[str]:
    """Return the operators of ONNX's own domain of which any version is corrected."""
    names = set(_FUNCTIONS)
    for entry in entries():
        if entry.versions:
            names.update(name.removeprefix("::") for name in entry.names)
    return frozenset(names)


def is_corrected(domain: str, op_type: str) -> bool:
    """Tell whether any version of an operator is corrected."""
    return not domain and op_type in corrected_names()


def correction_of(
    schema: Any, attributes: Mapping[str, AttributeProto], outputs: int
) -> Callable[..., tuple[Any, ...]] | None:
    """Return what runs an operator in the place of onnx's class; None if that class is correct."""
    if not is_corrected(schema.domain, schema.name):
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
    function = _function_of(schema.name, schema.since_version, values)
    if function is None:
        return None

    def compute(*inputs: Any) -> tuple[Any, ...]:
        results = function(*inputs)
        return results[:outputs] if isinstance(results, tuple) else (results,)

    return compute


def _function_of(op_type: str, version: int, values: dict[str, Any]) -> Callable[..., Any] | None:
    for first, last, function in _FUNCTIONS.get(op_type, ()):
        if first <= version <= last:
            return lambda *inputs: function(*inputs, **values)
    # The catalogue has operators of ONNX's first versions.
    for entry in entries_named(f"::{op_type}"):
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
