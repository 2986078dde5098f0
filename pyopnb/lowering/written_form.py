"""The form of an op in ONNX's operators that its class writes itself, in a method ``lowered``."""

from __future__ import annotations

from typing import Any

import onnx.parser
from onnx import FunctionProto, ModelProto

from pyopnb.errors import NotLowered
from pyopnb.lowering.trace_op import LoweredOp, given_attrs, ranks_of
from pyopnb.models.nodes import walk
from pyopnb.ops.messages import one_line, sanitize
from pyopnb.ops.registry import registry
from pyopnb.testing.subject import Example, Subject

__all__ = ["compares_finite", "opset_of_forms", "written_form"]

_METHOD = "lowered"
_LEAST_OPSET = 13
"""The opset that a form is written for, where its class has no ``lowered_opset``."""


def compares_finite(subject: Subject) -> bool:
    """Tell whether a form holds for finite numbers alone: a point at infinity or NaN is in no image."""
    return bool(getattr(subject.version.cls, f"{_METHOD}_finite", False))


def written_form(subject: Subject, example: Example, opset: int | None) -> LoweredOp | None:
    """Ask an op's class for its form in ONNX's operators.

    Parameters
    ----------
    subject : Subject
    example : Example
        ``lowered`` gets the types of its inputs, as ``infer`` does, without sizes.
    opset : int, optional
        The version of ONNX's operators that the function imports; by default the one it is written for.

    Returns
    -------
    LoweredOp or None
        None if the class has no method ``lowered``. It is not compared yet.

    Raises
    ------
    NotLowered
        The class refuses these attrs or types by NotImplementedError, the opset is too old, or the text is no function.
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
    types = ranks_of(example)
    try:
        text = getattr(subject.instance(example), _METHOD)(*types)
    except NotImplementedError as error:
        raise NotLowered(where, expected="a form for these attrs", got=sanitize(error)) from error
    function = _function(subject, text, opset, where)
    if len(function.input) < len(types):
        raise NotLowered(where, expected=f"{len(types)} inputs", got=str(len(function.input)))
    shown = ", ".join(str(kind) for kind in example.types)
    function.doc_string = f"Written by {_METHOD} of {subject.version}, for {shown}."
    return LoweredOp(function, given_attrs(subject, example), {}, is_written=True)


def opset_of_forms(proto: ModelProto) -> int:
    """Return the opset that the forms of a model's ops need; 0 if none has one."""
    needed = 0
    for site in walk(proto):
        op = registry.find(site.node.domain, site.node.op_type)
        if op is not None and hasattr(op.current.cls, _METHOD):
            needed = max(needed, _least_opset(op.current.cls))
    return needed


def _least_opset(cls: Any) -> int:
    return int(getattr(cls, f"{_METHOD}_opset", _LEAST_OPSET))


def _function(subject: Subject, text: str, opset: int, where: str) -> FunctionProto:
    """Parse ``(x) => (y) { … }``, ONNX's text form of a function without its head."""
    head = f'<domain: "{subject.op.domain}", opset_import: ["" : {opset}]> {subject.op.op_type}'
    try:
        return onnx.parser.parse_function(f"{head} {text}")
    except onnx.parser.ParseError as error:
        raise NotLowered(
            where,
            expected="ONNX's text form of a function, (x) => (y) { y = Abs(x) }",
            got=one_line(sanitize(error, 300)),
        ) from None
