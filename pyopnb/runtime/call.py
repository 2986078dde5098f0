"""An op called without a model."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
import onnxruntime
from onnx import ModelProto, NodeProto, ValueInfoProto, helper

from pyopnb.errors import InputError, ModelError, PyopError, UnknownOp
from pyopnb.models.build import ints_to_floats, node
from pyopnb.models.faults import is_unknown, nearest_op
from pyopnb.models.nodes import type_of_proto
from pyopnb.models.opsets import import_domains
from pyopnb.models.ort_capabilities import kernels, newest_opset, schema_domains
from pyopnb.models.support.ort_types import proto_of
from pyopnb.models.versions import FILL
from pyopnb.onnx_reference.catalog_ops import op_named
from pyopnb.ops.arguments import check_arguments
from pyopnb.ops.coerce import cast_expression
from pyopnb.ops.dtypes import DTYPES, dtype
from pyopnb.ops.instantiate import add_note
from pyopnb.ops.locks import locked
from pyopnb.ops.messages import hide_internal_frames, moved, plural, sanitize
from pyopnb.ops.names import MAX_OUTPUTS, check_opset, split_name
from pyopnb.ops.op import Op, Version
from pyopnb.ops.registry import find_op, registry
from pyopnb.ops.types import ANY, TensorType, tensor_type, type_of
from pyopnb.runtime.feeds import as_array, check_characters, example_expression
from pyopnb.runtime.session.session import Session

__all__ = ["KEPT_SESSIONS", "call"]

_DTYPE_NAMES = frozenset(row.name for row in DTYPES)
_FLOAT = tensor_type("float32[...]")

KEPT_SESSIONS = 64
"""Sessions that `call` keeps for the next call of their kind; the least recently used one goes first."""


@hide_internal_frames
@check_arguments
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
        Arrays, and what `numpy.asarray` makes arrays of. Python's own numbers and lists of them get the dtype that the op or
        operator declares, or else that of the arrays which must have the same, if that has their values; what has a dtype
        keeps it. None leaves an optional input out.
    outputs : int, optional
        How many to ask for. If not given: as many as the op's hints say, or as its operator in ONNX always has, or 1.
    opset : int, optional
        Version of ONNX's own operators; the newest that the installed runtime takes if not given.
    **attrs
        As `node` takes them. An attr that is named ``outputs`` or ``opset`` needs a model: `pyopnb.model`.

    Returns
    -------
    numpy.ndarray or tuple
        An array for one output, a tuple of them for several.

    Raises
    ------
    UnknownOp
        No such op, in the registry or in the runtime.
    InputError
        An input is no array, or has another dtype or rank than the op's hint.
    Exception
        Whatever the op raised, as itself.

    Notes
    -----
    Calls of the same op with the same attrs, dtypes and ranks share a session, and with it the op's instance: what an op keeps
    on ``self`` lives from one such call to the next, until the op is redefined or `KEPT_SESSIONS` other sessions were used.
    Where each call must start afresh, `run` a model. A redefined op serves from the next call on.

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
    if outputs is not None or opset is not None:
        _check_numbers(op, outputs, opset)
    arrays: list[Any] = []
    for number, value in enumerate(inputs):
        if value is not None:
            value = _to_array(op, number, inputs, opset)
        arrays.append(value)
    # Sizes are no part of the key: a session is built without them, so calls that differ only in
    # sizes share it. An input that is left out makes another node, and so another session.
    kinds = []
    for array in arrays:
        kinds.append(None if array is None else (array.dtype, array.ndim))
    settings = []
    for name in sorted(attrs):
        settings.append((name, _hashable(attrs[name])))
    key = (op, outputs, opset, tuple(kinds), tuple(settings))
    entry = _cache.get(key)
    if entry is None:
        entry = _cache.put(key, _make_entry(op, arrays, outputs, opset, attrs))
    fed = [array for array in arrays if array is not None]
    feeds = dict(zip(entry.names, fed, strict=True))
    try:
        results = entry.session.run(None, feeds)
    except Exception as error:
        raise _with_note(error, op, entry.names, arrays)  # noqa: B904  # it is the error itself
    if len(results) == 1:
        return results[0]
    return tuple(results)


# ---- inputs and attrs --------------------------------------------------------------------------------------------------------


def _to_array(op: str, place: int, inputs: Sequence[Any], opset: int | None) -> np.ndarray:
    value = inputs[place]
    if not isinstance(value, np.ndarray):
        # The advice of an error converts a variable, and is called as the port of that input.
        name = _input_names(*_definition(op, opset), place + 1)[-1]
        value = as_array(
            value,
            _declared(op, place, inputs, opset),
            f"call of {sanitize(op)}, input {sanitize(name)}",
            name,
        )
    try:
        array = np.asarray(value)
        if array.dtype.kind not in "OUT" and array.dtype.isnative:
            return array
        if array.dtype.kind not in "OUT":
            # A tensor has the byte order of this machine.
            return array.astype(array.dtype.newbyteorder("="))
        wrong = [item for item in array.ravel() if not isinstance(item, str)]
        got = None
        if wrong:
            got = f"{type(wrong[0]).__name__} {sanitize(repr(wrong[0]))}"
    except ValueError as error:
        got = sanitize(str(error).rstrip("."))
    if got is None:
        check_characters(array, f"call of {sanitize(op)}, input {place}")
        return array.astype(object)
    raise InputError(
        f"call of {sanitize(op)}, input {place}",
        expected="what numpy.asarray makes an array of numbers or str",
        got=got,
    )


def _definition(op: str, opset: int | None) -> tuple[Version | None, Any]:
    """Find the version of an op of ours, or the schema of an operator of ONNX's."""
    domain, op_type = _split(op)
    version = _version(registry.find(domain, op_type))
    # An op of ours comes first: a session calls it in place of ONNX's of the same name.
    if version is not None:
        return version, None
    return None, _schema(domain, op_type, opset)


def _split(op: str) -> tuple[str, str]:
    """Split a name into domain and op type; one without a domain is ONNX's own."""
    if "::" not in op:
        op = f"::{op}"
    return split_name(op)


def _declared(op: str, place: int, inputs: Sequence[Any], opset: int | None) -> TensorType:
    """Find the declared type of an input; where there are several, take that of the other arrays."""
    version, schema = _definition(op, opset)
    if version is not None:
        if version.schema.inputs:
            return version.schema.port(place).type
        return ANY
    ports: list[Any] = []
    if schema is not None:
        ports = list(schema.inputs)
    # The last port of a variadic operator stands for every input from there on.
    if ports and _is_variadic(ports[-1]):
        ports += [ports[-1]] * (len(inputs) - len(ports))
    if place >= len(ports):
        return ANY
    if len(ports[place].types) == 1:
        return type_of_proto(proto_of(next(iter(ports[place].types))))
    # Inputs of one type parameter have one dtype.
    for port, value in zip(ports, inputs, strict=False):
        is_array = isinstance(value, (np.ndarray, np.generic)) and value.dtype.kind not in "OUT"
        if is_array and port.type_str == ports[place].type_str:
            same = TensorType(type_of(np.asarray(value)).dtype, None)
            if ports[place].is_homogeneous:
                return same
            return ANY
    return ANY


def _hashable(value: Any) -> Any:
    """Make a key of an attr's value, in which 1, 1.0 and True differ, and so do 0.0 and -0.0."""
    if isinstance(value, np.ndarray):
        content: Any = value.tobytes()
        if value.dtype == object:  # the bytes would be addresses
            content = tuple([_hashable(item) for item in value.ravel().tolist()])
        return str(value.dtype), value.shape, content
    if isinstance(value, (list, tuple)):
        return tuple([_hashable(item) for item in value])
    if hasattr(value, "SerializeToString"):
        return type(value), value.SerializeToString(deterministic=True)
    return type(value), repr(value)


# ---- sessions ----------------------------------------------------------------------------------------------------------------


@dataclass
class _CachedSession:
    """A session of one node.

    Attributes
    ----------
    names : list of str
        Of the inputs that are there.
    version : Version or None
        Of the op that the session was built for; None for the runtime's own operators.
    epoch : int
        The registry's, when that version was last found current.
    """

    session: Session
    names: list[str]
    name: tuple[str, str]
    version: Version | None
    epoch: int


class _SessionCache:
    """A cache of sessions by kind of call, least recently used first."""

    def __init__(self) -> None:
        self._entries: OrderedDict[Any, _CachedSession] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, key: Any) -> _CachedSession | None:
        """Find the session of a call, unless its op was redefined, removed, or replaces ONNX Runtime's."""
        return locked(self._lock, self._get, key)

    def _get(self, key: Any) -> _CachedSession | None:
        entry = self._entries.get(key)
        if entry is None:
            return None
        epoch = registry.epoch
        if entry.epoch != epoch or entry.version is not None:
            if _version(registry.find(*entry.name)) is not entry.version:
                del self._entries[key]
                return None
            entry.epoch = epoch
        self._entries.move_to_end(key)
        return entry

    def put(self, key: Any, made: _CachedSession) -> _CachedSession:
        """Add a session; the one that serves, as another thread may have been faster."""
        entry, dropped = locked(self._lock, self._put, key, made)
        del dropped  # outside the lock: destroying a session can run the user's code
        return entry

    def _put(self, key: Any, made: _CachedSession) -> tuple[_CachedSession, Any]:
        entry = self._entries.setdefault(key, made)
        if entry.version is not made.version:
            entry = self._entries[key] = made
        dropped = None
        if len(self._entries) > KEPT_SESSIONS:
            dropped = self._entries.popitem(last=False)
        return entry, dropped


_cache = _SessionCache()


def _version(op: Op | None) -> Version | None:
    if op is None:
        return None
    return op.current


def _make_entry(
    op: str,
    arrays: Sequence[np.ndarray | None],
    outputs: int | None,
    opset: int | None,
    attrs: Mapping[str, Any],
) -> _CachedSession:
    __tracebackhide__ = True
    domain, op_type = _split(op)
    # Read before the op is looked up: a definition in between makes the entry old, never wrong.
    epoch = registry.epoch
    version = _version(registry.find(domain, op_type))
    if version is None and (domain, op_type) not in kernels():
        of_catalog = op_named(op, len(arrays))
        if of_catalog is not None:
            return _make_entry(of_catalog.name, arrays, outputs, opset, attrs)
    schema = None
    if version is None:
        schema = _schema(domain, op_type, opset)
    if version is None:
        _refuse_unknown(domain, op_type)
    names = _input_names(version, schema, len(arrays))
    types = {}
    for name, array in zip(names, arrays, strict=True):
        if array is not None:
            types[name] = _type(op, name, array)
    if version is not None:
        _check_ports(op, version, names, arrays)
        _check_hints(op, version, dict(zip(names, arrays, strict=True)))
    inputs = []
    for name in names:
        inputs.append(name if name in types else "")
    output_names = []
    for name in _output_names(schema, outputs or _outputs(version, schema)):
        # An operator can have an input and an output of one name, and a graph cannot.
        output_names.append(f"{name}_" if name in types else name)
    node_proto = node(
        f"{domain}::{op_type}", _without_the_last(inputs), output_names, name="call", **attrs
    )
    # Who types 1 for an attr that is a float means 1.0, and ONNX Runtime refuses the int.
    ints_to_floats(node_proto)
    try:
        session = Session(_model(node_proto, types, opset), _options(version))
    except PyopError as error:
        raise _of_call(error, op, list(types)) from None
    except Exception as error:
        raise _with_note(error, op, list(types), arrays)  # noqa: B904  # it is the error itself
    return _CachedSession(session, list(types), (domain, op_type), version, epoch)


def _check_numbers(op: str, outputs: Any, opset: Any) -> None:
    if outputs is not None and (type(outputs) is not int or not 1 <= outputs <= MAX_OUTPUTS):
        expected = f"a number from 1 to {MAX_OUTPUTS}"
        raise ModelError(
            f"call of {sanitize(op)}, outputs", expected=expected, got=sanitize(repr(outputs), 60)
        )
    if opset is not None:
        check_opset(opset, f"call of {sanitize(op)}")


def _refuse_unknown(domain: str, op_type: str) -> None:
    if not is_unknown(domain, op_type) and domain in schema_domains():
        return
    near = nearest_op(domain, op_type)
    next_ = "define it: %%pyop"
    if near is not None:
        next_ = f'"{"::".join(near)}"'
    op = f"{sanitize(domain)}::{sanitize(op_type)}"
    raise UnknownOp(
        f"call of {op}",
        expected="an op of the registry or of the installed runtime",
        got=f"{op}, which is in neither",
        next=next_,
    )


def _schema(domain: str, op_type: str, opset: int | None) -> Any:
    """Find the schema of an operator of ONNX's, None where there is none in that opset."""
    if domain == "":
        version = opset or newest_opset()
    else:
        version = schema_domains().get(domain, 1)
    if not onnx.defs.has(op_type, version, domain):
        return None
    return onnx.defs.get_schema(op_type, version, domain)


def _input_names(version: Version | None, schema: Any, count: int) -> list[str]:
    """Name the inputs as the ports, so that ONNX Runtime's messages name them."""
    if version is not None:
        inputs: Sequence[Any] = version.schema.inputs
        is_variadic = bool(inputs) and inputs[-1].variadic
    else:
        inputs = []
        if schema is not None:
            inputs = schema.inputs
        is_variadic = bool(inputs) and _is_variadic(inputs[-1])
    names = [port.name for port in inputs]
    if is_variadic:
        variadic = names.pop()
        for number in range(count - len(names)):
            names.append(f"{variadic}_{number}")
    # Inputs that the op does not have are refused elsewhere, by these names.
    for number in range(len(names), count):
        names.append(f"input_{number}")
    return names[:count]


def _is_variadic(port: Any) -> bool:
    return bool(port.option == onnx.defs.OpSchema.FormalParameterOption.Variadic)


def _output_names(schema: Any, count: int) -> list[str]:
    names: list[str] = []
    ports = ()
    if schema is not None:
        ports = schema.outputs
    for n in range(count):
        name = ""
        if n < len(ports):
            name = ports[n].name
        # Two ports of some operators have one name.
        if not name or name in names:
            name = f"output_{n}"
        names.append(name)
    return names


def _outputs(version: Version | None, schema: Any) -> int:
    if version is not None:
        return len(version.schema.outputs or ()) or 1
    if schema is not None:
        return max(1, int(schema.min_output))
    return 1


def _without_the_last(names: list[str]) -> list[str]:
    """Names without the empty ones at the end, which say nothing."""
    while names and not names[-1]:
        names = names[:-1]
    return names


def _type(op: str, name: str, array: np.ndarray) -> TensorType:
    try:
        tensor_type = type_of(array)
    except ValueError:
        got = f"an array of dtype {array.dtype}"
        raise InputError(
            f"call of {sanitize(op)}, input {sanitize(name)}",
            expected="a dtype that ONNX has",
            got=got,
        ) from None
    return tensor_type.like(shape=[None] * array.ndim)


def _check_ports(
    op: str, version: Version, names: Sequence[str], arrays: Sequence[np.ndarray | None]
) -> None:
    """Refuse more inputs than ``compute`` takes, or less, before a message names a node that nobody made."""
    ports = version.schema.inputs
    takes_more = bool(ports) and ports[-1].variadic
    if len(arrays) > len(ports) and not takes_more:
        arguments = ", ".join([f'"{sanitize(op)}"', *names[: len(ports)]])
        expected = "no inputs"
        if ports:
            expected = f"{plural(len(ports), 'input')} ({', '.join(map(str, ports))})"
        raise InputError(
            f"call of {sanitize(op)}",
            expected=expected,
            got=str(len(arrays)),
            next=f"pyopnb.call({arguments})",
        )
    for number, port in enumerate(ports):
        is_there = number < len(arrays) and arrays[number] is not None
        if is_there or port.optional or port.variadic:
            continue
        # Without a hint of a dtype, the example shows floats.
        example_type = _FLOAT
        if port.type.dtype:
            example_type = port.type
        raise InputError(
            f"call of {sanitize(op)}, input {port.name}",
            expected=str(port.type),
            got="nothing",
            next=example_expression(example_type),
        )


def _check_hints(op: str, version: Version, given: Mapping[str, np.ndarray | None]) -> None:
    hinted = list(given.items())[: len(version.schema.inputs)]
    for number, (name, array) in enumerate(hinted):
        want = version.schema.port(number).type
        if array is None or want.dtype is None or want.dtype == type_of(array).dtype:
            continue
        raise InputError(
            f"call of {sanitize(op)}, input {sanitize(name)}",
            expected=str(want),
            got=str(type_of(array)),
            next=cast_expression(name, want.dtype),
        )


def _model(node: NodeProto, types: Mapping[str, TensorType], opset: int | None) -> ModelProto:
    inputs = []
    for name, fed in types.items():
        element = getattr(fed.dtype, "onnx", 0)
        inputs.append(helper.make_tensor_value_info(name, element, fed.shape))
    outputs = [ValueInfoProto(name=name) for name in node.output]
    graph = helper.make_graph([node], "call", inputs, outputs)
    model = ModelProto(graph=graph, producer_name="pyopnb")
    if opset is not None:
        model.opset_import.append(helper.make_opsetid("", opset))
    import_domains(model)
    return model


def _options(version: Version | None) -> onnxruntime.SessionOptions:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    # There is nothing to gain with one node.
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    # Many sessions are kept: their idle threads must not spin, and a Python op has no use for any.
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    if version is not None:
        options.intra_op_num_threads = 1
    return options


def _of_call(error: PyopError, op: str, names: Sequence[str]) -> PyopError:
    """Tell the error of a node that nobody made as one of the call."""
    _, end, port = error.where.partition(")")
    if not (end and error.where.startswith("node 'call' (")):
        return error
    next_ = error.next
    if next_ == FILL:
        # That advice names a model, and here there is none: the reference runs the op by its name.
        full_name = op if "::" in op else f"::{op}"
        next_ = f"pyopnb.reference({', '.join([repr(full_name), *names])})"
    dtypes = (error.expected or "").partition(", as ")[0].split(", ")
    # With more than two dtypes it is anybody's guess which one is meant.
    are_dtypes = _DTYPE_NAMES.issuperset(dtypes) and len(dtypes) < 3
    if port.startswith(", input ") and next_ is None and are_dtypes:
        next_ = cast_expression(port.removeprefix(", input "), dtype(dtypes[-1]))
    return moved(error, f"call of {sanitize(op)}{port}", next_)


def _with_note(
    error: Exception, op: str, names: Sequence[str], arrays: Sequence[np.ndarray | None]
) -> Exception:
    """Add the types that were fed to ONNX Runtime's errors, which do not name them."""
    if type(error).__module__.startswith("onnxruntime"):
        fed = [array for array in arrays if array is not None]
        types = []
        for name, array in zip(names, fed, strict=True):
            types.append(f"{sanitize(name)}: {type_of(array)}")
        inputs = ", ".join(types) or "no inputs"
        add_note(error, f"in pyopnb.call of {sanitize(op)} with {inputs}")
    return error
