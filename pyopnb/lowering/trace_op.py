"""One op at one example, traced: its ``compute`` runs once, on arrays that record what NumPy is asked for."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from onnx import FunctionProto, ModelProto

import pyopnb.lowering.numpy
import pyopnb.lowering.operators  # noqa: F401  # each rule registers its functions
from pyopnb.errors import NotLowered
from pyopnb.lowering.annotate import annotate
from pyopnb.lowering.graph import Graph
from pyopnb.lowering.namespace import lower_scipy, rebound
from pyopnb.lowering.refusal import NeedsValue, Refusal, SourceLine, line_of, noting
from pyopnb.lowering.tensors import Dims, Tensor, cast, recording
from pyopnb.lowering.tracing import Number, Traced, tensor_of
from pyopnb.models.nodes import attribute_values
from pyopnb.ops.messages import sanitize
from pyopnb.ops.schema import REQUIRED, Attr
from pyopnb.ops.types import TensorType, type_of
from pyopnb.testing.subject import Example, Subject

__all__ = ["LoweredOp", "given_attrs", "ranks_of", "trace_op", "without_warnings"]

_KEEPS = {
    "expected": "a compute that keeps nothing",
    "got": "what compute changes on self",
    "next": "local variables; or leave this op in Python",
}
"""The error for an op with a state."""

_SAME = "ONNX operators with the results of compute"


@dataclass(frozen=True)
class LoweredOp:
    """A function, and for which attrs it holds.

    Attributes
    ----------
    function : FunctionProto
    fixed : dict
        The attrs whose values are part of the function.
    defaulted : frozenset of str
        Those of them that have the default of the op, as the node leaves them out.
    open : tuple of str
        The attrs that are the function's attributes.
    lines : dict of str to SourceLine
        By value of the function, the user's line.
    is_written : bool
        Whether the op's class wrote it, and no trace.
    constants : dict of int to ndarray
        The inputs, by position, whose values are part of the function.
    """

    function: FunctionProto
    fixed: dict[str, Any]
    defaulted: frozenset[str]
    open: tuple[str, ...]
    lines: dict[str, SourceLine]
    is_written: bool = False
    constants: dict[int, np.ndarray] = field(default_factory=dict)

    def holds_for(self, example: Example) -> bool:
        """Tell whether an example has the constants that are part of the function."""
        for position, value in self.constants.items():
            array = example.inputs[position]
            if array is None or not np.array_equal(array, value):
                return False
        return True


@contextmanager
def without_warnings() -> Iterator[None]:
    """Run an op without NumPy's warnings about an example, which the op gives where it runs."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        yield


def ranks_of(example: Example) -> list[TensorType | None]:
    """Return the types of an example's inputs without their sizes."""
    return [item and item.without_sizes() for item in example.types]


def trace_op(
    subject: Subject,
    example: Example,
    expected: Sequence[np.ndarray],
    *,
    opset: int,
    finite: bool = False,
    sizes: bool = False,
) -> LoweredOp:
    """Trace an op.

    Parameters
    ----------
    subject : Subject
    example : Example
        Inputs and attrs.
    expected : sequence of ndarray
        What the op gives for them.
    opset : int
    finite : bool
        Whether no array has a NaN.
    sizes : bool
        Whether the sizes of the example are those of all inputs.

    Returns
    -------
    LoweredOp

    Raises
    ------
    NotLowered
        A line of the op does not become ONNX operators.
    """
    lower_scipy()
    fixed: set[str] = set()
    # Attrs begin as attributes of the function; each whose value decides on nodes becomes part of it.
    while True:
        graph = Graph(opset, _input_names(subject, example), finite)
        try:
            return _trace(subject, example, expected, graph, fixed, sizes)
        except NeedsValue as need:
            fixed |= need.attrs


def _input_names(subject: Subject, example: Example) -> list[str]:
    """Name a function's inputs after the op's ports, numbered where they are variadic."""
    names: list[str] = []
    for port in subject.schema.inputs:
        if not port.variadic:
            names.append(port.name)
            continue
        # The last port takes all inputs that are left.
        count = len(example.inputs) - len(names)
        names.extend(f"{port.name}_{number}" for number in range(count))
    return names[: len(example.inputs)]


def _trace(
    subject: Subject,
    example: Example,
    expected: Sequence[np.ndarray],
    graph: Graph,
    fixed: set[str],
    sizes: bool,
) -> LoweredOp:
    """Trace an op, with the values of some attrs as part of the function."""
    with recording(graph), noting() as refusals, without_warnings():
        values, opened = _attrs(subject, example, graph, fixed)
        try:
            inputs = [
                _input(subject, example, position, name, sizes)
                for position, name in enumerate(graph.inputs)
            ]
            tensors = _computed(subject, values, inputs, expected)
            # A refusal that the user's code caught is one all the same.
            if refusals:
                raise refusals[0]
        except Refusal as refusal:
            raise _not_lowered(subject, refusal, graph) from None
        except NotLowered:
            raise
        except Exception as error:
            got = f"{type(error).__name__}, {sanitize(str(error))}"
            wrong = Refusal(line_of(error), _SAME, got, None)
            raise _not_lowered(subject, wrong, graph) from error
    return _lowered(subject, example, graph, [tensor.name for tensor in tensors], opened)


def _computed(
    subject: Subject, values: Mapping[str, Any], inputs: Sequence[Any], expected: Sequence[Any]
) -> list[Tensor]:
    """Run ``compute`` on traced inputs, and return its outputs."""
    instance = subject.version.cls(**values)
    state = _state_of(instance)
    # __init__ runs on NumPy itself, and compute on what records.
    instance.__class__ = rebound(type(instance))
    tensors = _outputs(instance.compute(*inputs), expected)
    if not _same_state(state, _state_of(instance)):
        raise NotLowered(subject.op.name, **_KEEPS)
    return tensors


def _lowered(
    subject: Subject, example: Example, graph: Graph, outputs: Sequence[str], opened: Sequence[str]
) -> LoweredOp:
    """Make a function of the nodes that were recorded."""
    defaults: dict[str, Any] = {}
    required: list[str] = []
    for attr in subject.schema.attrs:
        if attr.name not in opened:
            continue
        if attr.default is REQUIRED:
            required.append(attr.name)
        else:
            defaults[attr.name] = attr.default
    op, types = subject.op, ", ".join(map(str, example.types))
    doc = f"Lowered from {subject.version}, for {types}."
    function = graph.function(op.domain, op.op_type, outputs, defaults, required, doc)
    attrs = given_attrs(subject, example)
    fixed = {name: value for name, value in attrs.items() if name not in opened}
    return LoweredOp(
        function,
        fixed,
        frozenset(fixed.keys() - example.attrs.keys()),
        tuple(opened),
        graph.lines,
    )


def _not_lowered(subject: Subject, refusal: Refusal, graph: Graph) -> NotLowered:
    """Return the error for a line, with the annotated source up to it."""
    where = subject.op.name
    if refusal.line is not None:
        where = f"{where}, {refusal.line}"
    error = NotLowered(where, expected=refusal.expected, got=refusal.got, next=refusal.next)
    if refusal.line is not None:
        source = annotate(subject.version, graph.nodes, graph.lines, refusal)
        error.source = source
        # Shown below the message, in a console as in a notebook.
        error.add_note(str(source.excerpt()))
    return error


# ---- attrs ----------------------------------------------------------------------------------------


def given_attrs(subject: Subject, example: Example) -> dict[str, Any]:
    """Return all attrs of an example, defaults included."""
    values = attribute_values(subject.node(example), ModelProto(), subject.op.name)
    passed = subject.schema.bind(values, subject.op.name)
    attrs = {attr.name: attr.default for attr in subject.schema.attrs}
    attrs.update(passed)
    return {name: value for name, value in attrs.items() if value is not REQUIRED}


def _attrs(
    subject: Subject, example: Example, graph: Graph, fixed: set[str]
) -> tuple[dict[str, Any], list[str]]:
    """Return the arguments of ``__init__``, and which of them are attributes of the function."""
    exact = any(map(_needs_exact_attrs, example.inputs))
    values = given_attrs(subject, example)
    arguments: dict[str, Any] = {}
    opened = []
    for attr in subject.schema.attrs:
        if attr.name not in values:
            continue
        value = values[attr.name]
        if attr.name not in fixed and _is_open(attr, value, exact):
            opened.append(attr.name)
            arguments[attr.name] = _attr(graph, attr.name, attr.kind, value)
        # A default that is not a parameter of the function is left to __init__.
        elif attr.name in example.attrs:
            arguments[attr.name] = value
    return arguments, opened


def _is_open(attr: Attr, value: Any, exact: bool) -> bool:
    """Tell whether an attr can be an attribute of the function: a number that is as good as float32."""
    if attr.choices:
        return False
    # An attr without a hint, and a float attr of a whole number, have other types.
    if attr.kind == "int":
        return type(value) is int
    return attr.kind == "float" and type(value) is float and _is_carried(value, exact)


def _is_carried(value: float, exact: bool) -> bool:
    with np.errstate(all="ignore"):
        return not exact or float(np.float32(value)) == value


def _needs_exact_attrs(array: np.ndarray | None) -> bool:
    """Tell whether NumPy calculates with an array in float64, and so takes a float attr as the number itself."""
    return array is not None and array.dtype not in (np.float16, np.float32, np.bool_)


def _attr(graph: Graph, name: str, kind: str, value: Any) -> Number:
    dtype = np.dtype(np.int64 if kind == "int" else np.float32)
    return Number(value, lambda: Tensor(graph.attribute(name, kind), dtype, ()), frozenset({name}))


# ---- inputs, outputs, state -----------------------------------------------------------------------


def _input(subject: Subject, example: Example, position: int, name: str, sizes: bool) -> Any:
    array = example.inputs[position]
    if array is None:
        return None
    if array.dtype.kind not in "biuf":
        raise Refusal(None, "inputs of bool, integers or floats", f"{array.dtype}", None)
    value = array.copy()
    # As in a session, where an op may write into copies alone.
    value.flags.writeable = subject.schema.copy_inputs
    dims = value.shape if sizes else _open_dims(subject, position, value.ndim)
    return Traced(value, Tensor(name, value.dtype, dims))


def _open_dims(subject: Subject, position: int, ndim: int) -> Dims:
    """Return the sizes of an input that its hint fixes, and None for all others."""
    hint = subject.schema.port(position).type.shape
    if hint is None:
        return (None,) * ndim
    return tuple(dim if isinstance(dim, int) else None for dim in hint)


def _outputs(value: Any, expected: Sequence[np.ndarray]) -> list[Tensor]:
    """Record what ``compute`` returned, of the dtypes and ranks that the op's outputs have."""
    values = value if isinstance(value, tuple) else (value,)
    tensors = []
    for item, array in zip(values, expected, strict=True):
        if item is None:
            raise Refusal(None, "an array for each output", "None", None)
        tensor = tensor_of(item)
        # Python's numbers and lists, which the op's outputs may be, have no dtype of their own.
        if type(item) not in (Traced, np.ndarray):
            tensor = cast(tensor, array.dtype)
        if tensor.dtype != array.dtype or tensor.ndim != array.ndim:
            got = f"{tensor.dtype} of rank {tensor.ndim}"
            raise Refusal(None, f"the output that compute gives, {type_of(array)}", got, None)
        tensors.append(tensor)
    return tensors


def _state_of(instance: Any) -> dict[str, tuple[Any, bytes | None]]:
    """Return what an instance keeps, to be compared by `_same_state`: arrays may change in place."""
    state: dict[str, tuple[Any, bytes | None]] = {}
    for name, value in getattr(instance, "__dict__", {}).items():
        state[name] = value, value.tobytes() if type(value) is np.ndarray else None
    return state


def _same_state(
    before: Mapping[str, tuple[Any, bytes | None]], after: Mapping[str, tuple[Any, bytes | None]]
) -> bool:
    """Tell whether an instance keeps what it kept before."""
    if before.keys() != after.keys():
        return False
    pairs = [(before[name], after[name]) for name in before]
    return all(old[0] is new[0] and old[1] == new[1] for old, new in pairs)
