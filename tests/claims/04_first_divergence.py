"""What tutorial 04_first_divergence claims: run after its last cell, among the notebook's own names."""

from pyopnb.testing import assert_close

assert [step.name for step in before.origins] == ["scaled (Div)", "a2 (Relu)"]
assert [step.name for step in between.origins] == ["a2 (Relu)"]
assert (before.verdict, between.verdict, after.ok, after.origin) == (
    "different",
    "different",
    True,
    None,
)
assert right(first) < right(slow(x=x)) - 0.1
assert_close(fast(x=x), slow(x=x))
