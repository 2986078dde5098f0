"""The copy that is shown: no weights, names for clicks, and the original as it was."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

import pyopnb
from pyopnb.display.netron_page.trim import trim


def model_of(nodes, initializers=(), **more):
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N"])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        list(initializers),
    )
    return helper.make_model(graph, **more)


def weights(shape, name="w"):
    return numpy_helper.from_array(np.ones(shape, np.float32), name)


def test_large_weights_leave_and_small_ones_stay():
    model = model_of(
        [helper.make_node("Sum", ["x", "w", "v"], ["y"])], [weights((512, 512)), weights((4,), "v")]
    )
    before = model.SerializeToString(deterministic=True)
    copy = trim(model)
    w, v = copy.proto.graph.initializer
    assert (list(w.dims), w.data_type, len(w.raw_data)) == ([512, 512], TensorProto.FLOAT, 0)
    assert numpy_helper.to_array(v).tolist() == [1, 1, 1, 1]
    assert copy.note == "1 large or external value left out of this view"
    assert len(copy.proto.SerializeToString()) < 500
    assert model.SerializeToString(deterministic=True) == before


@pytest.mark.parametrize(
    "tensor",
    [
        helper.make_tensor("t", TensorProto.FLOAT, [4096], [0.5] * 4096),
        helper.make_tensor("t", TensorProto.INT64, [4096], [7] * 4096),
        helper.make_tensor("t", TensorProto.DOUBLE, [4096], [0.5] * 4096),
        helper.make_tensor("t", TensorProto.UINT64, [4096], [7] * 4096),
        helper.make_tensor("t", TensorProto.FLOAT16, [4096], [0.5] * 4096),
        helper.make_tensor("t", TensorProto.STRING, [4096], [b"text"] * 4096),
    ],
    ids=lambda tensor: TensorProto.DataType.Name(tensor.data_type),
)
@pytest.mark.parametrize("place", ["initializer", "attribute", "body"])
def test_data_of_any_kind_and_place(tensor, place):
    constant = helper.make_node("Constant", [], ["c"], value=tensor)
    if place == "initializer":
        model = model_of([helper.make_node("Neg", ["x"], ["y"])], [tensor])
    elif place == "attribute":
        model = model_of([constant, helper.make_node("Neg", ["x"], ["y"])])
    else:
        body = helper.make_graph(
            [constant], "body", [], [helper.make_tensor_value_info("c", TensorProto.FLOAT, None)]
        )
        model = model_of([helper.make_node("If", ["x"], ["y"], then_branch=body, else_branch=body)])
    copy = trim(model)
    assert copy.left_out == (2 if place == "body" else 1)
    assert len(copy.proto.SerializeToString()) < 1000


def test_external_data_is_not_looked_for(tmp_path):
    tensor = TensorProto(
        name="w", data_type=TensorProto.FLOAT, dims=[1000, 1000], data_location=TensorProto.EXTERNAL
    )
    tensor.external_data.add(key="location", value="/etc/passwd")
    model = model_of([helper.make_node("Neg", ["x"], ["y"])], [tensor])
    copy = trim(model)
    assert b"passwd" not in copy.proto.SerializeToString()
    assert copy.note == "1 large or external value left out of this view"


def test_long_attributes_and_texts():
    node = helper.make_node(
        "Trees",
        ["x"],
        ["y"],
        domain="d",
        floats=[0.5] * 5000,
        blob=b"e" * 10**6,
        ints=[1, 2],
        doc_string="d" * 10**6,
    )
    model = model_of([node])
    model.metadata_props.add(key="k", value="v" * 10**6)
    copy = trim(model)
    values = {a.name: helper.get_attribute_value(a) for a in copy.proto.graph.node[0].attribute}
    assert values == {
        "floats": b"left out of this view",
        "blob": b"left out of this view",
        "ints": [1, 2],
    }
    assert copy.left_out == 2
    assert len(copy.proto.SerializeToString()) < 40_000


def test_every_node_has_a_name_of_its_own_that_leads_to_the_original():
    model = pyopnb.parse(
        "(float[N] x) => (float[N] y) { a = Neg(x)  b = Neg(a)  c = Abs(b)  y = Abs(c) }"
    )
    for place, name in enumerate(["twice", "twice", "", "(Abs of c)"]):
        model.graph.node[place].name = name
    copy = trim(model)
    names = [node.name for node in copy.proto.graph.node]
    assert names == ["twice", "twice (1)", "(Abs of c)", "(Abs of c) (3)"]
    assert [copy.nodes[name] for name in names] == list(model.graph.node)
    assert all(copy.nodes[name] is node for name, node in zip(names, model.graph.node, strict=True))
    assert [node.name for node in model.graph.node] == ["twice", "twice", "", "(Abs of c)"]
