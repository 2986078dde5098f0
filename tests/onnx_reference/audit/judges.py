"""What is right: a kernel of ONNX Runtime in that version or in one that means the same, or a loop."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import onnx
import onnxruntime
from onnx import AttributeProto, TypeProto, helper, numpy_helper

import pyopnb
from audit.cases import Case
from pyopnb.engine.ops.dtypes import dtype

__all__ = ["NoJudge", "kernel_results", "model_of", "plain_results"]


class NoJudge(Exception):
    """A judge cannot run a case."""


def _attribute(schema: Any, name: str, value: Any) -> AttributeProto:
    if isinstance(value, onnx.ModelProto):
        value = value.graph
    kind = int(schema.attributes[name].type.value)
    if isinstance(value, np.ndarray) and kind == AttributeProto.TENSOR:
        value = numpy_helper.from_array(value)
    return helper.make_attribute(name, value, attr_type=kind)


def _type(value: Any) -> TypeProto:
    if isinstance(value, list):
        element = _type(value[0]) if value else helper.make_tensor_type_proto(1, None)
        return helper.make_sequence_type_proto(element)
    value = np.asarray(value)
    return helper.make_tensor_type_proto(dtype(value.dtype).onnx, value.shape)


def model_of(case: Case, constants: bool = False, ir: int = 10) -> tuple[Any, dict[str, Any]]:
    """Return a model of one node, and its feeds."""
    schema = onnx.defs.get_schema(case.op, case.version, case.domain)
    names, infos, feeds, initializers = [], [], {}, []
    for position, value in enumerate(case.inputs):
        if value is None:
            names.append("")
            continue
        name = f"x{position}"
        names.append(name)
        if constants and position and not isinstance(value, list):
            initializers.append(numpy_helper.from_array(np.asarray(value), name))
            continue
        infos.append(onnx.ValueInfoProto(name=name, type=_type(value)))
        feeds[name] = value if isinstance(value, list) else np.asarray(value)
    outputs = [f"y{n}" for n in range(case.outputs)]
    node = helper.make_node(case.op, names, outputs, name="judged", domain=case.domain)
    for name, value in case.attrs.items():
        node.attribute.append(_attribute(schema, name, value))
    graph = onnx.GraphProto(name="judge", node=[node], input=infos, initializer=initializers)
    graph.output.extend(onnx.ValueInfoProto(name=name) for name in outputs)
    imports = [helper.make_opsetid(case.domain, case.version)]
    if case.domain:
        imports.append(helper.make_opsetid("", 17))
    return helper.make_model(graph, opset_imports=imports, ir_version=ir), feeds


def kernel_results(case: Case) -> list[Any]:
    """Return the result of the ONNX Runtime kernel."""
    errors = []
    for constants in (False, True):
        model, feeds = model_of(case, constants)
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 4
        options.intra_op_num_threads = 1
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
        try:
            session = onnxruntime.InferenceSession(
                model.SerializeToString(), options, ["CPUExecutionProvider"]
            )
            if _has_strange_dtypes(session, feeds):
                return list(pyopnb.Session(model).run(None, feeds))
            quiet = onnxruntime.RunOptions()
            quiet.log_severity_level = 4
            return list(session.run(None, feeds, quiet))
        except Exception as error:
            errors.append(str(error))
    raise NoJudge(errors[0])


_STRANGE = ("float8", "int4", "bfloat16", "float4", "int2")


def _has_strange_dtypes(session: Any, feeds: dict[str, Any]) -> bool:
    """Tell whether onnxruntime would give raw bits for a dtype that NumPy lacks."""
    names = [info.type for info in session.get_outputs()]
    names += [value.dtype.name for value in feeds.values() if isinstance(value, np.ndarray)]
    return any(strange in name for name in names for strange in _STRANGE)


def plain_results(case: Case) -> list[Any]:
    """Return the result of the onnx reference without pyopnb."""
    from onnx.reference import ReferenceEvaluator

    model, feeds = model_of(case)
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        return list(ReferenceEvaluator(model).run(None, feeds))
