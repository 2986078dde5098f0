"""Build the class of an op that was declared once or several times, each time for other dtypes."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from dataclasses import dataclass
from inspect import Parameter
from typing import Any, Protocol

from pyopnb.errors import DefinitionError, ModelError
from pyopnb.ops.dtypes import dtype
from pyopnb.ops.messages import sanitize
from pyopnb.ops.types import ANY, TensorType
from pyopnb.ortx.converted import converted

__all__ = ["Overload", "class_of", "merged"]


class _Body(Protocol):
    body: Any


@dataclass(frozen=True)
class Overload:
    """A function, the dtypes that it was declared for, and its attrs.

    Attributes
    ----------
    opdef : Opdef
        Holds the function, which can be replaced.
    inputs, outputs : tuple of int
        Numbers of ``onnx.TensorProto``; 0 for any.
    attrs : dict of str to type
    """

    opdef: _Body
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    attrs: dict[str, type]

    def takes(self, numbers: Sequence[int]) -> bool:
        """Tell whether it was declared for inputs of these dtypes; 0 for one that is not known."""
        if len(numbers) != len(self.inputs):
            return False
        pairs = zip(self.inputs, numbers, strict=True)
        return all(want in (0, number) or not number for want, number in pairs)

    def names(self) -> list[str]:
        """Name each input: as the function does, if its parameters can be read."""
        try:
            parameters = list(inspect.signature(self.opdef.body).parameters.values())
        except (TypeError, ValueError):
            # Some builtins do not say.
            parameters = []
        names = []
        for parameter in parameters:
            is_positional = parameter.kind in (
                Parameter.POSITIONAL_ONLY,
                Parameter.POSITIONAL_OR_KEYWORD,
            )
            if is_positional and parameter.name not in self.attrs:
                names.append(parameter.name)
        inputs = []
        for number in range(len(self.inputs)):
            # compute has a parameter self already, and *args give no names.
            if number < len(names) and names[number] != "self":
                inputs.append(names[number])
            else:
                inputs.append(f"input{number}")
        return inputs


def merged(overloads: Sequence[Overload], new: Overload) -> tuple[Overload, ...]:
    """Return the overloads with one more, or with that in place of the one for the same dtypes."""
    kept = [overload for overload in overloads if overload.inputs != new.inputs]
    return (*kept, new)


def class_of(name: str, overloads: tuple[Overload, ...]) -> type:
    """Build the class that serves all overloads of an op."""
    # Functions of onnxruntime-extensions may write to what they get, so each call gets copies.
    body: dict[str, Any] = {
        "copy_inputs": True,
        "__doc__": inspect.getdoc(overloads[-1].opdef.body),
        "_overloads": overloads,
        "_name": name,
        "__init__": _constructor(overloads, name),
        "compute": _compute(overloads),
    }
    # Where all overloads have the same outputs, the signature of compute says them.
    if len(_distinct_outputs(overloads)) > 1:
        body["infer"] = _infer
    return type(name.rpartition("::")[2] or "Op", (), body)


# ---- its methods, whose signatures say what the overloads have in common ---------------------


def _constructor(overloads: Sequence[Overload], name: str) -> Any:
    def __init__(self: Any, **attrs: Any) -> None:  # noqa: N807  # it becomes a method
        self._attrs = attrs

    attr_types: dict[str, type] = {}
    for overload in overloads:
        for attr, attr_type in overload.attrs.items():
            first_type = attr_types.setdefault(attr, attr_type)
            if first_type is not attr_type:
                where = f"op {sanitize(name)}, attr {sanitize(attr)}"
                expected = f"{first_type.__name__}, as for other inputs"
                raise DefinitionError(where, expected=expected, got=attr_type.__name__)
    parameters = [Parameter("self", Parameter.POSITIONAL_ONLY)]
    for attr, attr_type in attr_types.items():
        parameter = Parameter(attr, Parameter.KEYWORD_ONLY, annotation=attr_type)
        # A node of one overload need not have the attrs of the others.
        if not all(attr in overload.attrs for overload in overloads):
            parameter = parameter.replace(default=None)
        parameters.append(parameter)
    # onnxruntime-extensions ignores the attributes that were not declared.
    parameters.append(Parameter("_ignored", Parameter.VAR_KEYWORD))
    __init__.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    return __init__


def _compute(overloads: Sequence[Overload]) -> Any:
    def compute(self: Any, *inputs: Any) -> Any:
        present = list(inputs)
        # Only the last can be left out.
        while present and present[-1] is None:
            present.pop()
        overload = overloads[0]
        # With one overload, any inputs are its own: the schema has checked them.
        if len(overloads) > 1:
            overload = _choose(self, [dtype(array.dtype).onnx for array in present])
        attrs = {name: _attr(self, name) for name in overload.attrs}
        returned = overload.opdef.body(*present, **attrs)
        return converted(returned, overload.outputs, f"op {self._name}")

    widest = max(overloads, key=lambda overload: len(overload.inputs))
    fewest = min(len(overload.inputs) for overload in overloads)
    parameters = [Parameter("self", Parameter.POSITIONAL_OR_KEYWORD)]
    for position, name in enumerate(widest.names()):
        annotation = _common_type(overloads, position)
        parameter = Parameter(name, Parameter.POSITIONAL_OR_KEYWORD, annotation=annotation)
        # What an overload with fewer inputs lacks is optional.
        if position >= fewest:
            parameter = parameter.replace(default=None)
        parameters.append(parameter)
    returns: Any = Parameter.empty
    if len(_distinct_outputs(overloads)) == 1:
        returns = list(map(_type, widest.outputs))
    compute.__signature__ = inspect.Signature(parameters, return_annotation=returns)  # type: ignore[attr-defined]
    return compute


def _infer(self: Any, *types: TensorType | None) -> list[TensorType]:
    """Return the types of the outputs, as a method of an op whose overloads differ in them."""
    numbers = []
    for input_type in types:
        if input_type is not None:
            # An unknown dtype is 0, and fits every overload.
            numbers.append(input_type.dtype.onnx if input_type.dtype else 0)
    return list(map(_type, _choose(self, numbers).outputs))


def _choose(op: Any, numbers: Sequence[int]) -> Overload:
    overloads: tuple[Overload, ...] = op._overloads
    for overload in overloads:
        if overload.takes(numbers):
            return overload
    raise ModelError(
        f"op {op._name}, inputs",
        expected=" or ".join(map(_inputs_text, overloads)),
        got=_type_texts(numbers),
        next="@onnx_op with these inputs beside the others, or a Cast before the node",
    )


def _attr(op: Any, name: str) -> Any:
    if name not in op._attrs:
        where, expected = f"op {op._name}, attr {name}", "a value, for these inputs"
        raise ModelError(where, expected=expected, got="nothing", next=f"give the node {name}=…")
    return op._attrs[name]


def _common_type(overloads: Sequence[Overload], position: int) -> Any:
    """Return the type that an input has in all overloads that have it."""
    numbers = set()
    for overload in overloads:
        if position < len(overload.inputs):
            numbers.add(overload.inputs[position])
    # Without an annotation, an input takes any dtype.
    return _type(numbers.pop()) if len(numbers) == 1 else Parameter.empty


def _distinct_outputs(overloads: Sequence[Overload]) -> set[tuple[int, ...]]:
    return {overload.outputs for overload in overloads}


def _type(number: int) -> TensorType:
    return TensorType(dtype(number), None) if number else ANY


def _inputs_text(overload: Overload) -> str:
    return _type_texts(overload.inputs)


def _type_texts(numbers: Sequence[int]) -> str:
    return f"({', '.join(map(str, map(_type, numbers)))})"
