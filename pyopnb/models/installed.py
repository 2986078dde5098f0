"""What the installed ONNX Runtime can take, asked of itself: the one module of this room that imports onnxruntime.

There is no table of versions here that could go stale. A one-node model is offered to the runtime with the newest number that
the installed onnx knows, then with lower ones, until it is taken.
"""

from __future__ import annotations

from functools import cache

import onnx
from onnx import TensorProto, helper

__all__ = ["has_op", "newest_ir_version", "newest_opset", "schema_domains"]


def _taken(opset: int, ir_version: int) -> bool:
    import onnxruntime

    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [1]) for name in "xy")
    graph = helper.make_graph([helper.make_node("Identity", ["x"], ["y"])], "trial", [x], [y])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=ir_version)
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    try:
        onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"], enable_fallback=0)
    except Exception:  # the runtime's own exception types share no base class; any refusal is the answer no
        return False
    return True


@cache
def newest_ir_version() -> int:
    """The newest IR version that the installed onnxruntime loads and the installed onnx writes."""
    return next((n for n in range(onnx.IR_VERSION, 3, -1) if _taken(7, n)), 3)


@cache
def newest_opset() -> int:
    """The newest version of ONNX's own operators that the installed onnxruntime loads and the installed onnx knows."""
    return next((n for n in range(onnx.defs.onnx_opset_version(), 7, -1) if _taken(n, newest_ir_version())), 7)


@cache
def _ops() -> frozenset[tuple[str, str]]:
    from onnxruntime.capi import onnxruntime_pybind11_state as state

    return frozenset((schema.domain, schema.name) for schema in state.get_all_operator_schema())


def has_op(domain: str, op_type: str) -> bool:
    """Whether the installed onnxruntime brings that operator, in any version."""
    return (domain, op_type) in _ops()


@cache
def schema_domains() -> dict[str, int]:
    """The domains whose operators the installed onnxruntime brings, with the newest version in which one changed."""
    from onnxruntime.capi import onnxruntime_pybind11_state as state

    newest: dict[str, int] = {}
    for schema in state.get_all_operator_schema():
        newest[schema.domain] = max(newest.get(schema.domain, 1), schema.since_version)
    return newest
