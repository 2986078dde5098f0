"""Which optimizer changed the numbers: it is named, what is named was tried, and nothing is claimed where nothing changed."""

from __future__ import annotations

import math
import os
import re
import tempfile

import numpy as np
import onnx
import onnxruntime
import pytest
from light import feeds, light
from onnx import numpy_helper
from systems import X86_64, needs_nchwc
from transformer import transformer

import pyopnb
from pyopnb.traces import optimized_run

RANDOM = np.random.default_rng(0)


def parsed(body, types, gives="float[?] y", opset=20, **weights):
    head = f'<ir_version: 8, opset_import: ["" : {opset}, "demo" : 1]>'
    model = onnx.parser.parse_model(f"{head} g ({types}) => ({gives}) {{ {body} }}")
    for name, array in weights.items():
        model.graph.initializer.append(numpy_helper.from_array(np.asarray(array), name))
    return model


def normal(*shape):
    return RANDOM.standard_normal(shape).astype(np.float32)


KERNEL = normal(4, 3, 3, 3)
IMAGE = {"x": normal(1, 3, 8, 8)}
GELU = "d = Div(x, s)  e = Erf(d)  a = Add(e, o)  m = Mul(x, a)  y = Mul(m, h)"
HALVES = {"s": np.float16(2**0.5), "o": np.float16(1), "h": np.float16(0.5)}
SINGLES = {"s": np.float32(2**0.5), "o": np.float32(1), "h": np.float32(0.5)}
SCALES = {"s": np.float32(0.1), "z": np.uint8(10), "s2": np.float32(0.07), "z2": np.uint8(100)}
TWICE_QUANTIZED = """
    q = QuantizeLinear(x, s, z)  d = DequantizeLinear(q, s, z)
    p = QuantizeLinear(d, s2, z2)  e = DequantizeLinear(p, s2, z2)  y = Relu(e)"""
FOLDED = {"w": (4, 3, 3, 3), "s": (4,), "b": (4,), "m": (4,), "v": (4,)}
FOLDED = {name: np.abs(normal(*shape)).astype(np.float16) for name, shape in FOLDED.items()}
POOLED = """
    t = Transpose<perm = [0,3,1,2]>(x)  a = AveragePool<kernel_shape = [3,3], pads = [1,1,1,1]>(t)
    c = Conv(a, w)  u = Transpose<perm = [0,2,3,1]>(c)  y = Relu(u)"""
LEVELS = RANDOM.integers(-8, 8, (64, 8)).astype(np.int8)
NORMALIZED = """
    m = ReduceMean<axes = [-1]>(x)  d = Sub(x, m)  p = Pow(d, two)  v = ReduceMean<axes = [-1]>(p)
    e = Add(v, tiny)  r = Sqrt(e)  n = Div(d, r)  g = Mul(n, s)  y = Add(g, b)"""
NORMALIZING = {"two": np.float32(2), "tiny": np.float32(1e-5), "s": normal(64), "b": normal(64)}
CHANGED = {
    "two quantizations of different scales": (
        parsed(TWICE_QUANTIZED, "float[N] x", **SCALES),
        {"x": 10 * normal(50)},
        {},
        ("DoubleQDQPairsRemover",),
        "d + p + e",
    ),
    "a GELU in float16": (
        parsed(GELU, "float16[N,8] x", "float16[N,8] y", **HALVES),
        {"x": normal(16, 8).astype(np.float16)},
        {"rtol": 0, "atol": 0},
        ("GeluFusionL1",),
        "d + e + a + m + y",
    ),
    "a GELU": (
        parsed(GELU, "float[N,8] x", "float[N,8] y", **SINGLES),
        {"x": normal(16, 8)},
        {"rtol": 0, "atol": 0},
        ("GeluFusionL1",),
        "d + e + a + m + y (Div + Erf + Add + Mul + Mul) → Gelu",
    ),
    "a factor that goes into the weights of a Conv": (
        parsed("c = Conv(x, w)  y = Mul(c, k)", "float[1,3,8,8] x", "float[1,4,6,6] y", w=KERNEL, k=normal(4, 1, 1)),
        IMAGE,
        {"rtol": 0, "atol": 0},
        ("Level1_RuleBasedTransformer",),
        "c + y (Conv + Mul) → ",
    ),
    "a product and a sum that become one Gemm": (
        parsed("m = MatMul(x, w)  y = Add(m, b)", "float[6,640] x", "float[6,33] y", w=normal(640, 33), b=normal(33)),
        {"x": normal(6, 640)},
        {"rtol": 0, "atol": 0},
        ("MatMulAddFusion",),
        "m + y (MatMul + Add) → Gemm",
    ),
    "constants that are folded in float16": (
        parsed("c = Conv(x, w)  y = BatchNormalization(c, s, b, m, v)", "float16[1,3,8,8] x", "float16[1,4,6,6] y", **FOLDED),
        {"x": normal(1, 3, 8, 8).astype(np.float16)},
        {"rtol": 0, "atol": 0},
        ("Level1_RuleBasedTransformer",),
        "c + y (Conv + BatchNormalization) → ",
    ),
    "another layout": (
        parsed(POOLED, "float[1,8,8,3] x", "float[1,6,6,16] y", w=normal(16, 3, 3, 3)),
        {"x": normal(1, 8, 8, 3)},
        {"rtol": 0, "atol": 0},
        ("NchwcTransformer",),
        "c + u (Conv + Transpose) → Conv + ReorderOutput",
    ),
    "a dequantized weight whose product quantizes the other side as well": (
        parsed("d = DequantizeLinear(q, s)  y = MatMul(x, d)", "float[4,64] x", "float[4,8] y", q=LEVELS, s=np.float32(0.1)),
        {"x": normal(4, 64)},
        {},
        ("QDQSelectorActionTransformer",),
        "y (MatMul) → MatMulNBits",
    ),
    "a layer normalization far from 0": (
        parsed(NORMALIZED, "float[4,64] x", "float[4,64] y", opset=17, **NORMALIZING),
        {"x": normal(4, 64) + 1000},
        {},
        ("LayerNormFusionL1",),
        ") → LayerNormalization",
    ),
}  # fmt: skip


def test_a_log_in_the_encoding_of_windows_is_read(monkeypatch, capfd):
    """There, ONNX Runtime writes its log in UTF-16."""

    def session_of_windows(*arguments, **options):
        log = os.dup(2)
        with tempfile.TemporaryFile() as file:
            os.dup2(file.fileno(), 2)
            try:
                return pyopnb.Session(*arguments, **options)
            finally:
                os.dup2(log, 2)
                file.seek(0)
                os.write(log, file.read().decode().encode("utf-16-le"))
                os.close(log)

    monkeypatch.setattr(optimized_run, "Session", session_of_windows)
    model, feeds, tolerances, optimizers, _ = CHANGED["a layer normalization far from 0"]
    found = pyopnb.first_divergence(model, feeds, over="optimizers", **tolerances)
    assert set(optimizers) <= set(found.optimizers)
    assert capfd.readouterr() == ("", "")


CASES = [
    pytest.param(case, marks=needs_nchwc) if case == "another layout" else case for case in CHANGED
]


@pytest.mark.parametrize("case", CASES)
def test_the_optimizer_is_named_with_its_nodes_and_the_line_that_works_around_it(case, capfd):
    model, feeds, tolerances, optimizers, nodes = CHANGED[case]
    found = pyopnb.first_divergence(model, feeds, over="optimizers", **tolerances)
    assert not found.ok and found.remaining.ok
    assert set(optimizers) <= set(found.optimizers)
    assert any(nodes in line for line in found.nodes)
    assert found.sessions <= 2 * math.log2(len(found.suspects)) + 4
    assert capfd.readouterr() == ("", "")
    # The line is typed as it is printed, and each of the named optimizers is needed.
    line = found.workaround
    assert repr(found).endswith(line)
    plain = onnxruntime.SessionOptions()
    plain.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    right = dict(pyopnb.Session(model, plain)(feeds))
    names = {"pyopnb": pyopnb, "model": model}
    assert pyopnb.diff(dict(eval(line, names)(feeds)), right, **tolerances).ok
    for name in found.optimizers:
        fewer = re.sub(f", '{name}'|'{name}', |'{name}'", "", line)
        assert not pyopnb.diff(dict(eval(fewer, names)(feeds)), right, **tolerances).ok


UNCHANGED = {
    "nothing to optimize": parsed("y = Abs(x)", "float[N,8] x", "float[N,8] y"),
    "an Identity": parsed("a = Identity(x)  y = Neg(a)", "float[N,8] x", "float[N,8] y"),
    "a Conv and its activation": parsed(
        "r = Reshape(x, s)  c = Conv(r, w)  y = Relu(c)", "float[N,8] x", s=np.int64([-1, 1, 8, 1]), w=normal(2, 1, 1, 1)
    ),
    "MatMul and Add": parsed("m = MatMul(x, w)  y = Add(m, b)", "float[N,8] x", "float[N,4] y", w=normal(8, 4), b=normal(4)),
    "a GELU": parsed(GELU, "float[N,8] x", "float[N,8] y", **SINGLES),
    "a constant": parsed("c = Exp(w)  y = Mul(x, c)", "float[N,8] x", "float[N,8] y", w=normal(8)),
    "Transposes": parsed("a = Transpose(x)  y = Transpose(a)", "float[N,8] x", "float[N,8] y"),
    "a Cast there and back": parsed("a = Cast<to = 10>(x)  b = Cast<to = 1>(a)  y = Neg(b)", "float[N,8] x", "float[N,8] y"),
    "a quantized weight": parsed(
        "q = QuantizeLinear(w, s, z)  d = DequantizeLinear(q, s, z)  y = Mul(x, d)", "float[N,8] x", "float[N,8] y",
        w=normal(8), s=np.float32(0.1), z=np.uint8(128),
    ),
    "a scaled product": parsed("c = Mul(x, k)  y = MatMul(c, w)", "float[N,8] x", "float[N,4] y", w=normal(8, 4), k=np.float32(0.3)),
    "NaN": parsed("a = Log(x)  y = Identity(a)", "float[N,8] x", "float[N,8] y"),
}  # fmt: skip


@pytest.mark.parametrize("name", UNCHANGED)
def test_nothing_is_claimed_where_nothing_changes(name):
    found = pyopnb.first_divergence(UNCHANGED[name], {"x": normal(4, 8)}, over="optimizers")
    assert found.ok and not found.optimizers and not found.workaround
    assert repr(found).startswith("no optimizer changes the numbers")


@pytest.mark.parametrize("name", ["transformer", "squeezenet", "shufflenet"])
def test_of_networks_that_agree_nothing_is_claimed(name):
    """Fusions round otherwise, but within the tolerance: the two runs say so, and no optimizer is tried."""
    if name == "transformer":
        model, values = transformer(blocks=2), {"x": normal(2, 5, 32)}
    else:
        model = light(name)
        values = feeds(model)
    found = pyopnb.first_divergence(model, values, over="optimizers")
    assert found.ok and not found.optimizers and not found.nodes and not found.workaround
    # Two fuse or fold, and on x86-64 one changes the layout of convolutions.
    assert len(found.suspects) >= (3 if X86_64 or name == "transformer" else 2)
    assert found.sessions == 2


def test_a_node_that_is_not_steady_is_no_optimizers_fault(define):
    define("""
        @pyopnb.pyop("demo::Dice")
        class Dice:
            count = 0
            def compute(self, x):
                Dice.count += 1
                return x + np.float32(Dice.count)
    """)
    found = pyopnb.first_divergence(
        parsed("a = Identity(x)  b = demo.Dice(a)  y = Neg(b)", "float[N] x"),
        {"x": normal(4)},
        over="optimizers",
    )
    assert not found.ok and not found.optimizers and "not steady" in repr(found)
