"""``pyopnb.call``: one op without a model, its sessions reused, every redefinition followed."""

from __future__ import annotations

import threading
import traceback

import ml_dtypes
import numpy as np
import onnx
import pytest

import pyopnb
from pyopnb.engine.runtime import call, node_kernel

X = np.float32([1, -2])


@pytest.fixture(autouse=True)
def built(monkeypatch):
    """The sessions that were built, from none on."""
    made = []

    make = node_kernel.NodeKernel._session

    def counted(self, inputs):
        session = make(self, inputs)
        made.append(session)
        return session

    monkeypatch.setattr(node_kernel.NodeKernel, "_session", counted)
    call._kernel.cache_clear()
    return made


@pytest.fixture
def soft_clip():
    @pyopnb.pyop("demo::SoftClip")
    class SoftClip:
        def __init__(self, limit: float = 1.0):
            self.limit = limit

        def compute(self, x):
            return np.minimum(x, np.float32(self.limit)).astype(x.dtype)

    return SoftClip


def test_an_op_of_the_registry(soft_clip):
    y = pyopnb.call("demo::SoftClip", [[np.float32(1), np.float32(5)]], limit=2)
    assert (y.dtype, y.tolist()) == (np.float32, [[1, 2]])


def test_onnx_own_ops():
    assert pyopnb.call("Relu", X).tolist() == pyopnb.call("::Relu", X).tolist() == [1, 0]
    values, places = pyopnb.call("::TopK", X, np.int64([1]), axis=-1)
    assert (values.tolist(), places.tolist()) == ([1], [0])
    assert pyopnb.call("LeakyRelu", X, alpha=2).tolist() == [1, -4]
    assert pyopnb.call("com.microsoft::Gelu", X).shape == (2,)
    assert pyopnb.call("Add", 1, 2) == 3
    assert pyopnb.call("Constant", value=np.eye(2)).tolist() == [[1, 0], [0, 1]]
    assert pyopnb.call("StringConcat", ["a"], np.array(["b"])).tolist() == ["ab"]
    assert pyopnb.call("Cast", X, to=16).dtype == ml_dtypes.bfloat16
    assert [part.tolist() for part in pyopnb.call("Split", X, num_outputs=2, outputs=2)] == [
        [1],
        [-2],
    ]


def test_an_input_that_is_left_out():
    assert pyopnb.call("Clip", X, None, np.float32(0)).tolist() == [0, -2]
    assert pyopnb.call("Clip", X, np.float32(0), None).tolist() == [1, 0]


def test_the_version_of_onnx(built):
    assert pyopnb.call(
        "Upsample", np.ones((1, 1), np.float32), np.float32([2, 1]), opset=9
    ).shape == (2, 1)
    assert pyopnb.call("Softmax", np.ones((2, 2, 2), np.float32), opset=11)[
        0, 0, 0
    ] == pytest.approx(0.25)
    assert pyopnb.call("Softmax", np.ones((2, 2, 2), np.float32), opset=13)[
        0, 0, 0
    ] == pytest.approx(0.5)


def test_how_many_outputs():
    @pyopnb.pyop("demo::Two", opset=3)
    class Two:
        def compute(self, *xs) -> ("float32[...]", "int64[]"):
            return xs[0], np.int64(len(xs))

    @pyopnb.pyop("demo::Any")
    class Any:
        def compute(self, x):
            return (x, x, x)

    assert pyopnb.call("demo::Two", X, X, X)[1] == 3
    assert isinstance(pyopnb.call("demo::Two", X, outputs=1), np.ndarray)
    assert len(pyopnb.call("demo::Any", X, outputs=3)) == 3
    with pytest.raises(
        pyopnb.errors.ResultError,
        match=r"node 'call' \(demo::Any\), line \d+, `return \(x, x, x\)`, outputs: expected one array, got a tuple of 3",
    ):
        pyopnb.call("demo::Any", X)
    for wrong, expected in (
        (0, "a number from 1 to 1000"),
        (True, "a number from 1 to 1000"),
        (1.0, "a number from 1 to 1000"),
    ):
        with pytest.raises(pyopnb.errors.PyopError, match=f", outputs: expected {expected}"):
            pyopnb.call("demo::Any", X, outputs=wrong)


def test_a_session_serves_all_sizes(built, soft_clip):
    for size in (0, 1, 5):
        assert pyopnb.call("demo::SoftClip", np.zeros(size, np.float32)).shape == (size,)
    assert len(built) == 1


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (((X,), {}), ((X.astype(np.float64),), {})),
        (((X,), {}), ((X[None],), {})),
        (((X,), {"a": 1}), ((X,), {"a": 1.0})),
        (((X,), {"a": 0.0}), ((X,), {"a": -0.0})),
        (((X,), {"a": 1}), ((X,), {"b": 1})),
        (((X,), {"a": [1, 2]}), ((X,), {"a": [1]})),
        (((X,), {"a": np.zeros(2)}), ((X,), {"a": np.array([0, 1e-300])})),
        (((X,), {"a": np.zeros(2)}), ((X,), {"a": np.zeros((2, 1))})),
        (((X,), {"a": np.array(["a"], object)}), ((X,), {"a": np.array(["b"], object)})),
        (((X,), {"a": onnx.GraphProto(name="g")}), ((X,), {"a": onnx.GraphProto(name="h")})),
        (((X, None), {}), ((X, X), {})),
        (((X, X), {}), ((X, None, X), {})),
    ],
)
def test_what_needs_a_session_of_its_own(built, one, other):
    @pyopnb.pyop("demo::Op")
    class Op:
        def __init__(self, **attrs):
            self.attrs = attrs

        def compute(self, x, y=None, z=None):
            return x

    for args, kwargs in (one, other, one, other):
        pyopnb.call("demo::Op", *args, **kwargs)
    assert len(built) == 2


def test_an_attr_array_that_changes_is_another(built):
    weight = np.ones(2, np.float32)
    assert pyopnb.call("Constant", value=weight).tolist() == [1, 1]
    weight[0] = 7
    assert pyopnb.call("Constant", value=weight).tolist() == [7, 1]


def test_the_oldest_session_goes(built, soft_clip):
    for limit in (0.0, *range(call.KEPT), 0.0):
        pyopnb.call("demo::SoftClip", X, limit=float(limit))
    assert len(built) == call.KEPT
    pyopnb.call("demo::SoftClip", X, limit=-1.0)
    pyopnb.call("demo::SoftClip", X, limit=1.0)
    assert len(built) == call.KEPT + 2
    assert call._kernel.cache_info().currsize == call.KEPT


def test_a_redefinition_is_followed(built, soft_clip):
    assert pyopnb.call("demo::SoftClip", X, limit=0.5).tolist() == [0.5, -2]

    @pyopnb.pyop("demo::SoftClip")
    class Other:
        def __init__(self, limit: float = 1.0): ...

        def compute(self, x) -> "int64[...]":
            return x.astype(np.int64)

    assert (
        pyopnb.call("demo::SoftClip", X, limit=0.5).dtype == np.int64
    )  # and no warning that a session was rebuilt
    pyopnb.registry.rollback("demo::SoftClip")
    assert pyopnb.call("demo::SoftClip", X, limit=0.5).dtype == np.float32
    pyopnb.registry.remove("demo::SoftClip")
    with pytest.raises(pyopnb.errors.UnknownName):
        pyopnb.call("demo::SoftClip", X, limit=0.5)
    assert len(built) == 3


def test_an_op_in_the_place_of_one_of_onnx():
    assert pyopnb.call("Relu", X).tolist() == [1, 0]

    @pyopnb.pyop("::Relu")
    class Relu:
        def compute(self, x):
            return x + 10

    assert pyopnb.call("Relu", X).tolist() == [11, 8]
    pyopnb.registry.remove("::Relu")
    assert pyopnb.call("Relu", X).tolist() == [1, 0]


def test_state_lives_from_call_to_call_of_one_kind():
    @pyopnb.pyop("demo::Count")
    class Count:
        calls = 0

        def compute(self, x) -> "int64[]":
            self.calls += 1
            return np.int64(self.calls)

    assert [pyopnb.call("demo::Count", X) for _ in range(3)] == [1, 2, 3]
    assert pyopnb.call("demo::Count", X[None]) == 1
    pyopnb.registry.define(Count, "demo::Count")
    assert pyopnb.call("demo::Count", X) == 1


def test_the_error_is_the_users_own():
    error = KeyError("mine")

    @pyopnb.pyop("demo::Bad")
    class Bad:
        def compute(self, x):
            raise error

    with pytest.raises(KeyError) as raised:
        pyopnb.call("demo::Bad", X)
    assert raised.value is error
    assert error.__notes__ == ["in node 'call' (demo::Bad), version 1, with x: float32[2]"]


@pytest.mark.parametrize(
    ("op", "inputs", "dtype", "values"),
    [
        ("demo::Taker", ([1.5, 2],), "float32", [1.5, 2]),
        ("demo::Taker", (3,), "float32", 3),
        ("demo::Taker", (range(2), [1]), "float32", [0, 1]),
        ("Gather", (np.float16([3, 4]), [1, 0]), "float16", [4, 3]),
        ("Add", (np.float32([1, 2]), 2), "float32", [3, 4]),
        ("Add", (2, np.uint8([1, 2])), "uint8", [3, 4]),
        ("Add", ([2], np.float16(3)), "float16", [5]),
        ("Max", (np.float32([1, 5]), [2], 3), "float32", [3, 5]),
        ("Clip", (np.int8([1, 2, 3]), 2), "int8", [2, 2, 3]),
        ("Expand", (np.float32([1]), [2]), "float32", [1, 1]),
        ("Add", ([1, 2], [3]), "int64", [4, 5]),  # nothing says another dtype
    ],
)
def test_plain_values_get_the_declared_dtype(op, inputs, dtype, values):
    @pyopnb.pyop("demo::Taker")
    class Taker:
        def compute(self, x: "float32[...]", rows: "int8[N]" = None):
            return x

    y = pyopnb.call(op, *inputs)
    assert (y.dtype, y.tolist()) == (dtype, values)


@pytest.mark.parametrize(
    ("args", "kwargs", "error", "message"),
    [
        (("SoftClip", X), {}, "UnknownName", 'Try: "demo::SoftClip"'),
        (("Rellu", X), {}, "UnknownName", 'Try: "::Relu"'),
        (("demo::Zzzzzzz", X), {}, "UnknownName", "Try: define it: %%pyop"),
        (("demo::Typed", np.float64([1.0])), {}, "InputError", "input x: expected float32[...], got float64[1]. Try: np.asarray(x, dtype=np.float32)"),
        (("demo::Columns", X), {}, "InputError", "call of demo::Columns, input x: expected float32[N,3], got float32[2]."),
        (("demo::Columns", X[None]), {}, "InputError", "call of demo::Columns, input x: expected float32[N,3], got float32[1,2]."),
        (("demo::Typed", X, X), {}, "ModelError", "expected 1 input (x: float32[...]), got 2"),
        (("demo::Typed",), {}, "ModelError", "input x: expected float32[...], got nothing. Try: np.zeros"),
        (("demo::SoftClip", X), {"limt": 1.0}, "ModelError", "attr limt: expected one of limit"),
        (("Expand", X, [2.5]), {}, "InputError", "input shape[0]: expected int64[...], got 2.5"),
        (("Add", np.uint8([1]), 300), {}, "InputError", "input B: expected uint8[...], got 300"),
        (("Relu", [object()]), {}, "InputError", "input X[0]: expected str"),
        (("MatMul", X), {}, "ModelError", "expected 2 inputs (A, B), got 1."),
        (("MatMul", X, X.astype(float)), {}, "InputError", "input B: expected float32[...], got float64[2]. Try: np.asarray(B, dtype=np.float32)"),
        (("Softmax", X), {"axs": 1}, "ModelError", "attr axs: expected one of axis, got axs. Try: axis"),
        (("Relu", X, [[1], [2, 3]]), {}, "InputError", "got a ragged list"),
        (("Relu", np.array(["2020"], "M8[D]")), {}, "InputError", "dtype datetime64[D]: expected one of"),
        (("a b::C", X), {}, "DefinitionError", "op name: expected domain::OpType, got 'a b::C'"),
    ],
)  # fmt: skip
def test_what_is_wrong(soft_clip, args, kwargs, error, message):
    @pyopnb.pyop("demo::Typed")
    class Typed:
        def compute(self, x: "float32[...]"): ...

    @pyopnb.pyop("demo::Columns")
    class Columns:
        def compute(self, x: "float32[N,3]"): ...

    with pytest.raises(getattr(pyopnb.errors, error)) as raised:
        pyopnb.call(*args, **kwargs)
    assert message in str(raised.value)


@pytest.mark.parametrize(
    ("op", "arrays", "reason"),
    [("Gemm", (np.ones(3), np.ones(3)), "rank"), ("Add", (np.ones(3), np.ones(2)), "broadcast")],
)
def test_a_refusal_of_the_runtime_is_told_without_frames(op, arrays, reason):
    with pytest.raises(pyopnb.errors.ModelError, match=f"call of {op}: .*{reason}") as caught:
        pyopnb.call(op, *arrays)
    here, *others = traceback.extract_tb(caught.value.__traceback__)
    assert here.filename == __file__ and {frame.name for frame in others} <= {"wrapper"}


def test_big_endian_and_strided_inputs_are_taken_as_the_values_that_they_are():
    assert pyopnb.call("Neg", X.astype(">f4")).tolist() == [-1, 2]
    assert pyopnb.call("Neg", np.arange(6, dtype=np.float32)[::-2]).tolist() == [-5, -3, -1]


def test_many_threads(built, soft_clip):
    failures, go = [], threading.Barrier(8)

    def work(number):
        try:
            go.wait()
            for step in range(50):
                limit = float((number + step) % 3)
                x = np.float32([number, step])
                if (
                    pyopnb.call("demo::SoftClip", x, limit=limit).tolist()
                    != np.minimum(x, limit).tolist()
                ):
                    failures.append((number, step))
                if number == 0 and step % 10 == 0:
                    pyopnb.registry.define(soft_clip, "demo::SoftClip")
        except Exception as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []


def test_a_call_inside_compute(soft_clip):
    @pyopnb.pyop("demo::Outer")
    class Outer:
        def compute(self, x):
            return pyopnb.call("demo::SoftClip", pyopnb.call("Neg", x), limit=1.5)

    assert pyopnb.call("demo::Outer", X).tolist() == [-1, 1.5]


def test_run_takes_a_model_once():
    model = pyopnb.parse("(float[N] x) => (y) { y = Neg(x) }")
    assert pyopnb.run(model, X)["y"].tolist() == pyopnb.run(model, x=X)["y"].tolist() == [-1, 2]


class Named:
    def __init__(
        self, name: str = "a", where: str = "a", op: str = "a", outputs: int = 97, opset: int = 97
    ):
        self.attrs = {"name": name, "where": where, "op": op, "outputs": outputs, "opset": opset}

    def compute(self, x):
        (changed,) = {str(value) for value in self.attrs.values()} - {"a", "97"}
        return np.full(x.shape, ord(changed), x.dtype)


def test_an_attr_may_have_any_name_or_it_is_said_how_to_set_it():
    pyopnb.pyop("demo::Named")(Named)
    x = np.float32([0])

    def built(node):
        return pyopnb.model([node], {"x": "float32[N]"}, "y")

    for name in ("where", "op"):
        node = pyopnb.node("demo::Named", "x", "y", **{name: "b"})
        assert pyopnb.run(built(node), x)["y"] == [98]
        assert pyopnb.call("demo::Named", x, **{name: "b"}) == [98]
        session = pyopnb.Session(built(pyopnb.node("demo::Named", "x", "y")))
        session.set_attrs(**{name: "b"})
        assert session(x)["y"] == [98]
    assert pyopnb.call("demo::Named", x, name="b") == [98]
    with pytest.raises(
        pyopnb.errors.InputError, match=r"node demo::Named, name: .*Try: node.attribute.append"
    ):
        pyopnb.node("demo::Named", "x", "y", name="b")
    for name in ("outputs", "opset"):
        with pytest.raises(
            pyopnb.errors.InputError, match=rf"call of demo::Named, {name}: .*Try: pyopnb.run"
        ):
            pyopnb.call("demo::Named", x, **{name: 5})
    # A node of an op without such an attr can be named.
    assert pyopnb.node("Neg", "x", "y", name="b").name == "b"


def test_an_old_version_without_a_kernel_is_sent_to_the_reference():
    a, b = np.ones((2, 3), np.float32), np.float32([1, 2])
    advice = r'Try: pyopnb.reference\("::Add", …, opset=1\)'
    with pytest.raises(pyopnb.errors.ModelError, match=advice):
        pyopnb.call("Add", a, b, opset=1, broadcast=1, axis=0)
    # As typed, it means the old version: the second input begins at the first axis.
    found = pyopnb.reference("::Add", a, b, opset=1, broadcast=1, axis=0)
    assert found.tolist() == [[2, 2, 2], [3, 3, 3]]
