"""Mistakes in ``%%pyop`` cells: in the class, and in what its ``compute`` returns."""

from __future__ import annotations

from mistake import Mistake

MISTAKES = (
    Mistake(
        "an input with a default",
        """
        %%pyop -q -d demo
        class Plus:
            def compute(self, x, «by=1»):
                return x if by is None else x + by
        """,
        ("class Plus, compute, input by: expected no default, or None for an optional input, got 1",),
        "pyopnb.call('demo::Plus', np.int64([1, 2])).tolist() == [1, 2]",
    ),
    Mistake(
        "no method compute",
        """
        %%pyop -q -d demo
        class Same:
            «def forward(self, x): return x»
        """,
        ("class Same: expected a compute method, got none",),
        "pyopnb.call('demo::Same', np.int64([1, 2])).tolist() == [1, 2]",
    ),
)
