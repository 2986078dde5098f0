"""Attrs: from the node's attributes to the parameters of ``__init__``, each as its Python type and exactly."""

from __future__ import annotations

from typing import Any, ClassVar

import ml_dtypes
import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import AttributeProto, TensorProto, helper

import pyopnb

X = np.float32([1, 2])


def keeping(into):
    class Keeper:
        def __init__(self, **attrs: Any) -> None:
            into.append(attrs)

        def compute(self, x):
            return x

    return Keeper


def one_node(*attributes, **attrs):
    node = pyopnb.node("demo::Keeper", "x", "y", **attrs)
    node.attribute.extend(attributes)
    return pyopnb.model([node], {"x": "float32[N]"}, {"y": "float32[N]"})


def arriving(*attributes, **attrs):
    seen: list[dict[str, Any]] = []
    pyopnb.registry.define(keeping(seen), "demo::Keeper")
    pyopnb.Session(one_node(*attributes, **attrs))
    (only,) = seen
    return only


def bare_session(model):
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    # The optimizer of onnxruntime 1.25 fails on any tensor attribute of strings.
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.register_custom_ops_library(pyopnb.get_library_path())
    return onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )


def exact(value):
    """What two attrs have in common that are the same to the bit, with the types of all parts."""
    if isinstance(value, np.ndarray):
        return str(value.dtype), value.shape, value.tolist()
    if isinstance(value, list):
        return [exact(item) for item in value]
    return type(value), repr(value)


def stored(value):
    """What a file keeps of a value: its floats are float32."""
    if isinstance(value, list):
        return [stored(item) for item in value]
    return float(np.float32(value)) if isinstance(value, float) else value


TENSORS = [
    np.array(7),
    np.zeros((0, 3), np.float64),
    np.array(["a", "é"], dtype=object),
    np.float32([[1, 2], [3, 4]]),
    np.array([True, False]),
    np.array([1, -2], ml_dtypes.bfloat16),
    np.array([1, -2, 7], ml_dtypes.int4),
    np.array([1 + 2j], np.complex64),
]
VALUES = [
    *(0, -(2**63), 2**63 - 1),
    *(0.1, 1e-45, -0.0, 3.4028235e38, float("inf"), 0.123456789),
    *("", "é\n\0z", "x" * 100_000, b"\xff\0\xfe"),
    *([1, -2, 2**62], [0.1, -0.0], ["a", "é", ""], [b"\xff", b"\xfe\0"]),
    *TENSORS,
]


@pytest.mark.parametrize("value", VALUES, ids=lambda value: repr(value)[:30])
def test_a_value_arrives_exactly_and_as_its_python_type(value):
    assert exact(arriving(a=value)["a"]) == exact(stored(value))


@pytest.mark.parametrize(
    "kind", [AttributeProto.INTS, AttributeProto.FLOATS, AttributeProto.STRINGS]
)
def test_empty_lists(kind):
    assert arriving(helper.make_attribute("a", [], attr_type=kind))["a"] == []


def inner_graph():
    return pyopnb.model(
        [pyopnb.node("Neg", "u", "v")], {"u": "float32[N]"}, {"v": "float32[N]"}, name="inner"
    ).graph


def test_graph_is_a_model_that_runs_inside_the_op():
    class Runs:
        def __init__(self, body: onnx.ModelProto):
            self.session = pyopnb.Session(body)

        def compute(self, x):
            return self.session(u=x)["v"]

    pyopnb.registry.define(Runs, "demo::Keeper")
    session = pyopnb.Session(one_node(helper.make_attribute("body", inner_graph())))
    assert session(x=X)["y"].tolist() == [-1, -2]


def test_nodes_of_a_graph_attr_are_the_business_of_the_op():
    made: list[str] = []

    class Inner:
        def __init__(self):
            made.append("inner")

        def compute(self, u):
            return u * 10

    class Runs:
        def __init__(self, body: onnx.ModelProto):
            made.append(body.graph.node[0].domain)
            self.session = pyopnb.Session(body)

        def compute(self, x):
            return self.session(u=x)["v"]

    pyopnb.registry.define(Inner, "demo::Inner")
    pyopnb.registry.define(Runs, "demo::Keeper")
    body = pyopnb.model(
        [pyopnb.node("demo::Inner", "u", "v")], {"u": "float32[N]"}, {"v": "float32[N]"}
    )
    session = pyopnb.Session(one_node(body=body))
    assert session(x=X)["y"].tolist() == [10, 20]
    assert made == ["demo", "inner"]


def test_graph_attr_is_there_again_after_the_session_is_built_anew():
    class First:
        def __init__(self, body: onnx.ModelProto):
            self.body = body

        def compute(self, x) -> "float32[N]":
            return x

    class Second:
        def __init__(self, body: onnx.ModelProto):
            self.name = body.graph.name

        def compute(self, x) -> "string[1]":
            return np.array([self.name], dtype=object)

    node = pyopnb.node("demo::Keeper", "x", "y")
    node.attribute.append(helper.make_attribute("body", inner_graph()))
    pyopnb.registry.define(First, "demo::Keeper")
    session = pyopnb.Session(pyopnb.model([node], {"x": "float32[N]"}, "y"))
    session(x=X)
    pyopnb.registry.define(Second, "demo::Keeper")
    with pytest.warns(UserWarning, match="session rebuilt"):
        assert session(x=X)["y"].tolist() == ["inner"]


class Declared:
    seen: ClassVar[dict[str, Any]] = {}

    def __init__(
        self,
        i: int = 3,
        f: float = 0.5,
        s: str = "s",
        b: bytes = b"b",
        flag: bool = True,
        many: list[int] = (1, 2),  # type: ignore[assignment]  # a tuple cannot be changed by accident
        t: np.ndarray | None = None,
        guess="text",
    ):
        Declared.seen = {k: v for k, v in locals().items() if k != "self"}

    def compute(self, x):
        return x


def declared(**attrs):
    pyopnb.registry.define(Declared, "demo::Keeper")
    pyopnb.Session(one_node(**attrs))
    return Declared.seen


def test_defaults_are_those_of_init():
    assert declared() == {
        "i": 3,
        "f": 0.5,
        "s": "s",
        "b": b"b",
        "flag": True,
        "many": (1, 2),
        "t": None,
        "guess": "text",
    }


def test_declared_kinds_arrive_as_declared():
    seen = declared(i=5, f=2, s="é", b="raw", flag=0, many=[7], t=X, guess="other")
    assert seen["f"] == 2.0
    assert type(seen["f"]) is float
    assert seen["b"] == b"raw"
    assert seen["flag"] is False
    assert seen["many"] == [7]
    assert seen["t"].tolist() == [1, 2]
    assert seen["guess"] == "other"


@pytest.mark.parametrize(
    ("attrs", "expected", "got"),
    [
        ({"i": 1.5}, "int", "float 1.5"),
        ({"i": "1"}, "int", "str '1'"),
        ({"f": "1"}, "float", "str '1'"),
        ({"s": 1}, "str", "int 1"),
        ({"flag": 2}, "bool", "int 2"),
        ({"many": 1}, "list[int]", "int 1"),
        ({"many": [1.5]}, "list[int]", "list[float] [1.5]"),
        ({"t": [1.0]}, "tensor", "list[float] [1.0]"),
    ],
)
def test_wrong_kinds_are_refused(attrs, expected, got):
    (name,) = attrs
    with pytest.raises(pyopnb.errors.ModelError) as caught:
        declared(**attrs)
    assert f"attr {name}: expected {expected}, got {got}" in str(caught.value)
    assert "demo::Keeper" in str(caught.value)


def test_an_int_that_no_float_holds_is_refused():
    with pytest.raises(pyopnb.errors.ModelError, match="attr f"):
        declared(f=2**53 + 1)


def test_a_tensor_attr_in_another_file_is_refused():
    tensor = TensorProto(
        name="t", data_type=TensorProto.FLOAT, dims=[1], data_location=TensorProto.EXTERNAL
    )
    tensor.external_data.add(key="location", value="elsewhere.bin")
    pyopnb.registry.define(keeping([]), "demo::Keeper")
    with pytest.raises(pyopnb.errors.ModelError, match="external data"):
        pyopnb.Session(one_node(helper.make_attribute("a", tensor)))


def test_a_tensor_attr_with_too_few_bytes_is_refused():
    tensor = TensorProto(data_type=TensorProto.FLOAT, dims=[4], raw_data=b"\0" * 4)
    pyopnb.registry.define(keeping([]), "demo::Keeper")
    with pytest.raises(pyopnb.errors.ModelError, match="attr a"):
        pyopnb.Session(one_node(helper.make_attribute("a", tensor)))


LINKED = {
    "i": (3, AttributeProto.INT),
    "f": (0.1, AttributeProto.FLOAT),
    "s": ("é", AttributeProto.STRING),
    "ints": ([1, 2], AttributeProto.INTS),
    "floats": ([0.5, 0.1], AttributeProto.FLOATS),
    "strings": (["a", "é"], AttributeProto.STRINGS),
    "t": (X, AttributeProto.TENSOR),
}


def in_function(call, defaults=None):
    inner = pyopnb.node("demo::Keeper", "u", "v")
    for name, (_, kind) in LINKED.items():
        inner.attribute.append(AttributeProto(name=name, ref_attr_name=f"outer_{name}", type=kind))
    defaults = defaults or []
    named = {a.name for a in defaults}
    function = helper.make_function(
        "local",
        "F",
        ["u"],
        ["v"],
        [inner],
        [helper.make_opsetid("demo", 1)],
        attributes=[f"outer_{n}" for n in LINKED if f"outer_{n}" not in named],
        attribute_protos=defaults,
    )
    outer = pyopnb.node("local::F", "x", "y", **{f"outer_{k}": v for k, v in call.items()})
    return pyopnb.model([outer], {"x": "float32[N]"}, {"y": "float32[N]"}, functions=[function])


def same(got, want):
    return {k: exact(v) for k, v in got.items()} == {k: exact(stored(v)) for k, v in want.items()}


class Full:
    seen: ClassVar[list[dict[str, Any]]] = []

    def __init__(
        self, i: Any = 0, f=0.0, s: Any = "", ints=None, floats=None, strings=None, t=None
    ):
        Full.seen.append({k: v for k, v in locals().items() if k != "self"})

    def compute(self, x):
        return x


@pytest.fixture
def full():
    Full.seen = []
    pyopnb.registry.define(Full, "demo::Keeper")
    return Full.seen


@pytest.mark.parametrize("make", [pyopnb.Session, bare_session], ids=["session", "bare"])
def test_attrs_of_a_function_that_its_caller_gives(full, make):
    values = {name: value for name, (value, _) in LINKED.items()}
    session = make(in_function(values))
    assert session.run(None, {"x": X})[0].tolist() == [1, 2]
    assert same(full[-1], values)


@pytest.mark.parametrize("make", [pyopnb.Session, bare_session], ids=["session", "bare"])
def test_a_caller_that_gives_nothing_leaves_the_defaults_of_init(full, make):
    make(in_function({}))
    assert same(
        full[-1],
        {"i": 0, "f": 0.0, "s": "", "ints": None, "floats": None, "strings": None, "t": None},
    )


@pytest.mark.parametrize("make", [pyopnb.Session, bare_session], ids=["session", "bare"])
def test_defaults_of_the_function_itself(full, make):
    defaults = [helper.make_attribute("outer_i", 42), helper.make_attribute("outer_s", "default")]
    make(in_function({"s": "given"}, defaults))
    assert (full[-1]["i"], full[-1]["s"]) == (42, "given")


@pytest.mark.parametrize(
    "value", [*(value for value, _ in LINKED.values()), *TENSORS[:3]], ids=repr
)
def test_a_bare_session_reads_each_kind(full, value):
    name = next((name for name, pair in LINKED.items() if pair[0] is value), "t")
    bare_session(one_node(**{name: value}))
    assert exact(full[-1][name]) == exact(stored(value))
