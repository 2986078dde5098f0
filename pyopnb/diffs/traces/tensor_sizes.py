"""How many tensors of a run fit into memory."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import psutil
from onnx import ModelProto

from pyopnb.common import sanitize
from pyopnb.engine import TensorType, model_files, protos
from pyopnb.errors import InputError
from pyopnb.models import Types

__all__ = [
    "check_room",
    "default_memory",
    "inferred_sizes",
    "parts_that_fit",
    "spread_that_fits",
]

# Sessions, and what other programs need, come on top.
_SHARE = 4


def default_memory() -> float:
    """Return a part of the memory that is free, in bytes."""
    return float(psutil.virtual_memory().available) / _SHARE


def check_room(sizes: Mapping[str, int]) -> None:
    """Raise for tensors that need more memory than is free: the system would end the process.

    Parameters
    ----------
    sizes : mapping of str to int
        Bytes that are needed at once, by the name of the tensor.
    """
    free = psutil.virtual_memory().available
    total = sum(sizes.values())
    if total > free:
        name = max(sizes, key=lambda name: sizes[name])
        raise InputError(
            f"first_divergence, tensor {sanitize(name, 80)}",
            expected=f"tensors that fit into the {free / 1e9:.1f} GB of free memory",
            got=f"{total / 1e9:.1f} GB for it and what is recorded with it",
            next="feeds of a smaller batch or a shorter sequence",
        )


def inferred_sizes(model: ModelProto, feeds: Mapping[str, Any]) -> dict[str, int]:
    """Infer the bytes of tensors from the sizes of the feeds, by name; others are left out."""
    proto = model_files.without_weights(model).proto
    # The types in the file have symbols for sizes, which are known here.
    del proto.graph.value_info[:]
    for info in proto.graph.input:
        value = feeds.get(info.name)
        if isinstance(value, np.ndarray) and info.type.HasField("tensor_type"):
            dims = info.type.tensor_type.shape.dim
            del dims[:]
            for size in value.shape:
                dims.add(dim_value=size)
    types = Types(proto)
    sizes = {}
    for node in proto.graph.node:
        for name in filter(None, node.output):
            found = types.find(proto.graph, name)
            size = None if found is None else _size(protos.type_of_proto(found))
            if size is not None:
                sizes[name] = size
    return sizes


def _size(kind: TensorType) -> int | None:
    """Return the bytes of a tensor of a type; None if a size is not known."""
    if kind.dtype is None or kind.shape is None:
        return None
    dims = [dim for dim in kind.shape if isinstance(dim, int)]
    if len(dims) < len(kind.shape):
        return None
    return math.prod(dims) * kind.dtype.bits // 8


def spread_that_fits(
    names: Sequence[str], size: Callable[[str], float], memory: float
) -> list[str]:
    """Choose all names, or as many as fit, spread evenly; at least one."""
    count = len(names)
    while True:
        chosen = [names[(2 * k + 1) * len(names) // (2 * count)] for k in range(count)]
        if count <= 1 or sum(map(size, chosen)) <= memory:
            return chosen
        count -= math.ceil(count / 4)


def parts_that_fit(
    names: Sequence[str], size: Callable[[str], float], memory: float
) -> Iterator[list[str]]:
    """Split names into parts that fit, of at least one name each."""
    part: list[str] = []
    total = 0.0
    for name in names:
        total += size(name)
        if part and total > memory:
            yield part
            part, total = [], size(name)
        part.append(name)
    if part:
        yield part
