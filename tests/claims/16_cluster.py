"""What tutorial 16_cluster claims: run after its last cell, among the notebook's own names."""

assert len(results.runs) == 10_000
assert results.unfinished == []
assert [run.number for run in results.runs] == list(range(10_000))
assert results.array("error")[:100].tolist() == here
assert len(workers) >= 3
assert np.abs(results.array("error") - 10 * np.log10(0.25 / 12)).max() < 2
assert swept.is_complete
assert next(iter(swept.axes)) == "clip"
assert all(abs(best[bits] - known) <= 0.125 for bits, known in [(2, 1.99), (4, 2.68), (6, 3.33)])
assert session.changed_attrs == {}
