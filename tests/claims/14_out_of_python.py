"""What tutorial 14_out_of_python claims: run after its last cell, among the notebook's own names."""

assert p.shape == (297, 10)
assert np.allclose(p.sum(1), 1, atol=1e-5)
assert (p == 0).mean() > 0.5
assert (p.argmax(1) == digits[1500:]).mean() > 0.85
assert [(function.domain, function.name) for function in plain.functions] == [("demo", "Sparsemax")]
assert pyopnb.diff(outside, p).ok
assert pyopnb.diff(by_library, p).ok
assert [(form.name, form.verdict) for form in forms] == [
    ("Python", ""),
    ("ONNX function", "yes"),
    ("C++", "yes"),
]
