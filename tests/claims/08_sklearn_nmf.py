"""What tutorial 08_sklearn_nmf claims: run after its last cell, among the notebook's own names."""

from pyopnb.testing import assert_close

assert np.mean(by_sklearn == kinds) > 0.8
np.testing.assert_array_equal(by_sklearn, trained.predict(x / 16))
assert_close(traced, expected, atol=1e-4)
assert_close(again, expected, atol=0.01)
assert np.mean(by_numpy == by_sklearn) > 0.98
np.testing.assert_array_equal(from_file, by_numpy)
