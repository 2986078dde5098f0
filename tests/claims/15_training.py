"""What tutorial 15_training claims: run after its last cell, among the notebook's own names."""

share = 1 / (1 + np.exp(-x))
np.testing.assert_allclose(slopes["y"], x * share, rtol=1e-6)
np.testing.assert_allclose(slopes["grad_x"], share + x * share * (1 - share), rtol=1e-6)
assert checked.ok
assert first_scores[-1][1] >= 0.95
assert accuracy >= 0.97
assert accuracy == result.scores[-1][1]
assert [step for step, _ in result.marks] == [10 * 43 + 1]
assert result.marks[0][1] == "demo::Swish version 2"
assert not np.array_equal(result.weights["kernel_1"], weights["kernel_1"])
