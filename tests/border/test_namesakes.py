"""Ops of other domains with names of ONNX operators: ONNX Runtime looks at op types without domains in places.

For an ``Add`` of one input in any domain, it ended the process, as over 12 other op types; an
``Identity`` it left out.
"""

import pytest

SCRIPT = """
import onnx
from onnx import helper

class Same:
    def compute(self, *xs): return np.full(3, 42, np.float32)
    def infer(self, *types): return "float32[3]"

names = {schema.name: schema.min_input for schema in onnx.defs.get_all_schemas() if schema.domain == ""}
refused = []
for name, fewest in names.items():
    pyopnb.pyop(f"case::{name}")(Same)
    for count in range(max(2, fewest)):
        nodes = [pyopnb.node("Abs", "x", "a"), pyopnb.node("Neg", "a", "b"), pyopnb.node(f"case::{name}", ["a", "b", "x"][:count], "c")]
        model = pyopnb.model([*nodes, pyopnb.node("Abs", "c", "y")], {"x": "float32[3]"}, {"y": "float32[3]"})
        try:
            session = make(model)
        except Exception as error:
            said = str(error)
            assert name == "Constant" or "not in range [min=" in said or "is not a registered function/op" in said, error
            refused.append((name, count))
            continue
        np.testing.assert_array_equal(session.run(None, {"x": X})[0], 42)
    pyopnb.registry.remove(f"case::{name}")
print(len(names) > 150, ("Add", 1) in refused, ("Where", 2) in refused, ("Identity", 1) in refused)
"""


@pytest.mark.one_python
def test_in_sessions_of_pyopnb(fresh):
    fresh("make = pyopnb.Session\n" + SCRIPT).clean("True False False False\n")


@pytest.mark.one_python
def test_in_bare_sessions(fresh):
    # The runtime counts inputs before it looks at op types; it learns that an Add
    # has two at the least.
    fresh("make = bare\n" + SCRIPT).clean("True True True True\n")


def test_one_in_the_place_of_onnx_s_own_that_a_bare_session_would_not_call(fresh):
    fresh("""
        @pyopnb.pyop("::Identity")
        class Identity:
            def compute(self, x): return x + 1
        model = pyopnb.model(pyopnb.node("::Identity", "x", "y"), {"x": "float32[3]"}, "y")
        print(pyopnb.Session(model)(x=X)["y"])
        try:
            bare(model)
        except Exception as error:
            print("op ::Identity: expected an op type that a bare session can replace" in str(error))
        pyopnb.registry.remove("::Identity")
        print(bare(model).run(None, {"x": X})[0])
    """).clean("[ 2. -1.  4.]\nTrue\n[ 1. -2.  3.]\n")
