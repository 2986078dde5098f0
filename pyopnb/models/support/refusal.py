"""Explain why the runtime refused a model, with the node at fault and a remedy.

The ONNX Runtime error names neither. A model is examined only after the runtime has refused it, so
a model that it takes is never refused here. A reason counts only if the error of the runtime
mentions it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from onnx import GraphProto, ModelProto, TensorProto, numpy_helper

from pyopnb.common import plural, sanitize
from pyopnb.engine import (
    coerce,
    dtype,
    model_faults,
    model_functions,
    onnx_schemas,
    op_names,
    opset_versions,
    ort_capabilities,
    ort_types,
    protos,
)
from pyopnb.errors import ModelError, PyopError
from pyopnb.models.support.catalog_names import find_refusal
from pyopnb.models.support.lacking import lacks
from pyopnb.models.support.unsupported import MIXED, WRONG_ATTR, Unsupported

__all__ = ["explain_refusal"]

_OUTPUT_DTYPE = re.compile(
    r"Type Error: Type \((tensor\(\w+\))\) of output arg \((.*)\) of node \(.*\) "
    r"does not match expected type \((tensor\(\w+\))\)"
)
_INITIALIZER_DTYPE = re.compile(
    r"Data in initializer '(.*)' has element type (tensor\(\w+\)) "
    r"but usage of initializer in graph expects (tensor\(\w+\))"
)
_ARRAY_SIZE = re.compile(r"reshape array of size (\d+)")
_INITIALIZER_SHAPE = re.compile(r"Shape of initializer (.*) does not match\. \{(.*)\} != \{(.*)\}")


def explain_refusal(proto: ModelProto, said: str, *, filled: bool = False) -> PyopError | None:
    """Return the error that says why the runtime refused a model.

    Parameters
    ----------
    said : str
        The text of the runtime's error.
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
    match = _INITIALIZER_DTYPE.search(said)
    if match is not None:
        name, given, declared = (
            match[1],
            ort_types.to_notation(match[2]),
            ort_types.to_notation(match[3]),
        )
        return _wrong_initializer(name, f"{declared}, which the graph declares for it", given)
    match = _INITIALIZER_SHAPE.search(said)
    if match is not None:
        expected = f"sizes [{match[2]}], which the graph declares for it"
        return _wrong_initializer(match[1], expected, f"[{match[3]}]")
    try:
        # The first fault that the runtime text mentions is the one that it stopped at.
        for error, words in _candidates(proto, filled, said):
            if all(word in said for word in words):
                return error
    except ModelError as error:
        # A cycle, or a function that calls itself: the types cannot be followed.
        return error
    return None


def _candidates(
    proto: ModelProto, filled: bool, said: str
) -> Iterator[tuple[PyopError, tuple[str, ...]]]:
    """Yield possible errors, each with words that the runtime text has if that was the reason."""
    if not proto.opset_import:
        next_ = "model.opset_import.add(version=onnx.defs.onnx_opset_version())"
        expected = "an import of the ONNX operators"
        yield ModelError("model", expected=expected, got="none", next=next_), ("opset",)
    # All its texts about data that do not fit have this word; large weights are read only then.
    if "ensor" in said:
        for error in _wrong_data(proto):
            yield error, ()
    for fault in model_faults.find_faults(proto, exact=True):
        yield fault.error, fault.words
    yield from _wrong_calls(proto)
    for site, lack in lacks(proto, opset_versions.new_imports(proto), optimized=False):
        for word in filter(None, (lack.said, site.node.op_type)):
            yield _lacking(site, lack, filled), (word,)


def _wrong_data(proto: ModelProto) -> Iterator[ModelError]:
    """Report tensors whose data do not have the dtype and sizes that they declare."""
    tensors = [(f"initializer {sanitize(t.name)}", t) for t in proto.graph.initializer]
    for site in protos.walk(proto):
        for attribute in site.node.attribute:
            if attribute.HasField("t"):
                tensors.append((f"{site.where}, attr {sanitize(attribute.name)}", attribute.t))
        for body in protos.bodies(site.node):
            tensors += [(f"initializer {sanitize(t.name)}", t) for t in body.initializer]
    for where, tensor in tensors:
        if tensor.data_location == TensorProto.EXTERNAL:
            continue
        advice = f"onnx.numpy_helper.from_array(array, {sanitize(repr(tensor.name))})"
        if tensor.data_type not in TensorProto.DataType.values()[1:]:
            number = f"the number {tensor.data_type}"
            yield ModelError(where, expected="a data type of ONNX", got=number, next=advice)
            continue
        try:
            if any(size < 0 for size in tensor.dims):
                raise ValueError("a negative size")
            numpy_helper.to_array(tensor)
        except Exception as error:  # onnx and NumPy raise many kinds here
            # NumPy says "cannot reshape array of size 3 into shape (2,)".
            size = _ARRAY_SIZE.search(str(error))
            kind = dtype(tensor.data_type).name
            yield ModelError(
                where,
                expected=f"data for {kind}[{','.join(map(str, tensor.dims))}]",
                got=plural(int(size[1]), "element") if size else sanitize(str(error).rstrip(".")),
                next=advice,
            )


def _wrong_initializer(name: str, expected: str, got: str) -> ModelError:
    advice = f"onnx.numpy_helper.from_array(array, {sanitize(repr(name))})"
    return ModelError(f"initializer {name}", expected=expected, got=got, next=advice)


def _wrong_calls(proto: ModelProto) -> Iterator[tuple[PyopError, tuple[str, ...]]]:
    """Report calls of functions with too many inputs or outputs, or without an import."""
    functions = {model_functions.function_key(function): function for function in proto.functions}
    imports = {id(proto.graph): proto} | {id(function): function for function in proto.functions}
    for site in protos.walk(proto):
        function = functions.get(model_functions.function_key(site.node))
        if function is None:
            continue
        domain = site.node.domain
        scope = imports.get(id(site.scope))
        if scope is not None and op_names.canonical_domain(domain) not in protos.imported_versions(
            scope
        ):
            expected = f"an import of domain {domain}, which has that function"
            advice = f"model.opset_import.add(domain={sanitize(repr(domain))}, version=1)"
            error = ModelError(site.where, expected=expected, got="none", next=advice)
            yield error, ("No opset import", domain)
        for side, names, ports, said in (
            ("input", site.node.input, function.input, "formal parameters"),
            ("output", site.node.output, function.output, "output arg"),
        ):
            if len(names) > len(ports):
                listed = ", ".join(map(sanitize, ports))
                expected = f"at most {plural(len(ports), side)} ({listed}), as its function has"
                advice = repr(list(map(sanitize, names[: len(ports)])))
                got = str(len(names))
                error = ModelError(site.where, expected=expected, got=got, next=advice)
                yield error, (said,)


# ---- types ---------------------------------------------------------------------------------------


# The dtypes that NumPy chooses by default, and the ones that people usually mean.
_MEANT = {TensorProto.DOUBLE: TensorProto.FLOAT, TensorProto.INT32: TensorProto.INT64}


def _lacking(site: protos.Site, lack: Unsupported, filled: bool) -> ModelError:
    domain = op_names.canonical_domain(site.node.domain)
    newest = ort_capabilities.newest_version(domain)
    schema = onnx_schemas.find_schema(domain, site.node.op_type)
    newer = schema is not None and newest is not None and schema.since_version > newest
    is_refused = find_refusal(protos.full_name(site.node)) is not None
    is_unknown = lack.kind in ("unknown op", "unknown domain")
    advice = _cast_of_weight(site)
    if lack.kernel or is_refused or is_unknown:
        advice = model_faults.catalog_hint(site.node)
    # The reference implementation runs all operators that ONNX defines.
    is_defined = is_unknown and schema is not None
    # The reference implementation has no version that ONNX took back.
    in_file = onnx_schemas.find_schema(domain, site.node.op_type, lack.since)
    has_reference = not (in_file and in_file.deprecated)
    is_filled = newer or (lack.kernel and has_reference) or is_defined
    if is_filled and not filled and not is_refused:
        advice = opset_versions.FILL
    if lack.kind == WRONG_ATTR:
        advice = "leave that attr out of the node"
    if not advice and lack.kind in ("no kernel for dtype", MIXED):
        advice = "a Cast before the node, to a dtype that it takes"
        # Dtypes that ONNX does not list for an operator, as other tools write them.
        is_written = schema is not None and lack.kind != MIXED and not lack.kernel
        if is_written and has_reference and not filled:
            advice += f", or {opset_versions.FILL}"
    return ModelError(
        site.where,
        expected="a node that the installed onnxruntime can run",
        got=lack.reason,
        next=advice or None,
    )


def _cast_of_weight(site: protos.Site) -> str:
    """Advise to cast a weight that was made by hand; empty if the node has no such weight."""
    for tensor in site.scope.initializer if isinstance(site.scope, GraphProto) else ():
        if tensor.name in site.node.input and tensor.data_type in _MEANT:
            name = tensor.name if tensor.name.isidentifier() else "array"
            return coerce.cast_expression(name, dtype(_MEANT[tensor.data_type]))
    return ""


def _wrong_output(proto: ModelProto, declared: str, name: str, computed: str) -> ModelError:
    """Report a value whose dtype in the file differs from the one that its node computes."""
    paths = {}
    for field in ("value_info", "output"):
        for number, info in enumerate(getattr(proto.graph, field)):
            paths[info.name] = f"model.graph.{field}[{number}]"
    notation = ort_types.to_notation(computed)
    next_ = None
    # The value of a body has another path; there, the name has to do.
    if name in paths:
        element = TensorProto.DataType.Name(dtype(notation).onnx)
        next_ = f"{paths[name]}.type.tensor_type.elem_type = onnx.TensorProto.{element}"
    return ModelError(
        f"value {name}",
        expected=f"a declaration of {notation}, which its node computes",
        got=ort_types.to_notation(declared),
        next=next_,
    )
