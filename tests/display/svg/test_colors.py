"""The order of a scale can be seen, also without its hues."""

import pytest

from pyopnb.display.svg.colors import (
    DARK,
    INK,
    palette,
    text_color,
)


def lightness(color):
    linear = [
        p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4
        for p in (part / 255 for part in color)
    ]
    return sum(weight * part for weight, part in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


def parts(color):
    return tuple(int(color[place : place + 2], 16) for place in (1, 3, 5))


def contrast(a, b):
    low, high = sorted((lightness(parts(a)), lightness(parts(b))))
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("kind", ["sequential", "diverging"])
def test_text_can_be_read_on_every_color(kind):
    for color in ("#{:02x}{:02x}{:02x}".format(*color) for color in palette(kind)):
        assert contrast(color, text_color(color)) >= 4.0
    assert text_color("#ffffff") == DARK and contrast("#ffffff", DARK) > 12


@pytest.mark.parametrize("page", ["#ffffff", "#111111"])
def test_words_can_be_read_on_light_and_dark_pages(page):
    assert contrast(page, INK) >= 4.2
