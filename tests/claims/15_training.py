"""What tutorial 15_training claims: run after its last cell, among the notebook's own names."""

assert relu["y"].tolist() == [0, 0, 0, 1, 2]
assert relu["grad_x"].tolist() == [0, 0, 0, 1, 1]
assert checked.ok
assert first_scores[-1][1] >= 0.95
assert accuracy >= 0.97
assert accuracy == result.scores[-1][1]
assert [step for step, _ in result.marks] == [10 * 43 + 1]
assert result.marks[0][1] == "demo::Swish version 2"
assert not np.array_equal(result.weights["kernel_1"], weights["kernel_1"])
