"""Tensors as arrays and arrays as tensors, without copies where that is safe."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import torch

__all__ = ["to_array", "to_tensor"]

# Dtypes that torch.from_numpy does not take: the integers of the same size through which they go.
_THROUGH = {
    np.dtype(getattr(ml_dtypes, name)): (integer, getattr(torch, name))
    for name, integer in (
        ("bfloat16", np.int16),
        ("float8_e4m3fn", np.int8),
        ("float8_e4m3fnuz", np.int8),
        ("float8_e5m2", np.int8),
        ("float8_e5m2fnuz", np.int8),
    )
    if hasattr(torch, name)
}
# What most tensors are; the other way takes four calls of torch more.
_AS_IT_IS = frozenset({torch.float32, torch.float64, torch.int64, torch.int32, torch.bool})
_BACK = {tensor: (integer, array) for array, (integer, tensor) in _THROUGH.items()}


class _Writable:
    """A read-only array to those who ask for its memory; torch warns of arrays that it could write to and may not."""

    def __init__(self, array: np.ndarray) -> None:
        self.owner = array
        interface = array.__array_interface__
        interface["data"] = (interface["data"][0], False)
        self.__array_interface__ = interface


def to_tensor(array: np.ndarray, *, complex_: bool = False) -> Any:
    """A tensor of the array's memory, which must not be written to.

    Parameters
    ----------
    array : ndarray
    complex_ : bool
        The last dimension has real and imaginary parts, as ONNX Runtime has no complex tensors.

    Returns
    -------
    torch.Tensor
    """
    through, dtype = _THROUGH.get(array.dtype, (None, None))
    if through is not None:
        array = array.view(through)
    if not array.flags.writeable:
        array = np.asarray(_Writable(array)) if array.size else array.copy()
    tensor = torch.from_numpy(array)
    tensor = tensor if dtype is None else tensor.view(dtype)
    return torch.view_as_complex(tensor.contiguous()) if complex_ else tensor


def to_array(tensor: Any) -> np.ndarray:
    """The array of a tensor's memory; of a complex one the real and imaginary parts as a last dimension.

    Parameters
    ----------
    tensor : torch.Tensor

    Returns
    -------
    ndarray
    """
    if (
        tensor.dtype in _AS_IT_IS
        and tensor.device.type == "cpu"
        and not tensor.is_neg()
        and not tensor.requires_grad
    ):
        return np.asarray(tensor.numpy())
    tensor = tensor.detach().cpu().resolve_conj().resolve_neg()
    if tensor.is_complex():
        tensor = torch.view_as_real(tensor)
    through, dtype = _BACK.get(tensor.dtype, (None, None))
    if through is not None:
        integers = torch.int16 if through is np.int16 else torch.int8
        return np.asarray(tensor.contiguous().view(integers).numpy().view(dtype))
    return np.asarray(tensor.contiguous().numpy())
