"""Ops known to onnx itself: each op of the registry stands in ``onnx.defs``, with its ``infer`` as shape inference.

What ``onnx.defs`` cannot say stays out of it, so that ``onnx.checker`` refuses nothing that a session runs:

- An operator that onnx has already keeps onnx's schema: other models mean that one.
- A schema lists its attributes, each of one kind, and the checker refuses all others. An op with ``**attrs``, or with an attr
  of no known kind, is not put in. The checker then says as much about its nodes as about any op that it does not know.
- ONNX's own domains keep their range of versions: the newest of them is what ``onnx.helper`` writes into every model.

`infer_types` knows these ops all the same.
"""

from __future__ import annotations

import atexit
import os
import re
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from typing import Any

import onnx
from onnx import AttributeProto, ModelProto, TensorProto, defs, helper

from pyopnb.models.nodes import (
    Site,
    attribute_of,
    attribute_value,
    attribute_values,
    linked_attributes,
    nodes_of_functions,
    refuse_circles,
    type_of_proto,
    type_proto,
    walk,
)
from pyopnb.ops.dtypes import DTYPES, DType
from pyopnb.ops.errors import PyopError, sanitize
from pyopnb.ops.instantiate import instantiate, promised_types, resolve_type
from pyopnb.ops.registry import Op, Version, registry, split_name
from pyopnb.ops.schema import REQUIRED, Attr, Port, Schema
from pyopnb.ops.types import ANY, TensorType

__all__ = ["LARGEST_VERSION", "default_attribute", "find_schema", "infer_types", "is_onnx_domain", "op_schema"]

_Parameter, _Option, _Kind = defs.OpSchema.FormalParameter, defs.OpSchema.FormalParameterOption, defs.OpSchema.AttrType

_KINDS = {
    "int": _Kind.INT,
    "float": _Kind.FLOAT,
    "str": _Kind.STRING,
    "bytes": _Kind.STRING,
    "bool": _Kind.INT,
    "tensor": _Kind.TENSOR,
    "graph": _Kind.GRAPH,
}
_LISTS = {
    "list[int]": _Kind.INTS,
    "list[float]": _Kind.FLOATS,
    "list[str]": _Kind.STRINGS,
    "list[bytes]": _Kind.STRINGS,
    "list[bool]": _Kind.INTS,
    "list[tensor]": _Kind.TENSORS,
    "list[graph]": _Kind.GRAPHS,
}
_ANY = "T"


def _type_text(row: DType) -> str:
    return f"tensor({TensorProto.DataType.Name(row.onnx).lower()})"


_ALL_TYPES = [_type_text(row) for row in DTYPES]


@cache
def _onnx_domains() -> frozenset[str]:
    return frozenset(value for name, value in vars(defs).items() if name.endswith("_DOMAIN") and isinstance(value, str))


def is_onnx_domain(domain: str) -> bool:
    """Whether the operators of a domain are ONNX's own."""
    return domain in _onnx_domains() or domain == "ai.onnx"


LARGEST_VERSION = 2**31 - 1
"""The largest version that onnx takes; a file can say more."""


def find_schema(domain: str, op_type: str, version: int | None = None) -> Any:
    """The operator as ONNX has it in that version of its domain, the newest if not given; None where ONNX does not know it."""
    try:
        if version is None:
            return defs.get_schema(op_type, domain=domain)
        return defs.get_schema(op_type, min(max(version, 0), LARGEST_VERSION), domain)
    except defs.SchemaError:
        return None


# ---- an op's schema as onnx's ------------------------------------------------------------------------------------------------


def op_schema(version: Version) -> defs.OpSchema:
    """An op's schema as onnx has them, without the attrs that it cannot have there."""
    schema = version.schema
    domain, op_type = split_name(version.op)
    made = defs.OpSchema(
        op_type,
        domain,
        version.opset,
        schema.doc.encode(errors="backslashreplace").decode(),
        inputs=_inputs(schema.inputs),
        outputs=_outputs(schema.outputs),
        type_constraints=[(_ANY, _ALL_TYPES, "any dtype")],
        attributes=[_attribute(attr) for attr in schema.attrs if _kind(attr) is not None],
    )
    made.set_type_and_shape_inference_function(_Inference(version.op))
    return made


def _inputs(ports: Sequence[Port]) -> list[Any]:
    made: list[Any] = []
    for port in ports:
        if port.optional and ports[-1].variadic:
            # onnx counts an optional input before a variadic one as needed: from here on, all are one variadic input.
            return [*made, _parameter(ports[-1].name, ANY, _Option.Variadic)]
        option = _Option.Variadic if port.variadic else _Option.Optional if port.optional else _Option.Single
        made.append(_parameter(port.name, port.type, option))
    return made


def _outputs(types: Sequence[TensorType] | None) -> list[Any]:
    if types is None:
        return [_parameter("outputs", ANY, _Option.Variadic)]
    # A node may leave out any of an op's outputs.
    return [_parameter(f"y{place}", kind, _Option.Optional) for place, kind in enumerate(types)]


def _parameter(name: str, kind: TensorType, option: Any) -> Any:
    dtype = _type_text(kind.dtype) if kind.dtype else _ANY
    note = "" if kind == ANY else str(kind)
    return _Parameter(name, dtype, note, param_option=option, is_homogeneous=False, min_arity=0)


def _kind(attr: Attr) -> Any:
    return _KINDS.get(attr.kind) or _LISTS.get(attr.kind)


def _attribute(attr: Attr) -> Any:
    default = default_attribute(attr)
    if default is not None:
        return defs.OpSchema.Attribute(attr.name, default, "")
    return defs.OpSchema.Attribute(attr.name, _kind(attr), "", required=attr.default is REQUIRED)


def default_attribute(attr: Attr) -> AttributeProto | None:
    """The default as an attribute; None where there is none, or none that a node could have (``limit: int = None``)."""
    try:
        made = attribute_of(attr.name, attr.take(attr.default, "default"))
    except (PyopError, TypeError, ValueError, OverflowError):
        return None
    return made if made.type == _kind(attr).value else None


def _listable(schema: Schema) -> bool:
    return not schema.open_attrs and all(_kind(attr) is not None for attr in schema.attrs)


# ---- onnx.defs follows the registry ------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Form:
    """What a schema in ``onnx.defs`` is made of: while it is the same, nothing is put in anew."""

    opset: int
    schema: Schema
    doc: str


_held: dict[str, _Form] = {}
_waiting: set[str] = set()
_lock = threading.RLock()
_TRIES = 100


def _follow(name: str) -> None:
    """Make ``onnx.defs`` say of an op what the registry says."""
    _waiting.add(name)
    for _ in range(_TRIES):
        with _lock:
            here = _update_all()
        if not _waiting or here:
            return  # here: onnx is below us on this very stack; the next definition, or `infer_types`, finds it in _waiting
        time.sleep(0.001)


def _update_all() -> bool:
    """Update what waits for it; whether it must go on waiting for this very thread."""
    running = _inferring()
    for name in list(_waiting):
        _waiting.discard(name)
        if not _update(name, bool(running)):
            _waiting.add(name)
    return threading.get_ident() in running


def _update(name: str, inferring: bool) -> bool:
    """Update one op; False where its old schema cannot be taken out because onnx may be using it."""
    op = registry.find(*split_name(name))
    version = op.current if op else None
    form = _Form(version.opset, version.schema, version.schema.doc) if version else None
    held = _held.get(name)
    if held is not None and held != form:
        if inferring:
            return False
        _take_out(name)
    if version is not None and form is not None and name not in _held and _belongs(version):
        # onnx's reference evaluator, as it is imported, refuses two operators of one name in two domains.
        import onnx.reference.op_run  # noqa: F401

        defs.register_schema(op_schema(version))
        _held[name] = form
    return True


def _take_out(name: str) -> None:
    opset = _held.pop(name).opset
    domain, op_type = split_name(name)
    if defs.has(op_type, opset, domain):  # another may have taken it out
        defs.deregister_schema(op_type, opset, domain)


def _belongs(version: Version) -> bool:
    domain, op_type = split_name(version.op)
    if _closed.is_set() or defs.has(op_type, domain):
        return False
    if is_onnx_domain(domain):
        oldest, newest = defs.C.schema_version_map()[domain]
        return bool(oldest <= version.opset <= newest)  # and without it, the checker refuses the node at all events
    return _listable(version.schema)


def _inferring() -> set[int]:
    """The threads that onnx has called from: it goes on with the schema in its hands when the call returns."""
    frames: dict[int, Any] = dict(sys._current_frames())
    running = set()
    while frames:
        thread, frame = frames.popitem()
        while frame is not None and frame.f_code is not _sleep.__code__:
            if frame.f_code in (_Inference.__call__.__code__, _infer_stand_in.__code__):
                running.add(thread)
                break
            frame = frame.f_back
        frame = None  # this very function's frame would hold itself, and with it the locals of all its callers
    return running


_closed = threading.Event()
_DRAIN = 1.0  # seconds that exit waits for an infer on another thread


def _close() -> None:
    """Take everything out before the interpreter ends: what C++ holds of Python would outlive it."""
    _closed.set()
    until = time.monotonic() + _DRAIN
    while _inferring() - {threading.get_ident()} and time.monotonic() < until:
        time.sleep(0.001)
    with _lock:
        if not _inferring():
            for name in list(_held):
                _take_out(name)
            if _stood_in.is_set():  # asking onnx.defs, which builds all its schemas for that, would cost each exit 30 ms
                defs.deregister_schema(_STAND_IN[1], 1, _STAND_IN[0])


def _stop_at_exit() -> None:
    """Put a daemon thread to sleep while the interpreter exits: one that CPython ends inside onnx takes the process down."""
    if _closed.is_set() and threading.current_thread().daemon:
        _sleep()


def _sleep() -> None:
    threading.Event().wait()


def _in_child() -> None:
    global _lock
    _lock = threading.RLock()  # a thread of the parent may have held it


registry.subscribe(lambda version: _follow(version.op), removed=_follow)
atexit.register(_close)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_in_child)


# ---- what onnx calls ---------------------------------------------------------------------------------------------------------

_NAME = re.compile(r"\((.*)\)$", re.DOTALL)


@dataclass(frozen=True)
class _Inference:
    """The shape inference of an op, by its current version."""

    name: str

    def __call__(self, context: Any) -> None:
        _stop_at_exit()
        op = registry.find(*split_name(self.name))
        if op is None:
            return  # removed meanwhile
        display = getattr(context, "get_display_name", str)()  # old onnx cannot say which node it is
        found = _NAME.search(display)
        where = f"node '{sanitize(found[1])}' ({op.name})" if found else f"a node of {op.name}"
        values = {}
        for attr in op.current.schema.attrs:
            given = context.get_attribute(attr.name)
            if given is not None:
                values[attr.name] = attribute_value(given, _surroundings(given))
        _infer(op, values, where, context)


def _infer(op: Op, values: dict[str, Any], where: str, context: Any) -> None:
    version = op.current
    schema = version.schema
    given = [_given(context, schema, place) for place in range(context.get_num_inputs())]
    schema.check_inputs(given, where)
    count = context.get_num_outputs()
    instance = instantiate(version, schema, values, where) if schema.infers else None
    for place, promise in enumerate(promised_types(schema, instance, given, count, where)):
        kind = resolve_type(promise, ANY, given)
        if kind is not None and kind.dtype is not None:
            context.set_output_type(place, type_proto(kind))


def _given(context: Any, schema: Schema, place: int) -> TensorType | None:
    kind = context.get_input_type(place)
    if kind is not None:
        return type_of_proto(kind)
    port = schema.port(place) if schema.inputs else None
    # Old onnx says that it has no input where it does not know the type.
    absent = port is not None and (port.optional or port.variadic) and not context.has_input(place)
    return None if absent else ANY


def _surroundings(attribute: AttributeProto) -> ModelProto:
    """A model around a graph attr: onnx does not say in which one it stands."""
    if attribute.type not in (AttributeProto.GRAPH, AttributeProto.GRAPHS):
        return ModelProto()
    bodies = [attribute.g] if attribute.HasField("g") else attribute.graphs
    domains = {node.domain for body in bodies for node in body.node if not is_onnx_domain(node.domain)}
    newest = [helper.make_opsetid("", defs.onnx_opset_version())]
    return helper.make_model(onnx.GraphProto(), opset_imports=newest + [helper.make_opsetid(d, 1) for d in sorted(domains)])


# ---- inference through every op of the registry ------------------------------------------------------------------------------

_STAND_IN = ("pyopnb.inferred", "Node")
_stood_in = threading.Event()
_PLACE = "pyopnb_place"


class _Thread(threading.local):
    sites: tuple[tuple[Site, Op, ModelProto], ...] = ()


_thread = _Thread()


def infer_types(model: ModelProto, *, strict: bool = False) -> ModelProto:
    """A copy of a model with the types that ONNX's shape inference and the ops' own ``infer`` give.

    Other than `onnx.shape_inference.infer_shapes` it goes through every op of the registry: through those in the places of
    ONNX's operators and those with attrs that ``onnx.defs`` cannot list.

    Raises
    ------
    ModelError
        A local function calls itself.
    onnx.shape_inference.InferenceError
        As ``infer_shapes`` does.
    Exception
        What an op's ``__init__`` or ``infer`` raised, with a note.
    """
    refuse_circles(nodes_of_functions(model))  # old onnx would follow them until the process ends
    copy = ModelProto()
    copy.CopyFrom(model)
    sites: list[tuple[Site, Op, ModelProto]] = []
    for site, copied in zip(list(walk(model)), list(walk(copy)), strict=True):
        op = registry.find(site.node.domain, site.node.op_type)
        if op is not None:
            copied.node.domain, copied.node.op_type = _STAND_IN
            del copied.node.attribute[:]
            copied.node.attribute.extend(linked_attributes(site.node).values())
            copied.node.attribute.append(helper.make_attribute(_PLACE, len(sites)))
            sites.append((site, op, model))
    if not sites:
        return _infer_shapes(copy, strict)
    for scope in (copy, *copy.functions):
        scope.opset_import.append(helper.make_opsetid(_STAND_IN[0], 1))
    with _lock:
        _update_all()
        _register_stand_in()
    with _at(tuple(sites)):
        typed = _infer_shapes(copy, strict)
    for scope in (typed, *typed.functions):
        del scope.opset_import[-1]
    for site in walk(typed):
        if (site.node.domain, site.node.op_type) == _STAND_IN:
            place = next(a.i for a in site.node.attribute if a.name == _PLACE)
            site.node.CopyFrom(sites[place][0].node)
    return typed


@contextmanager
def _at(sites: tuple[tuple[Site, Op, ModelProto], ...]) -> Iterator[None]:
    before, _thread.sites = _thread.sites, sites
    try:
        yield
    finally:
        _thread.sites = before


def _infer_shapes(model: ModelProto, strict: bool) -> ModelProto:
    import onnx.shape_inference

    return onnx.shape_inference.infer_shapes(model, strict_mode=strict)


def _register_stand_in() -> None:
    domain, op_type = _STAND_IN
    if not defs.has(op_type, domain) and not _closed.is_set():
        schema = defs.OpSchema(
            op_type,
            domain,
            1,
            "A node of an op, while pyopnb infers types.",
            inputs=[_parameter("inputs", ANY, _Option.Variadic)],
            outputs=[_parameter("outputs", ANY, _Option.Variadic)],
            type_constraints=[(_ANY, _ALL_TYPES, "any dtype")],
        )
        schema.set_type_and_shape_inference_function(_infer_stand_in)
        defs.register_schema(schema)
        _stood_in.set()


def _infer_stand_in(context: Any) -> None:
    _stop_at_exit()
    site, op, model = _thread.sites[context.get_attribute(_PLACE).i]
    values = attribute_values(site.node, model, site.where)
    for name in linked_attributes(site.node):
        given = context.get_attribute(name)
        if given is not None and not given.ref_attr_name:
            values[name] = attribute_value(given, model)
    _infer(op, values, site.where, context)
