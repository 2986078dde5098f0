"""What tutorial 10_torch_divergence claims: run after its last cell, among the notebook's own names."""

assert apart > 0.5
assert [step.source.rpartition(" in ")[2] for step in found.origins] == [
    "think (Linear)",
    "decide (Linear)",
]
assert [step.changes[0].partition(":")[0] for step in found.origins] == [
    "weight think.weight",
    "weight decide.weight",
]
assert [step.source.rpartition(" in ")[2] for step in after.origins] == ["think (Linear)"]
assert pyopnb.diff(in_torch, pyopnb.Session(model).trace(in_torch.feeds)).ok
said = [change for step in by_design.origins for change in step.changes]
assert any(text.startswith("training mode: norm (BatchNorm2d)") for text in said)
assert any(text.startswith("random: drop (Dropout)") for text in said)
