"""Charts: the numbers beside their axes."""

from __future__ import annotations

import pytest

from pyopnb.display.svg.chart import line_chart, page
from pyopnb.display.svg.to_svg import to_svg


@pytest.mark.parametrize(
    ("x", "y", "expected"),
    [
        ([0, 5010, 9960], [1, 2, 3], ["3", "2", "1", "0", "5,010", "9,960"]),
        ([1, 2, 3], [-16.83, -16.79, -16.81], ["-16.79", "-16.81", "-16.83"]),
        ([1, 2, 3], [1000.1, 1000.3, 1000.2], ["1000.3", "1000.2", "1000.1"]),
        ([1, 2, 3], [0.5, 0.5, 0.5], ["0.5", "0.5", "0.5"]),
        ([1, 2, 3], [1e-7, 2e9, 1e9], ["2e+09", "1e+09", "1e-07"]),
    ],
)
def test_numbers_beside_an_axis_differ_and_are_written_out(x, y, expected):
    drawn = to_svg(page([line_chart(x, {"y": y}, "y against x", label="x")], "y", in_row=1))
    places = [drawn.index(f">{text}<") for text in expected]
    assert len(places) == len(expected) and "5.01e" not in drawn
