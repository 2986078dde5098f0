"""Messages that newcomers encounter: the user's line, and one sentence."""

from __future__ import annotations

import numpy as np
import pytest
from small_ops import soft_clip_cell

import pyopnb

CELLS = {
    "a typo in the op's name": (
        "pyopnb.Session(typo)",
        "UnknownName: the node of output 'y' (demo::SoftClap): ",
        "demo::SoftClip",
    ),
    "a missing attr": (
        "pyopnb.Session(bare)",
        "ModelError: the node of output 'y' (demo::SoftClip), attr limit: ",
        "limit=…",
    ),
    "a wrong dtype": (
        "pyopnb.run(good, x=np.ones(3))",
        "InputError: feed x: expected float32[N], got float64[3]",
        "np.float32",
    ),
    "no such file": (
        "pyopnb.Session('clp.onnx')",
        "ModelError: Load model clp.onnx failed. File doesn't exist.",
        "Try: clip.onnx",
    ),
    "a pointer": (
        "pyopnb.Session('lfs.onnx')",
        "ModelError: model lfs.onnx: expected an ONNX model with a graph, got a Git LFS",
        "git lfs pull",
    ),
    "a page": (
        "pyopnb.missing('page.onnx')",
        "ModelError: model page.onnx: expected an ONNX model with a graph, got HTML",
        "(on GitHub: Raw)",
    ),
    "not allowed": (
        "pyopnb.load(good, ops=True)",
        "ModelError: load, ops: expected a list of names or digests, got True",
        "ops=[",
    ),
}


@pytest.fixture
def prepared(shell, define, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "lfs.onnx").write_text(
        "version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 9\n"
    )
    (tmp_path / "page.onnx").write_text("<!DOCTYPE html>\n<title>Not Found</title>")
    (tmp_path / "clip.onnx").write_text("")
    define(soft_clip_cell("x").replace(" = 1.0", ""))
    for name, node in {
        "typo": "SoftClap",
        "bare": "SoftClip",
        "good": "SoftClip<limit = 1.0>",
    }.items():
        define(f"%%onnx -q {name}\n(float[N] x) => (float[N] y) {{ y = demo.{node}(x) }}")
    shell.push({"pyopnb": pyopnb, "np": np})


@pytest.mark.parametrize("kind", CELLS)
def test_the_users_line_and_the_message(prepared, run, kind):
    cell, start, end = CELLS[kind]
    ran = run(cell, number=3)
    assert not ran.ok
    *_, where, line, _, message = ran.out.splitlines()
    assert (where, line) == ("Cell In[3], line 1", f"----> 1 {cell}")
    assert message.startswith(start) and end in message


def test_what_the_op_raises_keeps_its_frames(prepared, define, run):
    define(soft_clip_cell("x.nope"))
    ran = run("pyopnb.run(good, x=np.float32([1]))")
    assert "in SoftClip.compute(self, x)" in ran.out and "AttributeError" in ran.out


def test_unloading_restores_full_tracebacks(prepared, run):
    cell = "pyopnb.registry['nope']"  # which does not hide its frames by itself
    assert "registry.py" not in run(cell).out
    run("%unload_ext pyopnb")
    assert "registry.py" in run(cell).out
    assert not hasattr(pyopnb.PyopError, "_render_traceback_")
