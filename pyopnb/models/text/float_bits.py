"""The bits of float fields of a message, which neither Python's numbers nor protobuf's text format carry where they are NaN."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from pyopnb.models.tensors import is_repeated

__all__ = ["bits_of", "float_fields", "has_odd_nan", "set_bits"]

_SIZES: dict[str, np.dtype[Any]] = {"f": np.dtype("<u4"), "d": np.dtype("<u8")}
_NAN = {4: 0x7FC00000, 8: 0x7FF8000000000000}
"""The NaN that ``nan`` is in a text."""


def float_fields(message: Any) -> Iterator[str]:
    """The names of the fields of a message that hold floats and are there."""
    for descriptor, _ in message.ListFields():
        if _size(descriptor) is not None:
            yield descriptor.name


def has_odd_nan(message: Any, name: str) -> bool:
    """Whether a float field has a NaN other than that which ``nan`` is in a text."""
    bits = bits_of(message, name)
    return bool((np.isnan(bits.view(f"<f{bits.itemsize}")) & (bits != _NAN[bits.itemsize])).any())


def bits_of(message: Any, name: str) -> np.ndarray:
    """The bits of the values of a float field.

    Returns
    -------
    numpy.ndarray of uint32 or uint64, shape (N,)
        One for a field that is not repeated.
    """
    descriptor = message.DESCRIPTOR.fields_by_name[name]
    size = _SIZES["f" if descriptor.cpp_type == descriptor.CPPTYPE_FLOAT else "d"]
    alone = type(message)()
    alone.CopyFrom(message)  # protobuf copies bits; a Python float of a signalling NaN is a quiet one
    alone.DiscardUnknownFields()
    for other, _ in message.ListFields():
        if other.name != name:
            alone.ClearField(other.name)
    written = alone.SerializeToString()
    count = len(getattr(message, name)) if is_repeated(descriptor) else 1
    if written and written[0] & 7 == _PACKED:
        return np.frombuffer(written[len(written) - count * size.itemsize :], size)
    rows: np.ndarray = np.frombuffer(written, np.uint8).reshape(count, -1)  # each value after its tag
    return np.frombuffer(rows[:, -size.itemsize :].tobytes(), size)


_PACKED = 2
"""Wire type of a list that is written in one piece: its tag and length, and the values without tags."""


def set_bits(message: Any, name: str, bits: list[int]) -> None:
    """Give a float field values of these bits.

    Raises
    ------
    ValueError
        The field holds no floats, or one value and there are more or none, or a number has more bits.
    """
    descriptor = message.DESCRIPTOR.fields_by_name.get(name)
    size = None if descriptor is None else _size(descriptor)
    if size is None:
        raise ValueError("a float field")
    if not is_repeated(descriptor) and len(bits) != 1:
        raise ValueError("one value")
    if max(bits, default=0) >> (size.itemsize * 8):
        raise ValueError(f"values of {size.itemsize * 2} hexadecimal digits")
    values = np.array(bits, size).tobytes()
    message.ClearField(name)
    wire = 5 if size.itemsize == 4 else 1
    tag = bytes([descriptor.number << 3 | wire])  # numbers of float fields are below 16: one byte
    step = size.itemsize
    message.MergeFromString(b"".join(tag + values[at : at + step] for at in range(0, len(values), step)))


def _size(descriptor: Any) -> np.dtype[Any] | None:
    kinds = {descriptor.CPPTYPE_FLOAT: "f", descriptor.CPPTYPE_DOUBLE: "d"}
    kind = kinds.get(descriptor.cpp_type)
    return None if kind is None or descriptor.number > 15 else _SIZES[kind]
