"""What tutorial 13_next_token claims: run after its last cell, among the notebook's own names."""

assert (prompt + beginning + as_learned)[:80] == text[text.index(prompt) :][:80]
assert state[1].shape == (2, 1, 4, len(prompt) + 39, 16)
assert short_sighted != as_learned
assert parted.origin.op == "demo::Attend"
assert again == as_learned
