"""What a session takes, and what it says of that which is no model."""

from __future__ import annotations

import os
import sys
from functools import partial
from pathlib import Path
from typing import Any

import onnx
import pytest
from together import together

import pyopnb
from pyopnb.engine.models.model_files import ModelSource, read_model, to_model

MODEL = pyopnb.model([pyopnb.node("Relu", "x", "y")], {"x": "float32[N]"}, {"y": "float32[N]"})
DATA = MODEL.SerializeToString()

BAD = {
    "empty": (b"", "an empty file"),
    "lfs": (
        b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 3\n",
        "a Git LFS pointer.*git lfs pull",
    ),
    "html": (b"<!DOCTYPE html><html>404</html>", "HTML or XML"),
    "text": (b"hello, world\n", "text that begins with hello, world\\."),
    "truncated": (DATA[: len(DATA) // 2], "not a model with a graph"),
    "header only": (onnx.ModelProto(ir_version=8).SerializeToString(), "not a model with a graph"),
    "zeros": (bytes(100), "not a model with a graph"),
}


@pytest.mark.parametrize("name", BAD)
@pytest.mark.parametrize("form", ["bytes", "path"])
def test_what_is_no_model(name: str, form: str, tmp_path: Path) -> None:
    data, words = BAD[name]
    (tmp_path / "m.onnx").write_bytes(data)
    with pytest.raises(pyopnb.errors.ModelError, match=f"expected an ONNX model.*{words}"):
        read_model(data if form == "bytes" else tmp_path / "m.onnx")


@pytest.mark.parametrize("value", [None, 3, ["m.onnx"], onnx.GraphProto(), object()], ids=range(5))
def test_what_is_no_form_of_a_model(value: Any) -> None:
    with pytest.raises(pyopnb.errors.ModelError, match="expected a ModelProto, bytes or a path"):
        read_model(value)


def test_an_empty_proto_is_no_model() -> None:
    with pytest.raises(pyopnb.errors.ModelError, match="graph"):
        read_model(onnx.ModelProto())


def test_a_missing_file_and_a_folder(tmp_path: Path) -> None:
    with pytest.raises(pyopnb.errors.ModelError, match="File doesn't exist"):
        read_model(tmp_path / "none.onnx")
    with pytest.raises(pyopnb.errors.ModelError, match="expected a model file, got a folder"):
        read_model(tmp_path)


def test_a_folder_where_windows_gives_no_permission(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def denied(path: Path) -> bytes:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(Path, "read_bytes", denied)
    with pytest.raises(pyopnb.errors.ModelError, match="expected a model file, got a folder"):
        read_model(tmp_path)
    (tmp_path / "m.onnx").touch()
    with pytest.raises(pyopnb.errors.ModelError, match="a file that can be read, got .*Permission"):
        read_model(tmp_path / "m.onnx")


def external(location: str) -> onnx.ModelProto:
    made = onnx.ModelProto.FromString(DATA)
    tensor = made.graph.initializer.add(
        name="w", data_type=1, dims=[1], data_location=onnx.TensorProto.EXTERNAL
    )
    tensor.external_data.add(key="location", value=location)
    return made


def test_data_beside_the_model_and_below_it(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    for location in ("w.bin", "sub/w.bin", "./sub/../w.bin"):
        (tmp_path / location).write_bytes(bytes(4))
        assert read_model(external(location), tmp_path).folder == str(tmp_path.resolve())


def test_threads_that_edit_models_of_many_folders_at_once() -> None:
    def edit(thread: int) -> None:
        for number in range(600):
            folder = os.path.abspath(f"/data/{thread}/{number}")
            edited = to_model(ModelSource(external("w.bin"), folder))
            assert read_model(edited, data=False).folder == folder

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        together(*[partial(edit, thread) for thread in range(4)])
    finally:
        sys.setswitchinterval(interval)
