"""Ops of the registry in ``onnx.defs``, with their ``infer`` as shape inference.

Declarations that ``onnx.defs`` cannot express are not registered, so that ``onnx.checker`` refuses
nothing that a session runs:

- An operator that onnx has keeps the onnx schema: other models mean that one.
- A schema lists its attributes, each of one kind, and the checker refuses all others. An op with
  ``**attrs``, or with an attr of no known kind, is not registered. The checker then treats its
  nodes like any unknown op.
- the ONNX domains keep their range of versions: the newest of them is what ``onnx.helper``
  writes into every model.

Without the GIL nothing is registered but the stand-in of `infer_types`, before anything else runs:
inference and checks on other threads read ``onnx.defs``, and nothing guards it.

`infer_types` also uses these ops.
"""

from __future__ import annotations

import atexit
import os
import re
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

from onnx import ModelProto, NodeProto, TypeProto, defs, helper

from pyopnb.common import locks
from pyopnb.engine.models.attribute_limits import check_nodes
from pyopnb.engine.models.model_functions import check_functions
from pyopnb.engine.models.onnx_schemas import (
    is_listable,
    is_onnx_domain,
    op_schema,
    stand_in_schema,
)
from pyopnb.engine.models.protos import (
    Site,
    attribute_value,
    attribute_values,
    imported_versions,
    linked_attributes,
    nodes_in,
    type_of_proto,
    type_proto,
    walk,
)
from pyopnb.engine.ops.instantiate import instantiate
from pyopnb.engine.ops.op import Op, Version
from pyopnb.engine.ops.op_names import canonical_domain, split_name
from pyopnb.engine.ops.op_schema import Schema
from pyopnb.engine.ops.output_types import promised_types, resolve_type
from pyopnb.engine.ops.registry import registry
from pyopnb.engine.ops.types import ANY, TensorType

if TYPE_CHECKING:
    from pyopnb.engine.models.ort_capabilities import Operator

__all__ = ["infer_types", "inferred_type", "without_schemas"]

# onnx gives such a name to a size that it does not know.
_INVENTED = re.compile(r"unk__\d+")

_registered: dict[str, tuple[int, Schema, str]] = {}
"""What each schema in ``onnx.defs`` was made of: opset, schema and doc string.

While these are the same, the schema stays.
"""

_stale: set[str] = set()
_lock = threading.RLock()
_closed = threading.Event()
# The end of the process waits this many seconds for inference on other threads.
_DRAIN = 1.0


def _follow(name: str) -> None:
    """Update ``onnx.defs`` after an op was defined or removed in the registry.

    onnx still uses a schema after the inference that it calls through it has returned, so none may
    be freed during such a call. If one is under way, on another thread or on this very stack, the
    old schema stays in ``onnx.defs`` until the next definition or `infer_types`. Until then only
    the onnx checker sees the earlier form of the op: sessions read the registry itself, and
    inference always uses the current version.
    """
    _stale.add(name)
    locks.locked(_lock, _update_each)


def _update_each() -> None:
    for name in list(_stale):
        # Discard it first, as another thread may define it again meanwhile.
        _stale.discard(name)
        if not _update(name):
            _stale.add(name)


def _update(name: str) -> bool:
    """Update one op; False where onnx may be using its old schema."""
    op = registry.find(*split_name(name))
    version, form = None, None
    if op is not None:
        version = op.current
        form = (version.opset, version.schema, version.schema.doc)
    # The old schema goes first, as onnx refuses two of one version.
    if name in _registered and _registered[name] != form and not _deregister(name):
        return False
    if version is not None and form is not None and name not in _registered and _belongs(version):
        # The onnx reference evaluator, as it is imported, refuses two operators of one
        # name in two domains.
        import onnx.reference.op_run  # noqa: F401

        schema = op_schema(version)
        schema.set_type_and_shape_inference_function(partial(_infer_node, version.op))
        defs.register_schema(schema)
        _registered[name] = form
    return True


def _deregister(name: str) -> bool:
    """Take an op's schema out of ``onnx.defs``; False where onnx may be using it."""
    opset = _registered[name][0]
    domain, op_type = split_name(name)
    # Other code may have taken it out of onnx.defs.
    if defs.has(op_type, opset, domain):
        # A new time slice: no other thread can begin a call between the next two lines.
        time.sleep(0)
        if _is_inferring():
            return False
        defs.deregister_schema(op_type, opset, domain)
    del _registered[name]
    return True


def _belongs(version: Version) -> bool:
    """Tell whether an op has a place in ``onnx.defs``; see the head of this module."""
    domain, op_type = split_name(version.op)
    if _closed.is_set() or not _has_gil() or defs.has(op_type, domain):
        return False
    if is_onnx_domain(domain):
        # The onnx helper writes the newest version of its domains into every model, so their range
        # must stay.
        oldest, newest = defs.C.schema_version_map()[domain]
        # Without its schema, the checker also refuses the node.
        return bool(oldest <= version.opset <= newest)
    return not version.schema.open_attrs and all(map(is_listable, version.schema.attrs))


def _has_gil() -> bool:
    # Python has this function from 3.13 on.
    return bool(getattr(sys, "_is_gil_enabled", lambda: True)())


def _close() -> None:
    """Take all schemas out of ``onnx.defs`` before the interpreter ends.

    Otherwise C++ would hold Python objects longer than the interpreter lives.
    """
    _closed.set()
    deadline = time.monotonic() + _DRAIN
    while _is_inferring() and time.monotonic() < deadline:
        time.sleep(0.001)
    locks.locked(_lock, _deregister_all)


def _deregister_all() -> None:
    for name in list(_registered):
        _deregister(name)
    if _stand_in_registered.is_set() and not _is_inferring():
        defs.deregister_schema(_STAND_IN[1], 1, _STAND_IN[0])


def without_schemas(function: Callable[[], object]) -> None:
    """Call a function while ``onnx.defs`` has no op of the registry."""
    locks.locked(_lock, partial(_without_schemas, function))


def _without_schemas(function: Callable[[], object]) -> None:
    names = list(_registered)
    for name in names:
        _deregister(name)
    try:
        function()
    finally:
        _stale.update(names)
        _update_each()


def _in_child() -> None:
    global _lock
    # A thread of the parent may have held it.
    _lock = threading.RLock()


registry.subscribe(lambda version: _follow(version.op), removed=_follow)
atexit.register(_close)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_in_child)


# ---- what onnx calls -----------------------------------------------------------------------------


class _Thread(threading.local):
    sites: tuple[tuple[Site, Op | Operator, ModelProto], ...] = ()


_thread = _Thread()
_CALL = object()


def _infer_node(op: str | None, context: Any, call: object = _CALL) -> None:
    """Infer the types of a node of an op when onnx asks; without an op, of a stand-in's node.

    Each call holds a reference to `_CALL` from before its first instruction until it has returned
    to onnx; `_is_inferring` counts these references. A counter that the function itself keeps would
    be late: the interpreter can switch to another thread at its first instruction.
    """
    if _closed.is_set() and threading.current_thread().daemon:
        del call
        # A daemon thread that CPython ends inside onnx takes the process down.
        threading.Event().wait()
    try:
        if op is None:
            _infer_stand_in(context)
        else:
            _infer_op(op, context)
    except BaseException:
        # The traceback keeps this frame.
        del call
        raise


_IDLE = sys.getrefcount(_CALL)


def _is_inferring() -> bool:
    """Tell whether onnx has called `_infer_node` on any thread and is waiting for it."""
    return sys.getrefcount(_CALL) > _IDLE


def _infer_op(name: str, context: Any) -> None:
    op = registry.find(*split_name(name))
    if op is None:
        # Another thread removed the op meanwhile.
        return
    values = {}
    for attr in op.current.schema.attrs:
        attribute = context.get_attribute(attr.name)
        if attribute is not None:
            # onnx does not say to which model a graph among the attributes belongs.
            values[attr.name] = attribute_value(attribute, ModelProto())
    _infer(op, values, f"a node of {op.name}", context)


def _infer(op: Op, values: dict[str, Any], where: str, context: Any) -> None:
    version = op.current
    schema = version.schema
    input_types = [_given(context, schema, number) for number in range(context.get_num_inputs())]
    schema.check_inputs(input_types, where)
    count = context.get_num_outputs()
    if schema.infers:
        instance = instantiate(version, schema, values, where)
    else:
        instance = None
    for number, promise in enumerate(promised_types(schema, instance, input_types, count, where)):
        output_type = resolve_type(promise, ANY, input_types)
        if output_type is not None and output_type.dtype is not None:
            context.set_output_type(number, type_proto(output_type))


def _given(context: Any, schema: Schema, place: int) -> TensorType | None:
    proto_type = context.get_input_type(place)
    if proto_type is not None:
        return type_of_proto(proto_type)
    if schema.inputs:
        port = schema.port(place)
    else:
        port = None
    # Old onnx says that it has no input where it does not know the type.
    absent = port is not None and (port.optional or port.variadic) and not context.has_input(place)
    if absent:
        return None
    return ANY


# ---- inference through every op of the registry --------------------------------------------------

_STAND_IN = ("pyopnb.inferred", "Node")
_stand_in_registered = threading.Event()
_PLACE = "pyopnb_place"


def infer_types(model: ModelProto) -> ModelProto:
    """Copy a model and infer its types by the ONNX shape inference and the ops' own ``infer``.

    Unlike `onnx.shape_inference.infer_shapes` it goes through every op of the registry, also ops
    that replace ONNX operators and ops with attrs that ``onnx.defs`` cannot list.

    Raises
    ------
    ModelError
        As from `check_functions` and `check_attributes`.
    onnx.shape_inference.InferenceError
        As from ``infer_shapes``.
    Exception
        The exception of an op's ``__init__`` or ``infer``, with a note.
    """
    check_functions(model)
    imports = imported_versions(model)
    # Most models have no such node, and are neither copied nor walked twice.
    nodes: list[NodeProto] = []
    for scope in (model.graph, *model.functions):
        nodes += nodes_in(scope)
    check_nodes(nodes)
    node_by_op = {(node.domain, node.op_type): node for node in nodes}
    if not any(_served_by(node, imports) for node in node_by_op.values()):
        return _infer_shapes(model)
    copy = ModelProto()
    copy.CopyFrom(model)
    sites: list[tuple[Site, Op | Operator, ModelProto]] = []
    for site, copied in zip(list(walk(model)), list(walk(copy)), strict=True):
        op = _served_by(site.node, imports)
        if op is not None:
            # onnx asks a stand-in, which finds the op by the number in its attribute.
            copied.node.domain, copied.node.op_type = _STAND_IN
            # The op's attrs are read from the user's node. onnx sees only the ones that a
            # function's caller gives.
            del copied.node.attribute[:]
            copied.node.attribute.extend(linked_attributes(site.node).values())
            copied.node.attribute.append(helper.make_attribute(_PLACE, len(sites)))
            sites.append((site, op, model))
    for scope in (copy, *copy.functions):
        scope.opset_import.append(helper.make_opsetid(_STAND_IN[0], 1))
    locks.locked(_lock, _update_each)
    locks.locked(_lock, _register_stand_in)
    # The inference calls back on this thread, and may be inside another one.
    with _at(tuple(sites)):
        typed = _infer_shapes(copy)
    for scope in (typed, *typed.functions):
        del scope.opset_import[-1]
    for site in walk(typed):
        if (site.node.domain, site.node.op_type) == _STAND_IN:
            position = next(a.i for a in site.node.attribute if a.name == _PLACE)
            site.node.CopyFrom(sites[position][0].node)
    return typed


def inferred_type(proto: TypeProto) -> TensorType:
    """Convert an inferred type, without the names that onnx invented for unknown sizes."""
    kind = type_of_proto(proto)
    if not kind.shape:
        return kind
    dims = [None if _INVENTED.fullmatch(str(dim)) else dim for dim in kind.shape]
    return kind.like(shape=tuple(dims))


@contextmanager
def _at(sites: tuple[tuple[Site, Op | Operator, ModelProto], ...]) -> Iterator[None]:
    before, _thread.sites = _thread.sites, sites
    try:
        yield
    finally:
        _thread.sites = before


def _infer_shapes(model: ModelProto) -> ModelProto:
    import onnx.shape_inference

    return onnx.shape_inference.infer_shapes(model)


def _register_stand_in() -> None:
    domain, op_type = _STAND_IN
    if not defs.has(op_type, domain) and not _closed.is_set():
        schema = stand_in_schema(domain, op_type)
        schema.set_type_and_shape_inference_function(partial(_infer_node, None))
        defs.register_schema(schema)
        _stand_in_registered.set()


def _infer_stand_in(context: Any) -> None:
    site, op, model = _thread.sites[context.get_attribute(_PLACE).i]
    if not isinstance(op, Op):
        from pyopnb.engine.models.runtime_inference import infer_by_variables

        infer_by_variables(op, context)
        return
    values = attribute_values(site.node, model, site.where)
    for name in linked_attributes(site.node):
        attribute = context.get_attribute(name)
        if attribute is not None and not attribute.ref_attr_name:
            values[name] = attribute_value(attribute, model)
    _infer(op, values, site.where, context)


def _served_by(node: NodeProto, versions: Mapping[str, int]) -> Op | Operator | None:
    """Return the op of a node, or the runtime operator where onnx knows nothing of it."""
    op = registry.find(node.domain, node.op_type)
    if op is not None or is_onnx_domain(canonical_domain(node.domain)):
        return op
    # Asking the runtime imports it, which `import pyopnb` must not do.
    from pyopnb.engine.models.runtime_inference import runtime_operator

    return runtime_operator(node, versions)


if not _has_gil():
    _register_stand_in()
