"""The smallest model that fails: it fails as the whole does, and so does the script that is written."""

from __future__ import annotations

import subprocess
import sys
import time

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from systems import ended_by_crash, needs_faults_of_division

import pyopnb
from pyopnb.diffs import reduction
from pyopnb.diffs.reproduction import Failure, write_reproduction
from pyopnb.errors import InputError

RANDOM = np.random.default_rng(0)
WIDTH = 16


class Network:
    """A float network of some nodes; others can be hidden in its middle."""

    def __init__(self) -> None:
        self.nodes, self.weights = [], []

    def add(self, op, *inputs, domain="", **attributes):
        name = f"t{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, inputs, [name], domain=domain, **attributes))
        return name

    def weight(self, array):
        name = f"w{len(self.weights)}"
        self.weights.append(numpy_helper.from_array(np.asarray(array), name))
        return name

    def blocks(self, last, count):
        for _ in range(count):
            matrix = RANDOM.standard_normal((WIDTH, WIDTH)).astype(np.float32) / 4
            product = self.add("MatMul", last, self.weight(matrix))
            last = self.add("Add", self.add("Tanh", product), last)
        return last

    def model(self, last):
        self.nodes.append(helper.make_node("Identity", [last], ["y"]))
        infos = [helper.make_tensor_value_info(n, TensorProto.FLOAT, ["N", WIDTH]) for n in "xy"]
        graph = helper.make_graph(self.nodes, "g", infos[:1], infos[1:], self.weights)
        imports = [helper.make_opsetid("", 20), helper.make_opsetid("demo", 1)]
        return helper.make_model(graph, opset_imports=imports, ir_version=10)


def hidden(hide, blocks=50):
    network = Network()
    last = hide(network, network.blocks("x", blocks))
    model = network.model(network.blocks(last, blocks))
    return model, {"x": RANDOM.standard_normal((8, WIDTH)).astype(np.float32)}


def quantized_sum(network, x):
    """onnxruntime#32132: the sum of two dequantized tensors, computed with integers, is off by one."""

    def scale(value):
        return network.weight(np.float32(value)), network.weight(np.uint8(120))

    def rounded(tensor, numbers):
        return network.add(
            "DequantizeLinear", network.add("QuantizeLinear", tensor, *numbers), *numbers
        )

    a = rounded(x, scale(0.01))
    b = rounded(network.add("Sin", x), scale(0.03))
    return rounded(network.add("Add", a, b), scale(0.02))


def empty_product(network, x):
    """onnxruntime divides by the size of an empty contraction."""
    ends = [network.weight(np.int64([end])) for end in (0, 0, 1)]
    empty = network.add("Slice", x, *ends)
    product = network.add("Einsum", empty, empty, equation="ij,kj->ik")
    return network.add("Add", x, network.add("ReduceSum", product, keepdims=0))


def ran(folder):
    return subprocess.run([sys.executable, folder / "reproduce.py"], capture_output=True, text=True)


def test_a_quantized_sum_among_300_nodes(tmp_path):
    model, feeds = hidden(quantized_sum)
    before = model.SerializeToString()
    begin = time.process_time()
    smallest = pyopnb.reduce(model, feeds)
    assert time.process_time() - begin < 60
    assert len(model.graph.node) > 300 and len(smallest.model.graph.node) <= 6
    assert "Add" in [node.op_type for node in smallest.model.graph.node]
    assert smallest.finished and max(array.size for array in smallest.feeds.values()) == 1
    onnx.checker.check_model(smallest.model)
    assert model.SerializeToString() == before
    found = pyopnb.first_divergence(smallest.model, smallest.feeds, over="optimizers")
    assert found.optimizers == ("QDQSelectorActionTransformer",)
    folder = smallest.write(tmp_path / "report")
    assert {path.name for path in folder.iterdir()} == {
        "model.onnx", "feeds.npz", "reproduce.py", "report.md"
    }  # fmt: skip
    done = ran(folder)
    assert done.returncode == 0 and "largest difference: 1.0" in done.stdout
    assert "pyopnb" not in (folder / "reproduce.py").read_text(encoding="utf-8")


@needs_faults_of_division
def test_a_run_that_ends_the_process(tmp_path):
    smallest = pyopnb.reduce(*hidden(empty_product, blocks=2))
    assert [node.op_type for node in smallest.model.graph.node] == ["Einsum"]
    assert "the run ends the process" in str(smallest)
    assert ended_by_crash(ran(smallest.write(tmp_path)).returncode)


def test_a_function_says_what_fails(define, tmp_path):
    define("""
        @pyopnb.pyop("demo::Swish")
        class Swish:
            def compute(self, x):
                return np.where(x > 0.3, x, x / (1 + np.exp(-x))).astype(x.dtype)
    """)

    def is_wrong(model, feeds):
        right = onnx.parser.parse_model(
            '<ir_version: 10, opset_import: ["": 20, "demo": 1]> g (float[?] x) => (float[?] y) { y = Abs(x) }'
        )
        right.graph.CopyFrom(model.graph)
        right.functions.append(SWISH)
        outputs = dict(pyopnb.run(model, feeds)), dict(zip_outputs(right, feeds))
        # Rounding grows in a hundred nodes.
        return not pyopnb.diff(*outputs, atol=1e-2).ok

    smallest = pyopnb.reduce(
        *hidden(lambda n, x: n.add("Swish", x, domain="demo"), blocks=4), is_wrong
    )
    assert [node.op_type for node in smallest.model.graph.node] == ["Swish"]
    folder = smallest.write(tmp_path)
    # The op comes along, and the function that judged.
    assert ran(folder).returncode == 0
    assert "def is_wrong" in (folder / "report.md").read_text(encoding="utf-8")


SWISH = helper.make_function(
    "demo",
    "Swish",
    ["x"],
    ["y"],
    [helper.make_node("Sigmoid", ["x"], ["s"]), helper.make_node("Mul", ["x", "s"], ["y"])],
    [helper.make_opsetid("", 20)],
)


def zip_outputs(model, feeds):
    evaluator = onnx.reference.ReferenceEvaluator(model)
    return zip(evaluator.output_names, evaluator.run(None, feeds), strict=True)


@pytest.mark.parametrize(
    ("hide", "op_type", "words"),
    [
        (lambda n, x: n.add("Nonsense", x), "Nonsense", "no session can be made"),
        (lambda n, x: n.add("Expand", x, n.weight(np.int64([3, WIDTH]))), "Expand", "the run raises"),
    ],
)  # fmt: skip
def test_a_session_and_a_run_that_raise(hide, op_type, words):
    smallest = pyopnb.reduce(*hidden(hide, 3))
    assert [node.op_type for node in smallest.model.graph.node] == [op_type]
    assert words in smallest.failure.text


def test_paths_of_windows_are_no_part_of_how_a_model_fails():
    # The error names a new temporary file in each trial.
    text = (
        r"no session can be made: Load model from C:\Users\Mia Li\Temp\tmp{}\0.onnx failed: no Op"
    )
    one, other, third = (
        Failure("session", text.format(part) + end)
        for part, end in [("b8x_w", ""), ("qqd6tz", ""), ("qqd6tz", " registered")]
    )
    assert reduction._gist(one) == reduction._gist(other) != reduction._gist(third)


def test_the_time_is_limited():
    smallest = pyopnb.reduce(*hidden(quantized_sum, 10), seconds=0)
    assert not smallest.finished and len(smallest.model.graph.node) > 60
    assert "the time limit was reached" in str(smallest)


def test_what_cannot_be_reduced_is_said():
    model, feeds = hidden(lambda network, x: x, 2)
    with pytest.raises(InputError, match=r"^reduce: expected a model that fails"):
        pyopnb.reduce(model, feeds)
    with pytest.raises(InputError, match=r"^reduce: expected a model that fails"):
        pyopnb.reduce(model, feeds, lambda model, feeds: False)
    with pytest.raises(InputError, match=r"^reduce, feeds: expected a dict"):
        pyopnb.reduce(model, feeds["x"])
    with pytest.raises(InputError, match=r"x"):
        pyopnb.reduce(model, {"z": feeds["x"]})
    with pytest.raises(InputError, match=r"^reduce, fails: expected a function"):
        pyopnb.reduce(model, feeds, 3)


def test_a_sequence_stays_as_it_is(tmp_path):
    text = """(seq(float[N]) s, int64 i) => (float[M] y) {
        n = SequenceLength(s) a = SequenceAt(s, i) y = Neg(a)
    }"""
    feeds = {"s": [np.float32([1, 2]), np.float32([3, 4])], "i": np.int64(1)}
    smallest = pyopnb.reduce(
        pyopnb.parse(text),
        feeds,
        lambda model, feeds: (
            "SequenceAt" in str(model) and abs(pyopnb.run(model, feeds)[0].sum()) == 7
        ),
    )
    assert [node.op_type for node in smallest.model.graph.node] == ["SequenceAt"]
    assert [array.tolist() for array in smallest.feeds["s"]] == [[1, 2], [3, 4]]
    assert "s: list" in str(smallest)
    with pytest.raises(
        InputError, match="feed s: expected an array, because the feeds go into a file"
    ):
        smallest.write(tmp_path)


def test_files_have_tensors_of_any_name(tmp_path):
    names = ["file", "args", "allow_pickle", "self", "a/b", "x", "x.npy", "arr_0", "{0}", '"\\n']
    feeds = {name: np.float32([number]) for number, name in enumerate(names)}
    nodes = [helper.make_node("Neg", [name], [f"{name} out"]) for name in names]
    ports = [
        [helper.make_tensor_value_info(name + end, 1, [1]) for name in names]
        for end in ("", " out")
    ]
    model = helper.make_model(
        helper.make_graph(nodes, "g", *ports),
        ir_version=9,
        opset_imports=[helper.make_opsetid("", 17)],
    )
    outputs = {f"{name} out": -array for name, array in feeds.items()}
    write_reproduction(model, feeds, Failure("reference", "differs", (outputs, outputs)), tmp_path)
    done = ran(tmp_path)
    assert done.returncode == 0, done.stderr
    for name, array in feeds.items():
        assert f"\n{name} out = [{-array[0]}]".replace(".0]", ".]") in done.stdout
        assert f"expected {name} out = [{-array[0]}]".replace(".0]", ".]") in done.stdout
    assert done.stdout.count("largest difference: 0.0") == len(names)


def test_a_recursive_function_is_refused_by_name() -> None:
    model = onnx.parser.parse_model(
        """<ir_version: 9, opset_import: ["": 20, "l": 1]> g (float[N] x) => (float[N] y) { y = l.F(x) }
        <domain: "l", opset_import: ["": 20, "l": 1]> F (a) => (z) { q = Abs(a)  z = l.F(q) }"""
    )
    for fails in (None, lambda model, feeds: True):
        with pytest.raises(pyopnb.errors.ModelError, match="function l::F: expected no recursion"):
            pyopnb.reduce(model, {"x": np.float32([1])}, fails)
