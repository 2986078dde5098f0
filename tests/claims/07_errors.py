"""What tutorial 07_errors claims: run after its last cell, among the notebook's own names."""


def refused(request):
    try:
        request()
    except (pyopnb.PyopError, ValueError) as error:
        return str(error)


def session_of(op):
    return pyopnb.Session(
        pyopnb.model(pyopnb.node(op, "x", "y"), {"x": "float32[N]"}, {"y": "float32[N]"})
    )


assert "expected float32[N,30], got float64[569,30]" in refused(
    lambda: session(x=x.astype(np.float64))
)
for request in (
    lambda: session(X=x),
    lambda: session_of("demo::Lgo"),
    lambda: session_of("demo::Log"),
    lambda: pyopnb.parse("(float[N] x) => (float[N] y) { y = Sofmax(x) }"),
    lambda: pyopnb.pyop("demo::Empty")(type("Empty", (), {})),
    lambda: pyopnb.Session("tumors.onnx"),
    lambda: pyopnb.Session(pointer),
):
    assert refused(request)
assert (trace.first_nonfinite, fixed.first_nonfinite) == ("logs", None)
np.testing.assert_allclose(fixed["y"], np.log1p(x) - np.log1p(x).mean(axis=0), atol=1e-4)
assert zeros.sum() == 78
