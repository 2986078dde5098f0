"""External data is read from where it was checked: one entry for each key."""

from __future__ import annotations

import pathlib

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

import pyopnb
from pyopnb.engine.models.model_files import read_model

SECRET = np.float32([3, 1, 4, 1])


def two_locations(folder: pathlib.Path, first: str, last: str) -> pathlib.Path:
    made = pyopnb.model(
        pyopnb.node("Add", ["x", "w"], "y"),
        {"x": "float32[4]", "w": "float32[4]"},
        {"y": "float32[4]"},
    )
    made.graph.input.pop()
    tensor = made.graph.initializer.add(
        name="w", data_type=1, dims=[4], data_location=onnx.TensorProto.EXTERNAL
    )
    for location in (first, last):
        tensor.external_data.add(key="location", value=location)
    path = folder / "m.onnx"
    path.write_bytes(made.SerializeToString())
    return path


@pytest.fixture
def harmful(tmp_path: pathlib.Path) -> pathlib.Path:
    (tmp_path / "secret").write_bytes(SECRET.tobytes())
    folder = tmp_path / "model"
    folder.mkdir()
    (folder / "w.bin").write_bytes(bytes(16))
    return two_locations(folder, "w.bin", "../secret")


CALLS = {
    "save": lambda path: pyopnb.save(path, path.with_name("saved.onnx")),
    "load": pyopnb.load,
    "session": pyopnb.Session,
    "diff": lambda path: pyopnb.diff(path, path),
    "fill": pyopnb.fill,
    "fill in memory": lambda path: pyopnb.fill(onnx.load(path, load_external_data=False)),
    "skeleton": lambda path: pyopnb.skeleton(path, "Add"),
    "diff in memory": lambda path: pyopnb.diff(*[onnx.load(path, load_external_data=False)] * 2),
}


@pytest.mark.parametrize("call", CALLS)
def test_two_locations_are_refused_and_the_other_file_is_not_read(
    call: str, harmful: pathlib.Path
) -> None:
    with pytest.raises(
        pyopnb.errors.ModelError,
        match=r"initializer w, external data: expected one 'location', got 'w.bin' and",
    ):
        CALLS[call](harmful)
    assert not [p for p in harmful.parent.iterdir() if SECRET.tobytes() in p.read_bytes()]


def test_one_location_is_read_by_all(tmp_path: pathlib.Path) -> None:
    made = pyopnb.model(
        pyopnb.node("Add", ["x", "w"], "y"),
        {"x": "float32[4]", "w": "float32[4]"},
        {"y": "float32[4]"},
    )
    made.graph.input.pop()
    made.graph.initializer.append(numpy_helper.from_array(SECRET, "w"))
    path = tmp_path / "m.onnx"
    onnx.save(made, path, save_as_external_data=True, location="w.bin", size_threshold=0)
    pyopnb.save(path, tmp_path / "inside.onnx", external_data=False)
    x = np.zeros(4, np.float32)
    for model in (path, tmp_path / "inside.onnx", pyopnb.fill(path)):
        np.testing.assert_array_equal(pyopnb.Session(model)(x=x)["y"], SECRET)
    assert read_model(path).folder == str(tmp_path.resolve())
    np.testing.assert_array_equal(pyopnb.trace(path, x=x, on="reference")["y"], SECRET)
