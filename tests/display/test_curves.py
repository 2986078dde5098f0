"""Arrays of one axis, and their diffs, as curves."""

from __future__ import annotations

import re
from typing import Any

import numpy as np

import pyopnb
from pyopnb.diffs.arrays.diff import Diff

WAVE = np.sin(np.arange(64) / 5).astype(np.float32)


def lines(svg: str) -> int:
    return len(re.findall(r'<path [^>]*stroke="#(?!757b82|8c959f)[^"]*" stroke-width="1.5"', svg))


def test_one_axis_is_a_line_and_a_few_channels_are_several() -> None:
    assert lines(pyopnb.show(WAVE).svg) == 1
    assert lines(pyopnb.show(WAVE.reshape(1, 64, 1)).svg) == 1
    assert lines(pyopnb.show(np.stack([WAVE] * 8, axis=1)).svg) == 8
    assert "<image" in pyopnb.show(np.stack([WAVE] * 9, axis=1)).svg
    assert "<image" in pyopnb.show(np.zeros((20, 8))).svg


def test_few_numbers_are_stems_that_stand_on_zero() -> None:
    svg = pyopnb.show(np.float32([3, 4, np.nan, 5, 6])).svg
    # One path has a stroke for each number that can be drawn, and the axis begins at 0.
    (stems,) = re.findall(r'<path d="([^"]*)"[^>]*stroke-width="1.5"', svg)
    assert stems.count("M") == 4 and ">0<" in svg
    assert pyopnb.show(np.arange(33)).svg.count('rx="1.5"') == 33


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
    assert "worst elements" not in "".join(kept.text), "they stand there already"
