"""Find the types of a model's values that the file declares or that can be inferred.

This is the inference for a whole model, before there is a session. The ONNX inference does it, with
the registry's ops and the type variables of the runtime operators. For a single node there is
`pyopnb.onnx_reference.operator`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

from onnx import FunctionProto, GraphProto, ModelProto, TypeProto, ValueInfoProto, helper

from pyopnb.common import sanitize
from pyopnb.engine import (
    ANY,
    GraphIndex,
    TensorType,
    model_files,
    model_functions,
    op_inference,
    protos,
)

__all__ = ["Types"]

_FEW_ELEMENTS = 1 << 22
"""Elements of weights that cost less to write with a model than the model to copy without them."""


class Types:
    """Declared and inferred types of all values, without a copy of the weights.

    Parameters
    ----------
    proto : ModelProto
        As it is now; later changes are not looked at.
    limit : int, optional
        Nodes of a model, with all calls of functions written out, above which only the
        declared types count.

    Attributes
    ----------
    failure : str
        Why nothing could be inferred; empty where it could.
    graphs : list of GraphIndex
        The main graph and the functions, each before the bodies in it.
    """

    def __init__(self, proto: ModelProto, *, limit: int | None = None) -> None:
        self.failure = ""
        self.graphs: list[GraphIndex] = []
        for scope in (proto.graph, *proto.functions):
            self.graphs += GraphIndex(scope).walk()
        self._indexes = {id(graph.scope): graph for graph in self.graphs}
        self._types = {key: _declared(graph.scope) for key, graph in self._indexes.items()}
        if limit is not None and sum(len(graph.scope.node) for graph in self.graphs) > limit:
            self.failure = "the model is too large to infer them"
        elif not all(map(self._all_declared, self.graphs)):
            # Inference takes long for a large model, and one with all types declared needs none.
            self._infer(proto, limit)

    def _all_declared(self, graph: GraphIndex) -> bool:
        declared = self._types[id(graph.scope)]
        # onnx infers nothing inside a function
        return isinstance(graph.scope, FunctionProto) or all(
            n in declared for node in graph.scope.node for n in node.output if n
        )

    def _infer(self, proto: ModelProto, limit: int | None) -> None:
        try:
            if (
                limit is not None
                and proto.functions
                and model_functions.expansion(proto).nodes > limit
            ):
                self.failure = (
                    "with all calls of functions written out the model is too large to infer them"
                )
                return
            inferred = op_inference.infer_types(self._sorted_copy(proto))
        except Exception as error:
            # An op's own infer may raise anything, and a model that onnx does not understand can be
            # one that the runtime does: the types in the file are still known, and the display says
            # why there are no more.
            self.failure = sanitize(error)
            return
        twins: dict[int, GraphProto | FunctionProto] = {id(proto.graph): inferred.graph}
        twins |= zip(map(id, proto.functions), inferred.functions, strict=True)
        for graph in self.graphs:
            twin = twins[id(graph.scope)]
            inferred_types = _infos(twin.value_info)
            if isinstance(twin, GraphProto):
                inferred_types |= _infos((*twin.input, *twin.output))
            # The types of weights are known, and to make them again takes long.
            for name in graph.initializers:
                inferred_types.pop(name, None)
            self._types[id(graph.scope)] |= inferred_types
            order = graph.order if graph.bodies else ()
            places = {index: place for place, index in enumerate(order)}
            for index, bodies in graph.bodies.items():
                twin_bodies = protos.named_bodies(twin.node[places[index]])
                for (_, body), (_, twin_body) in zip(bodies, twin_bodies, strict=True):
                    twins[id(body.scope)] = twin_body

    def _sorted_copy(self, proto: ModelProto) -> ModelProto:
        """Return a model that onnx can infer, with its nodes in order and without large weights.

        onnx serializes the model, and weights can be too large for that.
        """
        is_sorted = all(isinstance(graph.order, range) for graph in self.graphs)
        elements = sum(math.prod(tensor.dims) for tensor in proto.graph.initializer)
        if is_sorted and elements <= _FEW_ELEMENTS:
            return proto
        copy = model_files.without_weights(proto).proto
        for scope in (copy.graph, *copy.functions):
            GraphIndex.sort_nodes(scope)
        return copy

    def find(self, scope: GraphProto | FunctionProto, name: str) -> TypeProto | None:
        """Return the type of a value in a graph, body or function; None where it is unknown."""
        graph: GraphIndex | None = self._indexes[id(scope)]
        while graph is not None:
            types = self._types[id(graph.scope)]
            if name in types or graph.defines(name):
                return types.get(name)
            graph = graph.outer
        return None

    def carried(self, scope: GraphProto | FunctionProto, name: str) -> bool | None:
        """Tell whether ONNX Runtime gives a value to custom ops; None where its type is unknown."""
        proto_type = self.find(scope, name)
        if proto_type is None or proto_type.WhichOneof("value") is None:
            return None
        return not self.uncarried(scope, name)

    def uncarried(self, scope: GraphProto | FunctionProto, name: str) -> str:
        """Return the type of a value if ONNX Runtime gives that type to no custom op.

        It is empty for other types, and where the type is unknown.
        """
        proto_type = self.find(scope, name)
        kind = None if proto_type is None else proto_type.WhichOneof("value")
        if proto_type is None or kind is None:
            return ""
        if kind != "tensor_type":
            return str(kind).removesuffix("_type")
        tensor_type = protos.type_of_proto(proto_type)
        is_carried = tensor_type.dtype is None or tensor_type.dtype.carried
        return "" if is_carried else str(tensor_type)

    def of(self, site: protos.Site, name: str) -> TensorType:
        """Return the type of a value that a node reads or produces.

        It is ``any[...]`` where it is unknown or not a tensor's.
        """
        proto_type = self.find(site.scope, name)
        if proto_type is None:
            return ANY
        return protos.type_of_proto(proto_type)


def _declared(scope: GraphProto | FunctionProto) -> dict[str, TypeProto]:
    types = _infos(scope.value_info)
    if isinstance(scope, GraphProto):
        # Large models have many weights of few types.
        made: dict[tuple[int, ...], TypeProto] = {}
        for tensor in scope.initializer:
            key = (tensor.data_type, *tensor.dims)
            if key not in made:
                made[key] = helper.make_tensor_type_proto(tensor.data_type, list(tensor.dims))
            types[tensor.name] = made[key]
        types |= _infos((*scope.input, *scope.output))
    return types


def _infos(infos: Iterable[ValueInfoProto]) -> dict[str, TypeProto]:
    return {info.name: info.type for info in infos if info.HasField("type")}
