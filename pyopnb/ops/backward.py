"""The gradient op of an op whose class has ``backward``: what it is called, takes and gives, and the check of what it returns.

``backward(self, inputs, outputs, grads)`` gets tuples of arrays, with None for an optional input that is left out and for an
output whose gradient is not there, and returns the gradients of the inputs. The gradient op is a class derived from the op's
own, so it has the same attrs and an instance of its own; its node takes the op's inputs, its outputs and their gradients.
"""

from __future__ import annotations

import types
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from pyopnb.errors import ResultError
from pyopnb.ops.coerce import describe_value
from pyopnb.ops.messages import plural
from pyopnb.ops.returns import Output, ReturnOrigin, describe_none, origin_of
from pyopnb.ops.schema import Port, Schema
from pyopnb.ops.types import ANY, TensorType, type_of

__all__ = [
    "Split",
    "checked_gradients",
    "gradient_class",
    "gradient_name",
    "gradient_schema",
    "has_backward",
]


def gradient_name(name: str) -> str:
    """Name the gradient op of an op.

    Examples
    --------
    >>> gradient_name("demo::SoftClip")
    'demo::SoftClipGrad'
    """
    return f"{name}Grad"


def has_backward(cls: type) -> bool:
    """Tell whether a class has a ``backward``; ``backward = None`` counts as none."""
    return getattr(cls, "backward", None) is not None


class Split(NamedTuple):
    """How many of the tensors of a gradient op's node are inputs of the op, and how many are outputs.

    Attributes
    ----------
    inputs : int or None
        None where the op's last input is variadic.
    outputs : int or None
        None where ``compute`` has no return annotation.
    """

    inputs: int | None
    outputs: int | None

    @classmethod
    def of(cls, schema: Schema) -> Split:
        """Split by the schema of an op."""
        variadic = bool(schema.inputs) and schema.inputs[-1].variadic
        return cls(
            None if variadic else len(schema.inputs),
            None if schema.outputs is None else len(schema.outputs),
        )

    def counts(self, given: int) -> tuple[int, int]:
        """Count inputs and outputs among the tensors; assume one output where neither number is known."""
        if self.inputs is not None:
            return self.inputs, (
                given - self.inputs + 1
            ) // 2 if self.outputs is None else self.outputs
        outputs = 1 if self.outputs is None else self.outputs
        return max(given - 2 * outputs, 0), outputs

    def __call__(
        self, tensors: Sequence[Any]
    ) -> tuple[tuple[Any, ...], tuple[Any, ...], tuple[Any, ...]]:
        """Divide tensors into inputs, outputs and gradients; fill what is left out at the end with None."""
        inputs, outputs = self.counts(len(tensors))
        padded = (*tensors, *(None,) * (inputs + 2 * outputs - len(tensors)))
        return padded[:inputs], padded[inputs : inputs + outputs], padded[inputs + outputs :]


def gradient_schema(schema: Schema, name: str) -> Schema:
    """Make the schema of an op's gradient op.

    Parameters
    ----------
    schema : Schema
        The op's.
    name : str
        The op's.

    Returns
    -------
    Schema
        The op's inputs, its outputs and their gradients go in; a gradient of each input comes out, of its dtype and shape.

    Examples
    --------
    >>> from pyopnb.ops.signature import schema_of
    >>> class SoftClip:
    ...     def __init__(self, limit: float = 1.0): ...
    ...     def compute(self, x: "float32[N,3]") -> "float32[N,3]": ...
    ...     def backward(self, inputs, outputs, grads): ...
    >>> print(gradient_schema(schema_of(SoftClip), "demo::SoftClip"))
    (x: float32[N,3], output_0: float32[N,3], grad_0: float32[N,3] = None)<limit: float = 1.0> -> float32[N,3]
    """
    doc = f"The gradient of {name}, by its backward."
    variadic = bool(schema.inputs) and schema.inputs[-1].variadic
    base = replace(schema, infers=True, differentiable=False, doc=doc)
    if variadic:
        return replace(base, inputs=(Port("tensors", variadic=True),), outputs=None)
    inputs, types_ = _apart(schema)
    rest: tuple[Port, ...] = (Port("outputs_and_grads", variadic=True),)
    if types_ is not None:
        rest = tuple(Port(f"output_{n}", kind) for n, kind in enumerate(types_))
        rest += tuple(Port(f"grad_{n}", kind, optional=True) for n, kind in enumerate(types_))
    return replace(
        base, inputs=(*inputs, *rest), outputs=tuple(port.type for port in schema.inputs)
    )


def _apart(schema: Schema) -> tuple[tuple[Port, ...], tuple[TensorType, ...] | None]:
    """Ports and outputs, with names that those of the gradient op's other ports do not have."""
    count = len(schema.outputs or ())
    taken = {f"{kind}_{n}" for kind in ("output", "grad") for n in range(count)} | {
        "outputs_and_grads"
    }
    ports = tuple(
        replace(port, name=f"{port.name}_") if port.name in taken else port
        for port in schema.inputs
    )
    return ports, schema.outputs


def gradient_class(cls: type, schema: Schema, name: str) -> type:
    """Make the class of an op's gradient op.

    Parameters
    ----------
    cls : type
        The op's, with ``backward``.
    schema : Schema
        The op's.
    name : str
        The op's, for messages.

    Returns
    -------
    type
        Derived from the class: its ``compute`` calls ``backward`` and checks what it returns.
    """
    split = Split.of(schema)
    ports = tuple(port.name for port in schema.inputs)

    def compute(self: Any, *tensors: Any) -> tuple[np.ndarray, ...]:
        inputs, outputs, grads = split(tensors)
        returned = self.backward(inputs, outputs, grads)
        return checked_gradients(returned, inputs, cls.backward, schema, name)  # type: ignore[attr-defined]  # it has one

    def infer(self: Any, *given: TensorType | None) -> tuple[TensorType, ...]:
        return tuple(kind or ANY for kind in split(given)[0])

    made: dict[str, Any] = {"compute": compute, "infer": infer, "__module__": cls.__module__}
    if "__slots__" in vars(cls):
        made["__slots__"] = ()
    made["__doc__"] = (
        f"The gradient of {name}, by its backward. Inputs: {', '.join(ports)}, the outputs and their gradients."
    )
    return types.new_class(
        f"{cls.__name__}Grad", (cls,), exec_body=lambda namespace: namespace.update(made)
    )


def checked_gradients(
    returned: Any, inputs: Sequence[np.ndarray | None], function: Any, schema: Schema, name: str
) -> tuple[np.ndarray, ...]:
    """Check what ``backward`` returned against each input's dtype and shape; fill missing gradients with zeros.

    Parameters
    ----------
    returned : object
    inputs : sequence of (ndarray or None)
    function : callable
        ``backward``.
    schema : Schema
        The op's.
    name : str
        The op's.

    Returns
    -------
    tuple of ndarray

    Raises
    ------
    ResultError
        Another number of gradients, or one of another dtype or shape than its input.
    """
    where = f"{name}, backward"
    values = returned if isinstance(returned, tuple) else (returned,)
    if returned is None or len(values) != len(inputs):
        raise _wrong_count(where, function, returned, inputs, schema)
    return tuple(
        _gradient(where, function, schema, number, values, inputs[number])
        for number in range(len(inputs))
    )


def _gradient(
    where: str,
    function: Any,
    schema: Schema,
    number: int,
    values: tuple[Any, ...],
    of: np.ndarray | None,
) -> np.ndarray:
    if of is None:
        return np.zeros((), np.float32)  # of an input that is left out: nobody can ask for it
    value = values[number]
    if value is None:
        return np.full(of.shape, "", object) if of.dtype == object else np.zeros(of.shape, of.dtype)
    kind = type_of(of)
    label = f"gradient of {_name(schema, number)}"
    output = Output(where, function, schema, number, len(values), kind, hintable=False, label=label)
    assert kind.dtype is not None, "an array has a dtype"  # noqa: S101  # for mypy
    array = output.array(value, kind.dtype)
    if array.shape != of.shape:
        raise _wrong_shape(output, array)
    return array


def _name(schema: Schema, number: int) -> str:
    port = schema.port(number)
    return f"{port.name}[{number - len(schema.inputs) + 1}]" if port.variadic else port.name


def _wrong_count(
    where: str, function: Any, returned: Any, inputs: Sequence[np.ndarray | None], schema: Schema
) -> ResultError:
    given = len(returned) if isinstance(returned, tuple) else 1
    origin = origin_of(function, given)
    names = ", ".join(_name(schema, number) for number in range(len(inputs))) or "nothing"
    expected = (
        f"a tuple of {plural(len(inputs), 'gradient')}, of {names}"
        if len(inputs) != 1
        else f"the gradient of {names}"
    )
    got = f"a tuple of {given}" if isinstance(returned, tuple) else describe_value(returned)
    remedy: str | None = "None for an input that has no gradient"
    if returned is None:
        got, origin, remedy = describe_none("backward"), ReturnOrigin(), None
    elif isinstance(returned, list) and len(returned) == len(inputs):
        remedy = origin.rewritten("tuple({})")
    place = ", ".join(filter(None, (where, str(origin))))
    return ResultError(place, expected=expected, got=got, next=remedy)


def _wrong_shape(output: Output, array: np.ndarray) -> ResultError:
    wanted = output.expected.shape or ()
    form = _reduction(array.shape, wanted)
    return output.refusal(array, str(type_of(array)), form)


def _reduction(given: tuple[int, ...], wanted: Sequence[Any]) -> str | None:
    """Suggest the expression that undoes a broadcast or transposition of a gradient."""
    lead = len(given) - len(wanted)
    if lead >= 0:
        axes = [
            *range(lead),
            *(lead + n for n, size in enumerate(wanted) if size == 1 and given[lead + n] != 1),
        ]
        kept = [size for n, size in enumerate(given) if n not in axes]
        if axes and kept == [size for n, size in enumerate(wanted) if lead + n not in axes]:
            summed = f"{{}}.sum(axis={tuple(axes) if len(axes) > 1 else axes[0]})"
            return summed if len(kept) == len(wanted) else f"{summed}.reshape({tuple(wanted)})"
    if len(given) == len(wanted) > 1 and given == tuple(reversed(wanted)):
        return "np.transpose({})"
    return None
