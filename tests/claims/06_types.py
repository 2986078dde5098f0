"""What tutorial 06_types claims: run after its last cell, among the notebook's own names."""

import sys

for array, turned in zip(arrays, reversed_, strict=True):
    assert (turned.dtype, list(turned)) == (array.dtype, list(array)[::-1])
assert "expected float32[N,D], got float64[150,4]" in str(sys.last_value)
np.testing.assert_allclose(plain[:, 0], np.linalg.norm(measures - centers[0], axis=1), rtol=1e-5)
assert (weighted <= plain).all()
assert right > 0.9
np.testing.assert_array_equal(eighth, [1, 10])
