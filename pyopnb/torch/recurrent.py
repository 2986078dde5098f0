"""Write the torch LSTM, GRU and RNN as ONNX operators, which take every length of a sequence."""

from __future__ import annotations

import collections
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from onnxscript import opset18
from torch.overrides import TorchFunctionMode

from pyopnb.torch.calls import register_op
from pyopnb.torch.foreign import keys_and_values

__all__ = ["OPEN_OPS", "OpenSequences", "as_onnx", "as_torch", "translations_of_sequences"]


@dataclass(frozen=True)
class _Cell:
    """A recurrent op.

    Attributes
    ----------
    target : torch._ops.OpOverload
        Of torch.
    onnx : str
        The ONNX operator.
    gates : tuple of int
        The rows of the torch weights by gate, in the ONNX order.
    activation : str
        Where it differs from the ONNX default.
    """

    target: Any
    onnx: str
    gates: tuple[int, ...]
    attrs: dict[str, int] = field(default_factory=dict)
    activation: str = ""


_CELLS = {
    # Torch has the gates in the order i, f, g, o, and ONNX in i, o, f, g.
    "lstm": _Cell(torch.ops.aten.lstm.input, "LSTM", (0, 3, 1, 2)),
    # Torch has them in the order r, z, n, and ONNX in z, r, n.
    "gru": _Cell(torch.ops.aten.gru.input, "GRU", (1, 0, 2), {"linear_before_reset": 1}),
    "rnn_tanh": _Cell(torch.ops.aten.rnn_tanh.input, "RNN", (0,)),
    "rnn_relu": _Cell(torch.ops.aten.rnn_relu.input, "RNN", (0,), {}, "Relu"),
}


class OpenSequences(TorchFunctionMode):  # type: ignore[misc]
    """Captures recurrent modules and pools with ops that take every length.

    Torch captures its recurrent modules as a loop over the steps of the example (torch 2.13),
    which fixes their number.

    Parameters
    ----------
    module : torch.nn.Module
    most_turns : int, optional
        Of a loop in its forward: torch captures each as ops of its own, and takes
        minutes for thousands.
    """

    def __init__(self, module: Any, most_turns: int | None = None) -> None:
        super().__init__()
        self._module, self._most_turns = module, most_turns
        self._turns: collections.Counter[Any] = collections.Counter()

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        # In the body of an op of control flow, Dynamo follows this function itself.
        if self._most_turns is not None and not torch.compiler.is_dynamo_compiling():
            self._count_turn(self._most_turns)
        name = getattr(func, "__name__", "")
        if name in _CELLS and func is getattr(torch._VF, name) and _has_operator(args):
            return _ops[name](*map(_as_list, args))
        if func in (torch.max_pool1d, torch.nn.functional.max_pool1d):
            options = dict(kwargs or {})
            if len(args) < 7 and not options.pop("return_indices", False):
                return _max_pool(*args, **options)
        if func is torch.nn.functional.scaled_dot_product_attention:
            keys, values = keys_and_values(args, kwargs)
            # The torch kernels do not check, and read beyond the shorter one (torch 2.13).
            torch._check(keys.shape[-2] == values.shape[-2])
        return func(*args, **(kwargs or {}))

    def _count_turn(self, most_turns: int) -> None:
        """Refuse a sequence op that the same modules call at the same line too often."""
        place = []
        frame = sys._getframe(2)
        while frame.f_locals.get("self") is not self._module:
            # Many layers share a line, and are no turns of a loop.
            place.append((id(frame.f_code), frame.f_lasti, id(frame.f_locals.get("self"))))
            if frame.f_back is None:
                # Torch itself traces the captured program again.
                return
            frame = frame.f_back
        place.append((id(frame.f_code), frame.f_lasti, 0))
        turns = self._turns[tuple(place)] = self._turns[tuple(place)] + 1
        if turns > most_turns:
            raise RuntimeError(f"a loop of more than {most_turns} turns, each an op of its own")


def _max_pool(
    inputs: Any,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    dilation: Any = 1,
    ceil_mode: bool = False,
) -> Any:
    """Pool rows as pictures of one row.

    Torch captures max_pool1d for one length only (torch 2.13).
    """

    def pair(value: Any, other: int) -> tuple[int, int]:
        return other, value if isinstance(value, int) else value[0]

    rows = torch.max_pool2d(
        inputs.unsqueeze(-2),
        pair(kernel_size, 1),
        pair(stride or kernel_size, 1),
        pair(padding, 0),
        pair(dilation, 1),
        ceil_mode,
    )
    return rows.squeeze(-2)


def _as_list(value: Any) -> Any:
    if isinstance(value, tuple):
        return list(value)
    return value


def _has_operator(args: Sequence[Any]) -> bool:
    """Tell whether ONNX Runtime has a recurrent operator for such a call."""
    # A packed sequence has its batch sizes in the second place, and everything
    # after it one further.
    if len(args) != 9 or not isinstance(args[3], bool):
        return False
    inputs, _, weights, has_biases, layers, dropout, trains, bidirectional, _ = args
    # One that projects its states, as the ONNX LSTM cannot, has further weights for that.
    count = layers * (2 if bidirectional else 1) * (4 if has_biases else 2)
    return inputs.dtype == torch.float32 and len(weights) == count and not (trains and dropout)


# ---- the ops -------------------------------------------------------------------------------------


def _define(name: str) -> Any:
    """Define an op like the torch one, apart from the sizes of its results."""
    cell = _CELLS[name]
    _, parenthesis, signature = str(cell.target._schema).partition("(")

    def fake(inputs: Any, states: Any, weights: Any, *args: Any) -> Any:
        bidirectional = args[4]
        if isinstance(states, torch.Tensor):
            states = [states]
        size = weights[1].shape[1] * (2 if bidirectional else 1)
        outputs = inputs.new_empty((*inputs.shape[:2], size))
        return (outputs, *map(torch.empty_like, states))

    function = getattr(torch._VF, name)
    return register_op("pyopnb_recurrent", name, function, fake, parenthesis + signature)


_ops = {name: _define(name) for name in _CELLS}

OPEN_OPS = {cell.target: _ops[name] for name, cell in _CELLS.items()}
"""The ops of `OpenSequences` by the recurrent ops of torch."""


def as_torch(nodes: Iterable[Any]) -> None:
    """Write the ops of `OpenSequences` among calls as torch ops."""
    targets = {op: target for target, op in OPEN_OPS.items()}
    for node in nodes:
        node.target = targets.get(node.target, node.target)


@contextmanager
def as_onnx(nodes: Iterable[Any]) -> Iterator[None]:
    """Write the torch recurrent ops so that the exporter takes their sizes as they are."""
    exchanged = []
    for node in nodes:
        if node.target in OPEN_OPS and _has_operator(_values(node)):
            exchanged.append((node, node.target))
            node.target = OPEN_OPS[node.target]
    try:
        yield
    finally:
        for node, target in exchanged:
            node.target = target


def _values(node: Any) -> list[Any]:
    """Read a call's arguments with fake tensors in place of its nodes."""
    values: list[Any] = torch.fx.map_arg(list(node.args), lambda entry: entry.meta["val"])
    return values


# ---- their nodes ---------------------------------------------------------------------------------


def translations_of_sequences() -> dict[Any, Callable[..., Any]]:
    """Return the translation of each op for ``torch.onnx.export``."""
    return {_ops[name]: _translation(cell) for name, cell in _CELLS.items()}


def _translation(cell: _Cell) -> Callable[..., Any]:
    def translate(
        inputs: Any,
        states: Any,
        weights: Any,
        has_biases: bool,
        layers: int,
        dropout: float,
        trains: bool,
        bidirectional: bool,
        batch_first: bool,
    ) -> Any:
        if not isinstance(states, (list, tuple)):
            states = [states]
        directions = 2 if bidirectional else 1
        size = weights[1].shape[1]
        if batch_first:
            inputs = opset18.Transpose(inputs, perm=[1, 0, 2])
        attrs: dict[str, Any] = dict(cell.attrs, hidden_size=size)
        if bidirectional:
            attrs["direction"] = "bidirectional"
        if cell.activation:
            attrs["activations"] = [cell.activation] * directions
        count = directions * (4 if has_biases else 2)
        last_states: list[list[Any]] = [[] for _ in states]
        for layer in range(layers):
            tensors = _tensors(cell, weights[layer * count : (layer + 1) * count], directions)
            first = []
            for state in states:
                start, end = [layer * directions], [(layer + 1) * directions]
                first.append(opset18.Slice(state, start, end, [0]) if layers > 1 else state)
            operator = getattr(opset18, cell.onnx)
            outputs, *last = operator(inputs, *tensors, None, *first, **attrs)
            for collected, state in zip(last_states, last, strict=False):
                collected.append(state)
            # ONNX has the directions before the batch, and torch side by side.
            is_last = layer == layers - 1
            order = [2, 0, 1, 3] if batch_first and is_last else [0, 2, 1, 3]
            outputs = opset18.Transpose(outputs, perm=order)
            inputs = opset18.Reshape(outputs, [0, 0, directions * size])
        results = []
        for collected in last_states:
            results.append(_joined(collected))
        return (inputs, *results)

    return translate


def _tensors(cell: _Cell, weights: Sequence[Any], directions: int) -> list[Any]:
    """Put the weights of a layer, and its biases or None, into the ONNX order."""
    count = len(weights) // directions
    rows: list[list[Any]] = []
    for number in range(count):
        gates = []
        for direction in range(directions):
            gates.append(_gates(cell, weights[direction * count + number]))
        rows.append(gates)
    size = weights[1].shape[1] * len(cell.gates)
    tensors = []
    for weight, gates in zip(weights, rows[:2], strict=False):
        pieces = [piece for direction in gates for piece in direction]
        # Gradients need the shape, which -1 in it would hide.
        shape = [directions, size, weight.shape[1]]
        tensors.append(opset18.Reshape(_joined(pieces), shape))
    if count == 2:
        none = opset18.CastLike(0.0, weights[0])
        return [*tensors, opset18.Expand(none, [directions, 2 * size])]
    biases = []
    for direction in range(directions):
        biases += rows[2][direction] + rows[3][direction]
    return [*tensors, opset18.Reshape(_joined(biases), [directions, 2 * size])]


def _joined(pieces: Sequence[Any]) -> Any:
    if len(pieces) == 1:
        return pieces[0]
    return opset18.Concat(*pieces, axis=0)


def _gates(cell: _Cell, weight: Any) -> list[Any]:
    """Split the rows of a weight by gate, in the ONNX order.

    The exporter folds no Split, so that a weight keeps its name in the model; ONNX
    Runtime does it once.
    """
    if len(cell.gates) == 1:
        return [weight]
    pieces = opset18.Split(weight, num_outputs=len(cell.gates), axis=0)
    return [pieces[position] for position in cell.gates]
