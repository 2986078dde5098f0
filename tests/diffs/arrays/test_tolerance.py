"""Which tolerances pass, from a few corners."""

from __future__ import annotations

import numpy as np
from hypothesis import example, given
from hypothesis import strategies as st

from pyopnb.diffs.arrays.stats import array_stats
from pyopnb.diffs.arrays.tolerance import SLACK, Frontier

numbers = st.floats(5e-324, 1e307)


def frontier_of(
    points: list[tuple[float, float]], by: int = 1000
) -> tuple[Frontier, list[tuple[float, float]]]:
    """Return the frontier of points (|b|, |a - b|), and the points as they are once a is rounded."""
    b, away = np.array(points).T.copy()
    a = b + away
    rounded = list(zip(b.tolist(), np.abs(a - b).tolist(), strict=True))
    return array_stats(a, b, 0.0, 0.0, by).frontier, rounded


@example(
    [(1.8e-233, 3.4e75), (5e-324, float(np.nextafter(3.4e75, 1e76)))], 1, 0.0, 1.0
)  # a slope past the largest double
@example([(2e200, 1.9e200), (1e200, 1e200)], 1, 0.97, 5e-324)  # products past the largest double
@example([(2e-200, 1.9e-200), (1e-200, 1e-200)], 1, 0.97, 5e-324)  # and below the smallest
@given(
    st.lists(st.tuples(numbers, numbers), min_size=1, max_size=30),
    st.integers(1, 7),
    st.floats(0, 1e3),
    numbers,
)
def test_corners_judge_like_all_points(
    points: list[tuple[float, float]], by: int, rtol: float, atol: float
) -> None:
    found, points = frontier_of(points, by)
    assert found.largest == max(d for _, d in points)
    for factor in (
        1 - 1e-9,
        1 + 1e-9,
    ):  # a bound that is met but for rounding may be said to be either
        tried = rtol * factor, atol * factor
        plain = all(d <= (tried[1] + tried[0] * t) * (1 + SLACK) for t, d in points)
        near = any(abs(d - (tried[1] + tried[0] * t)) <= 1e-11 * d for t, d in points)
        assert near or found.passes(*tried) == plain


def test_corners_of_a_curve_stay_few_and_on_the_safe_side() -> None:
    t = np.linspace(1e-3, 10, 200_000)
    found, points = frontier_of(list(zip(t, np.sqrt(t), strict=True)))
    d = np.array(points)[:, 1]
    assert len(found.corners) <= 512
    for rtol in (0.0, 0.2, 1.0, 5.0):
        least = float((d - rtol * t).max())
        assert not found.passes(rtol, least * 0.999) and found.passes(rtol, least * 1.01)
    assert d.max() <= found.atol() * (1 + 1e-9) and found.atol() <= d.max() * 1.01


def test_what_no_relative_tolerance_covers() -> None:
    found = Frontier(((1.0, 0.5),), at_zero=0.25)
    assert (found.largest, found.relative, found.rtol(), found.atol()) == (0.5, 0.5, None, 0.5)
    assert found.passes(1.0, 0.25) and not found.passes(1.0, 0.24)
    nothing = Frontier()
    assert nothing.largest == nothing.relative == nothing.rtol() == nothing.atol() == 0.0
