"""What tutorial 01_reload claims: run after its last cell, among the notebook's own names."""

mean, median, sharp = (np.abs(y - photo).mean() for y in (first, second, third))
assert mean > 1.5 * median > 10 * sharp
np.testing.assert_array_equal(fourth, second)
assert (
    pyopnb.diff(version_1, version_2).source[-1].strip("+ ")
    == "return np.median(windows, axis=(2, 3))"
)
assert [version.number for version in pyopnb.registry.history("Mend")] == [1, 2, 4, 5]
np.testing.assert_allclose(means[-1], frames.mean(axis=0), atol=1e-5)
np.testing.assert_array_equal(restarted, frames[0])
