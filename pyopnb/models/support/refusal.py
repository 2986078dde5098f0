"""Explain why the runtime refused a model, with the node at fault and a remedy.

ONNX Runtime's own text names neither. A model is examined only after the runtime has refused it, so
a model that it takes is never refused here. A reason counts only if the runtime's text mentions it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from onnx import GraphProto, ModelProto, TensorProto

from pyopnb.errors import ModelError, PyopError
from pyopnb.models.catalog_names import node_refusal
from pyopnb.models.faults import catalog_hint, find_faults
from pyopnb.models.nodes import Site
from pyopnb.models.onnx_schemas import find_schema
from pyopnb.models.ort_capabilities import newest_version
from pyopnb.models.ort_types import to_notation
from pyopnb.models.support.lacking import lacks
from pyopnb.models.support.unsupported import Unsupported
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
        Whether `fill` was applied already, so that it is not advised.

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
    """Yield possible errors, each with words that the runtime's text has if that was the reason."""
    if not proto.opset_import:
        next_ = "model.opset_import.add(version=onnx.defs.onnx_opset_version())"
        expected = "an import of ONNX's operators"
        yield ModelError("model", expected=expected, got="none", next=next_), ("opset",)
    for fault in find_faults(proto, exact=True):
        yield fault.error, fault.words
    for site, lack in lacks(proto, new_imports(proto), optimized=False):
        if not lack.kind.startswith("unknown"):
            yield _lacking(site, lack, filled), (lack.said or site.node.op_type,)


# ---- types ---------------------------------------------------------------------------------------


# The dtypes that NumPy chooses by default, and the ones that people usually mean.
_MEANT = {TensorProto.DOUBLE: TensorProto.FLOAT, TensorProto.INT32: TensorProto.INT64}


def _lacking(site: Site, lack: Unsupported, filled: bool) -> ModelError:
    newest = newest_version(canonical_domain(site.node.domain))
    schema = find_schema(canonical_domain(site.node.domain), site.node.op_type)
    newer = schema is not None and newest is not None and schema.since_version > newest
    is_refused = node_refusal(site.node) is not None
    advice = _cast_of_weight(site)
    if lack.kernel or is_refused:
        advice = catalog_hint(site.node)
    if (newer or lack.kernel) and not filled and not is_refused:
        advice = FILL
    return ModelError(
        site.where,
        expected="a node that the installed onnxruntime can run",
        got=lack.reason,
        next=advice or None,
    )


def _cast_of_weight(site: Site) -> str:
    """Advise to cast a weight that was made by hand; empty if the node has no such weight."""
    for tensor in site.scope.initializer if isinstance(site.scope, GraphProto) else ():
        if tensor.name in site.node.input and tensor.data_type in _MEANT:
            name = tensor.name if tensor.name.isidentifier() else "array"
            return cast_expression(name, dtype(_MEANT[tensor.data_type]))
    return ""


def _wrong_output(proto: ModelProto, declared: str, name: str, computed: str) -> ModelError:
    """Report a value whose dtype in the file differs from the one that its node computes."""
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
