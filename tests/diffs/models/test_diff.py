"""What changed between two models: each edit is found as itself, and names, order and documentation are none."""

from __future__ import annotations

import json
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
from pyopnb.diffs.models.diff import ModelDiff
from pyopnb.errors import InputError, ModelError


def copied(model):
    other = ModelProto()
    other.CopyFrom(model)
    return other


def kinds(found):
    return [change.kind for change in found.changes]


def weight(model, name):
    return next(t for t in model.graph.initializer if t.name == name)


def parsed(text, opset=20):
    return parser.parse_model(f'<ir_version: 10, opset_import: ["" : {opset}, "local" : 1]> {text}')


# ---- the transformer block


def test_other_names_order_and_documentation_are_no_changes():
    model = transformer()
    other = renamed(model)
    other.doc_string = other.graph.doc_string = other.graph.node[3].doc_string = "said"
    found = pyopnb.diff(model, other)
    assert found.verdict == "identical" and found.ok and found.changes == ()
    assert found.nodes == (31, 31) and found.pairs == 31 and found.renamed and found.moved
    assert pyopnb.diff(model, model) == ModelDiff((), (31, 31), 31)


def test_one_attribute():
    found = pyopnb.diff(transformer(), renamed(transformer("tanh")))
    (change,) = found.changes
    assert (change.kind, change.a[0].op, change.b[0].op, change.a[0].place) == (
        "changed",
        "Gelu",
        "Gelu",
        25,
    )
    assert [(fact.what, fact.a, fact.b) for fact in change.facts] == [
        ("attr approximate", "'none'", "'tanh'")
    ]
    assert "changed: Gelu '/b0.bent/Gelu_25', attr approximate: 'none' → 'tanh'" in str(found)


def test_a_default_that_is_written_out_is_no_change():
    model = transformer()
    other = copied(model)
    for node in other.graph.node:
        if node.op_type == "Reshape":
            node.attribute.append(helper.make_attribute("allowzero", 0))
        if node.op_type == "LayerNormalization":
            node.attribute.append(helper.make_attribute("stash_type", 1))
            del node.attribute[0]  # axis, whose default it had
    assert (
        pyopnb.diff(model, other).verdict == "identical"
        and pyopnb.diff(other, model).verdict == "identical"
    )


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

    bare, same, other = of(), of(limit=2.5), of(limit=3.0)
    assert pyopnb.diff(bare, same).verdict == "identical"
    (change,) = pyopnb.diff(bare, other).changes
    assert [(fact.what, fact.a, fact.b) for fact in change.facts] == [("attr limit", "2.5", "3.0")]


@pytest.mark.parametrize("also_renamed", [False, True])
def test_an_inserted_identity(also_renamed):
    model, other = transformer(), transformer()
    for node in other.graph.node:
        node.input[:] = ["passed" if name == "probs" else name for name in node.input]
    other.graph.node.append(helper.make_node("Identity", ["probs"], ["passed"]))
    other = renamed(other) if also_renamed else other
    assert kinds(pyopnb.diff(model, other)) == ["added"] and kinds(pyopnb.diff(other, model)) == [
        "removed"
    ]
    assert pyopnb.diff(model, other).changes[0].b[0].op == "Identity"


def test_a_rewired_input():
    model = transformer()
    place = next(p for p, node in enumerate(model.graph.node) if node.output[0] == "b0.end")
    other = copied(model)
    other.graph.node[place].input[0] = "x"
    (change,) = pyopnb.diff(model, renamed(other)).changes
    assert (change.kind, change.a[0].place, change.facts[0].what, change.facts[0].a) == (
        "rewired",
        place,
        "input 0",
        "b0.middle",
    )


def test_one_weight_element_and_other_tolerances():
    model, other = transformer(), transformer()
    held = weight(other, "b0.attended.weight")
    values = numpy_helper.to_array(held).copy()
    values[3, 4] += 0.25
    held.CopyFrom(numpy_helper.from_array(values, held.name))
    found = pyopnb.diff(model, renamed(other))
    (change,) = found.changes
    assert (
        change.kind == "weight"
        and change.a[0].op == "MatMul"
        and change.facts[0].a == "b0.attended.weight"
    )
    facts = change.values.worst.facts
    assert facts.differing == 1 and facts.worst[0].index == (3, 4) and found.verdict == "different"
    assert found.judged(atol=0.3).verdict == "close" and found.judged(atol=0.3).ok
    assert pyopnb.diff(model, other, atol=0.3).verdict == "close"
    assert ModelDiff.from_json(found.to_json()).judged(atol=0.3).verdict == "close"


def test_a_weight_in_a_constant_node_or_in_another_field_is_the_same():
    model, other = transformer(), transformer()
    held = weight(other, "split")
    other.graph.node.insert(
        0, helper.make_node("Constant", [], ["split"], value_ints=numpy_helper.to_array(held))
    )
    other.graph.initializer.remove(held)
    bias = weight(other, "b0.q.bias")
    values = numpy_helper.to_array(bias).tolist()
    bias.ClearField("raw_data")
    bias.float_data.extend(values)
    assert (
        pyopnb.diff(model, other).verdict == "identical"
        and pyopnb.diff(renamed(other), model).verdict == "identical"
    )


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
    assert {change.kind for change in found.changes} <= {"fused", "opset"}
    back = pyopnb.diff(other, model)
    assert {change.kind for change in back.changes} <= {"split", "opset"} and len(
        back.of("split")
    ) == len(fused)


def test_another_op_in_the_place_of_one():
    model, other = transformer(), transformer()
    next(node for node in other.graph.node if node.op_type == "Softmax").op_type = "LogSoftmax"
    (change,) = pyopnb.diff(model, renamed(other)).changes
    assert change.kind == "changed" and [(f.what, f.a, f.b) for f in change.facts] == [
        ("op", "Softmax", "LogSoftmax")
    ]


def test_a_folded_node():
    model = parsed("g (float[N] x) => (float[N] y) <float w = {2.0}> { v = Neg(w)  y = Mul(x, v) }")
    other = parsed("g (float[N] x) => (float[N] y) <float v = {-2.0}> { y = Mul(x, v) }")
    assert kinds(pyopnb.diff(model, other)) == ["folded"]


def test_what_is_computed_once_now():
    model = parsed("g (float[N] x) => (float[N] y) { a = Abs(x)  b = Abs(x)  y = Mul(a, b) }")
    other = parsed("g (float[N] x) => (float[N] y) { a = Abs(x)  y = Mul(a, a) }")
    assert kinds(pyopnb.diff(model, other)) == ["fused"] and kinds(pyopnb.diff(other, model)) == [
        "added"
    ]


def test_a_layer_more():
    found = pyopnb.diff(transformer(), transformer(blocks=2))
    assert found.pairs == 31 and len(found.of("added")) == 29 and not found.of("changed", "removed")


# ---- around the graph


@pytest.mark.parametrize(
    ("change", "kind", "said"),
    [
        (lambda m: m.graph.input[0].type.tensor_type.shape.dim[0].__setattr__("dim_value", 2), "input", ("x", "float32[N,S,32]", "float32[2,S,32]")),
        (lambda m: m.graph.output[0].type.tensor_type.__setattr__("elem_type", 10), "output", ("logits", "float32[N,S,50]", "float16[N,S,50]")),
        (lambda m: m.graph.output.pop(), "output", ("probs", "float32[N,4,S,S]", None)),
        (lambda m: m.graph.input.append(helper.make_tensor_value_info("u", 1, [])), "input", ("u", None, "float32[]")),
        (lambda m: m.opset_import[0].__setattr__("version", 21), "opset", ("ai.onnx", "20", "21")),
        (lambda m: setattr(m, "ir_version", 9), "header", ("ir_version", "10", "9")),
        (lambda m: setattr(m, "producer_name", "me"), "header", ("producer_name", "", "me")),
        (lambda m: m.metadata_props.add(key="k", value="v"), "header", ("metadata k", None, "v")),
        (lambda m: m.graph.initializer.append(numpy_helper.from_array(np.float32([9]), "lone")), "weight", ("unread", None, "lone")),
    ],
)  # fmt: skip
def test_the_rest_of_the_file(change, kind, said):
    other = transformer()
    change(other)
    found = pyopnb.diff(transformer(), other)
    assert found.verdict == "different"
    assert [(c.kind, *((f.what, f.a, f.b) for f in c.facts)) for c in found.changes] == [
        (kind, said)
    ]


BODIES = """g (bool c, float[N] x) => (float[N] y) <float w = {{2.0}}> {{
    y = If(c) <then_branch = t () => (float[N] p) {{ p = {then}(x, w) }},
               else_branch = e () => (float[N] q) {{ r = Relu(x)  q = Sub({order}) }}>
}}"""


@pytest.mark.parametrize(
    ("then", "order", "kind", "path"),
    [
        ("Mul", "r, x", None, ""),
        ("Add", "r, x", "changed", "If 'y', then_branch"),
        ("Mul", "x, r", "rewired", "If 'y', else_branch"),
    ],
)
def test_bodies(then, order, kind, path):
    model = parsed(BODIES.format(then="Mul", order="r, x"))
    other = renamed(parsed(BODIES.format(then=then, order=order)))
    assert [(c.kind, c.path) for c in pyopnb.diff(model, other).changes] == (
        [(kind, path)] if kind else []
    )


def test_a_weight_outside_that_a_body_reads():
    model, other = (parsed(BODIES.format(then="Mul", order="r, x")) for _ in range(2))
    weight(other, "w").float_data[:] = [3.0]
    assert kinds(pyopnb.diff(model, other)) == ["weight"]


FUNCTION = """g (float[N] x) => (float[N] y) {{ y = local.Twice(x) }}
<opset_import: ["" : 20], domain: "local"> Twice (a) => (b) {{ b = {op}(a, a) }}"""


def test_functions():
    model, other = (parsed(FUNCTION.format(op=op)) for op in ("Add", "Mul"))
    (change,) = pyopnb.diff(model, other).changes
    assert (change.kind, change.path) == ("changed", "function local::Twice")
    del other.functions[:]
    assert [(c.kind, c.facts[0].what) for c in pyopnb.diff(model, other).changes] == [
        ("function", "local::Twice")
    ]


# ---- what is given, what comes back


def test_bytes_paths_and_what_is_no_model(tmp_path):
    model, other = transformer(), transformer("tanh")
    paths = [tmp_path / "a.onnx", tmp_path / "b.onnx"]
    for path, held in zip(paths, (model, other), strict=True):
        path.write_bytes(held.SerializeToString())
    wanted = pyopnb.diff(model, other)
    for a, b in (
        paths,
        list(map(str, paths)),
        [p.read_bytes() for p in paths],
        [model, paths[1]],
        [str(paths[0]), other],
    ):
        assert pyopnb.diff(a, b) == wanted
    assert (
        pyopnb.diff("a", "b").verdict == "different"
        and pyopnb.diff("a.onnx", "b").verdict == "different"
    )
    assert pyopnb.diff(b"a", b"b").verdict == "different"
    with pytest.raises(ModelError, match="File doesn't exist"):
        pyopnb.diff(str(paths[0]), str(tmp_path / "c.onnx"))
    with pytest.raises(InputError, match="diff, b: expected a model"):
        pyopnb.diff(model, 3)


def test_weights_in_a_file(tmp_path):
    paths = []
    for name, seed in (("a", 0), ("b", 0), ("c", 1)):
        model = transformer(seed=seed)
        paths.append(tmp_path / f"{name}.onnx")
        onnx.save(
            model,
            paths[-1],
            save_as_external_data=True,
            location=f"{name}.data",
            size_threshold=1024,
        )
    inline = transformer()
    assert (
        pyopnb.diff(paths[0], paths[1]).verdict == "identical"
        and pyopnb.diff(paths[0], inline).verdict == "identical"
    )
    found = pyopnb.diff(paths[0], paths[2])
    assert set(kinds(found)) == {"weight"} and all(
        change.values is not None for change in found.changes
    )


@pytest.mark.parametrize("offset", ["-4", "abc", "9" * 10_000])
def test_weights_at_no_place_in_a_file(tmp_path, offset):
    model = transformer()
    held = weight(model, "head")
    held.ClearField("raw_data")
    held.data_location = TensorProto.EXTERNAL
    held.external_data.add(key="location", value="w.data")
    held.external_data.add(key="offset", value=offset)
    (tmp_path / "w.data").write_bytes(b"1234")
    (tmp_path / "m.onnx").write_bytes(model.SerializeToString())
    with pytest.raises(
        ModelError, match="initializer head, external data: expected offset in bytes"
    ):
        pyopnb.diff(tmp_path / "m.onnx", tmp_path / "m.onnx")
    assert (
        pyopnb.diff(model, model).verdict == "identical"
    )  # in memory: nobody says where its file is


def test_text_of_twelve_lines_and_json():
    found = pyopnb.diff(transformer(), renamed(transformer("tanh", seed=1)))
    assert len(str(found).splitlines()) == 12 and " more\n" in str(found)
    assert ModelDiff.from_json(found.to_json()).to_json() == found.to_json()
    held = json.loads(found.to_json())
    assert (held["format"], held["version"], held["verdict"], held["ok"]) == (
        "pyopnb.model-diff",
        1,
        "different",
        False,
    )
    for change in (
        {"format": "x"},
        {"version": 2},
        {"changes": [{}]},
        {"nodes": [1]},
        {"nodes": [1, "2"]},
        {"moved": 1},
    ):
        with pytest.raises(InputError, match="ModelDiff.from_json"):
            ModelDiff.from_json(json.dumps(held | change))
    held["changes"][0]["kind"] = "unheard of"
    for text in (json.dumps(held), "[" * 10_000):
        with pytest.raises(InputError, match="ModelDiff.from_json"):
            ModelDiff.from_json(text)
    with pytest.raises(TypeError, match="neither true nor false"):
        bool(found)
    with pytest.raises(InputError, match=r"ModelDiff.of: expected one of input, output"):
        found.of("fuse")


# ---- hostile models


def info(name):
    return helper.make_tensor_value_info(name, TensorProto.FLOAT, ["N"])


def made(nodes, inputs=("x",), outputs=("y",)):
    graph = helper.make_graph(nodes, "g", list(map(info, inputs)), list(map(info, outputs)))
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)


def test_a_deep_nest():
    graph = made([helper.make_node("Relu", ["x"], ["y"])]).graph
    model, other = ModelProto(ir_version=10), ModelProto(ir_version=10)
    for held, op in ((model, "Relu"), (other, "Abs")):
        held.CopyFrom(made([helper.make_node("Relu", ["x"], ["y"])]))
        scope = held.graph
        for _ in range(30):  # a file can hold two more
            scope.node[0].CopyFrom(helper.make_node("If", ["c"], ["y"]))
            scope = (
                scope.node[0].attribute.add(name="then_branch", type=onnx.AttributeProto.GRAPH).g
            )
            scope.CopyFrom(graph)
        scope.node[0].op_type = op
    assert pyopnb.diff(model, model).verdict == "identical"
    (change,) = pyopnb.diff(model, other).changes
    assert change.kind == "changed" and change.facts[0].b == "Abs" and len(change.path) < 1000


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
    model = made(
        [
            helper.make_node(op, inputs, outputs, name="n\x1b" * 10_000)
            for op, inputs, outputs in nodes
        ]
    )
    plain = made([helper.make_node("Relu", ["x"], ["y"])])
    assert pyopnb.diff(model, model).verdict == "identical"
    for found in (pyopnb.diff(model, plain), pyopnb.diff(plain, model)):
        text = str(found)
        assert (
            found.verdict == "different" and len(text) < 12 * 161 and len(text.splitlines()) <= 12
        )
        assert "\x1b" not in text and "\u202e" not in text
        assert ModelDiff.from_json(found.to_json()) == found


def test_a_long_chain_costs_no_stack():
    count = 3 * sys.getrecursionlimit()
    model, other = (
        made(
            [helper.make_node("Relu", [f"t{n}"], [f"t{n + 1}"]) for n in range(count)],
            ["t0"],
            [f"t{count}"],
        )
        for _ in "ab"
    )
    other.graph.node[count // 2].op_type = "Abs"
    assert kinds(pyopnb.diff(model, other)) == ["changed"]


def test_a_damaged_weight():
    model, other = transformer(), transformer()
    weight(other, "b0.q.bias").raw_data = b"123"
    (change,) = pyopnb.diff(model, other).changes
    assert change.kind == "weight" and change.facts[1].what == "values cannot be read"
    assert "values cannot be read" in str(pyopnb.diff(model, other))


# ---- drawn graphs


@st.composite
def graphs(draw):
    """A graph where every node has a weight of its own or an attribute that sets it apart, and nothing is left unread."""
    count = draw(st.integers(1, 12))
    names, nodes, read = ["x"], [], set()
    for place in range(count):
        op, arity, attrs = draw(
            st.sampled_from(
                [
                    ("Add", 2, {}),
                    ("Sub", 2, {}),
                    ("Relu", 1, {}),
                    ("LeakyRelu", 1, {"alpha": float(place)}),
                ]
            )
        )
        inputs = [draw(st.sampled_from(names)) for _ in range(arity)]
        nodes.append(helper.make_node(op, inputs, [f"t{place}"], name=f"n{place}", **attrs))
        names.append(f"t{place}")
        read.update(inputs)
    return made(nodes, outputs=[name for name in names[1:] if name not in read])


@given(graphs(), st.integers(0, 10**6))
@settings(max_examples=60)
def test_drawn_graphs_renamed_are_the_same(model, seed):
    assert pyopnb.diff(model, renamed(model, seed)).verdict == "identical"


@given(graphs(), st.data())
@settings(max_examples=60)
def test_one_edit_in_a_drawn_graph_is_found(model, data):
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
        other.graph.input.append(info("other"))
        node.input[0] = "other"
    found = pyopnb.diff(model, renamed(other, 1) if kind != "input" else other)
    assert found.verdict == "different"
    assert (
        len(found.of("changed", "added", "rewired", "exchanged", "split", "fused", "removed")) >= 1
    )
    assert pyopnb.diff(other, model).verdict == "different"
