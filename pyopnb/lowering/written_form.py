"""ONNX forms that a class writes itself, in a method ``lowered``."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx.parser
from onnx import FunctionProto, ModelProto

from pyopnb.common import messages, sanitize
from pyopnb.engine import TensorType, protos, registry, type_of
from pyopnb.errors import NotLowered
from pyopnb.lowering.trace_op import LoweredOp, given_attrs
from pyopnb.testing import OpExample, Subject

__all__ = ["FormInput", "compares_finite", "opset_of_forms", "written_form"]

_METHOD = "lowered"
_LEAST_OPSET = 13
"""The opset that a form is written for, where its class has no ``lowered_opset``."""

_BROADCASTS = 7
_TRACED_OPSET = 18
"""The opset that models of before `_BROADCASTS` are raised to, for traces."""


class FormInput(TensorType):
    """The type of an input without its sizes, as ``lowered`` gets it.

    Attributes
    ----------
    is_constant : bool
        Whether the form has read the value, and so is valid for this value only.
    """

    array: np.ndarray
    is_constant: bool

    def __init__(self, array: np.ndarray) -> None:
        super().__init__(type_of(array).dtype, (None,) * array.ndim)
        # The base class is frozen.
        self.__dict__.update(array=array, is_constant=False)

    @property
    def value(self) -> np.ndarray:
        """Return the value of an input that is a constant of the model.

        An example is the sizes of a window.
        """
        self.__dict__["is_constant"] = True
        return self.array


def compares_finite(subject: Subject) -> bool:
    """Tell whether a form is valid for finite inputs only, such as coordinates in an image."""
    return bool(getattr(subject.version.cls, f"{_METHOD}_finite", False))


def written_form(subject: Subject, example: OpExample, opset: int | None) -> LoweredOp | None:
    """Ask an op's class for its form in the ONNX operators.

    Parameters
    ----------
    example : OpExample
        ``lowered`` gets a `FormInput` for each of its inputs.
    opset : int, optional
        The version of the ONNX operators that the function imports; by default the
        one it is written for.

    Returns
    -------
    LoweredOp or None
        None if the class has no method ``lowered``. The function has not been verified yet.

    Raises
    ------
    NotLowered
        The class refuses these attrs or types by NotImplementedError, the opset is too old, or the
        text is no function.
    """
    cls = subject.version.cls
    if not hasattr(cls, _METHOD):
        return None
    where = f"{subject.op.name}, {_METHOD}"
    least = _least_opset(cls)
    opset = opset or least
    if opset < least:
        raise NotLowered(
            where, expected=f"opset {least} or newer", got=str(opset), next=f"opset={least}"
        )
    inputs: list[FormInput | None] = []
    for array in example.inputs:
        inputs.append(None if array is None else FormInput(array))
    try:
        text = getattr(subject.instance(example), _METHOD)(*inputs)
    except NotImplementedError as error:
        raise NotLowered(where, expected="a form for these attrs", got=sanitize(error)) from error
    function = _function(subject, text, opset, where)
    if len(function.input) < len(inputs):
        raise NotLowered(where, expected=f"{len(inputs)} inputs", got=str(len(function.input)))
    constants: dict[int, np.ndarray] = {}
    shown = []
    for position, item in enumerate(inputs):
        if item is None or not item.is_constant:
            shown.append(str(example.types[position]))
        else:
            constants[position] = item.array
            shown.append(f"{function.input[position]} = {item.array.tolist()}")
    function.doc_string = f"Written by {_METHOD} of {subject.version}, for {', '.join(shown)}."
    attrs = given_attrs(subject, example)
    return LoweredOp(function, attrs, {}, is_written=True, constants=constants)


def opset_of_forms(proto: ModelProto) -> int:
    """Return the opset that a model's lowered ops need; 0 if any will do."""
    needed = 0
    # Operators before opset 7 do not broadcast, so no NumPy call can become one of them.
    is_old = protos.imported_versions(proto).get("", _BROADCASTS) < _BROADCASTS
    for site in protos.walk(proto):
        op = registry.find(site.node.domain, site.node.op_type)
        if op is None:
            continue
        if hasattr(op.current.cls, _METHOD):
            needed = max(needed, _least_opset(op.current.cls))
        elif is_old:
            needed = max(needed, _TRACED_OPSET)
    return needed


def _least_opset(cls: Any) -> int:
    return int(getattr(cls, f"{_METHOD}_opset", _LEAST_OPSET))


def _function(subject: Subject, text: str, opset: int, where: str) -> FunctionProto:
    """Parse ``(x) => (y) { … }``, the ONNX text form of a function without its head."""
    head = f'<domain: "{subject.op.domain}", opset_import: ["" : {opset}]> {subject.op.op_type}'
    try:
        return onnx.parser.parse_function(f"{head} {text}")
    except onnx.parser.ParseError as error:
        raise NotLowered(
            where,
            expected="the ONNX text form of a function, (x) => (y) { y = Abs(x) }",
            got=messages.one_line(sanitize(error, 300)),
        ) from None
