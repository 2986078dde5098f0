"""Nodes and models built in Python, in versions that the installed ONNX Runtime takes."""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Iterable, Mapping, Sequence, Set
from typing import Any

import numpy as np
import onnx
from onnx import (
    AttributeProto,
    ModelProto,
    NodeProto,
    TensorProto,
    ValueInfoProto,
    helper,
    numpy_helper,
)

from pyopnb.common import sanitize
from pyopnb.engine.models.index import GraphIndex
from pyopnb.engine.models.model_faults import find_faults
from pyopnb.engine.models.model_files import without_weights
from pyopnb.engine.models.onnx_schemas import find_schema
from pyopnb.engine.models.op_inference import infer_types, inferred_type
from pyopnb.engine.models.opset_versions import import_domains
from pyopnb.engine.models.ort_capabilities import newest_ir_version, newest_opset
from pyopnb.engine.models.protos import (
    attribute_of,
    mark_inferred,
    nodes_in,
)
from pyopnb.engine.ops.argument_checks import check_arguments, describe, is_text
from pyopnb.engine.ops.dtypes import dtype
from pyopnb.engine.ops.op import Op
from pyopnb.engine.ops.op_names import canonical_domain, check_opset, split_name
from pyopnb.engine.ops.registry import find_op, registry
from pyopnb.engine.ops.types import TensorType, tensor_type, type_of
from pyopnb.errors import InputError, ModelError

__all__ = [
    "add_attributes",
    "checked_attribute",
    "ints_to_floats",
    "model",
    "node",
    "refuse_ambiguous",
    "type_outputs",
]


@check_arguments
def node(
    op: str | type | Op,
    /,
    inputs: Sequence[str] | str,
    outputs: Sequence[str] | str,
    name: str | None = None,
    **attrs: Any,
) -> NodeProto:
    """Make a node, as `onnx.helper.make_node` does.

    Parameters
    ----------
    op : str, type or Op
        ``"demo::SoftClip"``, or its class; ``"Relu"`` and ``"::Relu"`` are ONNX's own.
    inputs, outputs : sequence of str, or one str of names separated by blanks
        An empty name leaves an optional port out.
    name : str, optional
        Without one, messages name the node by its first output.
    **attrs
        Values as for `onnx.helper.make_attribute`. An array becomes a tensor, and a ModelProto a
        graph. None leaves the attr out.

    Returns
    -------
    NodeProto
        Not yet part of a model.

    Raises
    ------
    DefinitionError
        The name does not have the form ``domain::OpType``.
    UnknownName
        A class belongs to no op in the registry, or to several.
    ModelError
        An attr has a value that ONNX cannot store: an array with a dtype that no tensor can have, a
        dict, or a list of mixed kinds.

    Examples
    --------
    >>> n = node("demo::SoftClip", "x", "y", limit=2.0)
    >>> n.domain, n.op_type, n.attribute[0].f
    ('demo', 'SoftClip', 2.0)
    """
    if not isinstance(op, str):
        op = find_op(op).name
    # A bare name is the ONNX operator here, where the registry's functions read it as one of
    # pyopnb's.
    domain, op_type = split_name(op if "::" in op else f"::{op}")
    refuse_ambiguous(
        f"node {op}",
        registry.find(domain, op_type),
        'node.attribute.append(onnx.helper.make_attribute("name", …))',
        name=name,
    )
    proto = helper.make_node(
        op_type, _names(inputs), _names(outputs), name=name, domain=domain or None
    )
    add_attributes(proto, op, attrs)
    return proto


def refuse_ambiguous(where: str, op: Op | None, next_: str, **options: Any) -> None:
    """Refuse an option of a function that could also be an attr of the op.

    Parameters
    ----------
    next_ : str
        How to set the attr.
    **options
        None if not given.
    """
    for attr in () if op is None else op.current.schema.attrs:
        if options.get(attr.name) is not None:
            raise InputError(
                f"{where}, {attr.name}",
                expected="nothing, as the op has an attr of that name",
                got=describe(options[attr.name]),
                next=next_,
            )


def add_attributes(proto: NodeProto, op: str, attrs: Mapping[str, Any]) -> None:
    """Give a node the attributes that `node` takes by keyword."""
    # The onnx maker also sorts the attributes, so that equal nodes have equal bytes.
    for key, value in sorted(attrs.items()):
        if value is not None:
            proto.attribute.append(checked_attribute(f"node {op}", key, value))


def _names(names: Sequence[str] | str) -> list[str]:
    if isinstance(names, str):
        return names.split()
    return list(names)


def checked_attribute(node: str, key: str, value: Any) -> onnx.AttributeProto:
    """Make an attribute, or raise `ModelError` where ONNX cannot store the value."""
    where = f"{node}, attr {key}"
    # An array is a tensor attribute. onnx would take it for a list of numbers.
    if isinstance(value, np.ndarray):
        return helper.make_attribute(key, _tensor(value, where))
    try:
        # onnx would take the keys of a dict, and a set in any order.
        if isinstance(value, (Mapping, Set)):
            raise TypeError
        attribute = attribute_of(key, value)
        # A finite number beyond float32 would become infinite.
        numbers = value if isinstance(value, (list, tuple)) else [value]
        for stored, number in zip(attribute.floats or [attribute.f], numbers, strict=False):
            if math.isinf(stored) and not math.isinf(number):
                raise ValueError
        return attribute
    except (TypeError, ValueError):
        expected = (
            "a number of float32 or int64, str, bytes, bool, array or model, "
            "or a list of one of these"
        )
        got = f"{type(value).__name__} {sanitize(repr(value), 60)}"
        raise ModelError(where, expected=expected, got=got) from None


@functools.partial(check_arguments, advice={"inputs": '{"x": "float32[N,3]"}', "outputs": '"y"'})
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
    """Make a model that the installed ONNX Runtime takes.

    Parameters
    ----------
    nodes : sequence of NodeProto
        In any order; the model has them sorted.
    inputs : mapping
        Name to type (``"float32[N,3]"``, ``"seq(float32[N])"``, ``"optional(int64[])"``) or to an
        example array. A list is refused, because it may be meant as a shape.
    outputs : mapping, or sequence of names
        A mapping declares the types. For names alone, the types are inferred by ONNX and by the
        ops' own ``infer``, as far as possible. A `Session` infers them again, so that an op can be
        redefined with other outputs.
    initializers : mapping, optional
        Name to array, or to a TensorProto (whose data may be in another file).
    functions : sequence of FunctionProto
        The model's local functions.
    opset : int, optional
        Version of the ONNX operators. By default, the newest that the installed runtime takes.
        The IR version is always the newest that it takes. Each domain that occurs is imported.

    Returns
    -------
    ModelProto
        Checked, and with its nodes in an order in which they can run.

    Raises
    ------
    ModelError
        A name is defined twice or not at all; nodes depend on each other in a cycle; an operator is
        not an ONNX operator, or does not take an attr or its kind (an int passes for a float); an
        array has a dtype that no tensor can have.
    InputError
        A type does not have the form ``float32[N,3]``.

    Examples
    --------
    >>> m = model([node("Relu", "x", "y")], {"x": "float32[N,3]"}, "y")
    >>> [i.name for i in m.graph.input], [i.domain for i in m.opset_import]
    (['x'], [''])
    >>> m.graph.output[0].type.tensor_type.shape.dim[0].dim_param
    'N'
    """
    protos = [nodes] if isinstance(nodes, NodeProto) else list(nodes)
    _check_items(protos, "model, nodes", NodeProto, 'pyopnb.node("Abs", "x", "y")')
    _check_items(functions, "model, functions", onnx.FunctionProto)
    if opset is not None:
        check_opset(opset, "model")
    input_infos = _value_infos(inputs, "input")
    if isinstance(outputs, Mapping):
        output_infos = _value_infos(outputs, "output")
    else:
        output_infos = [ValueInfoProto(name=name) for name in _names(outputs)]
    tensors = []
    for key, value in (initializers or {}).items():
        tensors.append(_tensor(value, f"initializer {key}", key))
    model_proto = helper.make_model(
        helper.make_graph(protos, name, input_infos, output_infos, tensors),
        producer_name="pyopnb",
        functions=list(functions),
        ir_version=newest_ir_version(),
        opset_imports=[helper.make_opsetid("", opset or newest_opset())],
    )
    # Faults that would make every later step confusing are refused first.
    for fault in find_faults(model_proto):
        raise fault.error
    for inner_node in nodes_in(model_proto.graph):
        ints_to_floats(inner_node)
    # The onnx checker and ONNX Runtime want each node after the nodes that it reads.
    GraphIndex.sort_nodes(model_proto.graph)
    import_domains(model_proto)
    type_outputs(model_proto)
    return model_proto


def _check_items(items: Iterable[Any], where: str, kind: type, next: str | None = None) -> None:
    for item in items:
        if not isinstance(item, kind):
            expected = f"{kind.__name__}s"
            raise ModelError(where, expected=expected, got=describe(item), next=next)


def ints_to_floats(node: NodeProto) -> None:
    """Convert int attributes to float, in place, where the ONNX operator takes a float.

    The runtime refuses ints there.
    """
    for attribute in node.attribute:
        # The runtime says only that the type of the attribute is wrong, and users often write 1
        # for 1.0.
        declared = _declared(node, attribute.name)
        if attribute.ref_attr_name:
            continue
        if attribute.type == AttributeProto.INT and declared == AttributeProto.FLOAT:
            value: Any = float(attribute.i)
        elif attribute.type == AttributeProto.INTS and declared == AttributeProto.FLOATS:
            value = list(map(float, attribute.ints))
        else:
            continue
        attribute.CopyFrom(helper.make_attribute(attribute.name, value, attr_type=declared))


def _declared(node: NodeProto, name: str) -> Any:
    domain = canonical_domain(node.domain)
    schema = None
    if registry.find(domain, node.op_type) is None:
        schema = find_schema(domain, node.op_type)
    if schema is None or name not in schema.attributes:
        return None
    return schema.attributes[name].type.value


# ---- types ---------------------------------------------------------------------------------------


_WRAPPED = re.compile(r"\s*(seq|optional)\((.*)\)\s*")


def _value_infos(values: Mapping[str, Any], noun: str) -> list[ValueInfoProto]:
    return [_value_info(name, value, f"{noun} {name}") for name, value in values.items()]


def _value_info(name: str, value: Any, where: str) -> ValueInfoProto:
    wrapped = _WRAPPED.fullmatch(value) if isinstance(value, str) else None
    if wrapped is not None:
        inner = _value_info(name, wrapped[2], where).type
        if wrapped[1] == "seq":
            return helper.make_value_info(name, helper.make_sequence_type_proto(inner))
        return helper.make_value_info(name, helper.make_optional_type_proto(inner))
    if isinstance(value, (str, TensorType)):
        value_type = tensor_type(value)
        # A TensorType can be made with any sizes.
        value_type = value_type.like(shape=value_type.shape)
    elif isinstance(value, (type, np.dtype, list, tuple)):
        # A list may be meant as a shape or as an example, and a guess would be
        # wrong half of the time.
        expected, got = "a type, or an example array", describe(value)
        raise ModelError(where, expected=expected, got=got, next='"float32[N,3]"')
    else:
        value_type = type_of(_array(value, where))
    element = value_type.dtype.onnx if value_type.dtype else TensorProto.UNDEFINED
    return helper.make_tensor_value_info(name, element, value_type.shape)


def _array(value: Any, where: str) -> np.ndarray:
    """Convert a value to an array that can become a tensor, or raise a `ModelError`."""
    advice = "np.asarray(…, dtype=…)"
    try:
        array = np.asarray(value)
        dtype_row = dtype(array.dtype)
    except ValueError as error:
        # It is ragged, or has a dtype that ONNX does not have, such as a date or a record.
        got = sanitize(str(error))
        if isinstance(error, InputError):
            got = f"an array of dtype {array.dtype}"
        expected = "an array of an ONNX dtype"
        raise ModelError(where, expected=expected, got=got, next=advice) from None
    if dtype_row.name != "string":
        return array
    # An array of objects can hold anything, and onnx would call str on it.
    for item in array.flat:
        if not isinstance(item, bytes) and not is_text(item):
            expected, got = "str, in an array of Python objects", describe(item)
            raise ModelError(where, expected=expected, got=got, next=advice)
    return array.astype(object)


def _tensor(value: Any, where: str, name: str | None = None) -> TensorProto:
    if isinstance(value, TensorProto):
        tensor = TensorProto()
        tensor.CopyFrom(value)
        tensor.name = name or ""
        return tensor
    return numpy_helper.from_array(_array(value, where), name)


def type_outputs(model_proto: ModelProto) -> None:
    """Infer the types of outputs that are not declared, and mark them as inferred.

    Parameters
    ----------
    model_proto : ModelProto
        It is changed.
    """
    # Types that the user declared are left as they are.
    untyped = {info.name: info for info in model_proto.graph.output if not info.HasField("type")}
    if not untyped:
        return
    try:
        typed = infer_types(without_weights(model_proto).proto)
    except Exception:
        # An op's infer or __init__ raised, or two types contradict each other. The session will
        # say so in full, and the op may be corrected before; until then the model is as if the
        # op were not defined.
        return
    for info in typed.graph.output:
        output_type = inferred_type(info.type)
        if info.name in untyped and output_type.dtype:
            mark_inferred(untyped[info.name], output_type)
