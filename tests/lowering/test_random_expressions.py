"""Expressions that nobody thought of: what is traced gives NumPy's results at two shapes, or is refused."""

from __future__ import annotations

import linecache
import os
import warnings

import numpy as np
import onnxruntime
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from random_bodies import run_seeds

import pyopnb
from pyopnb.lowering.trace_op import trace_op
from pyopnb.lowering.verify import called
from pyopnb.models.ort_capabilities import takes_empty
from pyopnb.ops.op import Op
from pyopnb.testing.subject import Example, Subject

# Each gives an array of the shape of x and y, [A,B], from one or two of them; v is [B], i int64[B] below A, m bool[A,B].
UNARY = [
    "-{a}", "abs({a})", "np.tanh({a})", "np.exp(np.minimum({a}, 3))", "np.sqrt(np.abs({a}))", "np.log1p(np.abs({a}))", "np.sign({a})", "np.square({a})",
    "np.floor({a})", "np.round({a}, 1)", "{a} ** 2", "{a} ** 3", "1 / ({a} * {a} + 1)", "{a} // 0.7", "{a} % 0.7", "{a}[::-1]", "{a}[:, ::-1]", "{a}.T.T",
    "({a} - {a}.mean(-1, keepdims=True))", "({a} - {a}.max(axis=0))", "({a} / ({a}.std() + 1))", "{a} + {a}.sum(1)[:, None]", "{a} * {a}.min()", "np.clip({a}, -1, 1)",
    "np.cumsum({a}, axis=1)", "np.cumsum({a}, 0)", "np.sort({a}, axis=1)", "np.sort({a}, 0)", "np.roll({a}, 1, axis=1)", "np.roll({a}, -2)", "np.flip({a})", "np.tril({a})",
    "np.where({a} > 0, {a}, 0)", "np.take({a}, i, axis=0)[: {a}.shape[0]]", "{a}[i[: {a}.shape[0]]]", "np.take_along_axis({a}, np.argsort({a}, 1, kind='stable'), 1)",
    "{a}.reshape(-1).reshape({a}.shape)", "{a}.reshape({a}.shape[1], -1).reshape({a}.shape)", "{a} * {a}.shape[0]", "{a} / np.sqrt({a}.shape[1])", "{a} + np.arange({a}.shape[1])",
    "{a} + np.arange({a}.shape[0])[:, None] * 0.5", "{a}.astype(np.float32).astype(np.float64)", "({a} * 4).astype(np.int64) / 3", "({a} > {a}.mean()) * {a}", "np.isnan({a}) + {a}",
    "np.linalg.norm({a}, axis=1, keepdims=True) + {a}", "np.einsum('ij,ij->i', {a}, {a})[:, None] + {a}", "({a} @ {a}.T) @ {a}", "np.concatenate([{a}, {a}], 0)[{a}.shape[0]:]", "np.stack([{a}, -{a}], 1)[:, 0]",
    "np.pad({a}, ((1, 0), (0, 0)))[1:]", "np.repeat({a}, 2, axis=1)[:, ::2]", "np.tile({a}, (1, 2))[:, : {a}.shape[1]]", "np.ones_like({a}) + {a}", "np.full({a}.shape, 2.0) * {a}",
    "np.broadcast_to({a}[0], {a}.shape)", "np.broadcast_to({a}[:, :1], {a}.shape)", "{a}[:, None, :].sum(1)", "{a}[..., -1:] + {a}", "np.argmax({a}, axis=1)[:, None] + {a}", "({a} - np.median({a}, axis=1, keepdims=True))",
    "({a} - np.quantile({a}, 0.3, axis=1)[:, None])", "np.percentile({a}, 77, axis=0, keepdims=True) + {a}", "np.quantile({a}, 0.5 + 0.4) * {a}",
    "written({a})", "masked({a})", "rows({a})",
]  # fmt: skip
BINARY = [
    "{a} + {b}", "{a} - {b}", "{a} * {b}", "{a} / (np.abs({b}) + 1)", "np.maximum({a}, {b})", "np.minimum({a}, {b})", "np.where({a} > {b}, {a}, {b})", "np.where(m, {a}, {b})",
    "({a} @ {b}.T) @ {a}", "np.einsum('ij,kj->ik', {a}, {b}) @ {b}", "np.fmax({a}, {b})", "{a} % (np.abs({b}) + 0.3)", "np.where(np.isclose({a}, {b}), 0, {a})", "(({a} < {b}) | m) * {a}", "{a} + v * {b}", "np.hypot({a}.astype(np.float32), {b}.astype(np.float32)) + {a}",
    "np.select([{a} > 1, {b} > 0], [{a}, {b}], v)", "put({a}, {b})",
]  # fmt: skip
HELPERS = """
import numpy as np

def written(a):
    y = a.copy()
    y[:, 0] += 1
    y[y < 0] *= -1
    view = y[-1]
    view -= 2
    return y

def masked(a):
    y = np.zeros_like(a)
    y[a > 0] = a[a > 0]
    return y

def rows(a):
    y = np.empty((a.shape[0], a.shape[1]), a.dtype)
    y[...] = 1
    y[1:, :] = a[:-1]
    return y

def put(a, b):
    y = a.copy()
    y[0] = b[-1]
    y[:, -1] = b[:, 0]
    return y
"""
LEAVES = ["x", "y", "(v + x)", "(n * 0.5)", "(m * y)"]

expressions = st.recursive(
    st.sampled_from(LEAVES),
    lambda inner: st.one_of(
        st.builds(lambda form, a: f"({form.format(a=a)})", st.sampled_from(UNARY), inner),
        st.builds(
            lambda form, a, b: f"({form.format(a=a, b=b)})", st.sampled_from(BINARY), inner, inner
        ),
    ),
    max_leaves=5,
)


def arrays(seed: int, rows: int, columns: int) -> tuple[np.ndarray, ...]:
    random = np.random.default_rng(seed)
    x, y = (random.normal(size=(rows, columns)) for _ in "xy")
    n = random.integers(-3, 4, (rows, columns)).astype(np.int32)
    return (
        x,
        y,
        random.normal(size=columns),
        random.integers(0, max(rows, 1), rows + 1),
        n,
        random.random((rows, columns)) < 0.5,
    )


def subject_of(expression: str) -> Subject:
    source = f'{HELPERS}\nclass Random:\n    def compute(self, x, y, v, i, n, m) -> "float64[...]":\n        return np.asarray({expression}, np.float64)\n'
    file = "<random expression>"
    linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
    names: dict = {}
    exec(compile(source, file, "exec"), names)
    op: Op = pyopnb.registry.define(names["Random"], "demo::Random")
    return Subject(pyopnb.registry["demo::Random"] if not isinstance(op, Op) else op, [])


def _without_elements(seed: int) -> list[Example]:
    return [Example(arrays(seed, rows, columns), {}) for rows, columns in ((0, 5), (4, 0))]


def _call(subject: Subject, example: Example) -> tuple[np.ndarray, ...] | None:
    try:
        return subject.call(example)
    except Exception:
        return None


@given(expressions, st.integers(0, 10))
@settings(max_examples=40)
def test_what_is_traced_is_right_at_two_shapes_and_without_elements(expression, seed):
    if len(expression) > 600:
        return
    subject = subject_of(expression)
    examples = [Example(arrays(seed, 4, 5), {}), Example(arrays(seed + 1, 3, 7), {})]
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        expected = [subject.call(example) for example in examples]
        empty = [
            (example, results)
            for example in _without_elements(seed)
            if (results := _call(subject, example)) is not None
        ]
        lowered = trace_op(subject, examples[0], expected[0], opset=20)
    if not takes_empty():
        empty = []
    model = called(lowered, subject, examples[0], expected[0])
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    # onnxruntime 1.25 fuses products of float64 into an operator that it has no kernel of float64 for.
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), options, ["CPUExecutionProvider"]
    )
    for example, want in [*zip(examples, expected, strict=True), *empty]:
        try:
            (got,) = session.run(None, example.feeds())
        except Exception:  # some kernels refuse what is empty, which is no wrong number
            assert not all(array.size for array in example.inputs), expression
            continue
        finite = np.abs(want[0][np.isfinite(want[0])]).max(initial=1.0)
        pyopnb.testing.assert_close(
            got, want[0], rtol=1e-6, atol=1e-9 * float(finite), where=expression
        )


SAMPLE = 300


def test_random_bodies_of_all_dtypes_give_numpys_numbers():
    tally = run_seeds(range(SAMPLE))
    assert not tally.wrong, tally
    assert tally.converted > SAMPLE // 2


@pytest.mark.everywhere
def test_a_hundred_thousand_random_bodies_give_numpys_numbers():
    count = int(os.environ.get("PYOPNB_LOWER_BODIES", "100000"))
    tally = run_seeds(range(SAMPLE, SAMPLE + count))
    print(tally)
    assert not tally.wrong, tally
