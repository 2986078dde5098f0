"""Pictures that follow one another while a slider moves."""

from __future__ import annotations

import re
from base64 import b64decode

import numpy as np

import pyopnb
from pyopnb import Result, diff
from pyopnb.display.steady import SteadyColors

RNG = np.random.default_rng(8)
WAVE = np.sin(np.linspace(0, 20, 64 * 64)).reshape(64, 64).astype(np.float32)


def pictures(html: str) -> list[str]:
    return [b64decode(data).decode() for data in re.findall(r"svg\+xml;base64,([^\"]+)", html)]


def numbers(picture: str) -> list[float]:
    """The texts of a picture that are numbers: the ones of its scale."""
    return [float(text) for text in re.findall(r">(-?[\d.]+(?:e-?\d+)?)</text>", picture)]


def test_the_scale_of_a_result_widens_and_never_narrows() -> None:
    colors = SteadyColors()
    ends = []
    for size in (1.0, 0.1, 2.0, 1.5):
        (picture,) = pictures(colors.result_html(Result({"y": WAVE * np.float32(size)})))
        ends.append(max(numbers(picture)))
    assert np.allclose(ends, [1, 1, 2, 2], atol=0.01)


def test_colors_are_around_zero_once_a_number_is_negative() -> None:
    colors = SteadyColors()
    for low, high in ((0.0, 5.0), (-1.0, 2.0), (0.0, 3.0)):
        colors.hold(Result({"y": np.linspace(low, high, 400).reshape(20, 20)}))
    assert colors.limits["y"] == (-5.0, 5.0)


def test_each_output_has_limits_of_its_own_and_photographs_have_none() -> None:
    colors = SteadyColors()
    photograph = RNG.integers(0, 200, (32, 32, 3)).astype(np.uint8)
    result = Result(
        {
            "a": WAVE,
            "b": np.abs(WAVE) * 50,
            "photo": photograph,
            "text": np.array(["x"]),
            "none": None,
            "bad": WAVE * np.nan,
        }
    )
    before = pyopnb.show(result).body
    html = colors.result_html(result)
    assert colors.limits.keys() == {"a", "b"} and colors.limits["a"][0] == -colors.limits["a"][1]
    assert colors.limits["b"][0] == 0 and 49 < colors.limits["b"][1] <= 50
    assert pictures(html)[2] == pictures(before)[2], "the photograph"


def test_the_scale_of_errors_stays_and_nothing_is_folded() -> None:
    colors = SteadyColors()
    scales = []
    for size in (0.5, 0.01, 0.25):
        html = colors.diff_html(diff(Result({"y": WAVE + np.float32(size)}), Result({"y": WAVE})))
        (picture,) = pictures(html)
        scales.append(max(numbers(picture)))
        assert "<details" not in html and "how much</b>" in html and html.count("<img") == 1
    assert scales == [0.5] * 3
    same = colors.diff_html(diff(Result({"y": WAVE}), Result({"y": WAVE})))
    assert "bit-identical" in same and "<img" not in same
