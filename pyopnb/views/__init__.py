"""Models, traces, tensors and diffs as pictures, HTML and text."""
