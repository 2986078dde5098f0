"""The order of a scale can be seen, also without its hues, and pictures on light and dark pages."""

import re

import numpy as np
import pytest

import pyopnb
from pyopnb.display.svg.colors import (
    DARK,
    ColorScale,
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


PAGES = {"light": "#ffffff", "dark": "#111111"}
DIFFERENT = [np.linspace(-1, 1, 400).reshape(20, 20), np.zeros((20, 20))]


def rules(svg):
    """What the style sheet says of each selector, for pages that are light and dark."""
    sheet = re.search(r"<style>(.*?)</style>", svg)[1]
    media = r"@media\(prefers-color-scheme:dark\)\{(.*?\})\}"
    pair = r"([^{}@]+)\{([^{}]*)\}"
    light = re.findall(pair, re.sub(media, "", sheet))
    dark = light + [rule for text in re.findall(media, sheet) for rule in re.findall(pair, text)]
    return {"light": light, "dark": dark}


def declared(pairs):
    found = {}
    for _, text in pairs:
        found |= dict(item.split(":", 1) for item in text.split(";"))
    return found


def pictures():
    yield pyopnb.show(np.linspace(-1, 1, 400).reshape(20, 20)).svg
    yield pyopnb.show(np.random.default_rng(0).random((400, 8)).cumsum(axis=0)).svg
    yield pyopnb.show(pyopnb.diff(*DIFFERENT)).svg
    model = pyopnb.parse("(float[N] x) => (float[N] y) { a = Abs(x) b = Neg(a) y = Tanh(b) }")
    yield pyopnb.show(model, marks={"a": "added", "b": "-fused", "y": "slow"}).svg


@pytest.mark.parametrize("theme", PAGES)
def test_words_and_lines_can_be_seen_on_light_and_dark_pages(theme):
    page = PAGES[theme]
    for svg in pictures():
        themed = declared(rules(svg)[theme])
        # Where a browser is wrong about the page, words are read on their halo.
        assert contrast(themed["--pyopnb-ink"], themed["--pyopnb-page"]) >= 4.5
        assert contrast(themed["--pyopnb-ink"], page) >= 4.5
        for color in set(re.findall(r'stroke="(#\w{6})"', svg)):
            assert contrast(color, page) >= 3, color
        # Other words are on a color of their own.
        words = [text for name, text in rules(svg)[theme] if re.fullmatch(r"\.t\d+", name)]
        assert words
        for text in words:
            own = declared([("", text)])
            assert own["fill"] == "var(--pyopnb-ink,currentColor)" or own["stroke"] == "none"


def test_cells_look_the_same_on_light_and_dark_pages():
    for kind in ("sequential", "diverging", "gray"):
        scale = ColorScale(-1.0, 1.0, kind=kind)
        pixels = scale.pixels(np.array([-1.0, 0.0, 0.5, np.nan, np.inf]))
        assert (pixels[:, 3] == 255).all()
        assert pixels[1, :3].tolist() == list(parts(scale.color(0.0)))
    # An element without an error is no color, but the page.
    assert scale.pixels(np.zeros(2), blank_zero=True)[:, 3].tolist() == [0, 0]
