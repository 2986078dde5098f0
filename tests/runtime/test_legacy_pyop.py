"""The retired Python Operator's nodes: its document's example, and what it did."""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Callable

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import pyopnb
from pyopnb.engine.models.ort_capabilities import newest_ir_version, newest_opset

F = TensorProto.FLOAT
X = np.float32([[1, 2], [3, 4]])
Writer = Callable[[str], None]
PLUS_ONE = "class C:\n    def compute(self, x): return x + 1"


@pytest.fixture
def mymodule(tmp_path, monkeypatch):
    """Writes mymodule.py into a folder on sys.path."""
    monkeypatch.syspath_prepend(str(tmp_path))
    sys.modules.pop("mymodule", None)

    def write(text):
        (tmp_path / "mymodule.py").write_text(
            "import numpy as np\n" + textwrap.dedent(text), encoding="utf-8"
        )

    yield write
    sys.modules.pop("mymodule", None)


def pyop(inputs="X", takes=F, gives=F, **attrs):
    """A retired node in the ONNX text form, without its outputs."""
    attrs = {"module": "mymodule", "class_name": "C", **attrs}
    texts = [f'{name} = "{text}"' for name, text in attrs.items()]
    types = f"input_types = {[takes] * len(inputs.split(', '))}, output_types = [{gives}]"
    return f"mydomain.PyOp<{', '.join(texts)}, {types}>({inputs})"


def model(body, kind="float", functions=""):
    return pyopnb.parse(f"""<opset_import: ["" : {newest_opset()}, "mydomain" : 1, "local" : 1]>
        g ({kind}[2,2] X, bool c) => ({kind}[...] Y) {{ {body} }} {functions}""")


def run(body, x=X, **more):
    session = pyopnb.Session(model(body, **more), modules=["mymodule"])
    return session(X=x, c=np.array(True))["Y"].tolist()


def test_the_example_of_the_document(mymodule):
    mymodule("""
        class Multi_1:
            def __init__(self, W1, W2, W3):
                self.W1 = int(W1)
                self.W2 = int(W2)
                self.W3 = int(W3)
            def compute(self, S, P):
                ret = S + P
                return ret + self.W1, ret + self.W2, ret + self.W3
        class Multi_2:
            def compute(self, *kwargs):
                return sum(kwargs[0:-1]), sum(kwargs[1:])
    """)
    # fmt: off
    A, B, C, D, E, F_ = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [2, 3]) for name in "ABCDEF")
    ad1_node = helper.make_node('Add', ['A','B'], ['S'])
    mul_node = helper.make_node('Mul', ['C','D'], ['P'])
    py1_node = helper.make_node(op_type = 'PyOp', #required, must be 'PyOp'
                                inputs = ['S','P'], #required
                                outputs = ['L','M','N'], #required
                                domain = 'pyopmulti_1', #required, must be unique
                                input_types = [TensorProto.FLOAT, TensorProto.FLOAT], #required
                                output_types = [TensorProto.FLOAT, TensorProto.FLOAT, TensorProto.FLOAT], #required
                                module = 'mymodule', #required
                                class_name = 'Multi_1', #required
                                compute = 'compute', #optional, 'compute' by default
                                W1 = '5', W2 = '7', W3 = '9') #optional, must all be strings
    ad2_node = helper.make_node('Add', ['L','M'], ['H'])
    py2_node = helper.make_node('PyOp',['H','N','E'],['O','W'], domain = 'pyopmulti_2',
                                input_types = [TensorProto.FLOAT, TensorProto.FLOAT, TensorProto.FLOAT],
                                output_types = [TensorProto.FLOAT, TensorProto.FLOAT],
                                module = 'mymodule', class_name = 'Multi_2')
    sub_node = helper.make_node('Sub', ['O','W'], ['F'])
    graph = helper.make_graph([ad1_node,mul_node,py1_node,ad2_node,py2_node,sub_node], 'multi_pyop_graph', [A,B,C,D,E], [F_])
    model = helper.make_model(graph, producer_name = 'pyop_model')
    # fmt: on
    # The literal calls of 2020 with today's onnx write versions that no runtime takes yet.
    model.ir_version, model.opset_import[0].version = newest_ir_version(), newest_opset()
    feeds = {name: np.full((2, 3), place, np.float32) for place, name in enumerate("ABCDE", 1)}
    got = pyopnb.Session(model, modules=["mymodule"])(**feeds)["F"]
    assert got.tolist() == [[37] * 3] * 2


def test_nodes_in_bodies_and_in_bodies_of_bodies(mymodule):
    mymodule(PLUS_ONE)
    inner = f"""q = If(c) <then_branch = ii () => (float[2,2] a) {{ a = {pyop()} }},
                            else_branch = ie () => (float[2,2] b) {{ b = Neg(X) }}>"""
    body = f"""Y = If(c) <then_branch = t () => (float[2,2] q) {{ {inner} }},
                          else_branch = e () => (float[2,2] d) {{ d = {pyop()} }}>"""
    assert run(body) == (X + 1).tolist()


def test_nodes_in_functions(mymodule):
    mymodule(PLUS_ONE)
    function = f"""<domain: "local", opset_import: ["" : {newest_opset()}]>
        F (X) => (Y) {{ Y = {pyop()} }}"""
    assert run("m = local.F(X)  Y = local.F(m)", functions=function) == (X + 2).tolist()


@pytest.mark.parametrize(
    ("attribute", "words"),
    [
        ("module", "PyOp module not specified"),
        ("class_name", "PyOp class name not specified"),
        ("input_types", "PyOp node inputs not specified"),
        ("output_types", "PyOp node outputs not specified"),
    ],
)
@pytest.mark.parametrize("how", ["gone", "empty", "other kind"])
def test_the_four_not_specified(attribute, words, how):
    made = model(f"Y = {pyop()}")
    attributes = made.graph.node[0].attribute
    (place,) = [i for i, a in enumerate(attributes) if a.name == attribute]
    kind = attributes[place].type
    del attributes[place]
    if how == "empty":
        empty = "" if kind == onnx.AttributeProto.STRING else []
        attributes.append(helper.make_attribute(attribute, empty, attr_type=kind))
    if how == "other kind":
        attributes.append(helper.make_attribute(attribute, 1.5))
    with pytest.raises(pyopnb.errors.ModelError, match=words):
        pyopnb.Session(made, modules=["mymodule"])


def test_attrs_arrive_as_keyword_arguments_with_their_types(mymodule):
    mymodule("""
        class C:
            def __init__(self, **kw):
                type(self).seen = kw
            def compute(self, x): return x
    """)
    made = model(f"Y = {pyop(W='5')}")
    attrs = {"n": 3, "f": 0.5, "ints": [1, 2], "t": helper.make_tensor("t", F, [1], [2.0])}
    made.graph.node[0].attribute.extend(helper.make_attribute(*pair) for pair in attrs.items())
    pyopnb.Session(made, modules=["mymodule"])
    seen = dict(sys.modules["mymodule"].C.seen)
    assert seen.pop("t").tolist() == [2.0]
    assert seen == {"W": "5", "n": 3, "f": 0.5, "ints": [1, 2]}


def test_compute_can_have_another_name(mymodule):
    mymodule("class C:\n    def forward(self, x): return x + 1")
    assert run(f"Y = {pyop(compute='forward')}") == (X + 1).tolist()


def test_an_input_of_another_type_than_said_is_refused(mymodule):
    mymodule(PLUS_ONE)
    with pytest.raises(pyopnb.errors.ModelError, match="float64"):
        run(f"Y = {pyop(takes=TensorProto.DOUBLE)}")


def test_the_method_is_looked_up_at_each_run(mymodule):
    mymodule(PLUS_ONE)
    session = pyopnb.Session(model(f"Y = {pyop()}"), modules=["mymodule"])
    assert session(X=X, c=True)["Y"][0, 0] == 2
    sys.modules["mymodule"].C.compute = lambda self, x: x + 5
    assert session(X=X, c=True)["Y"][0, 0] == 6


def test_inputs_are_fresh_writable_contiguous_copies_in_order(mymodule):
    mymodule("""
        class C:
            kept = []
            def compute(self, *xs):
                assert all(x.flags.writeable and x.flags.c_contiguous and x.flags.owndata for x in xs)
                C.kept.extend(xs)
                xs[0][...] += 10
                return xs[0]
    """)
    session = pyopnb.Session(model(f"Y = {pyop('X, X')}"), modules=["mymodule"])
    fed = X.copy()
    for _ in range(2):
        assert session(X=fed, c=True)["Y"].tolist() == (X + 10).tolist()
    assert fed.tolist() == X.tolist()
    kept = [array.tolist() for array in sys.modules["mymodule"].C.kept]
    assert kept == [(X + 10).tolist(), X.tolist()] * 2


KINDS = "bool uint8 uint16 uint32 int16 int32 double int64 float16 string"


@pytest.mark.parametrize("kind", KINDS.split())
def test_dtypes(mymodule, kind):
    mymodule("class C:\n    def compute(self, x): return x[::-1]")
    number = TensorProto.DataType.Value(kind.upper())
    x = X.astype(helper.tensor_dtype_to_np_dtype(number))
    if kind == "string":
        x = np.array([["a", "b"]] * 2, object)
    assert run(f"Y = {pyop(takes=number, gives=number)}", x, kind=kind) == x[::-1].tolist()


# Classes from the registry


def test_a_registered_class_serves_the_node_and_follows_its_redefinition():
    def define(compute):
        class C:
            def __init__(self, W):
                self.w = np.float32(W)

        C.compute = compute
        pyopnb.pyop(module="mymodule")(C)

    define(lambda self, x: x * self.w)
    session = pyopnb.Session(model(f"Y = {pyop(W='3')}"))
    assert session(X=X, c=True)["Y"].tolist() == (X * 3).tolist()
    define(lambda self, x: x + self.w)
    assert session(X=X, c=True)["Y"].tolist() == (X + 3).tolist()
    assert "mymodule" not in sys.modules


def test_a_registered_class_goes_before_an_allowed_module(mymodule):
    mymodule("raise AssertionError('imported')")

    @pyopnb.pyop(module="mymodule")
    class C:
        def compute(self, x):
            return x + 1

    assert run(f"Y = {pyop()}") == (X + 1).tolist()
