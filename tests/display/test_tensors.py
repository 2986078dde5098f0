"""Arrays in one line, as tables and as pictures."""

from __future__ import annotations

import io
import re
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays
from PIL import Image

import pyopnb
from pyopnb.display.tensors import describe
from pyopnb.runtime.trace.summary import summary_of

RNG = np.random.default_rng(2)
HOSTILE = [
    "<script>alert(1)</script>",
    "\"'><img src=x onerror=alert(1)>",
    "x" * 10_000,
    "\u202eevil",
    "\x1b[31mred\x00",
    "&amp;",
    "\ud800",
]


@settings(max_examples=60, deadline=None)
@given(
    arrays(np.float32, array_shapes(max_dims=3, max_side=6), elements=st.floats(-(2**20), 2**20, width=32) | st.just(np.nan))
)
def test_line_agrees_with_numpy(values: np.ndarray) -> None:
    text = describe(summary_of(values))
    finite = values[np.isfinite(values)].astype(np.float64)
    assert text.startswith(f"float32[{','.join(map(str, values.shape))}] n={values.size}")
    bad = values.size - finite.size
    assert (f"{bad} NaN!" in text) == bool(bad) and "Inf" not in text
    if not finite.size:
        return
    if finite.min() == finite.max():
        assert ("all zero" in text) == (not finite.any() and not bad)
        return
    low, high = map(float, re.search(r"x∈\[(\S+), (\S+)\]", text).groups())
    mean, std = map(float, re.search(r"μ=(\S+) σ=(\S+)", text).groups())
    assert (low, high) == (float(f"{finite.min():.4g}"), float(f"{finite.max():.4g}"))
    assert mean == pytest.approx(finite.mean(), rel=1e-3, abs=1e-6 * np.abs(finite).max())
    assert std == pytest.approx(finite.std(), rel=1e-3, abs=1e-6 * np.abs(finite).max())


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (np.zeros((2, 3), np.int8), "int8[2,3] n=6 all zero"),
        (np.full(3, 7), "int64[3] n=3 x=7"),
        (np.zeros((0, 3), np.float16), "float16[0,3] empty"),
        (np.float32(2.5), "float32[] 2.5"),
        (np.float32(np.nan), "float32[] NaN!"),
        (np.bool_(True), "bool[] True"),
        (np.array([True, False, True]), "bool[3] n=3 2 True, 1 False"),
        (np.array(["a", "b", "a"], object), 'string[3] n=3 2 different, longest "a"'),
        (np.array("a"), 'string[] "a"'),
        (np.array([0, np.inf, -np.inf], np.float32), "float32[3] n=3 x=0 1 +Inf! 1 -Inf!"),
        (np.array([3 + 4j]), "complex128[1] n=1 |x|=5"),
        (np.array([-8, 7], ml_dtypes.int4), "int4[2] n=2 x∈[-8, 7] █▁▁▁▁▁▁▁▁▁▁▁▁▁▁█ μ=-0.5 σ=7.5"),
        (np.array([1e308, -1e308]), "float64[2] n=2 x∈[-1e+308, 1e+308] █▁▁▁▁▁▁▁▁▁▁▁▁▁▁█ μ=0 σ=1e+308"),
    ],
)
def test_lines(value: Any, text: str) -> None:
    said = str(pyopnb.show(value))
    if "1e308" not in text and "e+308" in text:  # what the summary cannot say is left out
        assert text.startswith(said)
    else:
        assert said == text


DTYPES = [
    np.bool_,
    np.int8,
    np.uint64,
    np.float16,
    np.float64,
    np.complex64,
    ml_dtypes.bfloat16,
    ml_dtypes.float8_e4m3fn,
    ml_dtypes.float8_e5m2,
    ml_dtypes.int4,
]


@pytest.mark.parametrize("dtype", DTYPES, ids=lambda one: np.dtype(one).name)
@pytest.mark.parametrize("shape", [(3, 4), (20, 30), (2, 3, 20, 20), (5000,), (40, 1, 1), (0, 4), (), (1, 1, 40, 50)])
def test_every_dtype_and_shape_is_drawn(dtype: Any, shape: tuple[int, ...], survives: Any) -> None:
    values = np.asarray(RNG.integers(0, 3, shape)).astype(dtype)
    view = pyopnb.show(values)
    kept = survives(view._repr_html_())
    assert str(view) in "".join(kept.text)
    assert bool(view.svg) == bool(view.png) == bool(kept.pictures)
    assert bool(kept.pictures) == (values.size > 0 and max([*shape, 0]) > 16)


def colours(data: bytes) -> set[tuple[int, ...]]:
    with Image.open(io.BytesIO(data)) as picture:
        return {colour for _, colour in picture.convert("RGB").getcolors(2**20)}


def test_outlier_is_seen_and_marked() -> None:
    values = RNG.standard_normal((2000, 3000)).astype(np.float32)
    plain = pyopnb.show(values)
    assert "<circle" not in plain.svg
    values[1234, 567] = 1e6
    view = pyopnb.show(values)
    assert "Ringed: 1e+06. " in view.svg and view.svg.count("<circle") == 2
    x, y = map(float, re.search(r'<circle cx="([\d.]+)" cy="([\d.]+)"', view.svg).groups())
    assert x == pytest.approx(256 * 567 / 3000, abs=2) and y - 22 == pytest.approx(256 * 1234 / 2000, abs=2)
    assert len(view.body) < 60_000


def test_what_is_never_negative_looks_like_a_photograph() -> None:
    values = np.arange(400, dtype=np.uint16).reshape(20, 20)
    seen = colours(pyopnb.show(values).png)
    assert all(max(colour) - min(colour) <= 1 for colour in seen) and {(255, 255, 255)} < seen
    assert any(max(colour) - min(colour) > 100 for colour in colours(pyopnb.show(values.astype(np.int32) - 200).png))


def test_nan_is_seen() -> None:
    values = RNG.standard_normal((2000, 3000)).astype(np.float32)
    assert (213, 0, 127) not in colours(pyopnb.show(values).png)
    values[7, 7] = np.nan
    view = pyopnb.show(values)
    assert (213, 0, 127) in colours(view.png) and view.svg.count("<circle") == 2 and "Ringed: what is not finite. " in view.svg
    values[::20, 7] = np.nan
    assert "<circle" not in pyopnb.show(values).svg


def test_slice_of_the_largest_is_among_those_shown() -> None:
    values = RNG.standard_normal((3, 500, 8, 20)).astype(np.float32)
    assert ">2,313<" not in pyopnb.show(values).svg
    values[2, 313, 4, 4] = -77
    svg = pyopnb.show(values).svg
    assert ">2,313<" in svg and "Ringed: -77. " in svg and "16 of 1,500 slices" in svg


def test_small_ones_are_tables(survives: Any) -> None:
    kept = survives(pyopnb.show(np.float32([[1, -2], [np.nan, np.inf]])).body)
    assert not kept.pictures and [text for text in kept.text if text in ("1", "-2", "nan", "inf")] == ["1", "-2", "nan", "inf"]


def test_nothing_large_is_made() -> None:
    import tracemalloc

    values = np.ones((3000, 4000), np.float32).T
    pyopnb.show(values[:100])
    tracemalloc.start()
    pyopnb.show(values)
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert most < values.nbytes / 6


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_texts(text: str, survives: Any) -> None:
    for view in (
        pyopnb.show(np.array([text, "b"], object)),
        pyopnb.show(np.zeros((30, 30)), name=text),
        pyopnb.show({text: np.zeros((30, 30))}),
    ):
        kept = survives(view.body)
        for shown in ("".join(kept.text), *kept.alts, view.text):
            assert len(shown) < 4000 and "\u202e" not in shown and "\x1b" not in shown and "\x00" not in shown


@settings(max_examples=40, deadline=None)
@given(st.text(max_size=40), st.text(max_size=300))
def test_any_text(name: str, text: str) -> None:
    body = pyopnb.show({name: np.array([text], object)}).body
    assert "<script" not in body.lower() and body.count("<pre") == body.count("</pre>") == 2


def test_many_outputs_stay_small(survives: Any) -> None:
    view = pyopnb.show(pyopnb.Result({f"output {k}": RNG.standard_normal((64, 64)) for k in range(120)}))
    kept = survives(view.body)
    assert kept.pictures and "output 119" in view.text and len(view.text.splitlines()) == 120


def test_a_result_draws_itself(survives: Any) -> None:
    result = pyopnb.Result({"y": np.zeros((40, 40), np.float32), "s": [np.zeros(3), np.zeros(2)], "n": None})
    kept = survives(result._repr_html_())
    assert "y: float32[40,40] n=1,600 all zero" in "".join(kept.text) and len(kept.pictures) == 1
    assert repr(result).startswith("y: float32[40,40]\n")
