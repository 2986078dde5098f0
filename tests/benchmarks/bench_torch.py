"""``pyopnb.torch`` beside the exporter it stands on, and a filled op beside torch calling it eagerly.

Left out where torch or its exporter is not installed.
"""

from __future__ import annotations

import contextlib
import io
import warnings
from collections.abc import Iterator
from importlib.util import find_spec
from typing import Any

import numpy as np
from table import Row, beside, micro, timed

import pyopnb

EXPORT, FILLED = 1.3, 1.5
BLOCKS, SIZES = 6, (64, 256)


def rows() -> Iterator[Row]:
    missing = [name for name in ("torch", "onnxscript") if find_spec(name) is None]
    if missing:
        yield Row("pyopnb.torch", f"{' and '.join(missing)} not installed", "", None)
        return
    yield _export()
    yield from map(_filled, SIZES)


def _export() -> Row:
    import torch

    layers = [torch.nn.TransformerEncoderLayer(64, 4, 128, batch_first=True) for _ in range(BLOCKS)]
    module, args = torch.nn.Sequential(*layers).eval(), (torch.randn(2, 16, 64),)

    def theirs() -> Any:
        with contextlib.redirect_stdout(io.StringIO()), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return torch.onnx.export(module, args, dynamo=True, verbose=False)

    best = timed({"ours": lambda: pyopnb.torch.export(module, args), "theirs": theirs}, repeats=4)
    return beside(
        f"torch.export of {BLOCKS} transformer layers, nothing missing",
        best["ours"],
        best["theirs"],
        f"torch.onnx.export {torch.__version__}",
        EXPORT,
    )


def _filled(size: int) -> Row:
    """A filled op's run without the price of a node, which a run of an op that does nothing is, in calls of the torch op."""
    import torch

    class Inverse(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.linalg.inv(x)

    array = (np.random.default_rng(0).standard_normal((size, size)) + 4 * np.eye(size)).astype(
        np.float32
    )
    tensor = torch.from_numpy(array)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", pyopnb.torch.StandIns)
        filled = pyopnb.Session(pyopnb.torch.export(Inverse().eval(), (tensor,)))
    nothing = _node()
    calls = {
        "filled": lambda: filled(array),
        "node": lambda: nothing(array[:1, :1]),
        "eager": lambda: torch.linalg.inv(tensor),
    }
    with torch.inference_mode():
        best = timed(calls, repeats=30, loops=100 if size < 100 else 10)
    return beside(
        f"a filled linalg.inv of {size} × {size}, without the price of a node",
        best["filled"] - best["node"],
        best["eager"],
        f"eager, {micro(best['node'])} a node",
        FILLED,
        unit=micro,
    )


def _node() -> pyopnb.Session:
    @pyopnb.pyop("bench::Nothing")
    class Nothing:
        def compute(self, x: Any) -> Any:
            return x

    return pyopnb.Session(
        pyopnb.model(
            pyopnb.node("bench::Nothing", "x", "y"), {"x": "float32[N,M]"}, {"y": "float32[N,M]"}
        )
    )
