"""``Session.trace`` and ``pyopnb.trace``: every tensor of a run, and that looking changes nothing that is not told."""

from __future__ import annotations

import gc
import os
import shutil
import sys
import tempfile
import threading
import types
import warnings
import weakref

import ml_dtypes
import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, numpy_helper

import pyopnb
from pyopnb.errors import ModelError
from pyopnb.traces import shadow_session

X = np.float32([1, -2, 3])


def parsed(body, types="float[N] x", gives="float[N] y", opset=18, ir=8):
    head = f'<ir_version: {ir}, opset_import: ["" : {opset}, "demo" : 1]>'
    return onnx.parser.parse_model(f"{head}\ng ({types}) => ({gives}) {{\n{body}\n}}")


@pytest.fixture
def chain():
    return parsed("a = Exp(x)\nb = Neg(a)\ny = Abs(b)")


@pytest.fixture
def counter():
    """An op whose result says how often its instance was called, and a list of all calls."""
    calls = []

    @pyopnb.pyop("demo::Count")
    class Count:
        def __init__(self):
            self.calls = 0

        def compute(self, x):
            self.calls += 1
            calls.append(self.calls)
            return x * 0 + np.float32(self.calls)

    return calls


# ---- which tensors -----------------------------------------------------------------------------------------------------------


def test_every_tensor_of_a_run(chain):
    trace = pyopnb.Session(chain).trace(x=X)
    assert list(trace) == ["x", "a", "b", "y"] == list(trace.keys()) == list(trace.summaries)
    assert np.array_equal(trace["a"], np.exp(X), equal_nan=True) or np.allclose(
        trace["a"], np.exp(X)
    )
    assert np.array_equal(trace["b"], -trace["a"]) and np.array_equal(trace["y"], trace["a"])
    assert (
        list(trace.values) == ["a", "b", "y"]
        and list(trace.feeds) == ["x"]
        and trace.outputs == ("y",)
    )
    assert (
        len(trace) == 4
        and "b" in trace
        and "w" not in trace
        and dict(trace)["b"] is trace["b"] is trace.values["b"]
    )
    assert [node.op_type for node in trace.model.graph.node] == ["Exp", "Neg", "Abs"] and len(
        trace.model.graph.output
    ) == 1
    assert "onnxruntime" in trace.runtime and "all optimizations" in trace.runtime
    assert trace.exposure.same and trace.exposure.compared == 1


def test_chosen_names(chain):
    session = pyopnb.Session(chain)
    assert list(session.trace(x=X, only="a")) == ["x", "a", "y"]
    assert list(session.trace(x=X, only=["[ab]"])) == ["x", "a", "b", "y"]
    with pytest.raises(pyopnb.errors.InputError, match=r"globs of them, got 'aa'.*write a"):
        session.trace(x=X, only=["b", "aa"])


def test_summaries_alone(chain):
    session = pyopnb.Session(chain)
    trace, full = session.trace(x=X, level="summaries"), session.trace(x=X)
    assert list(trace) == ["x", "y"] and trace.summaries == full.summaries
    with pytest.raises(KeyError, match="not only summarized"):
        trace["a"]
    assert list(session.trace(x=X, level="summaries", only="b").summaries) == ["x", "b", "y"]


def test_feeds_by_name_by_place_and_called_as_a_parameter():
    model = parsed("y = Add(level, only)", "float[N] level, float[N] only")
    session = pyopnb.Session(model)
    assert session.trace({"level": X, "only": X})["y"].tolist() == (2 * X).tolist()
    assert session.trace(X, X)["level"].tolist() == X.tolist()
    with pytest.raises(pyopnb.errors.InputError, match="level"):
        session.trace(X)
    with pytest.raises(TypeError, match="2 inputs"):
        session.trace(X, X, X)
    with pytest.raises(pyopnb.errors.InputError, match="'all' or 'summaries'"):
        session.trace(X, level="some")


def test_dtypes_that_onnxruntime_has_no_arrays_for():
    for name, scalar in (
        ("BFLOAT16", ml_dtypes.bfloat16),
        ("FLOAT8E4M3FN", ml_dtypes.float8_e4m3fn),
        ("STRING", None),
    ):
        number = getattr(TensorProto, name)
        session = pyopnb.Session(
            parsed(f"a = Cast<to = {number}>(x)\ny = Cast<to = 1>(a)", opset=19, ir=9)
        )
        trace = session.trace(x=X)
        assert trace["a"].dtype == (scalar or object) and trace["y"].tolist() == X.tolist()
        assert session.trace(x=X, level="summaries").summaries == trace.summaries


@pytest.mark.skipif(not hasattr(TensorProto, "INT2"), reason="the installed onnx has no int2")
def test_dtypes_that_no_tap_can_have_are_summarized_all_the_same():
    model = parsed(f"a = Cast<to = {TensorProto.INT2}>(x)\ny = Cast<to = 1>(a)", opset=25, ir=13)
    try:
        session = pyopnb.Session(model)
    except onnxruntime.capi.onnxruntime_pybind11_state.Fail:
        pytest.skip("the installed runtime has no int2")
    x = np.float32([1, -2, 0])
    trace = session.trace(x=x, level="summaries")
    assert trace.summaries["a"].least == -2 and list(trace) == ["x", "y"]
    assert session.trace(x=x)["a"].tolist() == [1, -2, 0]


@pytest.mark.parametrize("level", ["all", "summaries"])
def test_sequences_and_what_is_not_there(level):
    body = """s = SequenceConstruct(x, x)
              i = Constant<value = int64 {1}>()
              y = SequenceAt(s, i)
              o = Optional<type = float[N]>()
              has = OptionalHasElement(o)"""
    model = parsed(body, gives="float[N] y, bool has")
    trace = pyopnb.Session(model).trace(x=X, level=level)
    assert trace.summaries["s"].kind == "sequence" and trace.summaries["s"].count == 2
    assert trace.summaries["o"].kind == "none" and not trace["has"]
    assert ("s" in trace) == (level == "all")


def test_a_sequence_is_traced_and_fed_again():
    text = "(seq(float[N]) s, int64 i) => (float[M] y) { a = SequenceAt(s, i) y = Neg(a) }"
    session = pyopnb.Session(pyopnb.parse(text))
    feeds = {"s": [np.float32([1, 2]), np.float32([3])], "i": np.int64(1)}
    trace = session.trace(**feeds)
    assert [array.tolist() for array in trace.feeds["s"]] == [[1, 2], [3]]
    cut = pyopnb.extract(trace, outputs="a")
    assert pyopnb.run(*cut)["a"].tolist() == [3]
    assert session(feeds)["y"].tolist() == [-3]


# ---- bodies ------------------------------------------------------------------------------------------------------------------

BODIES = """
    e = If(c) <then_branch = t () => (float[N] p) { q = Abs(x) p = Neg(q) }, else_branch = f () => (float[N] r) { r = Identity(x) }>
    last, hist = Loop(trip, always, e) <body = l (int64 i, bool ci, float[N] st) => (bool co, float[N] so, float[N] sc) {
        co = Identity(ci)
        so = Add(st, st)
        sc = Identity(so)
    }>
    y = Abs(last)
"""


def bodies(counted=False):
    text = BODIES.replace("so = Add(st, st)", "so = demo.Count(st)") if counted else BODIES
    return pyopnb.parse(
        '<ir_version: 8, opset_import: ["" : 18, "demo" : 1]>\ng (float[N] x, bool c) => (float[N] y) '
        f"<int64 trip = {{3}}, bool always = {{1}}> {{{text}}}"
    )


def test_bodies_on_demand():
    session = pyopnb.Session(bodies())
    x, c = X, np.array(True)
    assert list(session.trace(x, c).values) == ["e", "last", "hist", "y"]
    trace = session.trace(x, c, bodies=True)
    inner = [f"last/body/{name}[{n}]" for n in range(3) for name in ("co", "so", "sc")]
    assert list(trace.values) == [
        "e/then_branch/q",
        "e/then_branch/p",
        "e",
        *inner,
        "last",
        "hist",
        "y",
    ]
    assert trace["e/then_branch/q"].tolist() == np.abs(X).tolist()
    assert [trace[f"last/body/so[{n}]"].tolist() for n in range(3)] == [
        (-np.abs(X) * f).tolist() for f in (2, 4, 8)
    ]
    assert "e/else_branch/r" in session.trace(x, np.array(False), bodies=True)
    sums = session.trace(x, c, bodies=True, level="summaries")
    assert list(sums.values) == ["y"] and sums.summaries == trace.summaries
    chosen = session.trace(x, c, bodies=True, only="last/body/so")
    assert list(chosen.values) == [f"last/body/so[{n}]" for n in range(3)] + ["y"]


# ---- what looking changes ----------------------------------------------------------------------------------------------------


def fusing():
    """Gelu in parts, which ONNX Runtime puts together: the whole rounds otherwise."""
    text = "a = Div(x, s)\nb = Erf(a)\nc = Add(b, one)\nd = Mul(x, c)\ny = Mul(d, half)"
    model = parsed(text)
    for name, value in (("s", 2**0.5), ("one", 1), ("half", 0.5)):
        model.graph.initializer.append(numpy_helper.from_array(np.float32(value), name))
    return model, np.linspace(-3, 3, 1001, dtype=np.float32)


def test_a_fusion_that_exposing_keeps_from_being_made_is_told():
    model, x = fusing()
    session = pyopnb.Session(model)
    trace = session.trace(x=x)
    plain = session(x=x)["y"]
    assert not np.array_equal(plain, trace["y"]), (
        "this runtime does not fuse Gelu: the test needs another model"
    )
    assert not trace.exposure.same and list(trace.exposure.differing) == ["y"]
    assert trace.exposure.differing["y"] == np.abs(plain.astype(float) - trace["y"]).max()
    assert "recording the tensors changed y (by at most" in repr(trace)
    assert session.trace(x=x, only="a").exposure is not None
    unoptimized = session.trace(x=x, optimized=False)
    assert unoptimized.exposure is None and "no optimizations" in unoptimized.runtime
    assert set(unoptimized.times) == {"a", "b", "c", "d", "y"}
    assert (
        len(session.trace(x=x, only=["y"]).times)
        < 5
        == len(session.trace(x=x, only=["y"], optimized=False).times)
    )


def test_state_lives_on_as_in_one_run(counter):
    session = pyopnb.Session(parsed("a = demo.Count(x)\ny = Neg(a)"))
    session(x=X)
    trace = session.trace(x=X)
    assert trace["a"][0] == 2 and trace.exposure.same and counter == [1, 2, 2]
    assert session(x=X)["y"][0] == -3
    assert session.trace(x=X, check=False)["a"][0] == 4 and counter == [1, 2, 2, 3, 4]
    assert session.trace(x=X, optimized=False)["a"][0] == 5
    assert session(x=X)["y"][0] == -6


def test_an_op_that_cannot_be_copied_runs_once():
    @pyopnb.pyop("demo::Locked")
    class Locked:
        def __init__(self):
            self.lock, self.calls = threading.Lock(), 0

        def compute(self, x):
            self.calls += 1
            return x * 0 + np.float32(self.calls)

    session = pyopnb.Session(parsed("a = demo.Locked(x)\ny = Neg(a)"))
    trace = session.trace(x=X)
    assert (
        trace["a"][0] == 1
        and trace.exposure is None
        and "Locked cannot be copied" in trace.unchecked
    )
    assert "not compared with a normal run" in repr(trace)
    assert session(x=X)["y"][0] == -2


def test_a_redefined_op_serves_and_the_trace_knows_its_version(counter):
    session = pyopnb.Session(parsed("a = demo.Count(x)\ny = Neg(a)"))
    assert session.trace(x=X).versions["demo::Count"].number == 1

    @pyopnb.pyop("demo::Count")
    class Count:
        def compute(self, x):
            return x + 1

    trace = session.trace(x=X)
    assert trace.versions == {"demo::Count": pyopnb.registry["demo::Count"].current} and trace[
        "a"
    ].tolist() == [2, -1, 4]


def test_an_op_with_other_outputs_is_followed_and_said_of_the_users_line():
    def define(hint):
        def compute(self, x):
            return x.astype(hint[:7])

        compute.__annotations__["return"] = hint
        pyopnb.registry.define(type("Cast", (), {"compute": compute}), "demo::Cast")

    define("float32[N]")
    session = pyopnb.Session(parsed("y = demo.Cast(x)", gives="y"))
    define("float64[N]")
    with pytest.warns(pyopnb.errors.SessionRebuilt) as said:
        trace = session.trace(x=X)
    assert trace["y"].dtype == np.float64 and said[0].filename == __file__


def test_the_users_options_are_never_changed(tmp_path):
    options = onnxruntime.SessionOptions()
    weight = onnxruntime.OrtValue.ortvalue_from_numpy(np.float32([10, 20, 30]))
    options.add_external_initializers(["w"], [weight])
    options.enable_profiling, options.profile_file_prefix = True, str(tmp_path / "mine")
    options.log_severity_level = 4
    names = [n for n in dir(options) if not n.startswith("_") and not callable(getattr(options, n))]
    seen, sessions = [], []
    plain, model = parsed("y = Add(x, w)"), parsed("a = demo.Looks(x)\ny = Add(a, w)")
    for one in (plain, model):
        tensor = one.graph.initializer.add(name="w", data_type=1, dims=[3], data_location=1)
        tensor.external_data.add(key="location", value="nowhere.bin")

    @pyopnb.pyop("demo::Looks")
    class Looks:
        def infer(self, x):
            # ONNX Runtime asks while it makes a session.
            seen.append({name: getattr(options, name) for name in names})
            # A session with the same options waits for no trace.
            other = threading.Thread(target=lambda: sessions.append(pyopnb.Session(plain, options)))
            if len(seen) > before_looking:
                other.start()
                other.join(20)
            return x

        def compute(self, x):
            return x

    before_looking = 100
    made = pyopnb.Session(model, options)
    before_looking = len(seen)
    trace = made.trace(x=X, check=False)
    assert trace["y"].tolist() == [11, 18, 33] and trace.times
    looks = len(seen) - before_looking
    assert len(sessions) == looks > 0
    pyopnb.profile(made, x=X, runs=1)
    assert len(sessions) == len(seen) - before_looking > looks
    assert all(fields == seen[0] for fields in seen)
    # Sessions that are made within a millisecond share a file.
    files = {session.end_profiling() for session in [made, *sessions]}
    assert sorted(map(str, tmp_path.iterdir())) == sorted(files)


def uncopied(chain):
    """Options to which a provider was added, and the state of a session with them."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.add_provider("CPUExecutionProvider", {})
    return options, pyopnb.Session(chain, options).state


def test_options_that_cannot_be_copied_are_changed_by_one_trace_at_a_time(chain):
    options, state = uncopied(chain)
    entered = threading.Event()
    level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL

    def fields(**more):
        return {"enable_profiling": True, "optimized_model_filepath": "", **more}

    def look():
        with shadow_session._options_beside(state, chain, fields(), {}):
            entered.set()

    other = threading.Thread(target=look)
    changes = fields(graph_optimization_level=level)
    with shadow_session._options_beside(state, chain, changes, {}) as changed:
        assert changed is options and options.graph_optimization_level == level
        other.start()
        assert not entered.wait(0.05)
    other.join()
    assert entered.is_set() and not options.enable_profiling
    assert options.graph_optimization_level.name == "ORT_ENABLE_ALL"


def test_no_other_session_is_made_with_the_options_that_a_trace_changes(chain):
    options, state = uncopied(chain)
    sessions = []
    other = threading.Thread(target=lambda: sessions.append(pyopnb.Session(chain, options)))
    changes = {"enable_profiling": True, "optimized_model_filepath": ""}
    with shadow_session._options_beside(state, chain, changes, {}):
        other.start()
        other.join(0.2)
        assert not sessions
    other.join()
    assert not sessions[0].state.runtime._sess.session_options.enable_profiling


def test_a_trace_while_the_op_gets_another_dtype_is_of_one_version():
    class Redefines:
        kind = "float32"

        def compute(self, x):
            """While the exposed session runs, which must not be built again for it."""
            define("float64" if self.kind == "float32" else "float32")
            return x.astype(self.kind)

    def define(kind):
        one = type(
            "Redefines",
            (Redefines,),
            {"kind": kind, "compute": types.FunctionType(*parts(Redefines.compute))},
        )
        one.compute.__annotations__ = {"return": f"{kind}[N]"}
        pyopnb.registry.define(one, "demo::Redefines")

    def parts(function):
        return (
            function.__code__,
            function.__globals__,
            function.__name__,
            function.__defaults__,
            function.__closure__,
        )

    define("float32")
    session = pyopnb.Session(
        pyopnb.model([pyopnb.node("demo::Redefines", "x", "y")], {"x": "float32[N]"}, "y")
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        for _ in range(4):
            trace = session.trace(x=X)
            assert trace.times and trace.exposure.same
            assert trace["y"].dtype.name in str(trace.versions["demo::Redefines"].schema)


def test_an_op_that_is_new_since_the_session_was_built_serves_neither_it_nor_its_traces(counter):
    text = """<ir_version: 8, opset_import: ["" : 18, "demo" : 1, "local" : 1]>
    g (float[N] x) => (float[N] y) { a = local.Minus(x) b = Abs(a) y = demo.Count(b) }
    <opset_import: ["" : 18], domain: "local"> Minus (x) => (y) { y = Neg(x) }"""
    session = pyopnb.Session(pyopnb.parse(text))
    before = session(x=X)

    class Wrong:
        def compute(self, x):
            return x * 0

    pyopnb.registry.define(Wrong, "::Neg")
    pyopnb.registry.define(Wrong, "::Abs")
    trace = session.trace(x=X)
    assert trace["b"].tolist() == np.abs(X).tolist() and list(trace.versions) == ["demo::Count"]
    assert before["y"][0] == 1 and trace["y"][0] == 2
    assert session.trace(x=X, level="summaries").summaries["b"] == trace.summaries["b"]


def test_an_exception_of_an_op_is_itself():
    class Mine(Exception):
        pass

    @pyopnb.pyop("demo::Raises")
    class Raises:
        def compute(self, x):
            raise Mine("here")

    session = pyopnb.Session(parsed("a = Neg(x)\ny = demo.Raises(a)"))
    for options in ({}, {"check": False}, {"level": "summaries", "check": False}):
        with pytest.raises(Mine, match="here") as caught:
            session.trace(x=X, **options)
        assert "demo::Raises" in "".join(caught.value.__notes__)
    with pytest.raises(Mine, match="here") as caught:
        pyopnb.trace(session, x=X, on="reference")
    note, _ = caught.value.__notes__  # the other is about the trace
    assert "'y' (demo::Raises), version 1" in note


def test_a_session_is_not_kept_by_its_trace(chain):
    session = pyopnb.Session(chain)
    trace = session.trace(x=X)
    gone = weakref.ref(session)
    del session
    gc.collect()
    assert gone() is None and trace["a"].shape == (3,)


def test_the_users_options_stay_as_they_were_and_no_file_is_left(
    chain, tmp_path, monkeypatch, capfd
):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    session = pyopnb.Session(chain, options)
    names = [n for n in dir(options) if not n.startswith("_") and not callable(getattr(options, n))]
    before = {name: getattr(options, name) for name in names}
    session.trace(x=X, level="summaries", optimized=False)
    assert {name: getattr(options, name) for name in names} == before
    pyopnb.Session(chain).trace(x=X, level="summaries")
    assert os.listdir(tmp_path) == [] and capfd.readouterr() == ("", "")


# ---- times -------------------------------------------------------------------------------------------------------------------


def test_times_of_nodes_with_a_part_in_python(counter):
    model = parsed("a = Exp(x)\nb = demo.Count(a)\ny = Abs(b)")
    model.graph.node[1].name = "Exp_0"  # what a node without a name may be called for the profile
    session = pyopnb.Session(model)
    times = session.trace(x=X).times
    assert list(times) == ["a", "b", "y"] and all(t.total >= 0 for t in times.values())
    assert times["a"].python is None and times["a"].crossing is None
    assert 0 < times["b"].python <= times["b"].total + 1 and times["b"].node == "Exp_0"
    assert times["b"].crossing == max(0, times["b"].kernel - times["b"].python)
    assert session.trace(x=X, times=False).times is None


def test_a_full_temporary_folder(monkeypatch):
    model = parsed("y = Neg(x)")
    monkeypatch.setattr(shutil, "disk_usage", lambda folder: types.SimpleNamespace(free=0))
    advice = r'expected a free megabyte, got a full disk\. Try: tempfile\.tempdir = "\."'
    calls = (
        lambda: pyopnb.trace(model, X),
        lambda: pyopnb.trace(model, X, on=sys.executable),
        lambda: pyopnb.profile(model, X),
        lambda: pyopnb.first_divergence(model, {"x": X}, over="optimizers"),
    )
    for call in calls:
        with pytest.raises(ModelError, match=advice):
            call()
    assert np.array_equal(pyopnb.trace(model, X, times=False)["y"], -X)


# ---- models of all kinds -----------------------------------------------------------------------------------------------------


def test_initializers_are_read_when_they_are_asked_for(tmp_path):
    w = np.arange(2000, dtype=np.float32)
    model = parsed("a = Add(x, w)\ny = Neg(a)")
    model.graph.initializer.append(numpy_helper.from_array(w, "w"))
    inside = pyopnb.Session(model).trace(np.zeros(2000, np.float32))
    onnx.save(
        model, tmp_path / "m.onnx", save_as_external_data=True, location="m.data", size_threshold=0
    )
    outside = pyopnb.Session(tmp_path / "m.onnx").trace(np.zeros(2000, np.float32))
    for trace in (inside, outside):
        assert len(trace.model.SerializeToString()) < 2000
        assert (
            list(trace.initializers) == ["w"]
            and "w" in trace.initializers
            and len(trace.initializers) == 1
        )
        assert np.array_equal(trace.initializers["w"], w) and np.array_equal(trace["a"], w)
        with pytest.raises(KeyError, match=r"trace\.initializers\['w'\]"):
            trace["w"]
    on_reference = pyopnb.trace(tmp_path / "m.onnx", np.zeros(2000, np.float32), on="reference")
    assert np.array_equal(on_reference["a"], w) and np.array_equal(
        on_reference.initializers["w"], w
    )


@pytest.mark.parametrize("level", ["all", "summaries"])
def test_a_model_is_in_memory_once(open_sessions, level):
    model = parsed("a = Abs(x)\ny = Neg(a)")
    trace = pyopnb.trace(model, X, level=level)
    assert (trace.exposure.same, open_sessions.made, open_sessions.most) == (True, 2, 1)
    session = pyopnb.Session(model)
    session.trace(X)
    # A live session is kept.
    assert (open_sessions.most, session(X)["y"].tolist()) == (2, (-np.abs(X)).tolist())


@pytest.mark.parametrize("node", ["y = Expand(a, shape)", "y = demo.Fails(a)"])
def test_a_model_that_fails_is_in_memory_once(define, open_sessions, node):
    define("""
        @pyopnb.pyop("demo::Fails")
        class Fails:
            def compute(self, x):
                raise ValueError("no")
    """)
    model = parsed(f"a = Abs(x)\nshape = Constant <value = int64[1] {{-1}}> ()\n{node}")
    model.graph.node[2].name = "failing"  # an unnamed one is looked for by running again
    with pytest.raises(Exception, match=r"Expand|no") as caught:
        pyopnb.trace(model, X)
    assert np.array_equal(caught.value.trace["a"], np.abs(X))
    assert (open_sessions.made, open_sessions.most) == (2, 1)


def test_weights_are_kept_only_while_they_are_used(tmp_path):
    w = np.arange(2000, dtype=np.float32)
    model = parsed("y = Add(x, w)")
    model.graph.initializer.append(numpy_helper.from_array(w, "w"))
    path = tmp_path / "m.onnx"
    onnx.save(model, path, save_as_external_data=True, location="m.data", size_threshold=0)
    trace = pyopnb.trace(path, np.zeros(2000, np.float32))
    first = trace.initializers["w"]
    assert trace.initializers["w"] is first
    # The file may be written again while somebody has the array.
    (tmp_path / "m.data").write_bytes(b"")
    assert np.array_equal(first, w)
    del first
    with pytest.raises(ModelError, match=r"m\.data: expected the weights that the traced run had"):
        trace.initializers["w"]


@pytest.mark.parametrize("place", ["inside", "beside"])
def test_another_export_to_the_name_of_a_traced_model(tmp_path, monkeypatch, place):
    path = tmp_path / "m.onnx"

    def traced(w):
        model = parsed("y = Add(x, w)")
        model.graph.initializer.append(numpy_helper.from_array(w, "w"))
        beside = place == "beside"
        onnx.save(model, path, save_as_external_data=beside, location="m.data", size_threshold=0)
        return pyopnb.trace(path, np.zeros(2000, np.float32))

    w = np.arange(2000, dtype=np.float32)
    before, after = traced(w), traced(w + 1)
    if place == "inside":
        # Weights of a few megabytes are kept with the trace.
        assert np.array_equal(before.initializers["w"], w)
        assert "weight w: float32[2000]" in str(pyopnb.diff(before, after))
        monkeypatch.setattr("pyopnb.traces.run._MAX_KEPT", 0)
        before, after = traced(w), traced(w + 1)
    with pytest.raises(ModelError, match=r"got one that was written later\. Try: trace it again"):
        pyopnb.diff(before, after)
    assert np.array_equal(after.initializers["w"], w + 1)
    # As the message advises.
    assert not pyopnb.diff(dict(before), dict(after)).ok


def test_weights_that_had_to_leave_the_model(monkeypatch):
    monkeypatch.setattr(
        "pyopnb.engine.models.model_files._MAX_MESSAGE", 2**26 + 1000
    )  # as if this were more than 2 GB
    w = np.arange(2000, dtype=np.float32)
    model = parsed("a = Add(x, w)\ny = Neg(a)")
    model.graph.initializer.append(numpy_helper.from_array(w, "w"))
    session = pyopnb.Session(model)
    assert session.state.taken_out
    trace = session.trace(np.zeros(2000, np.float32), level="summaries")
    assert (
        np.array_equal(trace.initializers["w"], w)
        and trace.summaries["a"].greatest == 1999
        and trace.exposure.same
    )


def test_local_functions(counter):
    text = """<ir_version: 8, opset_import: ["" : 18, "demo" : 1, "local" : 1]>
    g (float[N] x) => (float[N] y) { a = local.Twice(x) y = local.Counted(a) }
    <opset_import: ["" : 18], domain: "local"> Twice (x) => (y) { y = Add(x, x) }
    <opset_import: ["" : 18, "demo" : 1], domain: "local"> Counted (x) => (y) { t = demo.Count(x) y = Neg(t) }"""
    session = pyopnb.Session(pyopnb.parse(text))
    trace = session.trace(x=X)
    assert trace["a"].tolist() == (2 * X).tolist() and trace["y"][0] == -1 and counter == [1, 1]
    assert "demo::Count" in trace.versions and any(
        n.op_type == "Count" for n in trace.model.graph.node
    )
    assert np.array_equal(pyopnb.trace(pyopnb.parse(text), X, on="reference")["y"], trace["y"])


# ---- without a session -------------------------------------------------------------------------------------------------------


def test_on_the_reference_implementation(chain, counter):
    trace = pyopnb.trace(chain, X, on="reference")
    assert list(trace) == ["x", "a", "b", "y"] and "onnx.reference" in trace.runtime
    assert trace.exposure is None and trace.times is None
    other = pyopnb.trace(chain, {"x": X})
    assert all(np.allclose(trace[name], other[name]) for name in trace)
    only = pyopnb.trace(chain, x=X, on="reference", only="a", level="summaries")
    assert list(only.summaries) == ["x", "a", "y"] and list(only.values) == ["y"]
    ops = pyopnb.trace(parsed("a = demo.Count(x)\ny = Neg(a)"), X, on="reference")
    assert (
        ops["a"].tolist() == [1, 1, 1]
        and ops.versions["demo::Count"].number == 1
        and counter == [1]
    )


def test_another_provider_runs_it_and_its_isolated_nodes(chain, monkeypatch):
    """Azure's is in each build, and leaves the nodes to the CPU."""
    usual = pyopnb.trace(chain, X)
    providers = ["AzureExecutionProvider", "CPUExecutionProvider"]
    trace = pyopnb.trace(chain, X, providers=providers)
    assert " with AzureExecutionProvider, all" in trace.runtime and trace.providers[0][1] == {}
    assert [name for name, _ in trace.providers] == providers and usual.providers == []
    changed = dict(usual.items())
    changed["y"] = changed["y"] + 1
    made = []
    session = pyopnb.Session.__init__
    monkeypatch.setattr(
        pyopnb.Session,
        "__init__",
        lambda self, *args, **more: made.append(args[2:]) or session(self, *args, **more),
    )
    diff = pyopnb.diff(changed, trace)
    assert not diff.ok and (trace.providers,) in made


def test_providers_that_are_not_there_are_refused(chain, monkeypatch):
    cuda = ["CUDAExecutionProvider"]
    with pytest.raises(
        pyopnb.errors.InputError, match=r"a list of names among .*, got str 'CUDAExec"
    ):
        pyopnb.trace(chain, X, providers=cuda)
    with pytest.raises(pyopnb.errors.InputError, match="providers: expected none on another"):
        pyopnb.trace(chain, X, providers=["CPUExecutionProvider"], on="reference")
    # A build for CUDA on a machine without: ONNX Runtime would run it on the CPU.
    monkeypatch.setattr(
        onnxruntime, "get_available_providers", lambda: [*cuda, "CPUExecutionProvider"]
    )
    with (
        pytest.warns(UserWarning, match="not in available"),
        pytest.raises(
            pyopnb.errors.InputError, match="CUDAExecutionProvider, which ONNX Runtime left"
        ),
    ):
        pyopnb.trace(chain, X, providers=cuda)


def test_a_model_in_the_format_of_the_runtime_is_refused(chain, tmp_path):
    options = onnxruntime.SessionOptions()
    options.optimized_model_filepath = str(tmp_path / "m.ort")
    options.add_session_config_entry("session.save_model_format", "ORT")
    onnxruntime.InferenceSession(
        chain.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    with pytest.raises(pyopnb.errors.ModelError, match="the ONNX Runtime format"):
        pyopnb.Session(tmp_path / "m.ort").trace(x=X)


def test_an_optimizer_that_would_drop_a_recorded_tensor_is_left_out() -> None:
    weights = {
        name: np.full(5, value, np.float32)
        for name, value in {"s": 2, "b": 1, "m": 0, "v": 1}.items()
    }
    model = pyopnb.model(
        [
            pyopnb.node("MatMul", "x w", "a"),
            pyopnb.node("Reshape", "a shape", "r"),
            pyopnb.node("Transpose", "r", "t", perm=[0, 1, 2, 3]),
            pyopnb.node("BatchNormalization", "t s b m v", "n"),
            pyopnb.node("Identity", "n", "y"),
        ],
        {"x": "float32[1,5]"},
        {"y": "float32[1,5,1,1]"},
        initializers={**weights, "w": np.eye(5, dtype=np.float32), "shape": np.array([1, 5, 1, 1])},
    )  # fmt: skip
    x = np.float32([[1, 2, 3, 4, 5]])
    trace = pyopnb.trace(model, x=x, only="t")
    fusion = "MatMul_BatchNormalization_Fusion, which would drop output t"
    assert trace.left_out == fusion and f"\nrecorded without {fusion}\n" in str(trace)
    np.testing.assert_array_equal(trace["t"].ravel(), x.ravel())
    assert not pyopnb.trace(model, x=x).left_out
    cut = pyopnb.extract(pyopnb.trace(model, x=x), None, ["t", "y"])
    with pytest.warns(UserWarning, match=f"^this session runs without {fusion}$"):
        assert pyopnb.run(*cut)["t"].shape == (1, 5, 1, 1)
    other = onnx.ModelProto()
    other.CopyFrom(model)
    next(t for t in other.graph.initializer if t.name == "s").CopyFrom(
        onnx.numpy_helper.from_array(np.full(5, 3, np.float32), "s")
    )
    # All tensors fit into the memory and are recorded at once, which leaves nothing to fuse.
    found = pyopnb.first_divergence(model, other, {"x": x})
    assert found.origin.name == "n (BatchNormalization)"


def test_tensors_of_nodes_that_run_only_where_they_are_optimized_away() -> None:
    text = """<ir_version: 10, opset_import: ["": 21]> g (float[2] x) => (float[2] y)
        <int4[2] w = {1, -2}, float s = {%s}>
        { q = Identity(w)  d = DequantizeLinear(q, s)  y = Add(x, d) }"""
    model = pyopnb.parse(text % 0.5)
    x = np.float32([1, 2])
    for level in ("all", "summaries"):
        trace = pyopnb.trace(model, x=x, level=level)
        assert list(trace.summaries) == ["x", "q", "d", "y"]
        np.testing.assert_array_equal(trace["y"], np.float32([1.5, 1]))
    assert pyopnb.trace(model, x=x)["q"].astype(int).tolist() == [1, -2]
    assert list(pyopnb.trace(model, x=x, only="q")) == ["x", "q", "y"]
    found = pyopnb.first_divergence(model, pyopnb.parse(text % 2.0), {"x": x})
    assert "d (DequantizeLinear)" in str(found).splitlines()[1]


def test_constants_of_few_bits_keep_the_fusions_of_a_plain_run() -> None:
    model = pyopnb.parse("""<ir_version: 10, opset_import: ["": 21]>
        g (float[1,2] x) => (float[1,2] y, float[2,2] d)
        <int4[2,2] w = {1, 2, 3, -4}, float s = {0.5}>
        { q = Identity(w)  d = DequantizeLinear(q, s)  m = Neg(d)  y = MatMul(x, m) }""")
    x = np.float32([[1, 2]])
    plain = onnxruntime.InferenceSession(model.SerializeToString()).run(["y"], {"x": x})[0]
    trace = pyopnb.trace(model, x=x)
    assert list(trace.summaries) == ["x", "q", "d", "m", "y"] and trace.exposure.same
    np.testing.assert_array_equal(trace["y"], plain)
    np.testing.assert_array_equal(trace["d"], np.float32([[0.5, 1], [1.5, -2]]))
    fused = pyopnb.parse("""<ir_version: 10, opset_import: ["": 21]> g (float[1,2] x) => (float[1,2] y)
        <int4[2,2] w = {1, 2, 3, -4}, float s = {0.5}>
        { q = Identity(w)  d = DequantizeLinear(q, s)  y = MatMul(x, d) }""")
    trace, plain = pyopnb.trace(fused, x=x), pyopnb.run(fused, x=x)
    np.testing.assert_array_equal(trace["y"], plain["y"])


# ---- runs that fail ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("options", [{}, {"check": False}, {"optimized": False}, {"only": "j"}])
def test_a_run_that_fails_leaves_what_was_computed_before(options):
    body = "a = Abs(x)  j = Neg(a)  one = Constant<value_ints = [1, 7]>()  k = Reshape(j, one)  y = Abs(k)"
    model = parsed(body, gives="float[M,L] y")
    with pytest.raises(Exception, match="ONNXRuntimeError") as raised:
        pyopnb.Session(model).trace(X, **options)
    trace = raised.value.trace
    np.testing.assert_array_equal(trace["j"], -np.abs(X))
    assert list(trace.feeds) == ["x"] and not {"k", "y"} & set(trace)
    assert ("a" in trace) == (options.get("only") is None)
    assert "node of output 'k' (::Reshape)" in repr(trace) and "k" in raised.value.__notes__[0]
    assert "failed" in repr(trace) and trace._repr_html_()


@pytest.mark.parametrize("options", [{}, {"only": "j"}, {"level": "summaries"}])
def test_a_run_on_the_reference_that_fails_leaves_what_was_computed_before(options):
    body = (
        "a = Abs(x)  j = Neg(a)  s = Constant<value_ints = [1, 7]>()  k = Reshape(j, s)  y = Abs(k)"
    )
    model = parsed(body, gives="float[M,L] y")
    with pytest.raises(pyopnb.errors.ModelError, match="cannot reshape") as raised:
        pyopnb.trace(model, X, on="reference", **options)
    trace = raised.value.trace
    if "level" not in options:
        np.testing.assert_array_equal(trace["j"], -np.abs(X))
    assert not {"k", "y"} & set(trace) and "node of output 'k' (::Reshape)" in trace.failed
    assert trace._repr_html_()


def test_an_op_that_raises_leaves_what_was_computed_before(counter):
    @pyopnb.pyop("demo::Raises")
    class Raises:
        def compute(self, x):
            raise RuntimeError("no")

    model = parsed("a = Abs(x)  c = demo.Count(a)  b = demo.Raises(c)  y = Neg(b)")
    session = pyopnb.Session(model)
    with pytest.raises(RuntimeError, match="no") as raised:
        session.trace(x=X)
    # The run that is compared counts on the session's own instance, and the others on copies.
    assert raised.value.trace["c"].tolist() == [2, 2, 2]
    with pytest.raises(RuntimeError, match="no") as raised:
        session(X)
    assert counter == [1, 2, 2] and not hasattr(raised.value, "trace")
    with pytest.raises(RuntimeError, match="no") as raised:
        pyopnb.trace(model, X, on="reference")
    assert raised.value.trace["c"].tolist() == [1, 1, 1] and "b" not in raised.value.trace


@pytest.mark.parametrize("level", ["all", "summaries"])
def test_a_failure_at_the_first_node_or_of_a_feed_leaves_no_trace(level):
    model = parsed("one = Constant<value_ints = [7]>()  y = Reshape(x, one)", gives="float[M] y")
    for feed, options in ((X, {}), (X.astype(int), {}), (X, {"only": "nothing"})):
        with pytest.raises(Exception, match="ONNXRuntimeError|feed x|nothing") as raised:
            pyopnb.Session(model).trace(feed, level=level, **options)
        assert "a" not in getattr(raised.value, "trace", {})
