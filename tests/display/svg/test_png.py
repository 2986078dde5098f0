"""PNGs that another decoder reads, and pooling that loses nothing that stands out."""

from __future__ import annotations

import io
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays
from PIL import Image

from pyopnb.display.svg.colors import ColorScale
from pyopnb.display.svg.png import png
from pyopnb.display.svg.pool import edges, pool


def decoded(data: bytes) -> np.ndarray:
    with Image.open(io.BytesIO(data)) as picture:
        picture.load()
        page = Image.new("RGBA", picture.size, "white")
        return np.asarray(Image.alpha_composite(page, picture.convert("RGBA")).convert("RGB"))


@settings(max_examples=40)
@given(arrays(np.uint8, array_shapes(min_dims=2, max_dims=2, max_side=20)))
def test_another_decoder_reads_the_same_few_colors(which: np.ndarray) -> None:
    pixels = np.array([(k, 255 - k, k // 2) for k in range(256)], np.uint8)[which]
    assert png(pixels)[25] == 3, "indices into a palette"
    assert np.array_equal(decoded(png(pixels)), pixels)


@settings(max_examples=60)
@given(
    st.sampled_from([3, 4]).flatmap(
        lambda n: arrays(
            np.uint8, array_shapes(min_dims=2, max_dims=2, max_side=20).map(lambda s: (*s, n))
        )
    )
)
def test_another_decoder_reads_the_same_photograph(pixels: np.ndarray) -> None:
    with Image.open(io.BytesIO(png(pixels))) as picture:
        read = np.asarray(picture.convert("RGBA"))
    assert np.array_equal(read[..., : pixels.shape[-1]], pixels)


def test_another_decoder_reads_a_photograph_of_many_colors() -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (40, 50, 3)).astype(np.uint8)
    assert png(pixels)[25] == 6, "RGBA"
    assert np.array_equal(decoded(png(pixels)), pixels)


@settings(max_examples=60)
@given(
    arrays(
        np.float64,
        array_shapes(min_dims=2, max_dims=2, max_side=30),
        elements=st.floats(-1e150, 1e150) | st.just(np.nan),
    ),
    st.integers(1, 12),
    st.integers(1, 12),
)
def test_each_field_has_its_mean(values: np.ndarray, rows: int, columns: int) -> None:
    found = pool(values, rows, columns, "mean")
    down, across = edges(values.shape[0], rows), edges(values.shape[1], columns)
    for i, j in np.ndindex(found.shape):
        block = values[down[i] : down[i + 1], across[j] : across[j + 1]]
        if not np.isfinite(block).all():
            assert not np.isfinite(found[i, j])
        else:
            exact = float(sum(map(Fraction, block.ravel().tolist())) / block.size)
            assert found[i, j] == pytest.approx(
                exact, rel=1e-9, abs=1e-12 * float(np.abs(block).max())
            )


def test_what_is_not_finite_has_a_color_of_its_own() -> None:
    scale = ColorScale(-1, 1, kind="diverging")
    numbers = np.array([[-1.0, 0.0, 1.0, np.nan, np.inf, -np.inf]])
    drawn = decoded(png(scale.pixels(numbers)))[0]
    assert len({tuple(pixel) for pixel in drawn.tolist()}) == 6
    for value, pixel in zip((-1, 0, 1), drawn, strict=False):
        wanted = [int(scale.color(value)[at : at + 2], 16) for at in (1, 3, 5)]
        assert np.abs(pixel.astype(int) - wanted).max() <= 4
