"""onnx-ad evaluates constants; one of a few bytes must not become a tensor of all memory on the way."""

import subprocess
import sys

import pytest

CODE = """
import resource
resource.setrlimit(resource.RLIMIT_AS, (3 << 30, 3 << 30))
import sys, onnx, pyopnb
text = '''<ir_version: 8, opset_import: ["" : 18]> g (float[3] x) => (float loss)
    <float[1] w = {1}, int64[1] big = {1000000000000}, int64 zero = {0}, int64 one = {1}, int64 end = {1000000000000}>
    { BODY  r = ReduceSum<keepdims = 0>(c)  y = Mul(x, w)  z = Mul(y, r)  loss = ReduceSum<keepdims = 0>(z) }'''
pyopnb.grad(onnx.parser.parse_model(text.replace("BODY", sys.argv[1])), "x", verify=False)
"""


@pytest.mark.parametrize(
    "body",
    [
        "i = ConstantOfShape<value = int64[1] {1}>(big)  c = Cast<to = 1>(i)",
        "i = Range(zero, end, one)  c = Cast<to = 1>(i)",
    ],
)
def test_a_small_constant_that_would_take_all_memory(body):
    done = subprocess.run(
        [sys.executable, "-P", "-c", CODE, body], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
