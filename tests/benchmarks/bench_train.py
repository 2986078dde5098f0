"""The cost of training: 60 Adam steps of a net on digits beside eager torch, and a step beside the bare run of its graph."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import onnxruntime
from table import Row, micro, milli, timed

import pyopnb
from pyopnb.training import Adam

try:
    import torch
except ModuleNotFoundError:  # the row is there without its ratio
    torch = None

_STEPS, _BATCH, _RATE = 60, 64, 1e-3
_BAR = 200e-6  # seconds that a step may cost more than the run of its graph


def _weights() -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    shapes = {
        "k1": (16, 1, 3, 3),
        "c1": (16,),
        "k2": (32, 16, 3, 3),
        "c2": (32,),
        "w": (10, 128),
        "b": (10,),
    }
    return {
        name: (rng.standard_normal(shape) / np.sqrt(np.prod(shape[1:]))).astype(np.float32)
        for name, shape in shapes.items()
    }


def _model() -> object:
    node, pool = pyopnb.node, {"kernel_shape": [2, 2], "strides": [2, 2]}
    nodes = [
        node("Conv", "x k1 c1", "h1", pads=[1, 1, 1, 1]),
        node("Relu", "h1", "a1"),
        node("MaxPool", "a1", "p1", **pool),
        node("Conv", "p1 k2 c2", "h2", pads=[1, 1, 1, 1]),
        node("Relu", "h2", "a2"),
        node("MaxPool", "a2", "p2", **pool),
        node("Flatten", "p2", "f"),
        node("Gemm", "f w b", "y", transB=1),
    ]
    return pyopnb.model(
        nodes, {"x": "float32[N,1,8,8]"}, {"y": "float32[N,10]"}, initializers=_weights(), opset=21
    )


def _torch_steps(data: dict[str, np.ndarray]) -> Callable[[], None]:
    from torch.nn import functional

    weights = {name: torch.tensor(value, requires_grad=True) for name, value in _weights().items()}
    optimizer = torch.optim.Adam(weights.values(), _RATE)
    x, labels = torch.tensor(data["x"]), torch.tensor(data["labels"])

    def run() -> None:
        for k in range(_STEPS):
            part = slice(k * _BATCH, (k + 1) * _BATCH)
            optimizer.zero_grad()
            y = x[part]
            for kernel, bias in (("k1", "c1"), ("k2", "c2")):
                y = functional.max_pool2d(
                    functional.relu(
                        functional.conv2d(y, weights[kernel], weights[bias], padding=1)
                    ),
                    2,
                )
            y = functional.linear(y.flatten(1), weights["w"], weights["b"])
            functional.cross_entropy(y, labels[part]).backward()
            optimizer.step()

    return run


def _bare_run(training: object, feeds: dict[str, np.ndarray]) -> Callable[[], None]:
    """A run of the graph of a step, its inputs and outputs bound once."""
    recurrent = training._session
    binding = recurrent.session.io_binding()
    for name, value in {**recurrent.state, **feeds}.items():
        binding.bind_ortvalue_input(name, onnxruntime.OrtValue.ortvalue_from_numpy(value))
    for meta in recurrent.session.get_outputs():
        binding.bind_output(meta.name)
    return lambda: recurrent.session.run_with_iobinding(binding)


def rows() -> Iterator[Row]:
    rng = np.random.default_rng(0)
    data = {
        "x": rng.random((_STEPS * _BATCH, 1, 8, 8)).astype(np.float32),
        "labels": rng.integers(0, 10, _STEPS * _BATCH),
    }
    arguments = {"batch_size": _BATCH, "optimizer": Adam(_RATE), "seed": None, "progress": False}
    training = pyopnb.train(_model(), data, **arguments)
    calls: dict[str, Callable[[], object]] = {"ours": lambda: training.resume(1)}
    if torch is not None:
        calls["torch"] = _torch_steps(data)
    best = timed(calls, 5)
    peer = f"{milli(best['torch'])} in eager torch" if torch else "no torch"
    yield Row(
        "60 Adam steps of a net on digits",
        milli(best["ours"]),
        peer,
        best["ours"] / best["torch"] if torch else None,
        1.5,
    )
    # A small net, whose run hides nothing.
    x = np.linspace(-1, 1, 64, dtype=np.float32)[:, None]
    node = pyopnb.node("Gemm", "x w b", "y")
    weights = {"w": np.ones((1, 1), np.float32), "b": np.ones(1, np.float32)}
    small = pyopnb.model(node, {"x": "float32[N,1]"}, "y", initializers=weights)
    feeds = {"x": x, "target": x}
    training = pyopnb.train(small, [feeds] * 500, loss="mse", seed=None, progress=False)
    bare = _bare_run(training, feeds)
    best = timed(
        {"bare": lambda: [bare() for _ in range(500)], "step": lambda: training.resume(1)}, 7
    )
    cost = (best["step"] - best["bare"]) / 500
    yield Row(
        "a step, beyond the run of its graph",
        micro(cost),
        f"{micro(best['bare'] / 500)} for the run",
        cost / _BAR,
        1.0,
    )
