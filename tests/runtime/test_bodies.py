"""Ops wherever a node can stand: main graph, bodies, functions, inside each other; one instance a node a session."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import helper

import pyopnb
from pyopnb.models.ort_capabilities import newest_opset

X = np.float32([1, 2])
MAKE = helper.make_node


class Counted:
    """Adds how often this instance ran, and remembers all instances."""

    all: ClassVar[list[Counted]] = []

    def __init__(self, step: float = 1.0):
        self.step, self.runs = step, 0
        Counted.all.append(self)

    def compute(self, x):
        self.runs += 1
        return x + np.float32(self.step * self.runs)


@pytest.fixture(autouse=True)
def counting() -> type:
    Counted.all = []
    return pyopnb.pyop("t::Counted")(Counted)


def info(name: str, shape: Any = ("N",), kind: int = onnx.TensorProto.FLOAT) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, kind, shape)


def body(nodes: list[onnx.NodeProto], inputs: list[Any], outputs: list[Any]) -> onnx.GraphProto:
    return helper.make_graph(nodes, "body", inputs, outputs)


def counted(x: str, y: str, **attrs: Any) -> onnx.NodeProto:
    return pyopnb.node("t::Counted", x, y, **attrs)


def choice(
    cond: str, output: str, then: list[onnx.NodeProto], other: list[onnx.NodeProto]
) -> onnx.NodeProto:
    return MAKE(
        "If",
        [cond],
        [output],
        then_branch=body(then, [], [info(then[-1].output[0], None)]),
        else_branch=body(other, [], [info(other[-1].output[0], None)]),
    )


IN = {"c": "bool[]", "x": "float32[N]"}
OUT = {"y": "float32[...]"}


def test_in_the_branches_of_if() -> None:
    model = pyopnb.model(
        [choice("c", "y", [counted("x", "a", step=1.0)], [counted("x", "b", step=10.0)])], IN, OUT
    )
    session = pyopnb.Session(model)
    assert session(c=np.array(True), x=X)["y"].tolist() == [2, 3]
    assert session(c=np.array(False), x=X)["y"].tolist() == [11, 12]
    assert session(c=np.array(True), x=X)["y"].tolist() == [3, 4]
    assert sorted((i.step, i.runs) for i in Counted.all) == [(1.0, 2), (10.0, 1)]


def test_in_a_loop_body_whose_state_goes_on() -> None:
    loop = MAKE(
        "Loop",
        ["n", "", "x"],
        ["y"],
        body=body(
            [MAKE("Identity", ["cond"], ["cond_out"]), counted("state", "next")],
            [
                info("i", (), onnx.TensorProto.INT64),
                info("cond", (), onnx.TensorProto.BOOL),
                info("state"),
            ],
            [info("cond_out", (), onnx.TensorProto.BOOL), info("next")],
        ),
    )
    session = pyopnb.Session(pyopnb.model([loop], {"n": "int64[]", "x": "float32[N]"}, OUT))
    assert session(n=np.array(3), x=X)["y"].tolist() == [7, 8]
    assert [i.runs for i in Counted.all] == [3]
    assert session(n=np.array(0), x=X)["y"].tolist() == [1, 2]


def test_in_a_scan_body_in_a_loop_body() -> None:
    scan = MAKE(
        "Scan",
        ["rows"],
        ["scanned"],
        num_scan_inputs=1,
        body=body([counted("row", "out")], [info("row", (2,))], [info("out", (2,))]),
    )
    loop = MAKE(
        "Loop",
        ["n", "", "x"],
        ["y"],
        body=body(
            [MAKE("Identity", ["cond"], ["cond_out"]), MAKE("Identity", ["state"], ["rows"]), scan],
            [
                info("i", (), onnx.TensorProto.INT64),
                info("cond", (), onnx.TensorProto.BOOL),
                info("state", ("M", 2)),
            ],
            [info("cond_out", (), onnx.TensorProto.BOOL), info("scanned", ("M", 2))],
        ),
    )
    session = pyopnb.Session(pyopnb.model([loop], {"n": "int64[]", "x": "float32[M,2]"}, OUT))
    got = session(n=np.array(2), x=np.zeros((3, 2), np.float32))["y"]
    assert got[:, 0].tolist() == [1 + 4, 2 + 5, 3 + 6]


# ---- functions ---------------------------------------------------------------------------------------------------------------


def function(
    name: str, nodes: list[onnx.NodeProto], domains: tuple[str, ...] = ("t",)
) -> onnx.FunctionProto:
    imports = [helper.make_opsetid(domain, 1) for domain in domains] + [
        helper.make_opsetid("", newest_opset())
    ]
    return helper.make_function("local", name, ["u"], ["v"], nodes, imports)


def test_a_function_called_twice_has_two_instances() -> None:
    calls = [MAKE("F", ["x"], ["m"], domain="local"), MAKE("F", ["m"], ["y"], domain="local")]
    model = pyopnb.model(
        calls, {"x": "float32[N]"}, OUT, functions=[function("F", [counted("u", "v")])]
    )
    session = pyopnb.Session(model)
    assert session(X)["y"].tolist() == [3, 4]
    assert session(X)["y"].tolist() == [5, 6]
    assert [i.runs for i in Counted.all if i.runs] == [2, 2]


def test_a_function_of_another_opset_runs_where_its_types_are_declared() -> None:
    f = helper.make_function(
        "local",
        "F",
        ["u"],
        ["v"],
        [counted("u", "v")],
        [helper.make_opsetid("t", 7), helper.make_opsetid("", 17)],
    )
    model = pyopnb.model(
        [MAKE("F", ["x"], ["y"], domain="local")], {"x": "float32[N]"}, OUT, functions=[f]
    )
    assert pyopnb.Session(model)(X)["y"].tolist() == [2, 3]


def test_an_op_in_an_if_in_a_function() -> None:
    nodes = [
        MAKE("ReduceSum", ["u"], ["sum"], keepdims=0),
        MAKE("Constant", [], ["zero"], value_float=0.0),
        MAKE("Greater", ["sum", "zero"], ["c"]),
        choice("c", "v", [counted("u", "a")], [MAKE("Neg", ["u"], ["b"])]),
    ]
    model = pyopnb.model(
        [MAKE("F", ["x"], ["y"], domain="local")],
        {"x": "float32[N]"},
        OUT,
        functions=[function("F", nodes)],
    )
    session = pyopnb.Session(model)
    assert session(X)["y"].tolist() == [2, 3]
    assert session(-X)["y"].tolist() == [1, 2]


def test_an_op_with_infer_in_a_function_called_twice() -> None:
    class Grows:
        def __init__(self, by: int):
            self.by = by

        def infer(self, x):
            return x.like(shape=[x.shape[0] * self.by])

        def compute(self, x):
            return np.tile(x, self.by)

    pyopnb.registry.define(Grows, "t::Grows")
    node = MAKE("Grows", ["u"], ["v"], domain="t")
    node.attribute.append(
        onnx.AttributeProto(name="by", ref_attr_name="by", type=onnx.AttributeProto.INT)
    )
    f = helper.make_function(
        "local", "F", ["u"], ["v"], [node], [helper.make_opsetid("t", 1)], attributes=["by"]
    )
    calls = [
        MAKE("F", ["x"], ["m"], domain="local", by=2),
        MAKE("F", ["m"], ["y"], domain="local", by=3),
    ]
    session = pyopnb.Session(pyopnb.model(calls, {"x": "float32[2]"}, "y", functions=[f]))
    assert session.get_outputs()[0].shape == [12]
    assert session(X)["y"].shape == (12,)


# ---- runs inside compute -----------------------------------------------------------------------------------------------------


def single(op: str = "t::Counted", **attrs: Any) -> onnx.ModelProto:
    return pyopnb.model([pyopnb.node(op, "x", "y", name="n", **attrs)], {"x": "float32[N]"}, OUT)


def test_a_session_that_is_running_can_be_run_by_its_op() -> None:
    sessions: list[pyopnb.Session] = []

    class Again:
        def compute(self, x):
            return sessions[0](x - np.float32(1))["y"] if x[0] > 0 else x

    pyopnb.registry.define(Again, "t::Again")
    sessions.append(pyopnb.Session(single("t::Again")))
    assert sessions[0](np.float32([3]))["y"].tolist() == [0]


def test_endless_nesting_is_a_recursion_error() -> None:
    sessions: list[pyopnb.Session] = []

    class Endless:
        def compute(self, x):
            return sessions[0](x)["y"]

    pyopnb.registry.define(Endless, "t::Endless")
    sessions.append(pyopnb.Session(single("t::Endless")))
    with pytest.raises(RecursionError):
        sessions[0](X)
    with pytest.raises(RecursionError):  # and the session is none the worse
        sessions[0](X)


def test_an_error_of_a_session_in_compute_passes_through_both() -> None:
    class Fails:
        def compute(self, x):
            raise KeyError("inner")

    class Outer:
        def __init__(self):
            self.inner = pyopnb.Session(single("t::Fails"))

        def compute(self, x):
            return self.inner(x)["y"]

    pyopnb.registry.define(Fails, "t::Fails")
    pyopnb.registry.define(Outer, "t::Outer")
    with pytest.raises(KeyError, match="inner") as caught:
        pyopnb.Session(single("t::Outer"))(X)
    assert [note for note in caught.value.__notes__ if "t::Fails" in note]
    assert [note for note in caught.value.__notes__ if "t::Outer" in note]


def test_a_bare_session_in_compute() -> None:
    class Bare:
        def __init__(self):
            options = onnxruntime.SessionOptions()
            options.log_severity_level = 4
            options.register_custom_ops_library(pyopnb.get_library_path())
            self.inner = onnxruntime.InferenceSession(
                single().SerializeToString(), options, providers=["CPUExecutionProvider"]
            )

        def compute(self, x):
            return self.inner.run(None, {"x": x})[0]

    pyopnb.registry.define(Bare, "t::Bare")
    session = pyopnb.Session(single("t::Bare"))
    assert session(X)["y"].tolist() == [2, 3]
    assert session(X)["y"].tolist() == [3, 4]


def test_a_failing_bare_session_in_compute_is_the_runtimes_own_error() -> None:
    class Fails:
        def compute(self, x):
            raise KeyError("inner")

    class Bare:
        def compute(self, x):
            options = onnxruntime.SessionOptions()
            options.log_severity_level = 4
            options.register_custom_ops_library(pyopnb.get_library_path())
            model = single("t::Fails").SerializeToString()
            run = onnxruntime.RunOptions()
            run.log_severity_level = 4
            return onnxruntime.InferenceSession(
                model, options, providers=["CPUExecutionProvider"]
            ).run(None, {"x": x}, run)[0]

    pyopnb.registry.define(Fails, "t::Fails")
    pyopnb.registry.define(Bare, "t::Bare")
    with pytest.raises(Exception, match="KeyError: 'inner'") as caught:
        pyopnb.Session(single("t::Bare"))(X)
    assert type(caught.value).__name__ == "Fail"


# ---- instances ---------------------------------------------------------------------------------------------------------------


def test_one_instance_a_node_a_session() -> None:
    model = pyopnb.model([counted("x", "m"), counted("m", "y")], {"x": "float32[N]"}, OUT)
    first, second = pyopnb.Session(model), pyopnb.Session(model)
    assert len(Counted.all) == 4
    assert first(X)["y"].tolist() == [3, 4]
    assert first(X)["y"].tolist() == [5, 6]
    assert second(X)["y"].tolist() == [3, 4]


def test_instances_go_with_their_session() -> None:
    import gc
    import weakref

    session = pyopnb.Session(single())
    session(X)
    gone = weakref.ref(Counted.all.pop())
    assert gone() is not None
    del session
    gc.collect()
    assert gone() is None


@pytest.mark.parametrize("fails_in", ["__init__", "infer"])
def test_what_placing_raises_is_the_users_own(fails_in: str) -> None:
    class Fails:
        def __init__(self):
            if fails_in == "__init__":
                raise KeyError("mine")

        def infer(self, x):
            raise KeyError("mine")

        def compute(self, x):
            return x

    pyopnb.registry.define(Fails, "t::Fails")
    with pytest.raises(KeyError, match="mine") as caught:
        pyopnb.Session(single("t::Fails"))
    assert any("node 'n'" in note and fails_in in note for note in caught.value.__notes__)
