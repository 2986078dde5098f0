"""What tutorial 05_watch_and_interact claims: run after its last cell, among the notebook's own names."""

import math
import sys

assert isinstance(sys.last_value, pyopnb.errors.InputError)
np.testing.assert_allclose(first, np.gradient(photo, axis=1), atol=1e-6)
np.testing.assert_allclose(second, sum(np.gradient(photo)) / math.sqrt(2), atol=1e-6)
assert isinstance(error, AttributeError)
assert watched.runs >= 3
assert watched.error is None
np.testing.assert_allclose(panel.result["y"], -second, atol=1e-6)
np.testing.assert_allclose(panel.reference["y"], second, atol=1e-6)
np.testing.assert_allclose(turned.array("y")[1], second, atol=1e-6)
