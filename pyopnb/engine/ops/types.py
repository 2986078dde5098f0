"""``float32[N,3]``: the one notation for types, in hints, messages, views and diffs."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pyopnb.common import sanitize
from pyopnb.engine.ops.dtypes import DType
from pyopnb.engine.ops.dtypes import dtype as find_dtype
from pyopnb.errors import InputError

__all__ = ["ANY", "Dim", "TensorType", "tensor_type", "type_of"]

Dim = int | str | None
"""A dimension: its size, its symbol, or ``None`` where nothing is known (written ``?``)."""

_NOTATION = re.compile(r"\s*(?P<dtype>\w+)\s*(?:\[(?P<dims>[^\[\]]*)\])?\s*", re.ASCII)
_SYMBOL = re.compile(r"[^\W\d][\w.:/-]*")
_LARGEST = 2**63 - 1


@dataclass(frozen=True)
class TensorType:
    """A dtype and a shape, either of which may be unknown.

    Attributes
    ----------
    dtype : DType or None
        None is written ``any``. Given as `pyopnb.engine.ops.dtypes.dtype` takes it.
    shape : tuple of (int, str or None) or None
        None is an unknown rank, written ``[...]``; ``()`` is a scalar, written ``[]``.

    Raises
    ------
    InputError
        There is no such dtype, or a dimension is negative or over 2**63 - 1.

    Examples
    --------
    >>> t = TensorType.read("float32[N,3]")
    >>> t.dtype.name, t.shape
    ('float32', ('N', 3))
    >>> TensorType("float32", ["N", 3]) == t
    True
    >>> str(t.like(dtype="int64", shape=("N",)))
    'int64[N]'
    """

    dtype: DType | None
    shape: tuple[Dim, ...] | None

    def __post_init__(self) -> None:
        # Types are made by the thousand, mostly of rows and plain tuples; all else is converted.
        element: object = self.dtype
        if not (element is None or isinstance(element, DType)):
            object.__setattr__(self, "dtype", find_dtype(element))
        if self.shape is not None and not _is_plain(self.shape):
            object.__setattr__(self, "shape", _shape(self.shape, f"{self.dtype or 'any'}[...]"))

    def __str__(self) -> str:
        dims = "..."
        if self.shape is not None:
            dims = ",".join("?" if dim is None else sanitize(dim) for dim in self.shape)
        return f"{self.dtype or 'any'}[{dims}]"

    @staticmethod
    def read(text: object) -> TensorType:
        """Read a type from its notation, ``float32[N,3]``; a TensorType is returned as it is."""
        return tensor_type(text)

    def like(self, *, dtype: object = None, shape: Sequence[Dim] | None = None) -> TensorType:
        """Copy a type with another dtype, another shape, or both, as an op's ``infer`` returns it.

        Parameters
        ----------
        dtype : str, numpy.dtype, type or int, optional
            As `pyopnb.engine.ops.dtypes.dtype` takes it.
        shape : sequence of (int, str or None), optional
            Sizes, symbols, and None for a size that is not known.

        Returns
        -------
        TensorType
            Parts that are not given stay.

        Raises
        ------
        InputError
            There is no such dtype, or a dimension is negative or over 2**63 - 1.
        """
        new_dtype = self.dtype if dtype is None else find_dtype(dtype)
        new_shape = self.shape if shape is None else tuple(shape)
        return TensorType(new_dtype, new_shape)

    def accepts(self, other: TensorType) -> bool:
        """Tell whether a tensor of another type may be used where this type is declared.

        Anything that one type leaves unknown (a dtype, a rank, ``?``, a symbol) fits.

        Parameters
        ----------
        other : TensorType
            The type of the tensor that is passed.

        Returns
        -------
        bool
            Whether dtype, rank and each dimension fit.

        Examples
        --------
        >>> tensor_type("float32[N,3]").accepts(tensor_type("float32[2,3]"))
        True
        """
        # An unknown dtype or rank on either side contradicts nothing.
        if self.dtype and other.dtype and self.dtype != other.dtype:
            return False
        return other.shape is None or self.accepts_shape(other.shape)

    def accepts_shape(self, shape: Sequence[Dim], sizes: dict[str, int] | None = None) -> bool:
        """Tell whether a shape, such as ``array.shape``, fits; see `accepts`.

        Parameters
        ----------
        shape : sequence of (int, str or None)
            Sizes, symbols, and None for a size that is not known.
        sizes : dict, optional
            Sizes of this type's symbols. A symbol that is not in it yet is bound to the
            shape's size; one that is there must agree. Without it, symbols are not compared with
            each other.

        Returns
        -------
        bool
            Whether rank and each dimension fit.
        """
        if self.shape is None:
            return True
        if len(self.shape) != len(shape):
            return False
        for dim, size in zip(self.shape, shape, strict=True):
            # The first size that a symbol meets is its size from then on.
            if sizes is not None and isinstance(dim, str) and isinstance(size, int):
                dim = sizes.setdefault(dim, size)
            if dim != size and isinstance(dim, int) and isinstance(size, int):
                return False
        return True

    def without_sizes(self) -> TensorType:
        """Copy a type with every dimension unknown.

        Returns
        -------
        TensorType
            The same dtype and rank.
        """
        return TensorType(self.dtype, self.shape and (None,) * len(self.shape))

    @property
    def rank(self) -> int | None:
        """Return the number of dimensions; None if it is unknown."""
        return None if self.shape is None else len(self.shape)


ANY = TensorType(None, None)
"""``any[...]``: nothing is known."""


def tensor_type(value: object) -> TensorType:
    """Read a type from its notation.

    Parameters
    ----------
    value : str or TensorType
        ``float32[N,3]``; ``int4[...]`` or ``int4`` (rank unknown); ``string[]`` (a
        scalar); ``any[?,3]``.

    Returns
    -------
    TensorType
        A TensorType is returned as it is.

    Raises
    ------
    InputError
        Where the text is not of that form, the dtype is unknown, or a dimension is
        negative or over 2**63 - 1.

    Examples
    --------
    >>> str(tensor_type(" double[ batch , 3 ]"))
    'float64[batch,3]'
    """
    if isinstance(value, TensorType):
        return value
    match = _NOTATION.fullmatch(value) if isinstance(value, str) else None
    if match is None:
        raise InputError(
            "type",
            expected="float32[N,3], int64[...] or string[]",
            got=sanitize(repr(value)),
            next='"float32[N,3]"',
        )
    element = None if match["dtype"] == "any" else find_dtype(match["dtype"])
    dims = match["dims"]
    if dims is None or dims.strip() == "...":
        return TensorType(element, None)
    shape = []
    for text in dims.split(",") if dims.strip() else ():
        shape.append(_dim(text.strip(), sanitize(value)))
    return TensorType(element, tuple(shape))


def _dim(text: str, where: str) -> Dim:
    """Read one dimension of the notation."""
    if text == "?":
        return None
    # 19 digits are enough for 2**63 - 1; int() takes other digits than ASCII's,
    # and any number of them.
    if re.fullmatch("[0-9]{1,19}", text) and int(text) <= _LARGEST:
        return int(text)
    if _SYMBOL.fullmatch(text):
        return text
    expected = "a size from 0 to 2**63 - 1, a symbol or ?"
    got, advice = sanitize(text) or "nothing", '"float32[N,?]"'
    raise InputError(f"type {where}", expected=expected, got=got, next=advice)


def _is_plain(dims: object) -> bool:
    """Tell whether there is nothing to convert or refuse; types are made by the thousand."""
    if type(dims) is not tuple:
        return False
    for dim in dims:  # a generator would cost more than all else
        type_ = type(dim)
        if not (dim is None or type_ is str or (type_ is int and 0 <= dim <= _LARGEST)):
            return False
    return True


def _shape(dims: object, where: str) -> tuple[Dim, ...]:
    """Check dimensions, and convert NumPy integers."""
    if not isinstance(dims, (tuple, list)):
        raise InputError(
            f"type {where}, shape",
            expected="a tuple of dimensions, or None where the rank is unknown",
            got=sanitize(repr(dims)),
            next="('N', 3)",
        )
    shape: list[Dim] = []
    for dim in dims:
        is_size = isinstance(dim, (int, np.integer)) and not isinstance(dim, bool)
        if dim is None or isinstance(dim, str):
            shape.append(dim)
        elif is_size and 0 <= dim <= _LARGEST:
            shape.append(int(dim))
        else:
            raise InputError(
                f"type {where}",
                expected="a size from 0 to 2**63 - 1, a symbol or None",
                got=sanitize(repr(dim)),
                next="('N', 3)",
            )
    return tuple(shape)


def type_of(value: Any) -> TensorType:
    """Return the type of an array.

    Parameters
    ----------
    value : array_like

    Raises
    ------
    InputError
        ONNX has no such dtype.

    Examples
    --------
    >>> str(type_of(np.zeros((2, 3), np.float32)))
    'float32[2,3]'
    """
    array = value if isinstance(value, (np.ndarray, np.generic)) else np.asarray(value)
    return TensorType(find_dtype(array.dtype), tuple(array.shape))
