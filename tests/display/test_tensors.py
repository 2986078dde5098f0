"""Arrays in one line, as tables and as pictures."""

from __future__ import annotations

import base64
import gzip
import html
import io
import json
import re
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays
from photographs import photograph
from PIL import Image

import pyopnb
from pyopnb.errors import InputError

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


@settings(max_examples=60)
@given(
    arrays(
        np.float32,
        array_shapes(max_dims=3, max_side=6),
        elements=st.floats(-(2**20), 2**20, width=32) | st.just(np.nan),
    )
)
def test_line_agrees_with_numpy(values: np.ndarray) -> None:
    text = str(pyopnb.show(values))
    finite = values[np.isfinite(values)].astype(np.float64)
    assert text.startswith(f"float32[{','.join(map(str, values.shape))}]")
    bad = values.size - finite.size
    assert (f"{bad} NaN" in text) == bool(bad) and "Inf" not in text
    if not finite.size:
        return
    if finite.min() == finite.max():
        assert f"  all {finite.min():.6g}" in text
        return
    low, high = map(float, re.search(r"  (\S+) … (\S+)  ", text).groups())
    mean, std = map(float, re.search(r"mean (\S+), std (\S+)", text).groups())
    assert (low, high) == (float(f"{finite.min():.6g}"), float(f"{finite.max():.6g}"))
    assert mean == pytest.approx(finite.mean(), rel=1e-3, abs=1e-6 * np.abs(finite).max())
    assert std == pytest.approx(finite.std(), rel=1e-3, abs=1e-6 * np.abs(finite).max())


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
@pytest.mark.parametrize(
    "shape", [(3, 4), (20, 30), (2, 3, 20, 20), (5000,), (40, 1, 1), (0, 4), (), (1, 1, 40, 50)]
)
def test_every_dtype_and_shape_is_drawn(dtype: Any, shape: tuple[int, ...], survives: Any) -> None:
    values = np.asarray(RNG.integers(0, 3, shape)).astype(dtype)
    view = pyopnb.show(values)
    kept = survives(view._repr_html_())
    line = str(view)
    if 0 < values.size <= 16:  # its numbers are there, and no histogram of them
        line = line.rstrip(" ▁▂▃▄▅▆▇█")
    assert line in "".join(kept.text)
    assert bool(view.svg) == bool(values.size)
    assert bool(kept.pictures) == (values.size > 0 and max([*shape, 0]) > 16)


def png(view: Any) -> bytes:
    """Return the cells of the first heat map of a view, or nothing."""
    images = re.findall(r'href="data:image/png;base64,([^"]*)"', view.svg)
    return base64.b64decode(images[0]) if images else b""


def colors(data: bytes) -> set[tuple[int, ...]]:
    """The colors on white."""
    return set(map(tuple, pixels(data).reshape(-1, 3).tolist()))


def pixels(data: bytes) -> np.ndarray:
    with Image.open(io.BytesIO(data)) as picture:
        page = Image.new("RGBA", picture.size, "white")
        return np.asarray(Image.alpha_composite(page, picture.convert("RGBA")).convert("RGB"))


def test_an_outlier_is_told_and_does_not_wash_out_the_others() -> None:
    values = RNG.standard_normal((2000, 3000)).astype(np.float32)
    plain = pyopnb.show(values)
    values[1234, 567] = 1e6
    view = pyopnb.show(values)
    assert "The farthest from 0 is 1e+06." in view.body and "The farthest" not in plain.body
    assert len(colors(png(view))) > 20
    assert len(view.body) < 120_000


def test_nan_is_seen() -> None:
    values = RNG.standard_normal((2000, 3000)).astype(np.float32)
    assert (213, 0, 127) not in colors(png(pyopnb.show(values)))
    values[7, 7] = np.nan
    assert (213, 0, 127) in colors(png(pyopnb.show(values)))


@pytest.mark.one_python  # what is drawn is ours
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
            assert (
                len(shown) < 4000
                and "\u202e" not in shown
                and "\x1b" not in shown
                and "\x00" not in shown
            )


def test_many_outputs_stay_small(survives: Any) -> None:
    view = pyopnb.show(
        pyopnb.Result({f"output {k}": RNG.standard_normal((64, 64)) for k in range(120)})
    )
    kept = survives(view.body)
    assert kept.pictures and "output 119" in view.text and len(view.text.splitlines()) == 120


# ---- pictures: in their proportions, in their colors


def gray(view: Any) -> np.ndarray:
    seen = pixels(png(view))
    assert (seen == seen[..., :1]).all()
    return seen[..., 0].astype(float)


def circles() -> np.ndarray:
    down, across = np.mgrid[:128, :256]
    return (
        (np.hypot(down - 64, across - 64) < 50) | (np.hypot(down - 64, across - 190) < 55)
    ).astype(np.float32)


@pytest.mark.parametrize("scale", [1, 3, 7])
def test_circles_are_round(scale: int) -> None:
    view = pyopnb.show(circles().repeat(scale, 0).repeat(scale, 1))
    size = re.search(r'<image [^>]*width="([\d.]+)" height="([\d.]+)"', view.svg)
    assert size.groups() == ("256", "128")
    left = gray(view)[:, :128] > 127
    rows, columns = np.nonzero(left)
    assert np.ptp(rows) == pytest.approx(np.ptp(columns), abs=2)


PHOTOGRAPH = photograph("china.jpg")


def layouts() -> dict[str, tuple[np.ndarray, dict[str, Any]]]:
    unit = (PHOTOGRAPH / 255).astype(np.float32)
    normalized = (unit - np.float32([0.485, 0.456, 0.406])) / np.float32([0.229, 0.224, 0.225])
    opaque = np.dstack([PHOTOGRAPH, np.full(PHOTOGRAPH.shape[:2], 255, np.uint8)])
    return {
        "HWC uint8": (PHOTOGRAPH, {}),
        "CHW uint8": (PHOTOGRAPH.transpose(2, 0, 1), {}),
        "HWC": (unit, {}),
        "CHW": (np.ascontiguousarray(unit.transpose(2, 0, 1)), {}),
        "NCHW": (unit.transpose(2, 0, 1)[None], {}),
        "float16": (unit.astype(np.float16), {}),
        "bfloat16": (unit.astype(ml_dtypes.bfloat16), {}),
        "0 to 255": (PHOTOGRAPH.astype(np.float32).transpose(2, 0, 1)[None], {}),
        "HWCA": (opaque, {}),
        "CHWA": (opaque.transpose(2, 0, 1), {"rgb": True}),
        "int16": (PHOTOGRAPH.astype(np.int16), {"rgb": True}),
        "limits": (unit * 3 - 1, {"rgb": True, "limits": (-1, 2)}),
        "normalized": (normalized.transpose(2, 0, 1)[None], {"rgb": True}),
    }


@pytest.mark.one_python  # what is drawn is ours
@pytest.mark.parametrize("name", list(layouts()))
def test_photographs_have_their_colors(name: str, survives: Any) -> None:
    value, options = layouts()[name]
    view = pyopnb.show(value, **options)
    kept = survives(view.body)
    seen = pixels(png(view))
    with Image.fromarray(PHOTOGRAPH) as picture:
        wanted = np.asarray(picture.resize(seen.shape[1::-1], Image.Resampling.BOX)).astype(float)
    if name == "normalized":  # each channel by its own numbers, and one black and white for all
        assert np.corrcoef(seen.ravel(), wanted.ravel())[0, 1] > 0.98
    else:
        assert (
            np.abs(seen - wanted).mean() < 8
            and np.corrcoef(seen.ravel(), wanted.ravel())[0, 1] > 0.98
        )
        assert seen.mean(axis=(0, 1)) == pytest.approx(wanted.mean(axis=(0, 1)), abs=1.5)
    assert (
        seen.shape[1] / seen.shape[0] == pytest.approx(640 / 427, rel=0.02)
        and len(kept.pictures) == 1
    )
    assert ("rgb=False draws the channels" in "".join(kept.text)) == ("rgb" not in options)


@pytest.mark.parametrize(
    "value",
    [
        np.maximum(RNG.standard_normal((1, 64, 7, 7)), 0),
        RNG.random((12, 50, 50)),
        RNG.random((16, 100, 4)),  # boxes
        RNG.standard_normal((3, 64, 64)),
        RNG.integers(0, 2, (3, 40, 40)),
        RNG.random((8, 3, 3, 3)),
        RNG.random((40, 40)) > 0.5,
    ],
)
def test_what_is_no_photograph(value: np.ndarray) -> None:
    view = pyopnb.show(value)
    assert "RGB" not in view.body and "RGB" not in view.svg


def test_fixed_limits() -> None:
    view = pyopnb.show(np.linspace(0, 1, 400).reshape(20, 20), limits=(0.5, 2))
    assert gray(view)[0, 0] == 0 and gray(view).max() == pytest.approx(255 / 3, abs=2)
    one, other = (pyopnb.show(np.full((20, 20), value), limits=(-1, 1)) for value in (0.25, 0.75))
    assert one.svg != other.svg and re.findall(">-?[0-9]<", one.svg) == re.findall(
        ">-?[0-9]<", other.svg
    ) == [
        ">-1<",
        ">0<",
        ">1<",
    ]


def test_a_pixel_that_is_no_number() -> None:
    unit = (PHOTOGRAPH / 255).astype(np.float32)
    unit[100:140, 200:260, 1] = np.nan
    assert (213, 0, 127) in colors(png(pyopnb.show(unit, rgb=True)))


def heat_map(view: pyopnb.display.View) -> np.ndarray:
    """The colors of the first grid of cells of a picture."""
    data = base64.b64decode(re.search(r"png;base64,([^\"]+)", view.svg)[1])
    return np.asarray(Image.open(io.BytesIO(data)).convert("RGBA"))


def shades(view: pyopnb.display.View) -> int:
    """How many colors it has."""
    return len(np.unique(heat_map(view).reshape(-1, 4), axis=0))


def test_row_0_is_below_and_a_scale_is_logarithmic_on_demand() -> None:
    value = np.exp(np.linspace(-20, 20, 900)).reshape(30, 30)
    upper, lower = (pyopnb.show(value, origin=origin) for origin in ("upper", "lower"))
    assert np.array_equal(heat_map(lower), heat_map(upper)[::-1])
    assert upper.svg.index(">row 0<") < upper.svg.index(">row 29<")
    assert lower.svg.index(">row 29<") < lower.svg.index(">row 0<")
    assert shades(upper) < 100
    spread = pyopnb.show(value, log=True, colors="gray")
    assert shades(spread) > 200 and ">log<" in spread.svg
    # Of signed numbers, the sizes are drawn.
    signed = pyopnb.show(value * np.where(np.arange(30) % 2, 1, -1), log=True, colors="gray")
    assert np.array_equal(heat_map(signed), heat_map(spread))
    assert "The colors are of |x|." in signed.body and "Blue is negative" not in signed.body


@pytest.mark.parametrize(
    ("options", "advice"),
    [
        ({"colors": "grey"}, 'colors="gray"'),
        ({"origin": "bottom"}, "origin="),
        ({"limits": (0, 1), "log": True}, "limits=(1e-3, 1)"),
    ],
)
def test_unknown_looks_are_refused(options: dict[str, Any], advice: str) -> None:
    with pytest.raises(InputError, match=re.escape(advice)):
        pyopnb.show(np.eye(20), **options)


@pytest.mark.parametrize(
    ("shape", "in_row"),
    [((2, 6, 28, 28), 6), ((12, 28, 28), 6), ((3, 28, 28), 3), ((4, 16, 28, 28), 8)],
)
def test_a_row_of_slices_is_one_of_the_arrays_own(shape: tuple[int, ...], in_row: int) -> None:
    svg = pyopnb.show(RNG.standard_normal(shape)).svg
    tops = re.findall(r'<image(?: x="[\d.]+")? y="([\d.]+)"', svg)
    assert tops.count(tops[0]) == in_row


def told(view: pyopnb.display.View) -> tuple[dict[str, Any], np.ndarray]:
    """What the script beside a picture of an array knows."""
    facts, packed = re.search(r'data-maps="([^"]+)" data-values="([^"]+)"', view.body).groups()
    assert "array_pointer" not in view.body and view.body.count("<script>") == 1
    return json.loads(html.unescape(facts)), np.frombuffer(
        gzip.decompress(base64.b64decode(packed)), "<f4"
    )


def test_a_picture_holds_its_numbers_where_they_have_room() -> None:
    value = RNG.standard_normal((2, 20, 30)).astype(np.float32)
    value[0, 1, 2] = np.nan
    facts, numbers = told(pyopnb.show(value))
    assert facts["shape"] == [20, 30] and [name for *_, name, _, _ in facts["maps"]] == [
        "0",
        "1",
        "strip",
    ]
    assert np.array_equal(numbers[: value.size], value.ravel(), equal_nan=True)
    # Of many, only the numbers of the scale.
    facts, numbers = told(pyopnb.show(RNG.standard_normal((256, 256))))
    assert len(numbers) == 128 and numbers[0] < 0 < numbers[-1]
    assert "data-values" not in pyopnb.show(PHOTOGRAPH).body
