"""Read and write by NumPy indices.

These are numbers, slices, new axes, an ellipsis, and arrays of integers or bools.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from pyopnb.lowering.elementwise import where
from pyopnb.lowering.numpy.lookups import (
    index_tensor,
    nonzero_indices,
    nonzero_rows,
    selected,
)
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
    resized,
    shape,
    size,
    transpose,
    unsqueeze,
    vector,
)
from pyopnb.lowering.tracing import Number, Traced, is_constant, is_traced, plain, tensor_of

__all__: list[str] = []

_MOST = np.iinfo(np.int64).max
_EVERYTHING = slice(None)


def _read(x: Traced, key: Any) -> Any:
    """Carry out ``x[key]``."""
    result = x.value[plain(key)]
    items = _items(x, key)

    tensor = None
    if not (x.constant and is_constant(items)):
        tensor = fit(_taken(x.tensor, items), result)
    # Reading by arrays, or reading a scalar, gives a copy and not a view.
    if any(map(_is_array, items)) or not isinstance(result, np.ndarray):
        return Traced(result, tensor)
    return Traced(result, tensor, x)


def _write(x: Traced, key: Any, value: Any) -> None:
    """Carry out ``x[key] = value``."""
    # y[:, 0] += 1 adds to a view, and then assigns the result to its place.
    if x.unassigned is value:
        x.unassigned = None
    if not x.value.flags.writeable:
        refuse("a write into an input", "y = x.copy(), or copy_inputs = True in the class")
    if x.constant and is_constant([key, value]):
        x.value[plain(key)] = plain(value)
        return
    before = x.tensor
    tensor = _written(before, _items(x, key), tensor_of(value, x.dtype))
    x.value[plain(key)] = plain(value)
    x.assign(Tensor(tensor.name, tensor.dtype, before.dims))


BRACKETS["read"] = _read
BRACKETS["write"] = _write

# ---- keys ----------------------------------------------------------------------------------------


def _items(x: Traced, key: Any) -> list[Any]:
    """List the items of a key, with the ellipsis written out and lists as arrays."""
    items = list(map(_as_item, key if type(key) is tuple else (key,)))
    fill = [_EVERYTHING] * (x.ndim - sum(map(_axes_used, items)))
    for position, item in enumerate(items):
        if item is Ellipsis:
            return [*items[:position], *fill, *items[position + 1 :]]
    return [*items, *fill]


def _as_item(item: Any) -> Any:
    """Normalize one item of a key; lists become arrays."""
    if type(item) is bool:
        return np.bool_(item)
    if type(item) is not list:
        return item
    array = np.asarray(plain(item))
    if is_traced(item):
        return Traced(array, tensor_of(item))
    return array


def _axes_used(item: Any) -> int:
    if item is None or item is Ellipsis:
        return 0
    if _is_mask(item):
        return np.ndim(plain(item))
    return 1


def _is_array(item: Any) -> bool:
    if not isinstance(item, (np.ndarray, np.generic)):
        return False
    return np.ndim(plain(item)) > 0 or _is_mask(item)


def _is_mask(item: Any) -> bool:
    array = plain(item)
    return isinstance(array, (np.ndarray, np.generic)) and array.dtype == bool


def _is_number(item: Any) -> bool:
    return item is not None and type(item) is not slice and not _is_array(item)


def _sliced_elsewhere(items: Sequence[Any], position: int) -> list[Any]:
    """Replace the array in a key by a full slice, so that the other slices can be read first."""
    return [*items[:position], _EVERYTHING, *items[position + 1 :]]


# ---- reading -------------------------------------------------------------------------------------


def _taken(x: Tensor, items: Sequence[Any]) -> Tensor:
    """Record ``x[items]`` with the simplest operators that can."""
    positions = [position for position, item in enumerate(items) if _is_array(item)]
    if not positions:
        return _basic(x, items)
    for position in positions:
        if np.ndim(plain(items[position])) == 0:
            refuse("a single bool as an index", "np.where")
    has_number = any(map(_is_number, items))
    if len(positions) > 1 or has_number:
        return _by_arrays(x, items)
    array = items[positions[0]]
    if not _is_mask(array):
        return _basic(x, items)
    mask = tensor_of(array)
    has_new_axis = any(item is None for item in items)
    if not has_new_axis and mask.ndim == 1:
        position = positions[0]
        return selected(_slices(x, _sliced_elsewhere(items, position)), mask, position)
    if not has_new_axis and mask.ndim == x.ndim:
        return selected(flat(x), flat(mask), 0)
    return _by_arrays(x, items)


def _basic(x: Tensor, items: Sequence[Any]) -> Tensor:
    """Read by integers, slices and new axes, and by at most one index array."""
    axes = [item for item in items if item is not None]
    x = _slices(x, [_EVERYTHING if _is_array(item) else item for item in axes])
    # Go from the last axis to the first, as an integer removes its axis.
    for axis in reversed(range(len(axes))):
        if type(axes[axis]) is not slice:
            x = gather(x, index_tensor(axes[axis]), axis)
    new_axes = []
    at = 0
    for item in items:
        if item is None:
            new_axes.append(at)
        at += 1 if item is None or type(item) is slice else np.ndim(plain(item))
    return unsqueeze(x, new_axes)


def _slices(x: Tensor, axes: Sequence[Any]) -> Tensor:
    """Record all slices at once; ``axes`` has an item for each axis."""
    sliced_axes = []
    begins = []
    stops = []
    steps = []
    dims = x.dims
    for axis, item in enumerate(axes):
        if type(item) is not slice or _is_everything(item):
            continue
        step = _step(item)
        first, last = (_MOST, -_MOST) if step < 0 else (0, _MOST)
        sliced_axes.append(axis)
        begins.append(first if item.start is None else item.start)
        stops.append(last if item.stop is None else item.stop)
        steps.append(step)
        dims = resized(dims, axis, _length(item, step, dims[axis]))
    if not sliced_axes:
        return x
    first_positions, _ = shape_vector(begins)
    last_positions, _ = shape_vector(stops)
    inputs = [x, first_positions, last_positions, vector(*sliced_axes)]
    if any(step != 1 for step in steps):
        inputs.append(vector(*steps))
    return node("Slice", inputs, x.dtype, dims)


def _step(item: slice) -> int:
    step = 1 if item.step is None else item.step
    if type(step) in (Number, Traced):
        refuse("a slice whose step can change", "np.arange(a, b, n) as an index")
    return int(step)


def _length(item: slice, step: int, size_of_axis: int | None) -> int | None:
    """Count the elements of a slice; None if it varies with the inputs."""
    if size_of_axis is None:
        return None
    for bound in (item.start, item.stop):
        if type(bound) in (Number, Traced):
            return None
    bounds = slice(item.start, item.stop, step).indices(size_of_axis)
    return len(range(*bounds))


def _by_arrays(x: Tensor, items: Sequence[Any]) -> Tensor:
    """Read by several arrays, or an array and numbers: they are broadcast together."""
    if any(item is None for item in items):
        refuse("new axes beside several index arrays", "x[i, j][:, None]")
    axes = _without_masks(items)
    by_index = [axis for axis, item in enumerate(axes) if type(item) is not slice]
    sliced = [axis for axis in range(x.ndim) if axis not in by_index]
    x = _slices(x, axes)
    indices = [_int64_index(axes[axis]) for axis in by_index]
    to, dims = broadcast_shape(*indices)
    # GatherND takes a row of indices for each element, and reads the first axes.
    columns = []
    for index in indices:
        expanded = expand(index, to, dims)
        columns.append(unsqueeze(expanded, [len(dims)]))
    front = transpose(x, [*by_index, *sliced])
    inputs = [front, concat(columns, len(dims))]
    dims_of_slices = front.dims[len(by_index) :]
    tensor = node("GatherND", inputs, x.dtype, (*dims, *dims_of_slices))
    # Adjacent indices keep their position; separated ones move to the front, as in NumPy.
    first = by_index[0]
    last = by_index[-1]
    if last - first + 1 != len(by_index):
        return tensor
    new_axes = list(range(len(dims)))
    behind = list(range(len(dims), tensor.ndim))
    return transpose(tensor, behind[:first] + new_axes + behind[first:])


def _int64_index(item: Any) -> Tensor:
    """Record an index as int64, so that all of them have one dtype."""
    if type(item) is Tensor:
        return item
    return cast(tensor_of(item), INT64)


def _without_masks(items: Sequence[Any]) -> list[Any]:
    """Replace arrays of bools by the arrays of integers that select the same."""
    axes: list[Any] = []
    for item in items:
        if _is_mask(item):
            axes.extend(nonzero_indices(tensor_of(item)))
        else:
            axes.append(item)
    return axes


# ---- writing -------------------------------------------------------------------------------------


def _written(x: Tensor, items: Sequence[Any], new: Tensor) -> Tensor:
    """Record the tensor with new elements at a key."""
    chosen = [item for item in items if not _is_everything(item)]
    if not chosen:
        return expand(new, shape(x), x.dims)
    if len(chosen) == 1 and chosen[0] is items[0] and _is_mask(items[0]):
        return _written_by_mask(x, tensor_of(items[0]), new)
    if x.dtype == BOOL:
        # ScatterElements takes no bools.
        return cast(_written(cast(x, np.int32), items, cast(new, np.int32)), BOOL)
    positions = _taken(_numbered(x), items)
    values = expand(new, shape(positions), positions.dims)
    inputs = [flat(x), flat(positions), flat(values)]
    tensor = node("ScatterElements", inputs, x.dtype, (None,))
    return reshape(tensor, shape(x), x.dims)


def _is_everything(item: Any) -> bool:
    # Not ==, which a traced bound would record as a comparison.
    return type(item) is slice and item.start is item.stop is item.step is None


def _numbered(x: Tensor) -> Tensor:
    """Record the flat position of every element.

    Indexing these positions with a key gives the positions that the key writes to.
    """
    total = count(x.dims)
    if total is None:
        end = node("Size", [x], INT64, ())
    else:
        end = constant(total, INT64)
    numbers = node("Range", [constant(0, INT64), end, constant(1, INT64)], INT64, (None,))
    return reshape(numbers, shape(x), x.dims)


def _written_by_mask(x: Tensor, mask: Tensor, new: Tensor) -> Tensor:
    """Write where a mask of the first axes is true."""
    axes_behind = x.ndim - mask.ndim
    if new.ndim == 0 or new.ndim <= axes_behind:
        return where(unsqueeze(mask, list(range(mask.ndim, x.ndim))), new, x)
    # One value for each true element.
    at = transpose(nonzero_rows(mask), [1, 0])
    if axes_behind:
        sizes = concat([size(at, 0), shape(x, mask.ndim)])
    else:
        sizes = size(at, 0)
    values = expand(new, sizes, (None,) * (1 + axes_behind))
    return node("ScatterND", [x, at, values], x.dtype, x.dims)
