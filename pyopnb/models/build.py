"""Small graphs by hand: nodes and models that the installed ONNX Runtime takes, made by onnx.helper."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import ModelProto, NodeProto, TensorProto, ValueInfoProto, helper, numpy_helper

from pyopnb.models.installed import newest_ir_version, newest_opset, schema_domains
from pyopnb.models.nodes import walk
from pyopnb.ops.errors import ModelError, shown
from pyopnb.ops.registry import split_name
from pyopnb.ops.types import TensorType, tensor_type, type_of

__all__ = ["model", "node"]


def node(
    op: str, inputs: Sequence[str] | str, outputs: Sequence[str] | str, name: str | None = None, **attrs: Any
) -> NodeProto:
    """A node, as `onnx.helper.make_node` makes it.

    Parameters
    ----------
    op : str
        ``"demo::SoftClip"``; ``"Relu"`` and ``"::Relu"`` are ONNX's own.
    inputs, outputs : sequence of str, or one str of names separated by blanks
        An empty name leaves an optional port out.
    name : str, optional
    **attrs
        Anything that `onnx.helper.make_attribute` takes; arrays become tensors, a ModelProto its graph. None: no attr.

    Examples
    --------
    >>> n = node("demo::SoftClip", "x", "y", limit=2.0)
    >>> n.domain, n.op_type, n.attribute[0].f
    ('demo', 'SoftClip', 2.0)
    """
    domain, op_type = split_name(op if "::" in op else f"::{op}")
    made = helper.make_node(op_type, _names(inputs), _names(outputs), name=name, domain=domain or None)
    for key, value in sorted(attrs.items()):
        if value is not None:
            made.attribute.append(_attribute(key, value))
    return made


def _names(names: Sequence[str] | str) -> list[str]:
    return names.split() if isinstance(names, str) else list(names)


def _attribute(key: str, value: Any) -> onnx.AttributeProto:
    if isinstance(value, np.ndarray):
        return helper.make_attribute(key, numpy_helper.from_array(value))
    if isinstance(value, ModelProto):
        return helper.make_attribute(key, value.graph)
    if isinstance(value, (list, tuple)) and not value:
        # Nothing tells what an empty list is a list of; ints is what ONNX's own operators mostly mean.
        return helper.make_attribute(key, value, attr_type=onnx.AttributeProto.INTS)
    return helper.make_attribute(key, int(value) if isinstance(value, (bool, np.bool_)) else value)


def model(
    nodes: Sequence[NodeProto] | NodeProto,
    inputs: Mapping[str, Any],
    outputs: Mapping[str, Any] | Sequence[str] | str,
    *,
    initializers: Mapping[str, Any] | None = None,
    functions: Sequence[onnx.FunctionProto] = (),
    opset: int | None = None,
    name: str = "graph",
) -> ModelProto:
    """A model of these nodes that the installed ONNX Runtime takes.

    Parameters
    ----------
    nodes : sequence of NodeProto
    inputs : mapping
        Name to type (``"float32[N,3]"``) or to an example array.
    outputs : mapping, or sequence of names
        With a mapping, the types are declared; names alone leave them to ONNX Runtime.
    initializers : mapping, optional
        Name to array.
    functions : sequence of FunctionProto
        The model's local functions.
    opset : int, optional
        Of ONNX's own operators; the newest that the installed runtime takes if not given. The IR version always is, and
        an import is added for each domain that occurs.

    Raises
    ------
    ModelError
        A name stands for two things.
    NotationError
        A type cannot be read.

    Examples
    --------
    >>> m = model([node("Relu", "x", "y")], {"x": "float32[N,3]"}, "y")
    >>> [i.name for i in m.graph.input], [i.domain for i in m.opset_import]
    (['x'], [''])
    """
    made = [nodes] if isinstance(nodes, NodeProto) else list(nodes)
    given = {} if initializers is None else dict(initializers)
    _refuse_doubles(made, inputs, given)
    graph = helper.make_graph(
        made,
        name,
        [_value_info(key, value) for key, value in inputs.items()],
        _outputs(outputs),
        [numpy_helper.from_array(np.asarray(value), key) for key, value in given.items()],
    )
    whole = helper.make_model(
        graph,
        producer_name="pyopnb",
        functions=list(functions),
        ir_version=newest_ir_version(),
        opset_imports=[helper.make_opsetid("", opset or newest_opset())],
    )
    _import_domains(whole)
    return whole


def _refuse_doubles(nodes: Sequence[NodeProto], inputs: Mapping[str, Any], initializers: Mapping[str, Any]) -> None:
    owners = dict.fromkeys(inputs, "an input") | dict.fromkeys(initializers, "an initializer")
    for made in nodes:
        for output in filter(None, made.output):
            if output in owners:
                got = f"{owners[output]} and an output of {made.op_type}"
                raise ModelError(f"name {shown(output)}", expected="one meaning", got=got, next="rename one of them")
            owners[output] = f"an output of {made.op_type}"


def _value_info(name: str, value: Any) -> ValueInfoProto:
    kind = tensor_type(value) if isinstance(value, (str, TensorType)) else type_of(value)
    return helper.make_tensor_value_info(name, kind.dtype.onnx if kind.dtype else TensorProto.UNDEFINED, kind.shape)


def _outputs(outputs: Mapping[str, Any] | Sequence[str] | str) -> list[ValueInfoProto]:
    if isinstance(outputs, Mapping):
        return [_value_info(name, value) for name, value in outputs.items()]
    return [ValueInfoProto(name=name) for name in _names(outputs)]


def _import_domains(whole: ModelProto) -> None:
    """Add an import for each domain that a node of the model uses and the model does not import."""
    imported = {entry.domain for entry in whole.opset_import}
    for domain in sorted({site.node.domain for site in walk(whole)} - imported - {"ai.onnx"}):
        whole.opset_import.append(helper.make_opsetid(domain, schema_domains().get(domain, 1)))
    for function in whole.functions:
        known = {entry.domain for entry in function.opset_import}
        used = {inner.domain for inner in function.node} - known - {"ai.onnx"}
        function.opset_import.extend(e for e in whole.opset_import if e.domain in used)
