"""Ops as files: written, and run."""

from __future__ import annotations

import inspect
import os
import stat

import numpy as np
import pytest
from systems import needs_modes

import pyopnb
from pyopnb import registry
from pyopnb.models.module_files import load_module, save_module


def test_written_and_loaded(soft_clip, tmp_path):
    path = tmp_path / "ops.py"
    assert save_module(path, "demo::SoftClip") == (soft_clip,)
    registry.clear()
    (version,) = load_module(path)
    assert version.schema == soft_clip.schema
    assert pyopnb.call("demo::SoftClip", np.float32([100]), limit=2.0) == [2]
    assert inspect.getsource(version.cls) in path.read_text(encoding="utf-8")


def test_all_of_the_registry(define, tmp_path):
    define(
        "@pyopnb.pyop('b::B')\nclass B:\n    def compute(self, x): return x\n@pyopnb.pyop\nclass A(B): pass\n"
    )
    assert [version.op for version in save_module(tmp_path / "ops.py")] == [
        "b::B",
        "pyopnb::A",
    ]


def test_ops_that_fill_and_wrap_made_are_neither_written_nor_advised(soft_clip, clipper, tmp_path):
    node = pyopnb.node("ThresholdedRelu", "x", "y")
    with pytest.warns(pyopnb.errors.Filled):
        pyopnb.fill(pyopnb.model(node, {"x": "float64[N]"}, "y"))
    wrapped = pyopnb.wrap(clipper, "SoftClip", print)
    assert len(list(pyopnb.registry)) == 3
    assert [version.op for version in save_module(tmp_path / "ops.py")] == ["demo::SoftClip"]
    # Nor is such an op advised.
    with pytest.raises(pyopnb.errors.UnknownName, match="Try: define it"):
        pyopnb.replace(wrapped, "SoftClip", "ThresholdedRelu")


def test_line_ends_of_windows(define, tmp_path):
    """Written files have \n everywhere; one whose line ends git or an editor changed is the same."""
    define(
        "@pyopnb.pyop('demo::Note')\nclass Note:\n"
        "    text = '''one\ntwo'''\n    def compute(self, x): return x\n"
    )
    path = tmp_path / "ops.py"
    save_module(path)
    written = path.read_bytes()
    assert b"\r" not in written
    path.write_bytes(written.replace(b"\n", b"\r\n"))
    (version,) = load_module(path)
    assert version.cls.text == "one\ntwo" and "\r" not in inspect.getsource(version.cls)
    save_module(path)
    assert path.read_bytes() == written


def test_a_changed_or_foreign_file_stays(soft_clip, tmp_path):
    path = tmp_path / "ops.py"
    save_module(path)
    save_module(path)
    path.write_text(path.read_text(encoding="utf-8") + "# mine\n", encoding="utf-8")
    with pytest.raises(
        pyopnb.errors.DefinitionError,
        match="that was changed since. Try: another name, or overwrite=True",
    ):
        save_module(path)
    assert path.read_text(encoding="utf-8").endswith("# mine\n")
    save_module(path, overwrite=True)
    assert "# mine" not in path.read_text(encoding="utf-8")


def test_a_file_that_raises_has_defined_nothing(define, soft_clip):
    with pytest.raises(ZeroDivisionError):
        define("@pyopnb.pyop('demo::SoftClip')\nclass B:\n    def compute(self, x): ...\n1 / 0\n")
    assert registry["demo::SoftClip"].versions == (soft_clip,)
    with pytest.raises(pyopnb.errors.DefinitionError, match="class B"):
        define(
            "@pyopnb.pyop('demo::New')\nclass A:\n    def compute(self, x): ...\n@pyopnb.pyop\nclass B: ...\n"
        )
    assert [op.name for op in registry] == ["demo::SoftClip"]


@needs_modes
def test_a_new_file_has_the_permissions_of_any_other_while_threads_see_one_mask(
    soft_clip, tmp_path, monkeypatch
):
    (tmp_path / "other").touch()
    # A file that another thread makes meanwhile would be open to everybody.
    monkeypatch.delattr(os, "umask")
    save_module(tmp_path / "ops.py")
    modes = [stat.S_IMODE((tmp_path / name).stat().st_mode) for name in ("other", "ops.py")]
    assert modes[0] == modes[1]
    (tmp_path / "ops.py").chmod(0o600)
    save_module(tmp_path / "ops.py")
    assert stat.S_IMODE((tmp_path / "ops.py").stat().st_mode) == 0o600
