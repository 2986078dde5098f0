"""Plan which nodes of a session's model run through which ops.

They are checked before ONNX Runtime sees the model.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from onnx import GraphProto, ModelProto, NodeProto

from pyopnb.engine.models.markers import NumberedNode
from pyopnb.engine.models.protos import (
    Site,
    attribute_values,
    bodies,
    declared_outputs,
    input_types,
    linked_attributes,
    walk,
)
from pyopnb.engine.ops.dtypes import DType, dtype
from pyopnb.engine.ops.op import Op
from pyopnb.engine.ops.op_schema import Schema
from pyopnb.engine.ops.op_sources import OpSource
from pyopnb.engine.ops.registry import registry
from pyopnb.engine.ops.types import ANY, TensorType
from pyopnb.engine.runtime import legacy_pyop
from pyopnb.engine.runtime.legacy_pyop import LegacySpec
from pyopnb.engine.runtime.settings import Settings
from pyopnb.errors import ModelError

__all__ = [
    "HALF",
    "Plan",
    "PlannedNode",
    "fixed_elements",
    "is_op",
    "planned_nodes",
]


HALF = dtype("float16")


@dataclass(eq=False)
class PlannedNode:
    """A node that a session runs through an op."""

    op: Op
    numbered: NumberedNode
    values: dict[str, Any]
    linked: dict[str, Any]
    where: str
    legacy: LegacySpec | None = None
    # Places of the inputs that the file declares as scalars.
    scalars: frozenset[int] = frozenset()
    # Instances for the kernel, by version: from another session, or made for infer.
    instances: dict[int, object] = field(default_factory=dict)
    # Makes the object whose ``compute`` is called in place of an instance's method.
    wrap: Callable[[object, str], object] | None = None
    # The place among the nodes of the plan; for a tap, it is never used.
    number: int = -1

    @property
    def outputs(self) -> int:
        return len(self.numbered.site.node.output)

    @property
    def fixed(self) -> tuple[int, ...]:
        """Return the element types that the op type declares, 0 for an output without one."""
        declared = self.numbered.fixed[: self.outputs]
        return declared + (0,) * (self.outputs - len(declared))

    @fixed.setter
    def fixed(self, elements: tuple[int, ...]) -> None:
        self.numbered.fixed = elements

    @property
    def label(self) -> str:
        """Return the node's name, or the name of its first output."""
        node = self.numbered.site.node
        return str(node.name or next(filter(None, node.output), ""))


@dataclass(eq=False)
class Plan:
    """The nodes of one session, and the kernels that ONNX Runtime made of them."""

    nodes: list[PlannedNode]
    epoch: int
    settings: Settings
    # Dtypes that are to be fixed, by node and output.
    wanted: dict[int, dict[int, DType]] = field(default_factory=dict)
    # The kernels that ONNX Runtime made of the nodes, as long as it has them.
    kernels: weakref.WeakSet[Any] = field(default_factory=weakref.WeakSet)
    _inferred: dict[int, tuple[Sequence[TensorType | None], Sequence[DType | None]]] = field(
        default_factory=dict
    )
    # The right dtypes of tensors for which ONNX Runtime has a wrong one, by graph and name.
    _mistaken: dict[tuple[int, str], DType] = field(default_factory=dict)
    _rounds: int = 0

    def want(self, number: int, output: int, element: DType) -> None:
        """Ask for an output dtype that the op type has to declare.

        There is no other way to tell ONNX Runtime.
        """
        self.wanted.setdefault(number, {})[output] = element
        site = self.nodes[number].numbered.site
        # In a function, each call can have other dtypes.
        if isinstance(site.scope, GraphProto):
            self._mistaken[id(site.scope), site.node.output[output]] = element

    def infer(
        self, number: int, given: Sequence[TensorType | None], outputs: Sequence[DType | None]
    ) -> None:
        """Record the types of a node that reads float16.

        Later in the same attempt, ONNX Runtime infers it again with widened types.
        """
        dtypes = [tensor_type.dtype for tensor_type in given if tensor_type]
        if HALF in dtypes:
            self._inferred[number] = given, outputs

    def refuse_widening(self, number: int, given: Sequence[TensorType | None]) -> None:
        """Request float16 if ONNX Runtime runs a node in float32 that was inferred as float16."""
        before, outputs = self._inferred.get(number, ((), ()))
        is_widened = False
        for inferred, now in zip(before, given, strict=False):
            if inferred and now:
                is_widened |= inferred.dtype == HALF and now.dtype != HALF
        if not is_widened:
            return
        fixed = self.nodes[number].fixed
        for output, element in enumerate(outputs):
            if element == HALF and not fixed[output]:
                self.want(number, output, element)

    def corrected(self, number: int, given: Sequence[TensorType | None]) -> list[TensorType | None]:
        """Correct input dtypes that ONNX Runtime gets wrong without a known rank."""
        if not self._mistaken:
            return list(given)
        site = self.nodes[number].numbered.site
        corrected = list(given)
        for slot, (name, tensor_type) in enumerate(zip(site.node.input, given, strict=False)):
            element = self._mistaken.get((id(site.scope), name))
            if tensor_type is not None and element is not None:
                corrected[slot] = replace(tensor_type, dtype=element)
        return corrected

    def learn(self) -> bool:
        """Declare the dtypes that the last build asked for, and tell whether to build again.

        An attempt ends at the first node whose types ONNX Runtime refuses, so nothing is known of
        the nodes after it. Types after a wrong dtype may be wrong and are corrected in the next
        attempt: in the order of the graph, each attempt settles at least one node.
        """
        dtypes, self.wanted = self.wanted, {}
        self._mistaken.clear()
        self._inferred.clear()
        self._rounds += 1
        for number, outputs in dtypes.items():
            node = self.nodes[number]
            fixed = list(node.fixed)
            for output, element in outputs.items():
                if output < len(fixed):
                    fixed[output] = element.runtime
            node.fixed = tuple(fixed)
        return bool(dtypes) and self._rounds <= len(self.nodes) + 1


def fixed_elements(types: Iterable[TensorType]) -> tuple[int, ...]:
    """Return the element types that the op type must declare for outputs of these types.

    0 means that the type of an output need not be declared. While it infers, ONNX Runtime takes an
    element type only together with a shape, and may widen float16 to float32. It gives no custom op
    some of the dtypes that a file can declare.
    """
    elements = []
    for type_ in types:
        must_be_fixed = type_.shape is None or type_.dtype == HALF
        is_carried = type_.dtype is not None and type_.dtype.carried
        elements.append(type_.dtype.runtime if type_.dtype and is_carried and must_be_fixed else 0)
    return tuple(elements)


def is_op(
    proto: ModelProto, modules: frozenset[str], ops: OpSource = registry
) -> Callable[[NodeProto], bool]:
    """Check all retired nodes, and make a function that tells whether a node runs through an op."""
    legacy_sites = [site for site in walk(proto) if _is_legacy(site.node, ops)]
    legacy_pyop.read_nodes(legacy_sites, proto, modules, ops)
    return lambda node: _is_legacy(node, ops) or ops.find(node.domain, node.op_type) is not None


def _is_legacy(node: NodeProto, ops: OpSource) -> bool:
    return node.op_type == legacy_pyop.OP_TYPE and ops.find(node.domain, node.op_type) is None


def planned_nodes(
    proto: ModelProto, modules: frozenset[str], epoch: int, ops: OpSource = registry
) -> list[PlannedNode]:
    """Plan the nodes that run through ops of an epoch, or retired ones through allowed classes.

    Raises
    ------
    ModelError
        A node cannot run because of its domain's version, a dtype, or its text if it is a retired
        one.
    """
    sites = list(walk(proto))
    legacy_sites = [site for site in sites if _is_legacy(site.node, ops)]
    # All retired nodes are checked before the module of any is imported.
    checked = legacy_pyop.read_nodes(legacy_sites, proto, modules, ops)
    legacy_nodes = dict(zip(map(id, legacy_sites), checked, strict=True))
    imports = {entry.domain: entry.version for entry in proto.opset_import}
    planned: list[PlannedNode] = []
    # The types of a scope are read at its first op, because most scopes have no ops.
    scope, types, declared = None, {}, {}
    attr_graphs: set[int] = set()
    for site in sites:
        legacy = legacy_nodes.get(id(site))
        # Nodes in a graph attr of an op are run by that op, if at all.
        if id(site.scope) in attr_graphs:
            attr_graphs.update(map(id, bodies(site.node)))
            continue
        op = ops.find(site.node.domain, site.node.op_type)
        if legacy is not None:
            op = legacy_pyop.op_for(legacy, ops)
        if op is None:
            continue
        attr_graphs.update(map(id, bodies(site.node)))
        if site.scope is not scope:
            scope = site.scope
            types, declared = input_types(scope), declared_outputs(scope)
        _refuse_uncarried(site, types, site.where)
        _refuse_older(op, op.at(epoch).opset, imports.get(site.node.domain), site.where)
        outputs = tuple([declared.get(name, ANY) for name in site.node.output])
        numbered = NumberedNode(site, site.node.domain, site.node.op_type, declared=outputs)
        node = PlannedNode(
            op,
            numbered,
            attribute_values(site.node, proto, site.where) if legacy is None else legacy.attrs,
            linked_attributes(site.node),
            site.where,
            None if legacy is None else legacy.legacy,
            number=len(planned),
        )
        # While it infers, ONNX Runtime shows an unknown rank as a scalar's: only the file
        # tells which is which.
        scalars = []
        for number, name in enumerate(site.node.input):
            if types.get(name, ANY).shape == ():
                scalars.append(number)
        node.scalars = frozenset(scalars)
        _fix_dtypes(node, op.at(epoch).schema)
        planned.append(node)
    return planned


def _fix_dtypes(node: PlannedNode, schema: Schema) -> None:
    """Declare the dtypes of outputs that ONNX Runtime cannot be told while it infers."""
    if node.legacy is not None:
        node.fixed = tuple([t.dtype.runtime for t in node.legacy.outputs if t.dtype])
        return
    node.fixed = fixed_elements(schema.outputs or ())
    by_file = fixed_elements(node.numbered.declared)
    # The op's types take precedence over the file's.
    node.fixed = tuple([a or b for a, b in zip(node.fixed, by_file, strict=True)])


def _refuse_older(op: Op, opset: int, imported: int | None, where: str) -> None:
    if imported is not None and imported < opset:
        raise ModelError(
            where,
            expected=f"domain {op.domain} from version {opset} on, "
            f"as {op.name} was defined with --opset",
            got=f"version {imported} imported",
            next=f"import version {opset} in the model, or define an op for version {imported}",
        )


def _refuse_uncarried(site: Site, types: Mapping[str, TensorType], where: str) -> None:
    """Raise for an input dtype that custom ops cannot have; the ONNX Runtime message is worse."""
    for name in site.node.input:
        tensor_type = types.get(name, ANY)
        if tensor_type.dtype is not None and not tensor_type.dtype.carried:
            raise ModelError(
                f"{where}, input {name}",
                expected="a dtype that ONNX Runtime gives to custom ops",
                got=str(tensor_type),
                next="put a Cast before the node, where ONNX has one",
            )
