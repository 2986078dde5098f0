"""An operator as the nodes of one model use it: its ports with their types, and its attrs."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import onnx
from onnx import AttributeProto, FunctionProto, ModelProto, NodeProto

from pyopnb.errors import ModelError
from pyopnb.models.functions import function_key
from pyopnb.models.index import GraphIndex
from pyopnb.models.io import without_weights
from pyopnb.models.nodes import Site, attribute_values, imported_versions, path_of_function, walk
from pyopnb.models.types import Types
from pyopnb.onnx_reference.literals import attr_hint, identifier, literal
from pyopnb.onnx_reference.operator import has_reference, schema_of_op
from pyopnb.ops.dtypes import DType, dtype
from pyopnb.ops.messages import sanitize
from pyopnb.ops.names import canonical_domain
from pyopnb.ops.types import ANY, TensorType

__all__ = ["OPTION", "TAKEN", "UNKNOWN_SIZE", "AttrUsage", "InputUsage", "OperatorUsage"]

TAKEN = frozenset({"self", "np", "onnx", "pyopnb", "attrs"})
"""Names in use in the cell."""

UNKNOWN_SIZE = re.compile(r"unk__\d+")
"""onnx's names for unknown sizes."""

OPTION = onnx.defs.OpSchema.FormalParameterOption
"""Whether a port is one array, may be absent, or takes all that follow."""

_KINDS = {
    "tensor": "tensor",
    "seq": "sequence",
    "map": "map",
    "optional": "optional",
    "sparse_tensor": "sparse_tensor",
}


@dataclass
class InputUsage:
    """An input as a parameter of ``compute``.

    Attributes
    ----------
    name : str
        An identifier.
    type : TensorType
        What its types at all nodes have in common.
    optional, variadic : bool
    """

    name: str
    type: TensorType
    optional: bool
    variadic: bool


@dataclass
class AttrUsage:
    """An attr as a parameter of ``__init__``.

    Attributes
    ----------
    name : str
        As the nodes have it, so not always an identifier.
    kind : str
        The annotation; empty where it must stay away.
    default : str
        As Python source; empty where there is none.
    remark : str
        A comment.
    """

    name: str
    kind: str
    default: str
    remark: str = ""


class OperatorUsage:
    """An operator as its nodes in one model use it."""

    def __init__(self, proto: ModelProto, site: Site, similar: Sequence[Site]) -> None:
        self.site, self.similar = site, similar
        self.version = _versions(proto, site).get(canonical_domain(site.node.domain))
        self.schema = _schema(site.node, self.version)
        self.types = _PortTypes(proto)
        self._refuse_what_is_no_tensor()
        self.inputs = self._inputs()
        self.outputs = [self._merged(n, inputs=False) for n in range(len(site.node.output))]
        values = [attribute_values(s.node, proto, s.where) for s in similar]
        protos = self._attr_protos()
        names = dict.fromkeys((*protos, *(self.schema.attributes if self.schema else ())))
        self.attrs = [self._attr(name, protos.get(name, []), values) for name in names]
        self.has_reference = self.schema is not None and has_reference(
            site.node, self.schema.since_version
        )

    def _refuse_what_is_no_tensor(self) -> None:
        ports = [
            ("input", *ends)
            for ends in _ports(self.site.node.input, self.schema.inputs if self.schema else ())
        ]
        ports += [
            ("output", *ends)
            for ends in _ports(self.site.node.output, self.schema.outputs if self.schema else ())
        ]
        for end, name, port in ports:
            kind = self.types.kind(self.site, name) or _only_kind(port)
            if kind not in ("", "tensor"):
                raise ModelError(
                    f"skeleton of {self.site.where}, {end} {sanitize(name)}",
                    expected="a tensor, as ONNX Runtime gives an op nothing else",
                    got=f"a value of type {kind}",
                    next='pyopnb.trace(model, feeds, on="reference"), where nodes of ONNX take all of its types',
                )

    def _merged(self, place: int, *, inputs: bool) -> TensorType:
        """What the types of the port have in common at all nodes; `ANY` if nothing."""
        ends = [(s, s.node.input if inputs else s.node.output) for s in self.similar]
        kinds = [
            self.types.of(s, names[place])
            for s, names in ends
            if place < len(names) and names[place]
        ]
        common = _common_type(kinds)
        if inputs or common.dtype or self.schema is None:
            return common
        return common.like(dtype=_only_dtype(self.schema, place))

    def _inputs(self) -> list[InputUsage]:
        node, ports = self.site.node, list(self.schema.inputs) if self.schema else []
        taken = set(TAKEN)
        if not ports:
            count = max(len(s.node.input) for s in self.similar)
            texts = [node.input[n] if n < len(node.input) else "" for n in range(count)]
            lacking = [
                any(n >= len(s.node.input) or not s.node.input[n] for s in self.similar)
                for n in range(count)
            ]
            made = [
                InputUsage(
                    identifier(t, f"x{n}", taken), self._merged(n, inputs=True), lacking[n], False
                )
                for n, t in enumerate(texts)
            ]
        else:
            made = [
                InputUsage(
                    identifier(port.name, f"x{n}", taken),
                    self._rest(n)
                    if port.option == OPTION.Variadic
                    else self._merged(n, inputs=True),
                    port.option == OPTION.Optional,
                    port.option == OPTION.Variadic,
                )
                for n, port in enumerate(ports)
            ]
        for earlier, later in pairwise(made):  # as Python requires
            later.optional |= earlier.optional and not later.variadic
        return made

    def _rest(self, first: int) -> TensorType:
        return _common_type(
            [
                self._merged(n, inputs=True)
                for n in range(first, max(len(s.node.input) for s in self.similar))
            ]
        )

    def _attr_protos(self) -> dict[str, list[AttributeProto]]:
        found: dict[str, list[AttributeProto]] = {}
        for site in self.similar:
            for attribute in site.node.attribute:
                found.setdefault(attribute.name, []).append(attribute)
        return found

    def _attr(
        self, name: str, protos: Sequence[AttributeProto], values: Sequence[Mapping[str, Any]]
    ) -> AttrUsage:
        """Return the node's value, unless another node omits the attr: then the operator's default."""
        known = self.schema.attributes.get(name) if self.schema else None
        kind = known.type.value if known else protos[0].type
        hint = attr_hint(int(kind), [v[name] for v in values if name in v])
        here = values[0]
        everywhere = all(name in v for v in values)
        if name in here and (everywhere or not known):
            return AttrUsage(name, hint, *literal(here[name], int(kind)))
        if any(a.ref_attr_name for a in protos) and not (known and known.default_value.type):
            return AttrUsage(name, hint, "", "from the caller of the function")
        if known and known.default_value.type:
            default = attribute_values(
                NodeProto(attribute=[_renamed(known.default_value, name)]), ModelProto(), "default"
            )
            return AttrUsage(name, hint, *literal(default[name], int(kind)))
        if known and known.required:
            return AttrUsage(name, hint, "")
        return AttrUsage(name, f"{hint} | None" if hint else "", "None")


class _PortTypes:
    """The types of values that hold in every run that ONNX Runtime makes of a model."""

    def __init__(self, proto: ModelProto) -> None:
        self._copy = _without_claims(proto)
        self._declared, self._inferred = Types(proto), Types(self._copy)
        self._twins = {
            id(site.scope): twin.scope
            for site, twin in zip(walk(proto), walk(self._copy), strict=True)
        }
        # Outputs of nodes whose operators onnx knows; of others the declared type is all that is known.
        standard = {
            n for node in proto.graph.node if _schema(node, None) is not None for n in node.output
        }
        self._claimed = standard & {info.name for info in proto.graph.output}
        called = Counter(function_key(site.node) for site in walk(proto))
        self._shared = [
            function for function in proto.functions if called[function_key(function)] != 1
        ]

    def kind(self, site: Site, name: str) -> str:
        """``"tensor"``, ``"sequence"``, ``"map"`` …; empty where nothing is known."""
        twin = self._twins[id(site.scope)]
        for found in (self._declared.find(site.scope, name), self._inferred.find(twin, name)):
            if found is not None and found.WhichOneof("value"):
                return str(found.WhichOneof("value")).removesuffix("_type")
        return ""

    def of(self, site: Site, name: str) -> TensorType:
        """The type of a value at a node; ``any[...]`` in a function that several nodes call, each with types of its own."""
        if any(_holds(function, site) for function in self._shared):
            return ANY
        declared = self._declared.of(site, name)
        inferred = self._inferred.of(replace(site, scope=self._twins[id(site.scope)]), name)
        if inferred.shape is None and name in self._claimed and declared.shape is not None:
            return TensorType(
                declared.dtype,
                tuple(None if isinstance(dim, int) else dim for dim in declared.shape),
            )
        return _tolerated(declared, inferred)


def _without_claims(proto: ModelProto) -> ModelProto:
    """Return a copy that declares shapes only of what a run is fed and of what onnx cannot infer.

    ONNX Runtime warns of a wrong shape of an output, and goes on.
    """
    copy = without_weights(proto).proto
    for graph in GraphIndex(copy.graph).walk():
        scope = graph.scope
        known = [node for node in scope.node if _schema(node, None) is not None]
        inferable = {name for node in known for name in node.output}
        for info in scope.output:
            if info.name in inferable:
                info.ClearField("type")
        kept = [info for info in scope.value_info if info.name not in inferable]
        del scope.value_info[:]
        scope.value_info.extend(kept)
    return copy


def _tolerated(declared: TensorType, inferred: TensorType) -> TensorType:
    """What is certain of a type: a size that is declared where onnx infers none was true when the model was exported."""
    if inferred.shape is None:
        return declared if declared.dtype or declared.shape is not None else inferred
    shape = declared.shape
    if shape is None or len(shape) != len(inferred.shape):
        return TensorType(inferred.dtype or declared.dtype, inferred.shape)
    named = [
        i is not None and not (isinstance(i, str) and UNKNOWN_SIZE.fullmatch(i))
        for i in inferred.shape
    ]
    dims = [
        i if n else d if isinstance(d, str) else None
        for d, i, n in zip(shape, inferred.shape, named, strict=True)
    ]
    return TensorType(inferred.dtype or declared.dtype, tuple(dims))


def _ports(names: Sequence[str], formal: Sequence[Any]) -> Iterator[tuple[str, Any]]:
    """Each value that a node names, and what its operator says of it; the last of the operator's ports may be several."""
    for place, name in enumerate(names):
        if name:
            yield name, formal[min(place, len(formal) - 1)] if formal else None


def _only_kind(port: Any) -> str:
    """Return the kind of value of a port that takes one kind alone; empty where it takes several."""
    kinds = (
        {_KINDS.get(text.partition("(")[0], "") for text in port.types}
        if port is not None
        else set()
    )
    return kinds.pop() if len(kinds) == 1 else ""


def _only_dtype(schema: Any, place: int) -> DType | None:
    """The dtype that an output has in all nodes of its operator, whatever the inputs have; None where there are several."""
    port = schema.outputs[min(place, len(schema.outputs) - 1)] if schema.outputs else None
    if (
        port is None
        or len(port.types) != 1
        or port.type_str in {given.type_str for given in schema.inputs}
    ):
        return None
    match = re.fullmatch(r"tensor\((\w+)\)", next(iter(port.types)))
    return dtype(match[1]) if match else None


def _versions(proto: ModelProto, site: Site) -> dict[str, int]:
    return imported_versions(proto, *(f for f in proto.functions if _holds(f, site)))


def _holds(function: FunctionProto, site: Site) -> bool:
    return site.scope is function or site.path.startswith(f"{path_of_function(function)},")


def _schema(node: NodeProto, version: int | None) -> Any:
    try:
        return schema_of_op(canonical_domain(node.domain), node.op_type, version)
    except (ModelError, OverflowError, TypeError):  # the numbers of a file can be of any size
        return None


def _renamed(attribute: AttributeProto, name: str) -> AttributeProto:
    named = AttributeProto()
    named.CopyFrom(attribute)
    named.name = name
    return named


def _common_type(kinds: Iterable[TensorType]) -> TensorType:
    """What these types have in common."""
    met: TensorType | None = None
    for kind in kinds:
        met = kind if met is None else _meet(met, kind)
    return met or ANY


def _meet(a: TensorType, b: TensorType) -> TensorType:
    shape = None
    if a.shape is not None and b.shape is not None and len(a.shape) == len(b.shape):
        shape = tuple(m if m == n else None for m, n in zip(a.shape, b.shape, strict=True))
    return TensorType(a.dtype if a.dtype == b.dtype else None, shape)
