"""Formulas that public repositories calculate with NumPy, written anew: 400 bodies to be lowered in all dtypes.

Each line is a body of ``x`` and ``y``, two arrays of one shape; steps are divided by ``;``, and the last one is the result.
``# cancels``: what a function of the runtime rounds otherwise than NumPy's is subtracted, and judged beside the largest number.
``python harvest.py`` prints what became of them.
"""

from __future__ import annotations

import numpy as np
from judge import FLOATS, INTEGERS, Tally, nasty, run_body

__all__ = ["BODIES", "run_harvest"]

_SIGMOID = "s = 1 / (1 + np.exp(-x))"
_SOFTMAX = "e = np.exp(x - x.max(-1, keepdims=True)); p = e / e.sum(-1, keepdims=True)"

_ACTIVATIONS = f"""
np.maximum(x, 0)
np.minimum(np.maximum(x, 0), 6)
np.where(x > 0, x, 0.01 * x)
np.where(x >= 0, x, 0.25 * x)
np.where(x > 0, x, np.exp(np.minimum(x, 0)) - 1)
np.where(x > 0, x, np.expm1(np.minimum(x, 0)))
1.0507009873554805 * np.where(x > 0, x, 1.6732632423543772 * (np.exp(np.minimum(x, 0)) - 1))
np.maximum(0, x) + np.minimum(0, 1.3 * np.expm1(x / 1.3))
{_SIGMOID}; s
{_SIGMOID}; x * s
{_SIGMOID}; s * (1 - s)
{_SIGMOID}; s * (1 + x * (1 - s))
np.where(x >= 0, 1 / (1 + np.exp(-np.abs(x))), np.exp(-np.abs(x)) / (1 + np.exp(-np.abs(x))))
np.tanh(x)
1 - np.tanh(x) ** 2  # cancels
np.clip(x, -1, 1)
np.clip(x + 3, 0, 6) / 6
x * np.clip(x + 3, 0, 6) / 6
np.clip(0.2 * x + 0.5, 0, 1)
np.log1p(np.exp(x))
np.maximum(x, 0) + np.log1p(np.exp(-np.abs(x)))
np.log(1 + np.exp(x))
np.logaddexp(x, 0)
-np.logaddexp(0, -x)
x * np.tanh(np.log1p(np.exp(x)))
x * np.tanh(np.logaddexp(0, x))
x / (1 + np.abs(x))
1 / (1 + np.abs(x)) ** 2
0.5 * x * (1 + np.tanh(0.7978845608028654 * (x + 0.044715 * x**3)))  # cancels
0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * np.power(x, 3))))  # cancels
x / (1 + np.exp(-1.702 * x))
x - np.tanh(x)  # cancels
np.sign(x) * np.maximum(np.abs(x) - 0.5, 0)
np.where(np.abs(x) > 0.5, x, 0)
np.where(x > 1.0, x, 0)
np.exp(-x * x)
np.exp(-np.square(x) / 2) / np.sqrt(2 * np.pi)
x * np.exp(-x * x)
(x > 0).astype(np.float32)
np.where(x > 0, 1, -1)
np.sign(x)
np.cos(x) - x  # cancels
np.sin(x) + x
x + np.sin(2 * x) ** 2 / 2
np.log(np.cosh(np.clip(x, -10, 10)))
(x + np.sqrt(x * x + 1)) / 2
np.sqrt(x * x + 1) - 1
x / np.sqrt(1 + x * x)
np.where(x < 0, x / np.sqrt(1 + x * x), x)
np.maximum(x, 0) ** 2
np.cbrt(x)
np.maximum(x, y)
x * (1 / (1 + np.exp(-y)))
np.tanh(x) * (1 / (1 + np.exp(-y)))
{_SOFTMAX}; p
{_SOFTMAX}; np.log(p)
m = x.max(-1, keepdims=True); x - m - np.log(np.exp(x - m).sum(-1, keepdims=True))
{_SOFTMAX}; p * (1 - p)
m = x.max(axis=0); e = np.exp(x - m); e / e.sum(axis=0)
e = np.exp(x / 0.7); e / np.sum(e, axis=1, keepdims=True)
m = x.max(1, keepdims=True); (x == m).astype(np.float32)
s = np.sort(x, -1)[..., ::-1]; c = np.cumsum(s, -1); (1 + s * np.arange(1, x.shape[1] + 1) > c).sum(-1)
"""

_LOSSES = f"""
((x - y) ** 2).mean()
((x - y) ** 2).sum(axis=1)
np.abs(x - y).mean()
np.sqrt(np.mean(np.square(x - y)))
np.mean(np.abs((x - y) / np.maximum(np.abs(y), 1e-8)))
100 * np.mean(2 * np.abs(x - y) / (np.abs(x) + np.abs(y) + 1e-8))
np.mean((np.log1p(np.abs(x)) - np.log1p(np.abs(y))) ** 2)
d = np.abs(x - y); np.where(d < 1, 0.5 * d * d, d - 0.5)
d = np.abs(x - y); np.where(d <= 0.3, 0.5 * d**2, 0.3 * (d - 0.15)).mean()
d = x - y; np.log(np.cosh(np.clip(d, -20, 20))).mean()
d = x - y; (d + np.log1p(np.exp(-2 * d)) - np.log(2.0)).mean()
d = y - x; np.maximum(0.9 * d, -0.1 * d).mean()
np.maximum(0, 1 - x * y).mean()
np.maximum(0, 1 - x * y) ** 2
np.log1p(np.exp(-x * y)).mean()
np.maximum(x, 0) - x * y + np.log1p(np.exp(-np.abs(x)))
p = np.clip(x, 1e-7, 1 - 1e-7); -(y * np.log(p) + (1 - y) * np.log(1 - p)).mean()
p = np.clip(x, 1e-7, 1 - 1e-7); -(y * np.log(p) + (1 - y) * np.log1p(-p))
p = np.clip(x, 1e-6, 1 - 1e-6); -0.25 * (1 - p) ** 2 * np.log(p)
p = np.clip(x, 1e-6, 1 - 1e-6); np.where(y == 1, -np.log(p), -np.log(1 - p)).sum()
{_SIGMOID}; t = y * s + (1 - y) * (1 - s); -((1 - t) ** 2) * np.log(t + 1e-8)
{_SOFTMAX}; -(y * np.log(p + 1e-9)).sum(-1)
{_SOFTMAX}; -np.log(p[:, 0] + 1e-9).mean()
m = x.max(-1, keepdims=True); -(x[:, 0] - m[:, 0] - np.log(np.exp(x - m).sum(-1)))
p = np.abs(x) + 1e-6; q = np.abs(y) + 1e-6; (p * np.log(p / q)).sum(-1)
p = np.abs(x) + 1e-6; q = np.abs(y) + 1e-6; m = (p + q) / 2; (p * np.log(p / m) + q * np.log(q / m)).sum() / 2
p = np.abs(x) + 1e-9; -(p * np.log(p)).sum(-1)
p = np.clip(x, 1e-12, 1); -(p * np.log2(p)).sum(axis=1)
x - y * np.log(np.maximum(x, 1e-8))
np.exp(x) - y * x
0.5 * (np.log(np.maximum(x * x, 1e-6)) + y * y / np.maximum(x * x, 1e-6))
-0.5 * (1 + x - y * y - np.exp(x)).sum(-1)
1 - 2 * (x * y).sum() / (x.sum() + y.sum() + 1e-6)
1 - (2 * (x * y).sum() + 1) / ((x * x).sum() + (y * y).sum() + 1)
1 - ((x * y).sum() + 1) / ((x + y - x * y).sum() + 1)
t = (x * y).sum(); 1 - t / (t + 0.3 * (x * (1 - y)).sum() + 0.7 * ((1 - x) * y).sum() + 1e-6)
1 - (x * y).sum(-1) / (np.linalg.norm(x, axis=-1) * np.linalg.norm(y, axis=-1) + 1e-8)
d = np.sqrt(((x - y) ** 2).sum(-1) + 1e-12); np.maximum(0, 1 - d) ** 2
np.maximum(0, (x * x).sum(-1) - (y * y).sum(-1) + 0.2)
np.maximum(0, -np.sign(y) * (x - y) + 0.1).mean()
np.maximum(0, 1 + x[:, 1:] - x[:, :1]).sum(-1)
d = x[:, None] - y[None]; (d * d).sum(-1).min(1)
np.abs(x).sum() * 1e-4
np.square(x).sum() * 0.5
np.sqrt((x * x).sum(0)).sum()
np.abs(np.diff(x, axis=0)).sum() + np.abs(np.diff(x, axis=1)).sum()
np.mean((x - x.mean(0)) * (y - y.mean(0)))
r = x - y; r * r / (r * r + 1)
r = x - y; np.log1p(r * r / 2)
r = x - y; np.where(np.abs(r) < 4.685, (1 - (r / 4.685) ** 2) ** 2, 0)
r = x - y; 1 / np.maximum(np.abs(r), 1e-6)
np.mean(np.where(x > y, x - y, 2 * (y - x)))
((x > 0) == (y > 0)).mean()
(np.argmax(x, 1) == np.argmax(y, 1)).mean()
(np.round(x) == np.round(y)).sum()
"""

_IMAGES = """
x / 255
x / 127.5 - 1
(x - 0.485) / 0.229
np.clip(x, 0, 255).astype(np.uint8)
np.clip(x * 1.2 + 10, 0, 255)
np.clip(np.round(x * 255), 0, 255).astype(np.uint8)
255 - x
1 - x
~x
x > 127
(x > 127) * 255
np.where(x >= 128, 255, 0).astype(np.uint8)
np.where(x > x.mean(), 1, 0)
(x - x.min()) / (x.max() - x.min() + 1e-8)
(x - x.mean()) / (x.std() + 1e-7)
255 * (x - x.min()) / np.maximum(x.max() - x.min(), 1)
np.abs(x) ** (1 / 2.2)
255 * (np.abs(x) / 255) ** 0.5
np.where(x <= 0.0031308, 12.92 * x, 1.055 * np.maximum(x, 0.0031308) ** (1 / 2.4) - 0.055)
np.where(x <= 0.04045, x / 12.92, ((np.maximum(x, 0.04045) + 0.055) / 1.055) ** 2.4)
np.log1p(np.abs(x)) / np.log(2)
np.log(np.abs(x) + 1) * 45.98
1 / (1 + np.exp(10 * (0.5 - x)))
0.299 * x[:, 0] + 0.587 * x[:, 1] + 0.114 * x[:, 2]
0.2126 * x[:, 0] + 0.7152 * x[:, 1] + 0.0722 * x[:, 2]
x[:, :3] @ np.array([[0.299, -0.169, 0.5], [0.587, -0.331, -0.419], [0.114, 0.5, -0.081]])
x[:, [2, 1, 0]]
x[::-1]
x[:, ::-1]
np.rot90(x)
x.T
x[::2, ::2]
np.repeat(np.repeat(x, 2, 0), 2, 1)
np.tile(x, (2, 2))
np.pad(x, 1)
np.pad(x, 1, mode="edge")
np.pad(x, ((1, 1), (2, 0)), constant_values=5)
p = np.pad(x, 1); p[:-2, 1:-1] + p[2:, 1:-1] + p[1:-1, :-2] + p[1:-1, 2:] - 4 * x
p = np.pad(x, 1, mode="edge"); (p[:-2] + 2 * p[1:-1] + p[2:])[:, 1:-1] / 4
p = np.pad(x, 1, mode="edge"); p[1:-1, 2:] - p[1:-1, :-2]
gx = x[:, 2:] - x[:, :-2]; gy = x[2:, :] - x[:-2, :]; np.sqrt(gx[1:-1] ** 2 + gy[:, 1:-1] ** 2)
gx = x[1:-1, 2:] - x[1:-1, :-2]; gy = x[2:, 1:-1] - x[:-2, 1:-1]; np.hypot(gx, gy)
x[1:, 1:] - x[:-1, :-1]
np.maximum(np.maximum(x[:-1, :-1], x[1:, :-1]), np.maximum(x[:-1, 1:], x[1:, 1:]))
(x[:-1, :-1] + x[1:, :-1] + x[:-1, 1:] + x[1:, 1:]) / 4
10 * np.log10(255.0**2 / np.maximum(((x - y) ** 2).mean(), 1e-10))
20 * np.log10(1.0 / np.sqrt(((x - y) ** 2).mean() + 1e-12))
a = x.mean(); b = y.mean(); (2 * a * b + 1e-4) / (a * a + b * b + 1e-4)
0.6 * x + 0.4 * y
np.where(y > 0, x, 0)
x * y / 255
255 - (255 - x) * (255 - y) / 255
np.where(x < 128, 2 * x * y / 255, 255 - 2 * (255 - x) * (255 - y) / 255)
np.abs(x - y)
np.bitwise_and(x, y)
np.bitwise_or(x, 1)
(x >> 4) << 4
x & 15
x // 32 * 32
np.floor(x / 32) * 32
(x ^ y) & 1
np.cumsum(np.cumsum(x, 0), 1)
x.sum(0)
x.sum(1)
x.mean((0, 1))
x.max() - x.min()
(x > 0).any(0)
(x[:, None] == np.arange(4)[:, None]).sum((0, 2))
np.percentile(x, 2)
lo = np.percentile(x, 5); hi = np.percentile(x, 95); np.clip((x - lo) / np.maximum(hi - lo, 1e-6), 0, 1)
np.median(x, axis=0)
np.sort(x, axis=None)[-3:]
mx = x.max(1); mn = x.min(1); (mx - mn) / np.maximum(mx, 1e-8)
"""

_SIGNALS = """
np.diff(x)
np.diff(x, n=2)
x[:, 1:] - 0.97 * x[:, :-1]
np.cumsum(x, 1)
np.cumsum(x, 1) / np.arange(1, x.shape[1] + 1)
c = np.cumsum(x, 1); c[:, 2:] - c[:, :-2]
(x[:, 2:] + x[:, 1:-1] + x[:, :-2]) / 3
np.mean(x * x, axis=1)
np.sqrt(np.mean(x**2, axis=1))
20 * np.log10(np.sqrt(np.mean(x**2, axis=1)) + 1e-10)
10 * np.log10(np.maximum(x * x, 1e-10))
10 ** (x / 20)
10 ** (x / 10)
np.abs(x).max(1)
np.abs(x).max(1) / (np.sqrt((x * x).mean(1)) + 1e-9)
(np.sign(x[:, 1:]) != np.sign(x[:, :-1])).sum(1)
np.abs(np.diff(np.sign(x))).sum(1) / 2
np.sign(x) * np.log1p(255 * np.abs(x)) / np.log1p(255)
np.sign(x) * ((1 + 255.0) ** np.abs(np.clip(x, -1, 1)) - 1) / 255
2595 * np.log10(1 + np.abs(x) / 700)
700 * (10 ** (x / 2595) - 1)
12 * np.log2(np.maximum(x, 1e-3) / 440) + 69
440 * 2 ** ((x - 69) / 12)
6 * np.arcsinh(x / 600)
13 * np.arctan(0.00076 * x) + 3.5 * np.arctan((x / 7500) ** 2)
x * np.hanning(5)[: x.shape[1]].sum()
n = x.shape[1]; x * (0.5 - 0.5 * np.cos(2 * np.pi * np.arange(n) / n))
n = x.shape[1]; x * (0.54 - 0.46 * np.cos(2 * np.pi * np.arange(n) / (n + 1)))
n = x.shape[1]; t = 2 * np.pi * np.arange(n) / n; x * (0.42 - 0.5 * np.cos(t) + 0.08 * np.cos(2 * t))
n = x.shape[1]; x * np.sin(np.pi * (np.arange(n) + 0.5) / n)
n = x.shape[1]; k = np.arange(n); x @ np.cos(2 * np.pi * k[:, None] * k / n)  # cancels
n = x.shape[1]; k = np.arange(n); -(x @ np.sin(2 * np.pi * k[:, None] * k / n))  # cancels
n = x.shape[1]; k = np.arange(n); x @ np.cos(np.pi * (2 * k[:, None] + 1) * k / (2 * n))  # cancels
n = x.shape[1]; k = np.arange(n); c = np.cos(6.283185307179586 * np.outer(k, k) / n); (x @ c) ** 2  # cancels
(x[:, 1:] * x[:, :-1]).sum(1)
(x * np.roll(x, 1, 1)).sum(1)
(x * y).sum(1) / np.sqrt((x * x).sum(1) * (y * y).sum(1) + 1e-9)
10 * np.log10((x * x).sum() / (((x - y) ** 2).sum() + 1e-9) + 1e-9)
x - x.mean(1, keepdims=True)
x / (np.abs(x).max() + 1e-9)
(x - np.median(x)) / (np.median(np.abs(x - np.median(x))) * 1.4826 + 1e-9)
np.where(np.abs(x) > 3 * x.std(), 0, x)
np.maximum(x, -np.abs(y))
np.sinc(x)
np.where(x == 0, 1, np.sin(np.pi * x) / np.where(x == 0, 1, np.pi * x))
np.clip(x, -1, 1) - np.clip(x, -1, 1) ** 3 / 3
np.round(x * 32767).clip(-32768, 32767).astype(np.int16)
x.astype(np.float32) / 32768
np.clip(x, -128, 127).astype(np.int8)
np.round(x / 0.05).clip(-127, 127)
(x - 3) * 0.1
(x.astype(np.int32) - 128) * 0.02
np.floor(x / 2 + 0.5)
np.exp(-np.arange(x.shape[1]) / 3) * x
np.stack([x[:, :-2], x[:, 1:-1], x[:, 2:]], -1).max(-1)
np.arctan2(x, y)
np.mod(x + np.pi, 2 * np.pi) - np.pi
(x + 180) % 360 - 180
np.abs((x - y + 180) % 360 - 180)
(x * 7 + 3) % 5
"""

_GEOMETRY = """
np.deg2rad(x)
np.rad2deg(x)
np.sqrt(((x - y) ** 2).sum(-1))
np.linalg.norm(x - y, axis=1)
np.abs(x - y).sum(-1)
np.abs(x - y).max(-1)
(np.abs(x - y) ** 3).sum(-1) ** (1 / 3)
np.sqrt(((x[:, None] - y[None]) ** 2).sum(-1))
(x * x).sum(1)[:, None] + (y * y).sum(1) - 2 * x @ y.T
np.abs(x[:, None] - y[None]).sum(-1)
(np.abs(x - y) / (np.abs(x) + np.abs(y) + 1e-9)).sum(-1)
np.abs(x - y).sum(-1) / (np.abs(x + y).sum(-1) + 1e-9)
(x != y).mean(-1)
((x > 0) & (y > 0)).sum(-1) / np.maximum(((x > 0) | (y > 0)).sum(-1), 1)
1 - (x * y).sum(-1) / np.sqrt((x * x).sum(-1) * (y * y).sum(-1) + 1e-9)
np.arccos(np.clip((x * y).sum(-1) / (np.linalg.norm(x, axis=-1) * np.linalg.norm(y, axis=-1) + 1e-9), -1, 1))
x / (np.linalg.norm(x, axis=-1, keepdims=True) + 1e-9)
x / np.maximum(np.sqrt((x * x).sum(-1, keepdims=True)), 1e-12)
x[:, 0] * y[:, 1] - x[:, 1] * y[:, 0]
np.stack([x[:, 1] * y[:, 2] - x[:, 2] * y[:, 1], x[:, 2] * y[:, 0] - x[:, 0] * y[:, 2]], -1)
0.5 * np.abs(x[:, 0] * y[:, 1] - x[:, 1] * y[:, 0])
0.5 * np.abs((x[:, 0] * np.roll(x[:, 1], 1) - x[:, 1] * np.roll(x[:, 0], 1)).sum())
x.mean(0)
(x - x.mean(0)).T @ (x - x.mean(0))
np.stack([np.cos(x[:, 0]), -np.sin(x[:, 0]), np.sin(x[:, 0]), np.cos(x[:, 0])], -1).reshape(-1, 2, 2)
c = np.cos(x); s = np.sin(x); np.stack([c * y - s, s * y + c])
w = x[:, 0]; v = x[:, 1:4]; 1 - 2 * (v * v).sum(-1) + w
np.concatenate([x, np.ones((x.shape[0], 1))], 1)
x[:, :2] / np.where(np.abs(x[:, 2:3]) < 1e-9, 1e-9, x[:, 2:3])
x[:, 0] * np.sin(x[:, 1]) * np.cos(x[:, 2])
np.arctan(x / np.where(y == 0, 1e-9, y))
a = np.sin(x / 2) ** 2 + np.cos(x) * np.cos(y) * np.sin(y / 2) ** 2; 12742 * np.arcsin(np.sqrt(np.clip(a, 0, 1)))
np.arcsinh(np.tan(np.clip(x, -1.4, 1.4)))
np.log(np.tan(np.pi / 4 + np.clip(x, -1.4, 1.4) / 2))  # cancels
np.floor(x).astype(np.int64)
np.floor(x / 0.25) * 0.25
np.floor(x).astype(np.int64) * 73856093 ^ np.floor(y).astype(np.int64) * 19349663
x * 73856093 ^ y * 19349663
((x > -1) & (x < 1)).all(-1)
np.clip(x, y.min(0), y.max(0))
np.minimum(x, y).sum(-1) / np.maximum(np.maximum(x, y).sum(-1), 1e-9)
t = np.clip(x, 0, 1); t * t * (3 - 2 * t)
t = np.clip(x, 0, 1); t**3 * (t * (t * 6 - 15) + 10)
x + (y - x) * 0.3
(1 - x) ** 3 * y + 3 * x * (1 - x) ** 2
x[:-1] + x[1:]
np.linalg.norm(np.diff(x, axis=0), axis=1).sum()
np.argmin(((x[:, None] - y[None]) ** 2).sum(-1), 1)
np.exp(-((x[:, None] - y[None]) ** 2).sum(-1) / 2)
1 / (1 + ((x[:, None] - y[None]) ** 2).sum(-1))
np.tanh(0.1 * x @ y.T + 1)
(x @ y.T + 1) ** 3
np.einsum("ij,kj->ik", x, y)
np.einsum("ij,ij->i", x, y)
np.outer(x[:, 0], y[:, 0])
np.trace(x.T @ x)
x @ x.T - np.eye(x.shape[0])
np.tril(x @ x.T)
"""

_DETECTION = """
(x[:, 2] - x[:, 0]) * (x[:, 3] - x[:, 1])
np.maximum(0, x[:, 2] - x[:, 0]) * np.maximum(0, x[:, 3] - x[:, 1])
(x[:, 2] - x[:, 0] + 1) * (x[:, 3] - x[:, 1] + 1)
np.stack([(x[:, 0] + x[:, 2]) / 2, (x[:, 1] + x[:, 3]) / 2, x[:, 2] - x[:, 0], x[:, 3] - x[:, 1]], 1)
np.concatenate([x[:, :2] - x[:, 2:4] / 2, x[:, :2] + x[:, 2:4] / 2], 1)
np.concatenate([x[:, :2] - x[:, 2:4] // 2, x[:, :2] + x[:, 2:4] // 2], 1)
b = x.copy(); b[:, 0] = x[:, 0] - x[:, 2] / 2; b
b = x.copy(); b[:, 2:4] += b[:, :2]; b
b = x.copy(); b[:, [0, 2]] = np.clip(b[:, [0, 2]], 0, 100); b
w = np.minimum(x[:, 2], y[:, 2]) - np.maximum(x[:, 0], y[:, 0]); np.maximum(w, 0)
np.clip(np.minimum(x[:, None, 2:4], y[:, 2:4]) - np.maximum(x[:, None, :2], y[:, :2]), 0, None).prod(2)
d = np.clip(np.minimum(x[:, None, 2:4], y[:, 2:4]) - np.maximum(x[:, None, :2], y[:, :2]), 0, None); d[..., 0] * d[..., 1]
i = np.maximum(0, np.minimum(x[:, 2], y[:, 2]) - np.maximum(x[:, 0], y[:, 0])); i / np.maximum(x[:, 2] - x[:, 0] + y[:, 2] - y[:, 0] - i, 1e-9)
c = np.maximum(x[:, 2:4], y[:, 2:4]) - np.minimum(x[:, :2], y[:, :2]); c[:, 0] * c[:, 1]
((x[:, :2] - y[:, :2]) ** 2).sum(1) / (((np.maximum(x[:, 2:4], y[:, 2:4]) - np.minimum(x[:, :2], y[:, :2])) ** 2).sum(1) + 1e-9)
(x[:, :2] - y[:, :2]) / np.maximum(y[:, 2:4], 1)
np.log(np.maximum(x[:, 2:4], 1) / np.maximum(y[:, 2:4], 1))
np.exp(np.clip(x[:, 2:4], -4, 4)) * y[:, 2:4]
x[:, :2] * y[:, 2:4] + y[:, :2]
s = 1 / (1 + np.exp(-x[:, :2])); (s * 2 - 0.5) * 8
s = 1 / (1 + np.exp(-x[:, 2:4])); (s * 2) ** 2 * 16
x[x[:, 0] > 0]
x[x[:, 0] > 0][:, 1:]
x[np.argmax(x, 1) == 1]
x.max(1)[x.max(1) > 0]
np.argsort(-x[:, 0], kind="stable")
x[np.argsort(x[:, 0], kind="stable")[::-1]]
np.argsort(x, 1)[:, ::-1]
np.sort(x, 1)[:, ::-1][:, :2]
np.take_along_axis(x, np.argsort(y, 1, kind="stable"), 1)
np.nonzero(x > 0)[0]
np.argwhere(x > y)
np.where(x > 0.5)[1]
np.argmax(x, 1) * (x.max(1) > 0)
np.unravel_index(np.argmax(x), x.shape)[0]
np.argmax(x) // x.shape[1]
np.argmax(x) % x.shape[1]
np.stack(np.meshgrid(np.arange(x.shape[1]), np.arange(x.shape[0])), -1)
(np.stack(np.meshgrid(np.arange(x.shape[1]), np.arange(x.shape[0])), -1) + 0.5) * 8
m = x == x.max(1, keepdims=True); m * x
np.floor(4 + np.log2(np.sqrt(np.abs(x * y)) / 224 + 1e-6))
np.clip(np.floor(4 + np.log2(np.abs(x) / 224 + 1e-6)), 2, 5).astype(np.int64)
np.eye(4)[np.clip(x.astype(np.int64), 0, 3)]
(x[..., None] == np.arange(5)).astype(np.float32)
np.cumsum(x > 0, 0)
t = np.cumsum(x > 0, 0); t / np.arange(1, x.shape[0] + 1)[:, None]
np.minimum(x / 8, x.shape[1] - 1)
np.round(x / 8).astype(np.int64) * 8
(x // 8) * 8
-(-x // 8)
(x + 7) // 8 * 8
x % 8
r = np.minimum(640 / np.maximum(x, 1), 640 / np.maximum(y, 1)); np.round(x * r)
np.maximum(x[1:], x[:-1])
"""

_STATISTICS = """
(x - x.mean(0)) / np.sqrt(x.var(0) + 1e-5)
(x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-5)
x / np.sqrt((x * x).mean(-1, keepdims=True) + 1e-6)
(x - x.min(0)) / np.maximum(x.max(0) - x.min(0), 1e-9)
x / np.maximum(np.abs(x).max(0), 1e-9)
(x - np.median(x, 0)) / np.maximum(np.percentile(x, 75, axis=0) - np.percentile(x, 25, axis=0), 1e-9)
x.var(0, ddof=1)
x.std(ddof=1)
x.std(0) / np.sqrt(x.shape[0])
((x - x.mean()) ** 3).mean() / (x.std() ** 3 + 1e-9)
((x - x.mean()) ** 4).mean() / (x.var() ** 2 + 1e-9) - 3
((x - x.mean(0)) * (y - y.mean(0))).mean(0)
((x - x.mean()) * (y - y.mean())).sum() / np.sqrt(((x - x.mean()) ** 2).sum() * ((y - y.mean()) ** 2).sum() + 1e-9)
1 - ((x - y) ** 2).sum() / (((y - y.mean()) ** 2).sum() + 1e-9)
np.exp(np.log(np.abs(x) + 1).mean())
x.size / (1 / (np.abs(x) + 1)).sum()
np.sqrt((x * x).mean())
np.cumsum(np.abs(x), 1) / np.maximum(np.abs(x).sum(1, keepdims=True), 1e-9)
np.quantile(x, 0.25)
np.quantile(x, 0.9, axis=1)
np.percentile(x, 50, axis=0)
np.median(x)
np.median(np.abs(x - np.median(x)))
np.sort(x, 0)[1:-1].mean(0)
np.ptp(x, 0)
np.average(x, axis=1)
np.nanmean(x)
np.nansum(x, 0)
np.nanmax(x)
np.count_nonzero(x > 0)
np.count_nonzero(x, axis=0)
(x > y).mean()
np.searchsorted(np.sort(x.ravel()), y)
np.searchsorted([0, 1, 2, 5], x)
np.digitize(x, [0, 1, 2])
np.unique(x)
np.bincount(np.clip(x.ravel(), 0, 5).astype(np.int64))
np.exp(-0.5 * x**2) / np.sqrt(2 * np.pi)
-0.5 * x**2 - 0.5 * np.log(2 * np.pi)
np.exp(-np.abs(x)) / 2
np.log(0.5) - np.abs(x)
1 / (np.pi * (1 + x * x))
np.arctan(x) / np.pi + 0.5  # cancels
np.where(x >= 0, np.exp(-x), 0)
np.where(x >= 0, 1 - np.exp(-np.maximum(x, 0)), 0)
np.where(x >= 0, -np.expm1(-np.maximum(x, 0)), 0)
-np.log1p(-np.clip(x, 0, 0.999))
np.exp(-x) / (1 + np.exp(-x)) ** 2
np.log(np.clip(x, 1e-6, 1 - 1e-6) / (1 - np.clip(x, 1e-6, 1 - 1e-6)))
np.log(np.clip(x, 1e-6, 1 - 1e-6)) - np.log1p(-np.clip(x, 1e-6, 1 - 1e-6))
np.exp(-(x + np.exp(-x)))
np.exp(-np.exp(-x))
-np.log(-np.log(np.clip(x, 1e-6, 1 - 1e-6)))
np.where(x > 0, np.exp(-0.5 * np.log(np.maximum(x, 1e-9)) ** 2) / np.maximum(x, 1e-9), 0)
np.where(x > 1, 2 / np.maximum(x, 1) ** 3, 0)
np.where(x > 0, x * np.exp(-x * x / 2), 0)
np.where((x > -1) & (x < 1), 0.75 * (1 - x * x), 0)
np.where(np.abs(x) < 1, 1 - np.abs(x), 0)
np.where(np.abs(x) <= 1, 15 / 16 * (1 - x**2) ** 2, 0)
m = x.max(); m + np.log(np.exp(x - m).sum())
m = x.max(1, keepdims=True); (m + np.log(np.exp(x - m).sum(1, keepdims=True)))[:, 0]
p = np.clip(x, 0, 1); 4 * p * (1 - p)
p = np.abs(x) / np.maximum(np.abs(x).sum(), 1e-9); 1 - (p * p).sum()
p = np.abs(x) / np.maximum(np.abs(x).sum(1, keepdims=True), 1e-9); -(p * np.log(p + 1e-12)).sum(1)
0.9 * x + 0.1 * y
np.sqrt(np.maximum(0.999 * x + 0.001 * y * y, 0))
x - 0.01 * y / (np.sqrt(np.abs(x)) + 1e-8)
x * np.minimum(1, 1 / (np.sqrt((x * x).sum()) + 1e-6))
0.5 * (1 + np.cos(np.pi * np.clip(x, 0, 1)))
"""

_FORMULAS = """
x * 9 / 5 + 32
(x - 32) * 5 / 9
0.5 * x * y**2
x * np.sin(y)
np.sqrt(np.abs(2 * 9.81 * x))
6.112 * np.exp(17.67 * x / (np.clip(x, -40, 60) + 243.5))
13.12 + 0.6215 * x - 11.37 * np.abs(y) ** 0.16 + 0.3965 * x * np.abs(y) ** 0.16
1 / np.sqrt(1 - np.clip(x, -0.99, 0.99) ** 2)
np.exp(-x / 8.314) * 2
x / np.expm1(np.where(x == 0, 1, x))
np.where(np.abs(x) < 1e-5, 1 - x / 2, x / np.expm1(np.where(x == 0, 1, x)))
x**2 / (x**2 + 1)
np.abs(x) ** 2.5 / (1 + np.abs(x) ** 2.5)
100 * (1 + x / 100) ** 10
x * (1 + y / 100)
np.log(np.maximum(x, 1e-9) / np.maximum(y, 1e-9))
x / np.where(y == 0, 1, y)
np.where(y != 0, x / np.where(y != 0, y, 1), 0)
np.nan_to_num(x / y)
np.nan_to_num(np.log(x))
np.where(np.isnan(x), 0, x)
np.where(np.isfinite(x), x, 0)
np.isclose(x, y)
np.isclose(x, 1)
x * x - 3 * x + 2
((2 * x + 3) * x - 5) * x + 7
(5 * x**3 - 3 * x) / 2
8 * x**4 - 8 * x**2 + 1
np.cos(3 * np.arccos(np.clip(x, -1, 1)))  # cancels
1 - x**2 / 2 + x**4 / 24
t = 1 / (1 + 0.3275911 * np.abs(x)); 1 - (((1.061405429 * t - 1.453152027) * t + 1.421413741) * t) * np.exp(-x * x)
np.sign(x) * np.sqrt(1 - np.exp(-x * x * 1.2732395))
np.power(2.0, x)
np.exp2(x)
np.log2(np.maximum(x, 1))
np.ceil(np.log2(np.maximum(x, 1)))
np.floor(np.log10(np.maximum(np.abs(x), 1)))
2 ** np.ceil(np.log2(np.maximum(x, 1)))
(x & (x - 1)) == 0
x & -x
x ^ (x >> 1)
(x * 1103515245 + 12345) & 0x7FFF
x * x % 7
x // y
x % y
np.divmod(x, y)[0] * y + np.divmod(x, y)[1]
x - y * (x // y)
-(-x // y)
(x + y) // 2
x + (y - x) // 2
np.gcd(x, y)
np.abs(x) % 10
np.sum(x // 10 ** np.array([0, 1, 2])[:, None, None] % 10, 0)
x % 2 == 0
(x % 4 == 0) & ((x % 100 != 0) | (x % 400 == 0))
x * 3600 + y * 60
x // 3600 % 24
np.trunc(x * 100) / 100
np.round(x, 2)
np.round(x * 20) / 20
np.clip(x, 0, 300)
np.clip(x, -300, 300)
x.clip(0)
(x == -1) | (y == -1)
np.where(x == -1, 0, x)
np.where(x > 255, 255, x)
np.where(x < 0, x + 360, x)
np.maximum(x, y) - np.minimum(x, y)
x.sum() - x.max()
x.sum() % 97
(x * np.arange(1, x.shape[1] + 1)).sum(1) % 11
(x.astype(np.int64) ** 2).sum()
x.astype(np.uint8) + y.astype(np.uint8)
x.astype(np.uint8) - 1 > 0
x.astype(np.float32).mean()
x.mean(dtype=np.float32)
x.prod(1)
np.exp(np.log(np.abs(x) + 1).sum(1))
np.select([x < -1, x < 1, x < 2], [-1, x, 1], 2)
np.select([x > 0, x < 0], [1, -1], 0)
np.where(x > 1, "a", "b") == "a"
np.hypot(x, y)
np.hypot(x, y) - np.abs(x)
np.sqrt(x * x + y * y)
np.sqrt(x)
1 / np.sqrt(np.abs(x) + 1e-6)
x ** 0.5
np.abs(x) ** 0.25
np.maximum(x, 0) ** 1.5
np.sinh(x) / np.cosh(x)
np.cosh(np.clip(x, -5, 5)) ** -1
np.log(np.abs(x) + np.sqrt(x * x + 1))
np.arctanh(np.clip(x, -0.99, 0.99))
0.5 * np.log((1 + np.clip(x, -0.99, 0.99)) / (1 - np.clip(x, -0.99, 0.99)))
"""

_GROUPS = {
    "activations": _ACTIVATIONS,
    "losses": _LOSSES,
    "images": _IMAGES,
    "signals": _SIGNALS,
    "geometry": _GEOMETRY,
    "detection": _DETECTION,
    "statistics": _STATISTICS,
    "formulas": _FORMULAS,
}

_CANCELS = "  # cancels"

BODIES = [(group, line) for group, text in _GROUPS.items() for line in text.strip().splitlines()]
"""What they are for, and the steps."""


def _source(line: str) -> str:
    *steps, last = line.removesuffix(_CANCELS).split("; ")
    body = "".join(f"        {step}\n" for step in [*steps, f"return {last}"])
    return f"import numpy as np\nclass Judged:\n    def compute(self, x, y):\n{body}"


def _draws(dtype: type, seed: int) -> list[tuple[np.ndarray, ...]]:
    random = np.random.default_rng(seed)
    draws = []
    for number, shape in enumerate([(5, 4), (6, 7), (7, 4), (1, 4), (40, 33), (4, 9)]):
        draws.append(tuple(nasty(dtype, shape, random, number % 3) for _ in "xy"))
    return draws


def run_harvest(step: int = 1) -> Tally:
    """Lower every ``step``-th body in all dtypes, and judge it."""
    tally = Tally()
    for number, (group, line) in enumerate(BODIES):
        if number % step:
            continue
        for dtype in (*FLOATS, *INTEGERS):
            label = f"{group}, {np.dtype(dtype).name}: {line}"
            run_body(_source(line), _draws(dtype, number), tally, label, line.endswith(_CANCELS))
    return tally


if __name__ == "__main__":
    print(f"{len(BODIES)} bodies in {len(FLOATS) + len(INTEGERS)} dtypes")
    print(run_harvest())
