"""Ops in the reference evaluator of onnx."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import onnx.inliner
import pytest
from onnx.reference import ReferenceEvaluator

import pyopnb
from pyopnb.onnx_reference import reference_ops

X = np.float32([[1, 2, 3]])


def evaluated(model: onnx.ModelProto, **feeds: Any) -> list[Any]:
    return ReferenceEvaluator(model, new_ops=reference_ops()).run(None, feeds)


def one(cls: type, inputs: str = "x", outputs: str = "y", x: Any = X, **attrs: Any) -> list[Any]:
    pyopnb.registry.define(cls, "e::Op")
    made = pyopnb.model(
        pyopnb.node("e::Op", inputs.split(" "), outputs, name="n", **attrs),
        {"x": "float32[...]"},
        outputs,
    )
    return evaluated(made, x=x)


def test_attrs_inputs_and_outputs() -> None:
    seen: list[Any] = []

    class Op:
        def __init__(
            self, f: float, t: np.ndarray, names: list[str], i: int = 7, b: bool = True
        ) -> None:
            seen.append((f, t.tolist(), names, i, b, type(f), type(b)))

        def compute(self, x, w=None, z=None):
            seen.append((w is None, z is x, x.flags.writeable))
            return x, x[0].astype(np.int64), 2.5

    pyopnb.registry.define(Op, "e::Op")
    made = pyopnb.node("e::Op", ["x", "", "x"], "a b", f=0.5, t=np.int8([1]), names=["u"])
    del made.output[:]
    made.output.extend(["a", "", "c"])

    class Typed(Op):
        def compute(self, x, w=None, z=None) -> ("float32[N,M]", "int64[M]", "float64"):
            return super().compute(x, w, z)

    pyopnb.registry.define(Typed, "e::Op")
    a, c = evaluated(pyopnb.model(made, {"x": "float32[1,3]"}, "a c"), x=X)
    assert seen == [(0.5, [1], ["u"], 7, True, float, bool), (True, False, False)]
    assert (a.tolist(), c.tolist(), c.dtype) == (X.tolist(), 2.5, np.float64)
    assert a is not X and not np.shares_memory(a, X)


def test_one_instance_a_node_and_the_next_version() -> None:
    class Op:
        def __init__(self) -> None:
            self.n = np.float32(0)

        def compute(self, x):
            self.n += 1
            return x * self.n

    pyopnb.registry.define(Op, "e::Op")
    model = pyopnb.model(
        [pyopnb.node("e::Op", "x", "m"), pyopnb.node("e::Op", "m", "y")], {"x": "float32[N,3]"}, "y"
    )
    session = ReferenceEvaluator(model, new_ops=reference_ops())
    assert [session.run(None, {"x": X})[0][0, 0] for _ in range(3)] == [1, 4, 9]
    pyopnb.registry.define(type("Op", (), {"compute": lambda self, x: -x}), "e::Op")
    assert session.run(None, {"x": X})[0][0, 0] == 1


@pytest.mark.parametrize(
    ("hint", "value", "said"),
    [
        (
            "float32[N,3]",
            X.astype(np.float64),
            r"node 'n' \(e::Op\), line \d+, `return value`, output 0: expected float32\[N0,3\], got float64\[1,3\]",
        ),
        (
            "float32[N,3]",
            X[:, :2],
            r"output 0: expected float32\[N,3\], as the hint of compute says, got float32\[1,2\]",
        ),
        ("float32[N,N]", X, r"expected float32\[N,N\]"),
        ("float32", None, "got None"),
        ("float32", (X, X), "outputs: expected one array, got a tuple of 2"),
    ],
)
def test_results_are_checked(hint: str, value: Any, said: str) -> None:
    class Op:
        def compute(self, x: "float32[N,3]"):
            return value

    Op.compute.__annotations__["return"] = hint
    with pytest.raises(pyopnb.errors.ResultError, match=said):
        one(Op)


@pytest.mark.parametrize("error", [TypeError("mine"), AttributeError("mine"), ValueError("mine")])
def test_what_compute_raises_arrives_as_itself(error: Exception) -> None:
    class Op:
        def compute(self, x):
            raise error

    with pytest.raises(type(error), match="mine") as caught:
        one(Op)
    assert caught.value is error
    assert error.__notes__ == ["in node 'n' (e::Op), version 1, with x: float32[1,3]"]


def test_in_bodies_and_functions_with_attrs_of_the_caller() -> None:
    class Plus:
        def __init__(self, k: float) -> None:
            self.k = np.float32(k)

        def compute(self, x):
            return x + self.k

    pyopnb.registry.define(Plus, "e::Plus")
    model = pyopnb.parse("""<opset_import: ["" : 20, "f" : 1, "e" : 1]>
        (float[N,3] x, bool c) => (float[N,3] a, float[N,3] b, float[N,3] y) {
            a = f.F<size = 3.5>(x)  b = f.F<size = 0.5>(x)
            y = If(c) <then_branch = t () => (float[N,3] z) { z = e.Plus<k = 9.0>(x) },
                       else_branch = e () => (float[N,3] z) { z = e.Plus<k = 9.0>(x) }>
        }
        <domain: "f", opset_import: ["" : 20, "e" : 1]>
        F <size> (u) => (r) { r = e.Plus<k: float = @size>(u) }""")
    # onnx hands new_ops to no local function
    got = evaluated(onnx.inliner.inline_local_functions(model), x=X, c=np.array(True))
    assert [array[0, 0] for array in got] == [4.5, 1.5, 10.0]
    in_session = pyopnb.Session(model)(x=X, c=np.array(True))
    assert [array[0, 0] for array in in_session] == [4.5, 1.5, 10.0]
