"""What is known of the types of a model's values before a session is: what the file declares, and what onnx infers from it."""

from __future__ import annotations

import onnx.shape_inference
from onnx import FunctionProto, GraphProto, ModelProto, TensorProto, ValueInfoProto, helper

from pyopnb.models.io import without_weights
from pyopnb.models.nodes import Site, type_of_proto, walk
from pyopnb.ops.types import ANY, TensorType

__all__ = ["Types"]


class Types:
    """Declared and inferred types of all values, without a copy of the weights.

    Parameters
    ----------
    proto : ModelProto
        As it is now; later changes are not looked at.
    """

    def __init__(self, proto: ModelProto) -> None:
        self._scopes: list[tuple[GraphProto | FunctionProto, dict[str, ValueInfoProto]]] = []
        pairs = zip(_scopes(proto), _scopes(_inferred(proto)), strict=True)
        for scope, inferred in pairs:
            self._scopes.append((scope, {**_infos(inferred), **_infos(scope)}))
        self._by_id = {id(scope): infos for scope, infos in self._scopes}
        self._outer = self._scopes[0][1]

    def info(self, site: Site, name: str) -> ValueInfoProto | None:
        """What is known of a value that a node takes or gives."""
        own = self._by_id[id(site.scope)].get(name)
        if own is None and isinstance(site.scope, GraphProto) and not site.path.startswith("function "):
            return self._outer.get(name)  # a body sees the names of the main graph
        return own

    def of(self, site: Site, name: str) -> TensorType:
        """The type of a value that a node takes or gives; ``any[...]`` where it is not known, or no tensor."""
        info = self.info(site, name)
        return ANY if info is None else type_of_proto(info.type)


def _scopes(proto: ModelProto) -> list[GraphProto | FunctionProto]:
    found: list[GraphProto | FunctionProto] = [proto.graph, *proto.functions]
    for site in walk(proto):
        for attribute in site.node.attribute:
            found += [attribute.g] if attribute.HasField("g") else attribute.graphs
    return found


def _infos(scope: GraphProto | FunctionProto) -> dict[str, ValueInfoProto]:
    infos = {info.name: info for info in getattr(scope, "value_info", ())}
    if isinstance(scope, GraphProto):
        infos |= {t.name: _of_tensor(t) for t in scope.initializer}
        infos |= {info.name: info for info in (*scope.input, *scope.output) if info.HasField("type")}
    return infos


def _of_tensor(tensor: TensorProto) -> ValueInfoProto:
    return helper.make_tensor_value_info(tensor.name, tensor.data_type, list(tensor.dims))


def _inferred(proto: ModelProto) -> ModelProto:
    known = without_weights(proto).proto
    try:
        return onnx.shape_inference.infer_shapes(known)
    except (RuntimeError, ValueError, onnx.shape_inference.InferenceError):
        # A model that onnx does not understand can be one that the runtime does; what the file declares is still known.
        return known
