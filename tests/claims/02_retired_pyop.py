"""What tutorial 02_retired_pyop claims: run after its last cell, among the notebook's own names."""

import sys

assert isinstance(sys.last_value, pyopnb.errors.ModuleRefused)
np.testing.assert_array_equal(from_file["F"], [37, 37])
np.testing.assert_array_equal(from_cell["F"], [37, 37])
np.testing.assert_array_equal(changed["F"], [42, 42])
np.testing.assert_allclose(clipped["y"], 3 * np.tanh((x - 37) / 3), rtol=1e-6)
np.testing.assert_allclose(redefined["y"], (x - 37) / (1 + np.abs(x - 37) / 3), rtol=1e-6)
