"""Ops in the places of nodes, chosen in every way, wherever they stand."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from small_ops import chain

import pyopnb
from pyopnb.engine.models.protos import walk

X = np.float32([[-1, 2, -3], [4, -5, 6]])
KIND = "float32[2,3]"


def define_relu(name: str = "t::MyRelu", **more: Any) -> type:
    calls: list[int] = []
    cls = type(
        "MyRelu",
        (),
        {"compute": lambda self, x: (calls.append(1), np.maximum(x, 0))[1], "calls": calls, **more},
    )
    pyopnb.registry.define(cls, name)
    return cls


def replaced_ops(model: onnx.ModelProto, domain: str = "t") -> list[str]:
    return [
        site.node.name or site.node.output[0] for site in walk(model) if site.node.domain == domain
    ]


# ---- where -------------------------------------------------------------------------------------------------------------------

MODEL = chain("Relu", "Neg", "Relu", "Neg", kind=KIND)


@pytest.mark.parametrize(
    ("where", "want"),
    [
        ("n0", ["n0"]),
        ("Relu", ["n0", "n2"]),
        ("::Relu", ["n0", "n2"]),
        ("ai.onnx::Relu", ["n0", "n2"]),
        ("t3", ["n2"]),
        (["n2", "t1"], ["n0", "n2"]),
        (("n0", "n0"), ["n0"]),
        ({"n2"}, ["n2"]),
        (MODEL.graph.node[2], ["n2"]),
        ([MODEL.graph.node[0], "n2"], ["n0", "n2"]),
        (lambda node: node.op_type == "Relu" and node.input[0] != "x", ["n2"]),
    ],
)
def test_where(where: Any, want: list[str]) -> None:
    define_relu()
    assert replaced_ops(pyopnb.replace(MODEL, where, "t::MyRelu")) == want


def test_a_text_with_two_meanings() -> None:
    define_relu()
    model = chain("Relu", "Neg", kind=KIND)
    model.graph.node[1].name = "Relu"
    with pytest.raises(
        pyopnb.errors.ModelError,
        match=r"expected one meaning, got op type ::Relu and a node's name",
    ):
        pyopnb.replace(model, "Relu", "t::MyRelu")
    assert replaced_ops(pyopnb.replace(model, "::Relu", "t::MyRelu")) == ["n0"]


@pytest.mark.parametrize(
    ("where", "said"),
    [
        ("Rleu", "where 'Rleu': expected a node's name, an op type or an output's name.*Try: Relu"),
        ("x", "Try: ::Neg, ::Relu"),
        ("", "none of these"),
        ("other::Relu", "Try: ::Relu"),
        ([], "expected nodes to choose, got nothing"),
        (["n0", "nothing like it"], "where 'nothing like it'"),
        (lambda node: False, "a function that chooses none of the 4 nodes"),
        (pyopnb.node("Relu", "x", "elsewhere"), "a node ::Relu that is not in the model"),
        (3, "got int"),
        ([3], "got int"),
        (None, "got NoneType"),
    ],
)
def test_nothing_chosen(where: Any, said: str) -> None:
    define_relu()
    with pytest.raises(pyopnb.errors.ModelError, match=said):
        pyopnb.replace(MODEL, where, "t::MyRelu")


# ---- op ----------------------------------------------------------------------------------------------------------------------


def test_ops_that_are_not_there() -> None:
    cls = define_relu()
    with pytest.raises(pyopnb.errors.UnknownName, match="Try: t::MyRelu"):
        pyopnb.replace(MODEL, "n0", "t::MyRely")
    with pytest.raises(pyopnb.errors.UnknownName, match="got the class int"):
        pyopnb.replace(MODEL, "n0", int)
    with pytest.raises(pyopnb.errors.UnknownName, match="got int 3"):
        pyopnb.replace(MODEL, "n0", 3)
    define_relu()
    with pytest.raises(pyopnb.errors.UnknownName, match="got the class MyRelu. Try: 't::MyRelu'"):
        pyopnb.replace(MODEL, "n0", cls)


# ---- attrs and ports ---------------------------------------------------------------------------------------------------------


class Softmax:
    def __init__(self, axis: int = -1):
        self.axis = axis

    def compute(self, x):
        e = np.exp(x - x.max(axis=self.axis, keepdims=True))
        return e / e.sum(axis=self.axis, keepdims=True)


def test_a_default_is_that_of_the_operator_in_its_version() -> None:
    pyopnb.registry.define(Softmax, "t::Softmax")
    softmax = chain("Softmax", "Neg", kind=KIND)
    model = onnx.ModelProto.FromString(softmax.SerializeToString())
    model.opset_import[0].version = 11  # where axis is 1 by default
    for original, axis in ((model, 1), (softmax, -1)):
        replaced = pyopnb.replace(original, "Softmax", "t::Softmax")
        (node,) = (site.node for site in walk(replaced) if site.node.domain == "t")
        assert node.attribute[0].i == axis


def test_ports_of_other_types_than_those_inferred() -> None:
    class Op:
        def compute(self, x: "float64[N,3]"): return x  # fmt: skip

    class Rank:
        def compute(self, x: "float32[N]"): return x  # fmt: skip

    class Out:
        def compute(self, x) -> "float64[N,3]": return x  # fmt: skip

    class None_:
        def compute(self, x) -> (): ...

    for cls, said in (
        (Op, r"'n2'.*input x: expected float64\[N,3\], got float32\[2,3\]"),
        (Rank, "input x"),
        (Out, r"output 0: expected float32\[2,3\], as in the model, got float64\[N,3\]"),
    ):
        pyopnb.registry.define(cls, "t::Op")
        with pytest.raises(pyopnb.errors.ModelError, match=said):
            pyopnb.replace(MODEL, "n2", "t::Op")  # the types of t2 and t3 are not declared


@pytest.mark.parametrize(
    ("body", "name", "compute"),
    [
        ("s = Shape(x)  y = Cast<to = 1>(s)", "Shape", lambda self, x: np.int64(x.shape)),
        ("c = Greater(x, x)  w = Where(c, x, x)  y = Neg(w)", "Where", lambda self, c, a, b: np.where(c, a, b)),
    ],
)  # fmt: skip
def test_outputs_keep_types_that_only_the_operator_knew(body: str, name: str, compute: Any) -> None:
    """Without hints an output has the first input's dtype; here that is wrong, and the right one is not declared."""
    pyopnb.registry.define(type("Op", (), {"compute": compute}), "t::Op")
    model = pyopnb.parse(f"(float[2,3] x) => (float[...] y) {{ {body} }}")
    replaced = pyopnb.run(pyopnb.replace(model, name, "t::Op"), x=X)
    np.testing.assert_array_equal(replaced["y"], pyopnb.run(model, x=X)["y"])


# ---- everywhere --------------------------------------------------------------------------------------------------------------


def test_bodies_of_control_flow_and_functions() -> None:
    cls = define_relu()
    model = pyopnb.parse("""<opset_import: ["" : 17, "f" : 1]>
        (float[2,3] x, bool c) => (float[2,3] y) {
            a = If(c) <then_branch = then () => (float[2,3] t) { [then] t = Relu(x) },
                       else_branch = other () => (float[2,3] e) { e = Neg(x) }>
            b = f.F(c, a)
            [last] y = Relu(b)
        }
        <domain: "f", opset_import: ["" : 17]> F (c, u) => (v) {
            v = If(c) <then_branch = t () => (float[2,3] i) { [deep] i = Relu(u) },
                       else_branch = e () => (float[2,3] j) { [deep] j = Relu(u) }>
        }""")
    got = pyopnb.replace(model, "Relu", "t::MyRelu")
    assert sorted(replaced_ops(got)) == ["deep", "deep", "last", "then"]
    assert {entry.domain for entry in got.opset_import} >= {"t"}
    assert [entry.domain for entry in got.functions[0].opset_import] == ["", "t"]
    np.testing.assert_array_equal(pyopnb.run(got, x=X, c=np.array(True))["y"], np.maximum(X, 0))
    assert len(cls.calls) == 3


def test_attrs_that_the_caller_of_a_function_gives() -> None:
    pyopnb.registry.define(Softmax, "t::Softmax")
    model = pyopnb.parse("""<opset_import: ["" : 17, "f" : 1]>
        (float[2,3] x) => (float[2,3] y) { y = f.F<a = 0>(x) }
        <domain: "f", opset_import: ["" : 17]> F <a> (u) => (v) { v = Softmax<axis: int = @a>(u) }""")
    want = pyopnb.run(model, x=X)["y"]
    np.testing.assert_allclose(
        pyopnb.run(pyopnb.replace(model, "Softmax", "t::Softmax"), x=X)["y"], want, rtol=1e-6
    )
    define_relu()
    with pytest.raises(
        pyopnb.errors.ModelError,
        match="attr axis: expected no attrs, got axis = .set by the function's caller",
    ):
        pyopnb.replace(model, "Softmax", "t::MyRelu")


# ---- the original, and where its data is -------------------------------------------------------------------------------------


def with_external_data(folder: Path) -> Path:
    model = chain("Relu", "Neg", kind=KIND)
    model.graph.node.append(pyopnb.node("Add", "y w", "z"))
    model.graph.output[0].name = "z"
    model.graph.initializer.append(onnx.numpy_helper.from_array(np.ones((2, 3), np.float32), "w"))
    path = folder / "m.onnx"
    onnx.save(model, path, save_as_external_data=True, size_threshold=0, location="w.bin")
    return path


def test_external_data_are_found_where_they_were(tmp_path: Path) -> None:
    define_relu()
    path = with_external_data(tmp_path)
    want = np.float32(1) - np.maximum(X, 0)
    got = pyopnb.replace(path, "Relu", "t::MyRelu")
    assert got.graph.initializer[0].data_location == onnx.TensorProto.EXTERNAL
    np.testing.assert_array_equal(pyopnb.run(got, x=X)["z"], want)
    np.testing.assert_array_equal(
        pyopnb.run(pyopnb.replace(got, "Neg", "t::MyRelu"), x=X)["z"], 1 + np.maximum(X, 0)
    )
    os.remove(tmp_path / "w.bin")
    assert replaced_ops(pyopnb.replace(path, "Relu", "t::MyRelu")) == ["n0"], (
        "weights are not looked at"
    )


def test_a_folder_that_a_file_names_is_not_believed(tmp_path: Path) -> None:
    model = onnx.load(with_external_data(tmp_path), load_external_data=False)
    model.metadata_props.add(key="pyopnb.folder", value=str(tmp_path))
    with pytest.raises(pyopnb.errors.ModelError, match="a model in memory, which has none"):
        pyopnb.Session(model)
