"""Plain onnxruntime sessions with pyopnb's library in their options."""

from __future__ import annotations

import gc

import numpy as np
import onnx
import onnxruntime
import pytest

import pyopnb
from pyopnb.engine.runtime import callbacks

X = np.float32([[1, 2], [3, 4]])

needs_tellable_outputs = pytest.mark.skipif(
    not callbacks._REFUSES_FURTHER_OUTPUTS,
    reason="ONNX Runtime before 1.28 can only be told the first output's type",
)


def registered():
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.register_custom_ops_library(pyopnb.get_library_path())
    return options


def bare(model, options=None):
    return onnxruntime.InferenceSession(
        model.SerializeToString(),
        options or registered(),
        providers=["CPUExecutionProvider"],
        enable_fallback=0,
    )


def run(session, **feeds):
    quiet = onnxruntime.RunOptions()
    quiet.log_severity_level = 4
    return session.run(None, feeds, quiet)


def model(
    op="b::Op",
    inputs=None,
    outputs=None,
    ins="x",
    outs="y",
    **attrs,
):
    kinds = inputs or {"x": "float32[N,2]"}
    return pyopnb.model(
        [pyopnb.node(op, ins, outs, name="mine", **attrs)], kinds, outputs or {"y": "float32[N,2]"}
    )


def define(**members):
    pyopnb.registry.define(type("Op", (), members), "b::Op")


def test_hints_reach_the_runtime():
    class Op:
        def compute(self, x: "float32[N,K]") -> "int64[N]":
            return x.sum(axis=1).astype(np.int64)

    pyopnb.registry.define(Op, "b::Op")
    session = bare(model(outputs="y"))
    (output,) = session.get_outputs()
    assert (output.type, output.shape) == ("tensor(int64)", ["N"])
    assert run(session, x=X)[0].tolist() == [3, 7]


def test_a_dtype_that_infer_says_without_a_rank_is_refused_before_the_run():
    define(infer=lambda self, x: "float64[...]", compute=lambda self, x: x.astype(np.float64))
    said = r"output 0: expected float64\[\.\.\.\], as the op says, got float32"
    with pytest.raises(Exception, match=said):
        bare(model())


def test_infer_with_attrs_reaches_the_runtime():
    class Op:
        def __init__(self, by: int, sizes: list[int], mode: str):
            self.by, self.sizes, self.mode = by, sizes, mode

        def infer(self, x):
            return x.like(shape=[*self.sizes, self.by, len(self.mode)])

        def compute(self, x):
            return np.zeros([*self.sizes, self.by, len(self.mode)], x.dtype)

    pyopnb.registry.define(Op, "b::Op")
    session = bare(model(outputs="y", by=3, sizes=[4, 5], mode="ab"))
    assert session.get_outputs()[0].shape == [4, 5, 3, 2]
    assert run(session, x=X)[0].shape == (4, 5, 3, 2)


def test_an_attr_that_only_a_session_of_ours_has_is_refused():
    class Op:
        def __init__(self, body: onnx.ModelProto):
            self.body = body

        def compute(self, x):
            return x

    pyopnb.registry.define(Op, "b::Op")
    body = pyopnb.parse("(float[N] v) => (float[N] w) { w = Abs(v) }")
    with pytest.raises(Exception, match=r"attr body: .*got graph\. Try: pyopnb.Session\(model\)"):
        bare(model(body=body))


def test_infer_with_an_attr_that_the_runtime_shows_late():
    class Op:
        def __init__(self, t: np.ndarray):
            self.t = t

        def infer(self, x):
            return x

        def compute(self, x):
            return x + self.t

    pyopnb.registry.define(Op, "b::Op")
    assert run(bare(model(t=np.float32([10, 20]))), x=X)[0].tolist() == [[11, 22], [13, 24]]


def test_unknown_rank_and_another_dtype():
    class Op:
        def compute(self, x) -> "int64[...]":
            return np.flatnonzero(x > 1)

    pyopnb.registry.define(Op, "b::Op")
    assert run(bare(model(outputs={"y": "int64[...]"})), x=X)[0].tolist() == [1, 2, 3]


def test_optional_inputs_and_outputs():
    class Op:
        def compute(self, a, b=None, c=None) -> ("float32[...]", "bool[2]"):
            return a, np.array([b is None, c is None])

    pyopnb.registry.define(Op, "b::Op")
    session = bare(model(ins=["x", "", "x"], outs=["", "y"], outputs={"y": "bool[2]"}))
    assert run(session, x=X)[0].tolist() == [True, False]


HINT = ("float32[...]", "int64[...]")


@pytest.mark.parametrize(
    ("hint", "size"),
    [
        (
            HINT,
            "int64[...]",
        ),  # without a rank infer cannot tell ONNX Runtime a dtype: the op type declares the hint's
        (HINT, "int64[]"),
        pytest.param(None, "int64[]", marks=needs_tellable_outputs),
    ],
)
def test_several_outputs_of_other_dtypes_with_infer(hint, size):
    class Op:
        def infer(self, x):
            return x, size

        def compute(self, x):
            return x * 2, np.array(x.size)

    if hint:
        Op.compute.__annotations__["return"] = hint
    pyopnb.registry.define(Op, "b::Op")
    nodes = [pyopnb.node("b::Op", "x", "y n"), pyopnb.node("Add", "n n", "twice")]
    doubled, twice = run(bare(pyopnb.model(nodes, {"x": "float32[N,2]"}, "y twice")), x=X)
    assert (doubled.tolist(), twice) == ((X * 2).tolist(), 8)


def test_a_node_without_the_later_outputs():
    class Op:
        def compute(self, x: "float32[N,2]") -> ("float32[N,2]", "int64[7]", "int64[7]"):
            return x, np.arange(7), np.arange(7)

    pyopnb.registry.define(Op, "b::Op")
    assert run(bare(model()), x=X)[0].tolist() == X.tolist()


def test_the_error_carries_everything():
    class Op:
        def compute(self, x):
            raise LookupError("boom é")  # the line

    pyopnb.registry.define(Op, "b::Op")
    session = bare(model())
    with pytest.raises(Exception, match="boom") as caught:
        run(session, x=X)
    text = str(caught.value)
    line = Op.compute.__code__.co_firstlineno + 1
    for fact in (
        "LookupError: boom é",
        "node 'mine'",
        "b::Op",
        "version 1",
        f"line {line}",
        "in compute",
        "raise LookupError",
    ):
        assert fact in text


def test_a_redefinition_serves_from_the_next_run():
    define(compute=lambda self, x: x * 2)
    session = bare(model())
    assert run(session, x=X)[0][0, 0] == 2
    define(compute=lambda self, x: x * 3)
    assert run(session, x=X)[0][0, 0] == 3


def test_a_changed_schema_is_an_error_that_says_what_to_do():
    class Op:
        def compute(self, x: "float32[N,2]") -> "float32[N,2]":
            return x

    pyopnb.registry.define(Op, "b::Op")
    session = bare(model())
    run(session, x=X)

    class Op:
        def compute(self, x: "float32[N,2]") -> "float32[N]":
            return x[:, 0]

    pyopnb.registry.define(Op, "b::Op")
    with pytest.raises(
        Exception,
        match=r"SchemaChanged: .*b::Op.*expected float32\[N,2\], got float32\[N\].*rebuild the session",
    ):
        run(session, x=X)
    assert run(bare(model(outputs="y")), x=X)[0].tolist() == [1, 3]


def test_ops_defined_after_the_registration_need_a_new_one():
    options = registered()
    define(compute=lambda self, x: x * 2)
    with pytest.raises(Exception, match="b:Op"):
        bare(model(), options)
    assert run(bare(model(), registered()), x=X)[0][0, 0] == 2


def test_more_ops_of_the_same_domain_by_a_second_registration():
    define(compute=lambda self, x: x * 2)
    options, others = registered(), registered()
    first = bare(model(), options)
    pyopnb.registry.define(type("More", (), {"compute": lambda self, x: x * 3}), "b::More")
    options.register_custom_ops_library(pyopnb.get_library_path())
    for made in (options, registered(), others):
        assert run(bare(model(), made), x=X)[0][0, 0] == 2
    assert (
        run(bare(model("b::More"), options), x=X)[0][0, 0]
        == run(bare(model("b::More")), x=X)[0][0, 0]
        == 3
    )
    assert run(pyopnb.Session(model("b::More"), options), x=X)[0][0, 0] == 3
    assert run(first, x=X)[0][0, 0] == 2


def test_a_removed_op_serves_the_sessions_that_have_it():
    define(compute=lambda self, x: x * 2)
    session, options = bare(model()), registered()
    pyopnb.registry.remove("b::Op")
    gc.collect()
    assert run(session, x=X)[0][0, 0] == 2
    with pytest.raises(Exception, match="b::Op"):
        bare(model(), options)
    with pytest.raises(Exception, match="b:Op"):
        bare(model())


@pytest.mark.parametrize("name", ["::Relu", "com.microsoft::Gelu"])
def test_in_the_place_of(name):
    pyopnb.registry.define(type("C", (), {"compute": lambda self, x: x + np.float32(100)}), name)
    assert run(bare(model(name)), x=X)[0].tolist() == (X + 100).tolist()
    pyopnb.registry.clear()
    plain = run(bare(model(name)), x=X)[
        0
    ]  # a session made afterwards has the one of the runtime again
    assert plain[0, 0] < 2


def test_a_retired_node_is_refused_with_words():
    node = {"module": "subprocess", "class_name": "Popen", "input_types": [1], "output_types": [1]}
    with pytest.raises(Exception, match="PyOp"):
        bare(model("d::PyOp", **node))
