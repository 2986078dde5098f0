"""pyopnb's library and onnxruntime-extensions' in one bare session, where an op of ours has a domain of theirs."""

import pytest

pytestmark = pytest.mark.plain  # of theirs, nothing is instrumented

SCRIPT = """
import warnings
from onnx import helper

@pyopnb.pyop("ai.onnx.contrib::Mine")
class Mine:
    def compute(self, x): return x + 1

@pyopnb.pyop("case::Other")
class Other:
    def compute(self, x): return x * 2

def options(*libraries):
    made = onnxruntime.SessionOptions()
    made.log_severity_level = 4
    for library in libraries:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            made.register_custom_ops_library(library)
        for warning in caught:
            print(warning.category.__name__, os.path.basename(warning.filename), str(warning.message))
    return made

def model(*ops):  # of one input and one output each, but for their NegPos, which has two outputs and ends it
    names = ["x", *(f"t{n}" for n in range(1, len(ops))), "y"]
    nodes = [
        helper.make_node(op.split("::")[1], [names[n]], [names[n + 1]] + ["z"] * (op == THEIRS), domain=op.split("::")[0])
        for n, op in enumerate(ops)
    ]
    x, *rest = [helper.make_tensor_value_info(name, 1, ["N"]) for name in ["x", "y"] + ["z"] * (ops[-1] == THEIRS)]
    imports = [helper.make_opsetid(domain, 1) for domain in ("ai.onnx.contrib", "case")] + [helper.make_opsetid("", 17)]
    return helper.make_model(helper.make_graph(nodes, "g", [x], rest), opset_imports=imports, ir_version=9)

def plain(made, given): return onnxruntime.InferenceSession(made.SerializeToString(), given).run(None, {"x": X})

THEIRS, OURS = "ai.onnx.contrib::NegPos", pyopnb.get_library_path()
print(plain(model("ai.onnx.contrib::Mine"), options(OURS))[0])
import onnxruntime_extensions
BOTH = (onnxruntime_extensions.get_library_path(), OURS)
"""


def test_options_with_both_make_no_plain_session_where_a_domain_is_in_both(fresh):
    fresh(f"""{SCRIPT}
for libraries in (BOTH, BOTH[::-1]):
    try:
        plain(model("ai.onnx.contrib::Mine"), options(*libraries))
    except Exception as error:
        print(type(error).__name__)
pyopnb.registry.remove("ai.onnx.contrib::Mine")
negative, positive = plain(model("case::Other", THEIRS), options(*BOTH[::-1]))
assert (negative + positive == X * 2).all()
""").clean("[ 2. -1.  4.]\nFail\nFail\n")


def test_a_session_of_ours_has_both(fresh):
    fresh(f"""{SCRIPT}
given = options(BOTH[0])
made = model("ai.onnx.contrib::Mine", "case::Other", THEIRS)
negative, positive = pyopnb.Session(made, given).run(None, {{"x": X}})
assert (negative + positive == (X + 1) * 2).all() and (positive >= 0).all()
""").clean("[ 2. -1.  4.]\n")
