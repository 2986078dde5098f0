"""The ONNX node tests, each node replaced by an op whose ``compute`` asks the ONNX reference implementation.

What is proved is the way of the tensors: dtypes, shapes, attrs, optional ports and bodies go
through ONNX Runtime into ``compute`` and back without a change.
"""

from __future__ import annotations

import warnings
from typing import Any

import node_tests as ways
import numpy as np
import onnx
import pytest
from onnx import ModelProto
from onnx.reference import ReferenceEvaluator

import pyopnb
from pyopnb.engine.models.ort_capabilities import newest_ir_version, newest_opset


def quietly(reference, feeds):
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        return list(reference.run(None, feeds))


def standing_in(original):
    """An op that runs the only node of a model in the ONNX reference implementation."""

    class StandIn:
        def __init__(self, **attrs: Any) -> None:
            alone = ModelProto()
            alone.CopyFrom(original)
            (node,) = alone.graph.node
            name = f"{node.domain}::{node.op_type}"
            node.CopyFrom(pyopnb.node(name, node.input, node.output, node.name, **attrs))
            self.inputs, self.outputs = list(node.input), list(node.output)
            self.reference = ReferenceEvaluator(alone)

        def compute(self, *inputs: Any) -> Any:
            feeds = {name: x for name, x in zip(self.inputs, inputs, strict=False) if name}
            results = quietly(self.reference, feeds)
            by_name = dict(zip(self.reference.output_names, results, strict=True))
            values = tuple(by_name.get(name) for name in self.outputs)
            return values if len(values) > 1 else values[0]

    return StandIn


def through_pyopnb(model, feeds):
    replaced = ModelProto()
    replaced.CopyFrom(model)
    replaced.ir_version = min(model.ir_version, newest_ir_version())
    opset = replaced.opset_import[0]
    opset.version = min(opset.version, newest_opset())
    (node,) = replaced.graph.node
    node.domain = "conformance"
    pyopnb.registry.define(standing_in(model), f"conformance::{node.op_type}")
    return list(pyopnb.Session(replaced)(**feeds))


def through_reference(model, feeds):
    return quietly(ReferenceEvaluator(model), feeds)


@pytest.mark.one_python
def test_each_case_passes_unless_the_reference_itself_fails(node_tests):
    cases = {name: case for name, case in node_tests.items() if ways.can_be_an_op(case.model)}
    wrong = {name: ways.outcome(case, through_pyopnb) for name, case in cases.items()}
    failures = {name: text for name, text in wrong.items() if text}
    print(f"{len(cases) - len(failures)} of {len(cases)} cases pass", failures)
    assert [n for n in failures if ways.outcome(cases[n], through_reference) is None] == []
    if onnx.__version__ == ways.WRITTEN_FOR[0]:  # others have other cases and other mistakes
        assert len(cases) - len(failures) >= (1375 if len(node_tests) > 1500 else 325)
        assert failures.keys() == ways.NO_REFERENCE & cases.keys()
