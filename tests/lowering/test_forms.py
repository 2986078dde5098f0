"""The forms of an op side by side."""

from __future__ import annotations

import numpy as np
import pytest
from systems import needs_compiler

import pyopnb


@pytest.fixture
def clip(define):
    define(
        """
        @pyopnb.pyop("demo::Clip")
        class Clip:
            def __init__(self, limit: float = 1.0):
                self.limit = limit
            def compute(self, x: "float32[N,2]"):
                return self.limit * np.tanh(x / self.limit)
        """
    )
    return "demo::Clip"


def test_three_sizes_are_run_and_compared(clip):
    forms = pyopnb.forms(clip, np.ones((3, 2), np.float32), limit=2.0)
    assert forms.op == "demo::Clip, version 1"
    shapes = [example.inputs[0].shape for example in forms.examples]
    assert len(shapes) == 3 and shapes[0] == (3, 2) and shapes[1][0] < shapes[2][0] <= 500_000
    assert all(example.attrs == {"limit": 2.0} for example in forms.examples)
    python, function = forms
    assert (python.name, python.verdict, python.nodes) == ("Python", "", None)
    assert (function.name, function.verdict, function.nodes) == ("ONNX function", "yes", 3)
    assert len(function.diffs) == 3 and all(
        diff.ok and f"float32[{size},2]" in diff.headline()[0]
        for diff, (size, _) in zip(function.diffs, shapes, strict=True)
    )
    assert all(0 < seconds < 60 for form in forms for seconds in form.seconds)
    assert repr(forms).splitlines()[1].split() == [
        "form",
        "equal",
        "to",
        "Python",
        *f"(float32[3,2], limit=2.0) (float32[{shapes[1][0]},2], limit=2.0) (float32[{shapes[2][0]},2], limit=2.0)".split(),
        "nodes",
    ]


def test_an_op_whose_sizes_are_fixed_has_one_size(define):
    define(
        '@pyopnb.pyop("demo::Three")\nclass Three:\n    def compute(self, x: "float32[3]"):\n        return x + 1\n'
    )
    assert len(pyopnb.forms("demo::Three").examples) == 1


def test_a_form_that_is_not_there_says_why(define):
    define(
        '@pyopnb.pyop("demo::Flip")\nclass Flip:\n    def compute(self, x):\n        return x if x.sum() > 0 else -x\n'
    )
    forms = pyopnb.forms("demo::Flip", np.ones(3, np.float32))
    assert forms[1].verdict == "no" and not forms[1].seconds
    assert "ONNX function: demo::Flip, line" in repr(
        forms
    ) and "a condition that depends on values" in repr(forms)
    assert "a condition that depends on values" in forms._repr_html_()


@needs_compiler
def test_versions_in_other_languages_are_forms(clip):
    pyopnb.cpp_op(
        """
        void Clip(Input<float> x, Output<float> y, float limit = 1.0f) {
          y.allocate(x.shape());
          for (int64_t i = 0; i < x.size(); ++i) y[i] = limit * std::tanh(x[i] / limit);
        }
        """,
        clip,
    )
    before = list(pyopnb.registry)
    forms = pyopnb.forms(clip, np.ones((3, 2), np.float32), limit=2.0)
    assert [(form.name, form.verdict) for form in forms] == [
        ("Python", ""),
        ("ONNX function", "yes"),
        ("C++", "yes"),
    ]
    assert forms.op == "demo::Clip, version 1"
    assert list(pyopnb.registry) == before and pyopnb.registry[clip].current.number == 2
    doubles = pyopnb.forms(clip)
    assert doubles[2].verdict == "yes"
    pyopnb.cpp_op(
        "void Copy(Input<float> x, Output<float> y) { y.allocate(x.shape()); }", "demo::Copy"
    )
    with pytest.raises(
        pyopnb.errors.InputError,
        match=r"forms of demo::Copy: expected a version in Python, got C\+\+ alone",
    ):
        pyopnb.forms("demo::Copy")


@needs_compiler
def test_a_form_that_does_not_take_the_example_says_why(define):
    define(
        '@pyopnb.pyop("demo::Twice")\nclass Twice:\n    def compute(self, x):\n        return x * 2\n'
    )
    pyopnb.cpp_op(
        "void Twice(Input<float> x, Output<float> y) { y.allocate(x.shape()); for (int64_t i = 0; i < x.size(); ++i) y[i] = 2 * x[i]; }",
        "demo::Twice",
    )
    forms = pyopnb.forms("demo::Twice", np.ones(3, np.int64))
    assert (
        forms[2].verdict == "no"
        and "(demo::Twice), input x: expected float32[...], got int64[?]" in forms[2].reason
    )
