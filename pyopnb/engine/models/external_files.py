"""Check where the external data of a model's tensors is, and read it."""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import numpy as np
from onnx import ModelProto, TensorProto, numpy_helper

from pyopnb.common import sanitize
from pyopnb.engine.models.protos import tensors
from pyopnb.engine.ops.dtypes import DTYPES
from pyopnb.errors import ModelError

__all__ = [
    "LFS_POINTER",
    "DataPlace",
    "FileStamps",
    "data_paths",
    "entries",
    "find_bytes",
    "find_data",
    "is_absent",
    "is_external",
    "mapped",
    "original",
    "read_data",
    "stub",
    "take_in_all",
    "taken_in",
    "weight_bytes",
    "with_data",
]

_BY_NUMBER = {row.onnx: row for row in DTYPES}

LFS_POINTER = b"version https://git-lfs"
"""How a file begins that Git LFS puts in the place of one that was not fetched."""

_TAKEN_OUT = f"taken-out-{os.urandom(8).hex()}"
"""The location that a stub names for its data.

It is random, so that no tensor of a model file can pass for a stub.
"""


def is_external(tensor: TensorProto) -> bool:
    """Tell whether a tensor's data is in another file."""
    return bool(tensor.data_location == TensorProto.EXTERNAL)


def stub(tensor: TensorProto) -> TensorProto:
    """Return a tensor without its data, for a copy of the model that leaves it out."""
    copy = TensorProto(name=tensor.name, data_type=tensor.data_type, dims=tensor.dims)
    # onnxruntime takes an initializer from memory only if the model says that it is in a file.
    copy.data_location = TensorProto.EXTERNAL
    copy.external_data.add(key="location", value=_TAKEN_OUT)
    return copy


def original(tensor: TensorProto, taken_out: Mapping[str, TensorProto]) -> TensorProto:
    """Return the tensor that `stub` replaced in this process, or any other tensor as it is."""
    locations = [entry.value for entry in tensor.external_data]
    if is_external(tensor) and locations == [_TAKEN_OUT]:
        return taken_out.get(tensor.name, tensor)
    return tensor


class DataPlace(NamedTuple):
    """Locate a tensor's data.

    Attributes
    ----------
    length : int or None
        In bytes; None if the entry has no length, which means as many as dtype and shape need.
    """

    path: Path
    offset: int
    length: int | None


def entries(tensor: TensorProto, where: str = "model") -> dict[str, str]:
    """Return the entries of a tensor with external data, one for each key.

    Raises
    ------
    ModelError
        A key occurs twice: some readers take the first and some the last, and would read different
        files.
    """
    entries_by_key: dict[str, str] = {}
    name = f"{where}, initializer {tensor.name}, external data"
    for entry in tensor.external_data:
        key, value = entry.key, entry.value
        # Protobuf gives bytes that are not UTF-8.
        if not isinstance(key, str) or not isinstance(value, str):
            raise ModelError(name, expected="UTF-8", got=sanitize(repr(value), 80))
        if key in entries_by_key:
            got = sanitize(f"{entries_by_key[key]!r} and {value!r}")
            raise ModelError(name, expected=f"one {sanitize(repr(key), 40)}", got=got)
        entries_by_key[key] = value
    return entries_by_key


def find_data(
    tensor: TensorProto, folder: str | os.PathLike[str], where: str = "model"
) -> DataPlace:
    """Find out where a tensor's data is.

    Parameters
    ----------
    tensor : TensorProto
        One with external data.
    folder : path
        The folder of the model.
    where : str
        The model, as messages name it.

    Raises
    ------
    ModelError
        An entry occurs twice or is not a number, or the data is not in a file of its own in the
        folder.
    """
    data_entries = entries(tensor, where)
    where = f"{where}, initializer {tensor.name}"
    offset, length = (_number(data_entries, key, where) for key in ("offset", "length"))
    location, (root, path) = data_entries.get("location", ""), _path_of(tensor, folder)
    # A model file is data. It must not make us read a file elsewhere, also not through a link.
    # ONNX Runtime also refuses most of this, but reads hard links.
    if not path.is_relative_to(root) or path.resolve() != path:
        got = f"{location}, which leads elsewhere"
    elif not path.is_file():
        got = f"{location or 'no name'}, which is no file in {root}"
    elif path.stat().st_nlink > 1:
        got = f"{location}, which has other names (a hard link can lead anywhere)"
    else:
        return DataPlace(path, offset, length or None)
    expected = "a data file of its own beside the model"
    raise ModelError(where, expected=expected, got=got, next="copy the file")


def _path_of(tensor: TensorProto, folder: str | os.PathLike[str]) -> tuple[Path, Path]:
    """Return the model's folder, and the path that a tensor's location names.

    The path may lead out of the folder. Without a location it is the folder itself.
    """
    root, location = Path(os.fspath(folder)).resolve(), entries(tensor).get("location", "")
    if not location or "\0" in location:
        return root, root
    return root, Path(os.path.normpath(root / location))


def is_absent(tensor: TensorProto, folder: str | os.PathLike[str]) -> bool:
    """Tell whether a tensor's data should be in the folder and nothing at all is at its path."""
    root, path = _path_of(tensor, folder)
    return path != root and path.is_relative_to(root) and not os.path.lexists(path)


def data_paths(model: ModelProto, folder: str | os.PathLike[str] | None) -> set[Path]:
    """Return the paths of a model's external data, where it may be absent."""
    if folder is None:
        return set()
    return {_path_of(tensor, folder)[1] for tensor in tensors(model) if is_external(tensor)}


class FileStamps:
    """Files that must not change, since they are read more than once."""

    def __init__(self, paths: Iterable[Path]) -> None:
        self._stamps = {path: _stamp(path) for path in paths}

    def check(self, expected: str, advice: str) -> None:
        """Raise a `ModelError` if a file was written in the meantime."""
        for path, stamp in self._stamps.items():
            if _stamp(path) not in (stamp, None):
                got = "one that was written later"
                where = f"file {sanitize(str(path))}"
                raise ModelError(where, expected=expected, got=got, next=advice)


def _stamp(path: Path) -> tuple[int, ...] | None:
    """Return what tells a file from a later one of its name; None if there is none."""
    with suppress(OSError):
        found = path.stat()
        return found.st_ino, found.st_size, found.st_mtime_ns
    return None


def _number(found: dict[str, str], key: str, name: str) -> int:
    text = found.get(key) or "0"
    if not (text.isascii() and text.isdecimal() and len(text) < 20):
        raise ModelError(f"{name}, external data", expected=f"{key} in bytes", got=sanitize(text))
    return int(text)


def _size(tensor: TensorProto) -> int | None:
    """Return the bytes that a tensor's dtype and shape need; None for an unknown dtype."""
    row = _BY_NUMBER.get(tensor.data_type)
    return None if row is None else (math.prod(tensor.dims) * row.bits + 7) // 8


def weight_bytes(model: ModelProto) -> int:
    """Add up the bytes of a model's weights, wherever they are."""
    return sum(_size(tensor) or 0 for tensor in model.graph.initializer)


def find_bytes(
    tensor: TensorProto, folder: str | os.PathLike[str], where: str = "model"
) -> tuple[Path, int, int]:
    """Return the file, the offset and the size in bytes of a tensor's data, which is there.

    Raises
    ------
    ModelError
        As from `find_data`; or the entry or the file does not have as many bytes as dtype and shape
        need.
    """
    location, name = find_data(tensor, folder, where), f"{where}, initializer {tensor.name}"
    # The size comes from the model, so it is checked before anything is read.
    if min(tensor.dims, default=0) < 0:
        raise ModelError(name, expected="sizes from 0 on", got=str(min(tensor.dims)))
    size = _size(tensor)
    if size is None:  # a dtype that is newer than this version
        size = location.length or 0
    # onnx would read as many bytes as the entry says and fail later, in words that name no tensor.
    if location.length not in (None, size):
        expected, got = (
            f"{size} bytes, as its dtype and shape need",
            f"a length of {location.length}",
        )
        raise ModelError(name, expected=expected, got=got)
    available = location.path.stat().st_size - location.offset
    if available < size:
        expected = f"{size} bytes in {location.path.name}"
        with location.path.open("rb") as file:
            is_pointer = file.read(len(LFS_POINTER)) == LFS_POINTER
        advice = "git lfs pull, in its folder" if is_pointer else "copy the file again"
        raise ModelError(name, expected=expected, got=str(max(available, 0)), next=advice)
    return location.path, location.offset, size


def read_data(tensor: TensorProto, folder: str | os.PathLike[str]) -> bytes:
    """Return the bytes of a tensor with external data: as many as its dtype and shape need.

    Parameters
    ----------
    tensor, folder
        As for `find_data`.

    Raises
    ------
    ModelError
        As from `find_data`; or the entry or the file does not have that many bytes.
    """
    path, offset, size = find_bytes(tensor, folder)
    with path.open("rb") as file:
        file.seek(offset)
        return file.read(size)


def mapped(tensor: TensorProto, folder: str | os.PathLike[str] | None) -> np.ndarray:
    """Return a tensor's array for a short look: data in a file takes no memory.

    It must not be kept, since the process ends where somebody has cut off the file in the meantime.

    Raises
    ------
    ModelError
        As from `with_data`.
    """
    row = _BY_NUMBER.get(tensor.data_type)
    if is_external(tensor) and folder is not None and row is not None and row.bits >= 8:
        path, offset, size = find_bytes(tensor, folder)
        # An empty map cannot be made, and compiled code reads no array at an odd address.
        if size and offset % row.numpy.itemsize == 0:
            return np.asarray(np.memmap(path, row.numpy, "r", offset, tuple(tensor.dims)))
    return np.asarray(numpy_helper.to_array(with_data(tensor, folder)))


def taken_in(tensor: TensorProto, data: bytes) -> None:
    """Put a tensor's data from a file into the tensor itself, which is changed."""
    tensor.raw_data = data
    del tensor.external_data[:]
    tensor.data_location = TensorProto.DEFAULT


def take_in_all(model: ModelProto, folder: str | os.PathLike[str] | None) -> None:
    """Read external data into the model itself, which then needs no folder."""
    if folder is None:
        return
    for tensor in filter(is_external, tensors(model)):
        taken_in(tensor, read_data(tensor, folder))


def with_data(tensor: TensorProto, folder: str | os.PathLike[str] | None) -> TensorProto:
    """Return a copy of a tensor with the data from its file, or the tensor itself without one.

    Raises
    ------
    ModelError
        As from `read_data`; or the folder is None.
    """
    if not is_external(tensor):
        return tensor
    if folder is None:
        where, got = f"initializer {tensor.name}", "a model in memory, which has none"
        raise ModelError(where, expected="the folder of its external data", got=got)
    copy = TensorProto(name=tensor.name, data_type=tensor.data_type, dims=tensor.dims)
    copy.raw_data = read_data(tensor, folder)
    return copy
