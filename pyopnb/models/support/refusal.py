"""Why the runtime refused a model, named in the model itself: ONNX Runtime's own text names neither node nor remedy.

Nothing is looked at before the runtime has refused, so what it takes is never refused here, and a reason that its text does not
mention is none.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from onnx import GraphProto, ModelProto, NodeProto, TensorProto

from pyopnb.errors import ModelError, PyopError
from pyopnb.models.catalog_names import node_refusal
from pyopnb.models.faults import catalog_hint, find_faults
from pyopnb.models.nodes import Site, is_constant
from pyopnb.models.onnx_schemas import find_schema
from pyopnb.models.ort_capabilities import newest_version
from pyopnb.models.support.lacking import lacks
from pyopnb.models.support.ort_types import join_types, proto_of, to_notation
from pyopnb.models.support.unsupported import Misfit, Unsupported
from pyopnb.models.versions import FILL, new_imports
from pyopnb.ops.coerce import cast_expression
from pyopnb.ops.dtypes import dtype
from pyopnb.ops.messages import sanitize
from pyopnb.ops.names import canonical_domain

__all__ = ["explain_refusal"]

_OUTPUT_DTYPE = re.compile(
    r"Type Error: Type \((tensor\(\w+\))\) of output arg \((.*)\) of node \(.*\) "
    r"does not match expected type \((tensor\(\w+\))\)"
)


def explain_refusal(proto: ModelProto, said: str, *, filled: bool = False) -> PyopError | None:
    """Return the error that says why the runtime refused a model.

    Parameters
    ----------
    proto : ModelProto
    said : str
        The runtime's text.
    filled : bool
        Whether `fill` did what it can, which is not advised then.

    Returns
    -------
    PyopError or None
        None where the text is about something else.
    """
    match = _OUTPUT_DTYPE.search(said)
    if match is not None:
        return _wrong_output(proto, *match.groups())
    try:
        # The first fault that the runtime's own text mentions is the one that it stopped at.
        for error, words in _candidates(proto, filled):
            if all(word in said for word in words):
                return error
    except ModelError as error:
        # A cycle, or a function that calls itself: the types cannot be followed.
        return error
    return None


def _candidates(proto: ModelProto, filled: bool) -> Iterator[tuple[PyopError, tuple[str, ...]]]:
    """Yield errors, each with the words that the runtime's text has if that is what it refused."""
    if not proto.opset_import:
        next_ = "model.opset_import.add(version=onnx.defs.onnx_opset_version())"
        expected = "an import of ONNX's operators"
        yield ModelError("model", expected=expected, got="none", next=next_), ("opset",)
    for fault in find_faults(proto, exact=True):
        yield fault.error, fault.words
    for site, lack in lacks(proto, new_imports(proto)):
        if not lack.kind.startswith("unknown"):
            yield _lacking(site, lack, filled), (site.node.op_type,)


# ---- types -------------------------------------------------------------------------------------------------------------------


def _lacking(site: Site, lack: Unsupported, filled: bool) -> ModelError:
    newest = newest_version(canonical_domain(site.node.domain))
    schema = find_schema(canonical_domain(site.node.domain), site.node.op_type)
    newer = schema is not None and newest is not None and schema.since_version > newest
    if lack.misfit is not None and not newer:
        return _misfit(site, lack.misfit)
    is_refused = node_refusal(site.node) is not None
    can_fill = (newer or lack.kernel) and not filled and not is_refused
    return ModelError(
        site.where,
        expected="a node that the installed onnxruntime can run",
        got=lack.reason,
        next=FILL if can_fill else catalog_hint(site.node) or None,
    )


def _wrong_output(proto: ModelProto, declared: str, name: str, computed: str) -> ModelError:
    """Report a value whose dtype in the file is not the one that its node computes."""
    paths = {}
    for field in ("value_info", "output"):
        for number, info in enumerate(getattr(proto.graph, field)):
            paths[info.name] = f"model.graph.{field}[{number}]"
    notation = to_notation(computed)
    next_ = None
    # The value of a body has another path; there, the name has to do.
    if name in paths:
        element = TensorProto.DataType.Name(dtype(notation).onnx)
        next_ = f"{paths[name]}.type.tensor_type.elem_type = onnx.TensorProto.{element}"
    return ModelError(
        f"value {sanitize(name)}",
        expected=f"a declaration of {notation}, which its node computes",
        got=to_notation(declared),
        next=next_,
    )


def _misfit(site: Site, misfit: Misfit) -> ModelError:
    """Report an input of a wrong dtype; of two that differ the constant one, as that was made by hand."""
    port, partner = misfit.place, misfit.other
    names = site.node.input
    if (
        partner is not None
        and _constant(site, names[partner]) is not None
        and _constant(site, names[port]) is None
    ):
        port, partner = partner, port
    got, expected = (
        misfit.kinds[port] or "",
        misfit.takes if partner is None else (misfit.kinds[partner] or "",),
    )
    name, constant = sanitize(names[port]), _constant(site, names[port])
    if partner is not None:
        as_partner = f", as {sanitize(names[partner])} is"
    else:
        as_partner = ""
    next_ = None
    if constant is not None and (row := _castable(got, expected)) is not None:
        next_ = cast_expression(name if name.isidentifier() else "array", dtype(row))
    return ModelError(
        f"{site.where}, input {name}",
        expected=f"{join_types(expected)}{as_partner}",
        got=f"{to_notation(got)}{constant or ''}",
        next=next_,
    )


def _castable(got: str, wanted: tuple[str, ...]) -> int | None:
    """Return the number of the dtype to cast to: of those that the operator takes, the one of the same kind."""
    kinds = [type_text for type_text in wanted if type_text.startswith("tensor(")]
    if not got.startswith("tensor(") or not kinds:
        return None
    # A cast keeps the kind of number where it can: double becomes float and not int.
    near = [type_text for type_text in kinds if type_text in _NEAR.get(got, ())]
    if near:
        best = near[0]
    elif len(kinds) == 1:
        best = kinds[0]
    else:
        best = None
    if best:
        return int(proto_of(best).tensor_type.elem_type)
    return None


_NEAR = {
    "tensor(double)": ("tensor(float)",),
    "tensor(int32)": ("tensor(int64)",),
    "tensor(int64)": ("tensor(int32)",),
}


def _constant(site: Site, name: str) -> str | None:
    """``" in an initializer"`` or ``" in a Constant"``; None for what is neither, as far as the node's own graph shows."""
    scope = site.scope
    if isinstance(scope, GraphProto) and any(tensor.name == name for tensor in scope.initializer):
        return " in an initializer"
    producer: NodeProto | None = next((node for node in scope.node if name in node.output), None)
    if producer is not None and is_constant(producer):
        return " in a Constant"
    return None
