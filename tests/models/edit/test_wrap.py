"""Taps see what went in and what came out, and change nothing."""

from __future__ import annotations

import gc
import io
import pdb
import sys
import weakref
from typing import Any

import numpy as np
import onnx
import onnx.parser
import onnxruntime
import pytest

import pyopnb
from pyopnb.engine.ops.types import tensor_type
from pyopnb.models.edit.wrap import Seen

X = np.float32([[-1, 2, -3], [4, -5, 6]])


def two(**more: Any) -> onnx.ModelProto:
    nodes = [pyopnb.node("Exp", "x", "e", name="exp"), pyopnb.node("Neg", "e", "y", name="neg")]
    return pyopnb.model(nodes, {"x": "float32[N,3]"}, "y", **more)


def test_what_is_seen() -> None:
    seen: list[Seen] = []
    session = pyopnb.Session(pyopnb.wrap(two(), ["Exp", "y"], seen.append))
    want = pyopnb.run(two(), x=X)["y"]
    for _ in range(3):
        np.testing.assert_array_equal(session(x=X)["y"], want)
    assert [one.node.name for one in seen] == ["exp", "neg"] * 3
    assert [(list(one.inputs), list(one.outputs)) for one in seen[:2]] == [
        (["x"], ["e"]),
        (["e"], ["y"]),
    ]
    for one in seen[::2]:  # kept past the run, and still what they were
        np.testing.assert_array_equal(one.inputs["x"], X)
        np.testing.assert_array_equal(one.outputs["e"], -want)
    assert list(seen[0].node.output) == ["e"]


def test_what_a_tap_raises_is_the_users() -> None:
    class Stop(Exception): ...

    def look(seen: Seen) -> None:
        raise Stop(seen.node.name)

    with pytest.raises(Stop, match="exp"):
        pyopnb.Session(pyopnb.wrap(two(), "Exp", look))(x=X)


def test_inputs_left_out_outputs_left_out_and_outputs_unused() -> None:
    seen: list[Seen] = []
    clip = pyopnb.model(
        pyopnb.node("Clip", ["x", "", "m"], "y"), {"x": "float32[2,3]", "m": "float32[]"}, "y"
    )
    pyopnb.run(pyopnb.wrap(clip, "Clip", seen.append), x=X, m=np.array(0, np.float32))
    assert (list(seen[0].inputs), list(seen[0].outputs)) == (["x", "m"], ["y"])
    unique = pyopnb.model(pyopnb.node("Unique", "x", ["y", "", "i"]), {"x": "float32[3]"}, "y")
    assert pyopnb.run(pyopnb.wrap(unique, "Unique", seen.append), x=np.float32([3, 1, 3]))[
        "y"
    ].tolist() == [1, 3]
    assert {name: array.tolist() for name, array in seen[1].outputs.items()} == {
        "y": [1, 3],
        "i": [1, 0, 1],
    }


def test_dtypes() -> None:
    for kind in ("bool", "int64", "float16", "bfloat16", "string", "float64"):
        seen: list[Seen] = []
        model = pyopnb.model(
            [pyopnb.node("Identity", "x", "a"), pyopnb.node("Identity", "a", "y")],
            {"x": f"{kind}[2]"},
            {"y": f"{kind}[2]"},
        )
        feed = (
            np.array(["a", "b"], object)
            if kind == "string"
            else np.array([0, 1]).astype(tensor_type(kind).dtype.numpy)
        )
        assert (
            pyopnb.run(pyopnb.wrap(model, "a", seen.append), x=feed)["y"].tolist() == feed.tolist()
        )
        assert seen[0].outputs["a"].dtype == feed.dtype


def test_bodies_and_functions() -> None:
    seen: list[Seen] = []
    model = pyopnb.parse("""<opset_import: ["" : 17, "f" : 1]>
        (float[2,3] x, int64 n) => (float[2,3] y) {
            l = Loop(n, "", x) <body = b (int64 i, bool c, float[2,3] a) => (bool go, float[2,3] b)
                { go = Identity(c)  [add] b = Add(a, x) }>
            m = f.F(l)
            y = f.F(m)
        }
        <domain: "f", opset_import: ["" : 17]> F (u) => (v) { v = Neg(u) }""")
    got = pyopnb.run(pyopnb.wrap(model, ["add", "Neg"], seen.append), x=X, n=np.array(3))["y"]
    np.testing.assert_array_equal(got, 4 * X)
    assert [one.node.op_type for one in seen] == ["Add"] * 3 + ["Neg"] * 2
    assert [one.outputs[one.node.output[0]][0, 0] for one in seen] == [-2, -3, -4, 4, -4]
    assert "in Loop 'l', body" in repr(seen[0])


def test_types_that_no_op_can_pass_on() -> None:
    nodes = [pyopnb.node("SequenceConstruct", "x x", "s"), pyopnb.node("SequenceAt", "s i", "y")]
    model = pyopnb.model(nodes, {"x": "float32[2,3]"}, "y", initializers={"i": np.int64(1)})
    with pytest.raises(
        pyopnb.errors.ModelError,
        match=r"SequenceConstruct\), output s: expected a tensor.*got sequence",
    ):
        pyopnb.wrap(model, "SequenceConstruct", repr)
    seen: list[Seen] = []
    np.testing.assert_array_equal(
        pyopnb.run(pyopnb.wrap(model, "SequenceAt", seen.append), x=X)["y"], X
    )
    assert list(seen[0].inputs) == ["i"], "a sequence cannot be handed over"
    model = pyopnb.model(pyopnb.node("Identity", "x", "y"), {"x": "complex64[2]"}, "y")
    with pytest.raises(pyopnb.errors.ModelError, match=r"got complex64\[2\]"):
        pyopnb.wrap(model, "Identity", repr)


def test_taps_upon_taps() -> None:
    first: list[Seen] = []
    second: list[Seen] = []
    wrapped = pyopnb.wrap(pyopnb.wrap(two(), "e", first.append), "y", second.append)
    pyopnb.run(wrapped, x=X)
    assert (list(first[0].outputs), list(second[0].inputs), list(second[0].outputs)) == (
        ["e"],
        ["e"],
        ["y"],
    )
    again = pyopnb.wrap(wrapped, lambda node: True, second.append)
    assert len(again.graph.node) == len(wrapped.graph.node) + 2
    np.testing.assert_array_equal(pyopnb.run(again, x=X)["y"], pyopnb.run(two(), x=X)["y"])
    with pytest.raises(pyopnb.errors.ModelError, match="none of these"):
        pyopnb.wrap(wrapped, wrapped.graph.node[-1].output[0], repr)


def test_taps_run_in_the_order_of_their_nodes_and_before_a_later_failure() -> None:
    seen: list[Seen] = []
    model = pyopnb.parse("""(float[2,3] x, int64[1] n) => (float[?] y) {
            [one] a = Abs(x)  [two] b = Neg(a)  [three] c = Exp(b)  z = Reshape(c, n)  y = Neg(z) }""")
    session = pyopnb.Session(pyopnb.wrap(model, ["three", "one", "two"], seen.append))
    session(x=X, n=[6])
    assert [one.node.name for one in seen] == ["one", "two", "three"]
    with pytest.raises(Exception, match="Reshape"):
        session(x=X, n=[5])
    assert [one.node.name for one in seen[3:]] == ["one", "two", "three"]


def test_a_breakpoint_has_the_values_as_local_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    said = io.StringIO()

    def hook() -> None:
        typed = io.StringIO("p node.name, list(inputs), outputs['e'].shape\nc\n")
        debugger = pdb.Pdb(stdin=typed, stdout=said, nosigint=True, readrc=False)
        debugger.set_trace(sys._getframe(1))

    monkeypatch.setattr(sys, "breakpointhook", hook)
    traced = sys.gettrace()
    try:
        pyopnb.Session(pyopnb.wrap(two(), "Exp", breakpoint))(x=X)
    finally:
        sys.settrace(traced)
    assert "('exp', ['x'], (2, 3))" in said.getvalue()


def test_letting_go() -> None:
    class Look:
        def __call__(self, seen: Seen) -> None: ...

    look = Look()
    gone = weakref.ref(look)
    session = pyopnb.Session(pyopnb.wrap(two(), "Exp", look))
    del look
    (op,) = pyopnb.registry
    assert op.name.startswith("pyopnb.tap::Exp_")
    session(x=X)
    pyopnb.registry.remove(op.name)
    session(x=X)
    assert gone() is not None
    del session, op
    gc.collect()
    assert gone() is None


SIZES = """<ir_version: 8, opset_import: ["": {opset}]> g (float[n,1,4,4] x) => (float[] y)
    <int64[1] zero = {{0}}, int64[1] two = {{2}}, int64[2] hw = {{8, 8}}, float[0] e = {{}}> {{
    all = Shape(x)  first = Slice(all, zero, two)  sizes = Concat<axis = 0>(first, hw)
    {last} }}"""


@pytest.mark.parametrize("node", ["all", "first", "sizes"])
@pytest.mark.parametrize(
    ("opset", "last"),
    [
        (11, "y = Resize(x, e, e, sizes)"),
        (13, "y = Resize(x, , , sizes)"),
        (13, "f = Cast<to = 1>(sizes)  in = Cast<to = 1>(all)  sc = Div(f, in)  y = Resize(x, e, sc)"),
        (13, "z = ConstantOfShape(sizes)  y = Add(z, z)"),
        (13, "y = ReduceSum<keepdims = 0>(x, first)"),
        (13, "z = Reshape(x, all)  y = Transpose<perm = [0, 1, 3, 2]>(z)"),
        (13, "z = Expand(two, sizes)  y = Cast<to = 1>(z)"),
        (13, "z = Tile(x, sizes)  y = Transpose<perm = [0, 1, 3, 2]>(z)"),
    ],
)  # fmt: skip
def test_nodes_whose_values_decide_the_shapes_of_others(node: str, opset: int, last: str) -> None:
    model = onnx.parser.parse_model(SIZES.format(opset=opset, last=last))
    x = np.ones((1, 1, 4, 4), np.float32)
    seen: list[Seen] = []
    want = pyopnb.run(model, x=x)["y"]
    wrapped = pyopnb.Session(pyopnb.wrap(model, node, seen.append))
    assert [i.shape for i in wrapped.get_outputs()] == [
        i.shape for i in pyopnb.Session(model).get_outputs()
    ]
    np.testing.assert_array_equal(wrapped(x=x)["y"], want)
    assert list(seen[0].outputs) == [node]


def test_a_declared_rank_that_is_wrong() -> None:
    model = onnx.parser.parse_model("""<ir_version: 8, opset_import: ["": 13]>
        g (float[n,3] x) => (float[] y) <float[7] a> { a = Exp(x)  b = Add(a, x)  y = Neg(b) }""")
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    want = onnxruntime.InferenceSession(model.SerializeToString(), options).run(None, {"x": X})
    for op_type in ("Exp", "Add", "Neg"):
        wrapped = pyopnb.wrap(model, op_type, lambda seen: None)
        got = pyopnb.Session(wrapped, options)(x=X)
        np.testing.assert_array_equal(got["y"], want[0])
