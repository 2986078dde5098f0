"""Classes of the ONNX reference implementation become ops as they stand."""

from __future__ import annotations

import pickle
import subprocess
import sys

import numpy as np
import pytest
from onnx.reference import ReferenceEvaluator
from onnx.reference.op_run import OpRun

import pyopnb
from pyopnb import registry

X = np.float32([1, 2])
TEXT = """
from onnx.reference.op_run import OpRun

class InvAlpha(OpRun):
    op_domain = "custom"

    def _run(self, x, alpha=None):
        alpha = alpha or self.alpha
        return (1 / (x + alpha),)
"""
MODEL = "(float[N] x) => (float[N] y) { y = custom.InvAlpha<alpha = 0.5>(x) }"


class InvAlpha(OpRun):
    op_domain = "custom"

    def _run(self, x, alpha=None):
        alpha = alpha or self.alpha
        return (1 / (x + alpha),)


class Mixed(OpRun):
    def _run(self, a, b, c=None, axis=0, *, k: int = 2, **more):
        c = 0 if c is None else c
        return a + b + c, (a * k * more.get("q", 1)).astype(np.float32)


def test_it_computes_what_the_reference_does():
    assert pyopnb.pyop(InvAlpha) is InvAlpha
    model = pyopnb.parse(MODEL)
    (expected,) = ReferenceEvaluator(model, new_ops=[InvAlpha]).run(None, {"x": X})
    np.testing.assert_array_equal(pyopnb.run(model, x=X)["y"], expected)
    np.testing.assert_array_equal(pyopnb.call(InvAlpha, X, alpha=0.5), expected)
    assert registry["custom::InvAlpha"].current.source.startswith("class InvAlpha(OpRun):")


def test_name_that_is_given_and_default_domain():
    pyopnb.pyop("other::Name")(InvAlpha)
    pyopnb.pyop(Mixed)
    assert [op.name for op in registry] == ["other::Name", "pyopnb::Mixed"]


def test_inputs_attrs_and_several_results():
    pyopnb.pyop("demo::Mixed")(Mixed)
    y, z = pyopnb.call("demo::Mixed", X, X, outputs=2)
    assert (y.tolist(), z.tolist()) == ([2, 4], [2, 4])
    y, z = pyopnb.call("demo::Mixed", X, X, X, outputs=2, k=5, axis=1, q=3)
    assert (y.tolist(), z.tolist()) == ([3, 6], [15, 30])
    y, z = pyopnb.call("demo::Mixed", X, b=1, outputs=2)  # the node says which it is
    assert y.tolist() == [2, 3]
    with pytest.raises(pyopnb.errors.ModelError, match=r"attr k: expected int, .* k in _run"):
        pyopnb.call("demo::Mixed", X, X, k="s")


def test_exception_is_the_user_s_own():
    pyopnb.pyop(InvAlpha)
    with pytest.raises(AttributeError, match="no attribute 'alpha'") as caught:
        pyopnb.call("custom::InvAlpha", X)
    assert "custom::InvAlpha" in caught.value.__notes__[0]


def test_saved_and_pickled(define, tmp_path):
    define(TEXT.replace("class", "@pyopnb.pyop\nclass"))
    model = pyopnb.parse(MODEL)
    pyopnb.save(model, tmp_path / "m.onnx")
    session = pyopnb.Session(model)
    assert pickle.loads(pickle.dumps(session))(x=X)["y"].tolist() == session(x=X)["y"].tolist()
    (tmp_path / "s.pkl").write_bytes(pickle.dumps(session))
    code = (
        "import pickle, numpy as np, pyopnb; x = np.float32([1.5, 3.5])\n"
        "print(pickle.load(open('s.pkl', 'rb'))(x=x)['y'].tolist())\n"
        "pyopnb.registry.clear()\n"
        "m = pyopnb.load('m.onnx', ops=['custom::InvAlpha'])\n"
        "print(pyopnb.run(m.model, x=x)['y'].tolist())"
    )
    command = [sys.executable, "-P", "-c", code]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "[0.5, 0.25]\n[0.5, 0.25]\n"), done.stderr


def test_live_sessions_use_the_next_version():
    pyopnb.pyop(InvAlpha)
    session = pyopnb.Session(pyopnb.parse(MODEL))
    assert session(x=X)["y"].tolist() == [np.float32(1 / 1.5), np.float32(0.4)]

    class Ten(OpRun):
        def _run(self, x, alpha=None):
            return (10 * x,)

    pyopnb.pyop("custom::InvAlpha")(Ten)
    assert session(x=X)["y"].tolist() == [10, 20]
    assert registry.rollback("custom::InvAlpha", 1).number == 3
    assert session(x=X)["y"].tolist() == [np.float32(1 / 1.5), np.float32(0.4)]
