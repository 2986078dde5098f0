"""What tutorial 03_missing_operator claims: run after its last cell, among the notebook's own names."""

import sys

from pyopnb.testing import assert_close

assert isinstance(sys.last_value, pyopnb.errors.UnknownName)
assert [row.op.partition("-")[0] for row in missing] == ["::ThresholdedRelu", "acme::RBF"]
assert np.mean(wrong.argmax(axis=1) == kinds) < 0.5
assert np.mean(right.argmax(axis=1) == kinds) > 0.95
assert_close(right, expected, rtol=1e-9, atol=1e-9)
assert report.ok
