"""A whole model in the ONNX reference implementation, as pyopnb runs it."""

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
    nodes: str, inputs: dict[str, np.ndarray], outputs: str, onnx_opset: int = 17, **weights: Any
) -> onnx.ModelProto:
    """A model without inference or checks."""
    infos = [
        helper.make_tensor_value_info(
            name, helper.np_dtype_to_tensor_dtype(value.dtype), [None] * value.ndim
        )
        for name, value in inputs.items()
    ]
    # com.microsoft needs no import in ONNX Runtime.
    made = onnx.parser.parse_model(
        f'<ir_version: 8, opset_import: ["" : {onnx_opset}, "ai.onnx.ml" : 1]> g () => () {{ {nodes} }}'
    )
    made.graph.input.extend(infos)
    made.graph.output.extend(onnx.ValueInfoProto(name=name) for name in outputs.split())
    made.graph.initializer.extend(
        numpy_helper.from_array(value, name) for name, value in weights.items()
    )
    return made


def same(proto: onnx.ModelProto, feeds: dict[str, np.ndarray]) -> Any:
    """The trace on the reference, whose tensors agree with ONNX Runtime."""
    on_reference = pyopnb.trace(proto, feeds, on="reference")
    diff = pyopnb.diff(on_reference, pyopnb.trace(proto, feeds, optimized=False))
    assert diff.ok and diff.origin is None, str(diff)
    return on_reference


X = RANDOM.normal(size=(2, 3, 4, 4)).astype(np.float32)
NORM = {name: RANDOM.uniform(0.5, 1, 3).astype(np.float32) for name in "sbmv"}


@pytest.mark.parametrize("opset", [7, 9, 11, 13, 14, 15])
def test_a_batch_normalization_does_not_train(opset):
    nodes = "n = BatchNormalization(x, s, b, m, v)  y = Relu(n)"
    trace = same(model(nodes, {"x": X}, "y", opset, **NORM), {"x": X})
    assert np.array_equal(
        trace["n"], pyopnb.reference("::BatchNormalization", X, *NORM.values(), opset=opset)
    )


def test_kernels_of_the_runtime_where_onnx_has_words_only():
    nodes = """
        l, p = ai.onnx.ml.LinearClassifier<coefficients = [1.0, 2.0, 3.0, 4.0], intercepts = [0.0, 1.0],
            classlabels_ints = [0, 1], post_transform = "SOFTMAX">(x)
        z = ai.onnx.ml.ZipMap<classlabels_int64s = [0, 1]>(p)
        q = com.microsoft.QuickGelu<alpha = 1.5>(p)"""
    x = RANDOM.normal(size=(3, 2)).astype(np.float32)
    proto = model(nodes, {"x": x}, "l z q")
    trace = same(proto, {"x": x})
    assert [sorted(row) for row in trace["z"]] == [[0, 1]] * 3
    found = pyopnb.first_divergence(proto, proto, {"x": x}, on=("onnxruntime", "reference"))
    assert found.ok, str(found)


@given(st.permutations(range(5)))
def test_nodes_in_any_order(order):
    nodes = "  ".join(f"t{n + 1} = Relu(t{n})" for n in order)
    proto = model(nodes, {"t0": X}, "t5")
    trace = pyopnb.trace(proto, X, on="reference")
    assert np.array_equal(trace["t5"], np.maximum(X, 0)) and len(trace) == 6


def test_a_cycle_is_refused():
    with pytest.raises(pyopnb.errors.ModelError, match="cycle"):
        pyopnb.trace(model("a = Add(x, b)  b = Relu(a)", {"x": X}, "b"), X, on="reference")


@pytest.mark.parametrize("inside", [False, True])
def test_an_error_names_the_node(inside):
    nodes = "[squeeze] s = Squeeze(x, axes)"
    body = f"{nodes}  y = Relu(s)"
    if inside:
        body = f"y = If(c) <then_branch = t () => (s) {{ {nodes} }}, else_branch = e () => (s) {{ {nodes} }}>"
    proto = model(body, {"x": X, "c": np.array(True)}, "y", axes=np.int64([1]))
    with pytest.raises(Exception, match="size not equal to one") as caught:
        pyopnb.trace(proto, {"x": X, "c": np.array(True)}, on="reference")
    assert "in node 'squeeze' (::Squeeze)" in caught.value.__notes__
    with pytest.raises(Exception, match="size not equal to one"):  # not what an earlier run raised
        pyopnb.trace(proto, {"x": X, "c": np.array(True)}, on="reference")


def test_a_type_error_of_an_op_in_a_body_arrives_as_itself():
    """Onnx raises one of its own in its place."""

    @pyopnb.pyop("demo::Raises")
    class Raises:
        def compute(self, x):
            raise TypeError("mine")

    branches = (
        "then_branch = t () => (s) { s = demo.Raises(x) }, else_branch = e () => (s) { s = Neg(x) }"
    )
    proto = pyopnb.parse(f"(float[N] x, bool c) => (float[N] y) {{ y = If(c) <{branches}> }}")
    with pytest.raises(TypeError, match=r"^mine"):
        pyopnb.trace(proto, {"x": np.ones(2, np.float32), "c": np.array(True)}, on="reference")


# ---- mistakes of the onnx classes ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("rank", [3, 4, 5])
def test_a_maximum_over_all_axes_but_two(rank):
    x = RANDOM.normal(size=(2, 3, 5, 4, 2)[:rank]).astype(np.float32)
    same(model("y = GlobalMaxPool(x)", {"x": x}, "y"), {"x": x})


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
    feeds = {"x": x, "i": place}
    same(model(f"y = GatherElements<axis = {axis}>(x, i)", feeds, "y"), feeds)
    with pytest.raises(pyopnb.errors.ModelError, match="IndexError"):
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


def test_a_loop_whose_counter_has_an_axis():
    body = "b (int64[1] i, bool k, int64 s) => (bool l, int64 t) { l = Identity(k)  j = Squeeze<axes = [0]>(i)  t = Add(s, j) }"
    text = f"(int64 n, bool c, int64 x) => (int64 last) {{ last = Loop<body = {body}>(n, c, x) }}"
    proto = pyopnb.parse(f'<ir_version: 8, opset_import: ["" : 11]> g {text}')
    feeds = {"n": np.int64(4), "c": np.array(True), "x": np.int64(10)}
    assert same(proto, feeds)["last"] == 16


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
    proto = model("", {"x": x}, "l p")
    proto.graph.node.append(node)
    # For three classes and more, the onnx class is wrong, and a kernel of the
    # runtime takes its place.
    trace = same(proto, {"x": x})
    attrs = {attribute.name: helper.get_attribute_value(attribute) for attribute in node.attribute}
    with pytest.raises(pyopnb.errors.ModelError, match="that onnx computes as ONNX Runtime does"):
        pyopnb.reference("ai.onnx.ml::SVMClassifier", x, outputs=2, **attrs)
    assert trace["p"].shape == (20, classes) and np.allclose(trace["p"].sum(axis=1), 1)
