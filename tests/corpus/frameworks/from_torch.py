"""Small networks from the two torch exporters."""

from __future__ import annotations

import io
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
import torch
from entries import entry
from onnx import ModelProto
from torch import Tensor, nn
from torch.nn import functional

Made = tuple[ModelProto, dict[str, Any]]
Network = Callable[[], tuple[nn.Module, tuple[Tensor, ...]]]


class Function(nn.Module):
    """A network whose forward pass is a function of the inputs and of some modules."""

    def __init__(self, forward: Callable[..., Any], **modules: nn.Module) -> None:
        super().__init__()
        self.parts = nn.ModuleDict(modules)
        self._forward = forward

    def forward(self, *inputs: Tensor) -> Any:
        return self._forward(*inputs, **dict(self.parts.items()))


def _perceptron() -> Any:
    return nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 3), nn.Softmax(-1)), (
        torch.randn(2, 6),
    )


def _convolutions() -> Any:
    layers = [
        nn.Conv2d(3, 4, 3, padding=1),
        nn.BatchNorm2d(4),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(64, 5),
    ]
    return nn.Sequential(*layers), (torch.randn(1, 3, 8, 8),)


def _residual() -> Any:
    def forward(x: Tensor, first: nn.Module, second: nn.Module, norm: nn.Module) -> Tensor:
        return functional.adaptive_avg_pool2d(
            functional.relu(x + norm(second(functional.relu(first(x))))), 1
        ).flatten(1)

    parts = {
        "first": nn.Conv2d(4, 4, 3, padding=1),
        "second": nn.Conv2d(4, 4, 3, padding=1),
        "norm": nn.BatchNorm2d(4),
    }
    return Function(forward, **parts), (torch.randn(2, 4, 6, 6),)


def _depthwise() -> Any:
    layers = [
        nn.Conv2d(4, 8, 1),
        nn.Hardswish(),
        nn.Conv2d(8, 8, 3, groups=8, padding=1),
        nn.Hardsigmoid(),
        nn.Conv2d(8, 4, 1),
    ]
    return nn.Sequential(*layers), (torch.randn(1, 4, 6, 6),)


def _lstm() -> Any:
    return Function(lambda x, lstm: lstm(x)[0], lstm=nn.LSTM(5, 4, bidirectional=True)), (
        torch.randn(3, 2, 5),
    )


def _gru() -> Any:
    return Function(lambda x, gru: gru(x)[0], gru=nn.GRU(5, 4)), (torch.randn(3, 2, 5),)


def _encoder() -> Any:
    return nn.TransformerEncoderLayer(8, 2, 16, batch_first=True, activation="gelu"), (
        torch.randn(2, 5, 8),
    )


def _attention() -> Any:
    def forward(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return functional.scaled_dot_product_attention(q, k, v)

    return Function(forward), tuple(torch.randn(1, 2, 5, 4) for _ in range(3))


def _norms() -> Any:
    layers = [nn.LayerNorm([4, 6]), nn.GroupNorm(2, 4), nn.InstanceNorm1d(4, affine=True)]
    return nn.Sequential(*layers), (torch.randn(2, 4, 6),)


def _embedding() -> Any:
    def forward(ids: Tensor, table: nn.Module, linear: nn.Module) -> Tensor:
        return linear(table(ids).mean(1)).tanh()

    return Function(forward, table=nn.Embedding(20, 6), linear=nn.Linear(6, 3)), (
        torch.randint(0, 20, (2, 7)),
    )


def _unet() -> Any:
    def forward(x: Tensor, down: nn.Module, up: nn.Module, last: nn.Module) -> Tensor:
        return last(torch.cat([x, up(functional.gelu(down(x)))], 1)).sigmoid()

    parts = {
        "down": nn.Conv2d(2, 4, 3, 2, 1),
        "up": nn.ConvTranspose2d(4, 4, 2, 2),
        "last": nn.Conv2d(6, 1, 1),
    }
    return Function(forward, **parts), (torch.randn(1, 2, 8, 8),)


def _upsampling() -> Any:
    layers = [
        nn.Conv2d(3, 8, 3, padding=1),
        nn.PixelShuffle(2),
        nn.Upsample(scale_factor=2, mode="nearest"),
        nn.PReLU(),
    ]
    return nn.Sequential(*layers), (torch.randn(1, 3, 4, 4),)


def _autoencoder() -> Any:
    layers = [nn.Linear(8, 3), nn.ELU(), nn.Linear(3, 8), nn.Softplus(), nn.LogSoftmax(-1)]
    return nn.Sequential(*layers), (torch.randn(3, 8),)


def _einsum() -> Any:
    def forward(a: Tensor, b: Tensor, linear: nn.Module) -> Tensor:
        return torch.einsum("bij,bjk->bik", linear(a), b).clamp(-1, 1)

    return Function(forward, linear=nn.Linear(4, 4)), (torch.randn(2, 3, 4), torch.randn(2, 4, 2))


def _selection() -> Any:
    def forward(x: Tensor, linear: nn.Module) -> Any:
        values, places = linear(x).topk(3)
        return values, places, values.cumsum(-1)

    return Function(forward, linear=nn.Linear(6, 6)), (torch.randn(2, 6),)


def _gather() -> Any:
    def forward(x: Tensor, places: Tensor, linear: nn.Module) -> Tensor:
        return torch.zeros_like(x).scatter_add(1, places, linear(x).gather(1, places))

    return Function(forward, linear=nn.Linear(5, 5)), (
        torch.randn(2, 5),
        torch.tensor([[0, 1, 4], [3, 3, 2]]),
    )


def _padding() -> Any:
    def forward(x: Tensor, conv: nn.Module) -> Tensor:
        return torch.where(x > 0, conv(functional.pad(x, (1, 1), mode="reflect")), x.roll(1, -1))

    return Function(forward, conv=nn.Conv1d(2, 2, 3)), (torch.randn(1, 2, 9),)


def _squeezed() -> Any:
    def forward(x: Tensor, small: nn.Module, large: nn.Module) -> Tensor:
        return x * large(functional.silu(small(x.mean((2, 3))))).sigmoid()[:, :, None, None]

    return Function(forward, small=nn.Linear(4, 2), large=nn.Linear(2, 4)), (
        torch.randn(2, 4, 3, 3),
    )


def _statistics() -> Any:
    def forward(x: Tensor, linear: nn.Module) -> Any:
        y = linear(x)
        return y.std(-1), y.norm(dim=-1), y.argmax(-1), y.amin(-1)

    return Function(forward, linear=nn.Linear(6, 6)), (torch.randn(3, 6),)


def _positions() -> Any:
    def forward(x: Tensor, linear: nn.Module) -> Tensor:
        angles = torch.arange(x.shape[1])[:, None] / 10 ** torch.arange(4)
        return linear(x + torch.cat([angles.sin(), angles.cos()], -1))

    return Function(forward, linear=nn.Linear(8, 8)), (torch.randn(2, 5, 8),)


_NETWORKS: dict[str, Network] = {
    "perceptron": _perceptron,
    "convolutions": _convolutions,
    "residual": _residual,
    "depthwise": _depthwise,
    "LSTM": _lstm,
    "GRU": _gru,
    "transformer encoder": _encoder,
    "attention": _attention,
    "norms": _norms,
    "embedding": _embedding,
    "U-Net": _unet,
    "upsampling": _upsampling,
    "autoencoder": _autoencoder,
    "einsum": _einsum,
    "selection": _selection,
    "gather": _gather,
    "padding": _padding,
    "squeeze and excite": _squeezed,
    "statistics": _statistics,
    "positions": _positions,
}
_TORCHSCRIPT = [
    "perceptron",
    "convolutions",
    "residual",
    "LSTM",
    "GRU",
    "norms",
    "U-Net",
    "upsampling",
    "selection",
]


def _network(name: str) -> tuple[nn.Module, tuple[Tensor, ...]]:
    torch.manual_seed(0)
    module, inputs = _NETWORKS[name]()
    for part in module.modules():
        if isinstance(part, (nn.BatchNorm2d, nn.InstanceNorm1d)) and part.running_var is not None:
            part.running_var.uniform_(0.5, 2)  # a fresh one divides by 1
    return module.eval(), inputs


def _exported(name: str, *, new: bool) -> Made:
    module, inputs = _network(name)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # each exporter warns of itself
        if new:
            program = torch.onnx.export(module, inputs, dynamo=True, verbose=False)
            assert program is not None
            model = program.model_proto
        else:
            file = io.BytesIO()
            torch.onnx.export(module, inputs, file, dynamo=False)
            model = onnx.load_from_string(file.getvalue())
    held = {tensor.name for tensor in model.graph.initializer}
    names = [value.name for value in model.graph.input if value.name not in held]
    return model, {
        name: np.ascontiguousarray(value.numpy()) for name, value in zip(names, inputs, strict=True)
    }


def _enter() -> None:
    for name in _NETWORKS:
        entry(f"torch {name}")(lambda name=name: _exported(name, new=True))
    for name in _TORCHSCRIPT:
        entry(f"torchscript {name}")(lambda name=name: _exported(name, new=False))


_enter()
