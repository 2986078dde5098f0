"""Arrays that lie in files. Nothing in a file is run: what only pickle could read is refused."""

from __future__ import annotations

import os
import struct
import tokenize
import zlib
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from zipfile import BadZipFile

import numpy as np
from google.protobuf.message import DecodeError
from onnx import TensorProto, numpy_helper

from pyopnb.models.io import format_advice, guess_format
from pyopnb.ops.errors import FeedError, sanitize

__all__ = ["ENDINGS", "arrays_in"]


def arrays_in(path: str | os.PathLike[str]) -> np.ndarray | dict[str, np.ndarray]:
    """The array of a ``.npy`` file, the arrays of an ``.npz`` file by name, or the tensor of a ``.pb`` file.

    Parameters
    ----------
    path : path

    Raises
    ------
    FeedError
        There is no such file, or it holds something else than its name says.
    """
    file = Path(os.fspath(path))
    where = f"file {sanitize(str(file))}"
    ending = file.suffix.lower()
    if ending not in ENDINGS:
        raise FeedError(where, expected=f"a name that ends in {', '.join(ENDINGS)}", got=sanitize(ending) or "no ending")
    head = _head(file, where)
    begins, holds, read = ENDINGS[ending]
    try:
        if not head.startswith(begins):
            raise ValueError(f"{file.stat().st_size} bytes that are none")
        return read(file)
    except _DAMAGED as error:
        got = guess_format(head) or _said(error)
        raise FeedError(where, expected=holds, got=got, next=format_advice(head)) from None


# What NumPy, zipfile and protobuf raise for a damaged file, each in its own way; RuntimeError: what zipfile does not support.
_DAMAGED = (
    OSError, ValueError, EOFError, LookupError, TypeError, SyntaxError, RuntimeError, ArithmeticError, MemoryError,
    BadZipFile, zlib.error, struct.error, tokenize.TokenError, DecodeError,
)  # fmt: skip


def _said(error: BaseException) -> str:
    text = sanitize(str(error)).replace("\n", " ").rstrip(".")
    if "allow_pickle" in text or "Python objects" in text:
        return "Python objects, which only pickle reads, and pickle runs what a file says"
    return text or type(error).__name__


def _head(file: Path, where: str) -> bytes:
    try:
        with file.open("rb") as opened:
            return opened.read(200)
    except FileNotFoundError:
        raise FeedError(f"{where} does not exist", next=f"a path from {sanitize(str(Path.cwd()))}") from None
    except (OSError, ValueError) as error:
        raise FeedError(where, expected="a file that can be read", got=sanitize(str(error))) from None


def _npy(file: Path) -> np.ndarray:
    # Mapped: what is compared block by block need not be in memory as a whole.
    return np.asarray(np.load(file, mmap_mode="r", allow_pickle=False))


def _npz(file: Path) -> dict[str, np.ndarray]:
    with file.open("rb") as opened, np.load(opened, allow_pickle=False) as held:  # NumPy would leave a damaged one open
        found = {name: held[name] for name in held.files}
    other = next((name for name, array in found.items() if not isinstance(array, np.ndarray)), None)
    if other is not None:
        raise ValueError(f"{other!r} among them")
    return found


def _pb(file: Path) -> np.ndarray:
    tensor = TensorProto.FromString(file.read_bytes())
    if tensor.data_type == TensorProto.UNDEFINED or any(dim < 0 for dim in tensor.dims):
        raise ValueError("bytes that are none")
    if tensor.data_location == TensorProto.EXTERNAL:
        raise ValueError("one whose data are in another file")
    return np.asarray(numpy_helper.to_array(tensor))


ENDINGS: Mapping[str, tuple[bytes, str, Callable[[Path], np.ndarray | dict[str, np.ndarray]]]] = MappingProxyType(
    {".npz": (b"PK", "arrays", _npz), ".npy": (b"\x93NUMPY", "an array", _npy), ".pb": (b"", "a TensorProto", _pb)}
)
"""How a file begins, what it holds and what reads it, by the ending of its name."""
