"""How large a model is with all calls written out, found without writing them out."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnx import FunctionProto, GraphProto, ModelProto, helper

import pyopnb
from pyopnb.engine.models.attribute_limits import check_attributes
from pyopnb.engine.models.model_functions import MOST_DEEP, Expansion, check_functions, expansion


def function(name: str, *called: str, domain: str = "l") -> FunctionProto:
    nodes = [
        helper.make_node(op, ["x"], ["y"], domain="l" if op.startswith("F") else "")
        for op in called
    ]
    return helper.make_function(domain, name, ["x"], ["y"], nodes, [])


def model(functions: list[FunctionProto], *called: str) -> ModelProto:
    made = ModelProto(functions=functions)
    made.graph.node.extend(function("main", *called).node)
    return made


def written_out(made: ModelProto, scope: GraphProto | FunctionProto, depth: int = 0) -> list[int]:
    """The depth of every node, by following every call."""
    found = []
    for node in scope.node:
        found.append(depth)
        for attribute in node.attribute:
            found += written_out(made, attribute.g, depth + 1)
        for other in made.functions:
            if (other.domain, other.name) == (node.domain, node.op_type):
                found += written_out(made, other, depth + 1)
    return found


@st.composite
def models(draw: st.DrawFn) -> ModelProto:
    count = draw(st.integers(0, 6))
    functions = []
    for place in range(count):
        later = [f"F{n}" for n in range(place + 1, count)]
        functions.append(
            function(
                f"F{place}",
                *draw(st.lists(st.sampled_from([*later, "Neg"]), min_size=1, max_size=4)),
            )
        )
    made = model(
        draw(st.permutations(functions)),
        *draw(st.lists(st.sampled_from(["F0", "F1", "Abs"]), max_size=4)),
    )
    for scope in (made.graph, *made.functions):
        if scope.node and draw(st.booleans()):  # the nodes go into a body
            body = GraphProto(node=scope.node)
            del scope.node[:]
            scope.node.add(op_type="If").attribute.add(name="then_branch", type=5).g.CopyFrom(body)
    return made


@given(models())
def test_as_if_written_out(made: ModelProto) -> None:
    depths = written_out(made, made.graph)
    own = len(written_out(ModelProto(), made.graph))
    assert expansion(made) == Expansion(len(depths), len(depths) - own, max(depths, default=0))


def chain(count: int, each: int) -> ModelProto:
    return model(
        [
            function(f"F{n}", *[f"F{n + 1}" if n < count - 1 else "Neg"] * each)
            for n in range(count)
        ],
        "F0",
    )


def test_limits() -> None:
    check_functions(chain(MOST_DEEP, 1))
    check_functions(chain(16, 2))
    with pytest.raises(
        pyopnb.errors.ModelError,
        match="at most 250,000 nodes that come from calls of functions, got 262,142",
    ):
        check_functions(chain(17, 2))
    with pytest.raises(
        pyopnb.errors.ModelError,
        match="at most 100 calls of functions and bodies inside one another, got more",
    ):
        check_functions(chain(MOST_DEEP + 1, 1))
    # What is called twice is measured once, and the second time far down.
    twice = chain(150, 1)
    twice.graph.ClearField("node")
    twice.graph.node.extend(function("main", "F75", "F0").node)
    with pytest.raises(pyopnb.errors.ModelError, match="inside one another, got 150"):
        check_functions(twice)
    with pytest.raises(
        pyopnb.errors.ModelError,
        match="function l::F0: expected one function of that name, got two",
    ):
        check_functions(model([function("F0", "Neg"), function("F0", "Abs")], "F0"))
    with pytest.raises(
        pyopnb.errors.ModelError,
        match="function l::F0: expected no recursion, got a function that calls itself",
    ):
        check_functions(model([function("F0", "F1"), function("F1", "F0")], "F0"))


def test_many_functions_take_no_time() -> None:
    made = chain(20_000, 2)
    start = time.process_time()  # CPU: how busy the machine is does not count
    with pytest.raises(pyopnb.errors.ModelError, match="inside one another, got more"):
        check_functions(made)
    with pytest.raises(pyopnb.errors.ModelError, match="got 1,000,000,000,000,000, if not more"):
        check_functions(chain(90, 2))
    assert time.process_time() - start < 20


def test_a_callers_attribute_is_within_the_limit_too() -> None:
    scan = helper.make_node("Scan", ["x"], ["y"])
    scan.attribute.add(name="num_scan_inputs", ref_attr_name="n", type=2)
    made = model([helper.make_function("l", "F0", ["x"], ["y"], [scan], [], ["n"])], "F0")
    made.graph.node[0].attribute.add(name="n", type=2, i=2**16)
    check_attributes(made)
    made.graph.node[0].attribute[0].i += 1
    with pytest.raises(
        pyopnb.errors.ModelError, match=r"\(l::F0\), attr n: expected at most 65,536, got 65,537"
    ):
        check_attributes(made)


def test_an_op_of_ours_may_have_any_attribute() -> None:
    @pyopnb.pyop("::Scan")
    class Scan:
        def __init__(self, num_scan_inputs: int) -> None: ...
        def compute(self, x): ...

    made = ModelProto()
    made.graph.node.append(helper.make_node("Scan", ["x"], ["y"], num_scan_inputs=2**62))
    check_attributes(made)
