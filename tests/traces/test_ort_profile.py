"""Runs of a profile, instant by instant."""

from __future__ import annotations

import json

from onnx import GraphProto, NodeProto

from pyopnb.traces.ort_profile import ProfiledRun, profiled_runs
from pyopnb.traces.tensor_origins import Origin
from pyopnb.traces.times import NodeTime, Times, times_of


def kernel(name, begin, took, op_type="Op", number="0", tid=1):
    args = {"op_name": op_type, "node_index": number}
    return {
        "cat": "Node",
        "name": f"{name}_kernel_time",
        "ts": begin,
        "dur": took,
        "tid": tid,
        "args": args,
    }


def run(begin, took, *, executor=None):
    done = (
        []
        if executor is None
        else [
            {"cat": "Session", "name": "SequentialExecutor::Execute", "ts": begin, "dur": executor}
        ]
    )
    return [
        *done,
        {"cat": "Session", "name": "model_run", "ts": begin, "dur": took, "tid": 1, "args": {}},
    ]


def read(graph, *events):
    lines = ["[", *(json.dumps(event) + "," for event in events), "]"]
    return [run.times() for run in profiled_runs(lines, graph, "look/")]


def graph(*nodes):
    return GraphProto(node=[NodeProto(name=name, op_type=op_type) for name, op_type in nodes])


def test_a_node_has_what_passes_until_the_next_one():
    nodes = graph(("a", "Op"), ("b", "Op"))
    started = {"cat": "Session", "name": "session_initialization", "ts": 0, "dur": 50}
    (found,) = read(
        nodes, started, kernel("a", 110, 20), kernel("b", 135, 40), *run(100, 100, executor=80)
    )
    assert found == ProfiledRun(
        100, {0: 25, 1: 45}, {0: 20, 1: 40}, 0
    )  # 10 before the first, 20 after the executor


def test_runs_are_apart():
    first, second = read(
        graph(("a", "Op")), kernel("a", 1, 7), *run(0, 10), kernel("a", 21, 3), *run(20, 6)
    )
    assert (first.total, first.nodes) == (10, {0: 7}) and (second.total, second.nodes) == (
        6,
        {0: 3},
    )


def test_kernels_in_bodies_are_part_of_their_node():
    nodes = graph(("a", "Op"), ("loop", "Loop"))
    inside = [kernel("a", 22, 3, number="5"), kernel("deep", 31, 4), kernel("if", 30, 8, "If")]
    (found,) = read(
        nodes, kernel("a", 1, 9), *inside, kernel("loop", 20, 30, "Loop"), *run(0, 60, executor=55)
    )
    assert found.nodes == {0: 19, 1: 35} and found.kernels == {0: 9, 1: 30}


def test_looks_of_the_trace_count_for_nobody():
    events = [
        kernel("look/1", 5, 10),
        kernel("look/0", 22, 6, tid=1),
        kernel("loop", 20, 20, "Loop"),
        *run(0, 50, executor=45),
    ]
    (found,) = read(graph(("loop", "Loop"), ("look/1", "Tap")), *events)
    assert found == ProfiledRun(50 - 15 - 6, {0: 25 - 6}, {0: 20 - 6}, 15 + 6)


def test_nodes_without_names_and_of_one_name():
    nodes = graph(("", "Neg"), ("n", "Op"), ("n", "Abs"), ("", "Neg"), ("n", "Op"))
    ran = [
        ("Neg_7", "Neg", "7"),
        ("n", "Op", "9"),
        ("n", "Abs", "3"),
        ("Neg_4", "Neg", "4"),
        ("n", "Op", "2"),
        ("x", "Op", "0"),
    ]
    events = [
        kernel(name, 10 * at, at + 1, op_type, number)
        for at, (name, op_type, number) in enumerate(ran)
    ]
    (found,) = read(nodes, *events, *run(0, 60))
    assert found.kernels == {0: 1, 1: 2, 2: 3, 3: 4, 4: 5} and -1 not in found.nodes


def test_the_times_of_nodes_and_what_none_accounts_for_add_up():
    run = ProfiledRun(25.0, {0: 21.0}, {0: 20.0}, 0)
    node = GraphProto(node=[NodeProto(op_type="Op", output=["a"])])
    times = times_of(run, {"a": 4.0}, node, [Origin((0,), (0,)), Origin((), (1,))], ["mine"])
    assert times == {"a": NodeTime("mine", "Op", 21, 20, 4)} and times["a"].crossing == 16
    assert times.total == 25 == times.attributed + times.unattributed
    assert str(times) == "the run took 25 µs, 4 µs (16.0 %) of them not attributed to a node"
    assert repr(times) == f"{times}\n   21 µs   84.0 %  mine (Op), 4 µs in Python"
    many = Times({f"n{k}": NodeTime(f"n{k}", "Op", k, k) for k in range(12)}, 100)
    lines = repr(many).splitlines()
    assert lines[1].endswith("n11 (Op)") and lines[-1] == "… and 2 more" and len(lines) == 12


def test_a_group_is_found_by_each_of_its_nodes():
    names = [f"n{number}" for number in range(6)]
    nodes = GraphProto(node=[NodeProto(op_type="Op", output=[name]) for name in names])
    run = ProfiledRun(10, {0: 3, 1: 4}, {0: 3, 1: 4}, 0)
    times = times_of(run, {}, nodes, [Origin((0, 1), (0,)), Origin((2, 3, 4, 5), (1,))], names)
    assert list(times) == ["n1", "n5"] and times["n0"] is times["n1"] is times.find("n0")
    assert (
        times["n1"].node == "n0 + n1"
        and str(times["n1"]) == "3 µs (n0 + n1)"
        and times.attributed == 7
    )
    assert times.find("n9") is None and times["n4"].op_type == "Op + Op + Op + Op"
    many = times_of(run, {}, nodes, [Origin(tuple(range(6)), (0,))], names)
    assert many["n0"].node == "n0 + n1 + 3 more + n5" and many["n0"].outputs == tuple(names)


def test_a_crossing_is_never_negative():
    # The runtime counts whole microseconds and Python nanoseconds.
    assert (
        NodeTime("n", "Op", 6, 5, 5.7).crossing == 0 and NodeTime("n", "Op", 6, 5).crossing is None
    )
    assert (
        str(NodeTime("n", "Op", 6, 5)) == "6 µs"
        and str(NodeTime("n", "Op", 20, 19, 6)) == "20 µs (6 µs in Python)"
    )
    assert Times({}, 0).share(0) == "0.0 %"
