"""ONNX's own operators, lowered from the NumPy of their reference implementation: which become other operators, and pass their node tests.

``test_reference_ops.py`` prints the count and holds it.
"""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
import onnxruntime
from node_tests import cases
from onnx import numpy_helper
from onnx.reference.ops import load_op

import pyopnb
from pyopnb.lowering.trace_op import trace_op
from pyopnb.lowering.verify import called
from pyopnb.testing.subject import Example, Subject

__all__ = ["Outcome", "outcomes", "report"]


@dataclass
class Outcome:
    """What became of one operator: names of cases that passed, and why others did not."""

    op_type: str
    passed: list[str] = field(default_factory=list)
    failed: dict[str, str] = field(default_factory=dict)
    nodes: int = 0

    @property
    def whole(self) -> bool:
        return bool(self.passed) and not self.failed


def subject_of(node: onnx.NodeProto, version: int, known: dict[int, np.ndarray]) -> Subject:
    """The reference implementation of a node as an op, with some inputs whose values are known, as those of initializers are."""
    reference: Any = load_op("", node.op_type, version)
    params = {
        "log": lambda pattern, *args: None,
        "opsets": {"": version},
        "verbose": 0,
        "new_ops": None,
        "existing_functions": {},
    }

    class Lowered(reference):
        def __init__(self) -> None:
            reference.__init__(self, node, params)
            wanted = inspect.signature(self._run).parameters
            self.given = {
                name: getattr(self, name) for name in self.attributes_names_ if name in wanted
            }

        def compute(self, *inputs):
            return self._run(
                *(known.get(place, value) for place, value in enumerate(inputs)), **self.given
            )

    Lowered.__name__ = f"{node.op_type}_{version}"
    pyopnb.registry.clear()
    pyopnb.registry.define(Lowered, f"reference::{node.op_type}")
    return Subject(pyopnb.registry[f"reference::{node.op_type}"], [])


_DTYPES = {np.dtype(kind) for kind in ("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16", "float32", "float64")}  # fmt: skip


_LARGEST = 20_000
"""Elements of an array beyond which a case is left out: references loop over them in Python."""


def single_nodes() -> Iterator[Any]:
    """ONNX's node tests of one node of its own domain, on tensors of numbers."""
    for case in cases().values():
        nodes, graph = case.model.graph.node, case.model.graph
        tensors = all(info.type.HasField("tensor_type") for info in (*graph.input, *graph.output))
        if len(nodes) != 1 or nodes[0].domain or not tensors or graph.initializer:
            continue
        inputs, outputs = case.data_sets[0]
        if all(array(each).dtype in _DTYPES for each in (*inputs, *outputs)):
            yield case


def array(value: Any) -> np.ndarray:
    return (
        numpy_helper.to_array(value) if isinstance(value, onnx.TensorProto) else np.asarray(value)
    )


def lowered_case(case: Any, outcome: Outcome) -> None:
    """Lower the node of a case, and run the function on its data."""
    (node,) = case.model.graph.node
    version = next(entry.version for entry in case.model.opset_import if not entry.domain)
    for inputs, outputs in case.data_sets:
        named = dict(
            zip((info.name for info in case.model.graph.input), map(array, inputs), strict=True)
        )
        expected = [array(each) for each in outputs]
        example = Example(tuple(named.get(name) for name in node.input), {})
        try:
            subject = subject_of(node, version, {})
            lowered = trace_op(
                subject, example, expected, opset=max(18, min(version, 21)), sizes=True
            )
        except pyopnb.errors.NotLowered:
            subject = subject_of(node, version, parameters(example))
            lowered = trace_op(
                subject, example, expected, opset=max(18, min(version, 21)), sizes=True
            )
        if any(each.op_type == node.op_type for each in lowered.function.node):
            raise AssertionError("it becomes the operator itself")
        session = onnxruntime.InferenceSession(
            called(lowered, subject, example, expected).SerializeToString(),
            _quiet(),
            ["CPUExecutionProvider"],
        )
        for got, want in zip(session.run(None, example.feeds()), expected, strict=True):
            np.testing.assert_allclose(got, want, rtol=max(case.rtol, 1e-5), atol=case.atol)
            assert got.dtype == want.dtype and got.shape == want.shape
        outcome.nodes = len(lowered.function.node)


def parameters(example: Example) -> dict[int, np.ndarray]:
    """The inputs that are parameters, axes or sizes or a flag, by place: nearly every model has them as initializers."""
    rest = list(enumerate(example.inputs))[1:]
    return {
        place: value
        for place, value in rest
        if value is not None and value.ndim < 2 and value.dtype in (np.int64, np.bool_)
    }


def _quiet() -> onnxruntime.SessionOptions:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    return options


def outcomes() -> dict[str, Outcome]:
    """By operator, what became of its cases."""
    found: dict[str, Outcome] = {}
    for case in single_nodes():
        if (
            max(
                (array(each).size for each in (*case.data_sets[0][0], *case.data_sets[0][1])),
                default=0,
            )
            > _LARGEST
        ):
            continue
        op_type = case.model.graph.node[0].op_type
        outcome = found.setdefault(op_type, Outcome(op_type))
        try:
            with warnings.catch_warnings(), np.errstate(all="ignore"):
                warnings.simplefilter("ignore")
                lowered_case(case, outcome)
            outcome.passed.append(case.name)
        except Exception as error:
            outcome.failed[case.name] = f"{type(error).__name__}: {error}"
    pyopnb.registry.clear()
    return found


def report(found: dict[str, Outcome]) -> str:
    """A line for each operator, and the counts."""
    whole = sorted(name for name, outcome in found.items() if outcome.whole)
    partly = sorted(name for name, outcome in found.items() if outcome.passed and outcome.failed)
    lines = [
        f"{len(whole)} operators become other operators and pass all of their node tests: {', '.join(whole)}"
    ]
    lines.append(
        f"{len(partly)} pass some: "
        + ", ".join(
            f"{n} {len(found[n].passed)} of {len(found[n].passed) + len(found[n].failed)}"
            for n in partly
        )
    )
    return "\n".join(lines)
