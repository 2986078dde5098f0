"""Bodies in NumPy for Numba's form, and their judge: both know nothing of the tables that decide what is compiled."""

import itertools
import linecache
import random
import re
import warnings

import numpy as np

import pyopnb
from pyopnb.compile.numba_form import form_of
from pyopnb.ops.types import tensor_type
from pyopnb.testing.verify.jitter import draw_shares, jittered

__all__ = ["BODIES", "DTYPES", "judge", "random_body"]

DTYPES = [
    "float16",
    "float32",
    "float64",
    "int8",
    "int16",
    "int32",
    "int64",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
    "bool",
]

# Each {c} is a number as it would be written, {f} one in the dtype of the input.
_ELEMENTWISE = (
    """
-x|x + x|x - y|x * y|x * x|x / y|x // y|x % y|x ** 2|x ** 3|x ** 0.5|x ** y|abs(x)|2 * x|x - 1|x * {f}|x + {f}|{f} - x|{f} / x
(x - 1) > 0|(x * x) // 2|x > 300|x == -1|x < 0|x >= 0.1|x > {f}|x == y|x != y|x <= y|(x > 0) & (y > 0)|(x > 0) | (y < 0)|~(x > 0)|~x
x & y|x | y|x ^ y|x << 1|x >> 1|x << y|x + (x > 0)|(x > 0) + (y > 0)|(x > 0) * 2|np.where(x > 0, x, y)|np.where(x > 0, x, 0)
np.where(x > y, x, {f})|np.maximum(x, y)|np.minimum(x, y)|np.maximum(x, 0)|np.maximum(x, {f})|np.clip(x, 0, 1)|np.clip(x, 0, 300)
np.fmax(x, y)|np.fmin(x, y)|np.exp(x)|np.expm1(x)|np.log(x)|np.log1p(x)|np.log2(x)|np.log10(x)|np.sqrt(x)|np.sin(x)|np.cos(x)|np.tan(x)
np.arcsin(x)|np.arccos(x)|np.arctan(x)|np.sinh(x)|np.cosh(x)|np.tanh(x)|np.arcsinh(x)|np.arccosh(x)|np.arctanh(x)|np.arctan2(x, y)
np.hypot(x, y)|np.floor(x)|np.ceil(x)|np.trunc(x)|np.rint(x)|np.round(x)|np.fabs(x)|np.absolute(x)|np.negative(x)|np.square(x)|np.sign(x)
np.copysign(x, y)|np.signbit(x)|np.isnan(x)|np.isinf(x)|np.isfinite(x)|np.reciprocal(x)|np.exp2(x)|np.cbrt(x)|np.logaddexp(x, y)
np.power(x, y)|np.power(x, 2)|np.floor_divide(x, y)|np.remainder(x, y)|np.fmod(x, y)|np.true_divide(x, y)|np.add(x, y)|np.subtract(x, y)
np.multiply(x, y)|np.divide(x, y)|np.greater(x, y)|np.less_equal(x, 1)|np.logical_and(x > 0, y > 0)|np.logical_not(x > 0)|np.logical_or(x, y)
np.logical_xor(x > 0, y > 0)|np.left_shift(x, 1)|np.bitwise_and(x, y)|np.invert(x)|np.gcd(x, y)|np.float32(0.5) * x|x * np.float64(0.1)
x / (np.abs(x) + {f})|np.tanh(x) * {f}|{f} / ({f} + np.exp(-x))|x * x * x + x|np.exp(-x * x)|np.log(np.exp(x) + {f})|x - np.floor(x)
(x > 0).astype(np.float64) * 0.5|x.astype(np.float32) * np.float32(0.1)|x.astype(np.float64) * 0.1|x.astype(np.int64)|x.astype(np.int64) // 3
x.astype(np.int8)|x.astype(np.uint8) - np.uint8(1)|x.astype(np.int64) % 7|x.astype(np.int64) * x.astype(np.int64)|x.astype(np.bool_)
x.astype(np.int32) + 1|np.sqrt(np.abs(x))|np.deg2rad(x)|np.nan_to_num(x)|np.heaviside(x, y)|np.spacing(x)|np.nextafter(x, y)|np.sinc(x)
""".replace("\n", "|")
    .strip("|")
    .split("|")
)
_WHOLE = (
    """
x.sum()|np.sum(x)|x.mean()|np.mean(x)|x.prod()|np.prod(x)|x.std()|np.var(x)|x.max()|x.min()|np.argmax(x)|np.argmin(x)|x.any()|x.all()
np.median(x)|np.ptp(x)|np.nansum(x)|np.nanmax(x)|np.count_nonzero(x)|(x > 0).sum()|np.dot(x, y)|(x * y).sum()|np.linalg.norm(x)|len(x)|x.size
np.abs(x).max()|np.amax(x)|np.amin(x)|(x == y).all()|np.percentile(x, 50)|x[0] + x[-1]|x[0] // 2|x[0] % 3|-x[0]|abs(x[0])|x[0] * 2|x[0] ** 2
min(x[0], x[1])|max(x[0], x[1])|min(x[0], 0)|int(x[0])|float(x[0])|float(x[0]) * 0.1|bool(x[0])|round(x[0])|x[0] > 0.1|x[0] == x[1]|x[0] & x[1]
""".replace("\n", "|")
    .strip("|")
    .split("|")
)
_ARRAYS = (
    """
np.cumsum(x)|np.cumprod(x)|np.sort(x)|np.argsort(x)|np.flip(x)|x[::-1]|x[1:]|np.concatenate((x, y))|np.stack((x, y))|x.reshape(-1, 1)|np.diff(x)
np.zeros_like(x)|np.ones_like(x)|np.full_like(x, 1)|np.full_like(x, 300)|np.full(3, -1)|np.full(3, 0.5)|np.arange(len(x))|np.arange(len(x)) * 0.1
np.linspace(0, 1, 5)|np.repeat(x, 2)|np.roll(x, 1)|np.unique(x)|np.outer(x, y)|np.eye(3)|np.nonzero(x)[0]|x[x > 0]|np.searchsorted(np.sort(x), y)
x.copy()|x.T|np.expand_dims(x, 0)|x - x.mean()|x / x.sum()|x - x.max()|x * np.arange(len(x))|np.take(x, np.zeros(2, np.int64))
np.interp(x, np.arange(3), np.arange(3))
""".replace("\n", "|")
    .strip("|")
    .split("|")
)
_LOOPS = [
    "total = 0\nfor v in x: total += v\nreturn np.full(1, total)",
    "total = 0.0\nfor v in x: total += v\nreturn np.full(1, total)",
    "total = x[0]\nfor i in range(1, len(x)): total = total * 3 + x[i]\nreturn np.full(1, total)",
    "best = 0\nfor i in range(len(x)):\n    if x[i] > x[best]: best = i\nreturn np.full(1, best)",
    "n = 0\nfor v in x:\n    if v > 0.1: n += 1\nreturn np.full(1, n)",
    "n = 0\nfor v in x:\n    if v - 1 > 0: n += 1\nreturn np.full(1, n)",
    "y = np.empty_like(x)\nfor i in range(len(x)): y[i] = x[i] * 2\nreturn y",
    "y = np.empty_like(x)\nfor i in range(len(x)): y[i] = x[i] * x[i]\nreturn y",
    "y = np.empty_like(x)\nfor i in range(len(x)): y[i] = x[len(x) - 1 - i]\nreturn y",
    "y = np.zeros(len(x), np.float32)\nfor i in range(len(x)): y[i] = np.float32(x[i]) * np.float32(0.5)\nreturn y",
    "y = np.zeros(len(x), np.uint8)\nfor i in range(len(x)): y[i] = i * 100\nreturn y",
    "y = np.zeros(len(x))\nfor i in range(len(x)): y[i] = x[i]\nreturn y",
    "y = np.zeros(len(x), np.int64)\nfor i in range(len(x)): y[i] = x[i]\nreturn y",
    "n = 1\nfor i in range(len(x)): n = n * 5\nreturn np.full(1, n)",
    "a, b = 1, 1\nfor i in range(len(x)): a, b = b, a + b\nreturn np.full(1, a)",
    "h = 7\nfor i in range(len(x)): h = h * 31 + i\nreturn np.full(1, h)",
    "y = x.copy()\ny += 1\nreturn y",
    "y = x.copy()\ny *= y\nreturn y",
    "y = x.copy()\ny[0] = 5\nreturn y",
    "a = 0\nif x[0] > 0: a = 0.5\nreturn np.full(1, a)",
]
BODIES = [f"return {text}" for text in _ELEMENTWISE + _ARRAYS + _WHOLE] + _LOOPS

_LARGER = re.compile(r"maximum|minimum|fmax|fmin|\b(max|min)\(")
_NAMES = {"float32": "np.float32(0.1)", "float64": "0.1", "float16": "np.float16(0.1)"}


def _inputs(dtype):
    """Pairs of arrays that are not kind: extremes, constants and their neighbours, zeros of both signs, NaN, one and many."""
    kind = np.dtype(dtype)
    rng = np.random.default_rng(0)
    if kind.kind == "f":
        limits = np.finfo(kind)
        tenth = kind.type(0.1)
        values = [
            0.0,
            -0.0,
            1,
            -1,
            0.5,
            2,
            3,
            -7,
            300,
            1e-3,
            2.5,
            tenth,
            np.nextafter(tenth, kind.type(1)),
            np.nan,
        ]
        values += [
            np.inf,
            -np.inf,
            limits.max,
            limits.min,
            limits.tiny,
            limits.smallest_subnormal,
            -limits.tiny,
            1e4,
        ]
        many = rng.normal(size=50)
    elif kind.kind == "b":
        values, many = [True, False, True], rng.integers(0, 2, 50)
    else:
        limits = np.iinfo(kind)
        values = [limits.min, limits.min + 1, 0, 1, 2, 3, 7, 45, 100, limits.max - 1, limits.max]
        values += [-1, -2, -7] * (limits.min < 0)
        many = rng.integers(limits.min, limits.max, 50, kind, endpoint=True)
    pairs = np.array(list(itertools.product(values, values)), kind)
    yield pairs[:, 0].copy(), pairs[:, 1].copy()
    yield pairs[::-1, 0].copy(), pairs[::-1, 1].copy()
    finite = np.array([value for value in values if np.isfinite(float(value))][:6], kind)
    yield finite, finite[::-1].copy()
    many = many.astype(kind)
    yield many, many[::-1].copy()
    yield np.sort(many), np.ones_like(many)
    yield np.ones(50_000, kind), np.ones(50_000, kind)
    for value in values:
        yield np.full(2, value, kind), np.full(2, values[0], kind)
    yield many[:1], many[1:2]
    yield many[:0], many[:0]


def judge(lines, dtype):
    """Compile a body for one dtype; return None where it agrees, "refused: …", or "WRONG: …"."""
    lines = lines.format(f=_NAMES.get(dtype, "2"), c="2")
    text = "class Body:\n    kernel = 'numba'\n    def compute(self, x, y):\n"
    text += "".join(f"        {line}\n" for line in lines.splitlines())
    namespace = {"np": np}
    file = f"<survey {hash((lines, dtype))}>"
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    exec(compile(text, file, "exec"), namespace)
    cls = namespace["Body"]
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            example = np.asarray(cls().compute(*next(iter(_inputs(dtype)))))
            output = tensor_type(f"{example.dtype.name}[{','.join('abcd'[: example.ndim])}]")
        except Exception as error:
            return f"refused: Python raises {type(error).__name__}"
    given = tensor_type(f"{dtype}[N]")
    with warnings.catch_warnings(record=True) as notices:
        warnings.simplefilter("always")
        form = form_of(cls(), (given, given), (output,), "survey")
    if form is None:
        reason = next(
            str(n.message) for n in notices if issubclass(n.category, pyopnb.errors.NotCompiled)
        )
        return "refused: " + reason.partition("Python computes. ")[2]
    return _compare(form, cls, dtype, lines)


def _compare(form, cls, dtype, lines):
    for x, y in _inputs(dtype):
        if "outer" in lines and len(x) > 1000:
            continue  # the square of a long row takes 20 GB
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            try:
                want = np.asarray(cls().compute(x, y))
            except Exception as error:
                want = error
            try:
                got = np.asarray(form(x, y))
            except Exception:
                if isinstance(want, Exception):  # Python was asked, and raised
                    continue
                raise
            if isinstance(want, Exception):
                return f"WRONG: {want!r} in Python, {got.ravel()[:3]} compiled, x = {x[:4]}"
            if got.dtype != want.dtype or got.shape != want.shape:
                return f"WRONG: {got.dtype}{got.shape} for {want.dtype}{want.shape}"
            wrong = _wrong(got, want, lines, x, y)
            if wrong.any() and want.dtype.kind == "f":
                wrong &= ~_is_rounding(got, want, cls, x, y)
            if wrong.any():
                at = int(np.flatnonzero(wrong)[0])
                return f"WRONG: {got.ravel()[at]!r} for {want.ravel()[at]!r}, x = {x[at : at + 1]}, y = {y[at : at + 1]}"
    return None


def _is_rounding(got, want, cls, x, y):
    """Elements that functions off by a unit in the last place move as far, as the log of a sum near 1."""
    spread = np.zeros(want.shape, np.longdouble)
    for run in range(4):
        shares = draw_shares(run)
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            moved = np.asarray(cls().compute(jittered(x, shares), jittered(y, shares)))
            spread = np.maximum(spread, np.abs(moved.astype(np.longdouble) - want))
    with np.errstate(all="ignore"):
        apart = np.abs(got.astype(np.longdouble) - want)
    return (np.isfinite(apart) & np.isfinite(spread) & (apart <= 4 * spread)).ravel()


def _wrong(got, want, lines, x, y):
    """Elements that differ by more than Python's own rounding, which its run in longer floats tells."""
    with np.errstate(all="ignore"):
        if want.dtype.kind != "f":
            return (got != want).ravel()
        same = (got == want) & (np.signbit(got) == np.signbit(want))
        if _LARGER.search(lines):
            same |= (
                got == want
            )  # which zero is the larger one, NumPy's own loops of one and of many elements do not agree
        same |= np.isnan(got) & np.isnan(want)
        scale = np.abs(want)
        if x.dtype.kind == "f" and x.size and want.size == 1:
            scale = (
                scale + np.abs(x[np.isfinite(x)].astype(np.longdouble)).sum() / 8
            )  # sums may be reordered
        near = (
            np.abs(got.astype(np.longdouble) - want)
            <= 8 * np.finfo(want.dtype).eps * scale + 4 * np.finfo(want.dtype).smallest_subnormal
        )
        return ~(same | (near & np.isfinite(got) & np.isfinite(want) & (want != 0))).ravel()


_OPERANDS = [
    "x",
    "y",
    "x",
    "y",
    "1",
    "2",
    "0.1",
    "{f}",
    "x.astype(np.float64)",
    "x.astype(np.int64)",
]
_UNARY = [
    "-{}",
    "abs({})",
    "np.exp({})",
    "np.floor({})",
    "np.tanh({})",
    "np.sqrt({})",
    "({}).astype(np.float32)",
    "np.square({})",
]
_BINARY = [
    "({} + {})",
    "({} - {})",
    "({} * {})",
    "({} / {})",
    "({} // {})",
    "({} % {})",
    "np.maximum({}, {})",
    "({} & {})",
]
_BINARY += ["np.where({} > 0, {}, x)", "({} > {})", "({} == {})", "({} < {})"]


def random_body(seed):
    """Return the lines and the dtype of a random body."""
    rng = random.Random(seed)

    def term(depth):
        if depth == 0 or rng.random() < 0.15:
            return rng.choice(_OPERANDS)
        if rng.random() < 0.3:
            return rng.choice(_UNARY).format(term(depth - 1))
        return rng.choice(_BINARY).format(term(depth - 1), term(depth - 1))

    text = term(3).replace("{f}", "2")
    if rng.random() < 0.4:
        element = text.replace("x.astype(np.float64)", "float(x[i])").replace(
            "x.astype(np.int64)", "i"
        )
        element = element.replace(".astype(np.float32)", "")
        for name in "xy":
            element = element.replace(f"({name} ", f"({name}[i] ").replace(
                f" {name})", f" {name}[i])"
            )
        return (
            f"out = np.empty_like(x)\nfor i in range(len(x)): out[i] = {element}\nreturn out",
            rng.choice(DTYPES),
        )
    return f"return {text}", rng.choice(DTYPES)
