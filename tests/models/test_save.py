"""Models that keep their ops: what is written, and that it is written whole."""

from __future__ import annotations

import json
import os
import re

import numpy as np
import onnx
import pytest
from onnx import TensorProto, numpy_helper

import pyopnb
from pyopnb import registry
from pyopnb.models import saving
from pyopnb.models.op_metadata import digest

WEIGHTS = np.arange(1000, dtype=np.float32)


@pytest.fixture
def heavy():
    """A model with a weight of 4 kB, in itself."""
    nodes = [
        pyopnb.node("demo::SoftClip", "x", "a", limit=2.0),
        pyopnb.node("Add", ["a", "w"], "y"),
    ]
    made = pyopnb.model(nodes, {"x": "float32[1000]", "w": "float32[1000]"}, "y")
    made.graph.initializer.append(numpy_helper.from_array(WEIGHTS, "w"))
    return made


def run(path):
    return pyopnb.run(path, x=np.zeros(1000, np.float32))["y"]


def test_what_the_metadata_holds(soft_clip, clipper, tmp_path):
    clipper.metadata_props.add(key="author", value="me")
    (kept,) = pyopnb.save(clipper, tmp_path / "clip.onnx")
    entries = {entry.key: entry.value for entry in onnx.load(tmp_path / "clip.onnx").metadata_props}
    assert list(entries) == ["author", "pyopnb.op.demo::SoftClip"]
    held = json.loads(entries["pyopnb.op.demo::SoftClip"])
    assert held == {
        "source": kept.source,
        "digest": digest(kept.source),
        "schema": "(x)<limit: float = 1.0>",
        "pyopnb": pyopnb.__version__,
    }
    assert [entry.key for entry in clipper.metadata_props] == ["author"]


def test_only_the_ops_that_it_uses_also_in_bodies_and_of_the_retired_pyop(define, tmp_path):
    define("""
        @pyopnb.pyop("demo::Used")
        class Used:
            def compute(self, x): return x
        @pyopnb.pyop("demo::Unused")
        class Unused(Used): ...
        @pyopnb.pyop("demo::Old", module="mymodule")
        class Old(Used): ...
    """)
    model = pyopnb.parse("""
        <ir_version: 10, opset_import: ["": 21, "demo": 1, "old": 1]>
        g (bool c, float[N] x) => (float[N] y, float[N] z) {
            y = If(c) <then_branch = t () => (float[N] u) { u = demo.Used(x) },
                       else_branch = e () => (float[N] v) { v = Identity(x) }>
            z = old.PyOp <module = "mymodule", class_name = "Old", input_types = [1], output_types = [1]>(x)
        }
    """)
    ops = pyopnb.save(model, tmp_path / "m.onnx")
    assert sorted(op.name for op in ops) == ["demo::Old", "demo::Used"]


def test_an_op_without_a_source_is_refused_and_nothing_written(clipper, tmp_path):
    registry.define(type("Made", (), {"compute": lambda self, x: x}), "demo::SoftClip")
    with pytest.raises(pyopnb.errors.DefinitionError, match="source is not known"):
        pyopnb.save(clipper, tmp_path / "clip.onnx")
    assert list(tmp_path.iterdir()) == []


# ---- weights -----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("outside", [None, False, True])
@pytest.mark.parametrize("from_outside", [False, True])
def test_weights_inside_and_beside(soft_clip, heavy, tmp_path, outside, from_outside):
    source = heavy
    if from_outside:
        (tmp_path / "from").mkdir()
        source = tmp_path / "from" / "heavy.onnx"
        onnx.save_model(
            heavy, source, save_as_external_data=True, location="w.bin", size_threshold=0
        )
    path = tmp_path / "m.onnx"
    pyopnb.save(source, path, external_data=outside)
    beside = from_outside if outside is None else outside
    files = [file.name for file in tmp_path.iterdir() if file.name.startswith("m.")]
    assert len(files) == (2 if beside else 1)
    (weight,) = onnx.load(path, load_external_data=False).graph.initializer
    assert (weight.data_location == TensorProto.EXTERNAL) is beside
    np.testing.assert_array_equal(run(path), WEIGHTS)
    np.testing.assert_array_equal(
        numpy_helper.to_array(onnx.load(path).graph.initializer[0]), WEIGHTS
    )


def test_the_data_of_the_model_before_goes_and_only_that(soft_clip, heavy, tmp_path):
    path = tmp_path / "m.onnx"
    pyopnb.save(heavy, path, external_data=True)
    (old,) = tmp_path.glob("*.data")
    (tmp_path / "m.onnx.12345678.data").write_bytes(b"not ours")
    pyopnb.save(path, path)
    assert old.exists()
    heavy.graph.initializer[0].raw_data = (WEIGHTS + 1).tobytes()
    pyopnb.save(heavy, path, external_data=True)
    assert not old.exists()
    assert len(list(tmp_path.glob("*.data"))) == 2
    np.testing.assert_array_equal(run(path), WEIGHTS + 1)


def test_a_session_in_memory_remembers_the_data_and_the_file_does_not_say_where(
    soft_clip, heavy, tmp_path
):
    path = tmp_path / "m.onnx"
    pyopnb.save(heavy, path, external_data=True)
    loaded = pyopnb.load(path)
    np.testing.assert_array_equal(run(loaded.model), WEIGHTS)
    (tmp_path / "b").mkdir()
    pyopnb.save(loaded.model, tmp_path / "b" / "b.onnx")
    assert [entry.key for entry in onnx.load(tmp_path / "b" / "b.onnx").metadata_props] == [
        "pyopnb.op.demo::SoftClip"
    ]
    np.testing.assert_array_equal(run(tmp_path / "b" / "b.onnx"), WEIGHTS)


# ---- whole or not at all -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("fails", ["fsync", "replace"])
def test_a_write_that_fails_leaves_what_was_there(soft_clip, heavy, tmp_path, monkeypatch, fails):
    path = tmp_path / "m.onnx"
    pyopnb.save(heavy, path, external_data=True)
    before = {file.name: file.read_bytes() for file in tmp_path.iterdir()}
    heavy.graph.initializer[0].raw_data = (WEIGHTS + 1).tobytes()

    def no(*_):
        raise OSError("no space left")

    monkeypatch.setattr(os, fails, no)
    with pytest.raises(OSError, match="no space left"):
        pyopnb.save(heavy, path, external_data=True)
    monkeypatch.undo()
    assert {file.name: file.read_bytes() for file in tmp_path.iterdir()} == before


@pytest.mark.parametrize("outside", [False, True])
def test_a_full_disk_leaves_what_was_there(soft_clip, heavy, tmp_path, outside):
    resource = pytest.importorskip("resource", reason="only POSIX bounds the size of files")
    path = tmp_path / "m.onnx"
    pyopnb.save(heavy, path, external_data=True)
    before = {file.name: file.read_bytes() for file in tmp_path.iterdir()}
    heavy.graph.initializer[0].raw_data = (WEIGHTS + 1).tobytes()
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (2000, hard))
    try:
        with pytest.raises(OSError, match=re.escape(str(tmp_path))):
            pyopnb.save(heavy, path, external_data=outside)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert {file.name: file.read_bytes() for file in tmp_path.iterdir()} == before


@pytest.mark.skipif(
    not hasattr(os, "mkfifo"), reason="Windows has no pipes with the names of files"
)
def test_only_files_are_replaced(soft_clip, heavy, tmp_path):
    os.mkfifo(tmp_path / "m.onnx")
    with pytest.raises(pyopnb.errors.ModelError, match="expected the name of a file, got a device"):
        pyopnb.save(heavy, tmp_path / "m.onnx")
    assert (tmp_path / "m.onnx").is_fifo() and list(tmp_path.glob("*m.onnx*")) == [
        tmp_path / "m.onnx"
    ]


def test_data_that_a_session_maps_stays_on_windows(soft_clip, heavy, tmp_path, monkeypatch):
    """There, no file that is mapped is removed or replaced."""
    path = tmp_path / "m.onnx"
    pyopnb.save(heavy, path, external_data=True)
    (mapped,) = tmp_path.glob("*.data")
    before = mapped.read_bytes()

    def refusing(call):
        def refused(*paths):
            if mapped in map(type(mapped), paths):
                raise PermissionError(13, "The process cannot access the file", str(mapped))
            return call(*paths)

        return refused

    monkeypatch.setattr(os, "replace", refusing(os.replace))
    monkeypatch.setattr(os, "unlink", refusing(os.unlink))
    # The same weights are there, and others get a file of their own.
    pyopnb.save(heavy, path, external_data=True)
    np.testing.assert_array_equal(run(path), WEIGHTS)
    heavy.graph.initializer[0].raw_data = (WEIGHTS + 1).tobytes()
    pyopnb.save(heavy, path, external_data=True)
    np.testing.assert_array_equal(run(path), WEIGHTS + 1)
    assert mapped.read_bytes() == before
    # Under the same name, it may hold others: eight digits can be the same.
    mapped.write_bytes(b"others")
    heavy.graph.initializer[0].raw_data = WEIGHTS.tobytes()
    with pytest.raises(PermissionError, match="cannot access"):
        pyopnb.save(heavy, path, external_data=True)
    np.testing.assert_array_equal(run(path), WEIGHTS + 1)


def test_data_that_could_not_follow_its_model_is_taken_away(
    soft_clip, heavy, tmp_path, monkeypatch
):
    monkeypatch.setattr(saving, "_serialized", lambda model: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        pyopnb.save(heavy, tmp_path / "m.onnx", external_data=True)
    assert list(tmp_path.glob("m.*")) == []
