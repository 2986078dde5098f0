"""Models as sessions take them: paths, bytes, protos, external data, over 2 GB, options of every kind."""

from __future__ import annotations

import os
import warnings
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper
from systems import needs_links

import pyopnb

X = np.float32([-1, 2])
CPU = ["CPUExecutionProvider"]


@pytest.fixture(autouse=True)
def plus_one():
    @pyopnb.pyop("t::PlusOne")
    class PlusOne:
        def compute(self, x):
            return x + np.float32(1)


def plain():
    return pyopnb.model(
        [pyopnb.node("t::PlusOne", "x", "y", name="n")], {"x": "float32[N]"}, {"y": "float32[N]"}
    )


def test_proto_bytes_and_path_give_the_same(tmp_path):
    made = plain()
    before = made.SerializeToString(deterministic=True)
    path = tmp_path / "é model.onnx"
    path.write_bytes(before)
    for given in (made, before, bytearray(before), memoryview(before), path, str(path)):
        assert pyopnb.Session(given)(X)["y"].tolist() == [0, 3]
    assert made.SerializeToString(deterministic=True) == before
    assert path.read_bytes() == before


def weighted(location, tensor):
    """x * w, where w lies in another file."""
    outside = numpy_helper.from_array(tensor, "w")
    outside.ClearField("raw_data")
    outside.data_location = TensorProto.EXTERNAL
    for key, entry in (("location", location), ("offset", "0"), ("length", str(tensor.nbytes))):
        outside.external_data.add(key=key, value=entry)
    nodes = [pyopnb.node("t::PlusOne", "x", "m"), pyopnb.node("Mul", "m w", "y")]
    return pyopnb.model(
        nodes, {"x": "float32[N]"}, {"y": "float32[N]"}, initializers={"w": outside}
    )


@pytest.fixture
def folder(tmp_path):
    inside = tmp_path / "inside"
    inside.mkdir()
    for place in (inside / "w.bin", tmp_path / "outside.bin"):
        place.write_bytes(np.float32([10, 20]).tobytes())
    return inside


W = np.float32([10, 20])
WANT = [0, 60]


def test_external_data_beside_a_path(folder, monkeypatch):
    (folder / "m.onnx").write_bytes(weighted("w.bin", W).SerializeToString())
    assert pyopnb.Session(folder / "m.onnx")(X)["y"].tolist() == WANT
    monkeypatch.chdir(folder)
    assert pyopnb.Session("m.onnx")(X)["y"].tolist() == WANT
    monkeypatch.chdir(folder.parent)
    assert pyopnb.Session("inside/m.onnx")(X)["y"].tolist() == WANT


@pytest.mark.parametrize(
    "form", [lambda m: m, lambda m: m.SerializeToString()], ids=["proto", "bytes"]
)
def test_external_data_in_memory_needs_its_folder(folder, form, monkeypatch):
    monkeypatch.chdir(folder)  # the current directory gives no permission
    with pytest.raises(pyopnb.errors.ModelError, match=r"initializer w.*base_dir"):
        pyopnb.Session(form(weighted("w.bin", W)))
    assert pyopnb.Session(form(weighted("w.bin", W)), base_dir=folder)(X)["y"].tolist() == WANT


def test_external_data_is_there_again_when_a_session_is_built_anew(folder):
    class Other:
        def compute(self, x) -> "float32[2]":
            return x + np.float32(2)

    session = pyopnb.Session(weighted("w.bin", W), base_dir=folder)
    session(X)
    pyopnb.registry.define(Other, "t::PlusOne")
    with pytest.warns(UserWarning, match="session rebuilt"):
        assert session(X)["y"].tolist() == [10, 80]


@pytest.mark.parametrize(
    ("stored", "advice"),
    [(b"1234567", "copy the file again"), (b"version https://git-lfs", "git lfs pull")],
)
def test_external_data_that_is_cut_off_is_named(folder, stored, advice):
    (folder / "m.onnx").write_bytes(weighted("w.bin", np.arange(9.0)).SerializeToString())
    (folder / "w.bin").write_bytes(stored)
    words = f"initializer w: expected 72 bytes in w.bin, got {len(stored)}. Try: {advice}"
    path = folder / "m.onnx"
    for use in (
        lambda: pyopnb.Session(path),
        lambda: pyopnb.trace(path, X),
        lambda: pyopnb.first_divergence(path, path, {"x": X}),
        lambda: pyopnb.diff(path, path),
    ):
        with pytest.raises(pyopnb.errors.ModelError, match=words):
            use()


@pytest.mark.parametrize(
    "location",
    [
        *("../outside.bin", "../inside/../outside.bin", "sub/../../outside.bin", "{absolute}"),
        pytest.param("link.bin", marks=needs_links),
        *("hard.bin", "nothing.bin", "", ".", "..", "a\0b", "/etc/hostname"),
    ],
)
def test_external_data_outside_its_folder_is_refused(folder, location):
    outside = folder.parent / "outside.bin"
    if location == "link.bin":
        (folder / "link.bin").symlink_to(outside)
    if location == "hard.bin":
        os.link(outside, folder / "hard.bin")
    made = weighted(location.replace("{absolute}", str(outside)), W)
    (folder / "m.onnx").write_bytes(made.SerializeToString())
    for make in (
        lambda: pyopnb.Session(folder / "m.onnx"),
        lambda: pyopnb.Session(made, base_dir=folder),
    ):
        with pytest.raises(pyopnb.errors.ModelError, match="initializer w"):
            make()


def test_options_that_had_a_folder_do_not_lend_it_to_the_next_model(folder, tmp_path):
    other = tmp_path / "other"
    other.mkdir()
    (other / "w.bin").write_bytes(np.float32([1, 1]).tobytes())
    options = onnxruntime.SessionOptions()
    assert pyopnb.Session(weighted("w.bin", W), options, base_dir=folder)(X)["y"].tolist() == WANT
    assert pyopnb.Session(weighted("w.bin", W), options, base_dir=other)(X)["y"].tolist() == [0, 3]


BIG = 2**31 + 2**26  # bytes: more than one protobuf message holds


@pytest.mark.one_python
def test_a_model_over_2_gb_by_its_path(tmp_path):
    rows = BIG // 4096 // 4
    with (tmp_path / "big.bin").open("wb") as data:
        data.truncate(rows * 4096 * 4)  # a hole: it costs no disk
        data.seek(4096 * 4)
        data.write(np.float32([5]).tobytes())
    outside = TensorProto(
        name="w", data_type=TensorProto.FLOAT, dims=[rows, 4096], data_location=TensorProto.EXTERNAL
    )
    outside.external_data.add(key="location", value="big.bin")
    nodes = [pyopnb.node("Gather", "w i", "row"), pyopnb.node("t::PlusOne", "row", "y")]
    made = pyopnb.model(nodes, {"i": "int64[]"}, {"y": "float32[...]"}, initializers={"w": outside})
    (tmp_path / "m.onnx").write_bytes(made.SerializeToString())
    got = pyopnb.Session(tmp_path / "m.onnx")(np.array(1))["y"]
    assert (got.shape, got[:2].tolist()) == ((4096,), [6, 1])


@pytest.mark.everywhere  # ten seconds and several GB of memory; the one above takes neither
def test_a_model_over_2_gb_in_memory():
    half = BIG // 2
    made = pyopnb.model(
        [
            pyopnb.node("Gather", "a i", "ga"),
            pyopnb.node("Gather", "b i", "gb"),
            pyopnb.node("Add", "ga gb", "s"),
            pyopnb.node("Cast", "s", "f", to=TensorProto.FLOAT),
            pyopnb.node("t::PlusOne", "f", "y"),
        ],
        {"i": "int64[1]"},
        {"y": "float32[1]"},
        initializers={"a": np.int32([0]), "b": np.int32([0])},
    )
    for tensor in made.graph.initializer:
        tensor.dims[0] = half // 4
        tensor.raw_data = np.int32([0, 3]).tobytes() + bytes(half - 8)
    session = pyopnb.Session(made)
    assert session(np.array([1]))["y"].tolist() == [7]
    assert session(np.array([2]))["y"].tolist() == [1]
    assert len(made.graph.initializer[0].raw_data) == half


def test_io_binding():
    session = pyopnb.Session(plain())
    binding = session.io_binding()
    x, y = onnxruntime.OrtValue.ortvalue_from_numpy(X), np.zeros(2, np.float32)
    binding.bind_ortvalue_input("x", x)
    binding.bind_output("y", "cpu", 0, np.float32, [2], y.ctypes.data)
    for _ in range(2):
        session.run_with_iobinding(binding)
        assert y.tolist() == [0, 3]
        y[:] = 0


@pytest.mark.parametrize("way", ["redefined", "providers", "other"])
def test_a_binding_of_another_runtime_session_is_refused(way):
    def define(hint):
        def compute(self, x):
            return x.astype(hint[:7])

        compute.__annotations__["return"] = hint
        pyopnb.registry.define(type("Bound", (), {"compute": compute}), "demo::Bound")

    define("float32[N]")
    model = pyopnb.model(pyopnb.node("demo::Bound", "x", "y"), {"x": "float32[N]"}, "y")
    session = pyopnb.Session(model)
    binding = session.io_binding()
    binding.bind_cpu_input("x", X)
    binding.bind_output("y")
    session.run_with_iobinding(binding)
    if way == "redefined":
        define("float64[N]")
    elif way == "providers":
        session.set_providers(["CPUExecutionProvider"])
    else:
        session = pyopnb.Session(model)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", pyopnb.errors.SessionRebuilt)
        with pytest.raises(pyopnb.errors.InputError, match=r"binding of the session as it is now"):
            session.run_with_iobinding(binding)
    binding.clear_binding_inputs()  # what it binds is still there
    again = session.io_binding()
    again.bind_cpu_input("x", X)
    again.bind_output("y")
    session.run_with_iobinding(again)
    assert again.copy_outputs_to_cpu()[0].tolist() == X.tolist()
    del session
    assert again.copy_outputs_to_cpu()[0].tolist() == X.tolist()


@pytest.mark.parametrize("offset", [0, 1, -1])
def test_an_output_that_is_bound_over_an_input_is_refused(offset):
    """The second op would read what the first has written."""

    @pyopnb.pyop("demo::Next")
    class Next:
        def compute(self, x):
            return x + 1

    model = pyopnb.model(
        [pyopnb.node("demo::Next", "x", "y"), pyopnb.node("demo::Next", "x", "z")],
        {"x": "float32[4]"},
        ["y", "z"],
    )
    session = pyopnb.Session(model)
    memory = np.arange(8, dtype=np.float32)
    x, y, z = memory[2:6], memory[2 + offset : 6 + offset], np.zeros(4, np.float32)
    binding = session.io_binding()
    binding.bind_input("x", "cpu", 0, np.float32, [4], x.ctypes.data)
    binding.bind_output("y", "cpu", 0, np.float32, [4], y.ctypes.data)
    binding.bind_output("z", "cpu", 0, np.float32, [4], z.ctypes.data)
    for _ in range(3):
        with pytest.raises(
            pyopnb.errors.InputError,
            match=r"output 0: expected memory that no input uses, got .* input x\. Try: bind the output",
        ):
            session.run_with_iobinding(binding)
    assert memory.tolist() == list(range(8))
    assert z.tolist() in (
        [0] * 4,
        [3, 4, 5, 6],
    )  # ONNX Runtime decides which of the two runs first


def test_an_output_that_is_bound_beside_an_input():
    session = pyopnb.Session(plain())
    memory = np.float32([-1, 3, 0, 0])
    binding = session.io_binding()
    binding.bind_input("x", "cpu", 0, np.float32, [2], memory.ctypes.data)
    binding.bind_output("y", "cpu", 0, np.float32, [2], memory[2:].ctypes.data)
    session.run_with_iobinding(binding)
    assert memory.tolist() == [-1, 3, 0, 4]


def test_run_with_ort_values():
    (y,) = pyopnb.Session(plain()).run_with_ort_values(
        ["y"], {"x": onnxruntime.OrtValue.ortvalue_from_numpy(X)}
    )
    assert y.numpy().tolist() == [0, 3]


def test_run_options_are_passed_on():
    options = onnxruntime.RunOptions()
    session = pyopnb.Session(plain())
    assert session.run(None, {"x": X}, options)[0].tolist() == [0, 3]
    options.terminate = True
    with pytest.raises(Exception, match="terminate"):
        session.run(None, {"x": X}, options)


def standing_in(name, compute):
    pyopnb.registry.define(type("StandIn", (), {"compute": compute}), name)


@pytest.mark.parametrize("level", ["ORT_DISABLE_ALL", "ORT_ENABLE_ALL"])
def test_relu_after_conv_is_not_fused_away(level):
    calls: list[int] = []

    def compute(self, x):
        calls.append(1)
        return np.maximum(x, 0) + np.float32(100)

    standing_in("::Relu", compute)
    made = pyopnb.model(
        [pyopnb.node("Conv", "x w", "c"), pyopnb.node("Relu", "c", "y")],
        {"x": "float32[1,1,1,3]"},
        {"y": "float32[1,1,1,3]"},
        initializers={"w": np.float32([[[[2]]]])},
    )
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = getattr(onnxruntime.GraphOptimizationLevel, level)
    got = pyopnb.Session(made, options)(np.float32([[[[-1, 0, 1]]]]))["y"]
    assert got.ravel().tolist() == [100, 100, 102]
    assert calls == [1]


def test_another_librarys_op_of_the_same_domain_in_the_same_options():
    """Another library owns domain t in these options: a bare registration simulates it."""
    options = onnxruntime.SessionOptions()
    options.register_custom_ops_library(pyopnb.get_library_path())
    standing_in("t::Second", lambda self, x: -x)
    made = pyopnb.model(
        [pyopnb.node("t::PlusOne", "x", "m"), pyopnb.node("t::Second", "m", "y")],
        {"x": "float32[N]"},
        {"y": "float32[N]"},
    )
    assert pyopnb.Session(made, options)(X)["y"].tolist() == [0, -3]


def test_a_model_that_the_runtime_saved_loads_again(tmp_path):
    inner = pyopnb.model([pyopnb.node("Neg", "u", "v")], {"u": "float32[N]"}, {"v": "float32[N]"})

    class Full:
        def __init__(self, body: onnx.ModelProto, limit: float = 1.0):
            self.session, self.limit = pyopnb.Session(body), np.float32(limit)

        def compute(self, x) -> "float32[...]":
            return self.session(x)["v"] + self.limit

    pyopnb.registry.define(Full, "t::Full")
    node = pyopnb.node("t::Full", "x", "y", name="kept", limit=0.5)
    node.attribute.append(helper.make_attribute("body", inner.graph))
    options = onnxruntime.SessionOptions()
    options.optimized_model_filepath = str(tmp_path / "saved.onnx")
    first = pyopnb.Session(pyopnb.model([node], {"x": "float32[N]"}, {"y": "float32[N]"}), options)
    again = pyopnb.Session(tmp_path / "saved.onnx")
    assert first(X)["y"].tolist() == again(X)["y"].tolist() == [1.5, -1.5]


def test_a_dimension_of_which_infer_says_nothing_fits_any():
    """ONNX Runtime took it for one of size -1, and refused the Mul."""

    class Op:
        def infer(self, x: Any) -> Any:
            return x.like(shape=(None,) * 4)

        def compute(self, x: Any) -> Any:
            return x

    pyopnb.registry.define(Op, "m::Op")
    nodes = [
        pyopnb.node("m::Op", "x", "a"),
        pyopnb.node("MaxPool", "a", "p", kernel_shape=[1, 1]),
        pyopnb.node("Mul", "p w", "b"),
        pyopnb.node("m::Op", "b", "y"),
    ]
    session = pyopnb.Session(
        pyopnb.model(
            nodes,
            {"x": "float32[1,4,2,2]"},
            "y",
            initializers={"w": np.ones((1, 4, 1, 1), np.float32)},
        )
    )
    assert "y: float32[?,?,?,?]" in repr(session)
    assert session(x=np.ones((1, 4, 2, 2), np.float32))["y"].shape == (1, 4, 2, 2)
