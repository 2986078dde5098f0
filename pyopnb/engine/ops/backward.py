"""Make the gradient op of an op whose class has ``backward``, and check the gradients.

``backward(self, inputs, outputs, grads)`` gets tuples of arrays and returns the gradients of the
inputs. None means that an optional input is left out, or that a gradient is missing. The
gradient op is a class derived from the op's own, so it has the same attrs and an instance of its
own; its node takes the op's inputs, its outputs and their gradients.
"""

from __future__ import annotations

import types
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from pyopnb.common import plural
from pyopnb.engine.ops.coerce import describe_value
from pyopnb.engine.ops.dtypes import dtype
from pyopnb.engine.ops.op_schema import Port, Schema
from pyopnb.engine.ops.returns import Output, describe_none, origin_of
from pyopnb.engine.ops.types import ANY, TensorType, type_of
from pyopnb.errors import ResultError

__all__ = [
    "GRADIENT",
    "Split",
    "checked_gradients",
    "gradient_class",
    "gradient_schema",
    "has_backward",
]


GRADIENT = "Grad"
"""The suffix of a gradient op's name: ``demo::SoftClip`` has ``demo::SoftClipGrad``."""


def has_backward(cls: type) -> bool:
    """Tell whether a class has a ``backward``; ``backward = None`` counts as none."""
    return getattr(cls, "backward", None) is not None


class Split(NamedTuple):
    """The numbers of the op's inputs and outputs among the tensors of its gradient op's node.

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
        is_variadic = bool(schema.inputs) and schema.inputs[-1].variadic
        inputs = None if is_variadic else len(schema.inputs)
        return cls(inputs, None if schema.outputs is None else len(schema.outputs))

    def counts(self, tensors: int) -> tuple[int, int]:
        """Count inputs and outputs among the tensors.

        If neither number is known, one tensor is an output.
        """
        inputs, outputs = self.inputs, self.outputs
        if outputs is None:
            # Each output comes with its gradient, but the last gradient may be left out.
            outputs = 1 if inputs is None else (tensors - inputs + 1) // 2
        if inputs is None:
            inputs = max(tensors - 2 * outputs, 0)
        return inputs, outputs

    def __call__(
        self, tensors: Sequence[Any]
    ) -> tuple[tuple[Any, ...], tuple[Any, ...], tuple[Any, ...]]:
        """Divide tensors into inputs, outputs and gradients.

        Tensors that are left out at the end become None.
        """
        inputs, outputs = self.counts(len(tensors))
        padding = (None,) * (inputs + 2 * outputs - len(tensors))
        padded = (*tensors, *padding)
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
        The op's inputs, its outputs and their gradients go in; a gradient of each input comes out,
        of its dtype and shape.

    Examples
    --------
    >>> from pyopnb.engine.ops.signature import schema_of
    >>> class SoftClip:
    ...     def __init__(self, limit: float = 1.0): ...
    ...     def compute(self, x: "float32[N,3]") -> "float32[N,3]": ...
    ...     def backward(self, inputs, outputs, grads): ...
    >>> print(gradient_schema(schema_of(SoftClip), "demo::SoftClip"))
    (x: float32[N,3], output_0: float32[N,3], grad_0: float32[N,3] = None)<limit: float = 1.0>
    -> float32[N,3]
    """
    doc = f"The gradient of {name}, by its backward."
    base = replace(schema, infers=True, differentiable=False, doc=doc)
    if schema.inputs and schema.inputs[-1].variadic:
        return replace(base, inputs=(Port("tensors", variadic=True),), outputs=None)
    ports = list(schema.inputs)
    if schema.outputs is None:
        ports.append(Port("outputs_and_grads", variadic=True))
    else:
        for number, type_ in enumerate(schema.outputs):
            ports.append(Port(f"output_{number}", type_))
        for number, type_ in enumerate(schema.outputs):
            ports.append(Port(f"grad_{number}", type_, optional=True))
    outputs = tuple(port.type for port in schema.inputs)
    return replace(base, inputs=tuple(ports), outputs=outputs)


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
        Derived from the class: its ``compute`` calls ``backward`` and checks the result.
    """
    # The node passes all tensors in one row: inputs, outputs, gradients.
    split = Split.of(schema)

    def compute(self: Any, *tensors: Any) -> tuple[np.ndarray, ...]:
        inputs, outputs, grads = split(tensors)
        returned = self.backward(inputs, outputs, grads)
        # `gradient_class` is called for classes with a backward only.
        return checked_gradients(returned, inputs, cls.backward, schema, name)  # type: ignore[attr-defined]

    def infer(self: Any, *types: TensorType | None) -> tuple[TensorType, ...]:
        return tuple(type_ or ANY for type_ in split(types)[0])

    ports = ", ".join(port.name for port in schema.inputs)
    attributes: dict[str, Any] = {
        "compute": compute,
        "infer": infer,
        "__module__": cls.__module__,
        "__doc__": (
            f"The gradient of {name}, by its backward. Inputs: {ports}, "
            "the outputs and their gradients."
        ),
    }
    # Without it, instances would have a __dict__ and instances of the op's class would not.
    if "__slots__" in vars(cls):
        attributes["__slots__"] = ()
    return types.new_class(
        f"{cls.__name__}Grad", (cls,), exec_body=lambda namespace: namespace.update(attributes)
    )


def checked_gradients(
    returned: Any, inputs: Sequence[np.ndarray | None], function: Any, schema: Schema, name: str
) -> tuple[np.ndarray, ...]:
    """Check the result of ``backward`` against the dtypes and shapes of the inputs.

    Missing gradients become zeros.

    Parameters
    ----------
    function : callable
        ``backward``.
    schema : Schema
        The op's.
    name : str
        The op's.

    Raises
    ------
    ResultError
        Another number of gradients, or one of another dtype or shape than its input.
    """
    where = f"{name}, backward"
    values = returned if isinstance(returned, tuple) else (returned,)
    if returned is None or len(values) != len(inputs):
        raise _wrong_count(where, function, returned, inputs, schema)
    gradients = []
    for number, (value, array) in enumerate(zip(values, inputs, strict=True)):
        if array is None:
            # There is no gradient of an input that is left out.
            gradients.append(np.zeros((), np.float32))
        elif value is None:
            gradients.append(np.full(array.shape, "" if array.dtype == object else 0, array.dtype))
        else:
            label = f"gradient of {_name(schema, number)}"
            output = Output(
                where, function, schema, number, len(values), type_of(array), False, label
            )
            gradients.append(_check_gradient(output, value, array))
    return tuple(gradients)


def _check_gradient(output: Output, value: Any, array: np.ndarray) -> np.ndarray:
    gradient = output.array(value, dtype(array.dtype))
    if gradient.shape != array.shape:
        # The gradient of a broadcast input has to be summed; this is forgotten most often.
        form = "{}.sum(axis=0)" if gradient.shape[1:] == array.shape else None
        raise output.refusal(gradient, str(type_of(gradient)), form)
    return gradient


def _name(schema: Schema, number: int) -> str:
    port = schema.port(number)
    return f"{port.name}[{number - len(schema.inputs) + 1}]" if port.variadic else port.name


def _wrong_count(
    where: str, function: Any, returned: Any, inputs: Sequence[np.ndarray | None], schema: Schema
) -> ResultError:
    """Make the error for another number of gradients than inputs."""
    names = ", ".join(_name(schema, number) for number in range(len(inputs))) or "nothing"
    expected = f"a tuple of {plural(len(inputs), 'gradient')}, of {names}"
    if returned is None:
        return ResultError(where, expected=expected, got=describe_none("backward"))
    got = f"a tuple of {len(returned)}" if isinstance(returned, tuple) else describe_value(returned)
    location = ", ".join(filter(None, (where, origin_of(function)[0])))
    advice = "None for an input that has no gradient"
    return ResultError(location, expected=expected, got=got, next=advice)
