"""Call one op without writing a model."""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
from onnx import NodeProto

from pyopnb.common import hand_downs, messages, sanitize
from pyopnb.engine.models.model_building import add_attributes, ints_to_floats, refuse_ambiguous
from pyopnb.engine.models.model_faults import exists, nearest_op
from pyopnb.engine.models.opset_versions import FILL
from pyopnb.engine.models.ort_capabilities import kernels, newest_opset, schema_domains
from pyopnb.engine.models.ort_types import proto_of
from pyopnb.engine.models.protos import type_of_proto
from pyopnb.engine.ops.coerce import cast_expression
from pyopnb.engine.ops.dtypes import dtype as find_dtype
from pyopnb.engine.ops.op import Op, Version
from pyopnb.engine.ops.op_names import MAX_OUTPUTS, check_opset, split_name
from pyopnb.engine.ops.registry import find_op, registry
from pyopnb.engine.ops.types import ANY, TensorType, type_of
from pyopnb.engine.runtime.exceptions import is_of_runtime
from pyopnb.engine.runtime.feed_checks import as_array, check_texts, refuse_masked
from pyopnb.engine.runtime.node_kernel import NodeKernel
from pyopnb.errors import InputError, ModelError, PyopError, UnknownName

__all__ = ["KEPT", "call"]

KEPT = 64
"""Kinds of calls whose sessions are kept; the least recent kind is dropped first."""


@messages.hide_internal_frames
def call(
    op: str | type | Op,
    /,
    *inputs: Any,
    outputs: int | None = None,
    opset: int | None = None,
    **attrs: Any,
) -> Any:
    """Run one op in ONNX Runtime, on a model of one node.

    Parameters
    ----------
    op : str, type or Op
        ``"demo::SoftClip"``, or its class; ``"Relu"`` and ``"::Relu"`` are ONNX's own.
    *inputs
        Arrays, or anything that `numpy.asarray` converts. Python numbers and lists of them get the
        declared dtype, or the dtype of the other inputs that must match, if it can hold the values
        exactly; anything that has a dtype keeps it. None leaves out an optional input.
    outputs : int, optional
        The number of outputs. By default, as many as the op's hints say, as many as the ONNX
        operator always has, or 1.
    opset : int, optional
        Version of the ONNX operators. By default, the newest that the installed runtime takes.
    **attrs
        As for `node`. To set an attr named ``outputs`` or ``opset``, build a model with
        `pyopnb.model`.

    Returns
    -------
    numpy.ndarray or tuple
        An array for one output, a tuple of them for several.

    Raises
    ------
    UnknownName
        There is no such op, neither in the registry nor in the runtime.
    InputError
        An input is not an array, or does not have the dtype or shape of the op's hint.
    ModelError
        ONNX Runtime refuses the node, for example because of an attr, or because shapes do not fit
        each other.
    Exception
        The exception that the op raised.

    Notes
    -----
    Calls of an op with the same attrs, dtypes and ranks share a session, and therefore the op's
    instance. State on ``self`` lives from one such call to the next, until the op is redefined or
    `KEPT` other kinds of calls were made. If each call must start afresh, `run` a model instead.
    After a redefinition, the next call uses the new version.

    Examples
    --------
    >>> import numpy as np, pyopnb
    >>> values, places = call("TopK", np.float32([3, 1, 2]), [2])
    >>> values, places.tolist()
    (array([3., 2.], dtype=float32), [0, 2])
    >>> @pyopnb.pyop("doctest::SoftClip")
    ... class SoftClip:
    ...     def __init__(self, limit: float = 1.0):
    ...         self.limit = limit
    ...     def compute(self, x):
    ...         return self.limit * np.tanh(x / self.limit)
    >>> call("doctest::SoftClip", np.float32([0, 100]), limit=2.0)
    array([0., 2.], dtype=float32)
    """
    __tracebackhide__ = True
    if not isinstance(op, str):
        op = find_op(op).name
    where = f"call of {op}"
    if outputs is not None and (type(outputs) is not int or not 1 <= outputs <= MAX_OUTPUTS):
        expected = f"a number from 1 to {MAX_OUTPUTS}"
        got = sanitize(repr(outputs), 60)
        raise ModelError(f"{where}, outputs", expected=expected, got=got, next="outputs=1")
    if opset is not None:
        check_opset(opset, where)
    # A definition begins an epoch, and a removal changes how many ops there are.
    definition = _define(op, len(inputs), opset, (registry.epoch, len(registry)))
    if definition.version is not None:
        next_ = "pyopnb.run(pyopnb.model([pyopnb.node(…)], …), …)"
        called = find_op(definition.version.op)
        refuse_ambiguous(where, called, next_, outputs=outputs, opset=opset)
    arrays = [_to_array(where, definition, place, inputs) for place in range(len(inputs))]
    _check_types(where, definition, arrays)
    # The node has no entries for inputs that are omitted at the end.
    while arrays and arrays[-1] is None:
        arrays.pop()
    try:
        proto = _node(definition, outputs, attrs)
        kernel = _kernel(definition.version, proto.SerializeToString(deterministic=True), opset)
        session = kernel.session(arrays)
    except PyopError as error:
        raise _of_call(error, where, op, opset) from None
    except Exception as error:  # exceptions of ONNX Runtime have no common base class
        if is_of_runtime(error):
            raise _refusal(error, where) from None
        raise
    try:
        results = kernel.run(session, arrays)
    except Exception as error:  # exceptions of ONNX Runtime have no common base class
        if is_of_runtime(error):
            raise _refusal(error, where) from None
        raise
    if len(results) == 1:
        return results[0]
    return tuple(results)


# ---- the called op -------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Definition:
    """One call's op or ONNX operator, with the names and declared types of its inputs.

    ``alike`` has the places of the inputs whose dtype an input must have, as they
    share a type parameter.
    """

    domain: str
    op_type: str
    version: Version | None
    schema: Any
    names: list[str]
    types: list[TensorType]
    alike: list[list[int]]

    def declared(self, place: int, inputs: Sequence[Any]) -> TensorType:
        """Find the declared type of an input.

        If it may have several dtypes, it takes the dtype of the other arrays that share them.
        """
        for other in self.alike[place]:
            value = inputs[other]
            if isinstance(value, (np.ndarray, np.generic)) and value.dtype.kind not in "OUT":
                return TensorType(find_dtype(value.dtype), None)
        return self.types[place]


def _define_op(version: Version, domain: str, op_type: str, count: int) -> _Definition:
    schema = version.schema
    types = [schema.port(place).type if schema.inputs else ANY for place in range(count)]
    names = _names(schema.inputs, count)
    return _Definition(domain, op_type, version, None, names, types, [[]] * count)


def _define_operator(schema: Any, domain: str, op_type: str, count: int) -> _Definition:
    declared = [] if schema is None else list(schema.inputs)
    names = _names(declared, count)
    ports = list(declared)
    # All inputs from the last port of a variadic operator on belong to that port.
    if ports and _is_variadic(ports[-1]):
        ports += [ports[-1]] * (count - len(ports))
    types = [ANY] * count
    alike: list[list[int]] = [[] for _ in range(count)]
    for place, port in enumerate(ports[:count]):
        if len(port.types) == 1:
            types[place] = type_of_proto(proto_of(next(iter(port.types))))
        elif port.is_homogeneous:
            same = [n for n, like in enumerate(ports[:count]) if like.type_str == port.type_str]
            alike[place] = same
    return _Definition(domain, op_type, None, schema, names, types, alike)


@functools.lru_cache(maxsize=KEPT)
def _define(op: str, count: int, opset: int | None, _: tuple[int, int]) -> _Definition:
    """Find an op by its name, once in each state of the registry.

    A name without a domain is one of the ONNX operators.
    """
    domain, op_type = split_name(op if "::" in op else f"::{op}")
    registered = registry.find(domain, op_type)
    is_served = (domain, op_type) in kernels()
    if not domain and opset is None and not onnx.defs.has(op_type):
        # ImageScaler and similar operators have kernels for opsets before 10 only, and ONNX never
        # defined them.
        is_served = False
    if registered is None and not is_served:
        registered = hand_downs.handed_down("catalog_op")(op, count)
        if registered is not None:
            domain, op_type = split_name(registered.name)
    # A registered op comes first: a session calls it instead of the ONNX operator of the same name.
    if registered is not None:
        return _define_op(registered.current, domain, op_type, count)
    if not exists(domain, op_type):
        raise _unknown(domain, op_type, count)
    number = schema_domains().get(domain, 1)
    if domain == "":
        number = opset or newest_opset()
    schema = None
    if onnx.defs.has(op_type, number, domain):
        schema = onnx.defs.get_schema(op_type, number, domain)
    return _define_operator(schema, domain, op_type, count)


def _unknown(domain: str, op_type: str, count: int) -> UnknownName:
    """Return the error for an op that is unknown, or does not take this many inputs."""
    full_name = f"{domain}::{op_type}"
    got = f"{full_name}, which is in neither"
    near = nearest_op(domain, op_type)
    advice = "define it: %%pyop" if near is None else f'"{"::".join(near)}"'
    # The catalog may have it for another number of inputs, or know why it cannot run.
    call_node = NodeProto(op_type=op_type, domain=domain, input=["x"] * count)
    names = hand_downs.handed_down("catalog_names")
    refusal = names.find_refusal(full_name)
    problem = names.misuse(call_node)
    if refusal is not None:
        got = f"{full_name}, which pyopnb's catalog cannot run, because {refusal.reason}"
        advice = refusal.instead
    elif problem:
        got = problem
        advice = f'pyopnb.catalog("{op_type}"), which lists what it computes'
    return UnknownName(
        f"call of {full_name}",
        expected="an op of the registry or of the installed runtime",
        got=got,
        next=advice,
    )


def _names(ports: Sequence[Any], count: int) -> list[str]:
    """Name inputs or outputs as the ports, so that messages name them."""
    names: list[str] = []
    for number in range(count):
        name = ports[min(number, len(ports) - 1)].name if ports else "input"
        # A variadic port has many, some ports have no name, and two of some
        # operators have the same.
        if number >= len(ports) or not name or name in names or _is_variadic(ports[number]):
            name = f"{name or 'output'}_{number}"
        names.append(name)
    return names


def _is_variadic(port: Any) -> bool:
    option = onnx.defs.OpSchema.FormalParameterOption.Variadic
    return bool(getattr(port, "variadic", getattr(port, "option", None) == option))


def _to_array(
    where: str, definition: _Definition, number: int, inputs: Sequence[Any]
) -> np.ndarray | None:
    """Convert an input to an array; plain numbers get the declared dtype."""
    value = inputs[number]
    if value is None:
        return None
    name = definition.names[number]
    where = f"{where}, input {name}"
    refuse_masked(value, where, "a tensor", name)
    if not isinstance(value, np.ndarray):
        value = as_array(value, definition.declared(number, inputs), where, name)
    array = np.asarray(value)
    if array.dtype.kind in "OUT":
        check_texts(array, where, "string[...]")
        return array.astype(object)
    # A tensor has the byte order of this machine.
    return array if array.dtype.isnative else array.astype(array.dtype.newbyteorder("="))


def _check_types(where: str, definition: _Definition, arrays: Sequence[np.ndarray | None]) -> None:
    """Refuse an array of the wrong dtype, and suggest the cast, or of the wrong shape."""
    for number, array in enumerate(arrays):
        if array is None:
            continue
        declared = definition.declared(number, arrays)
        want = declared.dtype
        name = definition.names[number]
        if want is not None and find_dtype(array.dtype) != want:
            advice = cast_expression(name, want)
        elif not declared.accepts_shape(array.shape):
            advice = None
        else:
            continue
        raise InputError(
            f"{where}, input {name}",
            expected=str(declared),
            got=str(type_of(array)),
            next=advice,
        )


# ---- kernels -------------------------------------------------------------------------------------


def _node(definition: _Definition, outputs: int | None, attrs: Mapping[str, Any]) -> NodeProto:
    version, schema = definition.version, definition.schema
    count = outputs or (1 if schema is None else max(1, int(schema.min_output)))
    if version is not None:
        count = outputs or len(version.schema.outputs or ()) or 1
    names = [f"y{number}" for number in range(count)]
    domain, op_type = definition.domain, definition.op_type
    proto = NodeProto(op_type=op_type, domain=domain, name="call", output=names)
    add_attributes(proto, f"{domain}::{op_type}", attrs)
    # 1 for a float attr means 1.0, and ONNX Runtime refuses the int.
    ints_to_floats(proto)
    return proto


@functools.lru_cache(maxsize=KEPT)
def _kernel(version: Version | None, data: bytes, opset: int | None) -> NodeKernel:
    """Return the kernel of a node, cached by the node's bytes.

    The bytes distinguish 1, 1.0 and True, and 0.0 and -0.0.
    """
    proto = NodeProto.FromString(data)
    versions = {"": opset or newest_opset()}
    op = None
    if version is not None:
        op = registry.find(proto.domain, proto.op_type)
    elif proto.domain:
        versions[proto.domain] = schema_domains()[proto.domain]
    return NodeKernel(proto, versions, op, short=True)


def _refusal(error: Exception, where: str) -> ModelError:
    """Make the error for a call that ONNX Runtime refuses, with its reason.

    The class and the frames of the ONNX Runtime error say nothing about the call.
    """
    # The reason follows a number, the node, and the condition in the C++ source.
    reason = re.split(r" : |Status Message: | was false\. ", str(error))[-1].strip().rstrip(".")
    expected = "inputs and attrs that ONNX Runtime takes"
    return ModelError(where, expected=expected, got=sanitize(reason, 500))


def _of_call(error: PyopError, where: str, op: str, opset: int | None) -> PyopError:
    """Rephrase an error about the generated node as one about the call."""
    _, end, port = error.where.partition(")")
    if not (end and error.where.startswith("node 'call' (")):
        return error
    advice = error.next
    if advice == FILL:
        # That advice needs a model, and a call has none: the reference runs the op by its name.
        version = f", opset={opset}" if opset is not None else ""
        advice = f'pyopnb.reference("{op if "::" in op else f"::{op}"}", …{version})'
    elif advice and advice.endswith("=None"):
        # That advice is for the author of the op, but here the caller has omitted an input.
        advice = "np.zeros((), np.float32)"
    elif advice and advice.startswith("["):
        # That advice is a list of names, and a call has arrays.
        advice = "fewer arrays"
    return messages.moved(error, f"{where}{port}", advice)
