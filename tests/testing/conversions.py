"""Pairs of functions: wrong conversions made on purpose, and right ones that compute in another way.

Each row has a name, the original, the converted function, the dtype of its inputs, and their
shapes, in which a letter is a free dimension. Every wrong number that was once found in a release
is among the wrong ones.
"""

import numpy as np

f8, f4, f2 = np.float64, np.float32, np.float16
SIZES = {"N": 3, "M": 4, "K": 5}


def truncated(x, y):
    """Divide integers towards zero, as the ONNX Div does."""
    quotient = np.abs(x.astype(np.int64)) // np.abs(np.int64(y))
    return (quotient * np.sign(x) * np.sign(y)).astype(x.dtype)


def through(dtype, function):
    """Compute in another dtype and return the original's."""
    return lambda x: function(x.astype(dtype)).astype(function(x).dtype)


def padded(x):
    return np.concatenate([x[..., :1] * 0, x, x[..., :1] * 0], -1)


def erf_approximation(x):
    t = 1 / (1 + 0.3275911 * np.abs(x))
    poly = (
        (((1.061405429 * t - 1.453152027) * t) + 1.421413741) * t - 0.284496736
    ) * t + 0.254829592
    return (np.sign(x) * (1 - poly * t * np.exp(-x * x))).astype(x.dtype)


def precise_erf(x):
    from math import erf

    return np.vectorize(erf, otypes=[x.dtype])(x) if x.size else x


def softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def logsumexp(x):
    m = x.max(-1, keepdims=True)
    return np.log(np.exp(x - m).sum(-1)) + m[..., 0]


def pairwise_iou(a):
    wide = np.clip(
        np.minimum(a[:, None, 2], a[None, :, 2]) - np.maximum(a[:, None, 0], a[None, :, 0]), 0, None
    )
    high = np.clip(
        np.minimum(a[:, None, 3], a[None, :, 3]) - np.maximum(a[:, None, 1], a[None, :, 1]), 0, None
    )
    area = (a[:, 2] - a[:, 0]) * (a[:, 3] - a[:, 1])
    return wide * high / (area[:, None] + area[None] - wide * high)


def entropy(x):
    return -(x * np.log1p(x)).sum(-1)


WRONG = [
    # What a compiler did that widens integers.
    ("difference of unsigned integers in 64 bits", lambda x: (x - np.uint8(1)) > 0, lambda x: (x.astype(int) - 1) > 0, "u1", "N"),
    ("product of small integers in 64 bits", lambda x: (x * x) // np.int8(2), lambda x: (x.astype(int) ** 2 // 2).astype("i1"), "i1", "N"),
    ("constant of another node", lambda x: x * f4(2), lambda x: x * f4(3), "f4", "N"),
    ("sum of bools as bool", lambda x: x.sum(-1), lambda x: x.any(-1).astype(int), "?", "NM"),
    ("int16 sum in int16", lambda x: x.sum(-1), lambda x: x.sum(-1, dtype="i2").astype("i8"), "i2", "NM"),
    ("uint16 shift in 64 bits", lambda x: (x << np.uint16(9)) >> np.uint16(9), lambda x: x, "u2", "N"),
    # What lower did.
    ("-1 wraps in uint8", lambda x: x == -1, lambda x: x == 255, "u1", "N"),
    ("300 wraps in uint8", lambda x: x > 300, lambda x: x > 44, "u1", "N"),
    ("clip to 300 wraps", lambda x: x.copy(), lambda x: np.clip(x, 0, 44), "u1", "N"),
    ("floor division truncates", lambda x: x // np.int8(3), lambda x: truncated(x, 3), "i1", "N"),
    ("floor division overflows at the minimum", lambda x: x // np.int8(3), lambda x: np.where(x < 0, -((-x + np.int8(2)) // np.int8(3)), x // np.int8(3)).astype("i1"), "i1", "N"),
    ("remainder with C's sign", lambda x: x % np.int32(3), lambda x: np.fmod(x, np.int32(3)), "i4", "N"),
    ("one-sided clip loses -inf", lambda x: np.clip(x, None, f4(1)), lambda x: np.clip(x, np.finfo(f4).min, f4(1)), "f4", "N"),
    ("one-sided clip loses inf", lambda x: np.maximum(x, f4(0)), lambda x: np.clip(x, f4(0), np.finfo(f4).max), "f4", "N"),
    ("sum of int64 in float64", lambda x: x.sum(-1), lambda x: x.astype(f8).sum(-1).astype("i8"), "i8", "NM"),
    ("product of int64 in float64", lambda x: x * np.int64(3), lambda x: (x.astype(f8) * 3).astype("i8"), "i8", "N"),
    ("sum of int32 in 32 bits", lambda x: x.sum(-1), lambda x: x.sum(-1, dtype="i4").astype("i8"), "i4", "NM"),
    ("product of int32 in 32 bits", lambda x: x.prod(-1), lambda x: x.prod(-1, dtype="i4").astype("i8"), "i4", "NM"),
    ("log1p as log", np.log1p, lambda x: np.log(1 + x), "f4", "N"),
    ("log1p as log in float64", np.log1p, lambda x: np.log(1 + x), "f8", "N"),
    ("expm1 as exp", np.expm1, lambda x: np.exp(x) - 1, "f4", "N"),
    ("entropy with a lost log1p", entropy, lambda x: -(x * np.log(1 + x)).sum(-1), "f4", "NM"),
    ("power of a half as root", lambda x: np.power(x, np.full_like(x, 0.5)), np.sqrt, "f4", "N"),
    ("argmax of uint64 as int64", lambda x: x.argmax(-1), lambda x: x.astype("i8").argmax(-1), "u8", "NM"),
    ("argmax of uint64 as float64", lambda x: x.argmax(-1), lambda x: x.astype(f8).argmax(-1), "u8", "NM"),
    ("argsort that is not stable", lambda x: x.argsort(-1, kind="stable"), lambda x: x.argsort(-1), "f4", "NM"),
    ("argsort downwards reverses ties", lambda x: (-x).argsort(-1, kind="stable"), lambda x: x.argsort(-1, kind="stable")[..., ::-1], "f4", "NM"),
    ("argmax takes the last of equal ones", lambda x: x.argmax(-1), lambda x: x.shape[-1] - 1 - x[..., ::-1].argmax(-1), "f4", "NM"),
    # What torch.export and map did.
    ("row 3 of 5", lambda x: x[-1], lambda x: x[2], "f4", "NM"),
    ("a loop over the rows of the example", lambda x: x.sum(0), lambda x: x[0] + x[1] + x[2], "f4", "NM"),
    ("a size as a constant", lambda x: x / len(x), lambda x: x / 3, "f4", "NM"),
    ("a sum as a constant", lambda x: x + x.sum(), lambda x: x + x.dtype.type(12), "f4", "NM"),
    ("an input as a constant", lambda x: x[..., ::-1], lambda x: np.ones_like(x), "f4", "NM"),
    ("a dimension taken for another one", lambda x: x.reshape(x.shape[1], x.shape[0]), lambda x: x.T.copy(), "f4", "NM"),
    ("mean over the wrong axis of a square", lambda x: x.mean(0), lambda x: x.mean(1), "f4", "NN"),
    # What else goes wrong between libraries.
    ("round half away from zero", np.round, lambda x: np.sign(x) * np.floor(np.abs(x) + x.dtype.type(0.5)), "f4", "N"),
    ("floor as truncation", np.floor, np.trunc, "f4", "N"),
    ("maximum without NaN", lambda x: np.maximum(x, f4(0)), lambda x: np.fmax(x, f4(0)), "f4", "N"),
    ("maximum of a row without NaN", lambda x: x.max(-1), lambda x: np.fmax.reduce(x, -1), "f4", "NM"),
    ("sign of NaN as 0", np.sign, lambda x: np.where(x > 0, 1, np.where(x < 0, -1, 0)).astype(x.dtype), "f4", "N"),
    ("less as not greater", lambda x: x < 1, lambda x: ~(x >= 1), "f4", "N"),
    ("a root in float32", np.sqrt, through(f4, np.sqrt), "f8", "N"),
    ("exp in float16", np.exp, through(f2, np.exp), "f4", "N"),
    ("a sum in float32", lambda x: x.sum(-1), lambda x: x.astype(f4).sum(-1).astype(f8), "f8", "NM"),
    ("softmax without its maximum", softmax, lambda x: np.exp(x) / np.exp(x).sum(-1, keepdims=True), "f4", "NM"),
    ("logsumexp without its maximum", logsumexp, lambda x: np.log(np.exp(x).sum(-1)), "f4", "NM"),
    ("sigmoid that clamps", lambda x: 1 / (1 + np.exp(-x)), lambda x: 1 / (1 + np.exp(-np.clip(x, -18, 18))), "f4", "N"),
    ("softplus without its limit", lambda x: np.logaddexp(x, f4(0)), lambda x: np.log(1 + np.exp(x)), "f4", "N"),
    ("variance as a difference of squares", lambda x: x.var(-1), lambda x: (x * x).mean(-1) - x.mean(-1) ** 2, "f4", "NM"),
    ("an approximation of erf", precise_erf, erf_approximation, "f4", "N"),
    ("tanh by exp", np.tanh, lambda x: (np.exp(x) - np.exp(-x)) / (np.exp(x) + np.exp(-x)), "f4", "N"),
    ("hypot by squares", lambda x: np.hypot(x, f4(1) * x), lambda x: np.sqrt(x * x + x * x), "f4", "N"),
    ("absolute value of the minimum", np.abs, lambda x: np.abs(x.astype("i8")).clip(None, 127).astype("i1"), "i1", "N"),
    ("a cast that saturates", lambda x: x.astype("u1"), lambda x: x.clip(0, 255).astype("u1"), "i4", "N"),
    ("int64 through int32", lambda x: x + np.int64(1), lambda x: x.astype("i4").astype("i8") + 1, "i8", "N"),
    ("int64 through float32", lambda x: x.copy(), lambda x: x.astype(f4).astype("i8"), "i8", "N"),
    ("reciprocal of negative zero", lambda x: f4(1) / x, lambda x: f4(1) / np.abs(x) * np.where(x < 0, f4(-1), f4(1)), "f4", "N"),
    ("padding that repeats NaN", lambda x: np.pad(x, ((0, 0), (1, 1))), padded, "f4", "NM"),
    ("cumulative sum that leaves the last out", lambda x: x.cumsum(-1), lambda x: x.cumsum(-1) - x, "f4", "NM"),
    ("transposed", lambda x: x.T @ x, lambda x: x @ x.T, "f4", "NN"),
    ("upper case in ASCII alone", lambda x: np.array([t.upper() for t in x], object), lambda x: np.array(["".join(c.upper() if c.isascii() else c for c in t) for t in x], object), "O", "N"),
    ("length in bytes", lambda x: np.array([len(t) for t in x], "i8"), lambda x: np.array([len(t.encode()) for t in x], "i8"), "O", "N"),
    ("all of an empty array", lambda x: x.all(-1), lambda x: x.all(-1) & (x.shape[-1] > 0), "?", "NM"),
    ("mean of an empty array", lambda x: x.mean(-1), lambda x: x.sum(-1) / f4(max(x.shape[-1], 1)), "f4", "NM"),
]  # fmt: skip

_FLOATS = ["f2", "f4", "f8"]
_INTEGERS = ["i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8"]

RIGHT = [
    ("swapped factors", lambda x: x * x.dtype.type(3), lambda x: x.dtype.type(3) * x, [*_FLOATS, *_INTEGERS], "N"),
    ("sum of a reversed row", lambda x: x.sum(-1), lambda x: x[..., ::-1].sum(-1), [*_FLOATS, *_INTEGERS], "NM"),
    ("sum by a product with ones", lambda x: x.sum(-1), lambda x: x @ np.ones(x.shape[-1], x.dtype), ["f4", "f8", "i8"], "NM"),
    ("mean by a sum", lambda x: x.mean(-1), lambda x: x.sum(-1) / x.dtype.type(x.shape[-1] or np.nan), ["f4", "f8"], "NM"),
    ("mean of float16 in float32", lambda x: x.mean(-1), lambda x: x.astype(f4).mean(-1).astype(f2), ["f2"], "NM"),
    ("maximum by sorting", lambda x: x.max(-1), lambda x: np.sort(x, -1)[..., -1], [*_FLOATS, *_INTEGERS], "NM"),
    ("stable argsort by pairs", lambda x: x.argsort(-1, kind="stable"), lambda x: np.argsort(np.argsort(np.argsort(x, -1, kind="stable"), -1), -1), [*_FLOATS, *_INTEGERS], "NM"),
    ("softmax by a reciprocal", softmax, lambda x: np.exp(x - x.max(-1, keepdims=True)) * (1 / np.exp(x - x.max(-1, keepdims=True)).sum(-1, keepdims=True)), _FLOATS, "NM"),
    ("tanh by a wider float", np.tanh, through(np.longdouble, np.tanh), _FLOATS, "N"),
    ("exp by a wider float", np.exp, through(np.longdouble, np.exp), _FLOATS, "N"),
    ("log1p by a wider float", np.log1p, through(np.longdouble, np.log1p), _FLOATS, "N"),
    ("sine by a wider float", np.sin, through(np.longdouble, np.sin), _FLOATS, "N"),
    ("normalization by a root", lambda x: (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + x.dtype.type(1e-3)), lambda x: (x - x.mean(-1, keepdims=True)) * (1 / np.sqrt(((x - x.mean(-1, keepdims=True)) ** 2).mean(-1, keepdims=True) + x.dtype.type(1e-3))), ["f4", "f8"], "NM"),
    ("matrix product in another order", lambda x: x @ x.T, lambda x: (x[:, ::-1].copy() @ x.T[::-1].copy()), ["f4", "f8", "i4", "i8"], "NM"),
    ("intersection over union", pairwise_iou, lambda a: pairwise_iou(a[::-1].copy())[::-1, ::-1], ["f4", "f8"], ["N", 4]),
    ("comparison by its opposite", lambda x: x > 1, lambda x: ~((x <= 1) | (x != x)), [*_FLOATS, *_INTEGERS], "N"),
    ("floor division by rounding", lambda x: x // x.dtype.type(3), lambda x: (x - x % x.dtype.type(3)) // x.dtype.type(3), ["u1", "u2", "u4", "u8"], "N"),
    ("remainder by where", lambda x: x % x.dtype.type(7), lambda x: np.where(np.fmod(x, x.dtype.type(7)) < 0, np.fmod(x, x.dtype.type(7)) + x.dtype.type(7), np.fmod(x, x.dtype.type(7))).astype(x.dtype), _INTEGERS, "N"),
    ("clip by two functions", lambda x: np.clip(x, x.dtype.type(1), x.dtype.type(5)), lambda x: np.minimum(np.maximum(x, x.dtype.type(1)), x.dtype.type(5)), [*_FLOATS, *_INTEGERS], "N"),
    ("absolute value by where", np.abs, lambda x: np.where(x < 0, -x, x).astype(x.dtype), ["i1", "i2", "i4", "i8"], "N"),
    ("transposed twice", lambda x: x.T, lambda x: np.swapaxes(x, 0, 1).copy(), [*_FLOATS, *_INTEGERS, "?"], "NM"),
    ("last element by flipping", lambda x: x[-1], lambda x: x[::-1][0].copy(), [*_FLOATS, *_INTEGERS, "?"], "NM"),
    ("any by a sum", lambda x: x.any(-1), lambda x: x.sum(-1) > 0, ["?"], "NM"),
    ("exclusive or by inequality", lambda x: x ^ x[..., ::-1], lambda x: x != x[..., ::-1], ["?"], "NM"),
    ("cumulative sum by a product", lambda x: x.cumsum(-1), lambda x: (x @ np.triu(np.ones((x.shape[-1],) * 2, x.dtype))).astype(x.cumsum(-1).dtype), ["i8", "u8"], "NM"),
    ("product by a logarithm of two", lambda x: x * x.dtype.type(4), lambda x: (x + x) + (x + x), [*_FLOATS, *_INTEGERS], "N"),
    ("negated twice", lambda x: x, lambda x: np.negative(np.negative(x)), [*_FLOATS, *_INTEGERS], "N"),
    ("square by power", lambda x: x * x, lambda x: x**2, [*_FLOATS, *_INTEGERS], "N"),
    ("unique sizes", lambda x: np.stack([x, x], -1), lambda x: np.repeat(x[..., None], 2, -1), [*_FLOATS, *_INTEGERS], "NM"),
    ("variance by squares of differences", lambda x: x.var(-1), lambda x: np.square(x - x.mean(-1, keepdims=True)).mean(-1), ["f4", "f8"], "NM"),
    ("hypot by a wider float", lambda x: np.hypot(x, x), lambda x: through(np.longdouble, lambda y: np.hypot(y, y))(x), ["f4", "f8"], "N"),
    ("logarithm of a sum in another order", logsumexp, lambda x: logsumexp(x[..., ::-1]), ["f4", "f8"], "NM"),
    ("range by sorting", lambda x: x.max(-1) - x.min(-1), lambda x: np.sort(x, -1)[..., -1] - np.sort(x, -1)[..., 0], [*_FLOATS, *_INTEGERS], ["N", 5]),
    ("norm by a sum of squares", lambda x: np.sqrt((x * x).sum(-1)), lambda x: np.linalg.norm(x, axis=-1), ["f4", "f8"], "NM"),
    ("gray by a product of matrices", lambda x: (x * np.array([0.299, 0.587, 0.114], x.dtype)).sum(-1), lambda x: x @ np.array([0.299, 0.587, 0.114], x.dtype), ["f4", "f8"], ["N", 3]),
    ("sigmoid by the absolute value", lambda x: 1 / (1 + np.exp(-x)), lambda x: np.where(x >= 0, 1, np.exp(-np.abs(x))) / (1 + np.exp(-np.abs(x))), ["f4", "f8"], "N"),
    ("cube by products", lambda x: x**3, lambda x: x * x * x, ["f4", "f8", "i8"], "N"),
    ("running maximum by slices", lambda x: np.maximum.accumulate(x, -1), lambda x: np.concatenate([x[..., :0], *(x[..., : end + 1].max(-1, keepdims=True) for end in range(x.shape[-1]))], -1), [*_FLOATS, "i4", "u8"], ["N", 5]),
    ("one-hot rows by comparison", lambda x: np.eye(7)[x % 7], lambda x: (x[:, None] % 7 == np.arange(7)).astype(float), ["u1", "i8"], "N"),
    ("differences by slices", lambda x: np.diff(x, axis=-1), lambda x: x[..., 1:] - x[..., :-1], [*_FLOATS, *_INTEGERS], "NM"),
    ("average of three by convolution", lambda x: np.convolve(x, np.full(3, 1 / 3, x.dtype)), lambda x: np.pad(x * x.dtype.type(1 / 3), (0, 2)) + np.pad(x * x.dtype.type(1 / 3), 1) + np.pad(x * x.dtype.type(1 / 3), (2, 0)), ["f4", "f8"], ["N"]),
    ("squared distances by broadcasting", lambda x: ((x[:, None] - x[None]) ** 2).sum(-1), lambda x: np.einsum("ijk,ijk->ij", x[:, None] - x[None], x[:, None] - x[None]), ["f4", "f8"], "NM"),
    ("argmin by a negated argmax", lambda x: x.argmin(-1), lambda x: (-x).argmax(-1), _FLOATS, "NM"),
    ("outer product by broadcasting", lambda x: np.outer(x, x), lambda x: x[:, None] * x[None], [*_FLOATS, "i4"], "N"),
    ("texts stripped", lambda x: np.array([t.strip() for t in x], object), lambda x: np.array([t.lstrip().rstrip() for t in x], object), ["O"], "N"),
]  # fmt: skip


def example(dtype, shape):
    """Return an array as users give them: small, of order one, without ties."""
    sizes = [SIZES.get(dim, dim) for dim in shape]
    count = int(np.prod(sizes))
    if dtype == "O":
        return np.array([f"text {number}" for number in range(count)], object).reshape(sizes)
    if dtype == "?":
        return (np.arange(count) % 2 == 0).reshape(sizes)
    return (np.arange(count) + 1).reshape(sizes).astype(dtype)
