"""A run in half precision against one in float32: rounding is no difference, and what is lost is named."""

from __future__ import annotations

import re

import numpy as np
import onnx
import pytest

import pyopnb
from pyopnb.diffs.traces.half_insides import opened, summed

HEAD = '<ir_version: 10, opset_import: ["": 21]> g (float[N] x) => (float[N] y)'
BODIES = {
    "kind": "a = Mul(IN, IN)  b = Exp(a)  c = Sqrt(b)  OUT = Neg(c)",
    "overflow": "a = Mul(IN, IN)  b = Mul(a, a)  c = Sqrt(b)  OUT = Neg(c)",
    "flushed": "a = Mul(IN, IN)  b = Mul(a, a)  c = Neg(b)  OUT = Reciprocal(c)",
    "sum": "axis = Constant<value = int64 {0}>()  a = CumSum(IN, axis)  OUT = Sqrt(a)",
    "mean": "a = ReduceMean(IN)  OUT = Sqrt(a)",
}


def models(body, to):
    wide = body.replace("IN", "x").replace("OUT", "y")
    half = f"h = Cast<to = {to}>(x)  {body.replace('IN', 'h').replace('OUT', 'z')}  y = Cast<to = 1>(z)"
    return [onnx.parser.parse_model(f"{HEAD} {{ {text} }}") for text in (wide, half)]


def traces(name, x, to=10, **more):
    wide, half = models(BODIES[name], to)
    x = np.float32(x)
    return pyopnb.trace(wide, x=x), pyopnb.trace(half, x=x, **more)


@pytest.mark.parametrize("to", [10, 16])
@pytest.mark.parametrize("turned", [False, True])
def test_rounding_is_no_difference(to, turned):
    sides = traces("kind", np.linspace(0.1, 1.5, 20), to, on="reference")
    diff = pyopnb.diff(*(reversed(sides) if turned else sides))
    assert diff.ok and diff.origin is None
    assert not any(step.verdict == "origin" for step in diff.steps)
    # A diff that was saved says the same of itself.
    assert type(diff).from_json(diff.to_json()).judged(stol=True).ok


@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize(
    ("name", "x", "node", "words"),
    [
        (
            "overflow",
            [1, 20, 200],
            "b (Mul)",
            r"b overflows float16 to infinity: 2 of 3 elements, up to 1.6e\+09, beyond 6.55e\+04",
        ),
        (
            "sum",
            np.ones(3000),
            "a (CumSum)",
            r"a lost small terms of its sum: float16 keeps 11 bits",
        ),
        (
            "mean",
            np.linspace(2000, 3000, 64),
            "a (ReduceMean)",
            "a adds up beyond the range of float16: the same inputs in float32 give up to 2500",
        ),
    ],
)
def test_what_is_lost_is_named_at_its_node(name, x, node, words, turned):
    with np.errstate(over="ignore"):
        sides = traces(name, x, on="reference")
    diff = pyopnb.diff(*(reversed(sides) if turned else sides))
    assert not diff.ok and diff.origin.name == node
    assert any(_matches(words, change) for change in diff.origin.changes)
    assert _matches(words, str(diff))


def test_nodes_that_pass_an_overflow_on_are_no_origins():
    """After 162,755 became infinite, the Softmax gives NaN, and that is not its own fault."""
    body = "a = Exp(IN)  b = Neg(a)  OUT = Softmax<axis = 0>(a)"
    wide, half = models(body, 10)
    x = np.float32([1, 2, 12])
    with np.errstate(over="ignore", invalid="ignore"):
        diff = pyopnb.diff(
            pyopnb.trace(wide, x=x, on="reference"), pyopnb.trace(half, x=x, on="reference")
        )
    assert [step.name for step in diff.steps if step.verdict == "origin"] == ["a (Exp)"]
    assert str(diff).count("overflows float16 to infinity") == 1


def test_zeros_are_named_where_they_matter():
    with np.errstate(divide="ignore"):
        diff = pyopnb.diff(*traces("flushed", [0.01, 0.5], on="reference"))
    assert diff.origin.name == "y (Cast)" and diff.origin.between == ("z (Reciprocal)",)
    assert any(
        _matches(r"c is flushed to zero in float16: 1 of 2 elements, from 1e-08, below 5.96e-08", x)
        for x in diff.origin.changes
    )


def test_a_zero_of_another_reason_is_not_called_flushed():
    """A sum that was rounded below 0 is 0 after a Relu."""
    body = "k = Constant<value_float = 1000.0>()  l = CastLike(k, IN)  a = Mul(IN, l)  s = Constant<value_float = 1001.2>()  t = CastLike(s, IN)  d = Sub(a, t)  OUT = Relu(d)"
    wide, half = models(body, 10)
    x = np.float32([1.0014, 2])
    diff = pyopnb.diff(
        pyopnb.trace(wide, x=x), pyopnb.trace(half, x=x, on="reference"), rtol=0, atol=1e-3
    )
    assert not diff.ok and "flushed" not in str(diff)


def _matches(pattern, text):
    return re.search(pattern, text) is not None


@pytest.mark.parametrize("turned", [False, True])
def test_first_divergence_takes_rounding_for_no_difference(turned):
    pair = models(BODIES["kind"], 10)
    feeds = {"x": np.linspace(0.1, 1.5, 20, dtype=np.float32)}
    diff = pyopnb.first_divergence(*(reversed(pair) if turned else pair), feeds, on="reference")
    assert diff.ok and diff.origin is None


@pytest.mark.parametrize(
    "body",
    [
        "a = Mul(IN, IN)  OUT = Sqrt(a)",
        "a = Exp(IN)  OUT = Neg(a)",
        "k = Neg(IN)  l = Neg(k)  a = Mul(l, k)  b = Neg(a)  OUT = Sqrt(b)",
    ],
)
def test_first_divergence_on_the_reference_says_what_the_traces_say(body):
    wide, half = models(body, 10)
    x = np.float32([1, 2, 300]) if "Mul" in body else np.float32([1, 12])
    with np.errstate(all="ignore"):
        sides = [pyopnb.trace(model, x=x, on="reference") for model in (wide, half)]
    found = pyopnb.first_divergence(wide, half, {"x": x}, on="reference")
    expected = pyopnb.diff(*sides).origin
    assert found.origins and found.origin.name == expected.name
    assert any("overflows float16" in change for change in found.origin.changes)


NETWORK = """<ir_version: 10, opset_import: ["": 21]>
    net (float[N,4] x) => (float[N,4] y)
    <float[4,4] w = {1000000, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1}, float least = {1e-8}> {
        [first] h = Neg(x)
        [second] k = Mul(h, h)
        [third] l = Sqrt(k)
        [fourth] m = Neg(l)
        [fifth] n = BODY
        [last] y = Neg(n)
    }"""


@pytest.mark.parametrize("on", ["onnxruntime", "reference"])
@pytest.mark.parametrize(
    ("body", "largest", "node", "words", "kept"),
    [
        (
            "Neg(m)",
            300.3,
            "second (Mul)",
            "k overflows float16 to infinity: 1 of",
            {"second", "third"},
        ),
        (
            "MatMul(m, w)",
            3,
            "fifth (MatMul)",
            "w overflows float16 to infinity: 1 of",
            {"fifth", "last"},
        ),
        (
            "Div(m, least)",
            3,
            "fifth (Div)",
            "least is flushed to zero in float16",
            {"fifth", "last"},
        ),
    ],
)
def test_one_call_says_what_half_precision_loses(on, body, largest, node, words, kept):
    model = pyopnb.parse(NETWORK.replace("BODY", body))
    x = np.float32([[1, -1, 2, largest], [1 / 3, 1, 1, 2]])
    found = pyopnb.first_divergence(model, "float16", {"x": x}, on=on)
    assert found.origin.name == node and not found.ok
    assert any(change.startswith(words) for change in found.origin.changes)
    assert set(found.node_block_list) == kept and found.with_block_list == "close"
    assert f"with node_block_list, {', '.join(found.node_block_list)}, in float32: close" in str(
        found
    )
    assert type(found).from_json(found.to_json()) == found
    assert model == pyopnb.parse(NETWORK.replace("BODY", body))


@pytest.mark.parametrize("half", ["float16", "bfloat16"])
def test_ordinary_numbers_lose_nothing_in_half_precision(half):
    model = pyopnb.parse(NETWORK.replace("BODY", "Add(m, m)"))
    found = pyopnb.first_divergence(model, half, {"x": np.ones((2, 4), np.float32) / 3})
    assert found.ok and found.origin is None and found.node_block_list == ()
    assert found["y"].diff.verdict == "close" and half in found.b


def test_bodies_round_too():
    model = pyopnb.parse("""<ir_version: 10, opset_import: ["": 21]>
        net (float[N] x, bool c) => (float[N] y) {
            a = Neg(x)
            b = If(c) <then_branch = t () => (float[N] p) { q = Mul(a, a)  p = Sqrt(q) },
                else_branch = e () => (float[N] p) { p = Abs(a) }>
            y = Neg(b)
        }""")
    x = np.float32([1.1, 2, 300])
    found = pyopnb.first_divergence(model, "float16", {"x": x, "c": np.array(True)})
    assert found.origin.name == "b (If)"
    assert "b" in found.node_block_list and found.with_block_list == "close"
    assert pyopnb.first_divergence(model, "float16", {"x": x, "c": np.array(False)}).ok


def test_all_nodes_of_a_long_overflow_are_kept():
    """Each node makes the numbers 100 times larger, and the last ones make them small again."""
    large, small = np.float32(100), np.float32(0.01)
    nodes = [onnx.helper.make_node("Mul", [f"t{n}", "up"], [f"t{n + 1}"]) for n in range(8)]
    nodes += [onnx.helper.make_node("Mul", [f"t{n}", "down"], [f"t{n + 1}"]) for n in range(8, 16)]
    ends = [
        onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [3])
        for name in ("t0", "t16")
    ]
    weights = [
        onnx.numpy_helper.from_array(x, name) for x, name in ((large, "up"), (small, "down"))
    ]
    graph = onnx.helper.make_graph(nodes, "chain", ends[:1], ends[1:], weights)
    model = onnx.helper.make_model(
        graph, opset_imports=[onnx.helper.make_opsetid("", 21)], ir_version=10
    )
    found = pyopnb.first_divergence(model, "float16", {"t0": np.float32([1.1, 2, 3])})
    # Up to 30,000 after the second node; the one before the fourteenth is in the range again.
    assert found.node_block_list == tuple(f"t{n}" for n in range(3, 15))
    assert found.origin.a == "t3 (Mul)" and found.with_block_list == "close"


def test_scales_of_a_resize_are_not_rounded():
    model = pyopnb.parse("""<ir_version: 10, opset_import: ["": 21]>
        net (float[1,1,3,3] x, int64[4] thirds) => (float[1,1,h,w] y) <float three = {3}> {
            f = Cast<to = 1>(thirds)
            s = Div(f, three)
            y = Resize<mode = "nearest">(x, , s)
        }""")
    x = np.arange(9, dtype=np.float32).reshape(1, 1, 3, 3)
    # In float16, three times the scale 4 / 3 is less than 4.
    feeds = {"x": x, "thirds": np.array([3, 3, 4, 4])}
    for half in ("float16", "bfloat16"):
        assert pyopnb.first_divergence(model, half, feeds)["y"].diff.ok


def test_bodies_that_declare_their_tensors_and_operators_without_float16_round_too():
    model = onnx.parser.parse_model("""<ir_version: 10, opset_import: ["": 21, "ai.onnx.ml": 3]>
        net (float[N,3] x, bool c) => (float[N,3] y) {
            b = If(c) <then_branch = t () => (float[N,3] p) <float[N,3] q> { q = Abs(x)  p = Neg(q) },
                else_branch = e () => (float[N,3] r) { r = Neg(x) }>
            d = Mul(b, b)
            y = ai.onnx.ml.Normalizer<norm = "L1">(d)
        }""")
    x = np.float32([[1, 2, 300.3]])
    found = pyopnb.first_divergence(model, "float16", {"x": x, "c": np.array(True)})
    assert found.origin.name == "d (Mul)" and found.with_block_list == "close"


@pytest.mark.parametrize(
    ("half", "opset", "sums"),
    [("float16", 5, "float32"), ("bfloat16", 12, "float32"), ("float16", 17, "float16")],
)
def test_opsets_without_the_dtype_say_what_to_type(half, opset, sums):
    text = (
        "<ir_version: 8, opset_import: ['': OPSET]> g (float[N] x) => (float[N] y) { y = Neg(x) }"
    )
    model = pyopnb.parse(text.replace("OPSET", str(opset)).replace("'", '"'))
    with pytest.raises(
        pyopnb.errors.ModelError, match="version_converter.convert_version"
    ) as error:
        pyopnb.first_divergence(model, half, {"x": np.ones(2, np.float32)}, accumulate=sums)
    newer = eval(str(error.value).partition("Try: ")[2], {"onnx": onnx, "model": model})
    feeds = {"x": np.ones(2, np.float32)}
    assert pyopnb.first_divergence(newer, half, feeds, accumulate=sums).ok


# ---- sums in half precision, and the inside of nodes -------------------------------------------------

CONSTANTS = """
    rows = Constant<value = float[3,4] {1, 2, 3, 4, 0, 1, 0, 1, -1, -2, 2, 1}>()
    w = Constant<value = float[4,4] {1, 2, 3, 4, 0, 1, 0, 1, -1, -2, 2, 1, 1, 1, 0, 1}>()
    batch = Constant<value = float[2,1,4,1] {1, 2, 3, 4, 0, 1, 0, 1}>()
    last = Constant<value_floats = [1.0, 2.0, -1.0, 0.5]>()
    three = Constant<value_floats = [1.0, 2.0, -1.0]>()
    both = Constant<value_ints = [-1, 1]>()
    powers = Exp(x)
    ints = Cast<to = 7>(x)
"""


def adding_model(call):
    return onnx.parser.parse_model(
        f"""<ir_version: 10, opset_import: ["": 23]>
        net (float[2,3,4] x, float[4,2] m, int64[1] axis) => (z)
        {{ {CONSTANTS} {call}  y = Cast<to = 1>(k)  z = Neg(y) }}"""
    )


@pytest.mark.parametrize(
    "call",
    [
        "k = LayerNormalization<axis = 1, epsilon = 0.5>(x, rows, rows)",
        "k = LayerNormalization(x, last)",
        "l, mean, inverse = LayerNormalization(x, last, last)  k = Concat<axis = 2>(l, mean, inverse)",
        "k = RMSNormalization<axis = -2>(x, rows)",
        "k = InstanceNormalization(x, three, three)",
        "k = Softmax<axis = 1>(x)",
        "k = LogSoftmax(x)",
        "k = Gemm<transA = 1, alpha = 0.5, beta = 2.0>(m, w, last)",
        "k = Gemm<transB = 1>(w, w)",
        "k = MatMul(x, w)",
        "k = MatMul(x, batch)",
        "k = MatMul(x, last)",
        "k = GlobalAveragePool(x)",
        "k = ReduceL1<keepdims = 0>(x, both)",
        "k = ReduceL2(x, both)",
        "k = ReduceLogSum(powers, both)",
        "k = ReduceLogSumExp<keepdims = 0>(x, both)",
        "k = ReduceMean<keepdims = 0>(x, both)",
        "k = ReduceMean<noop_with_empty_axes = 1>(x)",
        "k = ReduceSumSquare(x)",
        "k = ReduceSum<keepdims = 0>(x, both)",
        "k = ReduceSum(x, axis)",
        "k = ReduceSum(ints)",
    ],
)
def test_the_inside_of_a_node_computes_what_the_node_does(call):
    rng = np.random.default_rng(0)
    feeds = {"x": rng.normal(size=(2, 3, 4)), "m": rng.normal(size=(4, 2)), "axis": np.array([1])}
    feeds |= {name: feeds[name].astype(np.float32) for name in "xm"}
    model = adding_model(call)
    inside, _ = opened(model, sums=True)
    expected = pyopnb.Session(model).run(None, feeds)[0]
    for written in (inside, summed(inside, ())):
        got = pyopnb.Session(written).run(None, feeds)[0]
        np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-6)


def test_what_adds_up_is_written_out():
    calls = "l = LayerNormalization(x, last)  s = Softmax(l)  t = ReduceMean(s)  k = Gemm(m, m, t)"
    ops = {node.op_type for node in opened(adding_model(calls), sums=True)[0].graph.node}
    assert not ops & {"LayerNormalization", "Softmax", "ReduceMean", "Gemm"}
    # Sums of ints need no rounding.
    for call, loops in (
        ("k = ReduceSum(x, axis)", 1),
        ("k = MatMul(x, w)", 1),
        # One for each factor that may have to be turned.
        ("k = Gemm<transB = 1>(w, w)", 3),
        ("k = ReduceSum(ints)", 0),
    ):
        nodes = summed(opened(adding_model(call), sums=True)[0], ()).graph.node
        assert [node.op_type for node in nodes].count("Loop") == loops


def adding_up(call, x):
    ones = "ones = Constant<value_floats = [1.0, 1.0, 1.0, 1.0]>()"
    signs = "signs = Constant<value = float[4,1] {300, 300, -300, -300}>()"
    head = '<ir_version: 10, opset_import: ["": 21]> net (float[A,B] x, bool c) => (float[C,D] y)'
    model = onnx.parser.parse_model(f"{head} {{ {ones} {signs} {call}  [last] y = Neg(k) }}")
    return model, {"x": np.float32(x), "c": np.array(True)}


CASES = [
    (
        "[ln] k = LayerNormalization(x, ones)",
        [[300, -300, 300, -300], [1, 2, 3, 4]],
        r"ln \(LayerNormalization\), inside: square\w* \(Mul\)",
        r"square\w* overflows float16 to infinity: 4 of 8 elements, up to 9e\+04, beyond 6.55e\+04",
        ["ln"],
    ),
    (
        "[adds] k = ReduceSum(x)",
        np.ones((1, 4096)),
        r"adds \(ReduceSum\)",
        r"k lost small terms of its sum: float16 keeps 11 bits.* up to 2048 more or less",
        ["adds"],
    ),
    (
        "k = ReduceMean(x)",
        np.full((1, 64), 2500),
        r"k \(ReduceMean\), inside: sum\w* \(ReduceSum\)",
        r"sum\w* overflows float16 to infinity: 1 of 1 element, up to 1.6e\+05",
        ["k"],
    ),
    (
        "[sm] k = Softmax(x)",
        np.zeros((2, 5000)),
        r"sm \(Softmax\), inside: total\w* \(ReduceSum\)",
        r"total\w* lost small terms of its sum.* up to 2952 more or less",
        ["sm"],
    ),
    (
        "[mm] k = MatMul(x, signs)",
        [[300, 300, 300, 300], [1, 2, 3, 4]],
        r"mm \(MatMul\)",
        "k adds up beyond the range of float16: the same inputs in float32 give up to 1200",
        ["mm"],
    ),
]


# The reference evaluator takes its time for thousands of terms.
ON = [(*case, "onnxruntime") for case in CASES] + [
    (*CASES[0], "reference"),
    (*CASES[4], "reference"),
]


@pytest.mark.parametrize(("call", "x", "node", "words", "kept", "on"), ON)
def test_sums_in_float16_say_what_overflows_and_what_is_lost(call, x, node, words, kept, on):
    model, feeds = adding_up(call, x)
    found = pyopnb.first_divergence(model, "float16", feeds, accumulate="float16", on=on)
    assert not found.ok and re.fullmatch(node, found.origin.name)
    assert any(re.search(words, change) for change in found.origin.changes)
    assert found.node_block_list[: len(kept)] == tuple(kept)
    assert found.with_block_list in ("close", "bit-identical")
    # Sums in float32 hold all of these.
    assert pyopnb.first_divergence(model, "float16", feeds, on=on).ok


def test_sums_of_few_terms_lose_nothing_in_float16():
    model, feeds = adding_up("l = LayerNormalization(x, ones)  k = Softmax(l)", [[1, 2, 3, 4]])
    assert pyopnb.first_divergence(model, "float16", feeds, accumulate="float16").ok
    # 100 ± 1 has a variance, although 100² leaves no digits for it.
    model, feeds = adding_up("k = LayerNormalization(x, ones)", [[99, 101, 100, 100.5]])
    assert pyopnb.first_divergence(model, "float16", feeds, accumulate="float16").ok


def test_sums_in_bodies_are_in_float16_too():
    body = "t () => (p) { q = ReduceSum(x)  p = Sqrt(q) }, else_branch = e () => (p) { p = Abs(x) }"
    model, feeds = adding_up(f"[branch] k = If(c) <then_branch = {body}>", np.ones((1, 4096)))
    found = pyopnb.first_divergence(model, "float16", feeds, accumulate="float16")
    assert found.origin.name == "branch (If)" and "branch" in found.node_block_list
    assert found["y"].diff.worst.facts.largest == 64 - np.float16(2048**0.5)
    assert found.with_block_list == "bit-identical"


def test_local_functions_round_too():
    model = onnx.parser.parse_model("""<ir_version: 10, opset_import: ["": 21, "my": 1]>
        net (float[N] x) => (float[N] y) { [call] k = my.root(x)  [last] y = Neg(k) }
        <domain: "my", opset_import: ["": 21]> root (x) => (y) { a = Mul(x, x)  y = Sqrt(a) }""")
    found = pyopnb.first_divergence(model, "float16", {"x": np.float32([300.3, 2])})
    assert re.fullmatch(r"call \(my::root\), inside: a\w* \(Mul\)", found.origin.name)
    assert found.node_block_list == ("call",) and found.with_block_list == "close"


def test_sums_of_nothing_and_of_special_numbers_are_the_same_in_float16():
    for x in (np.ones((0, 4)), [[np.inf, 1]], [[np.nan, 1]], [[-0.0, -0.0]], [[7]]):
        for call in ("k = ReduceSum(x)", "t = Transpose(x)  k = MatMul(t, x)", "k = ReduceMean(x)"):
            model, feeds = adding_up(call, x)
            assert pyopnb.first_divergence(model, "float16", feeds, accumulate="float16").ok


def test_sums_in_another_dtype_say_what_to_type():
    model, feeds = adding_up("k = ReduceSum(x)", np.ones((1, 4)))
    with pytest.raises(pyopnb.errors.InputError, match='expected "float32" or "float16"') as error:
        pyopnb.first_divergence(model, "float16", feeds, accumulate="bfloat16")
    text = str(error.value).partition("Try: ")[2]
    assert eval(text, {**vars(pyopnb), "model": model, "feeds": feeds}).ok
    with pytest.raises(pyopnb.errors.InputError, match="accumulate"):
        pyopnb.first_divergence(model, model, feeds, accumulate="float16")
