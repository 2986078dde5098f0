"""The comparison of two runs: where they diverge, and what each node does to the difference."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import ModelProto, numpy_helper
from onnxruntime.transformers.float16 import convert_float_to_float16
from transformer import renamed, transformer

import pyopnb
from pyopnb import diff, trace
from pyopnb.diffs.traces.diff import TraceDiff
from pyopnb.diffs.traces.steps import ComparedStep, ComparedTensor

X = np.random.default_rng(0).normal(size=(2, 8, 32)).astype(np.float32)
QUICK: dict[str, Any] = {"check": False, "times": False}


def effects(found: Any) -> dict[str, str]:
    return {step.outputs[0].b: step.verdict for step in found.steps}


def parsed(text: str) -> ModelProto:
    return pyopnb.parse(f'<ir_version: 10, opset_import: ["" : 20, "demo" : 1]> g {text}')


# ---- between two models ----------------------------------------------------------------------------------------------------


def test_one_attribute_of_a_transformer_block_is_the_only_origin() -> None:
    found = diff(trace(transformer(), x=X), trace(transformer("tanh"), x=X))
    assert len(found.steps) == 31
    assert [step.outputs[0].b for step in found.origins] == ["b0.bent"]
    assert found.origin is not None and found.origin.changes == (
        "attr approximate: 'none' → 'tanh'",
    )
    assert found.origin.isolated == found.origin.accumulated > 0 == found.origin.incoming
    assert effects(found)["logits"] == "propagates" and effects(found)["probs"] == "same"
    assert all(step.isolated == 0 for step in found.steps if step is not found.origin)
    assert found.verdict == "different" and not found.ok
    assert len(str(found).splitlines()) <= 12 and "attr approximate: 'none' → 'tanh'" in str(found)


@pytest.mark.parametrize("seed", range(3))
def test_other_names_and_another_order_are_no_change(seed: int) -> None:
    other = renamed(transformer(), seed)
    found = diff(
        trace(transformer(), x=X, **QUICK), trace(other, {other.graph.input[0].name: X}, **QUICK)
    )
    assert found.verdict == "bit-identical" and found.origin is None and found.first is None
    assert len(found.tensors) == 31 and not found.only_a and not found.only_b
    assert {step.verdict for step in found.steps} == {"same"}


def test_what_the_runtime_fused_is_compared_where_it_corresponds(tmp_path: Any) -> None:
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_EXTENDED
    options.optimized_model_filepath, options.log_severity_level = str(tmp_path / "fused.onnx"), 4
    onnxruntime.InferenceSession(
        transformer("tanh").SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    fused = onnx.load(tmp_path / "fused.onnx")
    assert len(fused.graph.node) < 31
    same = diff(trace(transformer("tanh"), x=X, **QUICK), trace(fused, x=X, **QUICK))
    assert same.ok and {"logits", "probs"} <= {tensor.b for tensor in same.tensors}
    found = diff(trace(transformer(), x=X, **QUICK), trace(fused, x=X, **QUICK))
    assert [step.outputs[0].a for step in found.origins] == ["b0.bent"]


def test_a_difference_that_no_output_has_is_no_fault() -> None:
    text = "(float[N] x) => (float[N] y) <float by = {%s}> { a = Mul(x, by)  b = Floor(a)  y = Neg(b) }"
    one, other = (
        trace(parsed(text % by), x=np.float32([1.1, 2.2]), **QUICK) for by in ("2.0", "2.1")
    )
    found = diff(one, other)
    assert effects(found) == {"a": "absorbed", "b": "hides", "y": "same"}
    assert found.origin is None and found.outputs_agree
    head = "different: only inside, 1 of 4 tensors; the outputs are bit-identical"
    assert found.verdict == "different" and str(found).splitlines()[0] == head
    # A difference of the feeds is none inside.
    fed = diff(one, trace(parsed(text % "2.0"), x=np.float32([1.15, 2.25]), **QUICK))
    assert fed.outputs_agree and "inside" not in str(fed).splitlines()[0]
    # With another tolerance, other outputs agree.
    assert not found.judged(atol=1).outputs or found.judged(atol=1).origin is None


def test_two_nodes_that_make_up_for_each_other_are_no_fault() -> None:
    text = "(float[N] x) => (float[N] y) <float p = {%s}, float q = {%s}> { a = Mul(x, p)  y = Mul(a, q) }"
    one, other = (
        trace(parsed(text % by), x=np.float32([1, 2]), **QUICK)
        for by in (("2.0", "0.5"), ("4.0", "0.25"))
    )
    found = diff(one, other)
    assert effects(found) == {"a": "absorbed", "y": "hides"}
    assert found.origin is None and not found.origins
    assert found["y"].diff.verdict == "bit-identical" and found["y"].alone.verdict == "different"


def test_an_error_that_grows_is_amplified() -> None:
    text = "(float[N] x) => (float[N] y) <float by = {%s}, float big = {1000.0}> { a = Add(x, by)  b = Mul(a, big)  y = Neg(b) }"
    one, other = (trace(parsed(text % by), x=np.float32([1, 2]), **QUICK) for by in ("0.5", "0.75"))
    found = diff(one, other)
    assert effects(found) == {"a": "origin", "b": "amplifies", "y": "propagates"}
    assert found.steps[1].amplification == 1000 and found.steps[2].amplification == 1
    assert "most amplified: b (Mul), 1000 × the error of its inputs" in str(found)


def test_what_is_close_has_no_origin_and_the_first_that_is_not_the_same() -> None:
    text = "(float[N] x) => (float[N] y) <float by = {%s}> { a = Mul(x, by)  y = Neg(a) }"
    one, other = (
        trace(parsed(text % by), x=np.float32([1, 2]), **QUICK) for by in ("1.0", "1.000001")
    )
    found = diff(one, other)
    assert found.verdict == "close" and found.ok and found.origin is None
    assert found.first.name == "a (Mul)" and "\nwhere: first in a (Mul)\n" in str(found)
    assert [step.name for step in diff(one, other, rtol=0, atol=0).origins] == ["a (Mul)"]


def test_a_constant_that_differs_is_the_cause_of_the_node_that_reads_it() -> None:
    text = "(float[N] x) => (float[N] y) { c = Constant<value = float {%s}>()  a = Mul(x, c)  y = Neg(a) }"
    one, other = (trace(parsed(text % by), x=np.float32([1, 2]), **QUICK) for by in ("2.0", "2.5"))
    found = diff(one, other)
    assert found.origin.name == "a (Mul)"
    assert found.origin.changes == ("weight c: float32[], 1 of 1 differs by up to 0.5",)


def test_feeds_that_differ_are_said_first_and_are_no_nodes_fault() -> None:
    model = parsed("(float[N] x) => (float[N] y) { a = Neg(x)  y = Abs(a) }")
    found = diff(trace(model, x=np.float32([1, 2])), trace(model, x=np.float32([1, 3])))
    assert (
        "\nwhere: already in the feeds; no node introduces a difference\nhow much: x float32[2]"
        in str(found)
    )
    assert found.feeds_differ and found.origin is None and not found.origins
    assert effects(found) == {"a": "propagates", "y": "propagates"}


def test_what_has_no_partner_is_listed() -> None:
    one = trace(
        parsed("(float[N] x) => (float[N] y) { a = Exp(x)  y = Neg(a) }"), x=np.float32([1])
    )
    other = trace(
        parsed("(float[N] x) => (float[N] y, float[N] z) { a = Exp(x)  y = Neg(a)  z = Floor(x) }"),
        x=np.float32([1]),
    )
    found = diff(one, other)
    assert found.verdict == "incomparable" and found.outputs_only_b == ("z",)
    assert str(found).startswith("incomparable: only b has the output z\n")
    assert diff(other, one).outputs_only_a == ("z",)
    other = trace(
        parsed("(float[N] x) => (float[N] y) { u = Exp(x)  v = Neg(u)  w = Neg(v)  y = Neg(w) }"),
        x=np.float32([1]),
    )
    assert diff(one, other).ok and diff(one, other).only_b


# ---- between versions, runtimes and arrays ---------------------------------------------------------------------------------


def versions_of_soft() -> tuple[Any, Any]:
    class Soft:
        def compute(self, x: Any) -> Any:
            return np.tanh(x)

    class Softer:
        def compute(self, x: Any) -> Any:
            return np.tanh(x) * np.float32(0.5)

    pyopnb.registry.define(
        Soft, "demo::Soft", source="def compute(self, x):\n    return np.tanh(x)\n"
    )
    session = pyopnb.Session(
        parsed("(float[N] x) => (float[N] y) { a = Abs(x)  b = demo.Soft(a)  y = Neg(b) }")
    )
    before = session.trace(x=np.float32([1, -2]))
    pyopnb.registry.define(
        Softer,
        "demo::Soft",
        source="def compute(self, x):\n    return np.tanh(x) * np.float32(0.5)\n",
    )
    return before, session.trace(x=np.float32([1, -2]))


def test_two_versions_of_an_op() -> None:
    before, after = versions_of_soft()
    found = diff(before, after)
    assert [(step.op, step.versions) for step in found.origins] == [("demo::Soft", (1, 2))]
    assert found.origin.changes == ("- return np.tanh(x)", "+ return np.tanh(x) * np.float32(0.5)")
    assert "version 1 → 2" in str(found)
    # b's node runs alone in the version that b had, which is not the current one any more.
    back = diff(after, before)
    assert back.origin.versions == (2, 1) and back.origin.isolated == back.origin.accumulated > 0
    assert effects(back) == {"a": "same", "b": "origin", "y": "propagates"}


def test_the_runtime_with_and_without_optimization_and_the_reference() -> None:
    model = transformer()
    runs = [
        trace(model, x=X, **QUICK),
        trace(model, x=X, optimized=False, **QUICK),
        trace(model, x=X, on="reference"),
    ]
    for one in runs:
        for other in runs:
            found = diff(one, other)
            assert found.ok, found
            assert len(found.steps) == 31 and all(step.isolated is not None for step in found.steps)
    exact = diff(runs[0], runs[2], rtol=0, atol=0)
    assert exact.origin is not None and exact.origin.isolated > 0
    assert exact.a.startswith("onnxruntime") and exact.b.startswith("onnx.reference")


def test_arrays_from_anywhere() -> None:
    ours = trace(transformer(), x=X, **QUICK)
    others = dict(trace(transformer("tanh"), x=X, **QUICK).items())
    named = {name: others[name] for name in ("b0.norm1", "b0.middle", "b0.narrow", "logits")}
    for found in (diff(ours, named), diff(named, ours)):
        assert {found.a, found.b} == {"arrays", ours.runtime}
        assert effects(found) == {
            "b0.norm1": "same",
            "b0.middle": "same",
            "b0.narrow": "origin",
            "logits": "propagates",
        }
        assert [name.split(" ")[0].rsplit("/")[1] for name in found.origin.between] == [
            "b0.norm2", "b0.wide.product", "b0.wide", "b0.bent", "b0.narrow.product",
        ]  # fmt: skip
    assert diff(ours, pyopnb.run(transformer(), x=X)).ok


# ---- nodes of their own kind -----------------------------------------------------------------------------------------------


def test_a_node_that_draws_random_numbers_is_flagged() -> None:
    model = pyopnb.parse(
        '<ir_version: 8, opset_import: ["" : 17]> g (float[2] x) => (float[2] y) { r = RandomNormal<shape = [2]>()  y = Add(x, r) }'
    )
    one = trace(model, x=np.float32([1, 2]), **QUICK)
    found = diff(one, one)
    assert {step.outputs[0].b: step.nondeterministic for step in found.steps} == {
        "r": True,
        "y": False,
    }
    assert "nondeterministic (random or stateful): r (RandomNormal)" in str(found)


def test_an_op_that_keeps_a_state_is_flagged() -> None:
    @pyopnb.pyop("demo::Count")
    class Count:
        def __init__(self) -> None:
            self.runs = 0

        def compute(self, x: "float32[N]") -> "float32[N]":
            self.runs += 1
            return x + np.float32(self.runs)

    model = parsed("(float[N] x) => (float[N] y) { a = demo.Count(x)  y = Neg(a) }")
    session = pyopnb.Session(model)
    found = diff(session.trace(x=np.float32([1])), session.trace(x=np.float32([1])))
    assert {step.outputs[0].b: step.nondeterministic for step in found.steps} == {
        "a": True,
        "y": False,
    }
    assert [step.outputs[0].b for step in found.origins] == ["a"] and found["a"].own == (), (
        "its own runs say as little"
    )


def test_a_node_that_cannot_run_alone_says_why() -> None:
    @pyopnb.pyop("demo::Once")
    class Once:
        def compute(self, x: "float32[N]") -> "float32[N]":
            if not allowed:
                raise RuntimeError("only twice")
            return x

    allowed = True
    model = parsed("(float[N] x) => (float[N] y) { a = Abs(x)  b = demo.Once(a)  y = Neg(b) }")
    one = trace(model, x=np.float32([1]))
    allowed = False
    found = diff(one, one)
    assert [(step.isolated, step.outputs[0].reason) for step in found.steps] == [
        (0.0, ""),
        (None, "RuntimeError: only twice"),
        (0.0, ""),
    ]
    assert effects(found) == {"a": "same", "b": "same", "y": "same"}


def test_a_node_whose_tensors_are_the_same_to_the_bit_is_no_origin() -> None:
    one, other = np.ones(2, np.float32), np.full(2, 2, np.float32)
    x, y = (
        ComparedTensor(
            name, name, "name", diff(one, one), alone=diff(one, other) if name == "y" else None
        )
        for name in "xy"
    )
    assert ComparedStep("y", "::Elu", "y", (y,), (x,)).verdict == "same"
    differing = ComparedTensor("x", "x", "name", diff(one, -one))
    assert ComparedStep("y", "::Abs", "y", (y,), (differing,)).verdict == "origin"
    zeros = ComparedTensor("x", "x", "name", diff(np.float32([0]), np.float32([-0.0])))
    assert ComparedStep("y", "::Reciprocal", "y", (y,), (zeros,)).verdict == "origin"


# ---- float16, which ONNX Runtime widens between kernels that it lacks ------------------------------------------------------


def test_the_perturbed_node_of_a_float16_net_is_its_only_origin() -> None:
    model = convert_float_to_float16(transformer(blocks=2), keep_io_types=True)
    other = ModelProto()
    other.CopyFrom(model)
    bias = next(tensor for tensor in other.graph.initializer if tensor.name == "b1.q.bias")
    bias.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(bias) * np.float16(1.5), bias.name))
    one, another = trace(model, x=X, **QUICK), trace(other, x=X, **QUICK)
    for found in (
        diff(one, another),
        diff(another, one),
        TraceDiff.from_json(diff(one, another).to_json()),
    ):
        assert [step.outputs[0].b for step in found.origins] == ["b1.q"]
        assert [
            part for step in found.origins for part in step.changes if "weight b1.q.bias" in part
        ]
        unsure = [step for step in found.steps if step.inconclusive]
        assert unsure and all(step.outputs[0].alone.verdict == "different" for step in unsure)
        assert all(
            len(tensor.own) == 2
            for step in unsure
            for tensor in step.outputs
            if not tensor.alone.ok
        )
        assert "isolation proves nothing, because it differs as much from their own runs: " in str(
            found
        )


def test_isolation_that_does_not_give_what_its_own_runs_gave_proves_nothing() -> None:
    values = [np.float32([1, 2]) + np.float32(error) for error in (0, 0.01, 0.0999, 0.1, np.inf)]
    exact, little, nearly, ten, endless = (diff(values[0], value) for value in values)

    def step(alone: Any, *own: Any) -> ComparedStep:
        x, y = (
            ComparedTensor("x", "x", "name", diff(values[0], values[0] * 2)),
            ComparedTensor("y", "y", "name", ten, alone, own=own),
        )
        return ComparedStep("y", "::Elu", "y", (y,), (x,))

    for alone, own, verdict in (
        (ten, (), "origin"),
        (ten, (exact, exact), "origin"),
        (ten, (exact, little), "origin"),
        (nearly, (exact, little), "propagates"),
        (nearly, (little, exact), "propagates"),
        (endless, (little,), "origin"),
        (endless, (endless,), "propagates"),
        (exact, (), "propagates"),
    ):
        found = step(alone, *own)
        assert (found.verdict, found.inconclusive) == (
            verdict,
            verdict == "propagates" and alone is not exact,
        )
        assert ("own runs, which proves nothing" in str(found)) == found.inconclusive


def _constant_outputs(value: float) -> list[tuple[onnx.ModelProto, dict[str, np.ndarray]]]:
    weight = {"w": np.float32([1, value])}
    declared = {"y": "float32[2]"}
    constant = pyopnb.node("Constant", "", "y", value=weight["w"])
    fed = {"x": np.float32([1, value])}
    return [
        (pyopnb.model([constant], {}, declared), {}),
        (pyopnb.model([], {"x": "float32[2]"}, {"x": "float32[2]"}), fed),
        (pyopnb.model([], {}, {"w": "float32[2]"}, initializers=weight), {}),
        (pyopnb.model(pyopnb.node("Neg", "w", "y"), {}, declared, initializers=weight), {}),
    ]


@pytest.mark.parametrize("case", range(4))
@pytest.mark.parametrize("on", ["onnxruntime", "reference"])
def test_outputs_that_no_node_computes_from_an_input(case: int, on: str) -> None:
    (model, feeds), (other, other_feeds) = (_constant_outputs(value)[case] for value in (1, 2))
    a = pyopnb.trace(model, feeds, on=on)
    b = pyopnb.trace(other, other_feeds, on=on)
    assert pyopnb.diff(a, pyopnb.trace(model, feeds, on=on)).verdict == "bit-identical"
    found = pyopnb.diff(a, b)
    assert found.verdict == "different" and len(found.outputs) == 1
    assert "1 of 2 differ" in str(found) or "2 of 2 differ" in str(found)


def test_a_constant_output_beside_others() -> None:
    text = """(float[2] x) => (float[2] y, float[2] k, float[2] w) <float[2] w = {1, %s}>
        { k = Constant<value_floats = [1.0, %s]>()  y = Abs(x) }"""
    runs = [pyopnb.trace(pyopnb.parse(text % (v, v)), x=np.float32([1, 2])) for v in (2, 3)]
    assert pyopnb.diff(runs[0], runs[0]).outputs == ("y", "k", "w")
    found = pyopnb.diff(*runs)
    differing = [t.b for t in (*found.feeds, *found.tensors) if not t.diff.ok]
    assert sorted(differing) == ["k", "w"]


def test_names_are_looked_up_in_diffs_profiles_and_stabilities() -> None:
    model = pyopnb.parse("(float[N] x) => (float[N] y) { a = Abs(x)  y = Neg(a) }")
    x = np.float32([1, 2])
    session = pyopnb.Session(model)
    run = session.trace(x=x)
    stability = pyopnb.stability(model, x=x)
    named = [pyopnb.diff(run, run), pyopnb.profile(session, x=x, runs=2), stability]
    for thing, name in zip(named, ["a", "a", stability.rows[0].name], strict=True):
        assert name in thing and "none" not in thing and 0 not in thing and x not in thing
        with pytest.raises(TypeError, match="not iterable"):
            iter(thing)


@pytest.mark.parametrize("outer", ["x", "renamed"])
def test_the_changed_node_in_a_body_is_named(outer):
    text = """<ir_version: 9, opset_import: ["": 20]>
        g (float[N] OUTER, int64 n) => (float[N] y) {
            go = Constant<value = bool {1}>()
            y = Loop(n, go, OUTER) <body = b (int64 i, bool c, float[N] s) => (bool d, float[N] z) {
                t = Mul(s, OUTER)  u = OP(t, OUTER)  z = Neg(u)  d = Identity(c) }>
        }"""
    a = pyopnb.parse(text.replace("OP", "Add").replace("OUTER", "x"))
    b = pyopnb.parse(text.replace("OP", "Sub").replace("OUTER", outer))
    x, n = np.float32([1, 2]), np.array(3)
    found = pyopnb.diff(pyopnb.trace(a, {"x": x, "n": n}), pyopnb.trace(b, {outer: x, "n": n}))
    assert found.origin.changes == ("Loop 'y', body: changed: Add 'u', op: Add → Sub",)
