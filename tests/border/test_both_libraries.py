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

WARNING = (
    "UserWarning script.py ai.onnx.contrib::Mine: not in these options, as ONNX Runtime takes a domain from one library, and "
    "onnxruntime-extensions, which is registered in them, has ai.onnx.contrib. Try: pyopnb.Session(model, options), which has both, or "
    "another domain\n"
)


def test_their_domain_is_left_to_them_where_their_library_is_registered(fresh):
    fresh(f"""{SCRIPT}
given = options(*BOTH)
negative, positive = plain(model("case::Other", THEIRS), given)
assert (negative + positive == X * 2).all() and (positive >= 0).all()
try:
    plain(model("ai.onnx.contrib::Mine"), given)
except Exception as error:
    print("ai.onnx.contrib:Mine(-1) is not a registered function/op" in str(error))
""").clean(f"[ 2. -1.  4.]\n{WARNING}True\n")


def test_importing_theirs_takes_no_op_out_of_plain_sessions(fresh):
    fresh(f"""{SCRIPT}
given = options(OURS)
print(plain(model("ai.onnx.contrib::Mine", "case::Other"), given)[0])
try:
    given.register_custom_ops_library(BOTH[0])
except pyopnb.errors.RunRefused as error:
    print("before that of pyopnb" in str(error))
pyopnb.registry.remove("ai.onnx.contrib::Mine")
negative, positive = plain(model("case::Other", THEIRS), options(*BOTH[::-1]))
assert (negative + positive == X * 2).all()
""").clean("[ 2. -1.  4.]\n[ 4. -2.  8.]\nTrue\n")


# Orders of registering, which test_both_are_in_one_session_in_either_order tries as well, take 3 s each.
@pytest.mark.parametrize("order", [pytest.param("BOTH", marks=pytest.mark.everywhere), "BOTH[:1]"])
def test_what_the_warning_advises_runs(fresh, order):
    fresh(f"""{SCRIPT}
given = options(*{order})
made = model("ai.onnx.contrib::Mine", "case::Other", THEIRS)
negative, positive = pyopnb.Session(made, given).run(None, {{"x": X}})
assert (negative + positive == (X + 1) * 2).all() and (positive >= 0).all()
pyopnb.registry.define(Mine, "mine::Mine")
pyopnb.registry.remove("ai.onnx.contrib::Mine")
print(plain(model("mine::Mine"), options(*BOTH))[0])
""").clean(f"[ 2. -1.  4.]\n{WARNING if order != 'BOTH[:1]' else ''}[ 2. -1.  4.]\n")
