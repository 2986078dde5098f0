"""One reading of a graph, compared with the plain recursive one."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

import onnx
from hypothesis import given
from hypothesis import strategies as st
from onnx import GraphProto, NodeProto

import pyopnb
from pyopnb.engine.models.index import CAPTURED, GraphIndex

NAMES = ["", "a", "b", "c", "d", "‮", "a b"]


@st.composite
def graphs(draw: st.DrawFn) -> GraphProto:
    """Any graph, most of them broken: names without a producer, of two producers, cycles, several meanings."""
    return any_graph(random.Random(draw(st.integers(0, 2**32))), depth=2)


def any_graph(rng: random.Random, depth: int) -> GraphProto:
    def names(most: int, known: Sequence[str] = NAMES[1:]) -> list[str]:
        return rng.choices(known, k=rng.randint(0, most))

    graph = GraphProto()
    for _ in range(rng.randint(0, 5)):
        node = graph.node.add(op_type="Op", input=names(3, NAMES), output=names(2, NAMES))
        if depth and rng.random() < 0.3:
            node.attribute.add(name="one").g.CopyFrom(any_graph(rng, depth - 1))
        if depth and rng.random() < 0.3:
            node.attribute.add(name="list").graphs.extend(
                any_graph(rng, depth - 1) for _ in range(rng.randint(0, 2))
            )
    graph.input.extend(onnx.ValueInfoProto(name=name) for name in names(2))
    graph.output.extend(onnx.ValueInfoProto(name=name) for name in names(2))
    graph.initializer.extend(onnx.TensorProto(name=name) for name in names(1))
    for name in names(1):
        graph.sparse_initializer.add().values.name = name
    return graph


# ---- the plain versions ------------------------------------------------------------------------------------------------------


def plain_bodies(node: NodeProto) -> list[GraphProto]:
    return [graph for a in node.attribute for graph in ([a.g] if a.HasField("g") else a.graphs)]


def plain_given(graph: GraphProto) -> set[str]:
    weights = {t.name for t in graph.initializer} | {
        s.values.name for s in graph.sparse_initializer
    }
    return weights | {info.name for info in graph.input}


def plain_free(graph: GraphProto) -> set[str]:
    own = plain_given(graph) | {name for node in graph.node for name in node.output}
    read = {info.name for info in graph.output}
    for node in graph.node:
        read.update(node.input, *map(plain_free, plain_bodies(node)))
    return read - own - {""}


def plain_reads(node: NodeProto) -> set[str]:
    return set(node.input).union(*map(plain_free, plain_bodies(node))) - {""}


def plain_producers(graph: GraphProto) -> dict[str, int]:
    found: dict[str, int] = {}
    for index, node in enumerate(graph.node):
        for name in node.output:
            if name and name not in plain_given(graph):
                found.setdefault(name, index)
    return found


def plain_order(graph: GraphProto) -> list[int]:
    """The first in the file that can run, again and again; what never can, last."""
    producers = plain_producers(graph)
    left, order = list(range(len(graph.node))), []
    while ready := [
        i
        for i in left
        if not {producers[n] for n in plain_reads(graph.node[i]) if n in producers} & set(left)
    ]:
        order.append(ready[0])
        left.remove(ready[0])
    return order + left


@given(graphs())
def test_any_graph_is_read_as_by_the_plain_versions(graph: GraphProto) -> None:
    index = GraphIndex(graph)
    assert set(index.free) == plain_free(graph) and len(set(index.free)) == len(index.free)
    assert {name: node for name, (node, _) in index.producers.items()} == plain_producers(graph)
    assert all(
        graph.node[node].output[slot] == name for name, (node, slot) in index.producers.items()
    )
    assert list(index.order) == plain_order(graph)
    for place, node in enumerate(graph.node):
        assert {name for _, name in index.reads(place)} == plain_reads(node)
        assert [
            graph for _, body in index.bodies.get(place, ()) for graph in [body.scope]
        ] == plain_bodies(node)
    for name, readers in index.consumers.items():
        for place, slot in readers:
            captured = slot == CAPTURED and name in index.captures[place]
            assert captured or graph.node[place].input[slot] == name
    assert sum(map(len, index.consumers.values())) == sum(
        len(list(index.reads(i))) for i in range(len(graph.node))
    )


@given(graphs())
def test_a_name_belongs_to_the_next_graph_around_it_that_defines_it(graph: GraphProto) -> None:
    def check(index: GraphIndex, around: list[GraphIndex]) -> None:
        for name in ["a", "b", "c", "d", "nobody"]:
            scopes = [
                s
                for s in [index, *around]
                if name in plain_given(s.scope) or any(name in n.output for n in s.scope.node)
            ]
            assert index.resolve(name) is (scopes[0] if scopes else None)
        for held in index.bodies.values():
            for _, body in held:
                check(body, [index, *around])

    check(GraphIndex(graph), [])


@given(graphs())
def test_what_is_refused_is_broken_and_the_rest_is_not(graph: GraphProto) -> None:
    index = GraphIndex(graph)
    outputs = [name for node in graph.node for name in node.output if name]
    doubled = len(set(outputs)) < len(outputs) or bool(plain_given(graph).intersection(outputs))
    cyclic = not _can_run(graph)
    assert _refused(index.refuse_duplicates) == doubled
    assert _refused(index.refuse_cycles) == cyclic
    assert _refused(index.refuse_unknown_names) == bool(plain_free(graph))


def _refused(check: Callable[[], object]) -> bool:
    try:
        check()
    except pyopnb.errors.ModelError:
        return True
    return False


def _can_run(graph: GraphProto) -> bool:
    producers = plain_producers(graph)
    done: set[int] = set()
    for place in plain_order(graph):
        if (
            not {producers[name] for name in plain_reads(graph.node[place]) if name in producers}
            <= done
        ):
            return False
        done.add(place)
    return True
