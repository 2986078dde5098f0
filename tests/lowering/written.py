"""Twenty-two ops as people write them, of growing nastiness: by name, the class and the shapes of its inputs."""

from __future__ import annotations

import numpy as np

__all__ = ["OPS", "inputs"]

OPS: dict[str, tuple[str, list[tuple[int, ...]]]] = {
    "SoftClip": (
        """
        def __init__(self, lo: float = -0.5, hi: float = 0.5):
            self.lo, self.hi = lo, hi
        def compute(self, x):
            c, h = (self.lo + self.hi) / 2, (self.hi - self.lo) / 2
            return c + h * np.tanh((x - c) / h)
        """,
        [(4, 5)],
    ),
    "GroupNorm": (
        """
        def __init__(self, groups: int = 2, eps: float = 1e-5):
            self.groups, self.eps = groups, eps
        def compute(self, x: "float32[N,4,H,W]", scale: "float32[4]", bias: "float32[4]"):
            N, C = x.shape[:2]
            y = x.reshape(N, self.groups, -1)
            y = (y - y.mean(axis=-1, keepdims=True)) / np.sqrt(y.var(axis=-1, keepdims=True) + self.eps)
            return y.reshape(x.shape) * scale.reshape(1, C, 1, 1) + bias.reshape(1, C, 1, 1)
        """,
        [(2, 4, 3, 3), (4,), (4,)],
    ),
    "Pairwise": (
        """
        def compute(self, a: "float32[N,D]", b: "float32[M,D]"):
            return np.sqrt(np.maximum(((a[:, None, :] - b[None, :, :]) ** 2).sum(-1), 0))
        """,
        [(5, 3), (4, 3)],
    ),
    "UserRelu": ("def compute(self, x):\n    return (x > 0) * x", [(5,)]),
    "Multi1": (
        """
        def __init__(self, W1: int = 5, W2: int = 7, W3: int = 9):
            self.W1, self.W2, self.W3 = W1, W2, W3
        def compute(self, S, P):
            ret = S + P
            return ret + self.W1, ret + self.W2, ret + self.W3
        """,
        [(3, 2), (3, 2)],
    ),
    "Multi2": ("def compute(self, *a):\n    return sum(a[0:-1]), sum(a[1:])", [(3,), (3,), (3,)]),
    "SoftmaxTopK": (
        """
        def compute(self, x):
            e = np.exp(x - x.max(-1, keepdims=True))
            p = e / e.sum(-1, keepdims=True)
            return np.sort(p, axis=-1)[..., -2:]
        """,
        [(4, 6)],
    ),
    "NormEinsum": (
        """
        def compute(self, x: "float32[N,D]", w: "float32[M,D]"):
            return np.einsum('ij,kj->ik', x, w) / np.linalg.norm(x, axis=1, keepdims=True)
        """,
        [(4, 3), (5, 3)],
    ),
    "InPlace": (
        "def compute(self, x):\n    y = x.copy(); y[y < 0] = 0; y[:, 0] += 1\n    return y",
        [(4, 3)],
    ),
    "WhereClip": (
        "def compute(self, x):\n    return np.where(x > 0.3, np.clip(x, 0.1, 0.8), np.abs(x)) + np.sign(x)",
        [(4, 3)],
    ),
    "LoopPy": (
        "def compute(self, x):\n    s = np.zeros_like(x)\n    for i in range(3): s = s + x**i / (i + 1)\n    return s",
        [(4, 3)],
    ),
    "Branch": ("def compute(self, x):\n    if x.sum() > 0: return x * 2\n    return x", [(4, 3)]),
    "Inverse": ("def compute(self, x):\n    return np.linalg.inv(x) + x", [(3, 3)]),
    "CumsumRoll": (
        "def compute(self, x):\n    return np.cumsum(x, axis=1) - np.roll(x, 1, axis=1)",
        [(4, 3)],
    ),
    "ArgMax": (
        'def compute(self, x) -> "int64[N]":\n    return np.argmax(x, axis=1).astype(np.int64)',
        [(4, 3)],
    ),
    "ConcatStack": (
        "def compute(self, a, b):\n    return np.concatenate([a, b], 0), np.stack([a[0], b[0]])",
        [(4, 3), (4, 3)],
    ),
    "FloatMath": (
        """
        def compute(self, x):
            return (1 / (1 + np.exp(-x)) * np.log1p(np.abs(x)) - np.float32(0.5) * np.power(x, 2)).astype(np.float32)
        """,
        [(4, 3)],
    ),
    "ScipyErf": (
        """
        def compute(self, x):
            from scipy.special import erf
            return x * 0.5 * (1 + erf(x / np.sqrt(2)).astype(x.dtype))
        """,
        [(4, 3)],
    ),
    "Unique": (
        "def compute(self, x):\n    return np.unique(np.round(x)).astype(np.float32)",
        [(4, 3)],
    ),
    "PythonLoop": (
        "def compute(self, x):\n    return np.array([[float(v) * 2 for v in row] for row in x], dtype=np.float32)",
        [(4, 3)],
    ),
    "Iou": (
        """
        def compute(self, a: "float32[N,4]", b: "float32[M,4]"):
            lt = np.maximum(a[:, None, :2], b[None, :, :2]); rb = np.minimum(a[:, None, 2:], b[None, :, 2:])
            wh = np.clip(rb - lt, 0, None)
            i = wh[..., 0] * wh[..., 1]
            A = ((a[:, 2] - a[:, 0]) * (a[:, 3] - a[:, 1]))[:, None]
            B = ((b[:, 2] - b[:, 0]) * (b[:, 3] - b[:, 1]))[None]
            return i / (A + B - i)
        """,
        [(4, 4), (3, 4)],
    ),
    "Rfft": (
        "def compute(self, x):\n    return np.fft.rfft(x, axis=-1).real.astype(np.float32)",
        [(4, 8)],
    ),
}


def inputs(name: str) -> list[np.ndarray]:
    """Arrays for an op."""
    random = np.random.default_rng(0)
    return [random.normal(size=shape).astype(np.float32) for shape in OPS[name][1]]
