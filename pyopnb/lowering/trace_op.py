"""Trace one op on one example: ``compute`` runs once, on arrays that record each NumPy call."""

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
from pyopnb.common import sanitize
from pyopnb.engine import TensorType, op_schema, protos, type_of
from pyopnb.errors import NotLowered
from pyopnb.lowering.annotate import annotate
from pyopnb.lowering.graph import Graph
from pyopnb.lowering.namespace import lower_scipy, rebound
from pyopnb.lowering.refusal import Refusal, SourceLine, line_of, noting
from pyopnb.lowering.tensors import Dims, Tensor, cast, recording
from pyopnb.lowering.tracing import Traced, tensor_of
from pyopnb.testing import OpExample, Subject

__all__ = ["LoweredOp", "given_attrs", "ranks_of", "same_attrs", "trace_op", "without_warnings"]

_KEEPS = {
    "expected": "a compute that keeps nothing",
    "got": "what compute changes on self",
    "next": "local variables; or leave this op in Python",
}
"""The error for an op with a state."""

_SAME = "ONNX operators with the results of compute"


@dataclass(frozen=True)
class LoweredOp:
    """A lowered function and the attrs it holds for.

    Attributes
    ----------
    attrs : dict
        All attrs, whose values are part of the function.
    lines : dict of str to SourceLine
        By value of the function, the user's line.
    is_written : bool
        Whether the class wrote the function itself, instead of a trace.
    constants : dict of int to ndarray
        The inputs, by position, whose values are part of the function.
    """

    function: FunctionProto
    attrs: dict[str, Any]
    lines: dict[str, SourceLine]
    is_written: bool = False
    constants: dict[int, np.ndarray] = field(default_factory=dict)

    def holds_for(self, example: OpExample) -> bool:
        """Tell whether an example has the constants that are part of the function."""
        for position, value in self.constants.items():
            array = example.inputs[position]
            if array is None or not np.array_equal(array, value):
                return False
        return True


@contextmanager
def without_warnings() -> Iterator[None]:
    """Silence the NumPy warnings about an example's values."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        yield


def ranks_of(example: OpExample) -> list[TensorType | None]:
    """Return the types of an example's inputs without their sizes."""
    return [item and item.without_sizes() for item in example.types]


def trace_op(
    subject: Subject,
    example: OpExample,
    expected: Sequence[np.ndarray],
    *,
    opset: int,
    finite: bool = False,
) -> LoweredOp:
    """Trace an op.

    Parameters
    ----------
    example : OpExample
        Inputs and attrs.
    expected : sequence of ndarray
        The op's results on the example.
    finite : bool
        Assume that no array has a NaN.

    Raises
    ------
    NotLowered
        A line of the op does not become ONNX operators.
    """
    lower_scipy()
    graph = Graph(opset, _input_names(subject, example), finite)
    with recording(graph), noting() as refusals, without_warnings():
        try:
            inputs = [
                _input(subject, example, position, name)
                for position, name in enumerate(graph.inputs)
            ]
            tensors = _computed(subject, example, inputs, expected)
            # A refusal still counts if the user's code caught it.
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
    op = subject.op
    types = ", ".join(map(str, example.types))
    doc = f"Lowered from {subject.version}, for {types}."
    outputs = [tensor.name for tensor in tensors]
    function = graph.function(op.domain, op.op_type, outputs, doc)
    return LoweredOp(function, given_attrs(subject, example), graph.lines)


def _input_names(subject: Subject, example: OpExample) -> list[str]:
    """Name a function's inputs after the op's ports; variadic ones get numbers."""
    names: list[str] = []
    for port in subject.schema.inputs:
        if not port.variadic:
            names.append(port.name)
            continue
        # The last port takes all inputs that are left.
        count = len(example.inputs) - len(names)
        names.extend(f"{port.name}_{number}" for number in range(count))
    return names[: len(example.inputs)]


def _computed(
    subject: Subject, example: OpExample, inputs: Sequence[Any], expected: Sequence[Any]
) -> list[Tensor]:
    """Run ``compute`` on traced inputs, and return its outputs."""
    instance: Any = subject.instance(example)
    state = _state_of(instance)
    # __init__ ran on NumPy itself, and compute runs on the recording functions.
    instance.__class__ = rebound(type(instance))
    tensors = _outputs(instance.compute(*inputs), expected)
    if _state_of(instance) != state:
        raise NotLowered(subject.op.name, **_KEEPS)
    return tensors


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


def given_attrs(subject: Subject, example: OpExample) -> dict[str, Any]:
    """Return all attrs of an example, defaults included."""
    values = protos.attribute_values(subject.node(example), ModelProto(), subject.op.name)
    passed = subject.schema.bind(values, subject.op.name)
    attrs = {attr.name: attr.default for attr in subject.schema.attrs}
    attrs.update(passed)
    return {name: value for name, value in attrs.items() if value is not op_schema.REQUIRED}


def same_attrs(attrs: Mapping[str, Any], others: Mapping[str, Any]) -> bool:
    """Tell whether two sets of attrs have the same values."""
    if attrs.keys() != others.keys():
        return False
    return all(op_schema.same_value(attrs[name], others[name]) for name in attrs)


def _input(subject: Subject, example: OpExample, position: int, name: str) -> Any:
    array = example.inputs[position]
    if array is None:
        return None
    if array.dtype.kind not in "biuf":
        raise Refusal(None, "inputs of bool, integers or floats", f"{array.dtype}", None)
    value = array.copy()
    # As in a session, ops may only write into copies.
    value.flags.writeable = subject.schema.copy_inputs
    return Traced(value, Tensor(name, value.dtype, _open_dims(subject, position, value.ndim)))


def _open_dims(subject: Subject, position: int, ndim: int) -> Dims:
    """Return the sizes of an input that its hint fixes, and None for all others."""
    hint = subject.schema.port(position).type.shape
    if hint is None:
        return (None,) * ndim
    return tuple(dim if isinstance(dim, int) else None for dim in hint)


def _outputs(value: Any, expected: Sequence[np.ndarray]) -> list[Tensor]:
    """Record the results of ``compute``, and check their dtypes and ranks against the outputs."""
    if isinstance(value, tuple):
        values = value
    else:
        values = (value,)
    tensors = []
    for item, array in zip(values, expected, strict=True):
        if item is None:
            raise Refusal(None, "an array for each output", "None", None)
        tensor = tensor_of(item)
        # Python numbers and lists, which the op's outputs may be, have no dtype of their own.
        if type(item) not in (Traced, np.ndarray):
            tensor = cast(tensor, array.dtype)
        if tensor.dtype != array.dtype or tensor.ndim != array.ndim:
            got = f"{tensor.dtype} of rank {tensor.ndim}"
            raise Refusal(None, f"the output that compute gives, {type_of(array)}", got, None)
        tensors.append(tensor)
    return tensors


def _state_of(instance: Any) -> dict[str, Any]:
    """Fingerprint an instance's attributes.

    The fingerprint has their identities, and also the bytes of arrays, which can change in place.
    """
    state: dict[str, Any] = {}
    for name, value in getattr(instance, "__dict__", {}).items():
        state[name] = id(value), value.tobytes() if type(value) is np.ndarray else None
    return state
