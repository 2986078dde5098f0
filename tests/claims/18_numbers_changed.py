"""What tutorial 18_numbers_changed claims: run after its last cell, among the notebook's own names."""

assert [step.name for step in upgraded.origins] == ["attended (Attention)"]
assert there.runtime.startswith("onnxruntime 1.25.0 on ")
assert judged.ok
assert changed.optimizers
assert changed.remaining.ok
assert any("overflows float16" in change for change in overflow.origin.changes)
assert not any(step.verdict == "origin" for step in scaled.steps)
assert not wrong_axis["sample alone"].ok
assert right_axis.ok
assert len(smallest.model.graph.node) <= 10
assert (report / "reproduce.py").exists()
assert same.ok and same.origin is None
assert damaged.origin.name.startswith("n25")
assert layouts.ok and layouts.origin is None
assert any("overflows float16" in change for change in accelerator.origin.changes)
assert len(accelerator.node_block_list) > 50 and accelerator.with_block_list != "different"
