"""Models, traces, tensors, ops and diffs as text, HTML and pictures."""
