"""Convert tensors to arrays and back, without copies where that is safe."""

from __future__ import annotations

import warnings
from typing import Any

import ml_dtypes
import numpy as np
import torch

__all__ = ["to_array", "to_tensor"]

# NumPy has these dtypes from ml_dtypes, and torch.from_numpy does not take them. So the memory goes
# over as integers of the same size.
_DTYPES_OF_ML_DTYPES = {
    torch.bfloat16: (torch.int16, np.dtype(ml_dtypes.bfloat16)),
    torch.float8_e4m3fn: (torch.int8, np.dtype(ml_dtypes.float8_e4m3fn)),
    torch.float8_e4m3fnuz: (torch.int8, np.dtype(ml_dtypes.float8_e4m3fnuz)),
    torch.float8_e5m2: (torch.int8, np.dtype(ml_dtypes.float8_e5m2)),
    torch.float8_e5m2fnuz: (torch.int8, np.dtype(ml_dtypes.float8_e5m2fnuz)),
}
_TORCH_DTYPES = {entry[1]: dtype for dtype, entry in _DTYPES_OF_ML_DTYPES.items()}

# Nearly all tensors have one of these, and the general way takes four more torch calls.
_COMMON = frozenset({torch.float32, torch.float64, torch.int64, torch.int32, torch.bool})


# Torch warns once per process of a read-only array, and arrays of ONNX Runtime are read-only.
# Nothing here writes to them, and to claim that they are writable takes longer than a small op.
with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    torch.from_numpy(np.broadcast_to(np.float32(0), (1,)))


def to_tensor(array: np.ndarray) -> Any:
    """Make a tensor of an array's memory, which must not be written to.

    Returns
    -------
    torch.Tensor
    """
    dtype = _TORCH_DTYPES.get(array.dtype)
    if dtype is not None:
        array = array.view(np.int16 if dtype is torch.bfloat16 else np.int8)
    tensor = torch.from_numpy(array)
    return tensor if dtype is None else tensor.view(dtype)


def to_array(tensor: Any) -> np.ndarray:
    """Make an array of a tensor's memory.

    Of a complex tensor, the last dimension of the array has the real and imaginary parts.

    Parameters
    ----------
    tensor : torch.Tensor
    """
    is_common = tensor.dtype in _COMMON and tensor.device.type == "cpu"
    if is_common and not tensor.is_neg() and not tensor.requires_grad:
        return np.asarray(tensor.numpy())
    tensor = tensor.detach().cpu().resolve_conj().resolve_neg()
    if tensor.is_complex():
        tensor = torch.view_as_real(tensor)
    tensor = tensor.contiguous()
    if tensor.dtype not in _DTYPES_OF_ML_DTYPES:
        return np.asarray(tensor.numpy())
    integers, dtype = _DTYPES_OF_ML_DTYPES[tensor.dtype]
    return np.asarray(tensor.view(integers).numpy().view(dtype))
