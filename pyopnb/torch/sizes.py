"""Sizes that may change: those that torch has fixed, and trials of the model at others."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import onnx_ir
import sympy
import torch

from pyopnb.ops.messages import sanitize
from pyopnb.torch.source import line_in

__all__ = [
    "FixedSize",
    "OpenSizes",
    "fix_dimensions",
    "fixed_by_torch",
    "requested_dimensions",
    "write_fixed_sizes",
]

_SYMBOL = re.compile(r"[A-Za-z_]\w*")
_FUNCTIONS = {"Max", "Min", "Mod", "floor"}
_TEN = 10
"""Examples of larger sizes than this times the example's are not drawn: they may not fit."""


@dataclass(frozen=True)
class FixedSize:
    """A size that was to be open and is a number in the model.

    Attributes
    ----------
    input : str
        Of the model.
    axis : int
    size : int
    reason : str
    """

    input: str
    axis: int
    size: int
    reason: str

    def __str__(self) -> str:
        return f"{sanitize(self.input)}, axis {self.axis}: always {self.size}, {self.reason}"


# ---- what was asked for ----------------------------------------------------------------------


def requested_dimensions(dynamic_shapes: Any, arguments: Mapping[str, Any]) -> list[dict[int, Any]]:
    """Collect what the user wants of each dimension, for each tensor among the arguments.

    Parameters
    ----------
    dynamic_shapes : object
        As for `torch.export.export`.
    arguments : mapping
        Forward's parameters and their values.

    Returns
    -------
    list of dict
        By axis; in the order of the tensors.
    """
    by_name = isinstance(dynamic_shapes, Mapping)
    requests: list[dict[int, Any]] = []
    for position, (name, value) in enumerate(arguments.items()):
        entry = None
        if by_name:
            entry = dynamic_shapes.get(name)
        elif dynamic_shapes is not None and position < len(dynamic_shapes):
            entry = dynamic_shapes[position]
        _collect_requests(entry, value, requests)
    return requests


def _collect_requests(entry: Any, value: Any, requests: list[dict[int, Any]]) -> None:
    if isinstance(value, torch.Tensor):
        requests.append(_axes(entry))
    elif isinstance(value, Mapping):
        for name, item in value.items():
            _collect_requests(
                entry.get(name) if isinstance(entry, Mapping) else None, item, requests
            )
    elif isinstance(value, (list, tuple)):
        entries = entry if isinstance(entry, (list, tuple)) else [None] * len(value)
        for item_entry, item in zip(entries, value, strict=False):
            _collect_requests(item_entry, item, requests)


def _axes(entry: Any) -> dict[int, Any]:
    """Read the entry of a tensor: a dict by axis, or a sequence with one item an axis."""
    if isinstance(entry, (list, tuple)):
        entry = dict(enumerate(entry))
    if not isinstance(entry, Mapping):
        return {}
    static = torch.export.Dim.STATIC
    return {
        axis: size
        for axis, size in entry.items()
        if not (size is None or isinstance(size, int) or size is static)
    }


# ---- what torch has fixed --------------------------------------------------------------------


def fixed_by_torch(
    program: Any, names: Sequence[str], requests: Sequence[Mapping[int, Any]]
) -> list[FixedSize]:
    """List the dimensions that were asked to be open and that torch has traced as a number.

    Parameters
    ----------
    program : torch.export.ExportedProgram
    names : sequence of str
        The model's inputs.
    requests : sequence of mapping
        From `requested_dimensions`.

    Returns
    -------
    list of FixedSize
    """
    values = [node.meta.get("val") for node in _input_nodes(program)]
    tensors = [
        (name, value)
        for name, value in zip(names, values, strict=False)
        if isinstance(value, torch.Tensor)
    ]
    sizes = []
    for (name, value), request in zip(tensors, requests, strict=False):
        for axis in request:
            size = value.shape[axis]
            if str(size).isdecimal():
                sizes.append(FixedSize(name, axis, int(size), _reason(value, size)))
    return sizes


def _input_nodes(program: Any) -> list[Any]:
    nodes = {
        node.name: node for node in program.graph_module.graph.nodes if node.op == "placeholder"
    }
    return [nodes[name] for name in program.graph_signature.user_inputs if name in nodes]


def _reason(value: Any, size: Any) -> str:
    """Say why torch has fixed a size, with the line where it did."""
    if int(size) == 1:
        return "as in the example; with 2 or more there it may stay open"
    if isinstance(size, int):
        return "as torch takes it for a constant"
    # Torch keeps the line at which it replaced a symbol by a number; where it does not, the
    # report has to do without.
    environment = getattr(getattr(value, "fake_mode", None), "shape_env", None)
    locations = getattr(environment, "replacements_slocs", {})
    location = locations.get(getattr(size.node, "_expr", None))
    frame: Any = getattr(location, "maybe_user_loc", None) or getattr(
        location, "framework_loc", None
    )
    if frame is None or not hasattr(frame, "filename"):
        return "which forward decides"
    line = line_in([(frame.filename, frame.lineno)])
    if not line and "/nn/" in frame.filename:
        line = f"torch's {frame.filename.rpartition('/nn/')[2]}:{frame.lineno}"
    return f"by {line}" if line else "which forward decides"


def write_fixed_sizes(graph: Any) -> None:
    """Make a number of each dimension whose name is one; the exporter writes a fixed size so.

    ONNX Runtime would take every size there, and give the rows of the example's.

    Parameters
    ----------
    graph : onnx_ir.Graph
        It is changed.
    """
    _rewrite_dimensions(graph, lambda name: int(name) if name.isdecimal() else name)


def fix_dimensions(graph: Any, symbol: str, size: int) -> None:
    """Give a free dimension its size in the example, wherever it stands.

    Parameters
    ----------
    graph : onnx_ir.Graph
        It is changed.
    symbol : str
    size : int
    """

    # A dimension that is computed from this one and others is left without a name.
    def rewritten(name: str) -> int | str | None:
        return _evaluated(name, {symbol: size}) if symbol in _symbols(name) else name

    _rewrite_dimensions(graph, rewritten)


def _rewrite_dimensions(graph: Any, rewritten: Callable[[str], int | str | None]) -> None:
    for value in _values(graph):
        if value.shape is None:
            continue
        dims = []
        for dim in value.shape:
            name = getattr(dim, "value", None)
            dims.append(rewritten(name) if isinstance(name, str) else dim)
        value.shape = onnx_ir.Shape(dims)  # some shapes are frozen


def _values(graph: Any) -> Iterator[Any]:
    yield from graph.inputs
    for node in graph.all_nodes():
        yield from node.outputs


# ---- trials ----------------------------------------------------------------------------------


class OpenSizes:
    """The free dimensions of a model, and examples of other sizes.

    Parameters
    ----------
    dims : sequence
        For each input its dimensions: a number, a name, or an expression of names.
    tensors : sequence of torch.Tensor
        The example's.
    bounds : mapping of str to (int, int)
        The least and the largest size by name, where the user has set them.
    """

    def __init__(
        self,
        dims: Sequence[Sequence[int | str]],
        tensors: Sequence[Any],
        bounds: Mapping[str, tuple[int, int]],
    ) -> None:
        self._dims, self._tensors, self._bounds = dims, tensors, bounds
        self.example: dict[str, int] = {}
        for names, tensor in zip(dims, tensors, strict=True):
            for name, size in zip(names, tensor.shape, strict=True):
                if isinstance(name, str) and _symbols(name) == {name}:
                    self.example[name] = int(size)

    def trials(self, symbols: Sequence[str]) -> Iterator[dict[str, int]]:
        """Draw other sizes of some symbols, all at once; the others keep the example's."""
        for draw in (
            lambda size: size + 1,
            lambda size: size + 3,
            lambda size: 2 * size + 1,
            lambda size: 1,
        ):
            sizes = dict(self.example)
            for symbol in symbols:
                least, largest = self._bounds.get(symbol, (1, _TEN * self.example[symbol] + _TEN))
                sizes[symbol] = min(max(draw(self.example[symbol]), least), largest)
            if sizes != self.example:
                yield sizes

    def tensors(self, sizes: Mapping[str, int]) -> list[Any] | None:
        """Resize the example's tensors; None where the sizes fit no example."""
        resized = []
        for names, tensor in zip(self._dims, self._tensors, strict=True):
            shape = []
            for name in names:
                size = name if isinstance(name, int) else _evaluated(name, sizes)
                if size is None or size < 0:
                    return None
                shape.append(size)
            resized.append(_resized(tensor, shape))
        return resized

    def at_fault(self, fault: Callable[[list[Any]], str | None], deadline: float) -> dict[str, str]:
        """Find the symbols at whose other sizes the model is wrong.

        All symbols change together first, which is all that a model needs that is right. Then
        each changes alone, until the deadline if nothing was wrong so far.

        Parameters
        ----------
        fault : callable
            What is wrong at these tensors; None where nothing is, or torch itself raises.
        deadline : float
            Of `time.monotonic`.

        Returns
        -------
        dict of str to str
            What is wrong, by symbol.
        """
        symbols = list(self.example)
        together = self._first_fault(symbols, fault)
        faults: dict[str, str] = {}
        if len(symbols) == 1:
            return {} if together is None else {symbols[0]: together}
        for symbol in symbols:
            if together is None and time.monotonic() > deadline:
                break
            alone = self._first_fault([symbol], fault)
            if alone is not None:
                faults[symbol] = alone
        if together is not None and not faults:  # they are wrong together only
            faults = dict.fromkeys(symbols, together)
        return faults

    def _first_fault(
        self, symbols: Sequence[str], fault: Callable[[list[Any]], str | None]
    ) -> str | None:
        for sizes in self.trials(symbols):
            tensors = self.tensors(sizes)
            text = None if tensors is None else fault(tensors)
            if text is not None:
                changed = ", ".join(f"{symbol} = {sizes[symbol]}" for symbol in symbols)
                return f"{text}, for {changed}"
        return None


def _resized(tensor: Any, shape: Sequence[int]) -> Any:
    """Repeat the numbers of a tensor in another shape, so that indices and probabilities stay valid."""
    if list(tensor.shape) == list(shape):
        return tensor.detach().clone()
    flat, count = tensor.detach().flatten(), 1
    for size in shape:
        count *= size
    if not flat.numel():
        return torch.ones(shape, dtype=tensor.dtype)
    return flat[torch.arange(count) % flat.numel()].reshape(tuple(shape))


def _symbols(expression: str) -> set[str]:
    return set(_SYMBOL.findall(expression)) - _FUNCTIONS


def _evaluated(expression: str, sizes: Mapping[str, int]) -> int | None:
    """Compute a dimension from the sizes of its symbols; None where some are missing."""
    if expression in sizes:
        return sizes[expression]
    names = {name: sympy.Symbol(name) for name in _symbols(expression)}
    try:
        value = sympy.sympify(expression, locals=names)
        value = value.subs({names[name]: size for name, size in sizes.items() if name in names})
    except (
        sympy.SympifyError,
        SyntaxError,
        TypeError,
        AttributeError,
    ):  # a name that is no expression
        return None
    return int(value) if value.is_Integer else None
