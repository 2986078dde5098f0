"""The first divergence in few runs that record few tensors."""

from __future__ import annotations

import gc
import itertools
import tempfile
from types import SimpleNamespace
from typing import Any

import numpy as np
import onnx
import onnxruntime
import psutil
import pytest
from onnx import ModelProto
from systems import interrupt_main
from transformer import renamed, transformer

import pyopnb
from pyopnb import first_divergence
from pyopnb.common import progress
from pyopnb.diffs.traces import bisect
from pyopnb.engine import external_files
from pyopnb.errors import InputError, ModelError

X = np.random.default_rng(0).normal(size=(1, 4, 32)).astype(np.float32)


def changed(model: ModelProto, number: int) -> ModelProto:
    other = ModelProto()
    other.CopyFrom(model)
    node = [node for node in other.graph.node if node.op_type == "Gelu"][number]
    node.attribute[0].s = b"tanh"
    return other


def chain(alphas: list[float]) -> ModelProto:
    nodes = [
        pyopnb.node("Elu", "x" if n == 0 else f"t{n}", f"t{n + 1}", alpha=alpha)
        for n, alpha in enumerate(alphas)
    ]
    return pyopnb.model(nodes, {"x": "float32[N]"}, f"t{len(alphas)}")


def test_in_a_block_under_other_names() -> None:
    found = first_divergence(transformer(), renamed(transformer("tanh"), 1), {"x": X})
    assert [step.outputs[0].a for step in found.origins] == ["b0.bent"]
    assert found.origin.changes == ("attr approximate: 'none' → 'tanh'",)
    assert found.origin.isolated == found.origin.accumulated > 0 == found.origin.incoming
    assert found.verdict == "different"


@pytest.mark.one_python  # long
@pytest.mark.parametrize("at", [0, 1, 37, 62, 63])
def test_the_runs_grow_with_the_logarithm(at: int) -> None:
    alphas = [0.9 + n / 1000 for n in range(64)]
    other = [alpha + 0.5 * (n == at) for n, alpha in enumerate(alphas)]
    found = first_divergence(chain(alphas), chain(other), {"x": np.float32([-1, 2])}, memory=1)
    assert [step.outputs[0].b for step in found.origins] == [f"t{at + 1}"]
    assert found.runs is not None and found.runs <= 12
    assert len(found.tensors) < 16 and f"{found.runs} pairs of runs" in str(found)
    assert type(found).from_json(found.to_json()) == found


def test_no_run_records_more_than_fits(monkeypatch: pytest.MonkeyPatch) -> None:
    recorded: list[int] = []
    record = bisect._Model.recorded

    def measured(self: Any, names: Any) -> Any:
        arrays = record(self, names)
        recorded.append(sum(array.nbytes for array in arrays.values()))
        return arrays

    monkeypatch.setattr(bisect._Model, "recorded", measured)
    model = transformer(blocks=2)
    # The sizes are not declared: the feeds tell them. Most tensors of a block are as large.
    for memory in (X.nbytes * 4, X.nbytes * 16):
        recorded.clear()
        found = first_divergence(model, changed(model, 0), {"x": X}, memory=memory)
        assert [step.outputs[0].b for step in found.origins] == ["b0.bent"]
        assert found.runs == len(recorded) / 2
        # The last pair of runs also records what the node at fault reads.
        assert 2 * max(recorded[:-2]) <= memory
        assert 4 * max(recorded[:-2]) > memory


def test_a_bar_tells_from_the_beginning_how_much_is_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[tuple[int, int]] = []
    monkeypatch.setattr(external_files, "weight_bytes", lambda model: 2_100_000_000)
    progress.set_bar(lambda what, since: lambda done, total, *_: told.append((done, total)))
    try:
        first_divergence(chain([1.0, 1.0]), chain([1.0, 2.0]), {"x": np.float32([-1])})
    finally:
        progress.set_bar(None)
    assert told == [(megabytes, 8404) for megabytes in (0, 2101, 4202, 6303, 8404)]


@pytest.mark.parametrize("memory", [None, 1])
@pytest.mark.parametrize("after", range(6))
def test_an_interrupt_leaves_nothing_behind(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch, open_sessions: Any, after: int, memory: int
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    # While a session is made or runs, and while tensors are compared.
    steps = (
        (onnxruntime.capi.onnxruntime_inference_collection.C, "InferenceSession"),
        (bisect._Model, "recorded"),
        (bisect.TraceComparison, "tensor"),
    )
    count = itertools.count()

    def interrupted(call: Any) -> Any:
        def step(*args: Any) -> Any:
            result = call(*args)
            if next(count) == after:
                interrupt_main()
            return result

        return step

    for holder, name in steps:
        monkeypatch.setattr(holder, name, interrupted(getattr(holder, name)))
    with pytest.raises(KeyboardInterrupt):
        first_divergence(
            transformer(), transformer("tanh"), {"x": X}, memory=memory and memory * X.nbytes
        )
    monkeypatch.undo()
    gc.collect()
    assert (list(tmp_path.iterdir()), open_sessions.open) == ([], 0)
    # And the next search is as any.
    found = first_divergence(chain([1.0, 1.0]), chain([1.0, 2.0]), {"x": np.float32([-1])})
    assert [step.outputs[0].b for step in found.origins] == ["t2"]


def test_a_tensor_that_is_larger_than_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    models = chain([1.0, 1.0, 1.0]), chain([1.0, 2.0, 1.0])
    x = np.linspace(-1, 1, 1000, dtype=np.float32)
    # What a node reads and makes is in memory in any run of it, so these are recorded.
    found = first_divergence(*models, {"x": x}, memory=100)
    assert [step.outputs[0].b for step in found.origins] == ["t2"]
    monkeypatch.setattr(psutil, "virtual_memory", lambda: SimpleNamespace(available=7999))
    words = (
        "first_divergence, tensor t3: expected tensors that fit into the 0.0 GB of free memory, "
        "got 0.0 GB for it and what is recorded with it. "
        "Try: feeds of a smaller batch or a shorter sequence"
    )
    with pytest.raises(InputError, match=words):
        first_divergence(*models, {"x": x})
    assert first_divergence(*models, {"x": x[:100]}).origin is not None


def test_all_tensors_that_fit_are_recorded_at_once(open_sessions: Any) -> None:
    model = transformer(blocks=2)
    found = first_divergence(model, changed(model, 0), {"x": X})
    assert [step.outputs[0].b for step in found.origins] == ["b0.bent"]
    assert found.runs == 2
    # One is open at a time; three are of the node alone, on the tensors of each run and again.
    assert (open_sessions.made, open_sessions.most) == (7, 1)
    assert first_divergence(model, model, {"x": X}).runs == 1


@pytest.mark.parametrize("k", [np.array(3, np.float32), np.float32(3), 3.0, 3, np.array(3.0)[()]])
@pytest.mark.parametrize("on", ["onnxruntime", "reference"])
def test_a_scalar_feed_is_a_tensor(k: Any, on: str) -> None:
    text = "(float[N] x, float k) => (float[N] y) { a = OP(x, k)  y = Relu(a) }"
    a, b = (pyopnb.parse(text.replace("OP", op)) for op in ("Mul", "Add"))
    if isinstance(k, np.float64):
        with pytest.raises(InputError, match="feed k: expected float32"):
            first_divergence(a, b, {"x": np.float32([1, 2]), "k": k})
        return
    found = first_divergence(a, b, {"x": np.float32([1, 2]), "k": k}, on=on)
    assert found.origin is not None and found.origin.isolated == 1.0
    assert "not run in isolation" not in str(found)


@pytest.mark.parametrize("memory", [1, None])
def test_outputs_that_one_side_has_as_weights_are_compared(memory: float | None) -> None:
    text = "(float[2] x) => (float[2] z, float[2] y) <float[2] %s> { z = Relu(x)  %s }"
    computed = pyopnb.parse(text % ("w = {1, -2}", "k = Abs(w)  y = Neg(k)"))
    for second, agrees in (("-2", True), ("-3", False)):
        folded = pyopnb.parse(text % (f"y = {{-1, {second}}}", ""))
        for a, b in ((computed, folded), (folded, computed)):
            found = first_divergence(a, b, {"x": np.float32([1, 2])}, memory=memory)
            assert found.outputs == ("z", "y") and found.ok == agrees, str(found)
            # No node of b makes the folded one.
            named = not agrees and b is computed
            assert (found.origin is not None and "y (Neg)" in found.origin.name) == named


def test_feeds_of_two_sizes_under_one_symbol_are_refused() -> None:
    model = pyopnb.parse("(float[N] a, float[N] b) => (float[N] y) { y = Add(a, b) }")
    feeds = {"a": np.ones(3, np.float32), "b": np.ones(1, np.float32)}
    with pytest.raises(pyopnb.errors.InputError, match="feeds a and b: expected one size for N"):
        pyopnb.first_divergence(model, model, feeds)


@pytest.mark.parametrize("memory", [1, None])
def test_feeds_that_differ_are_no_fault_of_a_node(memory: float | None) -> None:
    x = np.float32([1, 2])
    found = first_divergence(chain([1.0]), chain([1.0]), ({"x": x}, {"x": x + 1}), memory=memory)
    assert not found.ok and found.feeds_differ and found.origin is None
    assert "where: already in the feeds" in str(found)


def test_models_that_agree() -> None:
    found = first_divergence(transformer(), renamed(transformer(), 2), {"x": X})
    assert found.ok and found.origin is None and found.runs == 1


def test_runtime_against_reference() -> None:
    found = first_divergence(
        transformer(), transformer(), {"x": X}, on=("onnxruntime", "reference"), rtol=0, atol=0
    )
    assert found.origin is not None and found.origin.isolated > 0
    assert (found.a, found.b) == ("onnxruntime, all optimizations", "onnx.reference")


@pytest.mark.parametrize(("memory", "origins"), [(1, ["t2"]), (None, ["t2", "t4"])])
def test_two_on_one_way(memory: float | None, origins: list[str]) -> None:
    """Where all tensors fit, both are named, as `diff` does; a search finds the first."""
    pair = chain([1.0, 1.0, 1.0, 1.0]), chain([1.0, 2.0, 1.0, 2.0])
    found = first_divergence(*pair, {"x": np.float32([-1, 2])}, memory=memory)
    assert [step.outputs[0].b for step in found.origins] == origins


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            {"memory": 0},
            "first_divergence, memory: expected a number of bytes, got 0. Try: memory=2e9",
        ),
        (
            {"on": "torch"},
            "first_divergence, on: expected 'onnxruntime', 'reference', a version as 'onnxruntime==1.25.0', or the path of a Python, got 'torch'",
        ),
        ({"rtol": -1}, "a finite number that is not negative"),
    ],
)
def test_arguments_that_are_refused(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        first_divergence(transformer(), transformer(), {"x": X}, **arguments)


def test_weights_stay_in_their_files(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, model in (("a", transformer()), ("b", transformer("tanh"))):
        path = tmp_path / f"{name}.onnx"
        location = f"{name}.data"
        onnx.save(model, path, save_as_external_data=True, location=location, size_threshold=256)
    monkeypatch.setattr(external_files, "read_data", None)  # puts weights into memory
    found = first_divergence(tmp_path / "a.onnx", tmp_path / "b.onnx", {"x": X})
    assert found.origin is not None and found.origin.isolated == found.origin.accumulated > 0
    a, b = (pyopnb.trace(tmp_path / f"{name}.onnx", x=X) for name in "ab")
    assert [step.outputs[0].b for step in pyopnb.diff(a, b).origins] == ["b0.bent"]
    assert pyopnb.diff(tmp_path / "a.onnx", tmp_path / "b.onnx").of("changed")


def test_weights_that_change_between_two_runs(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, model in (("a", transformer()), ("b", transformer("tanh"))):
        path = tmp_path / f"{name}.onnx"
        location = f"{name}.data"
        onnx.save(model, path, save_as_external_data=True, location=location, size_threshold=256)
    record = bisect._Model.recorded

    def rewritten(self: Any, names: Any) -> Any:
        side = record(self, names)
        (tmp_path / "a.data").write_bytes((tmp_path / "a.data").read_bytes())
        return side

    monkeypatch.setattr(bisect._Model, "recorded", rewritten)
    words = r"a\.data: expected the same weights in all runs, got one that was written later"
    with pytest.raises(ModelError, match=words):
        first_divergence(tmp_path / "a.onnx", tmp_path / "b.onnx", {"x": X})


def test_external_data_is_found(tmp_path: Any) -> None:
    onnx.save(transformer(), tmp_path / "a.onnx", save_as_external_data=True, size_threshold=256)
    onnx.save(
        transformer("tanh"),
        tmp_path / "b.onnx",
        save_as_external_data=True,
        location="b.data",
        size_threshold=256,
    )
    for on in ("onnxruntime", "reference"):
        found = first_divergence(tmp_path / "a.onnx", tmp_path / "b.onnx", {"x": X}, on=on)
        assert [step.outputs[0].b for step in found.origins] == ["b0.bent"]


@pytest.mark.parametrize("memory", [None, 1])
@pytest.mark.parametrize("computed", ["Identity", "Exp"])
def test_an_output_that_one_model_passes_on_from_its_input(memory: Any, computed: str) -> None:
    nodes = [pyopnb.node("Abs", "x", "y"), pyopnb.node(computed, "x", "z")]
    computes = pyopnb.model(nodes, {"x": "float32[N]"}, ["y", "z"])
    passes = pyopnb.parse("(float[N] z) => (float[N] y) { y = Abs(z) }")
    passes.graph.output.add().CopyFrom(passes.graph.input[0])
    x = np.float32([-1, 2])
    verdict = "bit-identical" if computed == "Identity" else "different"
    one, other = ({"x": x}, {"z": x})
    assert first_divergence(computes, passes, (one, other), memory=memory).verdict == verdict
    found = first_divergence(passes, computes, (other, one), memory=memory)
    assert found.verdict == verdict
    if memory and verdict == "different":
        assert found.origin is not None and found.origin.name == "z (Exp)"
