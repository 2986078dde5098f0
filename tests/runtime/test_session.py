"""What a person does with a session besides what the ops in it do: feeds, results, options, formats."""

import copy
import pickle

import numpy as np
import onnxruntime
import pytest

import pyopnb
from pyopnb.errors import InputError

X = np.float32([[1, 2, 3]])


@pytest.fixture
def twice():
    @pyopnb.pyop("session::Twice")
    class Twice:
        def compute(self, x):
            return x * 2

    return pyopnb.model(
        [pyopnb.node("session::Twice", "x", "y", name="twice")], {"x": "float32[N,3]"}, "y"
    )


def test_a_session_is_an_inference_session(twice):
    session = pyopnb.Session(twice)
    assert isinstance(session, onnxruntime.InferenceSession)
    assert [i.name for i in session.get_inputs()] == ["x"]
    np.testing.assert_array_equal(session.run(["y"], {"x": X})[0], X * 2)


def test_feeds_by_place(twice):
    assert pyopnb.Session(twice)(X)["y"].tolist() == [[2, 4, 6]]
    with pytest.raises(TypeError, match=r"feeds: expected 1 input \(x\), got 2\."):
        pyopnb.Session(twice)(X, X)


ADD = pyopnb.parse("(float[N,2] x, float[N,2] k) => (float[M,2] y) { y = Add(x, k) }")
K = np.ones((3, 2), np.float32)
RUNS = {
    "session": lambda *feeds, **named: pyopnb.Session(ADD)(*feeds, **named),
    "run": lambda *feeds, **named: pyopnb.run(ADD, *feeds, **named),
    "trace": lambda *feeds, **named: pyopnb.Session(ADD).trace(*feeds, **named),
    "reference": lambda *feeds, **named: pyopnb.trace(ADD, *feeds, on="reference", **named),
    "profile": lambda *feeds, **named: pyopnb.profile(ADD, *feeds, runs=1, **named),
    "sweep": lambda *feeds, **named: pyopnb.sweep(ADD, *feeds, **named),
    "stability": lambda *feeds, **named: pyopnb.stability(ADD, *feeds, **named),
    "watch": lambda *feeds, **named: pyopnb.watch(pyopnb.Session(ADD), *feeds, **named),
}


@pytest.mark.parametrize("run", RUNS.values(), ids=RUNS)
@pytest.mark.parametrize(
    ("feeds", "named", "text"),
    [
        ((K, K), {"k": K}, "feed k: expected one value, got two"),
        ((K,), {"x": K, "k": K}, r"feed x: expected one value, got two.*only x="),
        (({"x": K, "k": K},), {"k": K}, "feed k: expected one value, got two"),
        (({"x": K}, K), {}, r'one dict of all feeds, got a dict and 1 more feed.*{"x": …, "k": …}'),
        ((K, K, K), {}, r"expected 2 inputs \(x, k\), got 3"),
    ],
)
def test_no_feed_is_dropped(run, feeds, named, text):
    with pytest.raises(pyopnb.errors.InputError, match=text):
        run(*feeds, **named)


@pytest.mark.parametrize("run", [RUNS[name] for name in RUNS if name != "sweep"])
@pytest.mark.parametrize(
    "k", [K[:1], K[:1].tolist(), onnxruntime.OrtValue.ortvalue_from_numpy(K[:1])]
)
def test_feeds_whose_common_dimension_differs_are_refused(run, k):
    text = (
        r"feeds x and k: expected one size for N, as in float32\[N,2\] .* got 3 and 1\..*run\(None"
    )
    for feeds, named in (((K, k), {}), ((), {"x": K, "k": k}), (({"x": K, "k": k},), {})):
        with pytest.raises(pyopnb.errors.InputError, match=text):
            run(*feeds, **named)


def test_the_sizes_of_a_batch_and_of_a_sweep_are_compared():
    with pytest.raises(pyopnb.errors.InputError, match="feeds x and k: expected one size for N"):
        pyopnb.map(ADD, [(K, K), (K, K[:1])])
    with pytest.raises(pyopnb.errors.InputError, match="feeds x and k: expected one size for N"):
        pyopnb.sweep(ADD, x=K, k=[K[:1], K[:2]])


def test_run_itself_takes_the_sizes_that_onnx_runtime_takes():
    (y,) = pyopnb.Session(ADD).run(None, {"x": K, "k": K[:1]})
    assert y.tolist() == (K + 1).tolist()


@pytest.mark.parametrize("dims", ["?,?", "N,M", "2,3"])
def test_sizes_without_a_common_name_are_free(dims):
    model = pyopnb.model(pyopnb.node("Abs", "x", "y"), {"x": f"float32[{dims}]"}, "y")
    assert pyopnb.run(model, np.ones((2, 3), np.float32))["y"].shape == (2, 3)


def test_two_axes_of_one_feed_have_one_size():
    model = pyopnb.model(pyopnb.node("Abs", "x", "y"), {"x": "float32[N,N]"}, "y")
    with pytest.raises(pyopnb.errors.InputError, match="feed x, axes 0 and 1: expected one size"):
        pyopnb.run(model, np.ones((2, 3), np.float32))


@pytest.mark.parametrize(
    ("feeds", "text"),
    [
        (
            {},
            r"Required inputs \(\['x'\]\) are missing from input feed: expected x: float32\[N,3\], got nothing\. Try: x=np\.zeros\(\(1, 3\), np\.float32\)",
        ),
        ({"X": X}, r"feeds: expected x: float32\[N,3\], got X\. Try: write x for X"),
        ({"x": X, "w": X}, r"got x, w\. Try: leave w out"),
        ({"x": X[:, :2]}, r"got float32\[1,2\]\.$"),
        ({"x": [[1.0, 2.0], [3.0]]}, r"feed x: expected float32\[N,3\], got a ragged list"),
        ({"x": np.array(["2020-01-01"], "M8")}, r"got an array of dtype datetime64"),
    ],
)
def test_feeds_that_do_not_fit_are_named(twice, feeds, text):
    with pytest.raises(pyopnb.errors.InputError, match=text):
        pyopnb.Session(twice)(**feeds)


def test_a_refusal_leads_from_the_users_line_to_no_inside(twice):
    session = pyopnb.Session(twice)

    @pyopnb.pyop("session::Needs")
    class Needs:
        def __init__(self, limit: float): ...

        def compute(self, x):
            return x

    lacking = pyopnb.model([pyopnb.node("session::Needs", "x", "y")], {"x": "float32[N]"}, "y")
    for refused in (
        lambda: session(X.astype(int)),
        lambda: pyopnb.Session("nowhere.onnx"),
        lambda: pyopnb.Session(lacking),
    ):
        with pytest.raises(pyopnb.PyopError) as caught:
            refused()
        inside = [
            frame
            for frame in caught.traceback
            if "pyopnb" in str(frame.path) and "tests" not in str(frame.path)
        ]
        assert {frame.name for frame in inside} <= {
            "__call__",
            "wrapper",
        }  # "wrapper" comes from hide_internal_frames
        assert all(frame.frame.f_locals["__tracebackhide__"] for frame in inside)


def test_a_declared_scalar_is_told_from_an_unknown_rank():
    model = pyopnb.model(
        [pyopnb.node("Identity", "x", "y")], {"x": "float32[]"}, {"y": "float32[]"}
    )
    session = pyopnb.Session(model)
    assert repr(session) == "Session (x: float32[]) -> (y: float32[]), ops: none"
    with pytest.raises(pyopnb.errors.InputError, match=r"expected float32\[\], got float32\[1\]"):
        session(x=np.zeros(1, np.float32))


def test_an_ort_value_goes_in_as_it_is(twice):
    value = onnxruntime.OrtValue.ortvalue_from_numpy(X)
    np.testing.assert_array_equal(pyopnb.Session(twice)(x=value)["y"], X * 2)


def test_a_session_goes_where_a_model_goes(twice):
    session = pyopnb.Session(twice)
    assert list(session.to_model_proto().graph.node) == list(twice.graph.node)
    assert not pyopnb.missing(session)
    assert len(pyopnb.lower(session, {"x": X}).functions) == 1


def test_a_runtime_error_of_a_native_node_arrives_as_onnx_runtimes(twice):
    model = pyopnb.model(
        [pyopnb.node("session::Twice", "x", "t"), pyopnb.node("MatMul", "t w", "y")],
        {"x": "float32[N,M]", "w": "float32[K,L]"},
        "y",
    )
    with pytest.raises(onnxruntime.capi.onnxruntime_pybind11_state.Fail):
        pyopnb.run(model, x=X, w=X)


@pytest.mark.parametrize("provider", ["Nonsense", ("CUDAExecutionProvder", {})])
def test_a_provider_that_no_build_has_is_refused(twice, provider):
    available = ", ".join(onnxruntime.get_available_providers())
    with pytest.raises(InputError, match=f"providers: expected a list of names among {available}"):
        pyopnb.Session(twice, providers=[provider, "CPUExecutionProvider"])


def test_an_inner_tensor_is_found_in_a_trace():
    model = pyopnb.parse("(float[N] x) => (float[N] y) { a = Abs(x)  y = Neg(a) }")
    session = pyopnb.Session(model)
    feeds = {"x": np.float32([-1, 2])}
    ortvalues = {"x": onnxruntime.OrtValue.ortvalue_from_numpy(feeds["x"])}
    for run in (
        lambda: session.run(["a"], feeds),
        lambda: session.run(["y", "a"], feeds),
        lambda: session.run_with_ort_values(["a"], ortvalues),
        lambda: session.run_async(["a"], feeds, print, None),
    ):
        with pytest.raises(pyopnb.errors.UnknownName, match="expected y, got a") as raised:
            run()
        assert eval(raised.value.next, {"session": session, "feeds": feeds}).tolist() == [1, 2]
    with pytest.raises(pyopnb.errors.UnknownName, match='got b. Try: "y"'):
        session.run(["b"], feeds)


def test_a_provider_of_another_build_is_left_to_onnxruntime_and_its_warning(twice):
    providers = ["DmlExecutionProvider", "CPUExecutionProvider"]
    with pytest.warns(UserWarning, match="'DmlExecutionProvider' is not in available"):
        session = pyopnb.Session(twice, providers=providers)
    assert session.get_providers() == ["CPUExecutionProvider"]


def test_providers_of_a_session_without_ops_are_those_of_its_copies():
    model = pyopnb.model([pyopnb.node("Neg", "x", "y")], {"x": "float32[N,3]"}, "y")
    session = pyopnb.Session(model, providers=["CPUExecutionProvider"])
    available = onnxruntime.get_available_providers()
    session.set_providers(available)
    assert session.get_providers() == available
    for other in (copy.copy(session), pickle.loads(pickle.dumps(session))):
        assert other.get_providers() == available
        np.testing.assert_array_equal(other(x=X)["y"], -X)
    with pytest.raises(InputError, match=r"got str 'Nonsense'. Try: "):
        session.set_providers(["Nonsense"])
    # What was refused has changed nothing.
    assert session.get_providers() == available
    np.testing.assert_array_equal(session(x=X)["y"], -X)


def test_onnx_runtimes_own_format_passes_through(tmp_path):
    model = pyopnb.model([pyopnb.node("Neg", "x", "y")], {"x": "float32[N]"}, "y")
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.optimized_model_filepath = str(tmp_path / "neg.ort")
    options.add_session_config_entry("session.save_model_format", "ORT")
    onnxruntime.InferenceSession(model.SerializeToString(), options)
    assert pyopnb.run(tmp_path / "neg.ort", x=np.float32([1]))["y"].tolist() == [-1]
    assert pyopnb.run((tmp_path / "neg.ort").read_bytes(), x=np.float32([1]))["y"].tolist() == [-1]
