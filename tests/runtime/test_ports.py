"""Ports: what an op gets for each input and may return for each output."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import onnx
import onnxruntime
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from onnx import helper

import pyopnb
from pyopnb.engine.ops.dtypes import DTYPES

X = np.arange(6, dtype=np.float32).reshape(2, 3)


def define(compute, **more):
    pyopnb.registry.define(type("Op", (), {"compute": compute, **more}), "t::Op")


def one(
    inputs,
    outputs="y",
    ins=None,
    outs=None,
):
    """A model of one node; ``ins`` and ``outs`` are the node's own lists, with '' for omitted ones."""
    names = list(outputs) if not isinstance(outputs, str) else outputs.split()
    return pyopnb.model([pyopnb.node("t::Op", ins or list(inputs), outs or names)], inputs, outputs)


def returning(value, kind="float32[...]"):
    """What a session gives for an op that returns this value for an output declared so."""
    define(lambda self, x: value)
    return pyopnb.Session(one({"x": "float32[...]"}, {"y": kind}))(x=X)["y"]


def test_optional_inputs_left_out_in_the_middle_and_at_the_start():
    def compute(self, a=None, b=None, c=None):
        return np.array([a is None, b is None, c is None])

    define(compute)
    for ins in (["", "x", "x"], ["x", "", "x"], ["x", "x", ""], ["", "", "x"], ["", "x"], ["x"]):
        got = pyopnb.Session(one({"x": "float32[...]"}, {"y": "bool[3]"}, ins=ins))(x=X)["y"]
        assert got.tolist() == [i >= len(ins) or not ins[i] for i in range(3)], ins


def test_a_missing_input_is_named():
    define(lambda self, x, bias: x)
    with pytest.raises(
        pyopnb.errors.ModelError,
        match=r"input bias: expected any\[\.\.\.\], got nothing\. Try: bias=None$",
    ):
        pyopnb.Session(one({"x": "float32[N]"}))


def test_variadic_inputs_of_mixed_dtypes():
    define(lambda self, *xs: np.array([str(x.dtype) for x in xs], dtype=object))
    kinds = {"a": "float32[2]", "b": "int64[]", "c": "string[1]", "d": "bfloat16[0]"}
    feeds = {
        "a": np.zeros(2, np.float32),
        "b": np.array(1),
        "c": np.array(["s"]),
        "d": np.zeros(0, ml_dtypes.bfloat16),
    }
    assert pyopnb.Session(one(kinds, {"y": "string[4]"}))(**feeds)["y"].tolist() == [
        "float32",
        "int64",
        "object",
        "bfloat16",
    ]


def test_strings_beside_dtypes_that_onnxruntime_has_no_arrays_for():
    define(lambda self, s, b: (b, s))
    model = one({"s": "string[N]", "b": "bfloat16[]"}, {"c": "bfloat16[]", "t": "string[N]"})
    c, t = pyopnb.Session(model)(s=np.array(["a\0", "é"], object), b=ml_dtypes.bfloat16(2))
    assert (c.dtype, float(c), t.tolist()) == (ml_dtypes.bfloat16, 2.0, ["a\0", "é"])


def test_no_inputs():
    calls: list[int] = []

    def compute(self):
        calls.append(1)
        return np.float32([len(calls)])

    define(compute)
    session = pyopnb.Session(one({}, {"y": "float32[1]"}))
    assert [session()["y"].tolist() for _ in range(2)] == [[1], [2]]


@pytest.mark.parametrize(
    "outs", [["a", "", "c"], ["a", "b", ""], ["", "b", "c"], ["", "", "c"], ["", "b", ""]]
)
def test_outputs_left_out(outs):
    define(lambda self, x: (x, x + 1, x + 2))
    named = [name for name in outs if name]
    result = pyopnb.Session(one({"x": "float32[...]"}, " ".join(named), outs=outs))(x=X)
    for name in named:
        assert result[name].tolist() == (X + "abc".index(name)).tolist()


@pytest.mark.parametrize("value", [X, (X,), (X, X, X), [X, X], None])
def test_a_wrong_number_of_results_is_an_error(value):
    define(lambda self, x: value)
    session = pyopnb.Session(one({"x": "float32[...]"}, "a b"))
    with pytest.raises(pyopnb.errors.ResultError, match="outputs: expected a tuple of 2"):
        session(x=X)


def test_more_outputs_than_the_hint_has_are_refused():
    def compute(self, x) -> "float32[N]":
        return x

    define(compute)
    model = one({"x": "float32[N]"}, {"a": "float32[N]", "b": "float32[N]"})
    said = "outputs: expected at most 1, as compute's hint says, got 2"
    with pytest.raises(pyopnb.errors.ModelError, match=said):
        pyopnb.Session(model)


def test_the_same_array_for_two_outputs():
    define(lambda self, x: (x, x))
    a, b = pyopnb.Session(one({"x": "float32[...]"}, "a b"))(x=X)
    assert a.tolist() == b.tolist() == X.tolist()
    a[...] = 7
    assert b.tolist() == X.tolist()


ALIASES = {
    "x": lambda x: x,
    "x[::-1]": lambda x: x[::-1],
    "x.T": lambda x: x.T,
    "x[:0]": lambda x: x[:0],
    "x[:, ::2]": lambda x: x[:, ::2],
    "x[::-1, ::-1]": lambda x: x[::-1, ::-1],
    "broadcast": lambda x: np.broadcast_to(x[:, :1], (2, 50)),
    "x[0, 0] as 0-d": lambda x: x[0, 0, ...],
    "x[None]": lambda x: x[None],
}


@pytest.mark.parametrize("layout", ALIASES)
@pytest.mark.parametrize("dtype", ["float32", "string", "int4", "bfloat16"])
def test_results_that_alias_an_input(layout, dtype):
    f = ALIASES[layout]
    define(lambda self, x: f(x))
    row = next(r for r in DTYPES if r.name == dtype)
    x = (
        np.array([["a", "b", "c"], ["d", "é", ""]], object)
        if dtype == "string"
        else X.astype(row.numpy)
    )
    session = pyopnb.Session(one({"x": f"{dtype}[...]"}, {"y": f"{dtype}[...]"}))
    for _ in range(3):  # the first call gets copies, the later ones views
        got = session(x=x)["y"]
        assert (got.shape, got.dtype, got.tolist()) == (f(x).shape, x.dtype, f(x).tolist())


def test_a_scalar_tensor():
    seen: list[Any] = []

    def compute(self, x):
        seen.append((type(x), x.shape))
        return x + np.float32(1)  # a NumPy scalar: arithmetic on 0-d arrays gives these

    define(compute)
    got = pyopnb.Session(one({"x": "float32[]"}, {"y": "float32[]"}))(x=np.float32(2))["y"]
    assert (np.asarray(got).shape, float(got), seen) == ((), 3.0, [(np.ndarray, ())])


def test_byte_order_of_complicated_layouts():
    got = returning(np.arange(12, dtype=">f4").reshape(3, 4)[::-1, ::2].T)
    assert got.tolist() == np.arange(12).reshape(3, 4)[::-1, ::2].T.tolist()


def test_unaligned_results():
    raw = np.frombuffer(b"\0" + np.float32([1, 2, 3]).tobytes() + b"\0\0\0", np.uint8)
    odd = np.ndarray((3,), np.float32, raw.data, offset=1)
    assert not odd.flags.aligned
    assert returning(odd).tolist() == [1, 2, 3]


@pytest.mark.parametrize(
    ("value", "kind", "want"),
    [
        (1.5, "float64[]", 1.5),
        (2, "int64[]", 2),
        (True, "bool[]", True),
        ([1, 2], "int64[...]", [1, 2]),
        ([[1.5], [2.0]], "float64[...]", [[1.5], [2.0]]),
        (np.float32(2), "float32[]", 2.0),
        (np.int8(3), "int8[]", 3),
        ("é\0", "string[]", "é\0"),
        (["a", ""], "string[2]", ["a", ""]),
        ([], "float64[...]", []),
        (range(3), "int64[...]", [0, 1, 2]),
    ],
)
def test_what_numpy_makes_exactly_the_dtype_of_is_taken(value, kind, want):
    assert returning(value, kind).tolist() == want


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        (1.5, "float32[]"),
        (2, "float32[]"),
        (2, "int32[]"),
        (True, "int64[]"),
        ([1, 2], "float32[...]"),
        (np.float64(2), "float32[]"),
        (np.zeros(2), "float32[...]"),
        (np.zeros(2, np.int32), "float32[...]"),
        (np.zeros(2, np.uint8), "int8[...]"),
        (np.zeros(2, bool), "uint8[...]"),
        (np.zeros(2, np.float16), "bfloat16[...]"),
        (np.zeros(2, np.complex64), "float32[...]"),
        (np.zeros(2, "M8[s]"), "int64[...]"),
        (np.zeros(2, [("a", "f4")]), "float32[...]"),
        ([[1.0], [1.0, 2.0]], "float64[...]"),
        (None, "float32[...]"),
        ({"y": 1}, "float32[...]"),
        (np.array([1, 2], object), "int64[...]"),
        (np.array(["a", 1], object), "string[...]"),
        (np.array([b"a"], object), "string[...]"),
        (np.array([b"a"]), "string[...]"),
        (1, "string[]"),
        (np.zeros((0, 2), np.float32), "string[...]"),
        (object(), "float32[...]"),
        (iter([1.0]), "float64[...]"),
    ],
)
def test_all_else_is_an_error_that_names_both_dtypes(value, kind):
    with pytest.raises(pyopnb.errors.ResultError) as caught:
        returning(value, kind)
    assert "node" in str(caught.value)
    assert "output 0" in str(caught.value)


def test_subclasses_and_masked_arrays():
    class Mine(np.ndarray):
        pass

    got = returning(X.view(Mine))
    assert type(got) is np.ndarray
    assert got.tolist() == X.tolist()
    assert returning(np.ma.array(X)).tolist() == X.tolist()
    with pytest.raises(pyopnb.errors.ResultError, match="masked array"):
        returning(np.ma.array(X, mask=X > 2))


def test_strings_pass():
    define(lambda self, x: x)
    texts = ["", "a", "a\0b", "\0", "é", "日本", "\U0001f600", "x" * 100_000]
    session = pyopnb.Session(one({"x": "string[N]"}))
    assert session(x=np.array(texts, object))["y"].tolist() == texts


def test_bytes_that_are_no_utf8_survive():
    seen: list[str] = []

    def compute(self, x):
        seen.extend(x)
        return x[::-1]

    define(compute)
    s, r = (
        onnx.TensorProto(name=name, data_type=onnx.TensorProto.STRING, dims=[2], string_data=texts)
        for name, texts in (("s", [b"\xff\xfe\0", b"a"]), ("r", [b"a", b"\xff\xfe\0"]))
    )
    model = pyopnb.model(
        [pyopnb.node("t::Op", "s", "y"), pyopnb.node("Equal", "y r", "same")],
        {},
        {"same": "bool[2]"},
        opset=19,
        initializers={"s": s, "r": r},
    )
    assert pyopnb.Session(model)()["same"].tolist() == [True, True]
    assert seen == ["\udcff\udcfe\0", "a"]


def test_a_lone_surrogate_is_an_error_and_no_crash():
    with pytest.raises(pyopnb.errors.ResultError, match=r"output 0\[0\]: expected str that UTF-8"):
        returning(np.array(["\ud800"], object), "string[...]")


def test_bytes_that_are_no_utf8_in_an_output_are_named():
    # onnxruntime makes str of an output, and the error is its own.
    with pytest.raises(UnicodeDecodeError) as raised:
        returning(np.array(["\udcff"], object), "string[...]")
    assert raised.value.__notes__ == ["in a text of output y"]


def test_text_arrays_of_numpy_are_strings():
    assert returning(np.array([["a", "bc"]]), "string[...]").tolist() == [["a", "bc"]]
    if hasattr(np.dtypes, "StringDType"):  # from NumPy 2 on
        assert returning(
            np.array(["a", "bc"], np.dtypes.StringDType()), "string[...]"
        ).tolist() == ["a", "bc"]


LAYOUTS = ("straight", "reversed", "transposed", "strided", "fortran")


def laid_out(array, layout):
    """The same values in another memory layout."""
    if layout == "reversed":
        return array[(slice(None, None, -1),) * array.ndim].copy()[
            (slice(None, None, -1),) * array.ndim
        ]
    if layout == "transposed":
        return array.T.copy().T
    if layout == "strided" and array.ndim:
        wide = np.zeros((*array.shape[:-1], array.shape[-1] * 2), array.dtype)
        wide[..., ::2] = array
        return wide[..., ::2]
    return (
        np.asfortranarray(array).reshape(array.shape, order="F") if layout == "fortran" else array
    )


CARRIED = [row for row in DTYPES if row.carried and row.name != "string"]


@pytest.mark.one_python  # 6 % of the lane with the oldest versions
@settings(max_examples=60)
@given(
    row=st.sampled_from(CARRIED),
    shape=hnp.array_shapes(min_dims=0, max_dims=5, min_side=0, max_side=5),
    fed=st.sampled_from(LAYOUTS),
    returned=st.sampled_from(LAYOUTS),
    seed=st.integers(
        0, 2**32 - 1
    ),  # and not the bytes themselves: hypothesis takes its time over thousands
)
def test_identity_is_bit_equal(row, shape, fed, returned, seed):
    count = int(np.prod(shape, dtype=int))
    values = np.random.default_rng(seed).integers(0, 256, count * row.numpy.itemsize, np.uint8)
    if row.bits < 8:
        values = values & (2**row.bits - 1)
    if row.name == "bool":
        values = values & 1
    array = values.copy().view(row.numpy).reshape(shape)
    seen: list[bytes] = []

    def compute(self, x):
        seen.append(masked(x))
        return laid_out(x, returned)

    def masked(x):
        whole = np.ascontiguousarray(x).view(np.uint8)
        return (whole & (2**row.bits - 1) if row.bits < 8 else whole).tobytes()

    define(compute)
    session = pyopnb.Session(one({"x": f"{row.name}[...]"}))
    for _ in range(2):
        got = session(x=laid_out(array, fed))["y"]
        assert (np.asarray(got).dtype, np.asarray(got).shape) == (array.dtype, array.shape)
        assert masked(np.asarray(got)) == masked(array)
    assert seen == [masked(array)] * 2


@pytest.mark.parametrize("outputs", ["y", {"y": "float32[...]"}, {"y": "float32[N]"}])
@pytest.mark.parametrize("infers", [False, True])
def test_an_output_has_the_first_inputs_dtype_whatever_the_others_have(outputs, infers):
    class Reduce:
        def compute(self, x, axes):
            return x.sum(axis=tuple(axes))

    if infers:
        Reduce.infer = lambda self, x, axes: pyopnb.TensorType(x.dtype, None)
    pyopnb.pyop("demo::Reduce")(Reduce)
    model = pyopnb.model(
        pyopnb.node("demo::Reduce", "x a", "y"), {"x": "float32[N,3]", "a": "int64[1]"}, outputs
    )
    result = pyopnb.Session(model)(x=np.ones((2, 3), np.float32), a=np.int64([0]))
    assert result["y"].tolist() == [2, 2, 2] and result["y"].dtype == np.float32


def test_an_unknown_rank_is_no_scalar():
    class Unknown:
        def infer(self, x):
            return pyopnb.TensorType(x.dtype, None)

        def compute(self, x):
            return x

    class Same:
        seen = []

        def infer(self, x):
            self.seen.append(str(x))
            return x

        def compute(self, x):
            return x

    pyopnb.pyop("demo::Unknown")(Unknown)
    pyopnb.pyop("demo::Same")(Same)
    nodes = [
        pyopnb.node("demo::Unknown", "x", "a"),
        pyopnb.node("demo::Same", "a", "y"),
        pyopnb.node("demo::Same", "s", "t"),
    ]
    session = pyopnb.Session(pyopnb.model(nodes, {"x": "float32[N]", "s": "float32[]"}, "y t"))
    assert set(Same.seen) == {"float32[...]", "float32[]"} and Same.seen.count(
        "float32[...]"
    ) >= Same.seen.count("float32[]")
    y, t = session(x=np.ones(2, np.float32), s=np.float32(1))
    assert y.shape == (2,) and t.shape == ()


class Cut:
    """Rows of its first input, whose dtype is not the same for all inputs: only the op can say which one the output has."""

    def compute(self, x: "float32[...]", first: "int64[1]", end: "int64[1]"):
        return x[int(first[0]) : int(end[0])]


def cuts(count, *, between="Add", declared=False):
    """A chain of nodes of one op behind a Reshape to a shape that is fed, so that no rank is known."""
    pyopnb.registry.define(Cut, "t::Cut")
    lines, name = ["r = Reshape(x, shape)"], "r"
    for number in range(count):
        lines.append(f"c{number} = t.Cut({name}, first, end)")
        name = f"c{number}"
        if between:
            lines.append(f"a{number} = {between}({name}, one)")
            name = f"a{number}"
    model = onnx.parser.parse_model(f"""<ir_version: 9, opset_import: ["" : 17, "t" : 1]>
        g (float[] x, int64[] shape) => (float[] y)
        <int64[1] first = {{0}}, int64[1] end = {{2}}, float one = {{1}}>
        {{ {"  ".join(lines)}  y = Neg({name}) }}""")
    floats = [helper.make_tensor_value_info(f"c{n}", 1, None) for n in range(count) if declared]
    model.graph.value_info.extend(floats)
    return model


@pytest.mark.parametrize(
    ("count", "between", "declared", "attempts"),
    [(1, "Add", False, 2), (3, "Add", False, 4), (40, "Add", True, 1), (200, "", False, 2)],
)
def test_several_nodes_behind_unknown_ranks(count, between, declared, attempts, monkeypatch):
    model, built = cuts(count, between=between, declared=declared), []
    inference = onnxruntime.InferenceSession
    monkeypatch.setattr(
        onnxruntime,
        "InferenceSession",
        lambda *args, **kwargs: built.append(1) or inference(*args, **kwargs),
    )
    session = pyopnb.Session(model)
    assert len(built) <= attempts
    result = session(x=np.float32([1, 2, 3]), shape=np.int64([3]))
    assert result["y"].tolist() == [-1 - count * bool(between), -2 - count * bool(between)]


def test_nodes_behind_unknown_ranks_in_the_branches_of_an_if():
    model = cuts(2)
    graph = model.graph
    branch = helper.make_graph(graph.node, "branch", [], graph.output)
    node = helper.make_node("If", ["c"], ["z"], then_branch=branch, else_branch=branch)
    del graph.node[:]
    graph.node.append(node)
    graph.input.append(helper.make_tensor_value_info("c", 9, []))
    graph.output[0].name = "z"
    feeds = {"x": np.float32([1, 2, 3]), "shape": np.int64([3]), "c": np.array(True)}
    assert pyopnb.Session(model)(feeds)["z"].tolist() == [-3, -4]


HALVES = {
    "hinted": (lambda x: x * np.float16(2), "float16[N,3]", "float16[N,3]", False),
    "hinted without rank": (lambda x: x * np.float16(2), "float16[...]", "float16[...]", False),
    "input alone hinted": (lambda x: x * np.float16(2), "float16[N,3]", None, False),
    "not hinted": (lambda x: x * x.dtype.type(2), None, None, False),
    "inferred": (lambda x: x * x.dtype.type(2), None, None, True),
}


def half_op(form, seen):
    function, takes, gives, infers = HALVES[form]

    class Double:
        def compute(self, x):
            seen.append(x.dtype)
            return function(x)

    Double.compute.__annotations__.update(
        {name: hint for name, hint in (("x", takes), ("return", gives)) if hint}
    )
    if infers:
        Double.infer = lambda self, x: x
    pyopnb.registry.define(Double, "t::Op")


@pytest.mark.parametrize("level", ["ORT_ENABLE_ALL", "ORT_DISABLE_ALL"])
@pytest.mark.parametrize("form", HALVES)
def test_an_op_keeps_float16_between_nodes_that_run_in_float32(form, level):
    seen: list[np.dtype] = []
    half_op(form, seen)
    nodes = [
        pyopnb.node(op, *"xabcdy"[n : n + 2])
        for n, op in enumerate(("Elu", "t::Op", "Elu", "t::Op", "Elu"))
    ]
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = getattr(onnxruntime.GraphOptimizationLevel, level)
    session = pyopnb.Session(pyopnb.model(nodes, {"x": "float16[N,3]"}, "y"), options)
    result = session(x=np.float16([[1, 2, 3]]))
    assert (
        result["y"].tolist() == [[4, 8, 12]]
        and result["y"].dtype == np.float16
        and set(seen) == {np.dtype(np.float16)}
    )
    trace = session.trace(x=np.float16([[1, 2, 3]]))
    assert trace["b"].tolist() == [[2, 4, 6]] and trace["b"].dtype == np.float16


@pytest.mark.parametrize("form", ["hinted", "hinted without rank"])
def test_an_op_keeps_float16_in_a_bare_session(form):
    seen: list[np.dtype] = []
    half_op(form, seen)
    nodes = [
        pyopnb.node("Elu", "x", "a"),
        pyopnb.node("t::Op", "a", "b"),
        pyopnb.node("Elu", "b", "y"),
    ]
    options = onnxruntime.SessionOptions()
    options.register_custom_ops_library(pyopnb.get_library_path())
    model = pyopnb.model(nodes, {"x": "float16[N,3]"}, "y")
    session = onnxruntime.InferenceSession(model.SerializeToString(), options)
    assert session.run(None, {"x": np.float16([[1, 2, 3]])})[0].tolist() == [
        [2, 4, 6]
    ] and seen == [np.float16]


def test_a_scalar_is_no_array_of_one_element():
    class Hinted:
        def compute(self, x) -> "float32[]":
            return x[:1]

    class Inferred:
        def infer(self, x):
            return x.like(shape=())

        def compute(self, x):
            return x[:1]

    class Free:
        def compute(self, x):
            return x[:1]

    model = pyopnb.model(pyopnb.node("ports::S", "x", "y"), {"x": "float32[N]"}, {"y": "float32[]"})
    for cls, says in [(Hinted, "the hint of compute"), (Inferred, "infer")]:
        pyopnb.registry.define(cls, "ports::S")
        with pytest.raises(
            pyopnb.errors.ResultError,
            match=rf"expected float32\[\], as {says} says, got float32\[1\]",
        ):
            pyopnb.Session(model)(x=np.float32([1, 2]))
    pyopnb.registry.define(Free, "ports::S")  # the file's own types promise nothing for an op
    assert pyopnb.Session(model)(x=np.float32([1, 2]))["y"].shape == (1,)
