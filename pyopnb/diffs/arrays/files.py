"""Read arrays from files, and refuse files that only pickle can read, which would run code."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from zipfile import ZipFile

import numpy as np
from onnx import TensorProto, numpy_helper

from pyopnb.common import sanitize
from pyopnb.engine import model_files
from pyopnb.errors import InputError

__all__ = ["ENDINGS", "arrays_in"]

# An .npz file of any size may unpack to this many bytes.
_MOST_UNPACKED = 2**30
# Beyond that, to this many times the file's size: deflate reaches 1,000 only with zeros.
_MOST_PACKED = 100


def arrays_in(path: str | os.PathLike[str]) -> np.ndarray | dict[str, np.ndarray]:
    """Read the array, the named arrays or the tensor of a ``.npy``, ``.npz`` or ``.pb`` file.

    Raises
    ------
    InputError
        There is no such file, or its contents do not match its ending.
    """
    file = Path(os.fspath(path))
    where = f"file {sanitize(str(file))}"
    ending = file.suffix.lower()
    if ending not in ENDINGS:
        raise InputError(
            where,
            expected=f"a name that ends in {', '.join(ENDINGS)}",
            got=sanitize(ending) or "no ending",
            next='numpy.save("a.npy", array)',
        )
    contents, read = ENDINGS[ending]
    try:
        return read(file)
    except FileNotFoundError:
        raise InputError(
            f"{where} does not exist", next=model_files.similar_path(file, file.suffix)
        ) from None
    except Exception as error:
        # NumPy, zipfile and protobuf each have their own exceptions for a damaged file. The first
        # bytes show whether a web page or a pointer was downloaded instead of the file.
        head = b""
        if file.is_file():
            head = file.read_bytes()[:200]
        got = model_files.guess_format(head) or _reason(error)
        raise InputError(
            where, expected=contents, got=got, next=model_files.format_advice(head)
        ) from None


def _reason(error: BaseException) -> str:
    text = sanitize(str(error)).replace("\n", " ").rstrip(".")
    if "allow_pickle" in text or "Python objects" in text:
        return "Python objects, which only pickle can read, and pickle executes code"
    return text or type(error).__name__


def _npy(file: Path) -> np.ndarray:
    # Memory-mapped: it is compared block by block.
    return np.asarray(np.load(file, mmap_mode="r", allow_pickle=False))


def _npz(file: Path) -> dict[str, np.ndarray]:
    with ZipFile(file) as members:
        # A few kilobytes can unpack to all of the memory.
        size = sum(member.file_size for member in members.infolist())
        packed = file.stat().st_size
    if size > max(_MOST_UNPACKED, _MOST_PACKED * packed):
        raise ValueError(
            f"{packed:,} bytes that unpack to {size:,}; "
            f"the limit is {_MOST_PACKED} times as many, or 1 GiB"
        )
    # NumPy leaves a damaged file open.
    with file.open("rb") as opened, np.load(opened, allow_pickle=False) as archive:
        arrays = {name: archive[name] for name in archive.files}
    for name, array in arrays.items():
        if not isinstance(array, np.ndarray):
            raise ValueError(f"{name!r} among them")
    return arrays


def _pb(file: Path) -> np.ndarray:
    # Protobuf reads nearly any bytes: the fields say whether this was a tensor.
    tensor = TensorProto.FromString(file.read_bytes())
    if tensor.data_type == TensorProto.UNDEFINED or any(dim < 0 for dim in tensor.dims):
        raise ValueError("bytes of another format")
    if tensor.data_location == TensorProto.EXTERNAL:
        raise ValueError("one with external data")
    return np.asarray(numpy_helper.to_array(tensor))


ENDINGS: Mapping[str, tuple[str, Callable[[Path], np.ndarray | dict[str, np.ndarray]]]] = (
    MappingProxyType(
        {".npz": ("arrays", _npz), ".npy": ("an array", _npy), ".pb": ("a TensorProto", _pb)}
    )
)
"""The contents of a file and its reader, by the ending of its name."""
