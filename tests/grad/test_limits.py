"""Constants of a few bytes that would become tensors of all memory are refused by `grad` and `train`."""

import subprocess
import sys

import pytest

CODE = """
import resource
resource.setrlimit(resource.RLIMIT_AS, (3 << 30, 3 << 30))
import sys
import numpy as np, onnx, pyopnb

BODIES = {
    "c = ConstantOfShape(big)": "ConstantOfShape",
    "i = ConstantOfShape<value = int64[1] {1}>(big)  c = Cast<to = 1>(i)": "ConstantOfShape",
    "n = Mul(root, root)  i = ConstantOfShape<value = int64[1] {1}>(n)  c = Cast<to = 1>(i)": "ConstantOfShape",
    "c = ConstantOfShape(some)": "ConstantOfShape",
    "i = Range(zero, end, one)  c = Cast<to = 1>(i)": "Range",
    "i = Expand(one, big)  c = Cast<to = 1>(i)": "Expand",
    "c = Tile(w, big)": "Tile",
    "n = Mul(root, root)  c = If (yes) <then_branch = a () => (float[M] t) { t = ConstantOfShape(n) }, "
    "else_branch = b () => (float[1] e) { e = Identity(w) }>": "ConstantOfShape",
    "c = Loop (one, yes, w) <body = l (int64 i, bool g, float[M] v) => (bool h, float[M] u) "
    "{ h = Identity(g)  n = Mul(root, root)  k = Expand(w, n)  u = Add(v, k) }>": "Expand",
    "h = OneHot(root, end, bits)  c = Cast<to = 1>(h)": "OneHot",
}
def peak():
    status = open("/proc/self/status").read()
    return int(status.partition("VmHWM:")[2].split()[0]) >> 10

before = peak()
for body, op in BODIES.items():
    text = '''<ir_version: 8, opset_import: ["" : 18]> g (float[3] x) => (float loss)
        <float[1] w = {1}, int64[1] big = {1000000000000}, int64[1] root = {1000000}, int64[1] some = {900000000},
         int64 zero = {0}, bool yes = {1}, int64 one = {1}, int64 end = {1000000000000}, float[2] bits = {0, 1}>
        { BODY  r = ReduceSum<keepdims = 0>(c)  y = Mul(x, w)  z = Mul(y, r)  loss = ReduceSum<keepdims = 0>(z) }'''
    model = onnx.parser.parse_model(text.replace("BODY", body))
    try:
        if sys.argv[1] == "grad":
            pyopnb.grad(model, "x")
        else:
            data = {"x": np.zeros(3, np.float32)}
            pyopnb.train(model, data, loss="loss", batch_size=3, train=["w"], progress=False)
    except pyopnb.errors.ModelError as error:
        assert op in str(error) and "elements" in str(error), (body, error)
    else:
        raise AssertionError(body)
growth = peak() - before
print("fine" if growth < 100 else growth)
"""


@pytest.mark.parametrize("call", ["grad", "train"])
def test_a_small_model_that_would_take_all_memory(call):
    done = subprocess.run(
        [sys.executable, "-P", "-c", CODE, call], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (0, "fine\n"), done.stderr
