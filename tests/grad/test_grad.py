"""`pyopnb.grad`: what it gives, against central differences in float64 by runs of the model itself, and what it refuses."""

import re
import subprocess
import sys
import threading
from functools import partial
from textwrap import dedent

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper
from precise_differences import assert_gradients, differences
from small_gradients import SCALE, USER_RELU

import pyopnb
from pyopnb.engine.models.ort_capabilities import newest_opset
from pyopnb.errors import ModelError

# The tests judge the gradients themselves; what `grad` compares is the subject of test_verify.
grad = partial(pyopnb.grad, verify=False)

random = np.random.default_rng(0)


def summed(body, inputs="double[N] x"):
    """A model whose loss is the sum of y."""
    return pyopnb.parse(
        f"({inputs}) => (double loss) {{ {body}  loss = ReduceSum<keepdims = 0>(y) }}"
    )


def backward_of(name, compute, backward):
    """The text of an op of one input."""
    return f"@pyopnb.pyop('{name}')\nclass Op:\n def compute(self, x): return {compute}\n def backward(self, i, o, g): return {backward}"


MLP = """
    (double[N,5] x, double[7] b, double[5,7] w1, double[7,3] w2) => (double[N,3] y, double loss) {
        a = Gemm(x, w1, b)
        r = demo.UserRelu<slope = 0.2>(a)
        z = MatMul(r, w2)
        y = Tanh(z)
        loss = ReduceMean<keepdims = 0>(y)
    }"""


SHAPES = {"x": (4, 5), "b": (7,), "w1": (5, 7), "w2": (7, 3)}


def with_weights(model, **weights):
    """The model with inputs made initializers."""
    inputs = [info for info in model.graph.input if info.name not in weights]
    model.graph.ClearField("input")
    model.graph.input.extend(inputs)
    model.graph.initializer.extend(
        numpy_helper.from_array(array, name) for name, array in weights.items()
    )
    return model


def mlp():
    return with_weights(
        pyopnb.parse(MLP), w1=random.normal(size=(5, 7)) / 2, w2=random.normal(size=(7, 3)) / 2
    )


def test_a_net_with_an_op_in_it(define):
    define(USER_RELU)
    feeds = {name: random.normal(size=shape) / 2 for name, shape in SHAPES.items()}
    model, before = pyopnb.parse(MLP), pyopnb.parse(MLP)
    derived = assert_gradients(model, feeds, ["x", "w1", "w2", "b"])
    assert [n.op_type for n in derived.graph.node if n.domain] == ["UserRelu", "UserReluGrad"]
    assert model == before
    # The same with weights in the model, which stay where they are.
    weights = {name: feeds.pop(name) for name in ("w1", "w2")}
    weighted = grad(with_weights(model, **weights), ["w1", "x"])
    assert [t.name for t in weighted.graph.initializer][:2] == ["w1", "w2"]
    assert np.array_equal(
        pyopnb.run(weighted, feeds)["grad_w1"], pyopnb.run(derived, feeds | weights)["grad_w1"]
    )


def test_a_session_goes_where_a_model_goes(define):
    define(USER_RELU)
    model = mlp()
    assert grad(pyopnb.Session(model), ["w1"]).graph == grad(model, ["w1"]).graph


@pytest.mark.parametrize("opset", [13, 18, 23, newest_opset()])
def test_opsets(define, opset):
    define(USER_RELU + SCALE)
    model = pyopnb.parse(f"""<opset_import: ["" : {opset}, "demo" : 1]>
        (double[N,4] x, double[4] w, double[4] b) => (double[N,4] s, double loss) {{
            h = demo.Scale(x, w, b)
            g = demo.UserRelu(h)
            s = Softmax<axis = 1>(g)
            t = demo.Scale(s, w)
            q = Mul(t, s)
            loss = ReduceMean<keepdims = 0>(q)
        }}""")
    feeds = {
        "x": random.normal(size=(3, 4)),
        "w": random.normal(size=4),
        "b": random.normal(size=4),
    }
    assert_gradients(model, feeds, ["x", "w", "b"])


def test_an_op_that_is_reloaded_takes_its_gradient_along(define):
    define(backward_of("demo::T", "2 * x", "2 * g[0]"))
    session = pyopnb.Session(grad(summed("y = demo.T(x)"), "x"))
    assert session(x=[1, 2])["grad_x"].tolist() == [2, 2]
    define(backward_of("demo::T", "3 * x", "3 * g[0]"))
    assert session(x=[1, 2])["grad_x"].tolist() == [3, 3]


def test_inside_if_and_local_functions(define):
    define(USER_RELU)
    model = pyopnb.parse("""<opset_import: ["" : 18, "demo" : 1, "local" : 1]>
        (double[N] x, bool c) => (double loss) {
            y = If(c) <
                then_branch = a () => (double[N] t) { r = demo.UserRelu<slope = 0.5>(x)  t = Mul(r, r) },
                else_branch = b () => (double[N] e) { e = demo.UserRelu<slope = 0.1>(x) }>
            z = local.twice(y)
            loss = ReduceSum<keepdims = 0>(z)
        }
        <domain: "local", opset_import: ["" : 18, "demo" : 1]>
        twice (v) => (w) { u = demo.UserRelu<slope = 2.0>(v)  w = Add(u, v) }""")
    for condition in (True, False):
        assert_gradients(model, {"x": random.normal(size=3), "c": np.array(condition)}, ["x"])


SIN_COS = """
@pyopnb.pyop("demo::SinCos")
class SinCos:
    def compute(self, x) -> ("float64[...]", "float64[...]"): return np.sin(x), np.cos(x)
    def backward(self, inputs, outputs, grads):
        (sin, cos), (a, b) = outputs, grads
        return (0 if a is None else a * cos) - (0 if b is None else b * sin)
"""


@pytest.mark.parametrize(
    "body",
    [
        *[
            f"s, c = demo.SinCos(x)  p = Mul({used}, {also})  y = Exp(p)"
            for used, also in ("ss", "cc", "sc")
        ],
        "y = demo.SinCos(x)",  # backward reads the output that the node leaves out
    ],
)
def test_a_gradient_for_each_output_that_is_used(define, body):
    define(SIN_COS)
    assert_gradients(summed(body), {"x": random.normal(size=3)}, ["x"])


def test_the_same_tensor_twice_and_variadic_inputs(define):
    define(
        SCALE
        + """
@pyopnb.pyop("demo::Product")
class Product:
    def compute(self, *xs): return np.prod(xs, axis=0)
    def backward(self, inputs, outputs, grads): return tuple(grads[0] * outputs[0] / x for x in inputs)
"""
    )
    model = summed("a = demo.Scale(x, x, x)  y = demo.Product(a, x, z)", "double[N] x, double[N] z")
    feeds = {"x": random.normal(size=3), "z": random.normal(size=3)}
    assert_gradients(model, feeds, ["x", "z"], tolerance=1e-7)


def test_loss_of_one_element_and_names_that_are_taken(define):
    model = pyopnb.parse(
        "(double[N,3] x) => (double[1,1] loss, double[N,3] y) { y = Mul(x, x)  loss = ReduceSum(y) }"
    )
    assert_gradients(model, {"x": random.normal(size=(2, 3))}, ["x"])
    taken = pyopnb.parse(
        "(double[N] x) => (double loss) { grad_x = Mul(x, x)  loss = ReduceSum<keepdims = 0>(grad_x) }"
    )
    with pytest.raises(ModelError, match="grad_x"):
        grad(taken, "x")


def test_a_folded_weight_follows_whoever_changes_it():
    """What is computed of weights alone is not taken for a constant."""
    w = random.normal(size=(9, 9))
    body = "t = Transpose(w)  z = MatMul(x, t)  y = Mul(z, z)"
    model = with_weights(summed(body, "double[9] x, double[9,9] w"), w=w)
    derived = grad(model, "x")
    derived.graph.initializer[0].CopyFrom(numpy_helper.from_array(2 * w, "w"))
    x = random.normal(size=9)
    np.testing.assert_allclose(pyopnb.run(derived, x=x)["grad_x"], 2 * (2 * w).T @ (2 * w) @ x)


def test_from_a_file(define, tmp_path):
    define(USER_RELU)
    model = mlp()
    onnx.save(model, tmp_path / "mlp.onnx")
    feeds = {"x": random.normal(size=(4, 5)), "b": random.normal(size=7)}
    one, other = (
        pyopnb.run(pyopnb.grad(m, "x"), **feeds)["grad_x"] for m in (model, tmp_path / "mlp.onnx")
    )
    assert np.array_equal(one, other)


# ---- onnx-ad and its other callers ----------------------------------------------------------------------------------------------


def test_onnx_ad_is_imported_on_demand_and_gives_others_what_it_gave_them():
    code = """
        import sys
        import numpy as np, onnx, pyopnb
        model = pyopnb.parse("(float[4] x) => (float l) { s = Softmax(x)  l = ReduceL2<keepdims = 0>(s) }")
        assert "onnx_ad" not in sys.modules
        import onnx_ad
        lost = pyopnb.parse("(float[1,2,2] x) => (float[1] l) { l = Det(x) }")
        unknown = pyopnb.parse("(float[4] x) => (float[4] l) { s = SequenceConstruct(x)  l = ConcatFromSequence<axis = 0>(s) }")
        before = [onnx_ad.reverse(m).SerializeToString() for m in (model, lost)]
        pyopnb.grad(model, "x")
        print([onnx_ad.reverse(m).SerializeToString() for m in (model, lost)] == before)
        try:
            onnx_ad.reverse(unknown)
        except onnx_ad.UnsupportedOperator as error:
            print(str(error)[:38])
        """
    done = subprocess.run(
        [sys.executable, "-P", "-c", dedent(code)], capture_output=True, text=True, check=False
    )
    said = "True\nno reverse rule for ConcatFromSequence\n"
    assert (done.returncode, done.stdout) == (0, said), done.stderr


@pytest.mark.parametrize(
    ("name", "compute", "backward", "body"),
    [
        ("demo::Relu", "-x", "-g[0]", "r = demo.Relu(x)  y = Relu(r)"),  # its rules know no domains
        ("::Relu", "5 * x", "5 * g[0]", "y = Relu(x)"),
    ],
)
def test_an_op_is_not_taken_for_the_operator_of_its_name(define, name, compute, backward, body):
    define(backward_of(name, compute, backward).replace("class Op", "class Relu"))
    assert_gradients(summed(body), {"x": random.normal(size=6)}, ["x"])


def test_several_threads(define):
    define(USER_RELU)
    model, feeds, found = mlp(), {"x": random.normal(size=(4, 5)), "b": random.normal(size=7)}, []

    def work():
        found.append(pyopnb.run(pyopnb.grad(model, ["x", "w1"]), **feeds)["grad_w1"])

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 4 and all(np.array_equal(one, found[0]) for one in found)


# ---- ranks -------------------------------------------------------------------------------------------------------------------


def test_an_op_whose_output_has_another_rank_and_no_hint(define):
    define("""
        @pyopnb.pyop("demo::Norm")
        class Norm:
            def compute(self, x): return np.sqrt((x * x).sum(-1))
            def backward(self, inputs, outputs, grads): return inputs[0] * (grads[0] / outputs[0])[..., None]
        """)
    model = summed("n = demo.Norm(x)  y = Mul(n, s)", "double[N,3] x, double[N,1] s")
    feeds = {"x": random.normal(size=(4, 3)), "s": random.normal(size=(4, 1))}
    assert_gradients(model, feeds, ["x", "s"])


def test_a_rank_that_cannot_be_found(define):
    define("""
        @pyopnb.pyop("demo::Needs")
        class Needs:
            def compute(self, x):
                if (x == 1).all(): raise ValueError("not these")
                return x
            def backward(self, inputs, outputs, grads): return grads[0]
        """)
    said = r"the node of output 'n' \(demo::Needs\), output n: expected a known rank"
    with pytest.raises(ModelError, match=said):
        grad(summed("n = demo.Needs(x)  y = Mul(n, x)"), "x")


# ---- what is refused ---------------------------------------------------------------------------------------------------------

NO_BACKWARD = "@pyopnb.pyop('demo::Plain')\nclass Plain:\n def compute(self, x): return x\n def infer(self, x): return x"


def refusal(text, wrt="x", loss=None):
    with pytest.raises(ModelError) as caught:
        grad(pyopnb.parse(text), wrt, loss)
    return str(caught.value)


SUM = "loss = ReduceSum<keepdims = 0>(y)"


def test_an_op_without_backward(define):
    define(NO_BACKWARD)
    text = refusal(f"(float[N] x) => (float loss) {{ y = demo.Plain(x)  {SUM} }}")
    assert text == (
        "the node of output 'y' (demo::Plain), gradient: expected backward in its class, got demo::Plain, version 1, which has none. "
        "Try: def backward(self, inputs, outputs, grads): … returns a gradient of each input"
    )


def test_an_op_without_backward_beside_the_path_is_no_matter(define):
    define(NO_BACKWARD)
    model = summed("p = demo.Plain(c)  y = Mul(x, p)", "double[N] x, double[N] c")
    assert_gradients(model, {"x": random.normal(size=3), "c": random.normal(size=3)}, ["x"])


@pytest.mark.parametrize(
    ("body", "op"),
    [
        ("d = Det(x)  y = Mul(d, d)", "::Det"),
        ("y = com.microsoft.Gelu(x)", "com.microsoft::Gelu"),
        ("y = GroupNorm(x)", "::GroupNorm"),
        ("y = MaxRoiPool<pooled_shape = [1, 1]>(x, x)", "::MaxRoiPool"),
    ],
)
def test_what_has_no_rule(body, op):
    graph = onnx.parser.parse_graph(f"g (float[3,3] x) => (float loss) {{ {body}  {SUM} }}")
    model = helper.make_model(
        graph,
        opset_imports=[helper.make_opsetid("", 18), helper.make_opsetid("com.microsoft", 1)],
        ir_version=8,
    )
    with pytest.raises(ModelError, match=rf"\({op}\), gradient: expected") as caught:
        grad(model, "x")
    assert "the node of output" in str(caught.value)


@pytest.mark.parametrize(
    ("model", "wrt", "loss", "message"),
    [
        (
            f"(float[N] x) => (float loss) {{ y = Mul(x, x)  {SUM} }}",
            "z",
            None,
            "wrt 'z': expected the name of an input",
        ),
        (
            "(float[N] x) => (float[N] y) { y = Mul(x, x) }",
            "x",
            None,
            "loss: expected one .* got 0 of them among \\(y: float32",
        ),
        (
            "(float[N] x) => (float[N] y) { y = Mul(x, x) }",
            "x",
            "y",
            "loss 'y': expected one floating-point output with one element",
        ),
        (
            "(int64[N] x) => (float l) { c = Cast<to = 1>(x)  l = ReduceSum<keepdims = 0>(c) }",
            "x",
            None,
            "expected float16, float32 or float64, got int64",
        ),
        (
            "(float[N] x, float[N] u) => (float l) { l = ReduceSum<keepdims = 0>(x) }",
            "u",
            None,
            "wrt 'u': expected a tensor that influences",
        ),
        (
            "(float[N] x) => (float l) { i = Cast<to = 7>(x) f = Cast<to = 1>(i) l = ReduceSum<keepdims = 0>(f) }",
            "x",
            None,
            "only through integers",
        ),
    ],
)
def test_bad_arguments(model, wrt, loss, message):
    assert re.search(message, refusal(model, wrt, loss))


def test_rows_that_are_masked_as_a_whole():
    """Their softmax is NaN, which Attention's definition replaces by zeros: so is the gradient, and not NaN."""
    model = pyopnb.parse("""<opset_import: ["" : 23]>
        (float[1,1,2,4] q, float[1,1,3,4] k, float[1,1,3,4] v, bool[2,3] mask) => (float loss) {
            y = Attention(q, k, v, mask)
            square = Mul(y, y)
            loss = ReduceSum<keepdims = 0>(square)
        }""")
    feeds = {
        name: random.normal(size=(1, 1, size, 4)).astype(np.float32)
        for name, size in [("q", 2), ("k", 3), ("v", 3)]
    }
    feeds["mask"] = np.array([[True, True, False], [False, False, False]])
    result = pyopnb.run(grad(model, ["q", "k", "v"]), feeds)
    assert all(np.isfinite(result[f"grad_{name}"]).all() for name in "qkv")
    assert (
        not result["grad_q"][0, 0, 1].any()
        and result["grad_q"][0, 0, 0].all()
        and result["grad_v"][0, 0, :2].all()
    )


@pytest.mark.parametrize("wrt", ["lo", "hi"])
def test_bounds_of_one_clip_have_no_gradient(wrt):
    text = "(double[N] x, double lo, double hi) => (double loss) { y = Clip(x, lo, hi)  loss = ReduceSum<keepdims = 0>(y) }"
    with pytest.raises(ModelError, match=r"Clip.*derive Min\(Max"):
        grad(pyopnb.parse(text), wrt)
    model = pyopnb.parse(
        text.replace("lo, hi)", "lo)") if wrt == "lo" else text.replace("lo, hi)", ", hi)")
    )
    feeds = {"x": np.float64([-3, 0.2, 0.4, 5]), "lo": np.float64(-1), "hi": np.float64(1)}
    assert_gradients(model, feeds, [wrt])


# ---- what the rules of onnx-ad get wrong ---------------------------------------------------------


def square_loss(inputs, node, opset=18):
    """A model whose loss is the sum of squares of a node's results."""
    kind = "double" if "double" in inputs else "float"
    return onnx.parser.parse_model(f"""<ir_version: 8, opset_import: ["" : {opset}]>
        g ({inputs}) => ({kind} loss) {{ y = {node}  s = Mul(y, y)  loss = ReduceSum<keepdims = 0>(s) }}""")


@pytest.mark.parametrize(("pads", "strides"), [("1, 0, 0, 1", "2, 2"), ("2, 1, 0, 2", "3, 1")])
@pytest.mark.parametrize(
    "node", ["AveragePool<{}>(x)", "AveragePool<{}, count_include_pad = 1>(x)", "Conv<{}>(x, w)"]
)
def test_windows_keep_pads_that_differ_between_begin_and_end(node, pads, strides):
    """Not the pads that ConvTranspose in ONNX Runtime makes of an output_shape."""
    attrs = f"kernel_shape = [3, 3], strides = [{strides}], pads = [{pads}]"
    samples = "N" if "Conv" in node else "1"  # pools need their number
    model = square_loss(f"float[{samples},2,5,4] x, float[3,2,3,3] w", node.format(attrs))
    x = random.normal(size=(1, 2, 5, 4)).astype(np.float32)
    w = random.normal(size=(3, 2, 3, 3)).astype(np.float32)
    gradient = pyopnb.run(grad(model, "x"), x=x, w=w)["grad_x"]
    session = pyopnb.Session(model)
    expected = differences(lambda x: session(x=x.astype(np.float32), w=w)["loss"], x, step=0.05)
    np.testing.assert_allclose(gradient, expected, atol=0.02 * np.abs(expected).max())


@pytest.mark.parametrize("bounds", ["{1}, {3}, {1}", "{-3, 0}, {1000, -1}, {-1, 1}"])
def test_a_slice_beside_a_free_axis(bounds):
    names = dict(zip(("starts", "ends", "axes"), re.findall(r"{.*?}", bounds), strict=True))
    weights = ", ".join(
        f"int64[{text.count(',') + 1}] {name} = {text}" for name, text in names.items()
    )
    model = pyopnb.parse(f"""(double[N,4,3] x) => (double loss) <{weights}> {{
        s = Slice(x, starts, ends, axes)  y = Mul(s, s)  loss = ReduceSum<keepdims = 0>(y) }}""")
    assert_gradients(model, {"x": random.normal(size=(2, 4, 3))}, ["x"], tolerance=1e-6)


@pytest.mark.parametrize("reduction", ["L1", "L2", "SumSquare"])
def test_a_reduction_over_nothing_is_refused_where_runtimes_disagree(reduction):
    model = square_loss("double[N,4] x", f"Reduce{reduction}<noop_with_empty_axes = 1>(x)")
    with pytest.raises(ModelError, match=f"Reduce{reduction}.*runtimes disagree"):
        grad(model, "x")


def test_a_sum_of_products_to_a_scalar():
    feeds = {"x": random.normal(size=4), "v": random.normal(size=4)}
    model = square_loss("double[N] x, double[N] v", 'Einsum<equation = "i,i->">(x, v)')
    assert_gradients(model, feeds, ["x", "v"], tolerance=1e-6)
    feeds = {"x": random.normal(size=(4, 3))}
    assert_gradients(
        square_loss("double[4,3] x", 'Einsum<equation = "ij->">(x)'), feeds, ["x"], tolerance=1e-6
    )
    with pytest.raises(ModelError, match="Einsum.*index i is summed away"):
        grad(square_loss("double[N,3] x", 'Einsum<equation = "ij->">(x)'), "x")


@pytest.mark.parametrize("operator", ["Add", "Mul", "MatMul"])
@pytest.mark.parametrize(
    ("left", "right", "declared"),
    [
        ((1, 4, 4), (3, 4, 4), ("N,4,4", "M,4,4")),
        ((3, 4, 4), (1, 4, 4), ("N,4,4", "M,4,4")),
        ((3, 4, 4), (4, 4), ("N,4,4", "4,4")),
        ((1, 4, 4), (4, 4), ("N,K,4", "4,4")),
        ((4, 4), (1, 4, 4), ("N,4", "1,4,4")),
        ((1, 1), (4, 1), ("N,M", "4,1")),
    ],
)
def test_a_gradient_is_summed_over_what_is_broadcast_in_a_run(operator, left, right, declared):
    if operator == "MatMul" and left[-1] != right[-2]:
        left, right = left[::-1], right[::-1]
        declared = (declared[0], "1,4")
    model = square_loss(f"double[{declared[0]}] x, double[{declared[1]}] w", f"{operator}(x, w)")
    feeds = {"x": random.uniform(0.5, 2, left), "w": random.uniform(0.5, 2, right)}
    assert_gradients(model, feeds, ["x", "w"], tolerance=1e-6)


def test_each_node_of_a_gradient_is_read():
    model = pyopnb.parse(
        "(float[N,4] x, float[4,3] w, float[3] b) => (float loss) "
        "{ z = MatMul(x, w)  y = Add(z, b)  loss = ReduceSum<keepdims = 0>(y) }"
    )
    graph = grad(model, ["w", "b"]).graph
    read = {name for node in graph.node for name in node.input}
    read |= {output.name for output in graph.output}
    assert read.issuperset(node.output[0] for node in graph.node)
    assert read.issuperset(tensor.name for tensor in graph.initializer)


def test_layers_are_derived_without_nodes_that_copy_or_turn():
    model = pyopnb.parse(
        """(double[N,4] x, double[4,4] w, double[4] b, double[4,4] v, double[4] c) => (double loss) {
            m = MatMul(x, w)  a = Add(m, b)  t = Tanh(a)
            p = MatMul(t, v)  q = Add(p, c)  s = Sigmoid(q)  loss = ReduceSum<keepdims = 0>(s) }"""
    )
    wrt = ["w", "b", "v", "c"]
    operators = [node.op_type for node in grad(model, wrt).graph.node]
    # Those of the sum at the end are there.
    assert operators.count("Unsqueeze") <= 1
    assert operators.count("Squeeze") <= 1
    assert {"Identity", "Reshape"}.isdisjoint(operators)
    sizes = {"x": (3, 4), "w": (4, 4), "b": 4, "v": (4, 4), "c": 4}
    feeds = {name: random.normal(size=size) for name, size in sizes.items()}
    assert_gradients(model, feeds, wrt, tolerance=1e-6)


def test_two_weights_of_one_gradient_each_have_it():
    model = summed(
        "a = Add(w, v)  b = Tanh(a)  y = Mul(b, x)", "double[3] x, double[3] w, double[3] v"
    )
    feeds = {name: random.normal(size=3) for name in "xwv"}
    assert_gradients(model, feeds, ["w", "v"], tolerance=1e-6)


def test_sizes_that_share_a_name_are_not_compared_when_the_gradient_runs():
    model = pyopnb.parse(
        """(float[N,4] x, float[4,3] w, float[3] b) => (float loss) {
            m = MatMul(x, w)  a = Add(m, b)  t = Tanh(a)  s = Mul(t, a)  loss = ReduceSum<keepdims = 0>(s) }"""
    )
    derived = pyopnb.grad(model, ["x", "w", "b"])
    operators = {node.op_type for node in derived.graph.node}
    assert operators.isdisjoint({"NonZero", "Equal"})
    rows = np.random.default_rng(0).normal(size=(1, 4)).astype(np.float32)
    feeds = {"w": np.ones((4, 3), np.float32), "b": np.float32([1, 2, 3])}
    results = pyopnb.run(derived, x=rows, **feeds)
    assert results["grad_x"].shape == (1, 4)
    assert results["grad_w"].shape == (4, 3)
    assert results["grad_b"].shape == (3,)


def test_a_name_in_the_hint_of_an_op_may_be_two_sizes(define):
    define("""
        @pyopnb.pyop("demo::First")
        class First:
            def __init__(self, count: int = 1): self.count = count
            def compute(self, x: "float32[N]") -> "float32[K]": return x[:self.count]
            def backward(self, inputs, outputs, grads):
                gradient = np.zeros_like(inputs[0])
                gradient[:self.count] = grads[0]
                return gradient
        """)
    model = pyopnb.parse(
        """(float[N] x) => (float loss) {
            a = demo.First<count = 1>(x)  b = demo.First<count = 3>(x)  c = Mul(a, b)  loss = ReduceSum<keepdims = 0>(c) }"""
    )
    derived = pyopnb.grad(model, "x", feeds={"x": np.float32([1, 2, 3, 4])})
    assert pyopnb.run(derived, x=[1, 2, 3, 4])["grad_x"].tolist() == [7, 1, 1, 0]
