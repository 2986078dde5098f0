"""A whole model in ONNX's reference implementation, as pyopnb runs it."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnx import helper, numpy_helper

import pyopnb

RANDOM = np.random.default_rng(0)


def model(
    nodes: list[onnx.NodeProto],
    inputs: dict[str, np.ndarray],
    outputs: str,
    weights: dict[str, np.ndarray] | None = None,
    sizes: list[int] | None = None,
    **versions: int,
) -> onnx.ModelProto:
    """A model without inference or checks; the sizes, if given, are those of the first input."""
    takes = [
        helper.make_tensor_value_info(
            name,
            helper.np_dtype_to_tensor_dtype(value.dtype),
            sizes if sizes and not n else [None] * value.ndim,
        )
        for n, (name, value) in enumerate(inputs.items())
    ]
    graph = helper.make_graph(
        nodes,
        "g",
        takes,
        [onnx.ValueInfoProto(name=name) for name in outputs.split()],
        [numpy_helper.from_array(value, name) for name, value in (weights or {}).items()],
    )
    imports = [
        helper.make_opsetid(domain.replace("_", "."), version)
        for domain, version in versions.items()
        if domain != "onnx"
    ]
    return helper.make_model(
        graph,
        opset_imports=[helper.make_opsetid("", versions.get("onnx", 17)), *imports],
        ir_version=8,
    )


def same(proto: onnx.ModelProto, feeds: dict[str, np.ndarray]) -> Any:
    """The trace on the reference, whose tensors are those of ONNX Runtime."""
    on_reference = pyopnb.trace(proto, feeds, on="reference")
    diff = pyopnb.diff(on_reference, pyopnb.trace(proto, feeds, optimised=False))
    assert diff.ok and diff.origin is None, str(diff)
    return on_reference


X = RANDOM.normal(size=(2, 3, 4, 4)).astype(np.float32)
NORM = {name: RANDOM.uniform(0.5, 1, 3).astype(np.float32) for name in "sbmv"}


@pytest.mark.parametrize("opset", [7, 9, 11, 13, 14, 15])
def test_a_batch_normalization_does_not_train(opset):
    nodes = [
        helper.make_node("BatchNormalization", ["x", *"sbmv"], ["n"]),
        helper.make_node("Relu", ["n"], ["y"]),
    ]
    trace = same(model(nodes, {"x": X}, "y", NORM, onnx=opset), {"x": X})
    assert np.array_equal(
        trace["n"], pyopnb.reference("::BatchNormalization", X, *NORM.values(), opset=opset)
    )


def test_kernels_of_the_runtime_where_onnx_has_words_only():
    nodes = [
        helper.make_node("LinearClassifier", ["x"], ["l", "p"], domain="ai.onnx.ml", coefficients=[1.0, 2, 3, 4],
                         intercepts=[0.0, 1], classlabels_ints=[0, 1], post_transform="SOFTMAX"),
        helper.make_node("ZipMap", ["p"], ["z"], domain="ai.onnx.ml", classlabels_int64s=[0, 1]),
        helper.make_node("QuickGelu", ["p"], ["q"], domain="com.microsoft", alpha=1.5),
    ]  # fmt: skip
    x = RANDOM.normal(size=(3, 2)).astype(np.float32)
    proto = model(
        nodes, {"x": x}, "l z q", ai_onnx_ml=1
    )  # com.microsoft needs no import in ONNX Runtime
    trace = same(proto, {"x": x})
    assert [sorted(row) for row in trace["z"]] == [[0, 1]] * 3
    found = pyopnb.first_divergence(proto, proto, {"x": x}, on=("onnxruntime", "reference"))
    assert found.ok, str(found)


@given(st.permutations(range(5)))
def test_nodes_in_any_order(order):
    nodes = [helper.make_node("Relu", [f"t{n}"], [f"t{n + 1}"]) for n in range(5)]
    proto = model([nodes[n] for n in order], {"t0": X}, "t5")
    trace = pyopnb.trace(proto, X, on="reference")
    assert np.array_equal(trace["t5"], np.maximum(X, 0)) and len(trace) == 6


def test_a_cycle_is_refused():
    nodes = [helper.make_node("Add", ["x", "b"], ["a"]), helper.make_node("Relu", ["a"], ["b"])]
    with pytest.raises(pyopnb.errors.ModelError, match="cycle"):
        pyopnb.trace(model(nodes, {"x": X}, "b"), X, on="reference")


@pytest.mark.parametrize("inside", [False, True])
def test_an_error_names_the_node(inside):
    bad = helper.make_node("Squeeze", ["x", "axes"], ["s"], name="/encoder/Squeeze")
    weights = {"axes": np.int64([1])}
    if inside:
        body = helper.make_graph([bad], "body", [], [onnx.ValueInfoProto(name="s")])
        nodes = [helper.make_node("If", ["c"], ["y"], then_branch=body, else_branch=body)]
    else:
        nodes = [bad, helper.make_node("Relu", ["s"], ["y"])]
    proto = model(nodes, {"x": X, "c": np.array(True)}, "y", weights)
    with pytest.raises(Exception, match="size not equal to one") as caught:
        pyopnb.trace(proto, {"x": X, "c": np.array(True)}, on="reference")
    assert "in node '/encoder/Squeeze' (::Squeeze)" in caught.value.__notes__
    with pytest.raises(Exception, match="size not equal to one"):  # not what an earlier run raised
        pyopnb.trace(proto, {"x": X, "c": np.array(True)}, on="reference")


# ---- what onnx's own classes get wrong ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("rank", [3, 4, 5])
def test_a_maximum_over_all_axes_but_two(rank):
    x = RANDOM.normal(size=(2, 3, 5, 4, 2)[:rank]).astype(np.float32)
    same(model([helper.make_node("GlobalMaxPool", ["x"], ["y"])], {"x": x}, "y"), {"x": x})


@pytest.mark.parametrize(
    ("shape", "axis"), [((100, 3), 0), ((3, 100), 1), ((3, 100), -1), ((2, 80, 4), 1)]
)
def test_gathering_from_more_than_64(shape, axis):
    x = RANDOM.normal(size=shape).astype(np.float32)
    place = RANDOM.integers(
        -shape[axis],
        shape[axis],
        [2 if n == axis % len(shape) else size for n, size in enumerate(shape)],
    )
    same(
        model(
            [helper.make_node("GatherElements", ["x", "i"], ["y"], axis=axis)],
            {"x": x, "i": place},
            "y",
        ),
        {"x": x, "i": place},
    )
    with pytest.raises(IndexError):
        pyopnb.reference("::GatherElements", x, np.full(shape, 100), axis=axis)


@pytest.mark.parametrize("shape", [(), (2,), (2, 3), (2, 3, 4)])
@pytest.mark.parametrize(("most", "goes_on"), [(3, True), (1, True), (0, True), (3, False)])
def test_what_a_loop_collects_gets_one_new_axis(shape, most, goes_on):
    kind = f"float[{','.join(map(str, shape))}]" if shape else "float"
    body = f"b (int64 i, bool k, {kind} s) => (bool l, {kind} t, {kind} u) {{ l = Identity(k)  t = Add(s, x)  u = Mul(s, x) }}"
    text = f"(int64 n, bool c, {kind} x) => ({kind} last, float[...] rows) {{ last, rows = Loop<body = {body}>(n, c, x) }}"
    proto = pyopnb.parse(f'<ir_version: 8, opset_import: ["" : 17]> g {text}')
    feeds = {
        "n": np.int64(most),
        "c": np.array(goes_on),
        "x": RANDOM.normal(size=shape).astype(np.float32),
    }
    trace = same(proto, feeds)
    assert trace["rows"].shape == (most if goes_on else 0, *shape)


@pytest.mark.parametrize("classes", [2, 3])
def test_the_probabilities_of_a_support_vector_machine(classes):
    pairs, vectors = classes * (classes - 1) // 2, 4 * classes
    node = helper.make_node(
        "SVMClassifier",
        ["x"],
        ["l", "p"],
        domain="ai.onnx.ml",
        classlabels_ints=list(range(classes)),
        coefficients=RANDOM.normal(size=(classes - 1) * vectors).tolist(),
        kernel_params=[0.3, 0.0, 3.0],
        kernel_type="RBF",
        prob_a=(-1 - RANDOM.random(pairs)).tolist(),
        prob_b=(RANDOM.normal(size=pairs) / 4).tolist(),
        rho=RANDOM.normal(size=pairs).tolist(),
        support_vectors=RANDOM.normal(size=vectors * 3).tolist(),
        vectors_per_class=[4] * classes,
    )
    x = RANDOM.normal(size=(20, 3)).astype(np.float32)
    proto = model([node], {"x": x}, "l p", ai_onnx_ml=1)
    # For three classes and more, onnx's class is wrong, and a kernel of the runtime takes its place.
    trace = same(proto, {"x": x})
    if classes > 2:
        attrs = {
            attribute.name: helper.get_attribute_value(attribute) for attribute in node.attribute
        }
        with pytest.raises(
            pyopnb.errors.ModelError, match="got probabilities of three classes or more"
        ):
            pyopnb.reference("ai.onnx.ml::SVMClassifier", x, outputs=2, **attrs)
    assert trace["p"].shape == (20, classes) and np.allclose(trace["p"].sum(axis=1), 1)
