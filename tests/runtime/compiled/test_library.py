"""Libraries of ops in C++, in processes that have onnxruntime and NumPy and neither pyopnb nor onnx."""

import subprocess
import sys
from textwrap import dedent

import numpy as np
import onnx
import pytest
from cpp_sources import GROUP_NORM, PARTS, SOFT_CLIP

import pyopnb

pytestmark = pytest.mark.one_python

GRAPH = """
(float[N,6] x, float[6] scale, float[6] bias, double[M] d) => (float[N,6] y, float[N,6] g, double[M] p) {
    y = demo.SoftClip<limit = 2.0>(x)
    g = other.GroupNorm<num_groups = 2>(x, scale, bias)
    p = demo.Parts<axes = [7], mode = "no", by = 3.0>(d, d)
}
"""


def test_plain_onnxruntime_runs_it_without_pyopnb(tmp_path, monkeypatch):
    monkeypatch.setenv("PYOPNB_CACHE", str(tmp_path))
    for source, name in ((SOFT_CLIP, "demo::SoftClip"), (GROUP_NORM, "other::GroupNorm"), (PARTS, "demo::Parts")):
        pyopnb.cpp_op(source, name)
    rng = np.random.default_rng(0)
    feeds = {"x": rng.standard_normal((4, 6)).astype(np.float32), "d": np.arange(3.0)}
    feeds |= {name: rng.standard_normal(6).astype(np.float32) for name in ("scale", "bias")}
    model = pyopnb.parse(GRAPH)
    onnx.save(model, tmp_path / "model.onnx")
    onnx.save(pyopnb.parse(GRAPH.replace("num_groups = 2", "num_groups = 4")), tmp_path / "wrong.onnx")
    np.savez(tmp_path / "feeds.npz", **feeds)
    assert pyopnb.write_library(["demo::SoftClip", "other::GroupNorm", "demo::Parts"], tmp_path / "libops.so").exists()
    script = f"""
        import sys
        for name in ("pyopnb", "onnx"):
            sys.modules[name] = None
        import numpy as np, onnxruntime
        def session(name):
            options = onnxruntime.SessionOptions()
            options.register_custom_ops_library({str(tmp_path / "libops.so")!r})
            return onnxruntime.InferenceSession({str(tmp_path)!r} + "/" + name, options)

        feeds = dict(np.load({str(tmp_path / "feeds.npz")!r}))
        np.savez({str(tmp_path / "results.npz")!r}, *session("model.onnx").run(None, feeds))
        try:
            session("wrong.onnx").run(None, feeds)
        except Exception as error:
            print(error)
    """
    done = subprocess.run([sys.executable, "-c", dedent(script)], capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "other::GroupNorm: 6 channels are no multiple of num_groups" in done.stdout
    want = pyopnb.run(model, feeds)
    for name, got in zip(("y", "g", "p"), np.load(tmp_path / "results.npz").values(), strict=True):
        np.testing.assert_allclose(got, want[name], rtol=1e-6)


def test_op_in_python_is_refused(tmp_path):
    @pyopnb.pyop("demo::Same")
    class Same:
        def compute(self, x):
            return x

    with pytest.raises(pyopnb.DefinitionError, match="demo::Same: expected an op in C\\+\\+, got version 1, which is a class"):
        pyopnb.write_library(Same, tmp_path / "lib.so")
    assert not list(tmp_path.iterdir())
