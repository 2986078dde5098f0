"""The limits found by asking the runtime are those that it has."""

from __future__ import annotations

import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper

from pyopnb.models.ort_capabilities import (
    RuntimeKernel,
    kernels,
    newest_ir_version,
    newest_opset,
    newest_version,
    operator_at,
    operators,
    schema_domains,
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
    except Exception:  # whatever it raises, it does not load
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


@pytest.mark.parametrize("domain", ["", "ai.onnx.ml", "com.microsoft"])
def test_domains_of_the_runtime(domain: str) -> None:
    assert schema_domains()[domain] >= 1


def test_domains_of_nobody() -> None:
    assert not {"demo", "pyopnb", "ai.onnx"} & schema_domains().keys()


def test_a_listed_operator_that_the_runtime_does_not_take_yet_is_not_the_newest():
    newest = newest_version("")
    assert (
        newest_opset()
        <= newest
        <= max(row.since for rows in operators().values() for row in rows if row.domain == "")
    )
    assert newest_version("ai.onnx") == newest
    assert newest_version("com.microsoft") == 1
    assert newest_version("nobody's") is None


def test_an_operator_in_a_version():
    assert operator_at("", "Gelu", 19) is None
    assert operator_at("", "Gelu", 20).since == 20
    assert operator_at("", "Relu", 13).since == 13
    assert [port.name for port in operator_at("", "Add", 14).inputs] == ["A", "B"]
    assert operator_at("", "Concat", 13).inputs[0].variadic


def test_a_kernel_serves_the_versions_that_it_names():
    closed, endless = RuntimeKernel(7, 12, ()), RuntimeKernel(13, 2**31 - 1, ())
    assert [version for version in range(5, 15) if closed.serves(version)] == [7, 8, 9, 10, 11, 12]
    assert [version for version in range(5, 15) if endless.serves(version)] == [13]
    assert any(kernel.serves(14) for kernel in kernels()["", "Relu"])
