"""onnx-ad evaluates constants; one of a few bytes must not become a tensor of all memory on the way."""

import subprocess
import sys

CODE = """
import resource
resource.setrlimit(resource.RLIMIT_AS, (3 << 30, 3 << 30))
import onnx, pyopnb
text = '''<ir_version: 8, opset_import: ["" : 18]> g (float[3] x) => (float loss)
    <float[1] w = {1}, int64[1] big = {1000000000000}, int64 zero = {0}, int64 one = {1}, int64 end = {1000000000000}>
    { i = BODY  c = Cast<to = 1>(i)  r = ReduceSum<keepdims = 0>(c)
      y = Mul(x, w)  z = Mul(y, r)  loss = ReduceSum<keepdims = 0>(z) }'''
for body in ("ConstantOfShape<value = int64[1] {1}>(big)", "Range(zero, end, one)"):
    model = onnx.parser.parse_model(text.replace("BODY", body))
    print(len(pyopnb.grad(model, "x", verify=False).graph.output))
"""


def test_a_small_constant_that_would_take_all_memory():
    done = subprocess.run([sys.executable, "-P", "-c", CODE], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "2\n2\n"), done.stderr
