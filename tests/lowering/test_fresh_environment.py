"""A lowered file in an environment that has onnxruntime and NumPy, and nothing else."""

from __future__ import annotations

import subprocess
import sys
import textwrap
import venv

import numpy as np
import onnx
import onnxruntime
import pytest

import pyopnb


@pytest.mark.everywhere
def test_a_lowered_file_runs_with_onnxruntime_and_numpy_alone(tmp_path, define):
    define(
        """
        @pyopnb.pyop("demo::Norm")
        class Norm:
            def __init__(self, groups: int = 2, eps: float = 1e-5):
                self.groups, self.eps = groups, eps
            def compute(self, x):
                y = x.reshape(x.shape[0], self.groups, -1)
                y = (y - y.mean(-1, keepdims=True)) / np.sqrt(y.var(-1, keepdims=True) + self.eps)
                return y.reshape(x.shape)
        """
    )
    model = pyopnb.model(pyopnb.node("demo::Norm", "x", "y"), {"x": "float32[N,C,H]"}, "y")
    x = np.random.default_rng(0).normal(size=(3, 4, 5)).astype(np.float32)
    onnx.save(pyopnb.lower(model, {"x": x}), tmp_path / "norm.onnx")
    np.save(tmp_path / "x.npy", x)
    venv.create(tmp_path / "plain", with_pip=True)
    python = tmp_path / "plain" / ("Scripts" if sys.platform == "win32" else "bin") / "python"
    versions = [f"onnxruntime=={onnxruntime.__version__}", f"numpy=={np.__version__}"]
    subprocess.run([python, "-m", "pip", "install", "-q", *versions], check=True)
    code = textwrap.dedent(
        """
        import importlib.util
        assert not any(map(importlib.util.find_spec, ("pyopnb", "onnx", "IPython")))
        import numpy as np, onnxruntime
        session = onnxruntime.InferenceSession("norm.onnx", providers=["CPUExecutionProvider"])
        np.save("y.npy", session.run(None, {"x": np.load("x.npy")})[0])
        """
    )
    subprocess.run([python, "-I", "-c", code], cwd=tmp_path, check=True)
    pyopnb.testing.assert_close(np.load(tmp_path / "y.npy"), pyopnb.run(model, x=x)["y"], rtol=1e-5, atol=1e-6)
