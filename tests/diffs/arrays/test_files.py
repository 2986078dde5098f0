"""Out of every file come arrays or an InputError."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pyopnb
from pyopnb.diffs.arrays import files
from pyopnb.diffs.arrays.files import ENDINGS, arrays_in

X = np.float32([[1, 2], [3, 4]])


def good(ending: str) -> bytes:
    held = io.BytesIO()
    if ending == ".npy":
        np.save(held, X)
    elif ending == ".npz":
        np.savez_compressed(held, x=X, y=np.arange(3))
    else:
        held.write(onnx.numpy_helper.from_array(X).SerializeToString())
    return held.getvalue()


@pytest.mark.parametrize("ending", ENDINGS)
def test_what_was_written_is_read(ending: str, tmp_path: Path) -> None:
    (tmp_path / f"f{ending}").write_bytes(good(ending))
    found = arrays_in(tmp_path / f"f{ending}")
    assert np.array_equal(found["x"] if isinstance(found, dict) else found, X)


@pytest.mark.one_python  # of our own reading and writing; no library's version changes it
@pytest.mark.filterwarnings(
    "ignore:Reading .*additional header parsing"
)  # from NumPy, about headers that Python 2 might have written
@pytest.mark.parametrize("ending", ENDINGS)
@settings(max_examples=100)
@given(st.data())
def test_a_damaged_file_gives_arrays_or_a_refusal(
    ending: str, tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    held = bytearray(good(ending))
    begin = data.draw(st.integers(0, len(held)))
    held[begin : begin + data.draw(st.integers(0, 8))] = data.draw(st.binary(max_size=8))
    file = tmp_path_factory.getbasetemp() / f"damaged{ending}"
    file.write_bytes(held)
    said, found = "", []
    try:
        found = arrays_in(file)
    except pyopnb.errors.InputError as error:
        said = str(error)
    if said:
        assert said.startswith(f"file {file}: expected ")
    else:
        assert all(
            isinstance(one, np.ndarray)
            for one in (found.values() if isinstance(found, dict) else [found])
        )
    assert "\n" not in said


@pytest.mark.one_python  # of our own reading and writing; no library's version changes it
def test_an_npz_that_unpacks_to_gigabytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "bomb.npz"
    np.savez_compressed(path, a=np.zeros(2**24, np.uint8))
    assert pyopnb.diff(path, path).ok, "as dense as a bomb, but small enough to be honest"
    monkeypatch.setattr(
        files, "_MOST_UNPACKED", 2**20
    )  # in place of 1 GiB, which would take seconds to pack
    with pytest.raises(
        pyopnb.errors.InputError,
        match=r"arrays, got 1[\d,]+ bytes that unpack to 16,777,344; the limit is 100 times",
    ):
        pyopnb.diff(path, path)
    np.savez_compressed(path, a=np.random.default_rng(0).integers(0, 255, 2**21, np.uint8))
    assert pyopnb.diff(path, path).ok, "large, but not dense"
