"""Sessions in other processes: pickled here, unpickled there, and run."""

from __future__ import annotations

import copy
import pickle
import sys
import threading

import cloudpickle
import numpy as np
import onnxruntime
import pytest
import remote_work
from systems import needs_compiler

import pyopnb
from pyopnb.engine.ops.class_texts import class_source
from pyopnb.errors import Filled

X = np.float32([1, -2])

CELL = """\
%%pyop -q -d travel
class Shift:
    def __init__(self, by: float = 1.0):
        self.by, self.calls = by, 0

    def compute(self, x):
        self.calls += 1
        return twice(x) + TABLE[3] + np.float32(self.by * VERSION + 100 * self.calls)
"""

BEFORE = """\
import numpy as np
TABLE = np.arange(50_000, dtype=np.float32)
VERSION = {}
class Doubled:
    def __call__(self, x):
        return x * np.float32(2)
doubled = Doubled
def twice(x):
    return Doubled()(x)
"""

FILE = """\
import numpy as np
import pyopnb

FACTOR = {}

def scaled(x):
    return x * np.float32(FACTOR)

@pyopnb.pyop("travel::Scaled")
class Scaled:
    def compute(self, x):
        return scaled(x)
"""


@pytest.fixture
def shift(run):
    """A session of an op of a cell, whose second version serves."""
    for number in (1, 2):
        assert run(BEFORE.format(number)).ok
        assert run(CELL).ok
    return pyopnb.Session(
        pyopnb.parse("(float[N] x) => (float[N] y) { a = Abs(x)\n y = travel.Shift<by=10.0>(a) }")
    )


@pytest.fixture
def module(tmp_path, monkeypatch, remote):
    """A function that writes a module with an op, and imports it here; the other process also finds it."""
    folder = tmp_path / "modules"
    folder.mkdir()
    monkeypatch.syspath_prepend(str(folder))
    remote(remote_work.import_path, str(folder))

    def write(name, factor, importing=True):
        (folder / f"{name}.py").write_text(FILE.format(factor), encoding="utf-8")
        if importing:
            sys.modules.pop(name, None)
            __import__(name)
        return pyopnb.Session(remote_work.session_model("travel::Scaled"))

    yield write
    pyopnb.registry.clear()


def expected(calls, by=10.0):
    return np.abs(X) * 2 + 3 + np.float32(by * 2 + 100 * calls)


def test_an_op_of_a_cell_comes_along_with_what_it_uses_its_number_and_its_state(shift, remote):
    np.testing.assert_array_equal(shift(X)["y"], expected(1))
    (y,) = remote(remote_work.outputs, shift, X)
    np.testing.assert_array_equal(y, expected(2))
    assert remote(remote_work.versions) == {"travel::Shift": 2}
    np.testing.assert_array_equal(shift(X)["y"], expected(2))  # a copy went


@pytest.mark.parametrize("protocol", [2, pickle.HIGHEST_PROTOCOL])
@pytest.mark.parametrize("dumps", [pickle.dumps, cloudpickle.dumps])
def test_every_protocol(shift, protocol, dumps):
    shift.set_attrs(by=5.0)
    again = pickle.loads(dumps(shift, protocol))
    np.testing.assert_array_equal(again(X)["y"], expected(1, 5.0))
    assert again.attrs == shift.attrs and again.changed_attrs == shift.changed_attrs


def test_copies_are_sessions_of_their_own(shift):
    shift(X)
    for again in (copy.copy(shift), copy.deepcopy(shift)):
        again.set_attrs(by=1.0)
        np.testing.assert_array_equal(again(X)["y"], expected(1, 1.0))
    np.testing.assert_array_equal(shift(X)["y"], expected(2))


def test_another_version_there_and_both_serve_their_own(shift, remote):
    assert remote(remote_work.define_another, "travel::Shift", 50) == 1
    ours, theirs, after, number = remote(remote_work.beside_another, shift, "travel::Shift", 60, X)
    np.testing.assert_array_equal(ours, expected(1))
    np.testing.assert_array_equal(theirs, X * 50)
    # The session keeps what came with it; the next number is neither's.
    np.testing.assert_array_equal(after, expected(2))
    assert number == 3


def test_an_op_of_a_module_goes_by_its_name(module, remote):
    session = module("ops_of_a_file", 3)
    np.testing.assert_array_equal(remote(remote_work.outputs, session, X)[0], X * 3)
    assert remote(remote_work.modules_of_classes, session) == {"travel::Scaled": "ops_of_a_file"}


def test_what_cannot_be_pickled_is_named(run):
    assert run("import threading\nLOCK = threading.Lock()\nOPEN = [LOCK]").ok
    cell = "%%pyop -q -d travel\nclass Locked:\n    def compute(self, x):\n        with {}:\n            return x"
    assert run(cell.format("OPEN[0]")).ok
    with pytest.raises(
        TypeError,
        match=r"^op travel::Locked: expected a class that can be pickled.* cannot pickle '_thread.lock'",
    ):
        pickle.dumps(pyopnb.registry["travel::Locked"].current)


def test_what_an_op_keeps_and_cannot_be_pickled_is_named(run):
    cell = "%%pyop -q -d travel\nclass Kept:\n    def __init__(self):\n        self.fine, self.lock = 1, threading.Lock()\n"
    assert run("import threading").ok
    assert run(cell + "    def compute(self, x):\n        return x").ok
    with pytest.raises(TypeError) as raised:
        pickle.dumps(pyopnb.Session(remote_work.session_model("travel::Kept")))
    assert str(raised.value) == (
        "the node of output 'y' (travel::Kept), self.lock: expected state that can be pickled, got TypeError: cannot pickle "
        "'_thread.lock' object. Try: leave it out in __getstate__ of the class, and make it again in __setstate__"
    )


def test_getstate_leaves_out_what_cannot_come_along(run, remote):
    assert run("import numpy as np").ok
    assert run(
        "%%pyop -q -d travel\nclass Guarded:\n    def __init__(self):\n        self.sum = 0\n        self.__setstate__({})\n"
        "    def __getstate__(self):\n        return {'sum': self.sum}\n"
        "    def __setstate__(self, state):\n        import threading\n        self.__dict__.update(state, lock=threading.Lock())\n"
        "    def compute(self, x):\n        with self.lock:\n            self.sum += 1\n        return x + np.float32(self.sum)"
    ).ok
    session = pyopnb.Session(remote_work.session_model("travel::Guarded"))
    session(X)
    np.testing.assert_array_equal(remote(remote_work.outputs, session, X)[0], X + 2)


def weights(size):
    weight = np.random.default_rng(1).random(size, np.float32)
    model = pyopnb.model(
        pyopnb.node("Add", "x w", "y"), {"x": f"float32[{size}]"}, "y", initializers={"w": weight}
    )
    return model, weight


def test_a_pickle_is_hardly_larger_than_the_model():
    model, weight = weights(2_500_000)
    session = pyopnb.Session(model)
    data = pickle.dumps(session)
    assert len(data) <= 1.1 * model.ByteSize()
    np.testing.assert_array_equal(pickle.loads(data)(weight)["y"], weight * 2)


@pytest.mark.parametrize("op", ["Neg", "travel::Negative"])
def test_external_data_stays_in_its_file(op, tmp_path, remote):
    pyopnb.registry.define(
        remote_work.Negative, "travel::Negative", source=class_source(remote_work.Negative)
    )
    model = pyopnb.model(
        [pyopnb.node("Add", "x w", "a"), pyopnb.node(op, "a", "y")],
        {"x": "float32[2000]"},
        {"y": "float32[2000]"},
        initializers={"w": np.arange(2000, dtype=np.float32)},
    )
    pyopnb.save(model, tmp_path / "model.onnx", external_data=True)
    session = pyopnb.Session(tmp_path / "model.onnx")
    data = pickle.dumps(session)
    assert len(data) < 8000
    x = np.ones(2000, np.float32)
    np.testing.assert_array_equal(
        remote(remote_work.outputs, session, x)[0], -(x + np.arange(2000))
    )
    (beside,) = tmp_path.glob("*.data")
    del session  # on Windows, a file that it maps stays
    beside.unlink()
    text, notes = remote(remote_work.message, data)
    assert text.startswith("ModelError: model") and "which is no file in" in text
    assert notes == [f"the session is of another process, and its model has data in {tmp_path}"]
    pyopnb.registry.clear()


def test_options_come_along_as_far_as_they_can_be_read():
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.execution_mode = onnxruntime.ExecutionMode.ORT_PARALLEL
    options.logid = "mine"
    options.add_session_config_entry("session.set_denormal_as_zero", "1")
    model = pyopnb.model(pyopnb.node("Neg", "x", "y"), {"x": "float32[N]"}, "y")
    given = pyopnb.Session(model, options, ["CPUExecutionProvider"], [{}], enable_fallback=0)
    recipe = pickle.loads(pickle.dumps(given)).state.config
    for name in ("intra_op_num_threads", "graph_optimization_level", "execution_mode", "logid"):
        assert getattr(recipe.options, name) == getattr(options, name), name
    assert recipe.options.get_session_config_entry("session.set_denormal_as_zero") == "1"
    assert (recipe.providers, recipe.provider_options, recipe.keywords) == (
        ["CPUExecutionProvider"],
        [{}],
        {"enable_fallback": 0},
    )


@pytest.mark.parametrize(
    ("name", "value"), [("enable_profiling", True), ("optimized_model_filepath", "model.ort")]
)
def test_options_that_write_a_file_are_refused(name, value, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    setattr(options, name, value)
    session = pyopnb.Session(
        pyopnb.model(pyopnb.node("Neg", "x", "y"), {"x": "float32[N]"}, "y"), options
    )
    with pytest.raises(
        pyopnb.errors.InputError,
        match=rf"SessionOptions\.{name}: expected options that write no file",
    ):
        pickle.dumps(session)


def test_options_that_cannot_be_read_are_refused_by_name():
    model, weight = weights(4)
    lent = onnxruntime.OrtValue.ortvalue_from_numpy(weight + 1)
    given = onnxruntime.SessionOptions()
    given.add_initializer("w", lent)
    with pytest.raises(
        pyopnb.errors.InputError, match=r"SessionOptions\.add_initializer: .* got a value of w\."
    ):
        pickle.dumps(pyopnb.Session(model, given))


def test_filled_models_and_retired_nodes(remote, run):
    celu = pyopnb.model(
        pyopnb.node("Celu", "x", "y"), {"x": "float64[N]"}, {"y": "float64[N]"}, opset=12
    )
    with pytest.warns(Filled):
        session = pyopnb.Session(celu, fill=True)
    np.testing.assert_allclose(
        remote(remote_work.outputs, session, np.float64(X))[0], [1, np.expm1(-2)]
    )
    assert pickle.loads(pickle.dumps(session)).filled == session.filled

    assert run(
        "%%pyop -q --module mymodule\nclass Old:\n    def compute(self, x):\n        return x * 2"
    ).ok
    node = pyopnb.node(
        "old::PyOp",
        "x",
        "y",
        module="mymodule",
        class_name="Old",
        input_types=[1],
        output_types=[1],
    )
    old = pyopnb.Session(pyopnb.model(node, {"x": "float32[N]"}, {"y": "float32[N]"}))
    np.testing.assert_array_equal(remote(remote_work.outputs, old, X)[0], X * 2)


def test_traces_diffs_and_results(shift, remote):
    first, second = shift.trace(X), shift.trace(X * 2)
    for thing in (
        first,
        shift(X),
        pyopnb.diff(first, second),
        pyopnb.diff(X, X + 1),
        pyopnb.diff(first["y"], second["y"]),
    ):
        assert remote(remote_work.text, thing) == repr(thing)
        assert repr(remote(remote_work.round_trip, thing)) == repr(thing)
    again = pickle.loads(pickle.dumps(first))
    assert pyopnb.diff(first, again).verdict == "bit-identical"
    assert again.versions["travel::Shift"] is first.versions["travel::Shift"]


def test_an_op_and_its_version(shift, remote):
    op = pyopnb.registry["travel::Shift"]
    assert remote(remote_work.text, op.current) == repr(op.current)
    assert remote(remote_work.versions) == {}
    assert remote(remote_work.text, op) == repr(op)
    assert remote(remote_work.versions) == {"travel::Shift": 2}
    assert (
        pickle.loads(pickle.dumps(op)) is op
        and pickle.loads(pickle.dumps(op.current)) is op.current
    )
    there = remote(remote_work.round_trip, op)
    assert there is op  # it is known again
    assert copy.deepcopy(op.current) is op.current


def test_threads_that_open_one_pickle_at_once(shift):
    data = pickle.dumps(shift)
    pyopnb.registry.clear()
    found = []
    threads = [
        threading.Thread(target=lambda: found.append(pickle.loads(data)(X)["y"])) for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [y.tolist() for y in found] == [expected(1).tolist()] * 4


def test_a_gradient_op_comes_with_its_op(run, remote):
    text = (
        "%%pyop -q -d travel\nclass Cube:\n    def __init__(self):\n        self.helper = Power()\n"
        "    def compute(self, x: 'float32[N]') -> 'float32[N]':\n        return self.helper(x, 3)\n"
        "    def backward(self, inputs, outputs, grads):\n        return (grads[0] * np.float32({}) * self.helper(inputs[0], 2),)\n"
    )
    assert run(
        "import numpy as np\nclass Power:\n    def __call__(self, x, n):\n        return x ** n"
    ).ok
    for factor in (9, 3):
        assert run(text.format(factor)).ok
    assert pyopnb.registry["travel::CubeGrad"].current.number == 2
    nodes = [pyopnb.node("travel::Cube", "x", "y"), pyopnb.node("travel::CubeGrad", "x y g", "d")]
    session = pyopnb.Session(
        pyopnb.model(nodes, {"x": "float32[N]", "g": "float32[N]"}, ["y", "d"])
    )
    y, d = remote(remote_work.outputs, session, X, np.ones_like(X))
    np.testing.assert_allclose(y, X**3)
    np.testing.assert_allclose(d, 3 * X**2)
    assert remote(remote_work.versions) == {"travel::Cube": 2, "travel::CubeGrad": 2}
    remote(remote_work.forget)
    remote(remote_work.define_another, "travel::CubeGrad", 1)
    np.testing.assert_allclose(
        remote(remote_work.outputs, session, X, np.ones_like(X))[1], 3 * X**2
    )
    assert (
        pickle.loads(pickle.dumps(pyopnb.registry["travel::CubeGrad"]))
        is pyopnb.registry["travel::CubeGrad"]
    )


@needs_compiler
def test_an_op_in_cpp_is_compiled_there(remote):
    pyopnb.cpp_op(
        "void Half(Input<float> x, Output<float> y, float by = 0.5f) {\n  y.allocate(x.shape());\n"
        "  for (int64_t i = 0; i < x.size(); ++i) y[i] = by * x[i];\n}",
        "travel::Half",
    )
    session = pyopnb.Session(remote_work.session_model("travel::Half"))
    session.set_attrs(by=0.25)
    np.testing.assert_array_equal(remote(remote_work.outputs, session, X)[0], X / 4)
    pyopnb.registry.clear()
