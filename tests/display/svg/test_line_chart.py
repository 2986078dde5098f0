"""Charts of lines: round numbers beside their axes, which never touch, and gaps where numbers are missing."""

from __future__ import annotations

import html
import itertools
import math
import re

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from pyopnb.display.svg.chart import page
from pyopnb.display.svg.line_chart import line_chart
from pyopnb.display.svg.text_width import text_width
from pyopnb.display.svg.to_svg import to_svg


def svg(x, y, **options):
    return to_svg(page([line_chart(x, {"y": y}, "y against x", label="x", **options)], "y"))


def test_a_logarithmic_axis_has_powers_of_ten():
    drawn = svg(range(50), np.geomspace(1e-8, 1, 50), log_y=True)
    assert {">1e-08<", ">1e-05<", ">0.01<"} <= set(re.findall(r">[^<]*<", drawn))
    assert "nan" not in svg([1, 2, 3], [0, -1, 5], log_y=True)


def test_missing_numbers_leave_gaps():
    drawn = svg([1, 2, 3, 4, 5], [1, 2, math.nan, 4, 5])
    (line,) = re.findall(r'd="([^"]*)"[^>]*stroke="#0077bb"', drawn)
    assert line.count("M") == 2


# Where the largest floats are the ends of an axis, its ticks overflow; there is no sense in
# such numbers in a chart.
NUMBERS = st.floats(-1e300, 1e300) | st.sampled_from([math.nan, math.inf, -math.inf])


@settings(max_examples=60)
@given(
    st.lists(NUMBERS, min_size=1, max_size=80),
    st.booleans(),
    st.lists(st.text(max_size=30), max_size=1),
)
def test_no_texts_overlap_whatever_the_numbers(y, log_y, names):
    drawn = svg(range(len(y)), y, log_y=log_y, names=names * len(y))
    axis = re.findall(r'<text class="(\w+)" x="([-\d.]+)" y="([-\d.]+)">([^<]*)<', drawn)
    below = []
    for _, x, at, text in axis:
        if at == "217":
            below.append((float(x), text_width(html.unescape(text), 10)))
    below.sort()
    for (x, width), (after, after_width) in itertools.pairwise(below):
        assert x + width / 2 <= after - after_width / 2
    assert "nan" not in drawn.replace("nan</text>", "") and "inf" not in drawn
