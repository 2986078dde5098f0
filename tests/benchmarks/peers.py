"""How other packages compare two arrays, as one call each."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Callable
from importlib.metadata import version
from importlib.util import find_spec

import numpy as np

__all__ = ["PEERS", "named"]

TOLERANCE = 1e-5
Call = Callable[[], object]


def _numpy(a: np.ndarray, b: np.ndarray) -> Call:
    return lambda: np.testing.assert_allclose(a, b, TOLERANCE, TOLERANCE)


def _torch(a: np.ndarray, b: np.ndarray) -> Call:
    import torch

    one, two = torch.from_numpy(a), torch.from_numpy(b)
    return lambda: torch.testing.assert_close(one, two, rtol=TOLERANCE, atol=TOLERANCE)


def _polygraphy(a: np.ndarray, b: np.ndarray) -> Call:
    from polygraphy.comparator import CompareFunc, IterationResult

    one, two = IterationResult(outputs={"y": a}), IterationResult(outputs={"y": b})

    def call() -> object:
        with contextlib.redirect_stdout(io.StringIO()):  # the figures are printed and not returned
            return CompareFunc.simple(rtol=TOLERANCE, atol=TOLERANCE)(one, two)

    return call


def _onnx_diagnostic(a: np.ndarray, b: np.ndarray) -> Call:
    from onnx_diagnostic.helpers import max_diff

    return lambda: max_diff(a, b)


PEERS: dict[str, tuple[str, Callable[[np.ndarray, np.ndarray], Call]]] = {
    "numpy": ("numpy.testing.assert_allclose", _numpy),
    "torch": ("torch.testing.assert_close, CPU", _torch),
    "polygraphy": ("polygraphy SimpleCompareFunc", _polygraphy),
    "onnx_diagnostic": ("onnx_diagnostic max_diff", _onnx_diagnostic),
}
"""The name of the function that is measured, and what makes a call of it, by package."""


def named(package: str) -> str:
    """The function's name and its package's version; or that it is not installed."""
    what = PEERS[package][0]
    return (
        f"{what} {version(package.replace('_', '-'))}"
        if find_spec(package)
        else f"{what}: not installed"
    )
