"""The custom-op library that ONNX Runtime loads, and the Python functions that it calls.

The native half (bridge.cpp) calls `signatures` when it is registered, `infer` and `make_kernel`
while a session is built, `failed` when something raised, and the methods of `Kernel` in a run.
"""

from __future__ import annotations

import ctypes
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any

import onnx
import onnxruntime
from onnx import AttributeProto

from pyopnb.common import locks, sanitize
from pyopnb.engine.models.markers import PREFIX
from pyopnb.engine.models.protos import text_of
from pyopnb.engine.ops.argument_checks import check_arguments
from pyopnb.engine.ops.dtypes import BY_RUNTIME, DTYPES, DType
from pyopnb.engine.ops.instantiate import add_note, instantiate
from pyopnb.engine.ops.op import Op, Version
from pyopnb.engine.ops.op_names import split_name
from pyopnb.engine.ops.op_schema import Schema
from pyopnb.engine.ops.output_types import promised_types, resolve_type
from pyopnb.engine.ops.registry import registry
from pyopnb.engine.ops.types import TensorType
from pyopnb.engine.runtime import _bridge
from pyopnb.engine.runtime.feed_checks import known_dims, named_dims
from pyopnb.engine.runtime.kernel import OPEN, Kernel, promised_outputs
from pyopnb.engine.runtime.node_plans import Plan, PlannedNode, fixed_elements
from pyopnb.errors import ModelError, PyopError

__all__ = [
    "failed",
    "get_library_path",
    "infer",
    "make_kernel",
    "signatures",
    "wait_for_releases",
]

_BARE_VARIADIC = 64  # inputs of a variadic op in a bare session
_BARE_OUTPUTS = 16  # outputs there of an op whose hints do not say how many it has

_READ_KINDS = ("int", "float", "bytes", "list[int]", "list[float]", "list[bytes]", "tensor")

# ONNX Runtime does not pass these to a custom op, so the nodes need a pyopnb.Session.
_SESSION_KINDS = ("graph", "list[graph]", "list[tensor]")

_LINKED_KINDS = {AttributeProto.STRING: "str"} | dict.fromkeys(
    (AttributeProto.INTS, AttributeProto.FLOATS, AttributeProto.STRINGS), "list"
)


@check_arguments
def get_library_path() -> str:
    """Return the path of the custom-op library for a plain ``onnxruntime.InferenceSession``.

    Every op of the registry is known to sessions made with the options afterwards. ONNX Runtime
    asks for the ops before it reads a model, so each registered op adds some 0.1 ms to such a
    session. It reads attrs by the names that ``__init__`` has, and cannot have ``**attrs``,
    graph attrs, more than 64 inputs of a variadic op, or the retired PyOp's nodes;
    `pyopnb.Session` has all of these. Where an output's dtype is not the first input's, a hint
    of ``compute`` has to say so, or ``infer`` with a rank: with onnxruntime before 1.28 it says
    so for the first output alone.

    Returns
    -------
    str
        The path of the native module, for ``SessionOptions.register_custom_ops_library``.

    Examples
    --------
    >>> import onnxruntime
    >>> options = onnxruntime.SessionOptions()
    >>> options.register_custom_ops_library(get_library_path())
    """
    return str(_bridge.__file__)


def _runtime_type(pair: tuple[int, tuple[Any, ...] | None] | None) -> TensorType | None:
    if pair is None:
        return None
    return TensorType(BY_RUNTIME.get(pair[0]), pair[1] and known_dims(pair[1]))


# ---- attributes that only the runtime has --------------------------------------------------------


class _Unreadable(Exception):
    """An attr that ONNX Runtime does not hand over while it infers."""


def _read_attrs(reader: Any, kinds: Mapping[str, str], inferring: bool = False) -> dict[str, Any]:
    """Read a node's attributes by name; ONNX Runtime cannot list them, so each kind is tried."""
    values = {}
    for name, declared in kinds.items():
        value = _read_attr(reader, name, declared, inferring)
        if isinstance(value, bytes):
            value = text_of(value)
        # ONNX texts are bytes, and `__init__` of an op takes str.
        if isinstance(value, list) and value and isinstance(value[0], bytes):
            value = [text_of(item) for item in value]
        if value is not None:
            values[name] = value
    return values


def _read_attr(reader: Any, name: str, declared: str, inferring: bool) -> Any:
    empty: dict[type, Any] = {}
    for attr_kind in _READ_KINDS:
        value = reader.read(name, attr_kind)
        if isinstance(value, (bytes, list)) and not value:
            # ONNX Runtime also reads a value of another kind as empty.
            empty.setdefault(type(value), value)
        elif value is not None:
            return value
    if not inferring:
        return empty.get(bytes, empty.get(list))
    if empty and declared in ("str", "bytes"):
        return empty[bytes]
    if empty and declared.startswith("list"):
        return empty[list]
    if empty:
        raise _Unreadable
    return None


def _declared_kinds(schema: Schema) -> dict[str, str]:
    return {attr.name: attr.kind for attr in schema.attrs}


def _linked_kinds(node: PlannedNode) -> dict[str, str]:
    return {
        name: _LINKED_KINDS.get(attribute.type, "any") for name, attribute in node.linked.items()
    }


# ---- what the bridge calls -----------------------------------------------------------------------


def _find_planned(plan: Plan | None, domain: str, marker: int) -> PlannedNode | None:
    return None if plan is None or not domain.startswith(PREFIX) else plan.nodes[marker]


def _find_registered(domain: str, op_type: str, name: str) -> tuple[Op, str]:
    op = None if domain.startswith(PREFIX) else registry.find(domain, op_type)
    if op is None:
        user_domain = domain.removeprefix(PREFIX)
        raise ModelError(
            f"node '{name}' ({user_domain}::{op_type})",
            expected="an op of the registry",
            got="none of that name, or a node that only pyopnb.Session can run",
            next="define it: %%pyop, then pyopnb.Session(model)",
        )
    return op, f"node '{sanitize(name)}' ({op.name})" if name else f"a node of {op.name}"


_Signature = tuple[str, str, int, int, int, list[int]]


def signatures(plan: Plan | None) -> list[_Signature]:
    """List the op types for ONNX Runtime, for the session that is being built or for bare ones.

    Domain, op type, most inputs, most outputs, inputs that a node must have, and
    fixed types of outputs.
    """
    if plan is None:
        return [_bare_signature(op) for op in registry if not _is_shadowed(op)]
    # Several nodes can share an op type of the runtime, which must take as many as
    # the longest of them.
    widest: dict[tuple[str, str], tuple[int, int, list[int]]] = {}
    for planned in plan.nodes:
        name, node = planned.numbered.runtime_name, planned.numbered.site.node
        inputs, outputs, _ = widest.get(name, (1, 1, []))
        widest[name] = (
            max(inputs, len(node.input)),
            max(outputs, len(node.output)),
            list(planned.numbered.fixed),
        )
    return [(*name, inputs, outputs, 0, fixed) for name, (inputs, outputs, fixed) in widest.items()]


def _bare_signature(op: Op) -> _Signature:
    schema = op.current.schema
    # A bare session cannot know how many inputs and outputs its nodes have.
    inputs = max(1, len(schema.inputs))
    if schema.inputs and schema.inputs[-1].variadic:
        inputs = _BARE_VARIADIC
    outputs = _BARE_OUTPUTS if schema.outputs is None else max(1, len(schema.outputs))
    required = _min_inputs().get(op.op_type, 0)
    return op.domain, op.op_type, max(inputs, required), outputs, required, _bare_fixed(schema)


_SHADOWED = frozenset({"Constant", "Identity", "If", "Shape"})
"""Op types that ONNX Runtime takes for ONNX operators in every domain.

It never calls such an op, and continues with other numbers. They were found by trying an op of each
type that it knows. `Session` gives nodes other op types.
"""


def _is_shadowed(op: Op) -> bool:
    """Tell whether a bare session cannot have the op and therefore refuses its nodes as unknown.

    Raises
    ------
    ModelError
        It replaces the ONNX operator, which the session would silently use instead.
    """
    if op.op_type in _SHADOWED and not op.domain:
        advice = "pyopnb.Session(model), or remove the op: pyopnb.registry.remove(…)"
        expected = "an op type that a bare session can replace"
        got = f"{op.op_type}, which ONNX Runtime runs itself"
        raise ModelError(f"op {op.name}", expected=expected, got=got, next=advice)
    return op.op_type in _SHADOWED


@cache
def _min_inputs() -> dict[str, int]:
    """Count the fewest inputs that a node of each of the ONNX operators has.

    ONNX Runtime looks at op types without their domains in some places, and an ``Add`` of one input
    in any domain ends the process. A session of pyopnb gives nodes other op types; in a bare one
    the runtime must refuse such a node.
    """
    fewest: dict[str, int] = {}
    for schema in onnx.defs.get_all_schemas_with_history():
        if schema.domain == "":
            fewest[schema.name] = min(fewest.get(schema.name, schema.min_input), schema.min_input)
    return fewest


def infer(
    domain: str,
    op_type: str,
    marker: int,
    inputs: list[tuple[int, tuple[Any, ...] | None] | None],
    reader: Any,
    plan: Plan | None,
) -> list[tuple[int, tuple[Any, ...]] | None]:
    """Infer the element type and dimensions of each output.

    None means that an output has only the declaration of the op type.
    """
    input_types = [_runtime_type(pair) for pair in inputs]
    node = _find_planned(plan, domain, marker)
    if plan is None or node is None:
        return _infer_bare(domain, op_type, input_types, reader)
    shown = [
        _without_false_scalar(tensor_type, index in node.scalars)
        for index, tensor_type in enumerate(input_types)
    ]
    input_types = plan.corrected(marker, shown)
    answers: list[tuple[int, tuple[Any, ...]] | None] = []
    elements: list[DType | None] = []
    for number, promise in enumerate(_promised_by_plan(plan, node, input_types, reader)):
        tensor_type = resolve_type(promise, node.numbered.declared[number], input_types)
        element = None if tensor_type is None else tensor_type.dtype
        fixed = node.fixed[number]
        answer = _runtime_output(tensor_type, input_types, fixed)
        if element is not None and not _is_told(element, answer, fixed, shown):
            plan.want(marker, number, element)
        elements.append(element)
        answers.append(answer)
    plan.infer(marker, input_types, elements)
    return answers


def _infer_bare(
    domain: str, op_type: str, given: Sequence[TensorType | None], reader: Any
) -> list[tuple[int, tuple[Any, ...]] | None]:
    """Infer in a bare session, where the number of outputs of the node is not known."""
    op, where = _find_registered(domain, op_type, "")
    schema = op.current.schema
    instance = None
    if schema.infers:
        try:
            instance = instantiate(
                op.current,
                schema,
                _read_attrs(reader, _declared_kinds(schema), inferring=True),
                where,
            )
        except _Unreadable:
            return []
    # Without hints, infer alone says how many outputs there are.
    count = None if schema.outputs is None else len(schema.outputs)
    promised = promised_types(schema, instance, given, count, where)
    fixed = _bare_fixed(schema)
    fixed += [0] * (len(promised) - len(fixed))
    answers = [
        _runtime_output(tensor_type, given, element)
        for tensor_type, element in zip(promised, fixed, strict=True)
    ]
    return answers if _REFUSES_FURTHER_OUTPUTS else answers[:1]


_REFUSES_FURTHER_OUTPUTS = tuple(map(int, onnxruntime.__version__.split(".")[:2])) >= (1, 28)
"""Whether ONNX Runtime refuses the type of an output that the node does not have.

Older versions end the process.
"""


def _bare_fixed(schema: Schema) -> list[int]:
    """Return the element types that an op type declares for its outputs in bare sessions.

    0 means that `infer` can tell the type of an output.
    """
    fixed = list(fixed_elements(schema.outputs or ()))
    if not _REFUSES_FURTHER_OUTPUTS:
        fixed[1:] = [
            tensor_type.dtype.runtime if tensor_type.dtype else 0
            for tensor_type in (schema.outputs or ())[1:]
        ]
    return fixed


def _promised_by_plan(
    plan: Plan, node: PlannedNode, given: Sequence[TensorType | None], reader: Any
) -> Sequence[TensorType | None]:
    """Ask the op for its promises before ONNX Runtime makes the kernel.

    The kernel reuses the instance that is made here.
    """
    # Of the plan's epoch, and not the newest: an op that is redefined meanwhile must not
    # change half of the graph.
    version = node.op.at(plan.epoch)
    schema = OPEN if node.legacy else version.schema
    schema.check_inputs(given, node.where)
    # The kernel takes this instance over: `__init__` is the user's code, and runs once.
    instance = node.instances.get(version.number)
    if schema.infers and instance is None:
        try:
            values = {**node.values, **_read_attrs(reader, _linked_kinds(node), inferring=True)}
        except _Unreadable:
            # Until there is a kernel, which can read every attr, only the hints are known.
            return schema.hinted(given) or (None,) * node.outputs
        instance = instantiate(version, schema, values, node.where)
        # Each call of a local function is a node of its own, and gets an instance of its own.
        if not node.linked:
            node.instances[version.number] = instance
    return promised_outputs(schema, instance, given, node.outputs, node.where, node.legacy)


def _without_false_scalar(kind: TensorType | None, scalar: bool) -> TensorType | None:
    """While it infers, ONNX Runtime shows an unknown rank as it shows a scalar's."""
    return TensorType(kind.dtype, None) if kind and kind.shape == () and not scalar else kind


def _is_told(element: DType, answer: Any, fixed: int, shown: Sequence[TensorType | None]) -> bool:
    """Tell whether ONNX Runtime knows an output's dtype; told nothing, it takes an input's."""
    # Where the op type declares a dtype, ONNX Runtime goes by that.
    if fixed:
        return fixed == element.runtime
    return answer is not None or {t.dtype for t in shown if t} == {element}


def _runtime_output(
    kind: TensorType | None, given: Sequence[TensorType | None], fixed: int
) -> tuple[int, tuple[Any, ...]] | None:
    if kind is None or kind.shape is None:
        return None
    element = kind.dtype
    if element is None and given and given[0]:
        element = given[0].dtype
    number = fixed if element is None else element.runtime
    return (number, named_dims(kind.shape)) if number else None


def make_kernel(
    domain: str,
    op_type: str,
    marker: int,
    name: str,
    inputs: list[tuple[int, tuple[Any, ...] | None] | None],
    outputs: list[tuple[int, tuple[Any, ...] | None] | None],
    reader: Any,
    plan: Plan | None,
) -> Kernel:
    """Make the Python half of a kernel that ONNX Runtime creates."""
    input_types, resolved = [_runtime_type(p) for p in inputs], [_runtime_type(p) for p in outputs]
    node = _find_planned(plan, domain, marker)
    if plan is None or node is None:
        op, where = _find_registered(domain, op_type, name)
        declared = _declared_kinds(op.current.schema)
        values = _read_attrs(reader, declared)
        for attr, kind in declared.items():
            if attr in values and kind in _SESSION_KINDS:
                raise ModelError(
                    f"{where}, attr {attr}",
                    expected="numbers, texts or one array, "
                    "as a bare session gets no other attrs from ONNX Runtime",
                    got=kind,
                    next="pyopnb.Session(model)",
                )
        return Kernel(
            op,
            where,
            values,
            input_types,
            resolved,
            None,
            registry.epoch,
        )
    # By now the dtypes are final, so a node that was widened to float32 shows.
    plan.refuse_widening(marker, input_types)
    values = {**node.values, **_read_attrs(reader, _linked_kinds(node))}
    kernel = Kernel(
        node.op, node.where, values, input_types, resolved, node, plan.epoch, plan.settings
    )
    plan.kernels.add(kernel)
    return kernel


def wait_for_releases() -> None:
    """Let other threads drop their references to inputs.

    Free-threaded Python settles these references on this thread.
    """
    time.sleep(0.001)


def failed(
    where: Kernel | None,
    state: Any,
    inputs: list[tuple[int, tuple[Any, ...] | None] | None],
    error: BaseException,
) -> str:
    """Note node, op and version, and the types of the inputs, on an exception.

    Returns
    -------
    str
        Its text with the last line of its traceback, for a bare session.
    """
    # pyopnb's own errors name node and op themselves, and their tracebacks end in pyopnb.
    ours = issubclass(type(error), PyopError)
    name = type(error).__name__
    unreadable = f"{name}, whose text cannot be made"
    lines = [_readable(lambda: sanitize(f"{name}: {error}", 2000), unreadable)]
    if not ours:
        types = [_runtime_type(pair) for pair in inputs]
        new = [] if where is None else where.notes(state, types, error)
        for line in new:
            add_note(error, line)
        notes = _readable(lambda: [sanitize(line) for line in error.__notes__], [])
        lines += dict.fromkeys([*notes, *new])
        lines += _readable(lambda: [_last_frame(error)], [])
    return "\n".join(lines)


def _last_frame(error: BaseException) -> str:
    import traceback  # slow to import, and a run that succeeds needs none

    last = traceback.extract_tb(error.__traceback__, limit=-1)[0]
    return f'File "{last.filename}", line {last.lineno}, in {last.name}: {last.line or ""}'


def _readable(read: Callable[[], Any], otherwise: Any) -> Any:
    """Read from an exception, whose class may itself raise; a signal may also arrive."""
    try:
        return read()
    except BaseException:
        return otherwise


def _python_function(*names: str) -> int:
    """Return the address of a function of CPython that its stable ABI lacks, by its first name."""
    found = next(name for name in names if hasattr(ctypes.pythonapi, name))
    return ctypes.cast(getattr(ctypes.pythonapi, found), ctypes.c_void_p).value or 0


_bridge.configure(
    sys.modules[__name__],
    [(row.runtime, row.numpy, row.bits) for row in DTYPES if row.carried],
    (_python_function("Py_IsFinalizing", "_Py_IsFinalizing"), _python_function("PyGILState_Check")),
)


def _on_define(version: Version) -> None:
    op = registry.find(*split_name(version.op))
    # Another thread may have removed it meanwhile.
    if op is not None:
        _bridge.widen([_bare_signature(op)])


registry.subscribe(_on_define)
locks.lock_by(_bridge.locked)
