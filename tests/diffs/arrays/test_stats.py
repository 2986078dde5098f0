"""The semantics of `diff`: hard cases one by one, and what must hold for any two arrays."""

from __future__ import annotations

from itertools import permutations
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from pyopnb import diff
from pyopnb.diffs.arrays.diff import Diff
from pyopnb.diffs.arrays.stats import array_stats
from pyopnb.engine.ops.dtypes import DTYPES

NAN, INF = float("nan"), float("inf")
SAME, VALUE, CLOSE, DIFFERENT, NOT = (
    "bit-identical",
    "value-identical",
    "close",
    "different",
    "incomparable",
)
f16, f32, f64, c64 = np.float16, np.float32, np.float64, np.complex64
bf16, e4m3, e5m2 = ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2
LOW, HIGH = np.iinfo(np.int64).min, np.iinfo(np.int64).max


def arr(kind: Any, *values: Any) -> np.ndarray:
    return np.array(values, kind)


def texts(*values: Any) -> np.ndarray:
    return np.array(values, object)


def nan_of(bits: int) -> np.ndarray:
    return np.array([bits], np.uint32).view(f32)


class Unequal:
    def __eq__(self, other: object) -> bool:
        raise AssertionError("an element's own __eq__ is not asked")

    __hash__ = None  # type: ignore[assignment]


CASES: dict[str, tuple[Any, Any, str]] = {
    "int32 extremes": (arr(np.int32, 2**31 - 1), arr(np.int32, -(2**31)), DIFFERENT),
    "int64 extremes": (arr(np.int64, LOW), arr(np.int64, HIGH), DIFFERENT),
    "int64 neighbors at the end": (arr(np.int64, HIGH), arr(np.int64, HIGH - 1), DIFFERENT),
    "uint64 neighbors": (arr(np.uint64, 2**64 - 1), arr(np.uint64, 2**64 - 2), DIFFERENT),
    "int64 same extremes": (arr(np.int64, LOW, HIGH), arr(np.int64, LOW, HIGH), SAME),
    "int8 one apart": (arr(np.int8, 127), arr(np.int8, 126), DIFFERENT),
    "bool": (arr(bool, True, False), arr(bool, True, True), DIFFERENT),
    "NaN against NaN": (arr(f32, NAN, 1), arr(f32, NAN, 1), SAME),
    "NaN of other bits": (nan_of(0x7FC00000), nan_of(0x7FC00001), VALUE),
    "NaN against a number": (arr(f32, NAN), arr(f32, 1), DIFFERENT),
    "a number against NaN": (arr(f32, 1), arr(f32, NAN), DIFFERENT),
    "NaN against infinity": (arr(f32, NAN), arr(f32, INF), DIFFERENT),
    "Inf against Inf": (arr(f32, INF), arr(f32, INF), SAME),
    "Inf against Inf, the rest close": (arr(f32, INF, 1), arr(f32, INF, 1.000001), CLOSE),
    "Inf against -Inf": (arr(f32, INF), arr(f32, -INF), DIFFERENT),
    "Inf against the largest": (arr(f32, INF), arr(f32, np.finfo(f32).max), DIFFERENT),
    "0 against -0": (arr(f32, 0.0), arr(f32, -0.0), VALUE),
    "float16 0 against -0": (arr(f16, 0.0), arr(f16, -0.0), VALUE),
    "bfloat16 0 against -0": (arr(bf16, 0.0), arr(bf16, -0.0), VALUE),
    "complex 0 against -0": (arr(c64, 0), arr(c64, complex(0, -0.0)), VALUE),
    "complex, imaginary part": (arr(c64, 1 + 1j), arr(c64, 1 + 2j), DIFFERENT),
    "complex, close": (arr(c64, 1 + 1j), arr(c64, 1 + 1.000001j), CLOSE),
    "complex NaN parts": (arr(c64, complex(NAN, 1)), arr(c64, complex(NAN, 2)), DIFFERENT),
    "complex infinities": (arr(c64, complex(INF, 1)), arr(c64, complex(-INF, 1)), DIFFERENT),
    "subnormals hidden by atol": (arr(f32, 1e-40), arr(f32, 2e-40), CLOSE),
    "1e-30 against 2e-30": (arr(f32, 1e-30), arr(f32, 2e-30), CLOSE),
    "float32 one ulp": (arr(f32, 1), np.nextafter(arr(f32, 1), f32(2)), CLOSE),
    "float64 1e-6 apart": (arr(f64, 1), arr(f64, 1 + 1e-6), DIFFERENT),
    "float64 farther apart than its range": (arr(f64, 1e308), arr(f64, -1e308), DIFFERENT),
    "float32 farther apart than its range": (arr(f32, 3e38), arr(f32, -3e38), DIFFERENT),
    "float16 within": (arr(f16, 1), arr(f16, 1.001), CLOSE),
    "bfloat16 one ulp": (arr(bf16, 1), arr(bf16, 1.0078125), CLOSE),
    "bfloat16 NaN": (arr(bf16, NAN), arr(bf16, NAN), SAME),
    "float8_e4m3fn one ulp": (arr(e4m3, 1), arr(e4m3, 1.125), DIFFERENT),
    "float8_e4m3fn NaN": (arr(e4m3, NAN), arr(e4m3, 448), DIFFERENT),
    "float8_e5m2 infinities": (arr(e5m2, INF), arr(e5m2, -INF), DIFFERENT),
    "int4": (arr(ml_dtypes.int4, -8), arr(ml_dtypes.int4, 7), DIFFERENT),
    "uint4": (arr(ml_dtypes.uint4, 15), arr(ml_dtypes.uint4, 15), SAME),
    "strings": (texts("a", "b"), texts("a", "b"), SAME),
    "strings that differ": (texts("naïve"), texts("nai\u0308ve"), DIFFERENT),
    "a str against bytes": (texts("a"), texts(b"a"), DIFFERENT),
    "texts held in other ways": (np.array(["a", "bc"]), texts("a", "bc"), SAME),
    "(2,) against (1,2)": (np.ones(2, f32), np.ones((1, 2), f32), NOT),
    "() against (1,)": (np.ones((), f32), np.ones(1, f32), NOT),
    "(3,) against (1,), which would broadcast": (np.ones(3, f32), np.ones(1, f32), NOT),
    "empty": (np.ones((0, 3), f32), np.ones((0, 3), f32), SAME),
    "empty of other shapes": (np.ones((0, 3), f32), np.ones((3, 0), f32), NOT),
    "dtypes": (np.ones(2, f32), np.ones(2, f64), NOT),
    "int against uint": (np.ones(2, np.int8), np.ones(2, np.uint8), NOT),
    "byte orders": (arr(">f4", 1, 2), arr("<f4", 1, 2), SAME),
    "byte orders of integers": (arr(">i8", LOW), arr("<i8", HIGH), DIFFERENT),
    "not contiguous": (np.arange(12, dtype=f32).reshape(3, 4).T, np.arange(12, dtype=f32).reshape(3, 4).T.copy(), SAME),
    "backwards": (np.arange(5)[::-1], np.arange(5), DIFFERENT),
    "broadcast by strides": (np.broadcast_to(f32(1), (3, 3)), np.ones((3, 3), f32), SAME),
    "0-d": (np.array(1.0), np.array(2.0), DIFFERENT),
    "scalars": (1.5, 1.5, SAME),
    "an int against a float": (1, 1.0, NOT),
    "an int beyond int64": (2**64 - 1, 2**64 - 2, DIFFERENT),
    "an int beyond uint64": (2**70, 2**70, NOT),
    "str": ("a", "b", DIFFERENT),
    "None": (None, None, SAME),
    "None against an array": (None, np.ones(1), NOT),
    "objects": (texts(1, 2), texts(1, 2), NOT),
    "objects that cannot be compared": (texts(Unequal()), texts(Unequal()), NOT),
    "None among strings": (texts("a", None), texts("a", None), NOT),
    "dates": (arr("M8[D]", "2026-01-01"), arr("M8[D]", "2026-01-01"), NOT),
    "records": (np.zeros(1, "i4,f4"), np.zeros(1, "i4,f4"), NOT),
    "long double": (arr(np.longdouble, 1), arr(np.longdouble, 1), NOT if np.dtype(np.longdouble).itemsize > 8 else SAME),
    "masked": (np.ma.array([1.0, 2], mask=[0, 1]), np.ma.array([1.0, 2], mask=[0, 1]), NOT),
    "sequences": ([np.ones(1), np.ones(2)], (np.ones(1), np.ones(2)), SAME),
    "sequences of other lengths": ([np.ones(1)], [np.ones(1), np.ones(1)], NOT),
    "an empty sequence": ([], [], SAME),
    "a sequence against an array": ([1.0, 2.0], np.array([1.0, 2.0]), NOT),
    "maps": ({"k": np.ones(1)}, {"k": np.zeros(1)}, DIFFERENT),
    "maps of other keys": ({"k": np.ones(1)}, {"l": np.ones(1)}, NOT),
    "a sequence with None": ([None, np.ones(1)], [None, np.ones(1)], SAME),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_verdict(name: str) -> None:
    a, b, verdict = CASES[name]
    found, back = diff(a, b), diff(b, a)
    assert found.verdict == verdict == back.verdict
    assert found.ok == (verdict in (SAME, VALUE, CLOSE))
    assert 0 < len(str(found).splitlines()) <= 12
    assert Diff.from_json(found.to_json()) == found


def facts(a: Any, b: Any, **tolerances: Any) -> Any:
    return diff(a, b, **tolerances).parts[0].facts


def test_integers_never_pass_through_float() -> None:
    assert facts(arr(np.int64, LOW), arr(np.int64, HIGH)).largest == 2**64 - 1
    assert facts(arr(np.uint64, 2**64 - 1), arr(np.uint64, 2**64 - 2)).largest == 1
    assert facts(arr(np.int32, 2**31 - 1), arr(np.int32, -(2**31))).worst[0].absolute == 2**32 - 1
    wide = facts(arr(np.uint64, *[2**64 - 1] * 5), arr(np.uint64, *[0] * 5))
    assert wide.mean == wide.bias == float(2**64 - 1)
    assert not diff(arr(np.int64, LOW), arr(np.int64, HIGH), atol=float(2**63)).ok
    assert diff(arr(np.int64, LOW), arr(np.int64, HIGH), atol=float(2**64)).verdict == CLOSE
    assert (
        diff(arr(np.int8, 5), arr(np.int8, 6), rtol=1.0).verdict == DIFFERENT
    )  # a label is not nearly another
    assert facts(arr(ml_dtypes.int4, -8), arr(ml_dtypes.int4, 7)).largest == 15


@pytest.mark.parametrize(
    "row", [row for row in DTYPES if row.name.startswith(("float", "bfloat"))], ids=str
)
def test_units_in_the_last_place_of_every_float(row: Any) -> None:
    """Against a plain count along all values of the dtype, or the lowest of them."""
    every = np.arange(2 ** min(row.bits, 16), dtype=f"u{row.numpy.itemsize}").view(row.numpy)
    with np.errstate(invalid="ignore"):
        values = every.astype(f64)
    zeros = len(np.unique(np.signbit(values[values == 0])))
    values = np.unique(values[np.isfinite(values)] + 0.0)
    near = [i for i in (0, 1, 2, len(values) // 2, len(values) - 3) if i >= 0]
    for i in near:
        for j in near:
            # The dtype's own two zeros are one step apart, and one more on the way from
            # below 0 to above it.
            found = facts(arr(row.numpy, values[i]), arr(row.numpy, values[j])).ulp or 0
            assert found == abs(i - j) + (zeros == 2 and (values[i] < 0) != (values[j] < 0))


def test_classes_are_counted() -> None:
    a = arr(f32, NAN, NAN, 1, INF, INF, INF, 1, 0.0, 1e-40, 2)
    b = arr(f32, NAN, 1, NAN, INF, -INF, 1, INF, -0.0, 1, 2.5)
    found = facts(a, b)
    assert found.classes == {
        "NaN in both": 1, "NaN only in a": 1, "NaN only in b": 1, "infinite in both with the same sign": 1,
        "infinite in both with opposite signs": 1, "infinite only in a": 1, "infinite only in b": 1, "zeros of opposite sign": 1,
        "subnormal in a": 1,
    }  # fmt: skip
    assert (found.odd, found.differing, found.over, found.bits, found.finite) == (5, 7, 7, 8, 3)
    assert found.largest == 1.0 and found.mean == pytest.approx(0.5)
    assert [place.index for place in found.worst] == [(1,), (2,), (4,), (5,), (6,)]
    flips = facts(arr(bool, 1, 1, 0), arr(bool, 0, 0, 1)).classes
    assert flips == {"True in a and False in b": 2, "False in a and True in b": 1}


def test_statistics_against_plain_numpy() -> None:
    rng = np.random.default_rng(3)
    a = rng.standard_normal(50_001).astype(f32)
    b = (a + 1e-3 * rng.standard_normal(a.size)).astype(f32)
    found = array_stats(a, b, 0.0, 1e-3)
    x, y = a.astype(f64), b.astype(f64)
    away = np.abs(x - y)
    assert found.largest == away.max()
    assert found.mean == pytest.approx(away.mean(), rel=1e-5)
    assert found.rms == pytest.approx(np.sqrt((away**2).mean()), rel=1e-5)
    assert found.bias == pytest.approx((x - y).mean(), abs=1e-5 * away.mean())
    assert found.cosine == pytest.approx(x @ y / np.sqrt((x @ x) * (y @ y)), abs=1e-6)
    assert found.snr == pytest.approx(10 * np.log10((y @ y) / (away @ away)), abs=1e-4)
    assert found.peak == np.abs(b).max()
    assert found.psnr == pytest.approx(
        10 * np.log10(float(found.peak) ** 2 / (away**2).mean()), abs=1e-4
    )
    assert found.relative == pytest.approx((away / np.abs(y)).max(), rel=1e-12)
    assert found.over == np.count_nonzero(away > 1e-3)
    assert found.first == (int(np.argmax(away > 1e-3)),)
    assert [place.index[0] for place in found.worst] == np.argsort(-away, kind="stable")[
        :5
    ].tolist()


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_concentration_along_an_axis(axis: int) -> None:
    a = np.zeros((8, 9, 10), f32)
    b = a.copy()
    b[(slice(None),) * axis + (3,)] = 1
    found = facts(b, a)
    assert found.axes[axis].index == 3 and found.axes[axis].most == found.over
    assert f"where: all {found.over} at index 3 of axis {axis} (" in str(diff(b, a))
    assert "of axis" not in str(diff(a + 1, a))


@pytest.mark.parametrize("chunk", [1, 5, 7, 24, 1000])
@pytest.mark.parametrize("order", list(permutations(range(4))))
def test_views_are_compared_as_their_copies_are(order: tuple[int, ...], chunk: int) -> None:
    rng = np.random.default_rng(0)
    a, b = (
        rng.integers(-3, 3, (4, 3, 5, 2), np.int32).transpose(order)[::-1, :, ::2] for _ in range(2)
    )
    assert array_stats(a, b, 0.0, 0.0, chunk) == array_stats(a.copy(), b.copy(), 0.0, 0.0)


# ---- for any two arrays ------------------------------------------------------------------------------------------------------

KINDS = [row.numpy for row in DTYPES if row.name != "string"]
ODD = [
    "M8[s]",
    "m8[D]",
    "i4,f4",
    "O",
    "U3",
    "S3",
    np.longdouble,
    np.clongdouble,
    ml_dtypes.float8_e4m3,
    ">f8",
    ">i2",
    "V3",
]


def filled(kind: Any, shape: tuple[int, ...], seed: bytes) -> np.ndarray:
    """An array of any dtype made of given bytes, over and over."""
    kind = np.dtype(kind)
    count = int(np.prod(shape))
    if kind.kind == "O":
        return np.array(
            [[None, "a", b"a", 1, "ab", NAN][byte % 6] for byte in (seed * (count + 1))[:count]],
            object,
        ).reshape(shape)
    if kind.kind == "U":
        return np.array([str(byte) for byte in (seed * (count + 1))[:count]], kind).reshape(shape)
    raw = np.frombuffer((seed * (count * kind.itemsize + 1))[: count * kind.itemsize], np.uint8)
    if kind.kind == "b":
        raw = raw & 1
    if kind.name in ("int4", "uint4", "int2", "uint2"):
        return (raw.astype(np.int16) & 1).astype(kind).reshape(shape)
    if kind.name.startswith("float4"):
        raw = raw & 15  # what makes float4 never sets the other four bits of its byte
    return raw.copy().view(kind).reshape(shape)


seeds = st.binary(min_size=1, max_size=24) | st.sampled_from(
    [b"\0", b"\xff", b"\0\0\x80\x7f", b"\0\0\x80\xff", b"\0\0\0\x80"]
)
shapes = hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=4)
quick = settings(max_examples=100)


@quick
@given(
    st.sampled_from([*KINDS, *ODD]),
    st.sampled_from([*KINDS, *ODD]) | st.none(),
    shapes,
    shapes | st.none(),
    seeds,
    seeds,
)
def test_it_never_raises_and_reads_back(
    one: Any, other: Any, shape: Any, shape_too: Any, seed: bytes, seed_too: bytes
) -> None:
    a = filled(one, shape, seed)
    b = filled(one if other is None else other, shape if shape_too is None else shape_too, seed_too)
    found, back = diff(a, b), diff(b, a)
    assert len(str(found).splitlines()) <= 12 and found._repr_html_()
    assert Diff.from_json(found.to_json()) == found
    if found.verdict not in ("close", "different"):
        assert found.verdict == back.verdict  # the reference is not the same
    if (there := found.parts[0].facts) and (here := back.parts[0].facts):
        for name in ("count", "bits", "differing", "finite", "odd", "largest", "ulp", "rms"):
            assert getattr(there, name) == getattr(here, name), name
        assert there.bits >= there.differing >= (there.over or 0)
    assert diff(a, a.copy()).verdict in (SAME, NOT)


def test_the_picture_has_the_largest_of_each_field() -> None:
    rng = np.random.default_rng(3)
    b = rng.standard_normal((640, 1280)).astype(f32)
    a = b.copy()
    a[77, 1234] += 1
    a[3, 3], a[100, 150], b[9, 9] = NAN, INF, NAN
    picture = facts(a, b).picture()
    away = np.abs(a.astype(f64) - b)
    away[np.isnan(away)] = INF
    expected = away.reshape(64, 10, 64, 20).max((1, 3))
    assert np.array_equal(picture == 0, expected == 0)
    assert np.array_equal(np.isinf(picture), np.isinf(expected))
    finite = np.isfinite(expected)
    assert ((picture <= expected) & (expected <= picture * 1.126))[finite].all()
