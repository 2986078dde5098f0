"""Feeds that are no NumPy arrays: Python values, tables, pictures and tensors of others, in all that runs a model."""

from __future__ import annotations

import inspect

import numpy as np
import pandas as pd
import pytest
from PIL import Image

import pyopnb

F = np.float32


def same(kind):
    return pyopnb.Session(pyopnb.model(pyopnb.node("Identity", "x", "y"), {"x": kind}, "y"))


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ("float32[N]", [1.0, 2.0]),
        ("float32[N]", [1, 2]),
        ("float32[N]", (0.1, 2)),
        ("float32[]", 3),
        ("float32[N,2]", [[1, 2], [3, 4]]),
        ("float32[N]", []),
        ("float16[N]", [0.5]),
        ("bfloat16[N]", [0.5, 1]),
        ("int64[N]", [1.0, 2.0]),
        ("int64[N]", range(3)),
        ("uint8[N]", [0, 255]),
        ("bool[N]", [True, False]),
        ("string[N]", ["a", "b"]),
        ("string[N]", []),
    ],
)
def test_plain_values(kind, value):
    session = same(kind)
    expected = np.asarray(
        list(value) if isinstance(value, range) else value,
        session.state.feeds.types["x"].dtype.numpy,
    )
    for result in (session(x=value), session(value), session({"x": value})):
        assert result["y"].dtype == expected.dtype
        np.testing.assert_array_equal(result["y"], expected)


@pytest.mark.parametrize(
    ("kind", "value", "advice"),
    [
        ("float32[N]", np.float64([1]), "x=np.asarray(x, dtype=np.float32)"),
        ("float32[N]", [np.float64(1)], "x=np.asarray(x, dtype=np.float32)"),
        ("float32[N]", 3, "x=np.asarray(x, dtype=np.float32)[np.newaxis]"),
        ("float32[N]", np.array(3, "f"), "x=x[np.newaxis]"),
        ("float32[3,H,W]", np.zeros((1, 8, 9, 3), "f"), None),
        ("float32[N,H,W]", np.zeros((8, 9)), "x=np.asarray(x, dtype=np.float32)[np.newaxis]"),
        ("float32[1,3,H]", np.zeros((8, 3), "f"), None),
        (
            "float32[1,3,H,W]",
            np.zeros((1, 8, 9, 3), "f"),
            "x=np.moveaxis(x, -1, 1)",
        ),
        (
            "float32[N,H,W,3]",
            np.zeros((1, 3, 8, 9), "f"),
            "x=np.moveaxis(x, 1, -1)",
        ),
        (
            "float32[N,3,H,W]",
            np.zeros((8, 9, 3), "B"),
            "x=np.moveaxis(np.asarray(x, dtype=np.float32), -1, 0)[np.newaxis]",
        ),
        ("float32[N]", [1, None], None),
        ("float16[N]", [1e-9], "x=np.asarray(x, dtype=np.float16)"),
        ("int64[N]", pd.Series([1.5]), "x=np.asarray(x, dtype=np.int64)"),
        ("int64[N]", np.array([1, np.nan]), None),
        ("int64[N]", pd.Series([1, None], dtype=object), None),
        ("float32[N]", "a", None),
        ("float32[N]", np.array(["1", "2"]), "x=np.asarray(x, dtype=np.float32)"),
        ("string[N]", [1], None),
        ("string[N]", pd.Series(["a", None], dtype=object), None),
        ("string[N]", np.array([b"a"]), None),
    ],
)
def test_what_is_refused(kind, value, advice):
    session = same(kind)
    with pytest.raises(pyopnb.errors.InputError) as error:
        session(x=value)
    assert error.value.next == advice
    assert error.value.where.startswith("feed x")
    if advice:
        session(x=eval(advice.removeprefix("x="), {"np": np, "x": value}))


class Exported:
    """A tensor of a framework that speaks DLPack alone."""

    def __init__(self, array: np.ndarray) -> None:
        self.array = array

    def __dlpack__(self, **named):
        return self.array.__dlpack__(**named)

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()


class Recording:
    """A tensor as in torch: no array while it records gradients, and one that shares its memory when detached."""

    requires_grad = True

    def __init__(self, array: np.ndarray) -> None:
        self.array = array

    def detach(self):
        return Exported(self.array)

    def __array__(self, *arguments, **named):
        raise RuntimeError("Can't call numpy() on Tensor that requires grad.")


class Elsewhere:
    """A tensor on another device."""

    def __array__(self, *arguments, **named):
        raise TypeError("can't convert cuda:0 device type tensor to numpy")


def memory_of(kind, value):
    """The array that is handed to ONNX Runtime."""
    feeds, _ = same(kind).state.feeds.check({"x": value})
    return feeds["x"]


def test_they_go_in_without_copies():
    x = F([1, 2])
    for value in (
        Exported(x),
        Recording(x),
        memoryview(x),
        pd.Series(x, copy=False),
        pd.DataFrame({"a": x}, copy=False)["a"],
    ):
        made = memory_of("float32[N]", value)
        assert np.shares_memory(made, np.asarray(value) if isinstance(value, pd.Series) else x)
        assert same("float32[N]")(x=value)["y"].tolist() == [1, 2]


def test_tables_and_pictures():
    image = Image.new("RGB", (3, 2), (1, 2, 3))
    assert same("uint8[2,3,3]")(x=image)["y"][0, 0].tolist() == [1, 2, 3]
    table = pd.DataFrame({"a": F([1, 2]), "b": F([3, 4])})
    assert same("float32[N,2]")(x=table)["y"].tolist() == [[1, 3], [2, 4]]
    assert same("int64[N]")(x=pd.array([1, 2], dtype="Int64"))["y"].tolist() == [1, 2]
    assert same("string[N]")(x=pd.Series(["a", "b"]))["y"].tolist() == ["a", "b"]
    assert same("float32[N]")(x=pd.Series([1, 2.5], dtype=object))["y"].tolist() == [1, 2.5]


def test_what_gives_no_array_is_refused_in_its_own_words():
    with pytest.raises(
        pyopnb.errors.InputError,
        match=r"feed x: expected float32\[N\], got Elsewhere: can't convert cuda:0",
    ):
        same("float32[N]")(x=Elsewhere())


@pytest.mark.parametrize(
    "odd", [None, float("nan"), 1, b"b", b"\xff", True, ["a"], "b\ud83d"], ids=ascii
)
def test_nothing_but_str_becomes_a_text(odd):
    texts = np.empty(2, object)
    texts[:] = "a", None
    texts[1] = odd
    model = pyopnb.model(pyopnb.node("Identity", "x", "y"), {"x": "string[N]"}, "y")
    for run in (
        pyopnb.Session(model),
        lambda x: pyopnb.trace(model, x=x),
        lambda x: pyopnb.trace(model, on="reference", x=x),
        lambda x: pyopnb.call("Identity", x),
    ):
        with pytest.raises(pyopnb.errors.InputError, match=r"\[1\]: expected str"):
            run(x=texts)
    for kind in (object, None):
        texts = np.array([["\U0001f600", "é"]], dtype=kind)
        assert pyopnb.call("Identity", texts).tolist() == texts.tolist()


@pytest.mark.parametrize("call", [lambda s, t: s(t), lambda s, t: s(X=t), lambda s, t: s.trace(t)])
def test_a_table_feeds_a_model_whose_inputs_are_its_columns(call):
    model = pyopnb.parse(
        "(float[N,1] a, string[N,1] b) => (float[N,1] y, string[N,1] z) { y = Abs(a)  z = Identity(b) }"
    )
    session = pyopnb.Session(model)
    table = pd.DataFrame({"b": ["u", "v"], "other": [1, 2], "a": F([-3, -4])})
    result = call(session, table)
    assert result["y"].tolist() == [[3], [4]] and result["z"].tolist() == [["u"], ["v"]]
    with pytest.raises(pyopnb.errors.InputError, match="b.* missing from input feed"):
        session(table[["a"]])


def test_a_table_feeds_a_single_input_as_its_matrix():
    session = pyopnb.Session(pyopnb.parse("(float[N,2] a) => (float[N,2] y) { y = Abs(a) }"))
    table = pd.DataFrame({"a": F([-3, 1]), "b": F([2, -4])})
    for result in (session(table), session(a=table)):
        assert result["y"].tolist() == [[3, 2], [1, 4]]


def test_texts_of_variable_width():
    session = same("string[N]")
    kinds = [np.dtypes.StringDType(), np.dtype("U3"), np.dtype(object)]
    for kind in kinds:
        assert session(x=np.array(["a", "é\n", ""], kind))["y"].tolist() == ["a", "é\n", ""]


def test_masked_elements_are_refused():
    session = same("float32[N]")
    whole, masked = np.ma.array(F([1, 2])), np.ma.array(F([1, 2]), mask=[False, True])
    for call in (session, lambda x: pyopnb.call("Neg", x)):
        call(whole)
        with pytest.raises(pyopnb.errors.InputError, match="got masked elements"):
            call(masked)


def test_another_byte_order_is_named():
    with pytest.raises(pyopnb.errors.InputError, match=r"got float32\[2\] of another byte order"):
        same("float32[N]")(x=F([1, 2]).astype(">f4"))


def one_input(name):
    made = pyopnb.model([pyopnb.node("Neg", "x", "y")], {"x": "float32[N]"}, "y")
    made.graph.input[0].name = made.graph.node[0].input[0] = name
    return made


TAKERS = {
    "run": pyopnb.run,
    "trace": pyopnb.trace,
    "stability": pyopnb.stability,
    "profile": pyopnb.profile,
    "sweep": pyopnb.sweep,
    "Session": pyopnb.Session.__call__,
    "Session.trace": pyopnb.Session.trace,
}


@pytest.mark.parametrize("taker", TAKERS)
def test_a_feed_may_have_any_name(taker):
    function = TAKERS[taker]
    value = [np.float32([1, 2]), np.float32([3])] if taker == "sweep" else np.float32([1, 2])
    names = {"self", "model", "session", "feeds", "named", "args", "file", "function", "where"}
    options = {
        name
        for name, parameter in inspect.signature(function).parameters.items()
        if parameter.kind is parameter.KEYWORD_ONLY
    }
    for name in sorted(names | options):
        given = one_input(name)
        if taker.startswith("Session"):
            given = pyopnb.Session(given)
        if name in options:
            with pytest.raises(
                pyopnb.errors.InputError,
                match=rf'{name}: .*one dict of all feeds\), .*Try: {{"{name}": {name}}}',
            ):
                function(given, **{name: value})
            function(given, {name: value})
        else:
            function(given, **{name: value})


# ---- sequences and optionals


def asking(op, kind):
    # Newer versions of these operators have no kernels.
    return pyopnb.model(pyopnb.node(op, "s", "y"), {"s": kind}, "y", opset=20)


LENGTHS = asking("SequenceLength", "seq(float32[N])")
TEXTS = asking("SequenceLength", "seq(string[N])")
GIVEN = asking("OptionalHasElement", "optional(float32[N])")
GIVEN_SEQUENCE = asking("OptionalHasElement", "optional(seq(int64[]))")


@pytest.mark.parametrize(
    ("model", "value", "result"),
    [
        (LENGTHS, [F([1]), F([2, 3])], 2),
        (LENGTHS, ([1.0, 2.0], [3]), 2),
        (LENGTHS, [], 0),
        (TEXTS, [["a", "b"], np.array(["c"])], 2),
        (GIVEN, F([1]), True),
        (GIVEN, [1, 2], True),
        (GIVEN, None, False),
        (GIVEN_SEQUENCE, [1, np.int64(2)], True),
        (GIVEN_SEQUENCE, None, False),
    ],
)
def test_sequences_and_optionals(model, value, result):
    session = pyopnb.Session(model)
    assert session(s=value)["y"].item() == session.trace(s=value)["y"].item() == result
    assert pyopnb.trace(model, s=value, on="reference")["y"].item() == result


@pytest.mark.parametrize(
    ("model", "value", "text"),
    [
        (LENGTHS, [F([1]), np.float64([2])], r"feed s\[1\]: expected float32\[\.\.\.\], got float64\[1\]\. Try: s\[1\] = np\.asarray\(s\[1\], dtype=np\.float32\)"),
        (LENGTHS, F([1, 2]), r"feed s: expected a list of arrays, seq\(float32\), got float32\[2\]\. Try: s=\[s\]"),
        (LENGTHS, F([[1], [2]]), r"got float32\[2,1\]\. Try: s=list\(s\)"),
        (LENGTHS, None, r"got None\. Try: s=\[np\.zeros\(1, np\.float32\)\]"),
        (LENGTHS, [F([1]), None], r"feed s\[1\]: expected float32\[\.\.\.\], got None"),
        (LENGTHS, "text", "got str"),
        (TEXTS, [["a", 1]], r"feed s\[0\]\[1\]: expected str"),
        (GIVEN, np.float64([1]), r"feed s: expected float32\[N\], got float64\[1\]"),
        (GIVEN, F([[1]]), r"feed s: expected float32\[N\], got float32\[1,1\]"),
        (GIVEN_SEQUENCE, [F(1)], r"feed s\[0\]: expected int64\[\.\.\.\], got float32\[\]"),
        (GIVEN_SEQUENCE, np.int64([1]), r"a list of arrays, seq\(int64\)"),
    ],
)  # fmt: skip
def test_wrong_sequences_and_optionals(model, value, text):
    for run in (pyopnb.Session(model), lambda **feeds: pyopnb.trace(model, **feeds)):
        with pytest.raises(pyopnb.errors.InputError, match=text):
            run(s=value)


def test_a_missing_sequence_is_described_and_the_advice_works():
    with pytest.raises(pyopnb.errors.InputError, match=r"s: seq\(float32\), got nothing") as raised:
        pyopnb.run(LENGTHS)
    assert eval(f"pyopnb.run(LENGTHS, {raised.value.next})")["y"] == 1
    with pytest.raises(
        pyopnb.errors.InputError, match=r"s: optional\(float32\[N\]\), got q\. Try: write s for"
    ):
        pyopnb.run(GIVEN, q=1)
    assert (
        repr(pyopnb.Session(LENGTHS)) == "Session (s: seq(float32)) -> (y: int64[...]), ops: none"
    )
    with pytest.raises(pyopnb.errors.InputError, match="type x32"):
        asking("SequenceLength", "seq(x32)")
