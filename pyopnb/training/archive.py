"""Read the file of a checkpoint, which may come from anywhere: sizes and types first, arrays last."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import IO, Any
from zipfile import ZIP_STORED, ZipFile

import numpy as np
from numpy.lib import format as npy

__all__ = ["FORMAT", "Header", "read_arrays", "read_facts", "read_headers"]

FORMAT = "pyopnb training 1"


@dataclass(frozen=True)
class Header:
    """The dtype and shape of an array that is not read yet."""

    dtype: np.dtype[Any]
    shape: tuple[int, ...]


def read_facts(members: ZipFile) -> dict[str, Any]:
    """Read all but the arrays, and refuse numbers that no training has.

    Raises
    ------
    ValueError
        A fact is not what `train` writes there. NumPy, zipfile and json raise others.
    """
    for info in members.infolist():
        # NumPy stores arrays as they are; a few packed bytes could unpack to all memory.
        if info.compress_type != ZIP_STORED or info.compress_size != info.file_size:
            raise ValueError(f"{info.filename}, which is compressed")
    header = _read_header(members, "facts")
    if header.dtype.kind != "U" or header.shape != ():
        raise ValueError(f"facts of {header.dtype}")
    facts: dict[str, Any] = json.loads(str(_read_array(members, "facts")))
    _check_facts(facts)
    names = facts["names"]
    expected = ["facts.npy", *(f"{number}.npy" for number in range(len(names)))]
    if sorted(members.namelist()) != sorted(expected):
        raise ValueError("other arrays than it has names for")
    return facts


def read_headers(members: ZipFile, names: list[str]) -> dict[str, Header]:
    """Read the dtypes and shapes of the arrays with these names, and nothing else."""
    return {name: _read_header(members, str(number)) for number, name in enumerate(names)}


def read_arrays(members: ZipFile, names: list[str], steps: int) -> dict[str, np.ndarray]:
    """Read the arrays with these names, once their headers have been checked."""
    arrays = {name: _read_array(members, str(number)) for number, name in enumerate(names)}
    for name, array in arrays.items():
        # Weights are floats: the one integer is the number of steps, from which rates follow.
        if array.dtype == np.int64 and array != steps:
            raise ValueError(f"{name} {array} after {steps} steps")
    return arrays


def _read_header(members: ZipFile, stem: str) -> Header:
    info = members.getinfo(f"{stem}.npy")
    with members.open(info) as stream:
        header = _parse_header(stream)
        size = stream.tell() + header.dtype.itemsize * math.prod(header.shape)
    # NumPy makes room for what the header says before it reads, and skips what comes after.
    if size != info.file_size:
        raise ValueError(f"{info.filename} of {info.file_size:,} bytes instead of {size:,}")
    return header


def _parse_header(stream: IO[bytes]) -> Header:
    version = npy.read_magic(stream)
    if version != (1, 0):
        raise ValueError(f"an array of version {version}")
    shape, _, dtype = npy.read_array_header_1_0(stream)
    return Header(dtype, shape)


def _read_array(members: ZipFile, stem: str) -> np.ndarray:
    with members.open(f"{stem}.npy") as stream:
        array: np.ndarray = npy.read_array(stream, allow_pickle=False)
    return array


def _check_facts(facts: Any) -> None:
    """Refuse facts that a training cannot go on from, or that it would go on from wrongly."""
    if not isinstance(facts, dict) or facts.get("format") != FORMAT:
        raise ValueError("another format")
    _check_list(facts, "losses", _is_finite)
    steps = len(facts["losses"])
    _check_list(facts, "norms", lambda value: _is_finite(value) and value >= 0)
    _check_list(facts, "names", lambda value: isinstance(value, str))
    _check_list(facts, "scores", lambda value: _is_step(value, steps, (int, float)))
    # A mark is made before its step, which may be the next one.
    _check_list(facts, "marks", lambda value: _is_step(value, steps + 1, (str,)))
    _check_single_facts(facts, steps)
    if len(facts["norms"]) != steps:
        raise ValueError(f"norms of {len(facts['norms'])} steps and losses of {steps}")


def _check_single_facts(facts: Mapping[str, Any], steps: int) -> None:
    epoch, position, seed = facts["epoch"], facts["position"], facts["seed"]
    # An epoch has at least one step, so both together are never more than the steps.
    if not _is_count(epoch, steps) or not _is_count(position, steps - epoch):
        raise ValueError(f"epoch {epoch!r}, position {position!r} after {steps} steps")
    if not (seed is None or (type(seed) is int and seed >= 0)):
        raise ValueError(f"seed {seed!r}")
    if not isinstance(facts["optimizer"], str):
        raise ValueError("an optimizer that is no text")
    if not _is_finite(facts["seconds"]) or facts["seconds"] < 0:
        raise ValueError(f"seconds {facts['seconds']!r}")


def _check_list(facts: Mapping[str, Any], name: str, is_right: Callable[[Any], bool]) -> None:
    values = facts[name]
    if not isinstance(values, list):
        raise ValueError(f"{name} that are no list")
    for value in values:
        if not is_right(value):
            raise ValueError(f"{value!r} in {name}")


def _is_count(value: object, most: int) -> bool:
    # A bool is an int for Python, and no count.
    return type(value) is int and 0 <= value <= most


def _is_finite(value: object) -> bool:
    return type(value) in (int, float) and math.isfinite(value)  # type: ignore[arg-type]


def _is_step(value: object, most: int, types: tuple[type, ...]) -> bool:
    """Tell whether a value is the number of a step with a value of these types."""
    if not isinstance(value, list) or len(value) != 2:
        return False
    return _is_count(value[0], most) and type(value[1]) in types
