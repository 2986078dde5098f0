"""Each line of a body is shown with the ONNX operators that it became, or with the reason why it stays in Python."""

import traceback

import numpy as np
import pytest

import pyopnb

X = np.float32([[1, 2, 3], [3, 4, 5]])


def half(x):
    return x / 2


class Norm:
    def compute(self, x: "float32[2,3]"):
        centered = half(x - x.mean(-1, keepdims=True))
        # Nothing becomes of this line.
        shape = x.shape
        return np.exp(centered) * np.exp(-centered) * np.float32(shape[0])


class Branch:
    def compute(self, x):
        y = np.exp(x)
        if y.sum() > 0:
            return y
        return -y


@pytest.fixture
def norm():
    return pyopnb.registry.define(Norm, "lines::Norm")


@pytest.fixture
def branch():
    return pyopnb.registry.define(Branch, "lines::Branch")


def line(source, text):
    (match,) = [item for item in source.lines if text in item.text]
    return match


def test_each_line_has_the_operators_that_it_became(norm):
    forms = pyopnb.forms(Norm, X)
    lines = forms.source.lines
    assert line(forms.source, "centered = half").operators == ("ReduceMean", "Sub")
    assert line(forms.source, "np.exp(centered)").operators == ("Exp", "Neg", "Exp", "Mul", "Mul")
    assert line(forms.source, "shape = x.shape").operators == ()
    assert not any(item.reason for item in lines)
    # The lines of functions that compute calls follow.
    assert line(forms.source, "return x / 2").operators == ("Div",)
    assert lines[0].text.startswith("def compute(")
    assert lines[-1].text.strip() == "return x / 2"
    (function,) = [form for form in forms if form.name == "ONNX function"]
    assert sum(len(item.operators) for item in lines) == function.nodes


def test_the_line_that_stays_in_python_is_marked(branch):
    with pytest.raises(pyopnb.errors.NotLowered) as refused:
        pyopnb.lower(Branch, X)
    source = refused.value.source
    assert line(source, "if y.sum() > 0").reason == "a condition that depends on values"
    assert line(source, "y = np.exp(x)").operators == ("Exp",)
    shown = "".join(traceback.format_exception(refused.value))
    assert "if y.sum() > 0:   # stays in Python: a condition that depends on values" in shown
    assert pyopnb.forms(Branch, X).source == source


def test_a_line_of_a_helper_can_be_the_one(branch):
    def helper(x):
        return float(x.sum())

    class Deep:
        def compute(self, x):
            return x * np.float32(helper(x))

    pyopnb.registry.define(Deep, "lines::Deep")
    with pytest.raises(pyopnb.errors.NotLowered) as refused:
        pyopnb.lower("lines::Deep", X)
    assert line(refused.value.source, "return float(x.sum())").reason


def test_a_function_is_shown_with_its_source_also_in_a_model(norm):
    text = pyopnb.show(pyopnb.lower(Norm, X)).text
    assert "centered = half(x - x.mean(-1, keepdims=True))" in text
    assert "# ReduceMean, Sub" in text
    assert "# Exp × 2, Neg, Mul × 2" in text
    model = pyopnb.model(pyopnb.node("lines::Norm", "x", "y"), {"x": "float32[2,3]"}, "y")
    assert "# ReduceMean, Sub" in pyopnb.show(pyopnb.lower(model).functions[0]).text


def test_html_escapes_the_code_and_colors_the_line(branch):
    class Markup:
        def compute(self, x):
            y = x * 2  # <script>alert(1)</script>
            return y if y.sum() else x

    pyopnb.registry.define(Markup, "lines::Markup")
    html = pyopnb.forms("lines::Markup", X)._repr_html_()
    assert "<script>" not in html
    assert "&lt;script&gt;" in html
    assert html.count("background-color:rgba(209,69,59") == 1
    assert html.count("background-color:rgba(47,143,78") == 1
