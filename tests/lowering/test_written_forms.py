"""A class may write its own form in ONNX operators, which lower takes after it has compared it."""

import numpy as np
import pytest

import pyopnb


def define(form, **members):
    class Sign:
        def __init__(self, scale: float = 1.0):
            self.scale = np.float32(scale)

        def compute(self, x):
            # A loop that no trace can follow.
            flat = [-1 if value < 0 else 1 for value in x.ravel()]
            return np.array(flat, x.dtype).reshape(x.shape) * self.scale

        def lowered(self, x):
            return form(self, x)

    for name, value in members.items():
        setattr(Sign, name, value)
    pyopnb.registry.define(Sign, "forms::Sign")
    return Sign


def sign(op, x):
    return f"""(x) => (y) {{
        zero = Constant<value_float = 0.0>()
        one = Constant<value_float = {op.scale}>()
        minus_one = Constant<value_float = {-op.scale}>()
        is_negative = Less(x, zero)
        y = Where(is_negative, minus_one, one)
    }}"""


X = np.float32([[-2, 0, 3]])


def test_a_written_form_is_compared_and_returned():
    define(sign)
    function = pyopnb.lower("forms::Sign", X, scale=2.0)
    assert [node.op_type for node in function.node][-2:] == ["Less", "Where"]
    assert "Written by lowered" in function.doc_string
    assert "Compared with compute" in function.doc_string


def test_a_form_is_part_of_a_model_with_the_attrs_of_each_node():
    define(sign)
    nodes = [
        pyopnb.node("forms::Sign", "x", "a", scale=2.0),
        pyopnb.node("forms::Sign", "x", "b", scale=3.0),
        pyopnb.node("Add", ["a", "b"], "y"),
    ]
    model = pyopnb.model(nodes, {"x": "float32[M,N]"}, {"y": "float32[M,N]"}, opset=14)
    plain = pyopnb.lower(model, {"x": X}, strict=True)
    assert len(plain.functions) == 2
    pyopnb.registry.clear()
    np.testing.assert_array_equal(pyopnb.Session(plain)(x=X)["y"], [[-5, 5, 5]])


def test_a_form_that_lies_is_refused():
    define(lambda op, x: "(x) => (y) { y = Sign(x) }")  # of 0 it is 0
    with pytest.raises(pyopnb.errors.NotLowered, match=r"is 0\.0 instead of 1\.0"):
        pyopnb.lower("forms::Sign", X)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("(x) => (y) { y = Sign(x", "text form of a function"),
        ("() => (y) { y = Constant<value_float = 1.0>() }", "expected 1 inputs, got 0"),
    ],
)
def test_a_text_that_is_no_form_is_refused(text, said):
    define(lambda op, x: text)
    with pytest.raises(pyopnb.errors.NotLowered, match=said):
        pyopnb.lower("forms::Sign", X)


def test_a_form_may_refuse_attrs():
    def form(op, x):
        raise NotImplementedError("a scale of 1")

    define(form)
    with pytest.raises(pyopnb.errors.NotLowered, match="a scale of 1"):
        pyopnb.lower("forms::Sign", X)


def test_a_form_says_which_opset_it_needs():
    define(sign, lowered_opset=20)
    with pytest.raises(pyopnb.errors.NotLowered, match="opset 20 or newer, got 19"):
        pyopnb.lower("forms::Sign", X, opset=19)
    (imported,) = pyopnb.lower("forms::Sign", X).opset_import
    assert imported.version == 20


def without_nan(op, x):
    # Not(x >= 0) is true of NaN, for which compute has x < 0, which is false.
    text = sign(op, x).replace("is_negative = Less(x, zero)", "is_negative = Not(is_positive)")
    return text.replace("is_negative =", "is_positive = GreaterOrEqual(x, zero)  is_negative =", 1)


def test_a_form_may_hold_for_finite_numbers_alone():
    define(without_nan)
    with pytest.raises(pyopnb.errors.NotLowered, match="NaN"):
        pyopnb.lower("forms::Sign", X)
    define(without_nan, lowered_finite=True)
    assert "Not compared on NaN" in pyopnb.lower("forms::Sign", X).doc_string


def test_a_form_that_raises_on_values_that_compute_takes_is_refused():
    class Row:
        def compute(self, table, index):
            return table[np.clip(index, -len(table), len(table) - 1)]

        def lowered(self, table, index):
            return "(table, index) => (y) { y = Gather(table, index) }"

    pyopnb.registry.define(Row, "forms::Row")
    table = np.arange(6, dtype=np.float32).reshape(3, 2)
    with pytest.raises(pyopnb.errors.NotLowered, match="indices element out of data bounds"):
        pyopnb.lower("forms::Row", table, np.int64([0, 2]))


def test_a_form_may_know_sizes_that_no_hint_says():
    class Corners:
        def compute(self, boxes):
            # Of wider rows, it takes the first four numbers.
            return np.concatenate([boxes[:, :2], boxes[:, 2:4]], 1)[:, :4] * 2

        def lowered(self, boxes):
            return """(boxes) => (y) {
                sizes = Constant<value_ints = [2, 2]>()
                first, second = Split<axis = 1>(boxes, sizes)
                half = Concat<axis = 1>(first, second)
                y = Add(half, half)
            }"""

    pyopnb.registry.define(Corners, "forms::Corners")
    function = pyopnb.lower("forms::Corners", np.ones((3, 4), np.float32))
    assert "Compared with compute" in function.doc_string


def test_the_value_of_an_input_becomes_part_of_a_form():
    @pyopnb.pyop("forms::Repeat")
    class Repeat:
        def compute(self, x, times):
            return np.tile(x, int(times))

        def lowered(self, x, times):
            return f"""(x, times) => (y) {{
                repeats = Constant<value_ints = [{int(times.value)}]>()
                y = Tile(x, repeats)
            }}"""

    x, two = np.float32([1, 2]), np.int64(2)
    assert "times = 2" in pyopnb.lower("forms::Repeat", x, two).doc_string
    with pytest.raises(pyopnb.errors.InputError, match="constant inputs of the first"):
        pyopnb.lower("forms::Repeat", examples=[(x, two), (x, np.int64(3))])
    # Each constant of a model has a function of its own, also inside a body, of which no run tells.
    text = """<ir_version: 8, opset_import: ["": 15, "forms": 1]>
        g (float[N] x, bool go) => (float[N] a, float[M] b) <int64 two = {2}> {
            a = forms.Repeat(x, two)
            b = If(go) <
                then_branch = t () => (float[K] c) {
                    three = Constant<value_int = 3>()
                    c = forms.Repeat(x, three)
                },
                else_branch = e () => (float[K] d) { d = Identity(x) }
            >
        }"""
    feeds = {"x": x, "go": np.bool_(True)}
    plain = pyopnb.lower(pyopnb.parse(text), feeds, strict=True)
    pyopnb.registry.clear()
    a, b = pyopnb.Session(plain)(feeds).values()
    assert (len(a), len(b)) == (4, 6)
