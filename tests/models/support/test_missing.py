"""``missing``: what it names is what ONNX Runtime refuses, node for node, and it says so of any file without falling over."""

from __future__ import annotations

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import GraphProto, ModelProto, TensorProto, helper

import pyopnb
from pyopnb import missing
from pyopnb.engine.models.model_faults import exists
from pyopnb.engine.models.opset_versions import import_domains, lower_versions
from pyopnb.engine.models.ort_capabilities import (
    newest_ir_version,
    newest_opset,
    newest_version,
    operators,
)
from pyopnb.engine.models.protos import nodes_in, walk

_KERNEL = {"no kernel", "no kernel for dtype"}

SAYS = {
    "which the installed onnxruntime takes": {"opset too new"},
    "Unrecognized attribute": {"opset too new"},
    "Could not find an implementation": _KERNEL,
    "Failed to find kernel": _KERNEL,
    "MLDataType for": _KERNEL,  # an end of the graph of a dtype that the runtime does not carry
    "Type Error: Type ": _KERNEL,  # which only the newer version of the operator allows
    "bound to different types": _KERNEL,  # in the function that ONNX gives for an operator without a kernel
    "layout_ == 0 was false": _KERNEL,  # the kernel is there, and its constructor refuses layout = 1
    "string_normalizer.cc": _KERNEL,  # the machine lacks the locale that the kernel asks for
    "is not a registered function/op": {"unknown domain"},
}
"""Parts of runtime messages over node tests, and the kinds of which a row must be there."""


def refusal(model: ModelProto) -> str | None:
    """What ONNX Runtime says to a model, whose versions are lowered as a session does; None where it takes it."""
    taken = ModelProto()
    taken.CopyFrom(model)
    taken.ir_version = min(taken.ir_version, newest_ir_version())
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    try:
        lower_versions(taken)
        onnxruntime.InferenceSession(
            taken.SerializeToString(),
            options,
            providers=["CPUExecutionProvider"],
            enable_fallback=0,
        )
    except Exception as error:  # exceptions of the runtime share no base class
        return str(error)
    return None


# ---- the ONNX node tests ---------------------------------------------------------------------------------------------------


@pytest.mark.one_python
def test_the_runtime_refuses_what_is_missing_and_nothing_else(node_tests):
    assert len(node_tests) > 400
    wrong = {}
    for name, case in node_tests.items():
        rows, error = missing(case.model), refusal(case.model)
        # Kept: protobuf makes another object of an unreferenced node.
        sites = list(walk(case.model))
        paths = {id(site.node): site.path for site in sites}
        assert all(row.site is None or paths[id(row.site.node)] == row.path for row in rows)
        kinds = {row.kind for row in rows}
        is_right = bool(rows) == (error is not None)
        if error and rows:
            is_right = any(part in error and said & kinds for part, said in SAYS.items())
        if not is_right:
            wrong[name] = [*map(str, rows), error]
    assert wrong == {}


# ---- one kind after another --------------------------------------------------------------------------------------------------


def one(nodes, inputs, output="y", opset=None, functions=(), **more):
    """A model; operators that ONNX lacks, which the builder refuses, are in another domain until it is built."""
    given = GraphProto(node=[nodes] if isinstance(nodes, onnx.NodeProto) else nodes)
    for node in nodes_in(given):
        too_new = not node.domain and not onnx.defs.has(node.op_type, opset or 999, "")
        if not exists(node.domain, node.op_type) or too_new:
            node.domain = f"later.{node.domain}"
    model = pyopnb.model(list(given.node), inputs, output, opset=opset, **more)
    for node in nodes_in(model.graph):
        node.domain = node.domain.removeprefix("later.")
    kept = [entry for entry in model.opset_import if not entry.domain.startswith("later.")]
    del model.opset_import[:]
    model.opset_import.extend(kept)
    model.functions.extend(functions)
    import_domains(model)
    return model


def told(model):
    """The rows as text, after the runtime has also refused the model."""
    found = missing(model)
    assert bool(found) == (refusal(model) is not None)
    return [(row.node, row.op, row.kind) for row in found]


def test_an_unknown_op_comes_with_the_nearest_name():
    model = one(pyopnb.node("Softmaxx", "x", "y", name="last"), {"x": "float32[N]"})
    assert told(model) == [("last", "::Softmaxx", "unknown op")]
    assert missing(model)[0].reason == "the runtime has no ::Softmaxx; nearest: ::Softmax"


def test_an_unknown_domain_until_the_registry_has_the_op():
    model = one(pyopnb.node("demo::Twice", "x", "y"), {"x": "float32[N]"})
    assert told(model) == [("y", "demo::Twice", "unknown domain")]

    @pyopnb.pyop("demo::Twicee")
    class Twicee:
        def compute(self, x):
            return x * 2

    assert "nearest: demo::Twicee" in missing(model)[0].reason
    pyopnb.registry.define(Twicee, "demo::Twice")
    assert not missing(model)


def test_types_flow_through_operators_that_only_the_runtime_knows():
    nodes = [pyopnb.node("com.microsoft::Gelu", "x", "a"), pyopnb.node("Erf", "a", "y")]
    assert [row.node for row in missing(one(nodes, {"x": "float64[N]"}))] == ["a", "y"]


def test_the_op_of_the_registry_gives_the_types_that_its_hints_say():
    @pyopnb.pyop("demo::Wide")
    class Wide:
        def compute(self, x: "float32[N]") -> "float64[N]":
            return x.astype(np.float64)

    found = missing(
        one(
            [pyopnb.node("demo::Wide", "x", "a"), pyopnb.node("Erf", "a", "y")], {"x": "float32[N]"}
        )
    )
    assert [row.node for row in found] == ["y"]


def test_a_dtype_without_a_kernel():
    model = one(pyopnb.node("Erf", "x", "y"), {"x": "float64[N]"})
    assert told(model) == [("y", "::Erf-13", "no kernel for dtype")]
    assert missing(model)[0].reason.startswith("T is float64; there are kernels for ")
    assert "float32" in missing(model)[0].reason


def test_float16_is_cast_around_a_node_with_a_float16_input_only():
    assert told(one(pyopnb.node("Erf", "x", "y"), {"x": "float16[N]"})) == []
    random = pyopnb.node("RandomNormal", [], "y", shape=[2], dtype=TensorProto.FLOAT16)
    assert told(one(random, {}, opset=20)) == [("y", "::RandomNormal-1", "no kernel for dtype")]


def test_a_kernel_that_refuses_an_attr():
    norm = pyopnb.node("LpNormalization", "x", "y", p=3)
    for dtype in ("float32", "float64"):
        model = one(norm, {"x": f"{dtype}[2,3]"}, opset=13)
        assert told(model) == [("y", "::LpNormalization-1", "no kernel")]
        assert "its kernel refuses it: p_ == 1" in missing(model)[0].reason
        with pytest.raises(pyopnb.errors.ModelError, match=r"output 'y' .*fill=True"):
            pyopnb.Session(model)
    norm = pyopnb.node("LpNormalization", "x", "y", p=1)
    assert told(one(norm, {"x": "float32[2,3]"}, opset=13)) == []


@pytest.mark.parametrize(
    "place",
    [
        "/src/lp_norm.h:30 onnxruntime::LpNorm<T>::LpNorm(const onnxruntime::OpKernelInfo&) [with T = float]",
        "/src/lp_norm.h:30 onnxruntime::LpNorm<float>::LpNorm(const OpKernelInfo &) [T = float]",
        r"N:\_work\1\s\onnxruntime\core/providers/cpu/nn/lp_norm.h:30 onnxruntime::LpNorm<float>::LpNorm",
    ],
    ids=["GCC", "clang", "MSVC"],
)
def test_what_a_compiler_says_of_a_function_is_left_out(monkeypatch, place):
    def refuse(*_, **__):
        raise RuntimeError(f"Exception during initialization: {place} p_ == 1 was false. ")

    monkeypatch.setattr(onnxruntime, "InferenceSession", refuse)
    norm = pyopnb.node("LpNormalization", "x", "y", p=3)
    reason = missing(one(norm, {"x": "float32[2,3]"}, opset=13))[0].reason
    assert reason == "its kernel refuses it: p_ == 1 was false"


def test_the_function_of_an_operator_stands_in_for_a_kernel():
    assert told(one(pyopnb.node("Bernoulli", "x", "y"), {"x": "float64[N]"}, opset=20)) == []
    model = one(pyopnb.node("HardSwish", "x", "y"), {"x": "bfloat16[N]"}, opset=22)
    assert [row[:2] for row in told(model)] == [("y", "::HardSwish-22")]
    assert "the function in its place needs ::" in missing(model)[0].reason


def test_the_function_of_an_older_version_does_not_stand_in():
    # Written with Cast of version 13, which changed in 19.
    window = pyopnb.node("HannWindow", "x", "y", output_datatype=TensorProto.FLOAT16)
    assert told(one(window, {"x": "int64[]"}, opset=17)) == []
    assert told(one(window, {"x": "int64[]"}, opset=20)) == [
        ("y", "::HannWindow-17", "no kernel for dtype")
    ]


DEEP = "d = Cast<to = 11>(x)  [inner] e = Erf(d)"
BODIES = {
    "If 'y', then_branch": f"""y = If(b) <then_branch = t () => (double[2] e) {{ {DEEP} }},
        else_branch = f () => (double[2] z) {{ z = Cast<to = 11>(x) }}>""",
    "Loop 'y', body": f"""y = Loop(n, b) <body = l (int64 i, bool go) => (bool on, double[2] e)
        {{ {DEEP}  on = Identity(go) }}>""",
    "Scan 'y', body": f"""y = Scan<num_scan_inputs = 1,
        body = s (float one) => (double[2] e) {{ {DEEP} }}>(x)""",
}


@pytest.mark.parametrize("path", BODIES)
def test_nodes_in_bodies(path):
    model = pyopnb.parse(f"(float[2] x, bool b, int64 n) => (double[...] y) {{ {BODIES[path]} }}")
    assert told(model) == [("inner", "::Erf-13", "no kernel for dtype")]
    assert missing(model)[0].path == path
    assert path in repr(missing(model))


def test_nodes_in_functions_by_the_types_and_attrs_of_each_call():
    def model(kind):
        return pyopnb.parse(f"""<opset_import: ["" : 20, "local" : 1]>
            (float[2] x) => (y) {{ a = local.Outer(x)  y = local.As<kind = {kind}>(a) }}
            <domain: "local", opset_import: ["" : 20, "local" : 1]>
            Outer (x) => (y) {{ y = local.As<kind = 1>(x) }}
            <domain: "local", opset_import: ["" : 20]>
            As <kind> (x) => (y) {{ c = Cast<to: int = @kind>(x)  [inner] y = Erf(c) }}""")

    assert told(model(TensorProto.FLOAT)) == []
    assert told(model(TensorProto.DOUBLE)) == [("inner", "::Erf-13", "no kernel for dtype")]
    assert missing(model(TensorProto.DOUBLE))[0].path == "function local::As"


def test_an_import_that_onnx_does_not_know_is_told_by_itself():
    model = one(pyopnb.node("Relu", "x", "y"), {"x": "float32[2]"})
    model.opset_import[0].version = 1000
    assert told(model) == [("", "ai.onnx-1000", "opset too new")]
    (row,) = missing(model)
    assert (row.site, row.path, row.where) == (None, "", "import of ai.onnx-1000")
    assert (
        row.reason
        == f"the runtime takes ai.onnx up to {newest_version('')}, and the installed onnx cannot say what changed"
    )
    model.opset_import[0].version = newest_opset()
    relu = [pyopnb.node("Relu", "x", "y")]
    imports = [helper.make_opsetid("", 1000)]
    model.functions.append(helper.make_function("local", "F", ["x"], ["y"], relu, imports))
    model.opset_import.append(helper.make_opsetid("local", 1))
    assert told(model) == [("", "ai.onnx-1000", "opset too new")]


# ---- what it takes, and what it gives ----------------------------------------------------------------------------------------


def test_external_data_is_not_looked_for(tmp_path):
    model = one(
        [pyopnb.node("Add", "x w", "a"), pyopnb.node("Erf", "a", "y")],
        {"x": "float64[N]"},
        initializers={"w": np.ones(3)},
    )
    weight = model.graph.initializer[0]
    weight.ClearField("raw_data")
    weight.data_location = TensorProto.EXTERNAL
    weight.external_data.add(key="location", value="absent.bin")
    path = tmp_path / "model.onnx"
    path.write_bytes(model.SerializeToString())
    assert [row.node for row in missing(path)] == ["y"]
    assert [row.node for row in missing(model)] == ["y"]


# ---- bad and odd files -------------------------------------------------------------------------------------------------------


def test_nodes_in_any_order():
    model = onnx.parser.parse_model("""<ir_version: 10, opset_import: ["" : 20]> g (float[2] x) => (y) {
        y = Erf(b)
        b = If(k) <then_branch = t () => (u) { u = Neg(a) }, else_branch = e () => (v) { v = Abs(a) }>
        a = Cast<to = 11>(x)
        k = Cast<to = 9>(x)
    }""")
    assert [row[0] for row in told(model)] == ["y"]


@pytest.mark.one_python
def test_twenty_thousand_nodes():
    nodes = [helper.make_node("Relu", [f"t{i}"], [f"t{i + 1}"]) for i in range(20_000)]
    nodes.append(helper.make_node("Erff", ["t20000"], ["y"]))
    graph = helper.make_graph(nodes, "g", [helper.make_tensor_value_info("t0", 1, [2])], [])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)
    assert [row.node for row in missing(model)] == ["y"]


@pytest.mark.parametrize(
    "graph",
    [
        "(float[2] x) => (float[2] y) <int4[2] w = {1, 2}> { q = Identity(w)  a = Cast<to = 1>(q)  y = Add(x, a) }",
        "(float[2] x) => (float[2] y) { w = Cast<to = 22>(x)  p = Identity(w)  q = Identity(p)  y = Cast<to = 1>(q) }",
        "(float[2] x) => (int4[2] q, float[2] y) { w = Cast<to = 22>(x)  q = Identity(w)  y = Neg(x) }",
        "(float[2] x) => (int4[2] q, float[2] y) { w = Cast<to = 22>(x)  q = Identity(w)  y = Cast<to = 1>(w) }",
        "(float[2] x) => (int4[2] q, float[2] y) { w = Cast<to = 22>(x)  q = Identity(w)  y = Cast<to = 1>(q) }",
        "(int4[2] w) => (int4[2] q) { q = Identity(w) }",
        "(float[2] x) => (float[2] y) { w = Cast<to = 22>(x)  y = If(c) <then_branch = t () => (float[2] a) { q = Identity(w)  a = Cast<to = 1>(q) }, else_branch = e () => (float[2] b) { b = Neg(x) }> }".replace("(float[2] x)", "(float[2] x, bool c)", 1),
        "(float[2] x) => (float[2] y) { w = Cast<to = 16>(x)  q, m = Dropout(w)  y = Cast<to = 1>(q) }",
        "(float[2] x) => (float[2] y, bool[2] m) { w = Cast<to = 16>(x)  q, m = Dropout(w)  y = Cast<to = 1>(q) }",
        "(float[2] x) => (int64[1] y) <int4[2] w = {1, 2}> { s = Shape(w)  y = Neg(s) }",
        "(float[2] x) => (float[2] y) { w = Cast<to = 22>(x)  q = Flatten(w)  y = Cast<to = 1>(q) }",
    ],
)  # fmt: skip
def test_a_node_that_optimizers_remove_needs_no_kernel(graph: str) -> None:
    model = pyopnb.parse(f'<ir_version: 10, opset_import: ["": 21]> g {graph}')
    refusal = plain_refusal(model)
    assert bool(missing(model)) == bool(refusal)
    if refusal:
        assert "Could not find an implementation" in refusal
        with pytest.raises(pyopnb.errors.ModelError, match="a node that the installed onnxruntime"):
            pyopnb.Session(model)


def plain_refusal(model: ModelProto) -> str:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    try:
        onnxruntime.InferenceSession(
            model.SerializeToString(), options, ["CPUExecutionProvider"], enable_fallback=0
        )
    except Exception as error:
        return str(error)
    return ""


def test_without_optimizers_the_kernel_is_needed() -> None:
    model = pyopnb.parse("""<ir_version: 10, opset_import: ["": 21]> g (float[2] x) => (float[2] y)
        { w = Cast<to = 22>(x)  q = Identity(w)  y = Cast<to = 1>(q) }""")
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    with pytest.raises(pyopnb.errors.ModelError, match="^the node of output 'q'"):
        pyopnb.Session(model, options)


def test_operators_of_the_runtime_take_no_other_attribute_but_a_few() -> None:
    unlike = []
    for (domain, op_type), versions in operators().items():
        operator = versions[-1]
        if domain in ("", "ai.onnx.ml") or not operator.inputs:
            continue
        reads = [f"x{number}" for number in range(len(operator.inputs))]
        makes = [f"y{number}" for number in range(len(operator.outputs))]
        node = helper.make_node(op_type, reads, makes, domain=domain, zzz=1)
        inputs = [helper.make_tensor_value_info(name, 1, None) for name in reads]
        outputs = [onnx.ValueInfoProto(name=name) for name in makes]
        graph = helper.make_graph([node], "g", inputs, outputs)
        imports = [helper.make_opsetid("", 17), helper.make_opsetid(domain, operator.since)]
        model = helper.make_model(graph, opset_imports=imports, ir_version=8)
        is_refused = "Unrecognized attribute: zzz" in plain_refusal(model)
        if is_refused != any(row.kind == "wrong attr" for row in missing(model)):
            unlike.append(f"{domain}::{op_type}")
    assert unlike == []
