"""What it costs to look at a run: a trace beside a plain run, and the memory of summaries alone."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator

import numpy as np
from onnx import ModelProto, helper, numpy_helper
from table import Row, milli, show, timed

import pyopnb

_TENSORS, _SIZE = 40, 4_000_000

_MEMORY = f"""
import sys, threading, time
import numpy as np, pyopnb

def resident():
    return int(open("/proc/self/statm").read().split()[1]) * 4096 / 2**20

nodes = [pyopnb.node(("Neg", "Abs", "Sin")[n % 3], f"t{{n}}", f"t{{n + 1}}") for n in range({_TENSORS})]
session = pyopnb.Session(pyopnb.model(nodes, {{"t0": "float32[N]"}}, "t{_TENSORS}"))
look = session if sys.argv[1] == "plain" else lambda x: session.trace(x, level=sys.argv[1])
x = np.ones({_SIZE}, np.float32)
look(x[:10])
before, most, over = resident(), [0], threading.Event()

def watch():
    while not over.wait(0.001):
        most[0] = max(most[0], resident())

thread = threading.Thread(target=watch)
thread.start()
kept = look(x)
over.set()
thread.join()
print(most[0] - before)
"""


def block(size: int = 256, heads: int = 8) -> ModelProto:
    """A transformer block of 31 nodes, with Gelu in parts."""
    random = np.random.default_rng(0)
    nodes, weights = (
        [],
        {
            "split": np.int64([0, 0, heads, size // heads]),
            "join": np.int64([0, 0, size]),
            **{
                name: np.float32(v)
                for name, v in (
                    ("scale", (size / heads) ** -0.5),
                    ("half", 0.5),
                    ("one", 1),
                    ("root", 2**0.5),
                )
            },
        },
    )

    def add(op_type: str, inputs: str, output: str, **attrs: object) -> None:
        nodes.append(helper.make_node(op_type, inputs.split(), [output], **attrs))

    def weight(name: str, *shape: int) -> None:
        weights[name] = np.float32(random.standard_normal(shape) * 0.05)

    def norm(x: str, output: str) -> None:
        weight(f"{output}_g", size)
        weight(f"{output}_b", size)
        add("LayerNormalization", f"{x} {output}_g {output}_b", output, axis=-1)

    norm("x", "n1")
    for part, order in (("q", [0, 2, 1, 3]), ("k", [0, 2, 3, 1]), ("v", [0, 2, 1, 3])):
        weight(f"{part}_w", size, size)
        weight(f"{part}_b", size)
        add("MatMul", f"n1 {part}_w", f"{part}1")
        add("Add", f"{part}1 {part}_b", f"{part}2")
        add("Reshape", f"{part}2 split", f"{part}3")
        add("Transpose", f"{part}3", f"{part}4", perm=order)
    for step in ("MatMul q4 k4 s1", "Mul s1 scale s2", "Softmax s2 s3", "MatMul s3 v4 s4"):
        op_type, *inputs, output = step.split()
        add(op_type, " ".join(inputs), output)
    add("Transpose", "s4", "s5", perm=[0, 2, 1, 3])
    weight("o_w", size, size)
    weight("u_w", size, 4 * size)
    weight("d_w", 4 * size, size)
    for step in ("Reshape s5 join s6", "MatMul s6 o_w o1", "Add o1 x o2"):
        op_type, *inputs, output = step.split()
        add(op_type, " ".join(inputs), output)
    norm("o2", "n2")
    gelu = (
        "MatMul n2 u_w u",
        "Div u root g1",
        "Erf g1 g2",
        "Add g2 one g3",
        "Mul u g3 g4",
        "Mul g4 half g5",
    )
    for step in (*gelu, "MatMul g5 d_w d1", "Add d1 o2 d2", "Identity d2 y"):
        op_type, *inputs, output = step.split()
        add(op_type, " ".join(inputs), output)
    ends = [helper.make_tensor_value_info(name, 1, ["B", "S", size]) for name in ("x", "y")]
    graph = helper.make_graph(
        nodes,
        "block",
        ends[:1],
        ends[1:],
        [numpy_helper.from_array(v, n) for n, v in weights.items()],
    )
    return helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid("", 18)])


def rows() -> Iterator[Row]:
    model, x = block(), np.float32(np.random.default_rng(1).standard_normal((1, 64, 256)))
    session = pyopnb.Session(model)
    count = len(model.graph.node)
    best = timed(
        {
            "plain": lambda: session(x=x),
            "build": lambda: pyopnb.Session(model),
            f"trace of a transformer block of {count} nodes": lambda: session.trace(x=x),
            "… without times": lambda: session.trace(x=x, times=False),
            "… summaries": lambda: session.trace(x=x, level="summaries"),
            "… not compared with an unexposed run": lambda: session.trace(x=x, check=False),
        },
        20,
    )
    plain, build = best.pop("plain"), best.pop("build")
    for what, took in best.items():
        yield Row(
            what,
            milli(took),
            f"{milli(plain)} a plain run, {milli(build)} a session",
            took / (plain + build),
        )
    if sys.platform == "linux":
        plain, kept, sums = (_peak(level) for level in ("plain", "all", "summaries"))
        yield Row(
            f"peak of summaries, {_TENSORS} x 15 MiB",
            f"{sums:.0f} MiB",
            f"{plain:.0f} plain, {kept:.0f} all",
            sums / kept,
            0.25,
        )


def _peak(level: str) -> float:
    return float(
        subprocess.run(
            [sys.executable, "-c", _MEMORY, level], capture_output=True, text=True, check=True
        ).stdout
    )


if __name__ == "__main__":
    show(rows())
