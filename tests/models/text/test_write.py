"""`text` and `parse`: every model comes back to the byte, or is refused by name."""

from __future__ import annotations

import contextlib
import glob
import re
import struct
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.parser
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from onnx import AttributeProto, ModelProto, TensorProto, helper, numpy_helper

import pyopnb

# The parser of an older onnx reads neither the smallest floats nor everything in quotes; `text` then says so.
OLD = tuple(map(int, onnx.__version__.split(".")[:2])) < (1, 21)


def serialized(model: ModelProto) -> bytes:
    return model.SerializeToString(deterministic=True)


def assert_comes_back(model: ModelProto, **how: Any) -> str:
    """Assert that a model is the same to the byte after its text, which onnx's own parser takes as well; return the text."""
    before = serialized(model)
    written = pyopnb.text(model, **how)
    assert serialized(model) == before, "the model was changed"
    assert serialized(pyopnb.parse(written, weights=how.get("weights"))) == before
    onnx.parser.parse_model(written)
    return written


def small(*nodes: onnx.NodeProto, **fields: Any) -> ModelProto:
    nodes = nodes or (helper.make_node("Abs", ["x"], ["y"]),)
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["N"]) for name in "xy"]
    graph = helper.make_graph(nodes, "g", ends[:1], ends[1:])
    return helper.make_model(
        graph, ir_version=10, opset_imports=[helper.make_opsetid("", 21), helper.make_opsetid("d", 1)], **fields
    )


# What ONNX's form has no place for


def quantized(model: ModelProto) -> None:
    annotation = model.graph.quantization_annotation.add(tensor_name="x")
    annotation.quant_parameter_tensor_names.add(key="SCALE_TENSOR", value="s")


def trained(model: ModelProto) -> None:
    model.training_info.add().algorithm.CopyFrom(model.graph)


def sparse(model: ModelProto) -> None:
    values = numpy_helper.from_array(np.float32([1]), "s")
    model.graph.sparse_initializer.append(helper.make_sparse_tensor(values, numpy_helper.from_array(np.int64([0])), [3]))


def on_devices(model: ModelProto) -> None:
    model.configuration.add(name="two", num_devices=2)
    model.graph.node[0].device_configurations.add(configuration_id="two", pipeline_stage=1)


def overloaded(model: ModelProto) -> None:
    for overload in ("", "two", "a-b"):
        function = model.functions.add(name="F", domain="d", overload=overload, doc_string="what")
        function.input.append("a")
        function.output.append("b")
        function.opset_import.add(domain="", version=21)
        function.node.append(helper.make_node("Abs", ["a"], ["b"], doc_string="why"))
        function.metadata_props.add(key="k", value="v")
        function.value_info.append(onnx.ValueInfoProto(name="b", doc_string="b"))
    model.graph.node.append(helper.make_node("F", ["x"], ["z"], domain="d", overload="two"))


def listed(model: ModelProto) -> None:
    branch = helper.make_graph([helper.make_node("Neg", ["x"], ["z"])], "b", [], [onnx.ValueInfoProto(name="z")])
    model.graph.node[0].op_type, model.graph.node[0].domain = "Op", "d"
    for name, value in (("a", 1), ("graphs", [branch, branch]), ("bytes", b"\xff\0"), ("b", 2.0), ("l", [b"\xff"])):
        model.graph.node[0].attribute.append(helper.make_attribute(name, value))
    model.graph.node[0].attribute.append(helper.make_attribute("types", [helper.make_tensor_type_proto(1, [2])]))
    model.graph.node[0].attribute.append(helper.make_attribute("tensors", [numpy_helper.from_array(np.float32([1]))]))


@pytest.mark.parametrize(
    ("change", "annotation"),
    [
        (lambda m: setattr(m.graph.node[0], "doc_string", "why"), '   #@ doc_string: "why"\n   y = Abs (x)'),
        (lambda m: setattr(m.graph.node[0], "doc_string", "two\nlines"), r'   #@ doc_string: "two\nlines"' + "\n   y = Abs (x)"),
        (lambda m: m.graph.node[0].metadata_props.add(key="k", value="v"), '#@ metadata_props { key: "k" value: "v" }'),
        (lambda m: setattr(m.graph, "doc_string", "why"), '#@ graph doc_string: "why"'),
        (lambda m: m.graph.metadata_props.add(key="k", value="v"), '#@ graph metadata_props { key: "k" value: "v" }'),
        (lambda m: m.graph.input[0].metadata_props.add(key="k"), '#@ graph.input["x"] metadata_props { key: "k" }'),
        (lambda m: setattr(m.graph.input[0].type, "denotation", "IMAGE"), '#@ graph.input["x"].type denotation: "IMAGE"'),
        (lambda m: setattr(m.graph.node[0], "domain", "a-b"), '#@ domain: "a-b"\n   y = a_b.Abs (x)'),
        (lambda m: setattr(m.graph.node[0], "op_type", "1 p"), '#@ op_type: "1 p"\n   y = _1_p (x)'),
        (lambda m: setattr(m.graph, "name", "a\0b"), r'#@ graph name: "a\000b"'),
        (lambda m: m.graph.ClearField("name"), "#@ graph clear name"),
        (lambda m: m.graph.node[0].ClearField("output"), '#@ clear output\n   "" = Abs (x)'),
        (quantized, "#@ graph quantization_annotation { "),
        (trained, "#@ training_info { algorithm { "),
        (sparse, "#@ graph sparse_initializer { "),
        (on_devices, '#@ device_configurations { configuration_id: "two" pipeline_stage: 1 }'),
        (overloaded, '#@ value_info { name: "b" doc_string: "b" } metadata_props { key: "k" value: "v" }\n<\n'),
        (overloaded, "   #@ doc_string: \"why\"\n   b = Abs (a)"),
        (listed, "#@ attribute[1] insert name: \"graphs\" "),
        (listed, '   #@ attribute[2] insert name: "bytes" s: "\\377\\000" type: STRING\n'),
        (lambda m: m.graph.initializer.append(numpy_helper.from_array(np.float32([1]), "")), "#@ graph initializer { "),
        (lambda m: m.graph.initializer.append(TensorProto(name="w", data_type=1, dims=[2], raw_data=b"1")), "#@ graph initializer { "),
        (lambda m: setattr(m.graph.input[0].type.tensor_type, "elem_type", 0), '#@ graph.input["x"] type { '),
        (lambda m: m.graph.node[0].input.append("later"), "#@ verbatim"),
        (lambda m: m.ClearField("ir_version"), "#@ verbatim\n#@ clear ir_version"),
        (lambda m: m.ClearField("opset_import"), "#@ verbatim"),
        (lambda m: m.graph.output[0].ClearField("type"), "#@ verbatim"),
        (lambda m: m.graph.node[0].attribute.append(helper.make_attribute("alpha", 1)), "#@ verbatim"),
    ],
)  # fmt: skip
def test_what_onnx_has_no_place_for_is_annotated(change: Any, annotation: str) -> None:
    model = small()
    change(model)
    assert annotation in assert_comes_back(model)


def test_what_needs_no_annotation_has_none() -> None:
    assert "#" not in assert_comes_back(small())


def test_an_unsorted_graph() -> None:
    model = small(helper.make_node("Abs", ["a"], ["y"]), helper.make_node("Neg", ["x"], ["a"]))
    assert "#@ verbatim" in assert_comes_back(model)
    (y,) = pyopnb.run(pyopnb.parse(pyopnb.text(model)), x=np.float32([-2]))
    assert y.tolist() == [2]


@pytest.mark.parametrize("name", ["w/1:0", "1", "float", "", "nan", 'a"b'])
@pytest.mark.parametrize("raw", [True, False])
def test_a_constant_of_any_name(name: str, raw: bool) -> None:
    tensor = helper.make_tensor("w", TensorProto.FLOAT, [2], np.float32([1, 2]).tobytes() if raw else [1.0, 2.0], raw=raw)
    tensor.name = name
    model = small(helper.make_node("Constant", [], ["c"], value=tensor), helper.make_node("Add", ["x", "c"], ["y"]))
    assert ("#@ raw" in assert_comes_back(model)) == raw


def test_tensors_stay_in_the_field_in_which_they_are() -> None:
    model = small()
    for dtype in ("float32", "int64", "uint8", "bool", "float16", "complex64", "uint64", "int8", "float64"):
        array = np.array([0, 1, 1], dtype)
        model.graph.initializer.append(numpy_helper.from_array(array, f"raw {dtype}"))
        typed = array.view(np.uint16) if dtype == "float16" else array
        onnx_type = helper.np_dtype_to_tensor_dtype(array.dtype)
        made = helper.make_tensor(f"typed {dtype}", onnx_type, [3], array.tolist() if dtype != "float16" else array)
        assert typed.size == 3
        model.graph.initializer.append(made)
    model.graph.initializer.append(helper.make_tensor("int4", TensorProto.INT4, [3], [1, -2, 3]))
    written = assert_comes_back(model)
    assert '#@ graph.initializer["raw int8"] raw' in written and '"typed int8"]' not in written


NANS = {  # bits of the whole and of the fraction
    "float16": (16, 10), "bfloat16": (16, 7), "float32": (32, 23), "float64": (64, 52), "complex64": (32, 23), "complex128": (64, 52),
}  # fmt: skip


@st.composite
def nans(draw: Any) -> tuple[str, list[int]]:
    """A dtype and the bits of some values, most of them NaN: quiet and signalling, of either sign."""
    dtype = draw(st.sampled_from([*NANS]))
    whole, fraction = NANS[dtype]
    infinity = (1 << (whole - 1)) - (1 << fraction)
    nan = st.builds(
        lambda sign, low: sign << (whole - 1) | infinity | low, st.integers(0, 1), st.integers(1, (1 << fraction) - 1)
    )
    values = draw(st.lists(st.one_of(nan, nan, st.sampled_from([0, infinity])), min_size=2, max_size=4))
    return dtype, values[: len(values) // 2 * 2]


def tensor_of(dtype: str, bits: list[int], raw: bool) -> TensorProto:
    """A tensor of one dimension, made of bytes: a Python float of a signalling NaN would be a quiet one."""
    size = NANS[dtype][0] // 8
    data = b"".join(value.to_bytes(size, "little") for value in bits)
    tensor = TensorProto(
        name="w", data_type=getattr(TensorProto, dtype.upper().replace("FLOAT32", "FLOAT").replace("FLOAT64", "DOUBLE"))
    )
    tensor.dims.append(len(bits) // (2 if dtype.startswith("complex") else 1))
    if raw:
        tensor.raw_data = data
    elif size == 2:
        tensor.int32_data.extend(bits)
    else:
        tensor.MergeFromString(bytes([(4 if size == 4 else 10) << 3 | 2, len(data)]) + data)
    return tensor


@settings(max_examples=40, deadline=None)
@given(nans(), st.booleans(), st.integers(0, 3))
def test_a_nan_comes_back_bit_for_bit(values: tuple[str, list[int]], raw: bool, place: int) -> None:
    tensor = tensor_of(*values, raw)
    op = helper.make_node("Op", ["x"], ["y"], domain="d")
    model = small(op)
    node = model.graph.node[0]
    if place == 0:
        model.graph.initializer.append(tensor)
    elif place == 1:
        node.attribute.append(AttributeProto(name="t", type=AttributeProto.TENSOR, t=tensor))
    elif place == 2:  # where ONNX's text form has no place for the attr itself
        node.attribute.append(AttributeProto(name="ts", type=AttributeProto.TENSORS, tensors=[tensor, tensor]))
    else:
        branch = helper.make_graph(
            [helper.make_node("Constant", [], ["v"], value=tensor)], "b", [], [onnx.ValueInfoProto(name="v")]
        )
        model.graph.node.append(helper.make_node("If", ["x"], ["u"], then_branch=branch, else_branch=branch))
    assert_comes_back(model)


@settings(max_examples=20, deadline=None)
@given(
    st.lists(
        st.sampled_from([0, 0x3F800000, 0x7F800000])
        | st.integers(0x7F800001, 0x7FFFFFFF)
        | st.integers(0xFF800001, 0xFFFFFFFF),
        min_size=1,
        max_size=3,
    )
)
def test_a_nan_in_an_attr_comes_back_bit_for_bit(bits: list[int]) -> None:
    model = small(helper.make_node("Op", ["x"], ["y"], domain="d"))
    data = [struct.pack("<I", value) for value in bits]
    one, several = (
        model.graph.node[0].attribute.add(name="one", type=AttributeProto.FLOAT),
        model.graph.node[0].attribute.add(name="s"),
    )
    one.MergeFromString(b"\x15" + data[0])
    several.type = AttributeProto.FLOATS
    several.MergeFromString(b"".join(b"\x3d" + value for value in data))
    model.functions.add(domain="d", name="F", opset_import=model.opset_import).attribute_proto.append(one)
    assert_comes_back(model)


def test_a_nan_with_bits_of_its_own_is_in_an_annotation() -> None:
    model = small(helper.make_node("Op", ["x"], ["y"], domain="d", alpha=1.0))
    model.graph.node[0].attribute[0].MergeFromString(b"\x15\x01\x00\xc0\x7f")
    assert "#@ attribute[0] bits f 7fc00001" in assert_comes_back(model)
    model.graph.node[0].attribute[0].f = float("nan")
    assert "#@" not in assert_comes_back(model)


@pytest.mark.parametrize(
    ("written", "said"),
    [
        ("attribute[0] bits f", "expected one value, got f"),
        ("attribute[0] bits f 7fc00001 7fc00001", "expected one value, got f 7fc00001 7fc00001"),
        ("attribute[0] bits f 7ff8000000000001", "expected values of 8 hexadecimal digits, got f 7ff8000000000001"),
        ("attribute[0] bits f 0x7fc00001", "expected 8 or 16 hexadecimal digits for each value, got 0x7fc00001"),
        ("attribute[0] bits i 7fc00001", "expected a float field, got i 7fc00001"),
        ("attribute[0] bits g 7fc00001", "expected a float field, got g 7fc00001"),
        ("attribute[0] bits fs 7fc00001", "expected a field of a AttributeProto, got fs"),
        ("attribute[0] bits", "expected a float field and its bits, got nothing"),
    ],
)
def test_bits_that_cannot_be(written: str, said: str) -> None:
    with pytest.raises(pyopnb.ModelError, match=re.escape(said)):
        pyopnb.parse(f"(float[N] x) => (float[N] y) {{\n   #@ {written}\n   y = LeakyRelu<alpha = 0.5>(x)\n}}")


def test_fields_of_a_newer_onnx_are_refused_by_name() -> None:
    model = small()
    data = model.graph.node[0].SerializeToString() + b"\xfa\x3f\x01a"  # field 1023
    model.graph.node[0].CopyFrom(onnx.NodeProto.FromString(data))
    with pytest.raises(
        pyopnb.ModelError,
        match=r"^model\.graph\.node\[0\]: expected what a text can hold, got a field that the installed onnx does not know",
    ):
        pyopnb.text(model)


# Leaving out


def test_leaving_out_metadata_and_docs() -> None:
    model = small(doc_string="why", producer_name="p")
    overloaded(model)
    model.metadata_props.add(key="k", value="v")
    model.graph.node[0].metadata_props.add(key="k", value="v")
    less = pyopnb.parse(pyopnb.text(model, drop=("docs",)))
    assert not less.doc_string and not less.functions[0].doc_string and less.metadata_props and less.producer_name == "p"
    least = pyopnb.text(model, drop=("metadata", "docs"))
    assert "metadata" not in least and "doc_string" not in least
    assert not pyopnb.parse(least).graph.node[0].metadata_props and model.graph.node[0].metadata_props
    with pytest.raises(pyopnb.ArgumentError, match=r'drop: expected \("metadata", "docs"\), .* got \'doc\'.* drop=\("docs",\)'):
        pyopnb.text(model, drop=("doc",))


# Large tensors


def test_large_tensors_go_to_a_file(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    model = small()
    for name, array in (
        ("w", rng.random((300, 400))),
        ("h", rng.random(100)),
        ("s", np.arange(3.0)),
        ("b", rng.random(99) > 0.5),
    ):
        made = array if array.dtype == bool else array.astype(np.float16 if name == "h" else np.float32)
        model.graph.initializer.append(numpy_helper.from_array(made, name))
    model.graph.initializer.append(helper.make_tensor("typed", TensorProto.INT64, [70], range(70)))
    path = tmp_path / "weights.bin"
    written = assert_comes_back(model, weights=path)
    assert path.stat().st_size == 300 * 400 * 4 + 200 + 99 + 560 and len(written) < 1500
    aside = pyopnb.parse(written)
    assert aside.graph.initializer[0].data_location == TensorProto.EXTERNAL and aside.graph.initializer[2].raw_data
    session = pyopnb.Session(aside, base_dir=tmp_path)
    assert session(x=[-1])["y"].tolist() == [1]
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(pyopnb.ModelError, match=r"initializer typed: expected 560 bytes in weights.bin, got 559"):
        pyopnb.parse(written, weights=path)


def test_millions_of_values_come_back_from_a_file(tmp_path: Path) -> None:
    model = small()
    model.graph.initializer.append(numpy_helper.from_array(np.ones(5_000_000, np.float32), "w"))
    with pytest.raises(pyopnb.ModelError, match=r'Try: pyopnb\.text\(model, weights="weights\.bin"\)'):
        pyopnb.text(model)
    assert_comes_back(model, weights=tmp_path / "w")


def test_a_file_of_the_models_own_is_not_overwritten(tmp_path: Path) -> None:
    (tmp_path / "w.bin").write_bytes(bytes(400))
    model = small()
    model.graph.initializer.append(numpy_helper.from_array(np.ones(100, np.float32), "w"))
    tensor = model.graph.initializer.add(name="e", data_type=1, dims=[100], data_location=TensorProto.EXTERNAL)
    tensor.external_data.add(key="location", value="w.bin")
    with pytest.raises(pyopnb.ModelError, match="expected another name than that of the model's own external data, got w.bin"):
        pyopnb.text(model, weights=tmp_path / "w.bin")
    assert (tmp_path / "w.bin").read_bytes() == bytes(400)
    assert_comes_back(model, weights=tmp_path / "other.bin")


# Annotations by hand


ONE = "(float[N] x) => (float[N] y) {{\n   #@ {}\n   y = demo.Op <k = 1, t = float {{2}}> (x)\n}}"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("", "line 2, column 4, in `#@`: expected fields in protobuf's text format, got nothing."),
        ("doc: 1", "expected fields in protobuf's text format, got what protobuf refuses: "),
        ("a note to myself", "expected a field of a NodeProto, got a"),
        ("attribut[0] i: 2", "expected a field of a NodeProto, got attribut. Try: attribute"),
        ("attribute i: 2", 'expected attribute[…] or attribute["…"], got attribute.'),
        ('attribute["q"] i: 2', 'expected the name of one entry, got no attribute["q"].'),
        ('attribute["kk"] i: 2', 'got no attribute["kk"]. Try: k'),
        ("attribute[7] i: 2", "expected a place below 2, got attribute[7]."),
        ("attribute[7] insert i: 2", "expected a place up to 2, got attribute[7]."),
        ("insert i: 2", "expected the place of the new entry, as attribute[1] insert …, got nothing."),
        ("name[0] insert i: 2", "expected a list of messages, got name."),
        ("op_type[0] i: 2", "expected a path to a message, got op_type, which is none."),
        ("clear", "expected the fields to clear, got nothing."),
        ("clear docs", "expected a field of a NodeProto, got docs."),
        ("verbatim", "expected verbatim above the model, got verbatim of a NodeProto."),
        ("set name", "expected set above the model, got set of a NodeProto."),
        ("raw", "expected a tensor, got a NodeProto."),
        ('attribute["t"].t raw now', "expected nothing after raw, got now."),
        ("attribute { g { " * 40 + "} } " * 40, "expected fields nested at most 60 deep, got more."),
    ],
)  # fmt: skip
def test_what_is_wrong_with_an_annotation(words: str, message: str) -> None:
    with pytest.raises(pyopnb.ModelError) as raised:
        pyopnb.parse(ONE.format(words).replace("#@ \n", "#@\n"))
    assert message in str(raised.value)


def test_what_is_wrong_with_an_annotation_of_the_model() -> None:
    for words in ("set", "set doc_string"):
        with pytest.raises(pyopnb.ModelError, match="^line 1, column 1, .*: expected set domain name, or one of them, got "):
            pyopnb.parse(f"#@ {words}\n(float x) => (y) {{ y = Abs(x) }}")


def test_what_most_of_a_model_has_is_said_once() -> None:
    model = pyopnb.model([helper.make_node("Abs", ["x"], ["y"]) for _ in range(1)], {"x": "float32[N]"}, "y")
    for number in range(9):
        tensor = TensorProto(data_type=1, dims=[1], name="", float_data=[number])
        model.graph.node.append(helper.make_node("Constant", [], [f"c{number}"], value=tensor))
        model.graph.node[-1].domain = ""
    model.graph.initializer.append(numpy_helper.from_array(np.float32([1]), "w"))
    written = assert_comes_back(model)
    assert [line.strip() for line in written.splitlines() if "#@" in line] == [
        "#@ set domain name",
        '#@ graph.initializer["w"] raw',
        "#@ clear domain",
    ]


@pytest.mark.parametrize(
    "text",
    [
        "(float x) => (y) { y = Abs(x) }\n#@ doc_string: \"a\"",
        "(float x) => (y) { y = Abs(x)\n#@ doc_string: \"a\"\n}",
        "(float x\n#@ doc_string: \"a\"\n) => (y) { y = Abs(x) }",
        "(float x) => (y) { y = demo.Op<\n#@ doc_string: \"a\"\na = 1>(x) }",
    ],
)  # fmt: skip
def test_an_annotation_of_nothing(text: str) -> None:
    with pytest.raises(
        pyopnb.ModelError, match="expected an annotation on a line of its own above the model, a function or a node"
    ):
        pyopnb.parse(text)


def test_annotations_that_nest_deeper_than_a_file_can() -> None:
    inner = '#@ attribute { name: "b" g { node { ' + 'attribute { name: "b" g { node { ' * 18 + "} } } " * 19 + "\n y = Op(x)"
    for _ in range(20):
        inner = f"y = Op<b = g () => (y) {{ {inner} }}>(x)"
    with pytest.raises(pyopnb.ModelError, match="^annotations: expected a model that can be written to a file, got "):
        pyopnb.parse(f'<ir_version: 9, opset_import: ["": 20]> (float x) => (y) {{ {inner} }}')


def test_annotations_by_hand() -> None:
    model = pyopnb.parse(
        '#@ producer_name: "me"\n#@graph.output["y"] doc_string: "what"\n(float[N] x) => (float[N] y) {\n'
        '   a = Abs(x) # "#@ name" is no annotation: "\n'
        '   #@ doc_string: "one"   name: "#@"\n\n   # a comment\n   #@ attribute["k"] doc_string: "two"\n   y = demo.Op<k = "#@ k">(a)\n}'
    )
    assert (model.producer_name, model.graph.output[0].doc_string) == ("me", "what")
    assert [node.doc_string for node in model.graph.node] == ["", "one"] and model.graph.node[1].name == "#@"
    assert (model.graph.node[1].attribute[0].doc_string, model.graph.node[1].attribute[0].s) == ("two", b"#@ k")


def test_a_fault_below_annotations_has_its_line() -> None:
    text = '(float[N] x) => (float[N] y) {\n   #@ doc_string: "a"\n   a = Abs(x)\n   #@ domain: ""\n   y = Neg(b)\n}'
    with pytest.raises(pyopnb.ModelError, match=r"^line 5, column 12, in `y = Neg\(b\)`, input b: "):
        pyopnb.parse(text)


# Any proto at all


NAMES = st.sampled_from(["", "x", "y", "w 1", "a/b:0", "float", "nan", "1", "If", 'q"\\', "é\n", "\0", "a-b", "a.b", "g"])
SCALARS = {
    "int64": st.sampled_from([0, 1, -1, 7, 2**63 - 1]), "int32": st.integers(-3, 30), "uint64": st.sampled_from([0, 1, 2**64 - 1]),
    "float": st.sampled_from([0.0, -0.0, 0.5, float(np.float32(0.1)), float("inf"), float("nan"), 1e-40]),
    "double": st.sampled_from([0.0, -0.0, 0.1, float("-inf"), 5e-324]), "string": NAMES,
    "bytes": st.sampled_from([b"", b"a", b"\xff", b"\0\0\x80?", b'"\n']),
}  # fmt: skip
_TYPES = {1: "double", 2: "float", 3: "int64", 4: "uint64", 5: "int32", 9: "string", 12: "bytes", 13: "uint64"}


def is_list(field: Any) -> bool:
    return field.is_repeated if hasattr(field, "is_repeated") else field.label == field.LABEL_REPEATED


def fill(draw: Any, message: Any, depth: int) -> None:
    """Set any fields of a message to anything."""
    for field in message.DESCRIPTOR.fields:
        several = is_list(field)
        count = draw(st.sampled_from([0, 0, 0, 1, 2] if several else [0, 0, 1]))
        for _ in range(count):
            if field.message_type is not None:
                if depth > 0:
                    inner = getattr(message, field.name)
                    if several:
                        inner = inner.add()
                    else:
                        inner.SetInParent()
                    fill(draw, inner, depth - 1)
                continue
            value = (
                draw(st.sampled_from([v.number for v in field.enum_type.values]))
                if field.enum_type
                else draw(SCALARS[_TYPES[field.type]])
            )
            if several:
                getattr(message, field.name).append(value)
            else:
                setattr(message, field.name, value)


@st.composite
def protos(draw: Any) -> ModelProto:
    """A model in which some part is filled at random, whether that makes sense or not."""
    model = small(
        helper.make_node("Op", ["x"], ["y"], domain="d", a=1, b=[1.5], c="s", t=numpy_helper.from_array(np.float32([1]), "t"))
    )
    overloaded(model)
    model.graph.initializer.append(numpy_helper.from_array(np.int64([1, 2]), "w"))
    branch = helper.make_graph([helper.make_node("Neg", ["x"], ["v"])], "b", [], [onnx.ValueInfoProto(name="v")])
    model.graph.node.append(helper.make_node("If", ["x"], ["u"], then_branch=branch, else_branch=branch))
    parts = [
        model, model.graph, *model.graph.node, *model.graph.input, *model.graph.initializer, *model.functions, branch,
        *model.graph.node[0].attribute, model.graph.node[0].attribute[-1].t, model.graph.node[-1].attribute[0].g,
        model.graph.node[-1].attribute[0].g.node[0], model.graph.node[0].attribute.add(), model.graph.initializer.add(),
        model.graph.value_info.add(), model.graph.node.add(), model.functions[0].attribute_proto.add(),
    ]  # fmt: skip
    for _ in range(draw(st.integers(1, 3))):
        fill(draw, draw(st.sampled_from(parts)), draw(st.integers(0, 4)))
    return model


@settings(max_examples=120, deadline=None, suppress_health_check=list(HealthCheck))
@given(protos())
def test_any_proto_comes_back_or_is_refused_by_name(model: ModelProto) -> None:
    try:
        assert_comes_back(model)
    except pyopnb.ModelError as error:
        said = str(error)
        assert re.match(r"model[.:]|graph |tensor ", said), said
        allowed = "nested at most|at most 1000000 values" + "|installed onnx can read back" * OLD
        assert re.search(allowed, said), said


@pytest.mark.one_python
def test_the_models_that_come_with_onnx(tmp_path: Path) -> None:
    """The networks and bodies among onnx's own files; the other node tests are of one node each."""
    folder = Path(onnx.__file__).parent / "backend/test/data"
    files = [*glob.glob(f"{folder}/light/*.onnx"), *glob.glob(f"{folder}/simple/**/*.onnx", recursive=True)]
    assert len(files) >= 9
    for file in files:
        model = onnx.load(file, load_external_data=False)
        if not OLD:
            assert_comes_back(model, weights=tmp_path / "weights")
            continue
        with contextlib.suppress(pyopnb.ModelError):  # its parser does not take everything
            assert_comes_back(model, weights=tmp_path / "weights")
