"""Copy a model for Netron: without large weights, and with unique node names for clicks."""

from __future__ import annotations

from dataclasses import dataclass

from onnx import ModelProto, NodeProto, TensorProto
from onnx.helper import make_attribute

from pyopnb.common import plural
from pyopnb.engine import model_files, op_names, protos

__all__ = ["Trimmed", "trim"]

# A larger tensor or attribute loses its values, and so do all others after _MOST_KEPT tensors.
_MOST_BYTES, _MOST_ATTRIBUTE, _MOST_KEPT = 1024, 16 * 1024, 64


@dataclass(frozen=True)
class Trimmed:
    """A model to show.

    Attributes
    ----------
    proto : ModelProto
        A copy.
    nodes : dict
        The nodes of the original by their names in the copy.
    left_out : int
        How many tensors and attributes lost their values.
    """

    proto: ModelProto
    nodes: dict[str, NodeProto]
    left_out: int

    @property
    def note(self) -> str:
        """Say what was left out; empty if nothing was."""
        if not self.left_out:
            return ""
        return f"{plural(self.left_out, 'large or external value')} left out of this view"


def trim(model: ModelProto) -> Trimmed:
    """Copy a model to show it; the model is not changed, and its external data is not read."""
    proto = model_files.without_weights(model).proto
    proto.ClearField("training_info")
    proto.ClearField("metadata_props")
    left_out = 0
    for number, tensor in enumerate(sorted(protos.tensors(proto), key=TensorProto.ByteSize)):
        is_external = tensor.data_location == TensorProto.EXTERNAL or bool(tensor.external_data)
        if is_external or tensor.ByteSize() > _MOST_BYTES or number >= _MOST_KEPT:
            left_out += 1
            empty = TensorProto(name=tensor.name, data_type=tensor.data_type, dims=tensor.dims)
            tensor.CopyFrom(empty)
    for site in protos.walk(proto):
        site.node.doc_string = site.node.doc_string[:_MOST_ATTRIBUTE]
        for attribute in site.node.attribute:
            # Such as the trees of a forest, or an engine as text; bodies have large
            # nodes, not large values.
            is_body = attribute.HasField("g") or attribute.graphs
            if attribute.ByteSize() > _MOST_ATTRIBUTE and not is_body:
                left_out += 1
                attribute.CopyFrom(make_attribute(attribute.name, "left out of this view"))
    return Trimmed(proto, _name_nodes(model, proto), left_out)


def _name_nodes(model: ModelProto, proto: ModelProto) -> dict[str, NodeProto]:
    """Give each node of the copy a unique name; return the original's nodes by these names."""
    originals: dict[str, NodeProto] = {}
    for index, (site, copy) in enumerate(zip(protos.walk(model), protos.walk(proto), strict=True)):
        node = site.node
        name = node.name or f"({node.op_type} of {protos.first_output(node) or index})"
        if name in originals:
            # Two bodies may use the same name, and a hostile model may use it everywhere.
            name = op_names.fresh_name(f"{name} ({index})", originals, "'")
        copy.node.name = name
        originals[name] = node
    return originals
