"""The walk that forgets no place."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import helper

import pyopnb
from pyopnb.models.nodes import attribute_values, walk
from pyopnb.models.tensors import tensors


def body(*nodes: onnx.NodeProto, **more: object) -> onnx.GraphProto:
    return helper.make_graph(list(nodes), "b", [], [], **more)


def everywhere() -> onnx.ModelProto:
    deep = body(pyopnb.node("d::Deep", "x", "z"))
    listed = pyopnb.node("d::Holder", "x", "l", name="list", graphs=[deep, deep])
    single = pyopnb.node(
        "If",
        "c",
        "y",
        name="if",
        then_branch=body(listed),
        else_branch=body(pyopnb.node("d::Else", "x", "e")),
    )
    inner = pyopnb.node("Loop", "u", "v", body=body(pyopnb.node("d::InLoop", "u", "w")))
    return pyopnb.model(
        [single],
        {"x": "float32", "c": "bool"},
        "y",
        functions=[helper.make_function("f", "F", ["u"], ["v"], [inner], [])],
    )


def test_every_place() -> None:
    found = {(site.node.op_type, site.path) for site in walk(everywhere())}
    assert found == {
        ("If", ""),
        ("Holder", "If 'if', then_branch"),
        ("Else", "If 'if', else_branch"),
        ("Deep", "If 'if', then_branch, Holder 'list', graphs"),
        ("Loop", "function f::F"),
        ("InLoop", "function f::F, Loop 'v', body"),
    }
    assert sum(site.node.op_type == "Deep" for site in walk(everywhere())) == 2


def test_the_deepest_nest_that_protobuf_takes() -> None:
    node = pyopnb.node("d::Bottom", "x", "y")
    for _ in range(30):
        node = pyopnb.node("If", "c", "y", then_branch=body(node))
    made = pyopnb.model([], {}, "")
    made.graph.node.append(node)
    assert sum(1 for _ in walk(made)) == 31


def test_tensors_of_every_place() -> None:
    def named(name: str) -> onnx.TensorProto:
        return onnx.numpy_helper.from_array(np.zeros(1), name)

    inner = body(
        pyopnb.node("d::Op", "x", "z", t=named("attr"), ts=[named("attrs")]),
        initializer=[named("inner")],
    )
    made = pyopnb.model(
        [pyopnb.node("If", "c", "y", then_branch=inner)],
        {"c": "bool[]", "x": "float32"},
        "y",
        initializers={"outer": np.zeros(1)},
    )
    made.graph.sparse_initializer.add(values=named("values"), indices=named("indices"))
    constant = helper.make_node("Constant", [], ["s"])
    sparse = onnx.SparseTensorProto(values=named("sparse"))
    constant.attribute.append(
        onnx.AttributeProto(
            name="sparse_value", type=onnx.AttributeProto.SPARSE_TENSOR, sparse_tensor=sparse
        )
    )
    made.functions.append(helper.make_function("f", "F", [], ["s"], [constant], []))
    names = {t.name for t in tensors(made)}
    assert names >= {"attr", "attrs", "inner", "outer", "values", "indices", "sparse"}


def test_values_of_attributes_that_the_caller_gives_are_left_out() -> None:
    node = pyopnb.node("d::Op", "x", "y", a=1)
    node.attribute.append(
        onnx.AttributeProto(name="b", ref_attr_name="outer", type=onnx.AttributeProto.INT)
    )
    assert attribute_values(node, pyopnb.model([], {}, ""), "here") == {"a": 1}


def test_attributes_that_cannot_be_read() -> None:
    node = pyopnb.node("d::Op", "x", "y")
    node.attribute.append(onnx.AttributeProto(name="a"))
    with pytest.raises(pyopnb.errors.ModelError, match="here, attr a"):
        attribute_values(node, pyopnb.model([], {}, ""), "here")


def test_where_names_a_node_without_a_name_by_its_output() -> None:
    (site,) = walk(pyopnb.model([pyopnb.node("d::Op", "x", ["", "y"])], {"x": "float32"}, "y"))
    assert site.where == "the node of output 'y' (d::Op)"
