"""The ONNX text form: read, refused with the line, written, and read back."""

from __future__ import annotations

import math
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from limits import LIMIT
from onnx import helper, numpy_helper

import pyopnb
from pyopnb.engine.models.ort_capabilities import newest_ir_version, newest_opset

STORY = """\
(float[N,3] x) => (float[N,3] y) {
    a = Abs(x)
    # a comment
    y = demo.SoftClip<limit = 2.0>(a)
}
"""


def imports(model: Any) -> dict[str, int]:
    return {entry.domain: entry.version for entry in model.opset_import}


# Reading


def test_a_bare_graph() -> None:
    made = pyopnb.parse(STORY)
    assert (made.ir_version, imports(made)) == (
        newest_ir_version(),
        {"": newest_opset(), "demo": 1},
    )
    assert [(n.domain, n.op_type, list(n.input), list(n.output)) for n in made.graph.node] == [
        ("", "Abs", ["x"], ["a"]),
        ("demo", "SoftClip", ["a"], ["y"]),
    ]
    assert made.graph.node[1].attribute[0].f == 2.0
    assert made.graph.input[0].type.tensor_type.shape.dim[0].dim_param == "N"


@pytest.mark.parametrize(
    ("text", "given", "name"),
    [
        (STORY, None, "graph"),
        (STORY, "clipper", "clipper"),
        (STORY, 'a "b" \\', 'a "b" \\'),
        ("own " + STORY, "clipper", "own"),
        (f'# "\n<ir_version: 9, producer_name: ">(" # >\n>\n{STORY}', "clipper", "clipper"),
    ],
)
def test_the_name(text: str, given: str | None, name: str) -> None:
    assert pyopnb.parse(text, name=given).graph.name == name


@pytest.mark.parametrize(
    ("written", "dtype", "dims"),
    [
        ("float32[N,3]", "float32", ("N", 3)),
        ("float64 [ 2 ]", "float64", (2,)),
        ("float8_e4m3fn[?]", "float8_e4m3fn", (None,)),
        ("float32[ ... ]", "float32", None),
        ("int64[...]", "int64", None),
        ("int64[]", "int64", None),
        ("int64", "int64", ()),
        ("float", "float32", ()),
    ],
)
def test_types(written: str, dtype: str, dims: Any) -> None:
    tensor = pyopnb.parse(f"({written} x) => (y) {{ y = Abs(x) }}").graph.input[0].type.tensor_type
    assert tensor.elem_type == next(
        r.onnx for r in pyopnb.engine.ops.dtypes.DTYPES if r.name == dtype
    )
    assert tensor.HasField("shape") == (dims is not None)
    assert [
        d.dim_param or (d.dim_value if d.HasField("dim_value") else None) for d in tensor.shape.dim
    ] == list(dims or ())


def test_our_names_of_dtypes_elsewhere_stay() -> None:
    made = pyopnb.parse(
        '(seq(float32[N]) "float32[N] [...]") => (y) { y = demo.Op<s = "float64[2]">("float32[N] [...]") # float32[N]\n}'
    )
    assert made.graph.input[0].name == made.graph.node[0].input[0] == "float32[N] [...]"
    assert made.graph.node[0].attribute[0].s == b"float64[2]"


@pytest.mark.parametrize(
    ("attrs", "op", "kinds"),
    [
        ("alpha = 2", "LeakyRelu", ["FLOAT"]),
        ("alpha = 2.5", "LeakyRelu", ["FLOAT"]),
        ("axis = 2", "Softmax", ["INT"]),
        ("limit = 2", "demo.SoftClip", ["INT"]),
        ("scale = [1, 2]", "ai.onnx.ml.Scaler", ["FLOATS"]),
    ],
)
def test_an_int_for_a_float(attrs: str, op: str, kinds: list[str]) -> None:
    made = pyopnb.parse(f"(float[N] x) => (y) {{ a = Neg(x) y = {op}<{attrs}>(a) }}").graph.node[1]
    assert [onnx.AttributeProto.AttributeType.Name(a.type) for a in made.attribute] == kinds


def test_values_of_less_than_a_byte() -> None:
    made = pyopnb.parse(
        "(float x) => (y) <int4[3] a = {1, -2, 7}, uint4[1] b = {15}> { y = demo.Op<t = int4[2] {-8, 3}>(x, a, b) }"
    )
    arrays = [
        numpy_helper.to_array(t).astype(int).tolist()
        for t in [*made.graph.initializer, made.graph.node[0].attribute[0].t]
    ]
    assert arrays == [[1, -2, 7], [15], [-8, 3]]


# Refusing


GRAPH = "(float[N,3] x) => (float[N,3] y) {\n"


# Where, and what about it, of each thing that is refused; tests/mistakes has the words.
@pytest.mark.parametrize(
    ("text", "place", "said"),
    [
        (GRAPH + "  a = Abs(x)\n  y = Abs(b)\n}", (3, 11), "input b: .* Try: a, x"),
        (GRAPH + "  a = Abs(x)\n  a = Neg(a)\n  y = Abs(a)\n}", (2, 3), "an output of Abs and an output of Neg"),
        ("(float[N] x) => (z) {\n y = Abs(x)\n}", (1, 18), "got z, .*. Try: x, y"),
        (GRAPH + " y = Softmx(x) }", (2, 6), "Try: Softmax"),
        ('<opset_import: ["" : 13]> ' + GRAPH + " y = Gelu(x) }", (2, 6), "version 20 of ai.onnx or newer"),
        ('(float x) => (y) { y = Abs(x) }\n<domain: "d", opset_import: ["" : 17]> F (a) => (b) {\n b = Abs(c)\n}', (3, 10), "input c"),
        ("(float x) => (y) <float[3] w = {1, 2}> { y = Abs(x) }", (1, 28), "expected 3 values, got 2"),
        ("(float x) => (y) { y = demo.Op<u = 1, t = uint8[1] {300}>(x) }", None, "uint8 can hold, got 300"),
        ("(float x) => (y) { y = demo.Op<u = [float {1}]>(x) }", (1, 32), "got a list of several types"),
        ("(float32 x) => (y) { y = Abs(x) }", (1, 2), "Try: float for a scalar"),
        ("(float x) => (y) { y = Abs(x", (1, 29), "got the end of the text"),
        ("(float é) => (y) {}", (1, 8), "Identifier expected .* got é"),
        ("(float x) => (y) {}\0", (1, 20), "got the character 0x0"),
        ("(float \ud800) => ()", (1, 8), "got the character 0xd800"),
        ("(float[99999999999999999999] x) => (y) {\n y = Abs(x) }", None, "numbers that their types can hold"),
        (GRAPH + " y = Abs(y) }", None, "a cycle: y → y"),
        (" # no more\n", None, "got nothing"),
        (b"x", None, "expected a str"),
    ],
)  # fmt: skip
def test_what_is_wrong_and_where(text: Any, place: tuple[int, int] | None, said: str) -> None:
    with pytest.raises(pyopnb.errors.ModelError, match=said) as raised:
        pyopnb.parse(text)
    if place is not None:
        assert str(raised.value).startswith("line {}, column {}, in `".format(*place))


def test_nodes_may_stand_in_any_order() -> None:
    made = pyopnb.parse("(float x) => (y) { y = Abs(z)  z = Neg(x) }")
    assert [node.op_type for node in made.graph.node] == ["Neg", "Abs"]


@pytest.mark.parametrize(
    ("text", "at"), [("(float[N] x) => (y) {\n\ty = x + 1\n}", "+"), ("(float[N] x) -> (y) { y = Abs(x) }", "-"), ("(float é x) => (y) {}", "é")]
)  # fmt: skip
def test_a_caret_stands_under_what_the_parser_refuses(text: str, at: str) -> None:
    with pytest.raises(pyopnb.errors.ModelError) as raised:
        pyopnb.parse(text)
    line, caret = raised.value.__notes__[0].split("\n")
    assert line[caret.index("^")] == at


def nested(depth: int) -> str:
    head = "".join(
        f"z{n} = If(c) <else_branch = e () => (z) {{ z = Abs(x) }}, then_branch = t () => (z{n + 1}) {{ "
        for n in range(depth)
    )
    return f"(bool c, float x) => (z0) {{ {head}z{depth} = Abs(x){' }>' * depth} }}".replace(
        "(z) { z = Abs(x) }", "(x) { }"
    )


# Past the parser's own depth of some thousands the process would end; past protobuf's, a
# model cannot be read.
DEEP = """
import pyopnb
for text in (
    "(bool c) => (y) {" + "y = If(c) <then_branch = t () => (y) {" * 20000,
    *(f"({kind * 200000}" for kind in ("seq(", "optional(", "map(int64, ", "(", "[", "<", "{")),
    "(float x) => (y) {" + "z = If(x)<then_branch = t () => (z) { " * 40 + "z = Abs(x)" + "}>" * 40 + "}",
    "(" + "seq(" * 60 + "float" + ")" * 60 + " x) => (x) {}",
    '"' * 100001 + "(" * 100000,
    "#" * 100000 + "\\n" + "a = " * 100000,
):
    try:
        pyopnb.parse(text)
    except pyopnb.errors.ModelError as error:
        print(str(error)[-90:])
"""


def in_a_process(code: str, *arguments: str) -> str:
    """What a script prints; if it ends otherwise than by its end, that fails, and not the whole run of tests."""
    root = Path(pyopnb.__file__).parents[1]
    ran = subprocess.run(
        [sys.executable, "-c", code, *arguments],
        capture_output=True,
        text=True,
        cwd=root,
        timeout=LIMIT,
    )
    assert ran.returncode == 0, ran.stderr[-3000:] or f"exit code {ran.returncode}"
    return ran.stdout


@pytest.mark.one_python  # 2 s, of our own parser
def test_endless_nesting_ends_no_process() -> None:
    lines = in_a_process(DEEP).splitlines()
    assert len(lines) == 12
    assert all(
        "nested at most 30 deep, got more than a ModelProto can hold" in line for line in lines[:10]
    )


@pytest.mark.parametrize("depth", [0, 10, 28])
def test_nesting_that_a_model_can_hold(depth: int) -> None:
    made = pyopnb.parse(nested(depth))
    assert pyopnb.parse(pyopnb.text(made)) == made


FUZZ = r"""
import sys
from hypothesis import HealthCheck, given, seed, settings, strategies as st
import pyopnb

GOOD = [
    "(float[N,3] x) => (float[N,3] y) { a = Abs(x)  y = demo.SoftClip<limit = 2.0>(a) }",
    '<ir_version: 10, opset_import: ["" : 21]> g (float[N] x, bool c) => (y) <float[2] w = {1.5, -2}, int4[3] q = {1, 2, -3}, '
    'string[1] s = {"a\\"b"}> { [n] b = Add(x, w) y = If (c) <then_branch = t () => (z) { z = Abs(b) }, '
    'else_branch = e () => (float[] z) { z = Neg(b) }> } <domain: "l", opset_import: ["" : 21]> F <k, l: int = 3> (a) => (r) '
    '{ r = Op<i = @k, j = [1, 2], f: floats = [], t = float[1] {nan}>(a, "", a) }',
    "(seq(float[N]) x, optional(int64) o, map(int64, float) m) => (y) { y = SequenceAt(x, o) }",
    '#@ doc_string: "d"\n#@ value "x" doc_string: "d"\n(float[N] x) => (float[N] y) <float[1] w = {1}> {\n#@ metadata_props: {"k": "v"}\ny = Add(x, w)\n}',
]
PIECES = ["(", ")", "{", "}", "<", ">", "[", "]", "=>", "=", ",", '"', "\\", "#", "\n", ":", "@", "-", "1", "-3",
          "99999999999999999999", "1e400", "nan", "inf", "float", "float32", "float[...]", "float[?]", "seq(", "x", "y", "a",
          "If", '""', ".", "\0", "\u00e9", "\ud800", "\x1b", "1.2.3", "uint64", "int4[2]{1,2}", "ints", "graphs", " ",
          '\n#@ doc_string: "a"\n', '\n#@ value "x" doc_string: "a"\n', "\n#@ metadata_props: {}\n", "\n#@ name: 'n'\n"]

@st.composite
def spoiled(draw):
    text = draw(st.sampled_from(GOOD))
    for _ in range(draw(st.sampled_from([1, 1, 1, 2, 6]))):
        first = draw(st.integers(0, len(text)))
        last = first + draw(st.integers(0, 15))
        times = draw(st.integers(0, 4))
        put = draw(st.sampled_from(["", *PIECES]))
        text = text[:first] + put + text[first:last] * times + text[last:]
    return text

done = {"read": 0, "refused": 0}

@seed(0)
@settings(max_examples=int(sys.argv[1]), deadline=None, database=None, suppress_health_check=list(HealthCheck))
@given(st.one_of(spoiled(), spoiled(), st.text(max_size=60), st.lists(st.sampled_from(PIECES), max_size=40).map("".join)))
def fuzz(text):
    try:
        model = pyopnb.parse(text)
    except pyopnb.errors.ModelError as error:
        done["refused"] += 1
        assert "\n" not in str(error)
        return
    done["read"] += 1
    try:
        written = pyopnb.text(model)
    except pyopnb.errors.ModelError:
        return
    assert pyopnb.text(pyopnb.parse(written)) == written

fuzz()
print(done["read"], done["refused"])
"""


@pytest.mark.one_python
def test_no_text_ends_the_process_or_raises_anything_else() -> None:
    read, refused = map(int, in_a_process(FUZZ, "300").split())
    assert read > 2 and refused > 50


def test_a_text_of_megabytes() -> None:
    text = (
        "(float[N] x) => (y) {\n"
        + "".join(f"y{n} = Abs({f'y{n - 1}' if n else 'x'})\n" for n in range(5000))
        + "y = Abs(zz) }"
    )
    with pytest.raises(pyopnb.errors.ModelError, match="line 5002, column 9, in `y = Abs"):
        pyopnb.parse(text)
    for hostile in (
        '"\\"' * 30000,
        '"' + "\\" * 100000,
        "9" * 100000,
        "x" * 100000,
        "(float[" + "9" * 100000,
    ):
        with pytest.raises(pyopnb.errors.ModelError) as raised:
            pyopnb.parse(hostile)
        assert len(str(raised.value)) < 600


# Writing


def one_node(**attrs: Any) -> onnx.ModelProto:
    return pyopnb.model(pyopnb.node("demo::Op", "x", "y", **attrs), {"x": "float32[N]"}, "y")


# The parser of an older onnx reads neither the smallest floats nor everything in quotes;
# `text` then says so.
OLD = tuple(map(int, onnx.__version__.split(".")[:2])) < (1, 21)


def same(model: onnx.ModelProto) -> onnx.ModelProto:
    try:
        again = pyopnb.parse(pyopnb.text(model))
    except pyopnb.errors.ModelError as error:
        if OLD and "expected what the installed onnx can read back" in str(error):
            pytest.skip(str(error))
        raise
    assert pyopnb.text(again) == pyopnb.text(model)
    return again


ARRAYS = [
    *(np.arange(4).astype(t).reshape(2, 2) for t in ("bool", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64", "complex64", "complex128")),
    *(np.arange(-2, 3).astype(getattr(ml_dtypes, t)) for t in ("int4", "bfloat16", "float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz")),
    np.arange(5).astype(ml_dtypes.uint4), np.int64([-(2**63), 2**63 - 1]), np.uint64([2**64 - 1]), np.float16([1.5, np.nan, -np.inf]),
    np.float32([0.1, 1e-45, 3.4028235e38, -0.0, np.inf, -np.inf, np.nan, 16777217]), np.array([0.1, 5e-324, 1.7976931348623157e308]),
    np.zeros((0, 3), np.float32), np.array(2, np.float32), np.array(["", 'a"b\\\n', "é#}", "x\x1b\x07"], object),
]  # fmt: skip


@pytest.mark.parametrize("array", ARRAYS, ids=lambda a: f"{a.dtype}{list(a.shape)}")
def test_tensors_keep_every_bit(array: np.ndarray) -> None:
    made = one_node(t=array)
    made.graph.initializer.append(numpy_helper.from_array(array, "w 1"))
    again = same(made)
    for tensor in (again.graph.initializer[0], again.graph.node[0].attribute[0].t):
        got = numpy_helper.to_array(tensor)
        assert (got.dtype, got.shape) == (
            numpy_helper.to_array(made.graph.initializer[0]).dtype,
            array.shape,
        )
        assert (
            got.tolist() == array.tolist()
            if array.dtype == object
            else got.tobytes() == array.tobytes()
        )


@pytest.mark.parametrize(
    "value",
    [
        0, -(2**63), 2**63 - 1, 0.0, -0.0, 2.0, float(np.float32(0.1)), 1e20, float("nan"), float("inf"), -float("inf"), 1e-40,
        "", 'a"b', "\\n", "a\nb", "}#", "é", "\x07", [1], [], [0.5, float("nan")], ["", 'a", "b'],
        helper.make_graph([], "g", [], [onnx.ValueInfoProto(name="x")]),
        helper.make_tensor_type_proto(1, ["N", None, 3]), helper.make_sequence_type_proto(helper.make_tensor_type_proto(8, None)),
    ],
)  # fmt: skip
def test_attributes_come_back(value: Any) -> None:
    made = one_node(a=value)
    again = same(made).graph.node[0].attribute[0]
    assert again.SerializeToString(deterministic=True) == made.graph.node[0].attribute[
        0
    ].SerializeToString(deterministic=True)


def test_what_else_comes_back() -> None:
    made = pyopnb.parse(
        '<ir_version: 9, opset_import: ["" : 17, "demo" : 1, "l" : 1], producer_name: "p\\"", producer_version: "1", domain: "d", model_version: 3, doc_string: "two\nlines">'
        '"g 1" (seq(float[N]) s, optional(int64) o, map(int64, string[]) m, float["a b",?,0] "x:0", z, float[2] i = {1, 2}) => (float y, q)'
        '<float[2] w = {3, 4}, double v> { [n] y, "", "o 1" = demo.Op("x:0", "", w) ["m m"] q = l.F(y) }'
        '<domain: "l", opset_import: ["" : 17, "demo" : 1], doc_string: "what"> F <k, l: int = 3> (a, b) => (r) { c = demo.Op<i: int = @k>(a, b) r = Abs(c) }'.replace(
            '"a b"', "ab" if OLD else '"a b"'
        )
    )
    again = same(made)
    assert again == made
    assert again.functions[0].attribute_proto[0].i == 3
    assert again.graph.node[0].output == ["y", "", "o 1"]


def test_nothing_is_lost_in_silence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "pyopnb.models.text_form.printer._number", lambda value: f"{float(value):.3g}"
    )
    with pytest.raises(
        pyopnb.errors.ModelError, match=r"graph\.node\.attribute\.f that does not come"
    ):
        pyopnb.text(one_node(a=0.12345))


def test_only_so_many_values() -> None:
    made = one_node(t=np.zeros(10, np.float32))
    with pytest.raises(
        pyopnb.errors.ModelError,
        match=r"expected at most 9 values .* got 10 up to this one\. .*pyopnb\.text\(model, most=…\)",
    ):
        pyopnb.text(made, most=9)
    assert pyopnb.text(made, most=10)


NAMES = st.one_of(st.text(), st.sampled_from(["map", "float", "seq", "nan", "inf", "If", "domain"]))


@settings(max_examples=60)
@example("", "", b"", -math.nan, 0)
@given(
    NAMES, st.text(), st.binary(max_size=8), st.floats(width=32), st.integers(-(2**63), 2**63 - 1)
)
def test_any_name_and_value_comes_back_or_is_refused(
    name: str, text: str, raw: bytes, number: float, integer: int
) -> None:
    nodes = [
        helper.make_node(
            "Op",
            ["x"],
            [name or "y"],
            name=name,
            domain="demo",
            s=text,
            b=raw,
            f=number,
            i=integer,
            l=[text, name],
        )
    ]
    made = pyopnb.model(nodes, {"x": "float32"}, [name or "y"]) if name != "x" else one_node()
    made.doc_string = text
    try:
        written = pyopnb.text(made)
    except pyopnb.errors.ModelError as error:
        said = str(error)
    else:
        said = ""
    if said:
        assert re.search(
            "UTF-8|zero byte|zero character" + "|installed onnx can read back" * OLD, said
        )
        return
    again = pyopnb.text(pyopnb.parse(written))
    assert re.sub("^# Left out: .*\n", "", again) == re.sub("^# Left out: .*\n", "", written)
