"""Lowered files in an environment that has onnxruntime and NumPy, and nothing else."""

from __future__ import annotations

import itertools
import subprocess
import sys
import venv

import numpy as np
import onnx
import onnxruntime
import pytest

import pyopnb

OPS = """
    @pyopnb.pyop("demo::Norm")
    class Norm:
        def __init__(self, groups: int = 2, eps: float = 1e-5):
            self.groups, self.eps = groups, eps
        def compute(self, x):
            y = x.reshape(x.shape[0], self.groups, -1)
            y = (y - y.mean(-1, keepdims=True)) / np.sqrt(y.var(-1, keepdims=True) + self.eps)
            return y.reshape(x.shape)

    @pyopnb.pyop("demo::SoftClip")
    class SoftClip:
        def __init__(self, limit: float = 1.0):
            self.limit = limit
        def compute(self, x):
            return self.limit * np.tanh(x / self.limit)
"""
GRAPHS = {
    "norm": "({0}[N,C,H] x) => ({0}[N,C,H] y) {{ y = demo.Norm(x) }}",
    "clip": "({0}[N,C,H] x) => ({0}[N,C,H] y) {{ y = demo.SoftClip<limit = 2.0>(x) }}",
    "both": "({0}[N,C,H] x) => ({0}[N,C,H] y) {{ n = demo.Norm(x)  r = Relu(n)  y = demo.SoftClip<limit = 0.5>(r) }}",
}
TOLERANCES = {"float16": 4e-3, "float": 1e-5, "double": 1e-13}
SCRIPT = """
import importlib.util, pathlib
assert not any(map(importlib.util.find_spec, ("pyopnb", "onnx", "IPython")))
import numpy as np, onnxruntime
for file in pathlib.Path().glob("*.onnx"):
    session = onnxruntime.InferenceSession(file, providers=["CPUExecutionProvider"])
    np.save(file.with_suffix(".y.npy"), session.run(None, {"x": np.load(file.with_suffix(".x.npy"))})[0])
"""


@pytest.mark.everywhere  # it installs onnxruntime
def test_lowered_files_run_with_onnxruntime_and_numpy_alone(tmp_path, define):
    define(OPS)
    rng, want = np.random.default_rng(0), {}
    for (name, graph), kind in itertools.product(GRAPHS.items(), TOLERANCES):
        model = pyopnb.parse(graph.format(kind))
        x = rng.normal(size=(3, 4, 5)).astype(
            {"float": "float32", "double": "float64"}.get(kind, kind)
        )
        file = tmp_path / f"{name}_{kind}.onnx"
        lowered = pyopnb.lower(model, {"x": x}, strict=True)
        onnx.checker.check_model(lowered, full_check=True)
        assert pyopnb.parse(pyopnb.text(lowered)) == lowered
        onnx.save(lowered, file)
        np.save(file.with_suffix(".x.npy"), x)
        want[file] = pyopnb.run(model, x=x)["y"], TOLERANCES[kind]
    venv.create(tmp_path / "plain", with_pip=True)
    python = tmp_path / "plain" / ("Scripts" if sys.platform == "win32" else "bin") / "python"
    versions = [f"onnxruntime=={onnxruntime.__version__}", f"numpy=={np.__version__}"]
    subprocess.run([python, "-m", "pip", "install", "-q", *versions], check=True)
    subprocess.run([python, "-I", "-c", SCRIPT], cwd=tmp_path, check=True)
    for file, (y, tolerance) in want.items():
        pyopnb.testing.assert_close(
            np.load(file.with_suffix(".y.npy")), y, rtol=tolerance, atol=tolerance
        )
