"""Keep track of sizes that may change: sizes that torch fixed, and examples of other sizes."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx_ir
import sympy
import torch
from onnx import ModelProto
from torch.utils._pytree import tree_is_leaf, tree_leaves

from pyopnb.common import sanitize
from pyopnb.torch.source import line_in

__all__ = [
    "FixedSize",
    "OpenSizes",
    "derived_sizes",
    "expanded_shapes",
    "fix_dimensions",
    "fixed_by_torch",
    "forget_dimensions",
    "renamed_by_forward",
    "requested_dimensions",
    "write_derived_sizes",
    "write_fixed_sizes",
]

_SYMBOL = re.compile(r"[A-Za-z_]\w*")
_FUNCTIONS = {"Max", "Min", "Mod", "floor"}
# A few characters of others take all memory, and sizes have none.
_LARGE_POWER = re.compile(r"\*\*(?!\s*[23]\b(?!\s*\*\*))")
_LARGEST = 2**12

# Numbers that are added to the sizes of the example. They are many, as some modules take only every
# second or every fourth size, and networks of five halvings only multiples of 32.
_STEPS = (1, 3, 2, 4, 8, -1, -2, 16, 32)
# Elements of an input at which a module is tried, unless the example has nearly as many.
_MOST_ELEMENTS = 1 << 24


@dataclass(frozen=True)
class FixedSize:
    """A size that was to be open and is a number in the model, or is computed from others.

    Attributes
    ----------
    input : str
        Of the model.
    """

    input: str
    axis: int
    size: int | str
    reason: str

    def __str__(self) -> str:
        return f"{sanitize(self.input)}, axis {self.axis}: always {self.size}, {self.reason}"


# ---- requests ------------------------------------------------------------------------------------


def requested_dimensions(dynamic_shapes: Any, arguments: Mapping[str, Any]) -> list[dict[int, Any]]:
    """Collect the user's request for each dimension, for each tensor among the arguments.

    Parameters
    ----------
    dynamic_shapes : object
        From `expanded_shapes`.
    arguments : mapping
        Forward's parameters and their values.

    Returns
    -------
    list of dict
        By axis; in the order of the tensors.
    """
    requests: list[dict[int, Any]] = []
    entries = dynamic_shapes if isinstance(dynamic_shapes, Mapping) else {}
    for name, value in arguments.items():
        _collect_requests(entries.get(name), value, requests)
    return requests


def expanded_shapes(dynamic_shapes: Any, arguments: Mapping[str, Any]) -> Any:
    """Write the entries of dynamic_shapes by name, in the order of the arguments.

    A cache has one entry for each of its tensors.

    Parameters
    ----------
    dynamic_shapes : object
        Where the value is no list and no dict, one entry may apply to all its tensors.
    arguments : mapping
        Forward's parameters and their values.
    """
    if isinstance(dynamic_shapes, (list, tuple)) and len(dynamic_shapes) == len(arguments):
        dynamic_shapes = dict(zip(arguments, dynamic_shapes, strict=True))
    if not isinstance(dynamic_shapes, Mapping):
        return dynamic_shapes
    entries = {}
    for name, value in arguments.items():
        entries[name] = _for_each(dynamic_shapes.get(name), value)
    # The arguments come first; further names are refused.
    return {**entries, **dynamic_shapes, **entries}


def _for_each(entry: Any, value: Any) -> Any:
    """Repeat an entry for each tensor of a value that torch has registered as a tree."""
    is_plain = isinstance(value, (torch.Tensor, Mapping, list, tuple))
    if is_plain or tree_is_leaf(value) or not (entry is None or isinstance(entry, Mapping)):
        return entry
    children = children_of(value)
    # With None the exporter would miss an entry, and name no dimension at all.
    entry = entry or {}
    return [[entry] * len(child) if isinstance(child, list) else entry for child in children]


def children_of(value: Any) -> list[Any]:
    """List the direct children of a value, if torch has registered it as a tree.

    Caches of transformers are such values.
    """
    children: list[Any] = tree_leaves(value, is_leaf=lambda item: item is not value)
    return children


def _collect_requests(entry: Any, value: Any, requests: list[dict[int, Any]]) -> None:
    if isinstance(value, torch.Tensor):
        requests.append(_axes_of(entry))
        return
    if tree_is_leaf(value):
        return
    entries: list[Any] = []
    if isinstance(value, Mapping) and isinstance(entry, Mapping):
        entries = [entry.get(name) for name in value]
    elif isinstance(entry, (list, tuple)):
        entries = list(entry)
    items = children_of(value)
    entries += [None] * len(items)
    for item_entry, item in zip(entries, items, strict=False):
        _collect_requests(item_entry, item, requests)


def _name_of(request: Any) -> str:
    """Return the name that the user gave a dimension; return an empty text where there is none."""
    name = request if isinstance(request, str) else getattr(request, "__name__", "")
    return name if name.isidentifier() else ""


def _axes_of(entry: Any) -> dict[int, Any]:
    """Read the entry of a tensor: a dict by axis, or a sequence with one item an axis."""
    if isinstance(entry, (list, tuple)):
        entry = dict(enumerate(entry))
    axes: dict[int, Any] = {}
    if not isinstance(entry, Mapping):
        return axes
    for axis, size in entry.items():
        is_fixed = size is None or isinstance(size, int) or size is torch.export.Dim.STATIC
        if not is_fixed:
            axes[axis] = size
    return axes


# ---- sizes that torch has fixed ------------------------------------------------------------------


def fixed_by_torch(
    program: Any, names: Sequence[str], requests: Sequence[Mapping[int, Any]]
) -> dict[tuple[int, int], FixedSize]:
    """List the dimensions that were asked to be open and that torch has traced as a number.

    Parameters
    ----------
    program : torch.export.ExportedProgram
    names : sequence of str
        Of its inputs.
    requests : sequence of mapping
        From `requested_dimensions`.

    Returns
    -------
    dict of (int, int) to FixedSize
        By the number of the tensor and the axis.
    """
    tensors = []
    for name, value in zip(names, _input_values(program), strict=False):
        if isinstance(value, torch.Tensor):
            tensors.append((name, value))
    sizes = {}
    for number, ((name, value), request) in enumerate(zip(tensors, requests, strict=False)):
        for axis in request:
            size = value.shape[axis]
            # Torch keeps a symbolic size that can have one value only; its text is that value.
            if str(size).isdecimal():
                reason = _reason(value, size)
                sizes[number, axis] = FixedSize(name, axis, int(size), reason)
    return sizes


def _input_values(program: Any) -> list[Any]:
    """List the fake tensors of a program's inputs."""
    values = {}
    for node in program.graph_module.graph.nodes:
        if node.op == "placeholder":
            values[node.name] = node.meta.get("val")
    return [values[name] for name in program.graph_signature.user_inputs if name in values]


def _reason(value: Any, size: Any) -> str:
    """Say why torch has fixed a size, with the line where it did."""
    # Torch takes a size of 1 for a constant, since it broadcasts.
    if int(size) == 1:
        return "as in the example; with 2 or more there it may stay open"
    if isinstance(size, int):
        return "as torch takes it for a constant"
    # Torch keeps the line at which it replaced a symbol by a number; where it does not, the
    # report says no line.
    environment = getattr(getattr(value, "fake_mode", None), "shape_env", None)
    locations = getattr(environment, "replacements_slocs", {})
    location = locations.get(getattr(size.node, "_expr", None))
    frame: Any = getattr(location, "maybe_user_loc", None)
    frame = frame or getattr(location, "framework_loc", None)
    if not hasattr(frame, "filename"):
        return "which forward decides"
    line = line_in([(frame.filename, frame.lineno)])
    if not line and "/nn/" in frame.filename:
        line = f"torch, {frame.filename.rpartition('/nn/')[2]}:{frame.lineno}"
    return f"by {line}" if line else "which forward decides"


def renamed_by_forward(
    graph: Any, names: Sequence[str], requests: Sequence[Mapping[int, Any]]
) -> list[FixedSize]:
    """List the dimensions that the user has named and that are computed from others in the model.

    Parameters
    ----------
    graph : onnx_ir.Graph
    names : sequence of str
        The model's inputs.
    requests : sequence of mapping
        From `requested_dimensions`.
    """
    sizes = []
    shapes = [value.shape for value in graph.inputs]
    for name, shape, request in zip(names, shapes, requests, strict=False):
        for axis, wish in request.items():
            dim = getattr(shape[axis], "value", None)
            if _name_of(wish) and isinstance(dim, str) and len(_symbols(dim)) > 1:
                sizes.append(FixedSize(name, axis, dim, "as forward takes no other"))
    return sizes


def derived_sizes(program: Any) -> dict[tuple[int, int], Any]:
    """Find the sizes of inputs that torch traced for one sum of others only, by input and axis.

    A decoder takes a mask that is as long as its cache and the new tokens together: torch writes
    that as two conditions, at most and at least.
    """
    positions: dict[Any, tuple[int, int]] = {}
    environment = None
    for number, value in enumerate(_input_values(program)):
        for axis, size in enumerate(getattr(value, "shape", ())):
            if isinstance(size, torch.SymInt):
                environment = size.node.shape_env
                positions.setdefault(size.node.expr, (number, axis))
    at_most_zero = set()
    for guard in getattr(environment, "guards", ()):
        condition = guard.expr
        if isinstance(condition, (sympy.Le, sympy.Eq)):
            at_most_zero.add(condition.lhs - condition.rhs)
        if isinstance(condition, (sympy.Ge, sympy.Eq)):
            at_most_zero.add(condition.rhs - condition.lhs)
    derived = {}
    for difference in at_most_zero:
        if -difference not in at_most_zero:
            continue
        for symbol in difference.free_symbols & positions.keys():
            factor = difference.diff(symbol)
            # In a remainder or a product, no size is a sum of the others.
            if factor not in (1, -1):
                continue
            bound = symbol - factor * difference
            terms = bound.as_coefficients_dict()
            # In total = past + new, the symbol is total: a difference of sizes might be negative.
            is_sum = len(bound.free_symbols) > 1 and min(terms.values()) > 0
            if is_sum and bound.free_symbols <= positions.keys():
                derived[positions[symbol]] = bound
    return derived


# ---- dimensions of the model ---------------------------------------------------------------------


def write_derived_sizes(program: Any, graph: Any) -> None:
    """Write a size that has to be computed from others as that sum: ``past + new``.

    Parameters
    ----------
    program : torch.export.ExportedProgram
    graph : onnx_ir.Graph
        It is changed.
    """
    derived = derived_sizes(program)
    if not derived:
        return
    names: dict[Any, str] = {}
    for value, argument in zip(graph.inputs, _input_values(program), strict=False):
        for dim, size in zip(value.shape or (), getattr(argument, "shape", ()), strict=False):
            name = getattr(dim, "value", None)
            if isinstance(size, torch.SymInt) and isinstance(name, str):
                names.setdefault(size.node.expr, name)
    for (number, axis), bound in derived.items():
        symbol = getattr(graph.inputs[number].shape[axis], "value", None)
        if not isinstance(symbol, str) or _symbols(symbol) != {symbol}:
            continue
        text = str(bound.subs({size: sympy.Symbol(names[size]) for size in bound.free_symbols}))
        fix_dimensions(graph, symbol, text)


def write_fixed_sizes(graph: Any) -> None:
    """Turn each dimension named by a number into the number; the exporter names fixed sizes so.

    ONNX Runtime would take every size there, and give the rows of the example's.

    Parameters
    ----------
    graph : onnx_ir.Graph
        It is changed.
    """

    def rewritten(name: str) -> int | str:
        return int(name) if name.isdecimal() else name

    _rewrite_dimensions(graph, rewritten)


def fix_dimensions(graph: Any, symbol: str, size: int | str) -> None:
    """Give a free dimension its size in the example, or the text of a sum, in each place.

    Parameters
    ----------
    graph : onnx_ir.Graph
        It is changed.
    """

    def rewritten(name: str) -> int | str | None:
        if name == symbol:
            return size
        if symbol not in _symbols(name):
            return name
        # A dimension that is computed from this one and others is left without a name.
        return _evaluated(name, {symbol: size}) if isinstance(size, int) else None

    _rewrite_dimensions(graph, rewritten)


def forget_dimensions(graph: Any, places: Collection[tuple[int, int]]) -> None:
    """Leave dimensions of outputs undeclared, which hold at the sizes of the example only.

    Parameters
    ----------
    graph : onnx_ir.Graph
        It is changed.
    places : collection of (int, int)
        By output and axis.
    """
    for node in graph.all_nodes():
        for value in node.outputs:
            # Tensors before such an output have the same dimensions, and runtimes infer the others.
            if not value.is_graph_output():
                value.shape = None
    for number, axis in places:
        value = graph.outputs[number]
        dims = list(value.shape)
        dims[axis] = None
        value.shape = onnx_ir.Shape(dims)


def _rewrite_dimensions(graph: Any, rewritten: Callable[[str], int | str | None]) -> None:
    values = list(graph.inputs)
    for node in graph.all_nodes():
        values.extend(node.outputs)
    for value in values:
        if value.shape is None:
            continue
        dims = []
        for dim in value.shape:
            name = getattr(dim, "value", None)
            dims.append(rewritten(name) if isinstance(name, str) else dim)
        # Some shapes are frozen, so each is made again.
        value.shape = onnx_ir.Shape(dims)


# ---- examples of other sizes ---------------------------------------------------------------------


class OpenSizes:
    """The free dimensions of a model, and examples of other sizes.

    Parameters
    ----------
    dims : sequence of sequence
        By input the dimensions: a number, a name, or an expression of names.
    arrays : sequence of ndarray
        The example.
    requests : sequence of mapping
        From `requested_dimensions`.

    Attributes
    ----------
    example : dict of str to int
        The size of each free dimension in the example.
    places : dict of str to list
        The inputs and axes of each free dimension, and the user's request there.
    """

    def __init__(
        self,
        dims: Sequence[Sequence[int | str]],
        arrays: Sequence[np.ndarray],
        requests: Sequence[Mapping[int, Any]],
    ) -> None:
        self._dims, self._arrays = dims, arrays
        self.example: dict[str, int] = {}
        self.places: dict[str, list[tuple[int, int, Any]]] = {}
        self._bounds: dict[str, tuple[int, int]] = {}
        for number, (row, array) in enumerate(zip(dims, arrays, strict=True)):
            for axis, (dim, size) in enumerate(zip(row, array.shape, strict=True)):
                # Others are computed from these, as 2*s0 is.
                if not isinstance(dim, str) or _symbols(dim) != {dim}:
                    continue
                # Python numbers may be inputs after the tensors.
                request = requests[number].get(axis) if number < len(requests) else None
                self.example[dim] = size
                self.places.setdefault(dim, []).append((number, axis, request))
                least, largest = self._bounds.get(dim, (1, _LARGEST))
                # For a `torch.export.Dim`, the largest size may be infinite.
                least = max(least, getattr(request, "min", None) or 1)
                largest = int(min(largest, getattr(request, "max", None) or _LARGEST))
                self._bounds[dim] = least, largest

    @classmethod
    def of_model(
        cls,
        model: ModelProto,
        arrays: Sequence[np.ndarray],
        requests: Sequence[Mapping[int, Any]],
    ) -> OpenSizes:
        """Read the dimensions from the inputs of a model."""
        dims: list[list[int | str]] = []
        for info, array in zip(model.graph.input, arrays, strict=True):
            row: list[int | str] = []
            declared = info.type.tensor_type.shape.dim
            for dim, size in zip(declared, array.shape, strict=True):
                row.append(dim.dim_param or size)
            dims.append(row)
        return cls(dims, arrays, requests)

    @classmethod
    def of_requests(
        cls, arrays: Sequence[np.ndarray], requests: Sequence[Mapping[int, Any]]
    ) -> OpenSizes:
        """Open the dimensions that the user wants to be open; two that have one name are one."""
        dims: list[list[int | str]] = []
        for number, (array, request) in enumerate(zip(arrays, requests, strict=True)):
            row: list[int | str] = list(array.shape)
            for axis, entry in request.items():
                row[axis] = _name_of(entry) or f"size_{number}_{axis}"
            dims.append(row)
        return cls(dims, arrays, requests)

    def examples(
        self, symbols: Sequence[str]
    ) -> Iterator[tuple[dict[str, int], tuple[np.ndarray, ...]]]:
        """Yield examples of other sizes of some symbols, but 1; the others keep the example's."""
        drawn = [self.example, self._all_of(symbols, 1)]
        for step in _STEPS:
            sizes = dict(self.example)
            for symbol in symbols:
                least, largest = self._bounds[symbol]
                sizes[symbol] = min(max(self.example[symbol] + step, least), largest)
            resized = None if sizes in drawn else self.resize(sizes)
            if resized is not None:
                drawn.append(sizes)
                yield sizes, resized

    def example_of_all(self, symbols: Sequence[str], size: int) -> tuple[np.ndarray, ...] | None:
        """Give one size to some symbols; return None where that is the example, or fits none."""
        sizes = self._all_of(symbols, size)
        if sizes == self.example or any(self._bounds[name][0] > size for name in symbols):
            return None
        return self.resize(sizes)

    def _all_of(self, symbols: Sequence[str], size: int) -> dict[str, int]:
        return {**self.example, **dict.fromkeys(symbols, size)}

    def contradicted(
        self,
        declared: Sequence[Sequence[int | str]],
        arrays: Sequence[np.ndarray],
        results: Sequence[np.ndarray],
    ) -> set[tuple[int, int]]:
        """List the dimensions of outputs, by output and axis, that a run contradicts."""
        sizes = {}
        for symbol, ((number, axis, _), *_) in self.places.items():
            sizes[symbol] = arrays[number].shape[axis]
        contradicted = set()
        for output, (dims, result) in enumerate(zip(declared, results, strict=True)):
            for axis, (dim, size) in enumerate(zip(dims, result.shape, strict=False)):
                if dim and (_evaluated(dim, sizes) if isinstance(dim, str) else dim) not in (
                    None,
                    size,
                ):
                    contradicted.add((output, axis))
        return contradicted

    def resize(self, sizes: Mapping[str, int]) -> tuple[np.ndarray, ...] | None:
        """Repeat the example's numbers in other sizes; return None if these fit no example."""
        resized = []
        for dims, array in zip(self._dims, self._arrays, strict=True):
            shape = []
            for dim in dims:
                size = dim if isinstance(dim, int) else _evaluated(dim, sizes)
                if size is None or size < 0:
                    return None
                shape.append(size)
            # Five sizes of 70 each are gigabytes.
            if math.prod(shape) > max(_MOST_ELEMENTS, 4 * array.size):
                return None
            if not array.size:
                resized.append(np.ones(shape, array.dtype))
                continue
            # Indices and probabilities stay valid.
            numbers = np.resize(array, shape).astype(array.dtype, copy=False)
            if array.ndim == 1 and array.dtype.kind in "iu" and (array[1:] >= array[:-1]).all():
                # With unordered offsets, torch reads beyond its memory (torch 2.13).
                numbers.sort()
            resized.append(numbers)
        return tuple(resized)


def _symbols(expression: str) -> set[str]:
    return set(_SYMBOL.findall(expression)) - _FUNCTIONS


def _evaluated(expression: str, sizes: Mapping[str, int]) -> int | None:
    """Compute a dimension from the sizes of its symbols; return None where some are missing."""
    if expression in sizes:
        return sizes[expression]
    if _LARGE_POWER.search(expression):
        return None
    try:
        size = onnx_ir.SymbolicDim(expression).evaluate(sizes)
    except (ArithmeticError, TypeError, ValueError, RecursionError):
        # The name of a dimension can be any text.
        return None
    return size if isinstance(size, int) else None
