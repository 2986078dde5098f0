"""Reading and writing by index: numbers, slices, new axes, an ellipsis, arrays of integers and of bools, as NumPy has them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from pyopnb.lowering.numpy.sorting import nonzero_rows, selected
from pyopnb.lowering.refusal import refuse
from pyopnb.lowering.rules import BRACKETS
from pyopnb.lowering.size_vectors import broadcast_shape, flat, shape_vector
from pyopnb.lowering.tensors import (
    BOOL,
    INT64,
    Tensor,
    cast,
    concat,
    constant,
    count,
    expand,
    fit,
    gather,
    node,
    reshape,
    shape,
    transpose,
    unsqueeze,
    where,
)
from pyopnb.lowering.tracing import Number, Traced, is_constant, plain, tensor_of

_MOST = np.iinfo(np.int64).max


def _take(x: Traced, key: Any) -> Any:
    """Carry out ``x[key]``."""
    result = x.value[plain(key)]
    items = _items(x, key)
    basic = _is_basic(items)
    if x.constant and is_constant(list(items)):
        if not basic or not isinstance(result, np.ndarray):
            return Traced(result)
        return Traced(
            result,
            source=x,
            rederive=lambda: fit(_taken(x.tensor, items), result),
            write=_writer(x, key),
        )
    tensor = fit(_taken(x.tensor, items), result)
    if not basic or not isinstance(result, np.ndarray):
        return Traced(result, tensor)
    return Traced(
        result,
        tensor,
        source=x,
        rederive=lambda: fit(_taken(x.tensor, items), result),
        write=_writer(x, key),
    )


def _writer(x: Traced, key: Any) -> Any:
    return lambda new: x.assign(_written(x.tensor, _items(x, key), new))


def _put(x: Traced, key: Any, value: Any) -> None:
    """Carry out ``x[key] = value``."""
    # y[:, 0] += 1 writes into the view, and then assigns that to its place.
    is_view = type(value) is Traced and value.source is x
    if is_view and value.was_just_written and _same_key(value, x, key):
        return
    if not x.value.flags.writeable:
        refuse("a write into an input", "y = x.copy(), or copy_inputs = True in the class")
    if x.constant and is_constant([key]) and is_constant([value]):
        x.value[plain(key)] = plain(value)
        return
    before = x.tensor
    items = _items(x, key)
    new = tensor_of(value, x.dtype)
    tensor = _written(before, items, new)
    x.value[plain(key)] = plain(value)
    x.assign(Tensor(tensor.name, tensor.dtype, before.dims))


def _same_key(value: Traced, x: Traced, key: Any) -> bool:
    """Tell whether a value is the very view that it is assigned to, as in ``y[:, 0] += 1``."""
    view = x.value[plain(key)]
    mine = value.value
    return (
        isinstance(view, np.ndarray)
        and isinstance(mine, np.ndarray)
        and view.__array_interface__["data"] == mine.__array_interface__["data"]
        and view.shape == mine.shape
        and view.strides == mine.strides
    )


BRACKETS["read"] = _take
BRACKETS["write"] = _put

# ---- keys --------------------------------------------------------------------------------------------------------------------


def _items(x: Traced, key: Any) -> list[Any]:
    """List the items of a key, with the ellipsis written out and lists as arrays."""
    listed = list(key) if type(key) is tuple else [key]
    listed = [
        np.asarray(item) if type(item) is list and not _has_traced(item) else item
        for item in listed
    ]
    listed = [
        Traced(np.asarray(plain(item)), tensor_of(item)) if type(item) is list else item
        for item in listed
    ]
    listed = [np.bool_(item) if type(item) is bool else item for item in listed]
    axes_used = sum(_axes_used(item) for item in listed)
    positions = [position for position, item in enumerate(listed) if item is Ellipsis]
    fill = [slice(None)] * (x.ndim - axes_used)
    at = positions[0] if positions else len(listed)
    return [*listed[:at], *fill, *listed[at + 1 :]]


def _has_traced(value: Any) -> bool:
    return type(value) in (Traced, Number) or (type(value) is list and any(map(_has_traced, value)))


def _axes_used(item: Any) -> int:
    if item is None or item is Ellipsis:
        return 0
    array = plain(item)
    if isinstance(array, (np.ndarray, np.generic)) and array.dtype == bool:
        return array.ndim
    return 1


def _is_array(item: Any) -> bool:
    return isinstance(item, (np.ndarray, np.generic)) and (
        np.ndim(plain(item)) > 0 or plain(item).dtype == bool
    )


def _is_basic(items: Sequence[Any]) -> bool:
    return not any(map(_is_array, items))


# ---- reading -----------------------------------------------------------------------------------------------------------------


def _taken(x: Tensor, items: Sequence[Any]) -> Tensor:
    arrays = [item for item in items if _is_array(item)]
    if any(np.ndim(plain(item)) == 0 for item in arrays):
        refuse("a single bool as an index", "np.where")
    if len(arrays) == 1 and plain(arrays[0]).dtype == bool:
        tensor = _by_mask(x, items)
        if tensor is not None:
            return tensor
    if not arrays:
        return _basic(x, items)
    if (
        len(arrays) == 1
        and plain(arrays[0]).dtype != bool
        and not any(_is_number(item) for item in items)
    ):
        return _by_one_array(x, items)
    return _by_arrays(x, items)


def _is_number(item: Any) -> bool:
    return item is not None and type(item) is not slice and not _is_array(item)


def _index(item: Any) -> Tensor:
    """Record an integer or an array of integers."""
    tensor = tensor_of(item)
    return tensor if tensor.dtype in (np.int32, np.int64) else cast(tensor, INT64)


def _basic(x: Tensor, items: Sequence[Any]) -> Tensor:
    """Numbers, slices and new axes."""
    x = _slices(x, [item for item in items if item is not None])
    axes = [item for item in items if item is not None]
    for axis in reversed(range(len(axes))):
        if _is_number(axes[axis]):
            x = gather(x, _index(axes[axis]), axis)
    kept = [item for item in items if not _is_number(item)]
    return unsqueeze(x, [position for position, item in enumerate(kept) if item is None])


def _slices(x: Tensor, axes: Sequence[Any]) -> Tensor:
    """Record all slices at once; ``axes`` has an item for each axis."""
    parts = [
        (axis, item)
        for axis, item in enumerate(axes)
        if type(item) is slice and item != slice(None)
    ]
    if not parts:
        return x
    begins, stops, steps, dims = [], [], [], list(x.dims)
    for axis, item in parts:
        step = 1 if item.step is None else item.step
        if type(step) in (Number, Traced):
            refuse("a slice whose step can change", "np.arange(a, b, n) as an index")
        down = int(step) < 0
        begins.append((_MOST if down else 0) if item.start is None else item.start)
        stops.append((-_MOST if down else _MOST) if item.stop is None else item.stop)
        steps.append(int(step))
        fixed = not any(type(entry) in (Number, Traced) for entry in (item.start, item.stop))
        size = dims[axis]
        dims[axis] = (
            len(range(*slice(plain(item.start), plain(item.stop), step).indices(size)))
            if fixed and size is not None
            else None
        )
    inputs = [
        shape_vector(begins)[0],
        shape_vector(stops)[0],
        constant(np.array([axis for axis, _ in parts], np.int64)),
    ]
    if any(step != 1 for step in steps):
        inputs.append(constant(np.array(steps, np.int64)))
    return node("Slice", [x, *inputs], x.dtype, tuple(dims))


def _by_mask(x: Tensor, items: Sequence[Any]) -> Tensor | None:
    """Read by one array of bools beside slices; return None where it needs the general way."""
    position = next(n for n, item in enumerate(items) if _is_array(item))
    mask = tensor_of(items[position])
    if any(_is_number(item) or item is None for item in items):
        return None
    if mask.ndim == 1:
        remainder = _slices(
            x, [slice(None) if n == position else item for n, item in enumerate(items)]
        )
        return selected(remainder, mask, position)
    return selected(x, mask, None) if mask.ndim == x.ndim else None


def _by_one_array(x: Tensor, items: Sequence[Any]) -> Tensor:
    axes = [item for item in items if item is not None]
    position = next(n for n, item in enumerate(axes) if _is_array(item))
    x = _slices(x, [slice(None) if n == position else item for n, item in enumerate(axes)])
    index = _index(axes[position])
    tensor = gather(x, index, position)
    new, at = [], 0
    for item in items:
        if item is None:
            new.append(at)
        at += index.ndim if _is_array(item) else 1
    return unsqueeze(tensor, new)


def _by_arrays(x: Tensor, items: Sequence[Any]) -> Tensor:
    """Several arrays, or an array and numbers: they are broadcast together, and stand first where something is between them."""
    if any(item is None for item in items):
        refuse("new axes beside several index arrays", "x[i, j][:, None]")
    axes = _without_masks(items)
    chosen = [n for n, item in enumerate(axes) if type(item) is not slice]
    x = _slices(x, axes)
    remainder = [n for n in range(x.ndim) if n not in chosen]
    indices = [_whole_index(axes[n]) for n in chosen]
    to, dims = broadcast_shape(*indices)
    last = len(dims)
    stacked = concat([unsqueeze(expand(index, to, dims), [last]) for index in indices], last)
    front = transpose(x, [*chosen, *remainder])
    tensor = node("GatherND", [front, stacked], x.dtype, (*dims, *(x.dims[n] for n in remainder)))
    if chosen != list(range(chosen[0], chosen[-1] + 1)) or not chosen[0]:
        return tensor
    before = [len(dims) + n for n in range(chosen[0])]
    after = [len(dims) + n for n in range(chosen[0], len(remainder))]
    return transpose(tensor, [*before, *range(len(dims)), *after])


def _whole_index(item: Any) -> Tensor:
    """Record an index as int64, of a size that can be compared: a number has no axes."""
    return item if type(item) is Tensor else cast(tensor_of(item), INT64)


def _without_masks(items: Sequence[Any]) -> list[Any]:
    """Arrays of bools as the arrays of integers that they stand for."""
    axes: list[Any] = []
    for item in items:
        if _is_array(item) and plain(item).dtype == bool:
            rows = nonzero_rows(tensor_of(item))
            axes += [gather(rows, constant(np.int64(n)), 0) for n in range(np.ndim(plain(item)))]
        else:
            axes.append(item)
    return axes


# ---- writing -----------------------------------------------------------------------------------------------------------------


def _written(x: Tensor, items: Sequence[Any], new: Tensor) -> Tensor:
    """Record a tensor with other elements at a key."""
    if all(type(item) is slice and item == slice(None) for item in items):
        return new if new.dims == x.dims and None not in new.dims else expand(new, shape(x), x.dims)
    masks = [item for item in items if _is_array(item) and plain(item).dtype == bool]
    alone = len(masks) == 1 and all(
        item is masks[0] or (type(item) is slice and item == slice(None)) for item in items
    )
    if alone and masks[0] is items[0]:
        return _written_by_mask(x, tensor_of(masks[0]), new)
    if x.dtype == BOOL:
        return cast(_written(cast(x, np.int32), items, cast(new, np.int32)), BOOL)
    total = (
        node("Size", [x], INT64, ()) if None in x.dims else constant(np.int64(count(x.dims) or 0))
    )
    numbers = node("Range", [constant(np.int64(0)), total, constant(np.int64(1))], INT64, (None,))
    positions = _taken(reshape(numbers, shape(x), x.dims), items)
    values = (
        expand(new, shape(positions), positions.dims)
        if new.dims != positions.dims or None in positions.dims
        else new
    )
    tensor = node("ScatterElements", [flat(x), flat(positions), flat(values)], x.dtype, (None,))
    return reshape(tensor, shape(x), x.dims)


def _written_by_mask(x: Tensor, mask: Tensor, new: Tensor) -> Tensor:
    mask_rank = mask.ndim
    wide = unsqueeze(mask, list(range(mask_rank, x.ndim)))
    if new.ndim == 0 or (new.ndim <= x.ndim - mask_rank):
        return where(wide, new, x)
    at = transpose(nonzero_rows(mask), [1, 0])
    remainder = x.ndim - mask_rank
    target = concat([shape(at, 0, 1), shape(x, mask_rank)]) if remainder else shape(at, 0, 1)
    values = expand(new, target, (None,) * (1 + remainder))
    kind = x.dtype
    return node("ScatterND", [x, at, values], kind, x.dims)
