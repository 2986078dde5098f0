"""Files that commands are given."""

from __future__ import annotations

import zipfile
from pathlib import Path

import numpy as np
import onnx
import pytest

import pyopnb

POINTER = b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 3\n"


@pytest.fixture(scope="session")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with good and bad files of every kind."""
    folder = tmp_path_factory.mktemp("files")
    x = np.float32([1, -2, 3])
    nodes = {
        "relu": pyopnb.node("Relu", "x", "y"),
        "leaky": pyopnb.node("LeakyRelu", "x", "y", alpha=0.1),
        "own": pyopnb.node("cli::Clip", "x", "y"),
        "self": pyopnb.node("Relu", "self", "y"),
        "two": pyopnb.node("Add", ["x", "x2"], "y"),
    }
    for name, node in nodes.items():
        inputs = dict.fromkeys(node.input, "float32[N]")
        onnx.save(pyopnb.model([node], inputs, "y"), folder / f"{name}.onnx")
    for name, array in {
        "x": x,
        "near": x + np.float32(1e-6),
        "far": x + 1,
        "empty": np.zeros((0, 3)),
        "scalar": np.float64(2),
    }.items():
        np.save(folder / f"{name}.npy", array)
        np.savez(folder / f"{name}.npz", x=array)
    np.savez(folder / "other.npz", z=x)
    with zipfile.ZipFile(
        folder / "self.npz", "w"
    ) as archive:  # np.savez has a parameter of that name
        archive.write(folder / "x.npy", "self.npy")
        archive.write(folder / "x.npy", "file.npy")
    with zipfile.ZipFile(folder / "more.npz", "w") as archive:
        archive.writestr("x.txt", "no array")
    np.savez(folder / "f64.npz", x=x.astype(np.float64))
    np.savez(folder / "objects.npz", x=np.array([{}], object))
    np.save(folder / "objects.npy", np.array([{}], object))
    (folder / "x.pb").write_bytes(onnx.numpy_helper.from_array(x).SerializeToString())
    (folder / "bf16.pb").write_bytes(
        onnx.helper.make_tensor("x", onnx.TensorProto.BFLOAT16, [2], [1.0, 2.0]).SerializeToString()
    )
    outside = onnx.TensorProto(data_type=1, dims=[3], data_location=onnx.TensorProto.EXTERNAL)
    outside.external_data.add(key="location", value="/etc/passwd")
    (folder / "outside.pb").write_bytes(outside.SerializeToString())
    (folder / "guess.pb").write_bytes(
        onnx.TensorProto(data_type=1, dims=[-1], raw_data=bytes(8)).SerializeToString()
    )
    (folder / "short.pb").write_bytes(
        onnx.TensorProto(data_type=1, dims=[9], raw_data=bytes(8)).SerializeToString()
    )
    for ending in ("npz", "npy", "pb", "onnx"):
        (folder / f"pointer.{ending}").write_bytes(POINTER)
        (folder / f"nothing.{ending}").write_bytes(b"")
        (folder / f"garbage.{ending}").write_bytes(bytes(range(1, 200)))
        (folder / f"folder.{ending}").mkdir()
    for name in ("x.npz", "x.npy"):
        (folder / f"cut.{name[2:]}").write_bytes((folder / name).read_bytes()[:-5])
    for name, scale in (("scaled", 1), ("rescaled", 2)):
        model = pyopnb.parse(
            f"(float[N] x) => (float[N] y) <float[1] w = {{{scale}}}> {{ y = Mul(x, w) }}"
        )
        onnx.save(model, folder / f"{name}.onnx")
    return folder
