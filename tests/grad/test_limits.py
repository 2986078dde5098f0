"""onnx-ad evaluates constants; one of a few bytes must not become a tensor of all memory on the way."""

import subprocess
import sys

from systems import needs_memory_limits

CODE = """
import resource
resource.setrlimit(resource.RLIMIT_AS, (3 << 30, 3 << 30))
import onnx, pyopnb
text = '''<ir_version: 8, opset_import: ["" : 18]> g (float[3] x) => (float loss)
    <float[1] w = {1}, int64[1] big = {1000000000000}, int64 zero = {0}, int64 one = {1}, int64 end = {1000000000000}, bool yes = {1}>
    { BODY  c = Cast<to = 1>(i)  r = ReduceSum<keepdims = 0>(c)
      y = Mul(x, w)  z = Mul(y, r)  loss = ReduceSum<keepdims = 0>(z) }'''
turns = "body = turn (int64 n, bool c, int64 s) => (bool again, int64 next) { again = Identity(c)  next = Add(s, n) }"
for body in (
    "i = ConstantOfShape<value = int64[1] {1}>(big)",
    "i = Range(zero, end, one)",
    "h = HannWindow(end)  i = Cast<to = 7>(h)",
    f"i = Loop(end, yes, zero) <{turns}>",
):
    model = onnx.parser.parse_model(text.replace("BODY", body))
    print(len(pyopnb.grad(model, "x", verify=False).graph.output))
grid = '''<ir_version: 9, opset_import: ["" : 20]> g (float[1,2,3] x) => (float loss)
    <int64[4] size = {1, 1, 1000000000000, 1}> { y = AffineGrid(x, size)  loss = ReduceSum<keepdims = 0>(y) }'''
try:
    pyopnb.grad(onnx.parser.parse_model(grid), "x", verify=False)
except pyopnb.errors.ModelError as error:
    print(error.where)
"""


@needs_memory_limits
def test_a_small_constant_that_would_take_all_memory():
    command = [sys.executable, "-P", "-c", CODE]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stdout) == (
        0,
        "2\n" * 4 + "the node of output 'y' (::AffineGrid), gradient\n",
    ), done.stderr
