"""Arrays of one axis, and their diffs, as curves."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import pyopnb
from pyopnb.diffs.arrays.diff import Diff
from pyopnb.errors import InputError

WAVE = np.sin(np.arange(64) / 5).astype(np.float32)


def lines(svg: str) -> int:
    return len(re.findall(r'<path [^>]*stroke="#(?!757b82|8c959f)[^"]*" stroke-width="1.5"', svg))


def test_one_axis_is_a_line_and_a_few_channels_are_several() -> None:
    assert lines(pyopnb.show(WAVE).svg) == 1
    assert lines(pyopnb.show(WAVE.reshape(1, 64, 1)).svg) == 1
    assert lines(pyopnb.show(np.stack([WAVE] * 8, axis=1)).svg) == 8
    assert "<image" in pyopnb.show(np.stack([WAVE] * 9, axis=1)).svg
    assert "<image" in pyopnb.show(np.zeros((20, 8))).svg


def test_the_points_of_few_numbers_are_marked_and_a_gap_is_left() -> None:
    svg = pyopnb.show(np.float32([3, 4, np.nan, 5, 6])).svg
    (curve,) = re.findall(r'<path d="([^"]*)"[^>]*stroke-width="1.5"', svg)
    assert curve.count("M") == 2 and svg.count('rx="1.5"') == 4
    assert pyopnb.show(np.arange(33)).svg.count('rx="1.5"') == 33


def test_five_numbers_are_shown_once() -> None:
    view = pyopnb.show(np.float32([0.1, 0.5, -0.2, 1, 3]))
    assert "<img" not in view.body and "-0.2</td>" in view.body
    assert not set(view.body) & set("▁▂▃▄▅▆▇█")
    # As many as are no longer read one by one have a curve alone.
    assert view.body.count("<table") == 1 and "<table" not in pyopnb.show(WAVE).body
    assert "<img" in pyopnb.show(np.float32([1, 2, 3]), limits=(0, 4)).body


def test_a_curve_is_drawn_over_the_feed_that_rises_or_falls() -> None:
    x = np.linspace(-4, 4, 64, dtype=np.float32)
    feeds = {"noise": np.cos(x), "short": x[1:], "k": np.float32(2), "x": x.reshape(1, 64)}
    svg = pyopnb.show({"y": WAVE}, feeds=feeds).svg
    assert ">x<" in svg and ">index<" not in svg and ">-4<" in svg
    assert ">x<" in pyopnb.show(WAVE, feeds={"x": -x}).svg
    for value in (np.cos(x), x[1:], np.where(x > 0, np.nan, x), np.zeros(64), x.astype(str)):
        assert ">index<" in pyopnb.show(WAVE, feeds={"x": value}).svg
    # Of many numbers, the extremes stand where their part of the axis begins.
    long = np.linspace(0, 1e-4, 5_000)
    assert ">8e-05<" in pyopnb.show(np.sin(long), feeds={"f": long}).svg
    broken = WAVE.copy()
    broken[32] = np.nan
    (mark,) = re.findall(
        r'<path d="M([\d.]+) 0v?l?[^"]*"[^>]*dasharray', pyopnb.show(broken, feeds={"x": x}).svg
    )
    assert float(mark) == pytest.approx(56 + 480 * 32 / 63, abs=0.2)


def boxes(view: pyopnb.display.View) -> list[tuple[float, ...]]:
    pattern = r'<rect x="([\d.]+)"(?: y="([\d.]+)")? width="([\d.]+)" height="([\d.]+)" fill="none" stroke="#cc3311"'
    return [tuple(float(part or 0) for part in found) for found in re.findall(pattern, view.svg)]


def test_boxes_are_drawn_on_their_picture() -> None:
    picture = np.zeros((1, 3, 128, 256), np.float32)
    picture[0, 0] = 1
    found = np.float32([[64, 32, 128, 64], [200, 100, 400, 200], [5, 5, 2, 2], [np.nan, 0, 9, 9]])
    view = pyopnb.show({"boxes": found, "scores": np.float32([0.5])}, picture=picture)
    assert boxes(view) == [(64, 32, 64, 32), (200, 100, 56, 28)]
    assert "left, top, right, bottom in pixels" in view.body and ">1</text>" in view.svg
    shares = pyopnb.show(found[:1] / np.float32([256, 128, 256, 128]), picture=picture)
    assert boxes(shares) == [(64, 32, 64, 32)] and "in shares of the picture" in shares.body
    many = pyopnb.show(np.tile(found[:1], (500, 1))[None], picture=picture[0].transpose(1, 2, 0))
    assert len(boxes(many)) == 100 and "100 of 500." in many.body
    assert boxes(pyopnb.show(np.zeros((0, 4)), picture=picture)) == []
    for wrong in (np.zeros((2, 3, 20, 20)), np.zeros((20, 20))):
        with pytest.raises(InputError, match="picture|channels"):
            pyopnb.show(found, picture=wrong)


def test_a_spike_of_a_million_numbers_is_seen() -> None:
    values = np.zeros(1_000_000, np.float32)
    before = pyopnb.show(values, limits=(-10, 10)).svg
    values[654_321] = 9
    after = pyopnb.show(values, limits=(-10, 10)).svg
    assert before != after and len(after) < 20_000


def test_the_first_nan_is_marked() -> None:
    values = WAVE.copy()
    values[[17, 40]] = np.nan
    assert "NaN or Inf at 17" in pyopnb.show(values).svg


def test_a_diff_has_both_curves_and_their_difference() -> None:
    view = pyopnb.show(pyopnb.diff(WAVE + np.float32(0.5), WAVE))
    assert lines(view.svg) == 3 and {">a<", ">b<", ">a-b<"} <= set(re.findall(">a?-?b?<", view.svg))
    named = pyopnb.show(view.thing, names=("tanh", "clip"))
    assert {">a: tanh<", ">b: clip<"} <= set(re.findall(">[ab]: [a-z]+<", named.svg))
    few = pyopnb.show(pyopnb.diff(WAVE[:3] + 1, WAVE[:3]), names=("tanh", "clip"))
    assert ">a: tanh<" in few.body and ">b: clip<" in few.body
    wide = np.arange(100, dtype=np.int64) + 2**60
    found = pyopnb.diff(wide + 1, wide)
    assert set(found.worst.facts.pairs.difference) == {1.0}, "exact, although no float64 has it"
    assert Diff.from_json(found.to_json())._repr_html_() == found._repr_html_()


def test_a_diff_of_few_numbers_is_a_table_with_the_bad_ones_marked(survives: Any) -> None:
    b = np.arange(20, dtype=np.float64).reshape(4, 5)
    a = b.copy()
    a[0, 3] += 0.5
    a[1, 0] = np.nan
    a[2, 2] += 1e-9
    kept = survives(pyopnb.diff(a, b)._repr_html_())
    assert not kept.pictures
    cells = [text for text in kept.text if text.strip()]
    assert cells.count("✗") == 2 and cells.count("≈") == 1
    assert cells[cells.index("[0,3]") - 1] == "✗" and "0.5" in cells
    assert "|a-b|/|b|" not in "".join(kept.text), "they stand there already"
