"""What changed between two models: each edit is found as itself, and names, order and documentation are none."""

from __future__ import annotations

import sys

import numpy as np
import onnx
import onnxruntime
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import ModelProto, TensorProto, helper, numpy_helper, parser
from transformer import renamed, transformer

import pyopnb
from pyopnb.common import progress
from pyopnb.diffs.models.diff import ModelDiff
from pyopnb.errors import InputError, ModelError


def copied(model):
    return ModelProto.FromString(model.SerializeToString())


def summary(found):
    return [(c.kind, *((f.what, f.a, f.b) for f in c.facts)) for c in found.changes]


def kinds(found):
    return [change.kind for change in found.changes]


def weight(model, name):
    return next(t for t in model.graph.initializer if t.name == name)


def parsed(text):
    return parser.parse_model(f'<ir_version: 10, opset_import: ["" : 20, "local" : 1]> {text}')


def made(nodes, inputs=("x",), outputs=("y",)):
    ends = [
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["N"]) for name in names]
        for names in (inputs, outputs)
    ]
    graph = helper.make_graph(nodes, "g", *ends)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)


# ---- one edit of a transformer block, under any names


@pytest.mark.parametrize("seed", range(3))
def test_other_names_order_and_documentation_are_no_changes(seed):
    model = transformer(blocks=2, seed=seed)
    other = renamed(model, seed)
    other.doc_string = other.producer_name = other.graph.node[3].doc_string = "said"
    found = pyopnb.diff(model, other)
    assert found.verdict == "identical" and found.ok and found.changes == ()
    assert found.nodes == (60, 60) and found.pairs == 60


def softmax(model):
    return next(node for node in model.graph.node if node.op_type == "Softmax")


def insert_identity(model):
    for node in model.graph.node:
        node.input[:] = ["passed" if name == "probs" else name for name in node.input]
    model.graph.node.append(helper.make_node("Identity", ["probs"], ["passed"]))


def rewire(model):
    next(n for n in model.graph.node if n.output[0] == "b0.end").input[0] = "x"


def to_tanh(model):
    model.CopyFrom(transformer("tanh"))


EDITS = {
    "attribute": (to_tanh, ("changed", ("attr approximate", "'none'", "'tanh'"))),
    "op": (lambda m: setattr(softmax(m), "op_type", "LogSoftmax"), ("changed", ("op", "Softmax", "LogSoftmax"))),
    "inserted": (insert_identity, ("added",)),
    "rewired": (rewire, ("rewired", ("input 0", "b0.middle", "x"))),
}  # fmt: skip


@pytest.mark.parametrize("also_renamed", [False, True])
@pytest.mark.parametrize("edit", EDITS)
def test_one_edit(edit, also_renamed):
    change, expected = EDITS[edit]
    other = transformer()
    change(other)
    other = renamed(other) if also_renamed else other
    (found,) = summary(pyopnb.diff(transformer(), other))
    if edit != "rewired" or not also_renamed:
        assert found == expected
    assert found[0] == expected[0]


def test_many_edits_of_a_deep_model_under_other_names():
    other = renamed(transformer("tanh", blocks=4), 1)
    assert kinds(pyopnb.diff(transformer(blocks=4), other)) == ["changed"] * 4
    trained_again = renamed(transformer("tanh", blocks=2, seed=1), 1)
    found = pyopnb.diff(transformer(blocks=2), trained_again)
    assert len(found.of("changed")) == 2 and set(kinds(found)) == {"changed", "weight"}
    found = pyopnb.diff(transformer(blocks=3), renamed(transformer(blocks=2, seed=1), 1))
    assert found.pairs == 60 and len(found.of("removed")) == 29


def test_one_weight_element_and_other_tolerances():
    model, other = transformer(), transformer()
    stored = weight(other, "b0.attended.weight")
    values = numpy_helper.to_array(stored).copy()
    values[3, 4] += 0.25
    stored.CopyFrom(numpy_helper.from_array(values, stored.name))
    found = pyopnb.diff(model, renamed(other))
    (change,) = found.changes
    assert change.kind == "weight" and change.a[0].op == "MatMul"
    facts = change.values.worst.facts
    assert facts.differing == 1 and facts.worst[0].index == (3, 4) and found.verdict == "different"
    assert pyopnb.diff(model, other, atol=0.3).verdict == "close"
    assert ModelDiff.from_json(found.to_json()).judged(atol=0.3).verdict == "close"


def test_what_says_the_same_in_another_way_is_no_change():
    model, other = transformer(), transformer()
    for node in other.graph.node:
        if node.op_type == "Reshape":
            node.attribute.append(helper.make_attribute("allowzero", 0))  # the default
        if node.op_type == "LayerNormalization":
            del node.attribute[0]  # axis, whose default it had
    split = weight(other, "split")
    values = numpy_helper.to_array(split)
    other.graph.node.insert(0, helper.make_node("Constant", [], ["split"], value_ints=values))
    other.graph.initializer.remove(split)
    bias = weight(other, "b0.q.bias")
    numbers = numpy_helper.to_array(bias).tolist()
    bias.ClearField("raw_data")
    bias.float_data.extend(numbers)
    for pair in ((model, other), (other, model), (model, renamed(other))):
        assert pyopnb.diff(*pair).verdict == "identical"


def test_a_default_of_a_notebook_op_that_is_written_out_is_no_change():
    @pyopnb.pyop("demo::Clip")
    class Clip:
        def __init__(self, limit: float = 2.5):
            self.limit = limit

        def compute(self, x):
            return x

    def of(**attrs):
        model = made([helper.make_node("Clip", ["x"], ["y"], domain="demo", **attrs)])
        model.opset_import.append(helper.make_opsetid("demo", 1))
        return model

    assert pyopnb.diff(of(), of(limit=2.5)).verdict == "identical"
    expected = [("changed", ("attr limit", "2.5", "3.0"))]
    assert summary(pyopnb.diff(of(), of(limit=3.0))) == expected


def test_a_bool_weight_is_the_same_whatever_byte_is_true():
    def masked(raw):
        model = parsed("g () => (bool[3] y) <bool[3] w = {1, 1, 0}> { y = Identity(w) }")
        model.graph.initializer[0].ClearField("int32_data")
        model.graph.initializer[0].raw_data = raw
        return model

    assert pyopnb.diff(masked(b"\1\1\0"), masked(b"\2\xff\0")).verdict == "identical"
    assert pyopnb.diff(masked(b"\1\1\0"), masked(b"\2\0\0")).verdict == "different"


@pytest.mark.parametrize("also_renamed", [False, True])
def test_what_onnx_runtime_fuses_is_fused(tmp_path, also_renamed):
    model = transformer()
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_EXTENDED
    options.optimized_model_filepath = str(tmp_path / "optimized.onnx")
    options.log_severity_level = 4
    onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    other = onnx.load(options.optimized_model_filepath)
    found = pyopnb.diff(model, renamed(other) if also_renamed else other)
    fused = {change.b[0].op: [node.op for node in change.a] for change in found.of("fused")}
    assert fused["com.microsoft::BiasGelu"] == ["Add", "Gelu"]
    assert fused["com.microsoft::FusedMatMul"] == ["MatMul", "Mul"]
    assert set(kinds(found)) <= {"fused", "opset"}
    back = pyopnb.diff(other, model)
    assert set(kinds(back)) <= {"split", "opset"} and len(back.of("split")) == len(fused)


def test_a_folded_node_and_a_layer_more():
    model = parsed("g (float[N] x) => (float[N] y) <float w = {2.0}> { v = Neg(w)  y = Mul(x, v) }")
    other = parsed("g (float[N] x) => (float[N] y) <float v = {-2.0}> { y = Mul(x, v) }")
    assert kinds(pyopnb.diff(model, other)) == ["removed"]
    found = pyopnb.diff(transformer(), transformer(blocks=2))
    assert found.pairs == 31 and len(found.of("added")) == 29 and not found.of("changed", "removed")


# ---- around the graph, and inside nodes


@pytest.mark.parametrize(
    ("change", "kind", "said"),
    [
        (lambda m: m.graph.input[0].type.tensor_type.shape.dim[0].__setattr__("dim_value", 2), "input", ("x", "float32[N,S,32]", "float32[2,S,32]")),
        (lambda m: m.graph.output[0].type.tensor_type.__setattr__("elem_type", 10), "output", ("logits", "float32[N,S,50]", "float16[N,S,50]")),
        (lambda m: m.graph.output.pop(), "output", ("probs", "float32[N,4,S,S]", None)),
        (lambda m: m.graph.input.append(helper.make_tensor_value_info("u", 1, [])), "input", ("u", None, "float32[]")),
        (lambda m: m.opset_import[0].__setattr__("version", 21), "opset", ("ai.onnx", "20", "21")),
    ],
)  # fmt: skip
def test_inputs_outputs_and_opsets(change, kind, said):
    other = transformer()
    change(other)
    assert summary(pyopnb.diff(transformer(), other)) == [(kind, said)]


BODIES = """g (bool c, float[N] x) => (float[N] y) <float w = {{2.0}}> {{
    y = If(c) <then_branch = t () => (float[N] p) {{ p = {then}(x, w) }},
               else_branch = e () => (float[N] q) {{ r = Relu(x)  q = Sub({order}) }}>
}}"""


@pytest.mark.parametrize(
    ("then", "order", "expected"),
    [
        ("Mul", "r, x", []),
        ("Add", "r, x", [("changed", "If 'y', then_branch")]),
        ("Mul", "x, r", [("rewired", "If 'y', else_branch")]),
    ],
)
def test_bodies(then, order, expected):
    model = parsed(BODIES.format(then="Mul", order="r, x"))
    other = renamed(parsed(BODIES.format(then=then, order=order)))
    assert [(c.kind, c.path) for c in pyopnb.diff(model, other).changes] == expected
    weight(model, "w").float_data[:] = [3.0]
    assert "weight" in kinds(pyopnb.diff(model, other)) or then == "Add"


FUNCTION = """g (float[N] x) => (float[N] y) {{ y = local.Twice(x) }}
<opset_import: ["" : 20], domain: "local"> Twice (a) => (b) {{ b = {op}(a, a) }}"""


def test_functions():
    model, other = (parsed(FUNCTION.format(op=op)) for op in ("Add", "Mul"))
    (change,) = pyopnb.diff(model, other).changes
    assert (change.kind, change.path) == ("changed", "function local::Twice")
    del other.functions[:]
    assert summary(pyopnb.diff(model, other)) == [("function", ("local::Twice", "there", None))]


# ---- what is given, what comes back


def test_bytes_paths_and_what_is_no_model(tmp_path):
    model, other = transformer(), transformer("tanh")
    paths = [tmp_path / "a.onnx", tmp_path / "b.onnx"]
    for path, proto in zip(paths, (model, other), strict=True):
        path.write_bytes(proto.SerializeToString())
    wanted = pyopnb.diff(model, other)
    for pair in (paths, map(str, paths), [p.read_bytes() for p in paths], [model, paths[1]]):
        assert pyopnb.diff(*pair) == wanted
    for texts in (("a", "b"), ("a.onnx", "b"), (b"a", b"b")):
        assert pyopnb.diff(*texts).verdict == "different"
    with pytest.raises(ModelError, match="File doesn't exist"):
        pyopnb.diff(str(paths[0]), str(tmp_path / "c.onnx"))
    with pytest.raises(InputError, match="diff, b: expected a model"):
        pyopnb.diff(model, 3)


def test_weights_in_a_file(tmp_path):
    paths = []
    for name, seed in (("a", 0), ("b", 0), ("c", 1)):
        paths.append(tmp_path / f"{name}.onnx")
        options = {"location": f"{name}.data", "size_threshold": 1024}
        onnx.save(transformer(seed=seed), paths[-1], save_as_external_data=True, **options)
    assert pyopnb.diff(paths[0], paths[1]).verdict == "identical"
    assert pyopnb.diff(paths[0], transformer()).verdict == "identical"
    found = pyopnb.diff(paths[0], paths[2])
    assert set(kinds(found)) == {"weight"}
    assert all(change.values is not None for change in found.changes)


def test_large_weights_that_are_almost_the_same():
    drawn = np.random.default_rng(0).standard_normal((100, 1000), np.float32)
    near = drawn.copy()
    near[50, 501] = 9

    def chain(first, second):
        body = f"h = MatMul(x, {first})  g = Transpose({second})  y = MatMul(h, g)"
        head = '<ir_version: 10, opset_import: ["": 20]> g (float[N,100] x) => (float[N,100] y)'
        model = parser.parse_model(f"{head} {{ {body} }}")
        for name, values in (("v", drawn), ("w", near), ("v2", drawn)):
            model.graph.initializer.append(numpy_helper.from_array(values, name))
        return model

    found = pyopnb.diff(chain("v", "v"), chain("v", "w"))
    assert found.changes[0].values.worst.facts.worst[0].index == (50, 501)
    assert kinds(found) == kinds(pyopnb.diff(chain("w", "v"), chain("v2", "v"))) == ["weight"]
    # Equal weights under other names are the same.
    assert pyopnb.diff(chain("v", "v"), chain("v2", "v")).verdict == "identical"
    assert pyopnb.diff(chain("v", "w"), chain("v2", "w")).verdict == "identical"


def test_a_bar_counts_the_megabytes_of_weights(monkeypatch):
    model = pyopnb.model(
        [pyopnb.node("Gather", ["v", "i"], "a"), pyopnb.node("Gather", ["w", "i"], "b")],
        {"i": "int64[N]"},
        ["a", "b"],
        initializers={name: np.full(500_000, k, np.float32) for k, name in enumerate("vw")},
    )
    told = []
    monkeypatch.setattr(progress, "_PATIENCE", 0.0)
    progress.set_bar(lambda what, since: lambda done, total, *_: told.append((done, total, what)))
    try:
        assert pyopnb.diff(model, model).verdict == "identical"
    finally:
        progress.set_bar(None)
    assert told == [(done, 4, "MB of weights compared") for done in (2, 4)]


@pytest.mark.parametrize("offset", ["-4", "abc", "9" * 10_000])
def test_weights_at_no_place_in_a_file(tmp_path, offset):
    model = transformer()
    stored = weight(model, "head")
    stored.ClearField("raw_data")
    stored.data_location = TensorProto.EXTERNAL
    stored.external_data.add(key="location", value="w.data")
    stored.external_data.add(key="offset", value=offset)
    (tmp_path / "w.data").write_bytes(b"1234")
    (tmp_path / "m.onnx").write_bytes(model.SerializeToString())
    with pytest.raises(ModelError, match="external data: expected offset in bytes"):
        pyopnb.diff(tmp_path / "m.onnx", tmp_path / "m.onnx")
    # In memory, the place of its file is unknown.
    assert pyopnb.diff(model, model).verdict == "identical"


def test_text_of_twelve_lines():
    found = pyopnb.diff(transformer(), renamed(transformer("tanh", seed=1)))
    assert len(str(found).splitlines()) == 12 and str(found).endswith(" more")


# ---- hostile models


def test_a_deep_nest_and_a_long_chain_cost_no_stack():
    models = []
    for op in ("Relu", "Abs"):
        model = made([helper.make_node("Relu", ["x"], ["y"])])
        inner = copied(model).graph
        scope = model.graph
        for _ in range(30):  # a file can hold two more
            scope.node[0].CopyFrom(helper.make_node("If", ["c"], ["y"]))
            graph = onnx.AttributeProto.GRAPH
            scope = scope.node[0].attribute.add(name="then_branch", type=graph).g
            scope.CopyFrom(inner)
        scope.node[0].op_type = op
        models.append(model)
    (change,) = pyopnb.diff(*models).changes
    assert change.kind == "changed" and change.facts[0].b == "Abs" and len(change.path) < 1000
    count = 3 * sys.getrecursionlimit()
    nodes = [helper.make_node("Relu", [f"t{n}"], [f"t{n + 1}"]) for n in range(count)]
    model = made(nodes, ["t0"], [f"t{count}"])
    other = copied(model)
    other.graph.node[count // 2].op_type = "Abs"
    assert kinds(pyopnb.diff(model, other)) == ["changed"]


@pytest.mark.parametrize(
    "nodes",
    [
        [("Add", ["x", "b"], ["a"]), ("Relu", ["a"], ["b"]), ("Relu", ["b"], ["y"])],  # a circle
        [("Relu", ["y"], ["y"])],
        [("Relu", ["x"], ["y"]), ("Abs", ["x"], ["y"])],  # one name twice
        [("Relu", ["nowhere"], ["y"]), ("Relu", [], []), ("", [""], [""])],
        [("Constant", [], ["x"]), ("Constant", [], ["y"])],
        [("R\x1b[31m" * 5000, ["x"], ["\u202e" * 10_000]), ("Relu", ["x"], ["y"])],
    ],
)
def test_damaged_graphs(nodes):
    name = "n\x1b" * 10_000
    model = made([helper.make_node(*node, name=name) for node in nodes])
    plain = made([helper.make_node("Relu", ["x"], ["y"])])
    assert pyopnb.diff(model, model).verdict == "identical"
    for found in (pyopnb.diff(model, plain), pyopnb.diff(plain, model)):
        text = str(found)
        assert found.verdict == "different"
        assert len(text) < 12 * 161 and len(text.splitlines()) <= 12
        assert "\x1b" not in text and "\u202e" not in text
        assert ModelDiff.from_json(found.to_json()) == found


def test_a_damaged_weight():
    other = transformer()
    weight(other, "b0.q.bias").raw_data = b"123"
    (change,) = pyopnb.diff(transformer(), other).changes
    assert change.kind == "weight" and change.facts[1].what == "values cannot be read"


# ---- drawn graphs


@st.composite
def graphs(draw):
    """Draw a graph where every node reads something or has an attribute that sets it apart."""
    count = draw(st.integers(1, 12))
    names, nodes, read = ["x"], [], set()
    for place in range(count):
        op, arity = draw(st.sampled_from([("Add", 2), ("Sub", 2), ("Relu", 1), ("LeakyRelu", 1)]))
        attrs = {"alpha": float(place)} if op == "LeakyRelu" else {}
        inputs = [draw(st.sampled_from(names)) for _ in range(arity)]
        nodes.append(helper.make_node(op, inputs, [f"t{place}"], name=f"n{place}", **attrs))
        names.append(f"t{place}")
        read.update(inputs)
    return made(nodes, outputs=[name for name in names[1:] if name not in read])


@given(graphs(), st.data())
@settings(max_examples=60)
def test_one_edit_in_a_drawn_graph_is_found_and_other_names_are_none(model, data):
    assert pyopnb.diff(model, renamed(model, 1)).verdict == "identical"
    place = data.draw(st.integers(0, len(model.graph.node) - 1))
    kind = data.draw(st.sampled_from(["op", "attribute", "input", "insert"]))
    other = copied(model)
    node = other.graph.node[place]
    if kind == "op":
        node.op_type = {"Add": "Mul", "Sub": "Div"}.get(node.op_type, "Elu")
    elif kind == "attribute":
        node.attribute.append(helper.make_attribute("other", 7))
    elif kind == "insert":
        node.input[0], old = "put_in", node.input[0]
        other.graph.node.insert(place, helper.make_node("Identity", [old], ["put_in"]))
    else:
        other.graph.input.append(helper.make_tensor_value_info("other", 1, ["N"]))
        node.input[0] = "other"
    found = pyopnb.diff(model, renamed(other, 1) if kind != "input" else other)
    assert found.of("changed", "added", "rewired", "split", "fused", "removed")
    assert pyopnb.diff(other, model).verdict == "different"
