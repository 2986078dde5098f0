"""Find and make schemas in the onnx form, for the ONNX operators and for ops."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

from onnx import AttributeProto, TensorProto, defs

from pyopnb.engine.models.names import LARGEST_VERSION
from pyopnb.engine.models.protos import attribute_of
from pyopnb.engine.ops.attr_kinds import onnx_type
from pyopnb.engine.ops.dtypes import DTYPES, DType
from pyopnb.engine.ops.op import Version
from pyopnb.engine.ops.op_names import split_name
from pyopnb.engine.ops.op_schema import REQUIRED, Attr, Port
from pyopnb.engine.ops.types import ANY, TensorType
from pyopnb.errors import PyopError

__all__ = [
    "default_attribute",
    "find_schema",
    "is_listable",
    "is_onnx_domain",
    "op_schema",
    "stand_in_schema",
]

_Parameter, _Option, _Kind = (
    defs.OpSchema.FormalParameter,
    defs.OpSchema.FormalParameterOption,
    defs.OpSchema.AttrType,
)

_ANY = "T"


def _type_text(row: DType) -> str:
    return f"tensor({TensorProto.DataType.Name(row.onnx).lower()})"


_ALL_TYPES = [_type_text(row) for row in DTYPES]


@cache
def _onnx_domains() -> frozenset[str]:
    return frozenset(
        value
        for name, value in vars(defs).items()
        if name.endswith("_DOMAIN") and isinstance(value, str)
    )


def is_onnx_domain(domain: str) -> bool:
    """Tell whether the operators of a domain are ONNX's own."""
    return domain in _onnx_domains() or domain == "ai.onnx"


def find_schema(domain: str, op_type: str, version: int | None = None) -> Any:
    """Return the ONNX schema of an operator in a version of its domain; None if there is none.

    Without a version, it is the newest.
    """
    try:
        if version is None:
            return defs.get_schema(op_type, domain=domain)
        return defs.get_schema(op_type, min(max(version, 0), LARGEST_VERSION), domain)
    except defs.SchemaError:
        return None


# ---- an op's schema as onnx's --------------------------------------------------------------------


def op_schema(version: Version) -> defs.OpSchema:
    """Return an op's schema in the onnx form, without inference.

    Attrs that the onnx form cannot express are left out.
    """
    schema = version.schema
    domain, op_type = split_name(version.op)
    return defs.OpSchema(
        op_type,
        domain,
        version.opset,
        schema.doc.encode(errors="backslashreplace").decode(),
        inputs=_inputs(schema.inputs),
        outputs=_outputs(schema.outputs),
        type_constraints=[(_ANY, _ALL_TYPES, "any dtype")],
        attributes=[_attribute(attr) for attr in schema.attrs if is_listable(attr)],
    )


def stand_in_schema(domain: str, op_type: str) -> defs.OpSchema:
    """Return the schema of an operator that takes and gives any number of tensors."""
    return defs.OpSchema(
        op_type,
        domain,
        1,
        "A node of an op, while pyopnb infers types.",
        inputs=[_parameter("inputs", ANY, _Option.Variadic)],
        outputs=[_parameter("outputs", ANY, _Option.Variadic)],
        type_constraints=[(_ANY, _ALL_TYPES, "any dtype")],
    )


def _inputs(ports: Sequence[Port]) -> list[Any]:
    parameters: list[Any] = []
    for port in ports:
        if port.optional and ports[-1].variadic:
            # onnx requires an optional input before a variadic one, so from here on all
            # are one variadic input.
            return [*parameters, _parameter(ports[-1].name, ANY, _Option.Variadic)]
        if port.variadic:
            option = _Option.Variadic
        elif port.optional:
            option = _Option.Optional
        else:
            option = _Option.Single
        parameters.append(_parameter(port.name, port.type, option))
    return parameters


def _outputs(types: Sequence[TensorType] | None) -> list[Any]:
    if types is None:
        return [_parameter("outputs", ANY, _Option.Variadic)]
    # A node may leave out any of an op's outputs.
    return [
        _parameter(f"y{number}", output_type, _Option.Optional)
        for number, output_type in enumerate(types)
    ]


def _parameter(name: str, kind: TensorType, option: Any) -> Any:
    if kind.dtype:
        dtype = _type_text(kind.dtype)
    else:
        dtype = _ANY
    if kind == ANY:
        note = ""
    else:
        note = str(kind)
    return _Parameter(name, dtype, note, param_option=option, is_homogeneous=False, min_arity=0)


def _kind(attr: Attr) -> Any:
    number = onnx_type(attr.kind)
    return None if number is None else _Kind(number)  # type: ignore[call-arg]  # an enum of C++


def is_listable(attr: Attr) -> bool:
    """Tell whether an onnx schema can list an attr, which needs a single kind."""
    return _kind(attr) is not None


def _attribute(attr: Attr) -> Any:
    # A default is written with its attribute's type, which decides the kind.
    default = default_attribute(attr)
    if default is not None:
        return defs.OpSchema.Attribute(attr.name, default, "")
    return defs.OpSchema.Attribute(attr.name, _kind(attr), "", required=attr.default is REQUIRED)


def default_attribute(attr: Attr) -> AttributeProto | None:
    """Return the default of an attr as a node's attribute.

    Returns
    -------
    AttributeProto or None
        None without a default, or for one that a node cannot have (``limit: int = None``).
    """
    try:
        attribute = attribute_of(attr.name, attr.take(attr.default, "default"))
    except (PyopError, TypeError, ValueError, OverflowError):
        return None
    if attribute.type == _kind(attr).value:
        return attribute
    return None
