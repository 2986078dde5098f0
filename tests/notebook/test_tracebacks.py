"""Messages that newcomers encounter: the user's line, and one sentence."""

from __future__ import annotations

import numpy as np
import pytest
from small_ops import soft_clip_cell

import pyopnb

# What is typed, and the error; the table of mistakes has the messages.
CELLS = {
    "pyopnb.Session(typo)": "UnknownName",
    "pyopnb.Session(bare)": "ModelError",
    "pyopnb.run(good, x=np.ones(3))": "InputError",
    "pyopnb.Session('clp.onnx')": "ModelError",
    "pyopnb.missing('page.onnx')": "ModelError",
    "pyopnb.load(good, ops=True)": "ModelError",
}


@pytest.fixture
def prepared(shell, define, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "page.onnx").write_text(
        "<!DOCTYPE html>\n<title>Not Found</title>", encoding="utf-8"
    )
    define(soft_clip_cell("x").replace(" = 1.0", ""))
    for name, node in {
        "typo": "SoftClap",
        "bare": "SoftClip",
        "good": "SoftClip<limit = 1.0>",
    }.items():
        define(f"%%onnx -q {name}\n(float[N] x) => (float[N] y) {{ y = demo.{node}(x) }}")
    shell.push({"pyopnb": pyopnb, "np": np})


@pytest.mark.parametrize("cell", CELLS)
def test_the_users_line_and_the_message(prepared, run, cell):
    ran = run(cell, number=3)
    assert not ran.ok
    *_, where, line, _, message = ran.out.splitlines()
    assert (where, line) == ("Cell In[3], line 1", f"----> 1 {cell}")
    assert message.startswith(f"{CELLS[cell]}: ")


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
