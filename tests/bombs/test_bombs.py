"""Small files that mean a lot: each public function comes to an end with them, soon, in little memory, and alive."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from limits import LIMIT

import pyopnb

_PATHS = [str(Path(pyopnb.__file__).parents[1]), str(Path(__file__).parents[1] / "shared")]

# The bombs go through every function in one process, which may take 4 GB of addresses (an
# onnxruntime alone takes one and a half) and says how long each function took.
_SCRIPT = """
import pathlib, resource, sys, tempfile, time
resource.setrlimit(resource.RLIMIT_AS, (4 << 30, 4 << 30))
resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
import onnx
from onnx import helper, ModelProto, TensorProto
import pyopnb
from takers import TAKERS, prepare

prepare()

IMPORTS = [helper.make_opsetid("", 20), helper.make_opsetid("l", 1)]

def model(nodes, functions=(), initializers=(), inputs=None):
    inputs = inputs or [helper.make_tensor_value_info("x", 1, [2])]
    graph = helper.make_graph(nodes, "g", inputs, [helper.make_tensor_value_info("y", 1, None)], initializers)
    return helper.make_model(graph, functions=functions, opset_imports=IMPORTS, ir_version=10)

def calls(count, each):
    functions = []
    for place in range(count):
        ops = ["Neg" if place == count - 1 else f"F{place + 1}"] * each
        names = ["x", *[f"m{n}" for n in range(each - 1)], "y"]
        nodes = [helper.make_node(op, [names[n]], [names[n + 1]], domain="" if op == "Neg" else "l") for n, op in enumerate(ops)]
        functions.append(helper.make_function("l", f"F{place}", ["x"], ["y"], nodes, IMPORTS))
    return model([helper.make_node("F0", ["x"], ["y"], domain="l")], functions)

def nested_calls(count, depth):
    "Functions that call the next one inside a nest of Ifs."
    made = calls(count, 1)
    for function in made.functions:
        function.input.append("c")
        for node in function.node:
            if node.domain:
                node.input.append("c")
        for _ in range(depth):
            body = helper.make_graph(list(function.node), "b", [], [onnx.ValueInfoProto(name="y")])
            del function.node[:]
            function.node.append(helper.make_node("If", ["c"], ["y"], then_branch=body, else_branch=body))
            function.node[0].attribute[1].g.node[0].CopyFrom(helper.make_node("Identity", ["x"], ["y"]))
    made.graph.input.append(helper.make_tensor_value_info("c", 9, []))
    made.graph.node[0].input.append("c")
    return made

def scan(**attrs):
    body = helper.make_graph([helper.make_node("Neg", ["a"], ["b"])], "b", [onnx.ValueInfoProto(name="a")], [onnx.ValueInfoProto(name="b")])
    return model([helper.make_node("Scan", ["x"], ["y"], body=body, **attrs)])

def node(op, inputs=("x",), domain="", **attrs):
    return model([helper.make_node(op, inputs, ["y"], domain=domain, **attrs)])

def nest(depth):
    made = model([])
    graph = made.graph
    for _ in range(depth):
        graph = graph.node.add(op_type="If", input=["x"], output=["y"]).attribute.add(name="then_branch", type=5).g
    return made

def packed(depth):
    graph = onnx.GraphProto(name="inner")
    for _ in range(depth):
        outer = onnx.GraphProto(name="g")
        outer.node.add(op_type="A.", domain="pyopnb:d").attribute.add(name="pyopnb_graph:body", type=3, s=graph.SerializeToString())
        graph = outer
    made = ModelProto(ir_version=10, opset_import=IMPORTS)
    made.graph.CopyFrom(graph)
    return made

for bomb, text in BOMBS:
    made = eval(text)
    print("bomb", bomb, sep="\\t", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        for name, take in TAKERS.items():
            start = time.monotonic()
            try:
                take(made, pathlib.Path(folder))
                said = "done"
            except pyopnb.PyopError as error:
                said = f"refused: {error}"[:300]
            except Exception as error:
                said = f"{type(error).__name__}: {error}"[:300]
            print(name, f"{time.monotonic() - start:.1f}", " ".join(said.split()), sep="\\t", flush=True)
    print("alive", flush=True)
"""

_FUNCTIONS = "model: expected at most 250,000 nodes that come from calls of functions, got"
_DEEP = "model: expected at most 100 calls of functions and bodies inside one another, got more"
BOMBS = {
    "25 functions that call the next one twice": ("calls(25, 2)", f"{_FUNCTIONS} 67,108,862"),
    "1,000 functions that call the next one twice": ("calls(1000, 2)", _DEEP),
    "a chain of 2,000 functions": ("calls(2000, 1)", _DEEP),
    "90 functions, each call in 10 bodies": ("nested_calls(90, 10)", _DEEP),
    "a Scan with 2^62 inputs": ("scan(num_scan_inputs=2**62)", "num_scan_inputs"),
    "bodies 30 deep": ("nest(30)", ""),
    "packed graphs 9,000 deep, half a megabyte": ("packed(9000)", "packed inside one another"),
    "an axis beyond int32": (
        "model([helper.make_node('LayerNormalization', ['x', 'x'], ['y', 'm'], axis=2**32 - 1)], "
        "inputs=[helper.make_tensor_value_info('x', 1, [2, 4, 4])])",
        "",
    ),
    "a Split into 2^62": ("node('Split', num_outputs=2**62)", ""),
    "a tensor that says it has 2^62 elements": ("model([helper.make_node('Add', ['x', 'w'], ['y'])], (), [TensorProto(name='w', data_type=1, dims=[2**31, 2**31])])", ""),
    "a type that says it has 2^62 elements": ("model([helper.make_node('Neg', ['x'], ['y'])], inputs=[helper.make_tensor_value_info('x', 1, [2**62, 2**62])])", ""),
}  # fmt: skip


# They take two thirds of the time: 25 functions are refused by the same count, and depth is counted
# also in test_functions.py.
LONG = (
    "1,000 functions that call the next one twice",
    "a chain of 2,000 functions",
    "90 functions, each call in 10 bodies",
)


@pytest.fixture(scope="module", params=["most", pytest.param("long", marks=pytest.mark.everywhere)])
def told(request: pytest.FixtureRequest) -> dict[str, list[str]]:
    """What one process said of each bomb; of those after one that ended it, nothing."""
    names = LONG if request.param == "long" else [name for name in BOMBS if name not in LONG]
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([*_PATHS, *filter(None, [os.environ.get("PYTHONPATH")])]),
    }
    script = _SCRIPT.replace("BOMBS", repr([(name, BOMBS[name][0]) for name in names]))
    done = subprocess.run(
        [sys.executable, "-P", "-c", script],
        capture_output=True,
        text=True,
        timeout=LIMIT,
        env=environment,
        check=False,
    )
    rows: dict[str, list[str]] = {}
    for line in done.stdout.splitlines():
        first, _, more = line.partition("\t")
        if first == "bomb":
            said = rows[more] = []
        else:
            said.append(line)
    assert list(rows) == list(names) and done.returncode == 0, (done.stdout, done.stderr[-3000:])
    return rows


def test_every_function_ends_soon_and_the_process_lives(told: dict[str, list[str]]) -> None:
    for name, (*rows, last) in told.items():
        said = {row.split("\t")[0]: row.split("\t")[1:] for row in rows}
        assert last == "alive", (name, rows, last)
        assert max(float(seconds) for seconds, _ in said.values()) < LIMIT / 10, (name, said)
        assert any(BOMBS[name][1] in text for _, text in said.values()), (name, said)
