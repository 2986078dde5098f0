"""The order of a scale can be seen, also without its hues."""

from itertools import pairwise

import pytest

from pyopnb.display.svg.colours import (
    DARK,
    INK,
    palette,
    text_colour,
    translucent,
)


def lightness(colour):
    linear = [
        p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4
        for p in (part / 255 for part in colour)
    ]
    return sum(weight * part for weight, part in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


def parts(colour):
    return tuple(int(colour[place : place + 2], 16) for place in (1, 3, 5))


def contrast(a, b):
    low, high = sorted((lightness(parts(a)), lightness(parts(b))))
    return (high + 0.05) / (low + 0.05)


def test_a_scale_around_a_middle_is_palest_there():
    colours = palette("diverging")
    assert all(lightness(a) < lightness(b) for a, b in pairwise(colours[:124:4]))
    assert all(lightness(a) > lightness(b) for a, b in pairwise(colours[132::4]))
    assert colours[0][2] > colours[0][0] and colours[-1][0] > colours[-1][2]


def test_a_light_scale_goes_from_black_to_white():
    colours = palette("grey")
    assert all(lightness(a) < lightness(b) for a, b in pairwise(colours[::4]))
    assert max(colours[0]) < 16 and min(colours[-1]) > 250
    assert all(max(colour) - min(colour) <= 1 for colour in colours)


@pytest.mark.parametrize("kind", ["sequential", "diverging"])
def test_text_can_be_read_on_every_colour(kind):
    for colour in ("#{:02x}{:02x}{:02x}".format(*colour) for colour in palette(kind)):
        assert contrast(colour, text_colour(colour)) >= 4.0
    assert text_colour("#ffffff") == DARK and contrast("#ffffff", DARK) > 12


@pytest.mark.parametrize("page", ["#ffffff", "#111111"])
def test_words_can_be_read_on_light_and_dark_pages(page):
    assert contrast(page, INK) >= 4.2


def over(colour, page):
    *parts, opacity = colour
    return tuple(
        round((part * opacity + below * (255 - opacity)) / 255)
        for part, below in zip(parts, page, strict=True)
    )


@pytest.mark.parametrize("kind", ["sequential", "diverging"])
def test_what_is_pale_on_a_light_page_is_dark_on_a_dark_one(kind):
    """And a light page shows the palette itself."""
    for colour, translucent_colour in zip(palette(kind), translucent(kind), strict=True):
        assert over(translucent_colour, (255,) * 3) == pytest.approx(colour, abs=1)
    dark = [lightness(over(colour, (17,) * 3)) for colour in translucent(kind)]
    middle = 0 if kind == "sequential" else 127
    assert dark[middle] < 0.09 and min(dark[0] if middle else 1, dark[-1]) > 1.25 * dark[middle]
