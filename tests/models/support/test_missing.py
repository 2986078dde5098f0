"""``missing``: what it names is what ONNX Runtime refuses, node for node, and it says so of any file without falling over.

``python -m tests.gaps.test_missing`` prints the two errors that it can make over ONNX's own node tests.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import AttributeProto, GraphProto, ModelProto, TensorProto, helper
from onnx.backend.test.case.test_case import TestCase

import pyopnb
from pyopnb import missing
from pyopnb.models.faults import is_unknown
from pyopnb.models.nodes import nodes_in, walk
from pyopnb.models.opsets import import_domains
from pyopnb.models.ort_capabilities import (
    newest_ir_version,
    newest_opset,
    newest_version,
)
from pyopnb.models.versions import lower_versions

OTHER_REASONS = {
    "layout_ == 0 was false": "the kernel is there, and its constructor refuses layout = 1",
    "string_normalizer.cc": "the kernel is there, and the machine lacks the locale that it asks for",
}
"""Why sessions over node tests fail although the runtime has every kernel: a part of its message, and the reason."""

_KERNEL = {"no kernel", "no kernel for dtype"}

SAYS = {
    "which the installed onnxruntime takes": {"opset too new"},
    "Unrecognized attribute": {"opset too new"},
    "Could not find an implementation": _KERNEL,
    "Failed to find kernel": _KERNEL,
    "MLDataType for": _KERNEL,  # an end of the graph of a dtype that the runtime does not carry
    "Type Error: Type ": _KERNEL,  # which only the newer version of the operator allows
    "bound to different types": _KERNEL,  # in the function that ONNX gives for an operator without a kernel
    "is not a registered function/op": {"unknown domain"},
}
"""Parts of the runtime's messages over node tests, and the kinds of which a row must be there."""


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
    except Exception as error:  # the runtime's exceptions share no base class
        return str(error)
    return None


# ---- ONNX's own node tests ---------------------------------------------------------------------------------------------------


def judged(
    cases: Mapping[str, TestCase],
) -> tuple[dict[str, str], dict[str, str], dict[str, str], str]:
    """False alarms, misses and wrong reasons, sessions that fail for other reasons, and the table to print."""
    false, missed, other = {}, {}, {}
    counts: Counter[str] = Counter()
    for name, case in cases.items():
        found, error = missing(case.model), refusal(case.model)
        # Kept: protobuf makes another object of a node that nobody holds.
        sites = list(walk(case.model))
        paths = {id(site.node): site.path for site in sites}
        assert all(row.site is None or paths[id(row.site.node)] == row.path for row in found)
        counts.update([found[0].kind if found else "nothing"])
        reasons = [reason for part, reason in OTHER_REASONS.items() if error and part in error]
        if found and error is None:
            false[name] = str(found[0])
        elif error and not found:
            (other if reasons else missed)[name] = reasons[0] if reasons else error
        elif error and not any(
            part in error and kinds & {row.kind for row in found} for part, kinds in SAYS.items()
        ):
            missed[name] = f"{found[0]}, and the runtime says: {error}"
    lines = [
        f"{len(cases)} node tests, onnx {onnx.__version__}, onnxruntime {onnxruntime.__version__}"
    ]
    lines += [f"  {count:5} {kind}" for kind, count in counts.most_common()]
    lines.append(
        f"{len(false)} false alarms, {len(missed)} misses, {len(other)} that the runtime refuses for other reasons"
    )
    for title, group in (("false alarm", false), ("miss", missed), ("other reason", other)):
        lines += [
            f"  {title}: {name}: {text.splitlines()[0][:150]}"
            for name, text in sorted(group.items())
        ]
    return false, missed, other, "\n".join(lines)


@pytest.mark.one_python
def test_the_runtime_refuses_what_is_missing_and_nothing_else(node_tests):
    false, missed, _, table = judged(node_tests)
    print(table)
    assert len(node_tests) > 400
    assert (false, missed) == ({}, {})


# ---- one kind after another --------------------------------------------------------------------------------------------------


def one(nodes, inputs, output="y", opset=None, functions=(), **more):
    """A model; operators that ONNX lacks, which the builder refuses, stand in another domain until it is built."""
    given = GraphProto(node=[nodes] if isinstance(nodes, onnx.NodeProto) else nodes)
    for node in nodes_in(given):
        too_new = not node.domain and not onnx.defs.has(node.op_type, opset or 999, "")
        if is_unknown(node.domain, node.op_type) or too_new:
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


def body(nodes, output):
    return helper.make_graph(nodes, "body", [], [onnx.ValueInfoProto(name=output)])


def told(model):
    """The rows as text, after the runtime was asked whether it refuses the model as well."""
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


@pytest.mark.parametrize("kind", ["If", "Loop", "Scan"])
def test_nodes_in_bodies(kind):
    inner = [
        pyopnb.node("Cast", "x", "d", to=TensorProto.DOUBLE),
        pyopnb.node("Erf", "d", "e", name="inner"),
    ]
    if kind == "If":
        node = pyopnb.node(
            "If",
            "b",
            "y",
            then_branch=body(inner, "e"),
            else_branch=body([pyopnb.node("Cast", "x", "z", to=11)], "z"),
        )
        path = "If 'y', then_branch"
    else:
        ends = [pyopnb.node("Identity", "go", "on")] if kind == "Loop" else []
        graph = body([*inner, *ends], "on" if ends else "e")
        if kind == "Loop":
            graph.output.add(name="e")
            graph.input.extend(
                [
                    helper.make_tensor_value_info("i", 7, []),
                    helper.make_tensor_value_info("go", 9, []),
                ]
            )
            node = pyopnb.node("Loop", ["n", "b"], "y", body=graph)
        else:
            graph.input.append(helper.make_tensor_value_info("one", 1, []))
            node = pyopnb.node("Scan", "x", "y", body=graph, num_scan_inputs=1)
        path = f"{kind} 'y', body"
    model = one(node, {"x": "float32[2]", "b": "bool[]", "n": "int64[]"})
    assert told(model) == [("inner", "::Erf-13", "no kernel for dtype")]
    assert missing(model)[0].path == path
    assert path in repr(missing(model))


def function(name, nodes, attrs=(), opset=20):
    imports = [helper.make_opsetid("", opset), helper.make_opsetid("local", 1)]
    return helper.make_function("local", name, ["x"], ["y"], nodes, imports, list(attrs))


def test_nodes_in_functions_by_the_types_and_attrs_of_each_call():
    cast = pyopnb.node("Cast", "x", "c")
    cast.attribute.add(name="to", ref_attr_name="kind", type=AttributeProto.INT)
    inner = function("As", [cast, pyopnb.node("Erf", "c", "y", name="inner")], ["kind"])
    outer = function("Outer", [pyopnb.node("local::As", "x", "y", kind=TensorProto.FLOAT)])

    def model(kind):
        nodes = [
            pyopnb.node("local::Outer", "x", "a"),
            pyopnb.node("local::As", "a", "y", kind=kind),
        ]
        return one(nodes, {"x": "float32[2]"}, functions=[outer, inner], opset=20)

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
    model.functions.append(function("F", [pyopnb.node("Relu", "x", "y")], opset=1000))
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


def wired(*nodes):
    """A model of nodes that `pyopnb.model` refuses."""
    graph = helper.make_graph(
        [pyopnb.node(*node) for node in nodes],
        "g",
        [helper.make_tensor_value_info("x", 1, [2])],
        [],
    )
    return helper.make_model(
        graph,
        opset_imports=[helper.make_opsetid("", 20), helper.make_opsetid("local", 1)],
        ir_version=10,
    )


def test_nodes_in_any_order():
    model = wired(("Erf", "b", "y"), ("If", "k", "b"), ("Cast", "x", "a"), ("Cast", "x", "k"))
    model.graph.node[1].attribute.append(
        helper.make_attribute("then_branch", body([pyopnb.node("Neg", "a", "t")], "t"))
    )
    model.graph.node[1].attribute.append(
        helper.make_attribute("else_branch", body([pyopnb.node("Abs", "a", "t")], "t"))
    )
    model.graph.node[2].attribute.append(helper.make_attribute("to", TensorProto.DOUBLE))
    model.graph.node[3].attribute.append(helper.make_attribute("to", TensorProto.BOOL))
    assert told(model) == [("y", "::Erf-13", "no kernel for dtype")]


@pytest.mark.one_python
def test_twenty_thousand_nodes():
    model = wired(("Identity", "x", "t0"))
    model.graph.node.extend(
        helper.make_node("Relu", [f"t{i}"], [f"t{i + 1}"]) for i in range(20_000)
    )
    model.graph.node.append(helper.make_node("Erff", ["t20000"], ["y"]))
    assert [row.node for row in missing(model)] == ["y"]


if __name__ == "__main__":
    from node_tests import cases

    print(judged(cases())[-1])
