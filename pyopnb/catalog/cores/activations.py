"""Activations that NumPy lacks."""

from __future__ import annotations

import math

import numpy as np

__all__ = ["activate", "fast_gelu", "gelu", "gelu_slope"]

_erf = np.vectorize(math.erf, otypes=[np.float64])


def gelu(x: np.ndarray) -> np.ndarray:
    """Compute x · Φ(x), Φ being the normal distribution, in the dtype of x."""
    # numpy.vectorize cannot be called on nothing.
    if not x.size:
        return x.copy()
    result = 0.5 * x * (1 + _erf(x / math.sqrt(2)))
    return result.astype(x.dtype)


def fast_gelu(x: np.ndarray) -> np.ndarray:
    """Compute the approximation of `gelu` by tanh, in the dtype of x."""
    # The polynomial is Hendrycks and Gimpel's of 2016.
    cubic = x + 0.044715 * x**3
    inner = math.sqrt(2 / math.pi) * cubic
    result = 0.5 * x * (1 + np.tanh(inner))
    return result.astype(x.dtype)


def gelu_slope(x: np.ndarray) -> np.ndarray:
    """Compute the derivative of `gelu`, in the dtype of x."""
    if not x.size:
        return x.copy()
    normal = 0.5 * (1 + _erf(x / math.sqrt(2)))
    density = -0.5 * x.astype(np.float64) ** 2
    density = np.exp(density)
    density = density / math.sqrt(2 * math.pi)
    result = normal + x * density
    return result.astype(x.dtype)


def activate(
    name: str, x: np.ndarray, alpha: float, beta: float, gamma: float, axis: int
) -> np.ndarray:
    """Apply an activation that ONNX Runtime fuses into a product.

    Raises
    ------
    ValueError
        There is no such activation.
    """
    if name == "Relu":
        return np.maximum(x, 0)
    if name == "LeakyRelu":
        return np.where(x < 0, alpha * x, x)
    if name == "Sigmoid":
        return 1 / (1 + np.exp(-x))
    if name == "Tanh":
        return np.tanh(x)
    if name == "ScaledTanh":
        return alpha * np.tanh(beta * x)
    if name == "Elu":
        return np.where(x < 0, alpha * np.expm1(x), x)
    if name == "Selu":
        return gamma * np.where(x < 0, alpha * np.expm1(x), x)
    if name == "Softplus":
        return np.logaddexp(x, 0)
    if name == "HardSigmoid":
        result = alpha * x + beta
        return result.clip(0, 1)
    if name == "Softmax":
        exponentials = x - x.max(axis=axis, keepdims=True)
        exponentials = np.exp(exponentials)
        return exponentials / exponentials.sum(axis=axis, keepdims=True)
    raise ValueError(f"activation: expected one that pyopnb's catalog knows, got {name!r}")
