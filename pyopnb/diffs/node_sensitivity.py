"""Measure which nodes of a quantized model cost the most accuracy.

Each of them runs in float again. The float model gets nodes that round to the quantized model's
levels, each with a switch. So one session serves all runs, for every form of quantized model.
Switching nodes of the quantized model itself would not work, as operators on integers cannot be
mixed with float ones.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np
from onnx import GraphProto, NodeProto, TensorProto, helper, numpy_helper

from pyopnb.common import Displayable, plural, progress, sanitize
from pyopnb.diffs.arrays.report import format_number
from pyopnb.diffs.traces.align import align
from pyopnb.diffs.traces.quantized_pairs import (
    ABSORBED_OPS,
    QuantizedTensors,
    is_quantized,
    signal_to_noise,
)
from pyopnb.diffs.traces.segments import Side
from pyopnb.engine import Session, argument_checks, check_arguments, protos
from pyopnb.errors import InputError
from pyopnb.traces import Trace, model_with_weights, trace

__all__ = ["SensitiveNode", "Sensitivity", "sensitivity"]

# These only move numbers: in float, they would regain accuracy that other nodes lose.
_MOVERS = frozenset(
    {
        "Concat", "Expand", "Flatten", "Gather", "Identity", "MaxPool", "Pad", "Reshape", "Slice",
        "Split", "Squeeze", "Transpose", "Unsqueeze",
    }
)  # fmt: skip
# QuantizeLinear and DequantizeLinear in plain operators, as scales of blocks need new opsets;
# with their constants.
_LEVELS = MappingProxyType(
    {
        "Div": ("scale",),
        "Round": (),
        "Add": ("zero",),
        "Clip": ("low", "high"),
        "Sub": ("zero",),
        "Mul": ("scale",),
    }
)
# The first with Round, and Clip with inputs.
_OPSET = 11
# How many rows the text has.
_ROWS = 8
# A node is worth leaving in float from this gain in dB on, and from this part of
# the largest gain on.
_LEAST_GAIN = 1.0
_PART = 0.5
# This many nodes are few, even if they are more than half of all.
_FEW = 2


@dataclass(frozen=True)
class SensitiveNode:
    """A node of the float model, and how much better the outputs become when it runs in float.

    Attributes
    ----------
    name, op : str
        The name, or the first output of a node without one, and the operator.
    tensors : tuple of str
        Its inputs, weights and outputs that the quantized model rounds.
    sqnr : float
        The signal-to-noise ratio in dB at the model's outputs if only these tensors are in float.
    gain : float
        The gain in dB over the simulation with everything quantized.
    """

    name: str
    op: str
    tensors: tuple[str, ...]
    sqnr: float
    gain: float


@dataclass(frozen=True, repr=False)
class Sensitivity(Displayable):
    """The nodes of a quantized model, ranked by the accuracy that they cost at its outputs.

    Attributes
    ----------
    nodes : tuple of SensitiveNode
        The nodes, largest gain first.
    measured : float
        The signal-to-noise ratio in dB of the quantized model's outputs, averaged over feeds and
        outputs.
    simulated : float
        The same for the float model with all scales of the quantized one; gains are relative to
        this.
    """

    nodes: tuple[SensitiveNode, ...]
    measured: float
    simulated: float

    @property
    def nodes_to_exclude(self) -> list[str]:
        """List the few nodes that cost the most.

        Their gain is at least 1 dB and at least half the largest gain. The list is empty if these
        are more than half of the nodes, as then none of them alone is at fault.
        """
        costly = self._costly()
        if len(costly) in (0, len(self.nodes)) or len(costly) > max(_FEW, len(self.nodes) // 2):
            return []
        return [node.name for node in costly]

    def _costly(self) -> list[SensitiveNode]:
        largest = max((node.gain for node in self.nodes), default=0.0)
        least = max(_LEAST_GAIN, _PART * largest)
        return [node for node in self.nodes if node.gain >= least]

    def __str__(self) -> str:
        head = f"{format_number(self.measured)} dB at the outputs of the quantized model"
        lines = [f"{head}, {format_number(self.simulated)} dB as simulated"]
        for node in self.nodes[:_ROWS]:
            name = f"{sanitize(node.name, 60)} ({sanitize(node.op.removeprefix('::'), 40)})"
            gain = f"{node.gain:+.2f} dB in float"
            lines.append(f"  {name}: {gain}, {format_number(node.sqnr)} dB")
        if len(self.nodes) > _ROWS:
            lines.append(f"  … and {plural(len(self.nodes) - _ROWS, 'more node')}: .nodes")
        lines.append(f"nodes_to_exclude={self.nodes_to_exclude!r}{self._why_none()}")
        return "\n".join(lines)

    def _why_none(self) -> str:
        costly = self._costly()
        if self.nodes_to_exclude:
            return ""
        if not costly and self.measured < self.simulated - _LEAST_GAIN:
            return ": no scale costs 1 dB, but kernels that round; diff of two traces says which"
        if not costly:
            return ": no node in float regains 1 dB"
        least, most = format_number(costly[-1].gain), format_number(costly[0].gain)
        count = f"{len(costly)} of {plural(len(self.nodes), 'node')}"
        return f": no node alone is at fault; {count} regain {least} to {most} dB each"

    __repr__ = __str__


@check_arguments
def sensitivity(
    float_model: Any,
    quantized_model: Any,
    feeds: Mapping[str, Any] | Sequence[Mapping[str, Any]],
) -> Sensitivity:
    """Rank the nodes of a quantized model by the accuracy that they cost at its outputs.

    Each node in turn runs in float, with its inputs, weights and outputs. The accuracy that this
    regains tells which nodes to leave out of quantization.

    Parameters
    ----------
    float_model, quantized_model : ModelProto, bytes or path
        The quantized model was made from the float model, in any form whose traces `diff` can
        compare.
    feeds : mapping, or sequence of mappings
        Arrays by the names of the inputs. Several samples tell more than one.

    Returns
    -------
    Sensitivity
        Its text ends in the argument ``nodes_to_exclude=[…]`` of ``onnxruntime.quantization``.

    Raises
    ------
    InputError
        The first model is quantized or of an opset below 11, the second is not, their tensors do
        not correspond, or there are no feeds.

    Notes
    -----
    The float model runs with the scales and dequantized weights of the quantized one: ``simulated``
    says how near that is to ``measured``. onnxruntime quantizes a tensor if a node on either side
    of it is quantized, so exclude the nodes on both sides of an expensive activation. Float8
    scales, and tensors that the bodies of If, Loop and Scan read, stay as they are.
    """
    samples = [feeds] if isinstance(feeds, Mapping) else list(feeds)
    for sample in samples:
        argument_checks.check_by_name(sample, "sensitivity, feeds", '{"x": x}, or a list of such')
    if not samples:
        raise InputError(
            "sensitivity, feeds", expected="at least one mapping", got="none", next='[{"x": x}]'
        )
    # The first sample tells which tensors correspond, and the scales that are made in a run.
    traces = trace(float_model, samples[0]), trace(quantized_model, samples[0])
    _check_models(*traces)
    sides = Side.of(traces[0]), Side.of(traces[1])
    tensors = QuantizedTensors(sides, align(*sides))
    simulation = _Simulation(tensors)
    groups = simulation.groups()
    if not groups:
        expected = "the quantized model that was made from the float one"
        raise InputError("sensitivity", expected=expected, got="models without common tensors")
    expected_outputs = _outputs(Session(float_model), samples)
    outputs = _outputs(Session(quantized_model), samples)
    for array, expected_array in zip(outputs[0], expected_outputs[0], strict=False):
        if np.shape(array) != np.shape(expected_array):
            expected = f"outputs of shape {np.shape(expected_array)}, as of the float model"
            got = str(np.shape(array))
            raise InputError("sensitivity, quantized_model", expected=expected, got=got)
    # The quantized model itself is only measured: all that follows simulates it with the
    # float model's nodes.
    measured = _ratio(outputs, expected_outputs)
    nodes = []
    with progress.tracking("nodes in float", len(groups) + 1):
        simulated = _ratio(simulation.run(samples, ()), expected_outputs)
        # Only the switches differ between the runs: one session serves them all.
        for node, names in groups:
            ratio = _ratio(simulation.run(samples, names), expected_outputs)
            # Both are infinite where nothing is lost, and their difference would be NaN.
            gain = 0.0
            if ratio != simulated:
                gain = ratio - simulated
            name = node.name or protos.first_output(node)
            nodes.append(SensitiveNode(name, protos.full_name(node), names, ratio, gain))
            progress.advance("nodes in float", 1)
    nodes.sort(key=lambda node: -node.gain)
    return Sensitivity(tuple(nodes), measured, simulated)


def _check_models(a: Trace, b: Trace) -> None:
    if is_quantized(a.model):
        advice = "pyopnb.sensitivity(float_model, quantized_model, feeds)"
        expected = "the float model"
        where = "sensitivity, float_model"
        raise InputError(where, expected=expected, got="a quantized model", next=advice)
    if not is_quantized(b.model):
        advice = "onnxruntime.quantization.quantize_static or quantize_dynamic, which make it"
        expected = "a quantized model"
        where = "sensitivity, quantized_model"
        raise InputError(where, expected=expected, got="one without quantized tensors", next=advice)
    opset = protos.imported_versions(a.model).get("", _OPSET)
    if opset < _OPSET:
        raise InputError(
            "sensitivity, float_model",
            expected=f"opset {_OPSET} or newer",
            got=f"opset {opset}",
            next=f"onnx.version_converter.convert_version(float_model, {_OPSET})",
        )


def _outputs(session: Session, samples: Sequence[Mapping[str, Any]]) -> list[list[Any]]:
    return [session.run(None, dict(sample)) for sample in samples]


def _ratio(outputs: list[list[Any]], expected_outputs: list[list[Any]]) -> float:
    """Return the mean signal to noise ratio of all float outputs."""
    ratios = []
    for arrays, expected_arrays in zip(outputs, expected_outputs, strict=True):
        for array, expected in zip(arrays, expected_arrays, strict=True):
            ratio = signal_to_noise(array, expected)
            # Outputs of nothing but zeros, and labels, have no ratio.
            if ratio is not None and np.asarray(expected).dtype.kind == "f":
                ratios.append(ratio)
    if ratios:
        return sum(ratios) / len(ratios)
    return math.inf


class _Simulation:
    """The float model with the scales of the quantized one, and a switch at each tensor.

    Attributes
    ----------
    switches : dict
        The bool input that keeps a tensor in float, by the tensor's name.
    """

    def __init__(self, tensors: QuantizedTensors) -> None:
        self.tensors = tensors
        self.switches: dict[str, str] = {}
        self.trace = tensors.a.trace
        self.graph = tensors.a.graph
        model = model_with_weights(self.trace)
        self.body: GraphProto = model.graph
        rounding: dict[str, list[NodeProto]] = {}
        for name, partner in tensors.partners.items():
            if partner not in rounding and tensors.scales[name].is_integer:
                rounding[partner] = self._round(name, partner)
        self._rewire(rounding)
        self.session = Session(model)

    def _round(self, name: str, partner: str) -> list[NodeProto]:
        """Make the nodes that round a tensor of the float model, unless its switch is on."""
        values = self.tensors.float_array(partner)
        numbers = self.tensors.numbers(name)
        # A weight in another layout stays in float.
        if numbers is None or numbers.shape != values.shape:
            return []
        nodes: list[NodeProto] = []
        if partner in self.trace.initializers:
            result = self._constant(partner, "weight", numbers.astype(values.dtype))
        elif name in self.tensors.dynamic:
            names = [f"{partner}/{part}" for part in ("quantized", "scale", "zero", "rounded")]
            nodes.append(helper.make_node("DynamicQuantizeLinear", [partner], names[:3]))
            nodes.append(helper.make_node("DequantizeLinear", names[:3], names[3:]))
            result = names[3]
        else:
            scale = self.tensors.scales[name]
            low, high = scale.limits()
            constants = {"scale": scale.scale, "zero": scale.zero_point, "low": low, "high": high}
            for role, array in constants.items():
                self._constant(partner, role, np.asarray(array, values.dtype))
            result = partner
            for op, roles in _LEVELS.items():
                inputs = [result, *(f"{partner}/{role}" for role in roles)]
                result = f"{partner}/{op}"
                nodes.append(helper.make_node(op, inputs, [result]))
        switch = self.switches[partner] = f"{partner}/float"
        self.body.input.append(helper.make_tensor_value_info(switch, TensorProto.BOOL, []))
        nodes.append(helper.make_node("Where", [switch, partner, result], [f"{partner}/simulated"]))
        return nodes

    def _constant(self, partner: str, role: str, array: np.ndarray) -> str:
        name = f"{partner}/{role}"
        self.body.initializer.append(numpy_helper.from_array(array, name))
        return name

    def _rewire(self, rounding: Mapping[str, list[NodeProto]]) -> None:
        """Rewire nodes and outputs to the rounded tensors."""
        for info in self.body.output:
            info.name = self._rounded(info.name)
        # ONNX asks for nodes in an order in which they can run.
        in_order: list[NodeProto] = []
        for name in (*self.graph.inputs, *self.graph.weights):
            in_order += rounding.get(name, [])
        for node in self.graph.nodes:
            copy = NodeProto()
            copy.CopyFrom(node)
            copy.input[:] = map(self._rounded, node.input)
            in_order.append(copy)
            for name in node.output:
                in_order += rounding.get(name, [])
        del self.body.node[:]
        self.body.node.extend(in_order)

    def _rounded(self, name: str) -> str:
        if name in self.switches:
            return f"{name}/simulated"
        return name

    def groups(self) -> list[tuple[NodeProto, tuple[str, ...]]]:
        """Return the nodes that compute with rounded tensors, and these."""
        groups = []
        absorbed = set()
        for node in self.graph.nodes:
            names = [*node.input]
            for name in node.output:
                result = self.tensors.behind_activation(name)
                # A node and the activation after it are rounded as one.
                absorbed.update({result} - {name})
                names.append(result)
            is_absorbed = node.op_type in ABSORBED_OPS and absorbed.intersection(node.output)
            switched = tuple(name for name in dict.fromkeys(names) if name in self.switches)
            if switched and not is_absorbed and node.op_type not in _MOVERS:
                groups.append((node, switched))
        return groups

    def run(self, samples: list[Mapping[str, Any]], in_float: Sequence[str]) -> list[list[Any]]:
        """Run all samples with some tensors in float."""
        switches = {self.switches[name]: np.array(name in in_float) for name in self.switches}
        return _outputs(self.session, [{**sample, **switches} for sample in samples])
