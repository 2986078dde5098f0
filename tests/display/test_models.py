"""A model as a picture: its contents, folded parts, and remarks on broken and hostile ones."""

import base64
import gzip
import json
import os
import re
import xml.etree.ElementTree as ET
from html.parser import HTMLParser

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from small_ops import chain

import pyopnb
from pyopnb.common import Table
from pyopnb.display.live_picture import script
from pyopnb.display.page.markup import MAX_BYTES
from pyopnb.display.svg.axes import quantity
from pyopnb.errors import ModelError

LIGHT = os.path.join(os.path.dirname(onnx.__file__), "backend", "test", "data", "light")
HOSTILE = "<script>alert('x')</script>]]>&\"\x1b\u202e漢字" + "A" * 10_000

CONTROL = """<ir_version: 10, opset_import: ["" : 21, "local" : 1, "demo" : 1]>
control (float[N,3] x, bool c, int64 n) => (float[N,3] y, float[N,3] z) {
  h = local.Twice(x)
  y = If <then_branch = t () => (float[N,3] p) { q = Abs(h) p = demo.SoftClip(q) }, else_branch = e () => (float[N,3] p2) { p2 = Neg(h) }> (c)
  z = Loop <body = b (int64 i, bool k, float[N,3] s) => (bool k2, float[N,3] s2) { k2 = Identity(k) u = Relu(s) s2 = Add(u, x) }> (n, c, y)
}
<domain: "local", opset_import: ["" : 21]>
Twice (a) => (b) { b = Add(a, a) }
"""


class Html(HTMLParser):
    def __init__(self, text):
        super().__init__()
        self.tags, self.text = [], ""
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data):
        self.text += data

    @property
    def images(self):
        return [attrs for tag, attrs in self.tags if tag == "img"]

    @property
    def answers(self):
        """What the boxes of each picture tell where scripts run: texts, and the keys of rows."""
        packed = [attrs["data-boxes"] for _, attrs in self.tags if "data-boxes" in attrs]
        return [json.loads(gzip.decompress(base64.b64decode(text))) for text in packed]

    @property
    def pictures(self):
        return [
            base64.b64decode(attrs["src"].partition("base64,")[2]).decode() for attrs in self.images
        ]


def texts(svg):
    return [element.text for element in ET.fromstring(svg).iter("{http://www.w3.org/2000/svg}text")]


def soft_clip():
    @pyopnb.pyop("demo::SoftClip")
    class SoftClip:
        def __init__(self, limit: float = 1.0):
            self.limit = limit

        def compute(self, x: "float32[N,3]") -> "float32[N,3]":
            return np.clip(x, -self.limit, self.limit)


def model(nodes, inputs=("x",), outputs=("y",), weights=(), **more):
    info = [
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["N", 3]) for name in names]
        for names in (inputs, outputs)
    ]
    graph = helper.make_graph(nodes, more.pop("name", "g"), *info, list(weights))
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)


def relus(count):
    return chain(*["Relu"] * count, kind="float32[N,3]")


def test_a_model_as_text_and_as_a_picture():
    soft_clip()
    clipper = pyopnb.parse(
        "clipper (float[N,3] x) => (float[N,3] y) { a = Abs(x) y = demo.SoftClip<limit = 2.0>(a) }"
    )
    seen = pyopnb.show(clipper)
    head, *rest = repr(seen).splitlines()
    assert head.startswith("model 'clipper': 2 nodes, 1 input, 1 output, opset ")
    assert rest == [
        "(x: float32[N,3]) -> (y: float32[N,3])",
        "  a = Abs(x)                     float32[N,3]",
        "  y = demo::SoftClip(a) limit=2  float32[N,3]",
    ]
    ends = ["y", "float32[N,3]", "float32[N,3]"]
    assert texts(seen.svg) == [
        "x",
        "float32[N,3]",
        "Abs",
        "a",
        "◆ demo::SoftClip",
        "y",
        "limit=2",
        *ends,
    ]
    (image,) = Html(seen._repr_html_()).images
    assert image["alt"] == head
    assert Html(seen._repr_html_()).pictures == [
        re.sub("<title>.*?</title>", "", seen.svg, flags=re.DOTALL)
    ]


def test_boxes_tell_what_they_are():
    soft_clip()
    seen = pyopnb.show(
        pyopnb.parse(
            "clipper (float[N,3] x) => (float[N,3] y) { a = Abs(x) y = demo.SoftClip<limit = 2.0>(a) }"
        ),
        notes={"a": "all of them\n3 µs", "nobody": "?"},
        colors={"y": 0.125},
        legend="error",
    )
    abouts = [
        "x: float32[N,3]",
        "Abs\na: all of them\n3 µs",
        "demo::SoftClip\nlimit=2\nerror: 0.125\ny: float32[N,3]",
    ]
    abouts.append("y: float32[N,3]")
    (answers,) = Html(seen.body).answers
    assert [about for about, _ in answers] == abouts
    assert [keys for _, keys in answers] == [[Table.row_key(name)] for name in ("x", "a", "y", "y")]
    assert [
        title.text for title in ET.fromstring(seen.svg).iter("{http://www.w3.org/2000/svg}title")
    ] == abouts


def test_weights_constants_and_attributes_are_in_the_boxes():
    nodes = [
        helper.make_node("Constant", [], ["half"], value_float=0.5),
        helper.make_node("Gemm", ["x", "w", "b"], ["a"], transB=1, alpha=1.0, beta=0.25),
        helper.make_node("Mul", ["a", "half"], ["m"]),
        helper.make_node("Add", ["m", "dims"], ["y"]),
    ]
    arrays = {
        "w": np.zeros((3, 3), np.float32),
        "b": np.zeros(3, np.float32),
        "dims": np.zeros((1, 3), np.float32),
    }
    weights = [numpy_helper.from_array(array, name) for name, array in arrays.items()]
    proto = model(nodes, weights=weights)
    proto.graph.input.append(
        helper.make_tensor_value_info("w", TensorProto.FLOAT, [3, 3])
    )  # as before IR version 4
    seen = pyopnb.show(proto)
    said = texts(seen.svg)
    assert "B ⟨3×3⟩  C = [0,0,0]" in said  # Gemm's own names of its inputs
    assert (
        "beta=0.25 transB=1" in said or "transB=1 beta=0.25" in said
    )  # alpha is what it is by itself
    assert {"B = 0.5", "B ⟨1×3⟩"} <= set(said)
    assert not {"Constant", "w", "half"} & set(said)
    assert "  m = Mul(a, 0.5)" in repr(seen)
    marked = pyopnb.show(proto, marks={"half": "changed"})
    assert "Constant" in texts(marked.svg)  # what is pointed at is not folded away


def test_bodies_and_functions_are_folded_and_below():
    soft_clip()
    seen = pyopnb.show(pyopnb.parse(CONTROL))
    said = texts(seen.svg)
    assert {
        "▸ then_branch: 2 nodes",
        "▸ else_branch: 1 node",
        "▸ body: 3 nodes",
        "▸ function local::Twice: 1 node",
    } <= set(said)
    assert "Neg" not in said
    page = Html(seen.body)
    folded = page.pictures[1:]
    assert [tag for tag, _ in page.tags].count("details") == len(folded) == 4
    assert any("Neg" in texts(picture) and "from outside" in texts(picture) for picture in folded)
    assert "If 'y', then_branch: 2 nodes" in page.text


def test_broken_models_are_drawn_and_say_so():
    nodes = [helper.make_node(op, inputs, [output]) for op, inputs, output in (
        ("Abs", ["nowhere"], "a"), ("Neg", ["b"], "c"), ("Abs", ["c"], "b"), ("Relu", ["x"], "a"), ("Add", ["s", "x"], "s"))]  # fmt: skip
    seen = pyopnb.show(model(nodes))
    said = texts(seen.svg)
    assert said.count("nothing makes it") >= 3 and {"nowhere", "y"} <= set(said)
    assert "name a: expected one meaning, got an output of Abs and an output of Relu" in repr(seen)
    assert "expected one meaning" in Html(seen.body).text


def test_an_infer_that_raises_does_not_hide_the_model():
    @pyopnb.pyop("demo::Broken")
    class Broken:
        def infer(self, x):
            raise RuntimeError("not today")

        def compute(self, x):
            return x

    seen = pyopnb.show(
        model(
            [
                helper.make_node("Broken", ["x"], ["a"], domain="demo"),
                helper.make_node("Relu", ["a"], ["y"]),
            ]
        )
    )
    assert "Relu" in texts(seen.svg)
    assert (
        "types are those that the file declares" in repr(seen)
        and "not today" in Html(seen.body).text
    )


def test_hostile_names_are_text():
    nodes = [
        helper.make_node(
            HOSTILE,
            [HOSTILE, "", "gone"],
            [HOSTILE + "2"],
            name=HOSTILE,
            domain=HOSTILE,
            attr=HOSTILE,
        )
    ]
    proto = model(nodes, inputs=[HOSTILE], outputs=[HOSTILE + "2"], name=HOSTILE)
    proto.graph.input[0].type.tensor_type.shape.dim[0].dim_param = HOSTILE
    seen = pyopnb.show(proto, marks={HOSTILE: HOSTILE}, colors={HOSTILE: 1.0}, legend=HOSTILE)
    assert len(repr(seen)) < 4_000 and all(c.isprintable() or c == "\n" for c in repr(seen))
    assert all((text or "").isprintable() for text in texts(seen.svg))
    page = Html(seen.body)
    tags = [tag for tag, _ in page.tags if tag not in ("div", "details", "summary")]
    assert tags == ["script", "pre", "img"]
    # Nothing of the model is in the script, and nothing else can run.
    assert script() in seen.body and HOSTILE[:8] not in script()[8:]
    names = "class style src alt width height data-boxes data-at data-pyopnb open"
    assert {name for _, attrs in page.tags for name in attrs} <= {*names.split()}
    assert len(page.images[0]["alt"]) < 1_500 and not re.search("[\x1b\u202e]", seen.body)
    assert all(
        line.isprintable() and len(line) < 400
        for about, _ in page.answers[0]
        for line in about.split("\n")
    )


@pytest.mark.one_python  # what is drawn is ours
def test_an_output_is_never_too_large():
    names = ["Relu", "Abs", "Neg", "Sin", "Tanh", "Ceil", "Sqrt", "Cos"]
    drawn = np.random.default_rng(0).choice(names, 6_000).tolist()
    seen = pyopnb.show(chain(*drawn, kind="float32[N,3]"))
    assert 100_000 < len(seen.body.encode()) <= MAX_BYTES
    text = Html(seen.body).text
    assert "there is no room" in text and "more part" not in text
    assert len(repr(seen).splitlines()) <= 30 and "… 5,975 nodes more" in repr(seen)


def layers(count, *, names=None, scopes=None):
    """Make layers of 30 nodes between two others; ``names`` and ``scopes`` are what an exporter writes."""
    nodes = [pyopnb.node("Neg", "x", "t0")]
    for layer in range(count):
        for number in range(30):
            op = ["Abs", "Sqrt", "Exp", "Tanh", "Sin"][number % 5 if number % 7 else 0]
            made = pyopnb.node(op, f"t{len(nodes) - 1}", f"t{len(nodes)}")
            if names:
                made.name = f"{names.format(layer)}/{op}_{number}"
            if scopes:
                made.metadata_props.add(key=scopes[0], value=scopes[1].format(layer))
            nodes.append(made)
    nodes.append(pyopnb.node("Ceil", f"t{len(nodes) - 1}", "y"))
    return pyopnb.model(nodes, {"x": "float32[3]"}, "y")


TORCH = ("pkg.torch.onnx.name_scopes", "['', 'encoder', 'encoder.layers.{}', 'relu_1']")
NAMESPACE = ("namespace", ": m.Net/encoder: m.E/layers.{}: m.Layer/relu: aten.relu")


@pytest.mark.parametrize(
    ("options", "title"),
    [
        ({"names": "/encoder/layer.{}"}, "layer.0 … layer.11"),
        ({"scopes": TORCH}, "layers.0 … layers.11"),
        ({"scopes": NAMESPACE}, "layers.0 … layers.11"),
        ({}, "Abs … Sin"),
    ],
)
def test_layers_are_one_box_by_scope_or_by_structure(options, title):
    seen = pyopnb.show(layers(12, **options))
    page = Html(seen.body)
    top = [text.split("\n")[0] for text, _ in page.answers[0]]
    assert top == ["x: float32[3]", "Neg", title, "Ceil", "y: float32[3]"]
    assert f"{title}, × 12, 30 nodes each" in page.text
    # Opened, one layer is drawn for all.
    assert [len(answers) for answers in page.answers] == [5, 30]
    # A file has every node.
    assert seen.svg.count("<use") + seen.svg.count("<g transform") >= 362


def test_a_model_says_what_it_is():
    nodes = [
        pyopnb.node("Conv", ["x", "w"], "c", name="first"),
        pyopnb.node("Flatten", "c", "f"),
        pyopnb.node("Gemm", ["f", "v", "b"], "g", transB=1),
        pyopnb.node("Transpose", "g", "t"),
        pyopnb.node("Gemm", ["t", "u"], "h", transA=1),
        pyopnb.node("demo::Unknown", "h", "y"),
    ]
    weights = {
        "w": np.zeros((4, 3, 3, 3), np.float32),
        "v": np.zeros((10, 144), np.float32),
        "b": np.zeros(10, np.float32),
        "u": np.zeros((10, 2), np.float32),
    }
    model = pyopnb.model(nodes, {"x": "float32[N,3,8,8]"}, "y", initializers=weights)
    model.producer_name, model.producer_version = "kitchen", "2.0"
    text = Html(pyopnb.show(model).body).text
    assert "6 nodes, 1 input, 1 output" in text and "made by kitchen 2.0" in text
    assert "1,578 float32 parameters, 6.31 kB" in text
    assert "2 × Gemm, 1 × Conv, 1 × Flatten, 1 × Transpose, 1 × demo::Unknown" in text
    # 4·6·6 outputs of 27 products each, 10 of 144, and 2 of 10.
    assert f"{quantity(4 * 36 * 27 + 1440 + 20, 'MAC')} (multiply-adds)" in text
    assert "for N = 1" in text
    assert "ONNX Runtime cannot run 1 node: demo::Unknown (unknown domain)" in text
    # A diff and a trace say other things about it.
    assert "multiply-adds" not in pyopnb.show(pyopnb.diff(model, model)).body


def test_3_000_nodes_are_one_screen_and_a_small_page():
    seen = pyopnb.show(layers(100, names="/layer.{}"))
    assert len(seen.body) < 60_000
    colors = {f"t{number}": number for number in range(1, 3_001)}
    seen = pyopnb.show(layers(100, names="/layer.{}"), colors=colors, unit="s")
    assert len(seen.body.encode()) < MAX_BYTES and "in all" in Html(seen.body).text


def test_a_group_has_the_worst_color_and_the_sum_of_times_of_its_nodes():
    colors = {"t40": 2.0, "t41": 1.0, "t200": 0.5}
    seen = pyopnb.show(
        layers(12, names="/layer.{}"), colors=colors, unit="s", marks={"t200": "hot"}
    )
    text = Html(seen.body).text
    # Layers of which one is marked are no repetition.
    one = "layer.0 … layer.5, × 6, 30 nodes each, the largest is in layer.1, 3 s in all"
    assert one in text and "layer.6, 30 nodes, 500 ms in all" in text
    assert "layer.7 … layer.11, × 5, 30 nodes each" in text and "0 s in all" not in text


def test_many_ends_of_one_type_are_one_box():
    nodes = [pyopnb.node("Add", ["x", f"past.{n}"], f"present.{n}") for n in range(40)]
    inputs = {"x": "float32[N,3]"} | {f"past.{n}": "float32[N,1]" for n in range(40)}
    seen = pyopnb.show(pyopnb.model(nodes, inputs, [f"present.{n}" for n in range(40)]))
    top = [text.split("\n")[0] for text, _ in Html(seen.body).answers[0]]
    assert top == ["x: float32[N,3]", "past.0 … past.39", "Add", "present.0 … present.39"]


def test_a_copy_of_a_weight_belongs_to_the_layer_that_reads_it():
    model = layers(12, names="/layer.{}")
    for layer in range(12):
        copy = pyopnb.node("Cast", f"w{layer}", f"c{layer}", to=1)
        model.graph.node.insert(0, copy)
        model.graph.initializer.add(name=f"w{layer}", data_type=1, dims=[3], raw_data=bytes(12))
    for node in model.graph.node:
        if node.name.endswith("_7"):
            layer = int(node.name.split(".")[1].split("/")[0])
            node.op_type = "Add"
            node.input.append(f"c{layer}")
    assert "layer.0 … layer.11, × 12, 31 nodes each" in Html(pyopnb.show(model).body).text


def test_the_picture_around_a_node_comes_before_the_whole_graph():
    seen = pyopnb.show(layers(12), around="t200")
    page = Html(seen.body)
    assert len(page.answers[0]) == 12 and any("t200" in text for text, _ in page.answers[0])
    assert "the whole graph: 362 nodes" in page.text


def test_the_model_stays_as_it_was():
    control = pyopnb.parse(CONTROL)
    before = control.SerializeToString(deterministic=True)
    pyopnb.show(control)
    assert control.SerializeToString(deterministic=True) == before


def test_a_nest_as_deep_as_a_file_can_hold():
    proto = onnx.ModelProto(ir_version=10, opset_import=[helper.make_opsetid("", 21)])
    graph = proto.graph
    for depth in range(32):
        node = graph.node.add(op_type="If", input=["c"], output=[f"r{depth}"])
        graph.output.add(name=f"r{depth}")
        graph = node.attribute.add(name="then_branch", type=onnx.AttributeProto.GRAPH).g
    graph.node.add(op_type="Abs", input=["x"], output=["r"])
    assert len(Html(pyopnb.show(proto).body).images) == 33


@pytest.mark.parametrize("name", ["squeezenet", "shufflenet"])
def test_real_networks_are_drawn_whole(name):
    path = os.path.join(LIGHT, f"light_{name}.onnx")
    seen = pyopnb.show(path)
    proto = onnx.load(path)
    drawn = [node.op_type for node in proto.graph.node if node.op_type != "Constant"]
    # what looks alike is written once, and used
    tree = ET.fromstring(seen.svg)
    kept = {group.get("id"): group for group in tree.findall("{*}defs/{*}g")}
    groups = [
        kept[e.get("href")[1:]] if e.tag.endswith("use") else e
        for e in tree
        if e.tag.endswith(("use", "}g"))
    ]
    titles = [group.find("{*}text").text for group in groups if group.find("{*}text") is not None]
    assert sorted(titles) == sorted(
        [*drawn, proto.graph.output[0].name, "data_0" if name == "squeezenet" else "gpu_0/data_0"]
    )
    assert "left out" not in seen.body


@pytest.mark.parametrize("thing", [b"", b"no model", "nowhere.onnx", onnx.ModelProto()])
def test_what_is_no_model_is_refused(thing):
    with pytest.raises(ModelError):
        pyopnb.show(thing)


def test_a_node_without_outputs_is_drawn_diffed_and_traced():
    @pyopnb.pyop("test::Sink")
    class Sink:
        def compute(self, x):
            return ()

    model = pyopnb.parse("(float[2] x) => (float[2] y) { a = Abs(x)  y = Neg(a) }")
    other = onnx.ModelProto()
    other.CopyFrom(model)
    other.graph.node.append(onnx.helper.make_node("Sink", ["a"], [], domain="test"))
    other.opset_import.add(domain="test", version=1)
    x = np.float32([1, 2])
    assert "\n  test::Sink(a)" in str(pyopnb.show(other))
    for shown in (other, pyopnb.diff(model, other), pyopnb.diff(other, model)):
        assert "Sink" in pyopnb.show(shown)._repr_html_() + str(shown)
    for on in ("onnxruntime", "reference"):
        trace = pyopnb.trace(other, x=x, on=on)
        assert list(trace) == ["x", "a", "y"]
        found = pyopnb.diff(trace, pyopnb.trace(other, x=x))
        assert found.ok and found._repr_html_()
    seen = []
    pyopnb.run(pyopnb.wrap(other, "Sink", seen.append), x=x)
    assert repr(seen[0]).startswith("a node without outputs (test::Sink)")
