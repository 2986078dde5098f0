"""`pyopnb.grad` through If, Loop and Scan, against differences; and what sequences and optionals between the nodes are refused by."""

from functools import partial

import numpy as np
import pytest
from precise_differences import assert_gradients

import pyopnb
from pyopnb.errors import ModelError

# The tests judge the gradients themselves; what `grad` compares is the subject of test_verify.
grad = partial(pyopnb.grad, verify=False)

SUM = "loss = ReduceSum<keepdims = 0>(y)"
rng = np.random.default_rng(3)
X, H, V = rng.normal(size=3) / 2, rng.normal(size=(4, 3)) / 2, rng.normal(size=3)
YES = "t = Constant<value = bool {1}>()"


def check(text, feeds, wrt):
    derived = assert_gradients(pyopnb.parse(text), feeds, wrt)
    result = pyopnb.run(derived, feeds)
    assert all(np.abs(result[f"grad_{name}"]).max() > 1e-3 for name in wrt), "as right with zeros"
    return derived


LOOP = f"""(double[3] x, double[3] v, int64 n) => (double loss) {{ {YES}
    a, b = Loop(n, t, x) <body = turn (int64 i, bool c, double[3] s) => (bool again, double[3] next, double[3] out)
        {{ again = Identity(c)  p = Mul(s, v)  next = Sin(p)  out = Mul(next, s) }}>
    z = ReduceSum<keepdims = 0>(a)  w = ReduceSum<keepdims = 0>(b)  e = Exp(z)  y = Add(e, w)  {SUM} }}"""


@pytest.mark.parametrize("turns", [1, 3])
def test_a_loop(turns):
    check(LOOP, {"x": X, "v": V, "n": np.int64(turns)}, ["x", "v"])


def test_a_loop_of_no_turns():
    result = pyopnb.run(grad(pyopnb.parse(LOOP), ["x", "v"]), x=X, v=V, n=0)
    np.testing.assert_allclose(result["grad_x"], np.full(3, np.exp(X.sum())))
    assert not result["grad_v"].any()


def test_a_loop_that_ends_by_what_it_computes():
    check(
        f"""(double[3] x, int64 n) => (double loss) {{ {YES}  least = Constant<value = double {{0.1}}>()
            y = Loop(n, t, x) <body = turn (int64 i, bool c, double[3] s) => (bool again, double[3] next)
                {{ next = Mul(s, x)  most = ReduceMax<keepdims = 0>(next)  again = Greater(most, least) }}>
            {SUM} }}""",
        {"x": np.array([0.5, 0.3, 0.2]), "n": np.int64(50)},
        ["x"],
    )


SCAN = f"""(double[3] h, double[{{shape}}] x, double[3] w) => (double loss) {{{{
    last, all = Scan<num_scan_inputs = 1{{attributes}}, body = turn (double[3] s, double[3] e) => (double[3] next, double[3] out)
        {{{{ p = Mul(s, w)  q = Add(p, e)  next = Tanh(q)  out = Mul(next, e) }}}}>(h, x)
    m = Mul(all, x)  a = ReduceSum<keepdims = 0>(m)  y = Mul(last, a)  {SUM} }}}}"""
ACROSS = ", scan_input_axes = [1], scan_input_directions = [1], scan_output_axes = [-1], scan_output_directions = [1]"


@pytest.mark.parametrize(
    ("shape", "attributes", "x"), [("4,3", "", H), ("N,3", "", H), ("3,4", ACROSS, H.T.copy())]
)
def test_a_scan(shape, attributes, x):
    check(
        SCAN.format(shape=shape, attributes=attributes), {"h": X, "x": x, "w": V}, ["h", "x", "w"]
    )


def test_a_scan_in_a_loop():
    check(
        f"""(double[4,3] x, int64 n, double[3] h) => (double loss) {{ {YES}
            y = Loop(n, t, h) <body = turn (int64 i, bool c, double[3] s) => (bool again, double[3] next) {{
                next = Scan<num_scan_inputs = 1, body = inner (double[3] u, double[3] e) => (double[3] r)
                    {{ p = Mul(u, s)  q = Add(p, e)  r = Sin(q) }}>(s, x)
                again = Identity(c) }}>
            {SUM} }}""",
        {"x": H, "n": np.int64(2), "h": X},
        ["x", "h"],
    )


@pytest.mark.parametrize("first", [True, False])
@pytest.mark.parametrize("second", [True, False])
def test_ifs_in_ifs(first, second):
    check(
        f"""(double[3] x, bool c, bool d) => (double loss) {{ q = Mul(x, x)
            y = If(c) <
                then_branch = a () => (double[3] r) {{ r = If(d) <
                    then_branch = aa () => (double[3] w) {{ w = Mul(q, x) }},
                    else_branch = ab () => (double[3] w) {{ w = Sin(q) }}> }},
                else_branch = b () => (double[3] r) {{ r = Exp(x) }}>
            {SUM} }}""",
        {"x": X, "c": np.array(first), "d": np.array(second)},
        ["x"],
    )


@pytest.mark.parametrize("taken", [True, False])
def test_branches_with_constants_of_one_name(taken):
    """onnx-ad knows types and constants by name alone: both branches would be summed over the axis of one."""
    branch = "() => (double r) {{ p = Constant<value_ints = [{}]>()  h = ReduceSum<keepdims = 0>(q, p)  s = Mul(h, h)  r = ReduceSum<keepdims = 0>(s) }}"
    check(
        f"""(double[3,3] x, bool c) => (double loss) {{ q = Mul(x, x)
            y = If(c) <then_branch = a {branch.format(0)}, else_branch = b {branch.format(1)}>  {SUM} }}""",
        {"x": H[:3], "c": np.array(taken)},
        ["x"],
    )


def test_loops_whose_bodies_share_names():
    turn = "body = turn (int64 i, bool c, double[{}] s) => (bool again, double[{}] next) {{ k = Constant<value = double[1] {{{}}}>()  next = Pow(s, k)  again = Identity(c) }}"
    model = f"""(double[3] x, int64 n) => (double loss) {{ {YES}
        a = Loop(n, t, x) <{turn.format(3, 3, 2.0)}>  aa = Concat<axis = 0>(a, a)
        y = Loop(n, t, aa) <{turn.format(6, 6, 3.0)}>  {SUM} }}"""
    derived = check(model, {"x": np.array([0.9, 0.5, 0.7]), "n": np.int64(2)}, ["x"])
    assert [info.name for info in derived.graph.output] == ["loss", "grad_x"]


@pytest.mark.parametrize(
    "nodes",
    [
        "q = Mul(x, x)  s = SequenceConstruct(q, x)  i = Constant<value_int = 0>()  z = SequenceAt(s, i)",
        "s = SplitToSequence(x)  z = ConcatFromSequence<axis = 0>(s)",
        "s = Optional(x)  z = OptionalGetElement(s)",
    ],
)
def test_a_way_through_sequences_and_optionals_beside_another_is_not_taken_for_zero(nodes):
    model = pyopnb.parse(f"(double[3] x) => (double loss) {{ {nodes}  y = Add(z, x)  {SUM} }}")
    with pytest.raises(
        ModelError,
        match=r"the node of output 's' \(::\w+\), gradient: expected an op with a gradient",
    ):
        grad(model, "x")


@pytest.mark.parametrize(
    "around",
    [
        "y = If(c) <then_branch = a () => (double r) {{ {} }}, else_branch = b () => (double z) {{ z = ReduceSum<keepdims = 0>(x) }}>",
        "h = ReduceSum<keepdims = 0>(x)  n = Size(x)  y = Loop(n, c, h) <body = b (int64 i, bool g, double s) => (bool again, double e) {{ again = Identity(g)  {}  e = Add(s, r) }}>",
    ],
)
def test_what_has_no_rule_inside_a_body_is_refused_by_its_name(around):
    text = f"(double[2,2] x, bool c) => (double loss) {{ {around.format('r = Det(x)')}  {SUM} }}"
    with pytest.raises(
        ModelError,
        match=r"the node of output 'r' \(::Det\), gradient: .* got onnx-ad takes .* for zero",
    ):
        grad(pyopnb.parse(text), "x")
