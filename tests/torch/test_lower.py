"""NumPy that torch traces where the tracer of pyopnb.lower refuses."""

from __future__ import annotations

import linecache
import textwrap

import numpy as np
import onnx
import onnxruntime
import pytest
from written import OPS, inputs

import pyopnb
import pyopnb.torch

REFUSED = {
    "Branch": r"line \d of compute \(if x.sum\(\) > 0: return x \* 2\).* a condition that depends on values; by torch: .*Data-dependent branching",
    "Inverse": r"np.linalg.inv, for which ONNX has no operator; by torch: DispatchError, No ONNX function found",
    "ScipyErf": "Erf of float64, for which ONNX Runtime has no kernel; by torch: ",
    "PythonLoop": "a loop over an axis whose size can change; by torch: ",
}


def define(body: str, name: str) -> str:
    text = f"class {name}:\n{textwrap.indent(textwrap.dedent(body).strip(chr(10)), '    ')}\n"
    file = f"<{name} of test_lower>"
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    names = {"np": np}
    exec(compile(text, file, "exec"), names)
    pyopnb.registry.define(names[name], f"demo::{name}")
    return f"demo::{name}"


def plainly(model: onnx.ModelProto, x: np.ndarray) -> np.ndarray:
    return onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"]).run(None, {"x": x})[0]


def test_torch_traces_what_ours_refuses():
    op = define(OPS["Rfft"][0], "Rfft")
    with pytest.raises(pyopnb.NotLowered, match="np.fft.rfft, whose result is complex"):
        pyopnb.lower(op, *inputs("Rfft"))
    model = pyopnb.model(pyopnb.node(op, "x", "y"), {"x": "float32[N,M]"}, "y")
    lowered = pyopnb.torch.lower(model, {"x": inputs("Rfft")[0]}, finite=True, strict=True)  # an FFT spreads NaN in its own way
    assert "Lowered by torch" in lowered.functions[0].doc_string
    x = np.random.default_rng(1).normal(size=(5, 6)).astype(np.float32)
    np.testing.assert_allclose(plainly(lowered, x), np.fft.rfft(x).real.astype(np.float32), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", REFUSED)
def test_what_neither_traces_says_both_reasons(name):
    if name == "ScipyErf":
        pytest.importorskip("scipy", reason="it is scipy's function")
    with pytest.raises(pyopnb.NotLowered, match=REFUSED[name]):
        pyopnb.torch.lower(define(OPS[name][0], name), *inputs(name))


def test_what_ours_traces_is_ours():
    function = pyopnb.torch.lower(define(OPS["UserRelu"][0], "UserRelu"), *inputs("UserRelu"))
    assert function.doc_string.startswith("Lowered from demo::UserRelu")


def test_an_op_with_a_state_is_refused_though_torch_would_make_a_constant_of_it():
    body = "def __init__(self):\n    self.runs = 0\ndef compute(self, x):\n    self.runs += 1\n    return x + self.runs"
    with pytest.raises(pyopnb.NotLowered, match="changes on self; by torch: what compute changes on self"):
        pyopnb.torch.lower(define(body, "Counter"), np.ones(3, np.float32))


UNIQUE = (
    "def compute(self, x: 'int64[N,M]') -> ('int64[K,M]', 'int64[L]'):\n    return np.unique(x, axis=0, return_inverse=True)"
)


def test_unique_along_an_axis_is_not_run_without_elements_which_would_end_the_process():
    x = np.array([[1, 2], [0, 1], [1, 2]])
    op = define(UNIQUE, "Unique")
    with pytest.raises(pyopnb.NotLowered, match=r"np.unique with axis=. Try: pyopnb.torch.lower"):
        pyopnb.lower(op, x)
    function = pyopnb.torch.lower(op, x)
    assert "Unique" in [node.op_type for node in function.node]
    assert "Not compared without elements" in function.doc_string
