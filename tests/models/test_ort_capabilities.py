"""The limits found by asking the runtime are those that it has."""

from __future__ import annotations

import onnx
import onnxruntime
from onnx import TensorProto, helper

from pyopnb.engine.models.ort_capabilities import (
    newest_ir_version,
    newest_opset,
)


def loads(ir_version: int, opset: int) -> bool:
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [1]) for name in "xy")
    graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "g", [x], [y])
    model = helper.make_model(
        graph, ir_version=ir_version, opset_imports=[helper.make_opsetid("", opset)]
    )
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    try:
        onnxruntime.InferenceSession(
            model.SerializeToString(),
            options,
            providers=["CPUExecutionProvider"],
            enable_fallback=0,
        )
    except Exception:  # with any exception, it does not load
        return False
    return True


def test_the_newest_are_taken() -> None:
    assert loads(newest_ir_version(), newest_opset())


def test_one_more_is_refused_or_unknown_to_onnx() -> None:
    assert newest_ir_version() == onnx.IR_VERSION or not loads(
        newest_ir_version() + 1, newest_opset()
    )
    assert newest_opset() == onnx.defs.onnx_opset_version() or not loads(
        newest_ir_version(), newest_opset() + 1
    )
