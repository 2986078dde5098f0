"""Pairs of tensors of a quantized model and of the float model that it was made from.

The quantized graph contains scales and zero points, so every quantized tensor can be
dequantized. It corresponds to the float tensor that was quantized, or that has its name without
the endings that quantizers add; where the quantizer absorbed the activation after a node, to
the result of that activation.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

import ml_dtypes
import numpy as np
from onnx import ModelProto, NodeProto

from pyopnb.diffs.arrays.diff import compared
from pyopnb.diffs.traces.align import Alignment, Pair
from pyopnb.diffs.traces.quantized import QuantizedTensor
from pyopnb.diffs.traces.segments import Side, called

__all__ = ["ABSORBED_OPS", "QuantizedTensors", "Scale", "is_quantized", "signal_to_noise"]

_INTEGER_OPS = ("MatMulInteger", "ConvInteger")
# Places in a node of a quantized tensor, its scale and its zero point: inputs count from 0, and
# outputs from here.
_OUT = 10
_RESULT_AND_WEIGHT = ((_OUT, 6, 7), (3, 4, 5))
_SCALES = MappingProxyType(
    {
        "QuantizeLinear": ((_OUT, 1, 2),),
        "DequantizeLinear": ((0, 1, 2),),
        "DynamicQuantizeLinear": ((_OUT, _OUT + 1, _OUT + 2),),
        "QLinearConv": _RESULT_AND_WEIGHT,
        "QLinearMatMul": _RESULT_AND_WEIGHT,
        "QLinearAdd": _RESULT_AND_WEIGHT,
        "QLinearMul": _RESULT_AND_WEIGHT,
        "QGemm": ((_OUT, 7, 8), (3, 4, 5)),
        "QLinearConcat": ((_OUT, 0, 1),),
    }
)
_OTHER_SCALES = ((_OUT, 3, 4),)
# The input at which an operator on quantized tensors has its bias.
_BIASES = MappingProxyType({"QLinearConv": 8, "QGemm": 6})
_TRANSPOSED = "_Transposed_quantized"
# Endings that quantizers add to the name of a tensor, the longest first.
_ENDINGS = (
    "_DequantizeLinear_Output_1",
    "_DequantizeLinear_Output",
    "_QuantizeLinear_Output",
    "_QuantizeLinear_Input",
    "_QuantizeInput",
    _TRANSPOSED,
    "_quantized",
    "_DQ_Q8",
    "_DQ_Q4",
    "_DQ_Q2",
)
# What MatMulNBits and its kind round their input to, by accuracy_level.
_ROUNDED_TO = MappingProxyType({2: "float16", 3: "bfloat16", 4: "int8"})
ABSORBED_OPS = ("Relu", "Clip")
"""Activations that a quantizer leaves to the range of a scale."""


def is_quantized(model: ModelProto) -> bool:
    """Tell whether nodes of a model's main graph compute with quantized numbers."""
    return any(_computes_with_scales(node.op_type) for node in model.graph.node)


def _computes_with_scales(op: str) -> bool:
    return op in (*_SCALES, *_INTEGER_OPS, "MatMulNBits") or op.startswith("QLinear")


@dataclass(frozen=True)
class Scale:
    """A scale and a zero point that broadcast to their tensor, and the quantized dtype."""

    scale: np.ndarray
    zero_point: np.ndarray
    dtype: np.dtype

    @property
    def is_integer(self) -> bool:
        return _is_integer(self.dtype)

    def limits(self) -> tuple[float, float]:
        # NumPy does not know the integers of four bits, ml_dtypes knows all.
        info: Any = ml_dtypes.iinfo if self.is_integer else ml_dtypes.finfo
        limits = info(self.dtype)
        return float(limits.min), float(limits.max)

    def dequantize(self, quantized: np.ndarray) -> np.ndarray:
        # As ONNX Runtime does: exact up to the product with the scale, which is in float32.
        steps = quantized.astype(np.float64) - self.zero_point
        result: np.ndarray = steps.astype(np.float32) * self.scale
        return result

    def rounded(self, values: np.ndarray) -> np.ndarray:
        """Round to the levels, and dequantize them."""
        low, high = self.limits()
        if self.is_integer:
            levels = np.clip(np.rint(values / self.scale) + self.zero_point, low, high)
        else:
            levels = np.clip(values / self.scale, low, high).astype(self.dtype)
        result: np.ndarray = (levels.astype(np.float64) - self.zero_point) * self.scale
        return result.astype(values.dtype)

    def range(self) -> tuple[float, float]:
        least, most = ((limit - self.zero_point) * self.scale for limit in self.limits())
        return float(np.min(least)), float(np.max(most))

    def saturated(self, values: np.ndarray) -> float:
        """Return the share of values that are over half a step outside the range."""
        low, high = self.limits()
        levels = values / self.scale + self.zero_point
        beyond = (levels < low - 0.5) | (levels > high + 0.5)
        if values.size:
            return float(np.mean(beyond))
        return 0.0


@dataclass
class QuantizedTensors:
    """The quantized tensors of a run, and the float tensors of another run that they replace.

    Attributes
    ----------
    sides : tuple of Side
        The run of the float model, and the run of the quantized one.
    alignment : Alignment
        By structure and names, for tensors that the quantizer renamed.
    arrays : dict
        The numbers of b's tensors after dequantization.
    scales : dict
        By the names of quantized tensors in b.
    partners : dict
        The float tensors or weights in a, by the names of quantized tensors in b.
    dynamic : set of str
        Quantized tensors whose scales were made in the run.
    """

    sides: tuple[Side, Side]
    alignment: Alignment
    arrays: dict[str, Any] = field(default_factory=dict)
    scales: dict[str, Scale] = field(default_factory=dict)
    partners: dict[str, str] = field(default_factory=dict)
    dynamic: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.a, self.b = self.sides
        self.arrays = dict(self.b.arrays)
        self.floats = self.a.arrays
        self._aligned = {pair.b: pair.a for pair in self.alignment.pairs}
        # The input of QuantizeLinear, and the output of DequantizeLinear, by the quantized tensor.
        self._sources: dict[str, str] = {}
        self._results: dict[str, str] = {}
        self._readers: dict[str, list[NodeProto]] = {}
        self._biases: set[str] = set()
        for node in self.a.graph.nodes:
            for name in node.input:
                self._readers.setdefault(name, []).append(node)
        for node in self.b.graph.nodes:
            self._read_node(node)
        for name in self.scales:
            partner = self._partner(name)
            if partner is not None:
                self.partners[name] = partner

    # ---- scales

    def _read_node(self, node: NodeProto) -> None:
        """Record the scales that a quantized node gives for its inputs and result."""
        names = [*[*node.input, *[""] * _OUT][:_OUT], *node.output, ""]
        x = names[0]
        output = names[_OUT]
        op = node.op_type
        if op in ("QuantizeLinear", "DynamicQuantizeLinear"):
            self._sources[output] = x
        if op == "DynamicQuantizeLinear":
            self.dynamic.add(output)
        if op == "DequantizeLinear":
            self._results.setdefault(x, output)
        if op in _INTEGER_OPS:
            self._read_integers(node, names)
        elif op == "MatMulNBits":
            self._add_packed(node, names)
        elif _computes_with_scales(op):
            for places in _SCALES.get(op, _OTHER_SCALES):
                quantized, scale, zero_point = (names[place] for place in places)
                self._add(quantized, scale, zero_point, node)
            if op in _BIASES:
                self._add_bias(names[_BIASES[op]], names[1], names[4])
        elif x in self.scales and self._is_integer(output):
            # MaxPool, Reshape and the like move quantized numbers and leave their scale as it is.
            self.scales[output] = self.scales[x]

    def _add_bias(self, name: str, input_scale: str, weight_scale: str) -> None:
        """Add the scale of a bias: the product of the scales of the input and the weight."""
        bias, x, w = (self._value(value) for value in (name, input_scale, weight_scale))
        if bias is not None and x is not None and w is not None:
            self._biases.add(name)
            self.scales[name] = Scale((x * w).reshape(-1), np.zeros(1), bias.dtype)

    def _add(self, name: str, scale: str, zero_point: str, node: NodeProto) -> None:
        values = self._value(scale)
        quantized = self._value(name)
        if values is None or quantized is None or name in self.scales:
            return
        zeros = self._value(zero_point)
        if zeros is None:
            zeros = np.zeros_like(values)
        axis = 0
        has_columns = "MatMul" in node.op_type or node.op_type == "QGemm"
        if has_columns and not _attribute(node, "transB", 0):
            axis = -1
        block_size = 0
        if node.op_type in ("QuantizeLinear", "DequantizeLinear"):
            axis = _attribute(node, "axis", 1)
            block_size = _attribute(node, "block_size", 0)
        expanded = []
        for part in (values, zeros):
            expanded.append(_expand(part, quantized.shape, axis, block_size))
        self.scales[name] = Scale(expanded[0], expanded[1].astype(np.float64), quantized.dtype)

    def _read_integers(self, node: NodeProto, inputs: list[str]) -> None:
        weight = inputs[1]
        is_new = weight not in self.scales
        # The scale of the weight is applied later, to the sums. Quantizers name
        # it after the weight.
        self._add(weight, weight.removesuffix("_quantized") + "_scale", inputs[3], node)
        levels = self._value(weight)
        # A Gemm with transB became a MatMul. In onnxruntime 1.25 its turned weight kept the name.
        readers = self._readers.get(weight.removesuffix(_TRANSPOSED).removesuffix("_quantized"), [])
        is_turned = any(x.op_type == "Gemm" and _attribute(x, "transB", 0) for x in readers)
        if is_new and is_turned and weight in self.scales and levels is not None:
            scale = self.scales[weight]
            self.arrays[weight] = levels.T
            self.scales[weight] = Scale(scale.scale.T, scale.zero_point.T, scale.dtype)

    def _add_packed(self, node: NodeProto, names: list[str]) -> None:
        """Unpack the weight of a MatMulNBits, stored block by block within each column."""
        name = names[1]
        packed, scales, zeros = (self._value(x) for x in names[1:4])
        if packed is None or scales is None:
            return
        bits = _attribute(node, "bits", 4)
        size = _attribute(node, "block_size", 32)
        rows = _attribute(node, "K", 0)
        columns = _attribute(node, "N", 0)
        # The last block of a column is filled up.
        levels = _unpack(packed.reshape(columns, -1), bits)[:, :rows]
        if zeros is None:
            zeros = np.full(scales.size, 2.0 ** (bits - 1))
        elif zeros.dtype == np.uint8:
            zeros = _unpack(zeros.reshape(columns, -1), bits)[:, : scales.size // columns]
        parts = []
        for part in (scales, zeros):
            blocks = part.reshape(columns, -1).astype(np.float32)
            parts.append(np.repeat(blocks, size, axis=1)[:, :rows].T)
        dtype = np.dtype(np.uint8 if bits == 8 else getattr(ml_dtypes, f"uint{bits}"))
        self.scales[name] = Scale(parts[0], parts[1], dtype)
        self.arrays[name] = levels.T
        self._results[name] = ""
        # The node has the name of the product in both models: its weight is the
        # one that a reads there.
        producer = self.a.graph.producer.get(self._aligned.get(names[_OUT], names[_OUT]))
        if producer is not None:
            self._sources[name] = [*self.a.graph.nodes[producer].input, ""][1]

    def _value(self, name: str) -> np.ndarray | None:
        # Some exporters write scales as Constant nodes, which no trace records.
        value = self.arrays[name] if name in self.arrays else self.b.weight(name)
        return value if isinstance(value, np.ndarray) else None

    def _is_integer(self, name: str) -> bool:
        value = self._value(name)
        return value is not None and _is_integer(value.dtype)

    # ---- the float tensors

    def _partner(self, name: str) -> str | None:
        """Find the float tensor or weight in a that a quantized tensor of b replaces."""
        candidates = [self._results.get(name, ""), self._sources.get(name, ""), name]
        # A name of the float model itself, then one before an ending, then the structure.
        for candidate in candidates:
            if self._is_float(candidate):
                return candidate
        for candidate in candidates:
            for ending in _ENDINGS:
                base = candidate.removesuffix(ending)
                if base != candidate and self._is_float(base):
                    return self.behind_activation(base)
        for candidate in candidates:
            partner = self._aligned.get(candidate, "")
            if self._is_float(partner):
                return partner
        return None

    def _is_float(self, name: str) -> bool:
        return bool(name) and (name in self.floats or name in self.a.trace.initializers)

    def behind_activation(self, name: str) -> str:
        """Return the result of an activation that the quantizer absorbed, or the name itself."""
        result = self._activated(name)
        # Quantizers keep one of the two tensors: operators the node's own, QDQ models the other.
        if all(x in self.arrays or f"{x}_quantized" in self.arrays for x in (name, result)):
            return name
        return result or name

    def _activated(self, name: str) -> str:
        """Return the result of the activation that alone reads a tensor; empty if none does."""
        readers = self._readers.get(name, [])
        if len(readers) != 1 or readers[0].op_type not in ABSORBED_OPS:
            return ""
        return str(readers[0].output[0])

    def is_absorbed(self, name: str) -> bool:
        """Tell whether a tensor lies between a node and an activation that was absorbed."""
        activated = self._activated(name)
        graph = self.b.graph
        for quantized, partner in self.partners.items():
            if partner == activated:
                # In a QDQ model the node gives floats, which are quantized next; else it gives
                # the quantized numbers.
                producer = graph.producer.get(self._sources.get(quantized, quantized))
                return producer is not None and graph.nodes[producer].op_type not in ABSORBED_OPS
        return False

    def _before_activation(self, name: str, partner: str) -> str:
        """Return the input of the activation that a scale replaces, or the partner itself."""
        graph_a, graph_b = self.a.graph, self.b.graph
        activation = graph_a.producer.get(partner)
        producer = graph_b.producer.get(self._sources.get(name, name))
        if activation is None or producer is None:
            return partner
        node = graph_a.nodes[activation]
        fused = graph_b.nodes[producer].op_type
        # The ONNX Runtime fused nodes apply it themselves.
        if node.op_type not in ABSORBED_OPS or fused in ABSORBED_OPS or fused.startswith("Fused"):
            return partner
        return str(node.input[0])

    def only_a(self, paired: set[str]) -> tuple[str, ...]:
        """List a's tensors without a partner, except before an absorbed activation."""
        order = self.a.graph.order
        return tuple(x for x in order if x not in paired and not self.is_absorbed(x))

    # ---- pairs and rows

    def pairs(self) -> list[Pair]:
        """Pair tensors of the float and the quantized model that have the same numbers."""
        made_in_b = self.b.graph.producer
        by_tensor: dict[str, Pair] = {}
        for name, partner in self.partners.items():
            result = self._results.get(name, name)
            if partner in self.floats and result in made_in_b:
                by_tensor.setdefault(partner, Pair(partner, result, "name"))
        # A tensor that was not quantized has its name in both models, or else the structure tells.
        used = set(self._sources.values()).union(pair.b for pair in by_tensor.values())
        same_names = [Pair(name, name, "name") for name in self.a.graph.order]
        for pair in (*same_names, *filter(self._same_type, self.alignment.pairs)):
            if pair.a not in by_tensor and pair.b in made_in_b and pair.b not in used:
                by_tensor[pair.a] = pair
                used.add(pair.b)
        by_position = sorted(by_tensor.values(), key=lambda pair: made_in_b[pair.b])
        return [
            pair for pair in self.alignment.pairs if pair.b in self.b.graph.inputs
        ] + by_position

    def _same_type(self, pair: Pair) -> bool:
        a, b = self.floats.get(pair.a), self.arrays.get(pair.b)
        return getattr(a, "dtype", None) == getattr(b, "dtype", 0)

    def dequantized(self) -> dict[str, np.ndarray]:
        """Return the numbers of quantized tensors that no node of the graph dequantizes."""
        arrays = {}
        for name, partner in self.partners.items():
            if name in self.b.graph.producer and name not in self._results:
                dtype = self.float_array(partner).dtype
                arrays[name] = self.scales[name].dequantize(self.arrays[name]).astype(dtype)
        return arrays

    def numbers(self, name: str) -> np.ndarray | None:
        """Return the numbers of a quantized tensor, as the graph dequantizes it or by its scale."""
        numbers = self.arrays.get(self._results.get(name, ""))
        levels = self._value(name)
        if numbers is None and levels is not None:
            numbers = self.scales[name].dequantize(levels)
        return numbers

    def float_array(self, name: str) -> np.ndarray:
        if name in self.floats:
            return np.asarray(self.floats[name])
        return self.a.trace.initializers[name]

    def rows(self, pairs: list[Pair]) -> list[QuantizedTensor]:
        """Describe every tensor, worst first by its own scale, then tensors without a scale."""
        rows: dict[str, QuantizedTensor] = {}
        for name, partner in self.partners.items():
            if partner not in rows:
                row = self._row(name, partner)
                if row is not None:
                    rows[partner] = row
        for pair in pairs:
            values = self.floats.get(pair.a)
            result = self.arrays.get(pair.b)
            if pair.a in rows or pair.b not in self.b.graph.producer:
                continue
            if not (isinstance(values, np.ndarray) and isinstance(result, np.ndarray)):
                continue
            if values.dtype.kind == "f" and values.shape == result.shape:
                ratio = signal_to_noise(result, values)
                node = self.b.graph.nodes[self.b.graph.producer[pair.b]]
                rows[pair.a] = QuantizedTensor(
                    pair.a, pair.b, False, ratio, rounding=_own_rounding(node)
                )
        return sorted(rows.values(), key=_badness)

    def _row(self, name: str, partner: str) -> QuantizedTensor | None:
        scale = self.scales[name]
        levels = self._value(name)
        numbers = self.numbers(name)
        values = self.float_array(partner)
        if levels is None or numbers is None or levels.shape != values.shape:
            return None
        if values.dtype.kind != "f":
            return None
        span = None
        if values.size:
            span = (float(values.min()), float(values.max()))
        is_weight = partner in self.a.trace.initializers
        ratio = signal_to_noise(numbers.astype(values.dtype), values)
        # A weight has no errors from before, and its levels may have another scale. A bias
        # without a scale of its own suffers from its input's.
        alone = ratio
        if not is_weight or name in self._biases:
            before = self.float_array(self._before_activation(name, partner))
            alone = signal_to_noise(scale.rounded(before), values)
        return QuantizedTensor(
            partner,
            self._results.get(name, "") or name,
            is_weight,
            ratio,
            alone,
            scale.saturated(values),
            span,
            scale.range(),
            math.log2(max(1, np.unique(levels).size)),
        )


def _own_rounding(node: NodeProto) -> str:
    """Say how a node itself rounds its input; empty if it does not."""
    level = _attribute(node, "accuracy_level", 0)
    if level in _ROUNDED_TO:
        return f"{called(node)} may round its input to {_ROUNDED_TO[level]}: accuracy_level={level}"
    return ""


def _badness(row: QuantizedTensor) -> tuple[int, float]:
    """Order rows: first scales that lose, then nodes that do, last what is the same."""
    if row.alone is None:
        return 1, math.inf if row.sqnr is None else row.sqnr
    return 2 * (row.alone == math.inf), row.alone


def signal_to_noise(result: Any, values: np.ndarray) -> float | None:
    """Return the signal to noise ratio, with the float numbers as the signal."""
    facts = compared(result, values).worst.facts
    if facts is None:
        return None
    # Nothing else was counted for bit-identical arrays.
    if not facts.bits and np.any(values):
        return math.inf
    return facts.snr


def _is_integer(dtype: np.dtype) -> bool:
    # NumPy does not know the integers of four bits by another name.
    return dtype.name.startswith(("int", "uint"))


def _attribute(node: NodeProto, name: str, default: int) -> int:
    for attribute in node.attribute:
        if attribute.name == name:
            return int(attribute.i)
    return default


def _expand(values: np.ndarray, shape: tuple[int, ...], axis: int, block_size: int) -> np.ndarray:
    """Shape a scale or zero points so that they broadcast to their tensor."""
    if values.size == 1 or not shape:
        return values.reshape(())
    # Scales of blocks have the rank of the tensor, and its last block may be shorter.
    if block_size:
        return np.repeat(values, block_size, axis).take(range(shape[axis]), axis)
    along = [1] * len(shape)
    along[axis] = -1
    return values.reshape(along)


def _unpack(packed: np.ndarray, bits: int) -> np.ndarray:
    """Unpack sub-byte numbers from each row, lowest bits first."""
    shifts = np.arange(0, 8, bits, dtype=np.uint8)
    numbers = (packed[..., None] >> shifts) & np.uint8(2**bits - 1)
    return numbers.reshape(packed.shape[0], -1)
