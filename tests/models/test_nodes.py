"""The walk that forgets no place."""

from __future__ import annotations

import onnx
import pytest
from onnx import helper

import pyopnb
from pyopnb.engine.models.protos import attribute_values, walk


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


def test_attributes_that_cannot_be_read() -> None:
    node = pyopnb.node("d::Op", "x", "y")
    node.attribute.append(onnx.AttributeProto(name="a"))
    with pytest.raises(pyopnb.errors.ModelError, match="here, attr a"):
        attribute_values(node, pyopnb.model([], {}, ""), "here")
