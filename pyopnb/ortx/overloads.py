"""The class of an op that was declared once or several times, each time for other dtypes."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from dataclasses import dataclass
from inspect import Parameter
from typing import Any, Protocol

import numpy as np

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
        return len(numbers) == len(self.inputs) and all(
            not want or not got or want == got
            for want, got in zip(self.inputs, numbers, strict=True)
        )

    def names(self) -> list[str]:
        """Name each input: as the function does, if its parameters can be read."""
        try:
            parameters = inspect.signature(self.opdef.body).parameters.values()
        except (TypeError, ValueError):
            parameters = ()  # type: ignore[assignment]  # a builtin that does not say
        positional = (Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD)
        known = [
            one.name for one in parameters if one.kind in positional and one.name not in self.attrs
        ]
        taken = {*self.attrs, "self"}
        return [
            known[n] if n < len(known) and known[n] not in taken else f"input{n}"
            for n in range(len(self.inputs))
        ]


def merged(overloads: Sequence[Overload], new: Overload) -> tuple[Overload, ...]:
    """Return the overloads with one more, or with that in place of the one for the same dtypes."""
    return (*(one for one in overloads if one.inputs != new.inputs), new)


def class_of(name: str, overloads: tuple[Overload, ...]) -> type:
    """Build the class that serves all overloads of an op."""
    body: dict[str, Any] = {
        "copy_inputs": True,
        "__doc__": inspect.getdoc(overloads[-1].opdef.body),
        "_overloads": overloads,
        "_name": name,
    }
    body |= {"__init__": _constructor(overloads, name), "compute": _compute(overloads)}
    if len({one.outputs for one in overloads}) > 1:
        body["infer"] = _infer
    return type(name.rpartition("::")[2] or "Op", (), body)


def _type(number: int) -> TensorType:
    return TensorType(dtype(number), None) if number else ANY


# ---- the class's methods, whose signatures say what the overloads have in common ---------------------------------------------


def _constructor(overloads: Sequence[Overload], name: str) -> Any:
    def __init__(self: Any, **attrs: Any) -> None:  # noqa: N807  # it becomes a method
        self._attrs = attrs

    kinds: dict[str, type] = {}
    for one in overloads:
        for attr, kind in one.attrs.items():
            if kinds.setdefault(attr, kind) is not kind:
                expected, got = f"{kinds[attr].__name__}, as for other inputs", kind.__name__
                raise DefinitionError(
                    f"op {sanitize(name)}, attr {sanitize(attr)}", expected=expected, got=got
                )
    self = Parameter("self", Parameter.POSITIONAL_ONLY)
    parameters = [
        Parameter(
            attr,
            Parameter.KEYWORD_ONLY,
            annotation=kind,
            default=Parameter.empty if all(attr in one.attrs for one in overloads) else None,
        )
        for attr, kind in kinds.items()
    ]
    # onnxruntime-extensions ignores the attributes that were not declared.
    others = Parameter("_others" if "others" in kinds else "others", Parameter.VAR_KEYWORD)
    __init__.__signature__ = inspect.Signature([self, *parameters, others])  # type: ignore[attr-defined]
    return __init__


def _compute(overloads: Sequence[Overload]) -> Any:
    def compute(self: Any, *inputs: Any) -> Any:
        given = inputs
        while given and given[-1] is None:  # only the last can be missing
            given = given[:-1]
        chosen = _choose(self, given)
        attrs = {name: _attr(self, name) for name in chosen.attrs}
        return converted(chosen.opdef.body(*given, **attrs), chosen.outputs, f"op {self._name}")

    widest = max(overloads, key=lambda one: len(one.inputs))
    fewest = min(len(one.inputs) for one in overloads)
    ports = [
        Parameter(
            name,
            Parameter.POSITIONAL_OR_KEYWORD,
            annotation=_common(overloads, place),
            default=Parameter.empty if place < fewest else None,
        )
        for place, name in enumerate(widest.names())
    ]
    outputs = {one.outputs for one in overloads}
    returned = [_type(number) for number in outputs.pop()] if len(outputs) == 1 else Parameter.empty
    parameters = [Parameter("self", Parameter.POSITIONAL_OR_KEYWORD), *ports]
    compute.__signature__ = inspect.Signature(parameters, return_annotation=returned)  # type: ignore[attr-defined]
    return compute


def _common(overloads: Sequence[Overload], place: int) -> Any:
    numbers = {one.inputs[place] for one in overloads if place < len(one.inputs)}
    return _type(numbers.pop()) if len(numbers) == 1 else Parameter.empty


def _infer(self: Any, *types: TensorType | None) -> list[TensorType]:
    given = [kind.dtype.onnx if kind.dtype else 0 for kind in types if kind is not None]
    return [_type(number) for number in _choose_for(self, given).outputs]


def _choose(op: Any, arrays: Sequence[np.ndarray]) -> Overload:
    overloads: tuple[Overload, ...] = op._overloads
    return (
        overloads[0]
        if len(overloads) == 1
        else _choose_for(op, [dtype(array.dtype).onnx for array in arrays])
    )


def _choose_for(op: Any, numbers: Sequence[int]) -> Overload:
    for one in op._overloads:
        if one.takes(numbers):
            return one  # type: ignore[no-any-return]  # of a tuple of them
    declared = " or ".join(_listed(one.inputs) for one in op._overloads)
    raise ModelError(
        f"op {op._name}, inputs",
        expected=declared,
        got=_listed(numbers),
        next="@onnx_op with these inputs beside the others, or a Cast before the node",
    )


def _attr(op: Any, name: str) -> Any:
    if name in op._attrs:
        return op._attrs[name]
    next_ = f"give the node {name}=…"
    raise ModelError(
        f"op {op._name}, attr {name}",
        expected="a value, for these inputs",
        got="nothing",
        next=next_,
    )


def _listed(numbers: Sequence[int]) -> str:
    return f"({', '.join(str(_type(number)) for number in numbers)})"
