"""Find the nodes that the installed ONNX Runtime lacks something for, by the types of all values.

The types are as in `pyopnb.models.types`: the ONNX inference, the ops' own ``infer``, and
the type variables of the runtime operators. Calls of local functions are written out for it, as the
runtime does, so that a node in a function is judged in each call.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Any

from onnx import (
    AttributeProto,
    FunctionProto,
    GraphProto,
    ModelProto,
    NodeProto,
    TypeProto,
    helper,
)

from pyopnb.common import sanitize
from pyopnb.engine import (
    GraphIndex,
    markers,
    model_faults,
    model_files,
    model_functions,
    onnx_schemas,
    op_names,
    opset_versions,
    ort_capabilities,
    ort_types,
    protos,
    registry,
)
from pyopnb.models.support.catalog_names import find_refusal, node_entry
from pyopnb.models.support.kernels import (
    Kinds,
    float16_as_float32,
    has_kernel,
    type_mismatch,
    unserved_types,
)
from pyopnb.models.support.operator_functions import function_of, model_of_call
from pyopnb.models.support.unsupported import MIXED, WRONG_ATTR, Unsupported
from pyopnb.models.types import Types

__all__ = ["has_kernel", "lacks", "unserved_outputs"]

_RETIRED = "PyOp"
_ONNX = ("", "ai.onnx.ml")
"""The domains in which the runtime ignores local functions."""

_LARGE = frozenset(
    getattr(AttributeProto, name)
    for name in ("TENSOR", "TENSORS", "GRAPH", "GRAPHS", "SPARSE_TENSOR", "SPARSE_TENSORS")
)

_BY_SHAPE = frozenset(("RotaryEmbedding", "CausalConvWithState"))
"""Operators whose function in ONNX depends on the shapes of the inputs."""

_CHOOSY = frozenset(("GRU", "GridSample", "LSTM", "LpNormalization", "RNN", "StringNormalizer"))
"""Operators whose kernels refuse some attributes, or locales, when a session is made."""

_UNCHECKED = frozenset(
    (
        "BiasDropout",
        "BitmaskBiasDropout",
        "BitmaskDropout",
        "EPContext",
        "QOrderedLayerNormalization",
        "Snpe",
    )
)
"""Operators of the runtime at which it takes any attribute."""

_GUESSES = 200
"""Unknown names for which a similar one is looked up.

That takes half a millisecond each, and a file can hold any number.
"""

_PLACE = "pyopnb.place"


def lacks(
    proto: ModelProto, new: Iterable[opset_versions.NewImport], *, optimized: bool = True
) -> list[tuple[protos.Site, Unsupported]]:
    """Return every node that the runtime cannot run, each with the reason.

    Parameters
    ----------
    new : iterable of NewImport
        Its `new_imports`.
    optimized : bool
        Whether the runtime removes nodes before it looks for their kernels, as it does by default.

    Raises
    ------
    ModelError
        Nodes form a cycle, or as from `check_functions` and `check_attributes`.
    """
    versions = _runnable_versions(proto, new)
    types = Types(_written_out(proto, versions))
    judge = _Judge(versions)
    # A function is judged once for each call, and a node in it is listed once.
    lacks_by_place: dict[int, Unsupported] = {}
    number = 0
    for graph in types.graphs:
        graph.refuse_cycles()
        kinds = _KindsByName(types, graph.scope)
        for node in graph.scope.node:
            lack = judge.judge(node, kinds)
            is_removed = lack and lack.kernel and optimized and _is_removed(node, graph, types)
            if lack is not None and not is_removed:
                lacks_by_place.setdefault(_place_of(node, number), lack)
            number += 1
    if not lacks_by_place:
        return []
    sites = list(protos.walk(proto))
    return [(sites[number], lack) for number, lack in lacks_by_place.items()]


def unserved_outputs(proto: ModelProto) -> set[str]:
    """Name the outputs of nodes that have no kernel.

    A model can run all the same: ONNX Runtime first removes nodes that only pass a tensor on.
    """
    new = list(opset_versions.new_imports(proto))
    found = lacks(proto, new, optimized=False)
    return {name for site, _ in found for name in site.node.output}


def _is_removed(node: NodeProto, graph: GraphIndex, types: Types) -> bool:
    """Tell whether the runtime optimizers remove a node before its kernel is looked up.

    They copy nothing, drop nothing, and know the shape of a value with known dimensions.
    """
    name = f"{op_names.canonical_domain(node.domain)}::{node.op_type}"
    if name == "::Shape":
        shape = types.of(protos.Site(node, graph.scope, ""), node.input[0]).shape
        return shape is not None and all(isinstance(size, int) for size in shape)
    if name not in ("::Identity", "::Dropout") or not set(node.output[1:]).isdisjoint(
        [*graph.consumers, *graph.outputs]
    ):
        return False
    read, is_made = node.input[0], node.input[0] in graph.producers
    if node.output[0] not in graph.outputs:
        return is_made or len(node.input) == 1
    # The node before it can give the output, if nothing else reads either of them.
    reads = [*graph.consumers[read], *graph.consumers.get(node.output[0], ())]
    is_free = read not in graph.outputs and len(reads) == 1
    return name == "::Identity" and is_made and is_free


def _written_out(proto: ModelProto, versions: Mapping[str, int]) -> ModelProto:
    """Copy a model without its weights and with all calls written out."""
    copy = model_files.without_weights(proto).proto
    if proto.functions:
        # A node keeps its number in the original while it is moved.
        for number, site in enumerate(protos.walk(copy)):
            site.node.metadata_props.add(key=_PLACE, value=str(number))
        for scope in (copy.graph, *copy.functions):
            GraphIndex.sort_nodes(scope)
    called = []
    for function in copy.functions:
        if op_names.canonical_domain(function.domain) not in _ONNX:
            called.append(FunctionProto.FromString(function.SerializeToString()))
    for target in (copy, *called):
        # The runtime puts a function's nodes into the graph, where the versions that
        # the model imports hold.
        merged = protos.imported_versions(target) | dict(versions)
        del target.opset_import[:]
        target.opset_import.extend(helper.make_opsetid(*entry) for entry in merged.items())
    del copy.functions[:]
    copy.functions.extend(called)
    if called:
        copy = model_functions.inlined_functions(copy)
        del copy.functions[:]
    return copy


def _place_of(node: NodeProto, number: int) -> int:
    return next((int(e.value) for e in node.metadata_props if e.key == _PLACE), number)


class _KindsByName(dict[str, str | None]):
    """The types of a graph's values as the runtime writes them, and "" for an empty name."""

    def __init__(self, types: Types, scope: GraphProto | FunctionProto) -> None:
        super().__init__({"": ""})
        self.find = partial(types.find, scope)

    def __missing__(self, name: str) -> str | None:
        proto = self.find(name)
        self[name] = kind = None if proto is None else ort_types.kind_of(proto)
        return kind


class _Judge:
    """Judges whether the runtime can run the nodes of one model."""

    def __init__(self, versions: Mapping[str, int]) -> None:
        self.versions = versions
        self._guesses = _GUESSES
        # Most nodes of a large model are similar, so judgments are cached by all that they depend
        # on.
        self._judgments: dict[Any, Unsupported | None] = {}

    def judge(self, node: NodeProto, kinds: _KindsByName) -> Unsupported | None:
        """Return the reason why the runtime cannot run a node, if there is one."""
        if protos.is_constant(node):
            return None
        inputs = tuple(map(kinds.__getitem__, node.input))
        outputs = tuple(map(kinds.__getitem__, node.output))
        key = _key(node, inputs, outputs)
        if key is None or key not in self._judgments:
            self._judgments[key] = self._judge_node(node, kinds, inputs, outputs)
        return self._judgments[key]

    def _judge_node(
        self, node: NodeProto, kinds: _KindsByName, inputs: Kinds, outputs: Kinds
    ) -> Unsupported | None:
        domain = op_names.canonical_domain(node.domain)
        is_op = registry.find(domain, node.op_type) is not None
        if is_op or node.op_type == _RETIRED or domain.startswith(markers.PREFIX):
            return None
        newest = ort_capabilities.newest_version(domain)
        # The runtime adds an import of its own domains.
        version = self.versions.get(domain, newest)
        if newest is None or version is None:
            return self._unknown(node, domain, version)
        if version > newest:
            since = opset_versions.changed_in(domain, node.op_type, version, newest)
            if since is not None:
                name = domain or "ai.onnx"
                reason = f"it changed in version {since}; the runtime takes {name} up to {newest}"
                return Unsupported("opset too new", reason, since)
            version = newest
        operator = ort_capabilities.operator_at(domain, node.op_type, version)
        if operator is None:
            return self._unknown(node, domain, version)
        refusal = _refusal(node, operator, inputs, outputs)
        if refusal is not None:
            return refusal
        if has_kernel(operator, inputs, outputs):
            return _try_kernel(node, kinds, operator, version)
        # The runtime computes float16 in float32 if it has no float16 kernel.
        if "tensor(float16)" in inputs:
            widened = float16_as_float32(inputs), float16_as_float32(outputs)
            if has_kernel(operator, *widened):
                return None
        unserved = unserved_types(operator, inputs, outputs)
        types = [kinds.find(name) or TypeProto() for name in node.input]
        return self._expand(node, types, operator, version, unserved)

    def _expand(
        self,
        node: NodeProto,
        types: Sequence[TypeProto],
        operator: ort_capabilities.Operator,
        version: int,
        unserved: str | None,
    ) -> Unsupported | None:
        """Judge a node without a kernel by the function that ONNX defines it by."""
        label = "no kernel"
        if unserved:
            label = "no kernel for dtype"
        schema = onnx_schemas.find_schema(operator.domain, node.op_type, operator.since)
        # An installed onnx that is older than the runtime has another operator under this name.
        body = None
        if schema is not None and schema.since_version == operator.since:
            body = _function_in_runtime(node, schema, types, version)
        if body is None:
            reason = unserved or f"version {operator.since} has no kernel for any dtype"
            return Unsupported(label, reason, operator.since, kernel=True)
        model = model_of_call(node, schema, body, types, self.versions)
        inner = lacks(model, ())
        if not inner:
            return None
        inner_site, first = inner[0]
        needs = (
            f"the function in its place needs {protos.full_name(inner_site.node)}: {first.reason}"
        )
        reason = f"{unserved or 'it has no kernel'}, and {needs}"
        return Unsupported(
            label if unserved else first.kind,
            reason,
            operator.since,
            kernel=True,
            # The runtime has written the function out, and names the node inside.
            said=inner_site.node.op_type,
        )

    def _unknown(self, node: NodeProto, domain: str, version: int | None) -> Unsupported:
        """Say which part is unknown to the runtime: the domain, the operator, or its version."""
        name = sanitize(protos.full_name(node))
        self._guesses -= 1
        versions = ort_capabilities.operators().get((domain, node.op_type))
        if versions:
            since = versions[0].since
            reason = f"it came in version {since}; the model imports {version}"
            return Unsupported("unknown op", reason, since)
        kind, reason = "unknown op", f"the runtime has no {name}"
        if domain not in ort_capabilities.schema_domains():
            kind = "unknown domain"
            reason = (
                f"the runtime has no domain {sanitize(domain)}, and no op of the registry is {name}"
            )
        # Where the catalog knows the operator, its name is no mistake.
        is_known = node_entry(node) is not None or find_refusal(protos.full_name(node)) is not None
        nearest = (
            None if is_known or self._guesses < 0 else model_faults.nearest_op(domain, node.op_type)
        )
        if nearest is not None:
            reason = f"{reason}; nearest: {sanitize('::'.join(nearest))}"
        return Unsupported(kind, reason)


def _key(node: NodeProto, inputs: Kinds, outputs: Kinds) -> Any:
    """Make a dictionary key of all that a judgment depends on; None where that would be large."""
    # Most nodes have no attribute, and an empty Python list is quicker to look through.
    attributes = node.attribute or ()
    if node.op_type in _BY_SHAPE or any(attribute.type in _LARGE for attribute in attributes):
        return None
    attrs = tuple([attribute.SerializeToString() for attribute in attributes])
    return node.domain, node.op_type, inputs, outputs, attrs


def _try_kernel(
    node: NodeProto, kinds: _KindsByName, operator: ort_capabilities.Operator, version: int
) -> Unsupported | None:
    """Make a node's kernel where it may refuse attributes, or need another machine."""
    if operator.domain or node.op_type not in _CHOOSY or not node.input:
        return None
    if node.op_type in ("GRU", "LSTM") and kinds[node.input[0]] == "tensor(double)":
        reason = "its kernel takes float64, and refuses it in each run"
        return Unsupported("no kernel for dtype", reason, operator.since, kernel=True)
    types = [kinds.find(name) or TypeProto() for name in node.input]
    said = ort_capabilities.kernel_refusal(node, types, version)
    if not said:
        return None
    reason = f"its kernel refuses it: {sanitize(said.rstrip('. '))}"
    return Unsupported("no kernel", reason, operator.since, kernel=True, said=said)


def _function_in_runtime(
    node: NodeProto, schema: Any, types: Sequence[TypeProto], version: int
) -> FunctionProto | None:
    """Return the function that the runtime would inline for a node; None where there is none."""
    defined = function_of(schema, node, types, version)
    if defined is None:
        return None
    body, since = defined
    # As in the runtime: a function written for one version is valid in a later one while none of
    # its operators changed.
    for inner in body.node:
        is_same = ort_capabilities.operator_at(
            "", inner.op_type, since
        ) is ort_capabilities.operator_at("", inner.op_type, version)
        if not is_same and not schema.has_context_dependent_function:
            return None
    return body


# ---- one node ------------------------------------------------------------------------------------


def _refusal(
    node: NodeProto, operator: ort_capabilities.Operator, kinds: Kinds, outputs: Kinds
) -> Unsupported | None:
    """Say why the runtime refuses a node before it looks for a kernel."""
    since = operator.since
    if operator.deprecated:
        reason = f"it was taken out of {operator.domain or 'ai.onnx'} in version {since}"
        return Unsupported("unknown op", reason, since)
    refused = _refused_attr(node, operator)
    if refused is not None:
        return refused
    wrong = type_mismatch(operator, kinds, outputs)
    if wrong:
        return Unsupported("no kernel for dtype", wrong, since)
    mixed = _mixed_types(operator, kinds)
    return Unsupported(MIXED, mixed, since) if mixed else None


def _refused_attr(node: NodeProto, operator: ort_capabilities.Operator) -> Unsupported | None:
    """Report an attribute that the operator does not have, or has only in a newer version."""
    # The runtime lets names of its own pass.
    unknown = [
        attribute.name
        for attribute in node.attribute
        if attribute.name not in operator.attributes and not attribute.name.startswith("__")
    ]
    if not unknown or (operator.domain not in _ONNX and node.op_type in _UNCHECKED):
        return None
    newest = onnx_schemas.find_schema(operator.domain, node.op_type)
    if newest is not None and newest.since_version > operator.since:
        for name in unknown:
            if name in newest.attributes:
                reason = (
                    f"attr {sanitize(name)} is newer than the runtime's version "
                    f"{operator.since} of it"
                )
                return Unsupported("opset too new", reason, int(newest.since_version))
    if (
        operator.domain in _ONNX
        and onnx_schemas.find_schema(operator.domain, node.op_type, operator.since) is None
    ):
        return None
    reason = f"attr {sanitize(unknown[0])} is none that version {operator.since} of it has"
    return Unsupported(WRONG_ATTR, reason, operator.since)


def _mixed_types(operator: ort_capabilities.Operator, kinds: Kinds) -> str:
    """Say which two inputs of one type variable have different types; empty where none have."""
    first: dict[str, tuple[str, str]] = {}
    for number, input_type in enumerate(kinds):
        port = ort_capabilities.port_at(operator.inputs, number)
        if not input_type or port is None or (port.variadic and not port.homogeneous):
            continue
        name, expected = first.setdefault(port.type, (port.name, input_type))
        if expected != input_type:
            pair = (
                f"{name} is {ort_types.to_notation(expected)} "
                f"and {port.name} is {ort_types.to_notation(input_type)}"
            )
            return f"{pair}; the operator takes one type for both"
    return ""


def _runnable_versions(
    proto: ModelProto, new: Iterable[opset_versions.NewImport]
) -> dict[str, int]:
    """Return the versions that a session uses for the domains that a model imports.

    An import that is too new is lowered if all of its nodes mean the same in the older version.

    Parameters
    ----------
    new : iterable of NewImport
        Its `new_imports`.

    Returns
    -------
    dict of str to int
        By domain.
    """
    # Keep the entries, as protobuf makes new objects where none is left.
    entries = list(proto.opset_import)
    ids = set(map(id, entries))
    versions = protos.imported_versions(proto)
    for new_import in new:
        if id(new_import.entry) in ids and not new_import.changed():
            versions[new_import.domain] = new_import.newest
    return versions
