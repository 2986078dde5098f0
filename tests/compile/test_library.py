"""Libraries of ops in C++: in Python with onnxruntime and NumPy alone, and in a program in C++ without Python."""

import subprocess
import sys
import threading
from pathlib import Path
from textwrap import dedent

import numpy as np
import onnx
import onnxruntime
import pytest
from cpp_sources import GROUP_NORM, PARTS, SOFT_CLIP
from registering import Registering
from systems import needs_compiler, needs_other_programs

import pyopnb
from pyopnb.compile.compiler import find_compiler

pytestmark = [pytest.mark.one_python, needs_compiler]

GRAPH = """
(float[N,6] x, float[6] scale, float[6] bias, double[M] d) => (float[N,6] y, float[N,6] g, double[M] p) {
    y = demo.SoftClip<limit = 2.0>(x)
    g = other.GroupNorm<num_groups = 2>(x, scale, bias)
    p = demo.Parts<axes = [7], mode = "no", by = 3.0>(d, d)
}
"""


OPS = {"demo::SoftClip": SOFT_CLIP, "other::GroupNorm": GROUP_NORM, "demo::Parts": PARTS}


def define_ops():
    for name, source in OPS.items():
        pyopnb.cpp_op(source, name)


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    define_ops()
    folder = tmp_path_factory.mktemp("library")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        path = pyopnb.write_library(list(OPS), "libops.so")
    # A loader does not look for a bare name in the current folder.
    assert path == folder / "libops.so" and path.exists()
    return path


def test_plain_onnxruntime_runs_it_without_pyopnb(library, tmp_path):
    define_ops()
    rng = np.random.default_rng(0)
    feeds = {"x": rng.standard_normal((4, 6)).astype(np.float32), "d": np.arange(3.0)}
    feeds |= {name: rng.standard_normal(6).astype(np.float32) for name in ("scale", "bias")}
    model = pyopnb.parse(GRAPH)
    onnx.save(model, tmp_path / "model.onnx")
    onnx.save(
        pyopnb.parse(GRAPH.replace("num_groups = 2", "num_groups = 4")), tmp_path / "wrong.onnx"
    )
    np.savez(tmp_path / "feeds.npz", **feeds)
    script = f"""
        import sys
        for name in ("pyopnb", "onnx"):
            sys.modules[name] = None
        import numpy as np, onnxruntime
        def session(name):
            options = onnxruntime.SessionOptions()
            options.register_custom_ops_library({str(library)!r})
            return onnxruntime.InferenceSession({str(tmp_path)!r} + "/" + name, options)

        feeds = dict(np.load({str(tmp_path / "feeds.npz")!r}))
        np.savez({str(tmp_path / "results.npz")!r}, *session("model.onnx").run(None, feeds))
        try:
            session("wrong.onnx").run(None, feeds)
        except Exception as error:
            print(error)
    """
    done = subprocess.run(
        [sys.executable, "-c", dedent(script)], capture_output=True, text=True, cwd=tmp_path
    )
    assert done.returncode == 0, done.stderr
    assert "other::GroupNorm: 6 channels are no multiple of num_groups" in done.stdout
    want = pyopnb.run(model, feeds)
    for name, got in zip(("y", "g", "p"), np.load(tmp_path / "results.npz").values(), strict=True):
        np.testing.assert_allclose(got, want[name], rtol=1e-6)


# The slots of OrtApi follow the public header; ours declares what the bridge uses, which no
# session is made with.
PROGRAM = r"""
#include <dlfcn.h>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <vector>

using Status = void;
static const void* const* api;

template <typename... Parameters>
static Status* call(int slot, Parameters... parameters) {
  return reinterpret_cast<Status* (*)(Parameters...)>(const_cast<void*>(api[slot]))(parameters...);
}

static void check(Status* status) {
  if (!status) return;
  std::fprintf(stderr, "%s\n", reinterpret_cast<const char* (*)(Status*)>(const_cast<void*>(api[2]))(status));
  std::exit(2);
}

int main(int, char** argument) {  // onnxruntime, library, model
  void* runtime = dlopen(argument[1], RTLD_NOW);
  if (!runtime) return std::fprintf(stderr, "%s\n", dlerror()), 3;
  struct Base {
    const void* const* (*GetApi)(uint32_t);
  };
  api = reinterpret_cast<Base* (*)()>(dlsym(runtime, "OrtGetApiBase"))()->GetApi(25);
  void *env, *options, *session, *memory, *x, *y = nullptr, *data;
  check(call(3, 2, "program", &env));
  check(call(10, &options));
  check(call(228, options, static_cast<const char*>(argument[2])));
  check(call(7, env, static_cast<const char*>(argument[3]), options, &session));
  check(call(69, 1, 0, &memory));
  std::vector<float> numbers{-6, -5, -4, -3, -2, -1, 0, 1, 2, 3, 4, 5};
  const int64_t shape[] = {2, 6};
  check(call(49, memory, static_cast<void*>(numbers.data()), sizeof(float) * numbers.size(), shape, size_t{2}, 1, &x));
  const char *inputs[] = {"x"}, *outputs[] = {"y"};
  check(call(9, session, static_cast<void*>(nullptr), inputs, &x, size_t{1}, outputs, size_t{1}, &y));
  check(call(51, y, &data));
  for (size_t i = 0; i < numbers.size(); ++i) std::printf("%.9g\n", static_cast<float*>(data)[i]);
  call(96, y), call(96, x), call(94, memory), call(95, session), call(100, options), call(92, env);
}
"""


@pytest.mark.skipif(sys.platform != "linux", reason="the program opens libraries as Linux does")
@needs_other_programs
def test_a_program_without_python_runs_it(library, tmp_path):
    define_ops()
    model = pyopnb.parse(
        "(float[N,6] x) => (float[N,6] y) { a = Neg(x)  y = demo.SoftClip<limit = 2.0>(a) }"
    )
    onnx.save(model, tmp_path / "model.onnx")
    raises = pyopnb.parse("""(float[N,6] x) => (float[N,6] y) <float[1] s = {1}>
        { y = other.GroupNorm<num_groups = 4>(x, s, s) }""")
    onnx.save(raises, tmp_path / "raises.onnx")
    (tmp_path / "program.cpp").write_text(PROGRAM, encoding="utf-8")
    subprocess.run(
        [*find_compiler(), "-std=c++17", "program.cpp", "-o", "program", "-ldl"],
        cwd=tmp_path,
        check=True,
    )
    (runtime,) = (Path(onnxruntime.__file__).parent / "capi").glob("libonnxruntime.so.*")

    def run(file):
        command = [tmp_path / "program", runtime, library, tmp_path / file]
        return subprocess.run(command, capture_output=True, text=True, env={}, timeout=60)

    done = run("model.onnx")
    assert done.returncode == 0, done.stderr
    x = np.arange(-6, 6, dtype=np.float32).reshape(2, 6)
    np.testing.assert_allclose(
        np.float32(done.stdout.split()).reshape(2, 6), pyopnb.run(model, x=x)["y"], rtol=1e-6
    )
    failed = run("raises.onnx")
    assert failed.returncode == 2 and "6 channels are no multiple of num_groups" in failed.stderr


def test_op_in_python_is_refused(tmp_path):
    @pyopnb.pyop("demo::Same")
    class Same:
        def compute(self, x):
            return x

    with pytest.raises(
        pyopnb.errors.DefinitionError,
        match="demo::Same: expected an op in C\\+\\+, got version 1, which is a class",
    ):
        pyopnb.write_library(Same, tmp_path / "lib.so")
    assert not list(tmp_path.iterdir())


def test_folder_is_refused_as_a_path(tmp_path):
    expected = 'write_library: expected a file.s path, got the folder .*Try: "libops.so"'
    with pytest.raises(pyopnb.errors.InputError, match=expected):
        pyopnb.write_library("demo::SoftClip", tmp_path)


def test_a_folder_that_is_not_there_is_said_before_anything_is_compiled(tmp_path):
    pyopnb.cpp_op(SOFT_CLIP, "demo::SoftClip")
    with pytest.raises(pyopnb.errors.ModelError, match="got no such folder. Try: os.makedirs"):
        pyopnb.write_library("demo::SoftClip", tmp_path / "none" / "libops.so")


def bare_session(library):
    options = onnxruntime.SessionOptions()
    options.register_custom_ops_library(str(library))
    model = pyopnb.parse("(float[N] x) => (float[N] y) { y = demo.SoftClip<limit = 2.0>(x) }")
    return onnxruntime.InferenceSession(model.SerializeToString(), options)


def test_a_library_that_a_session_has_loaded_is_not_replaced(tmp_path):
    """Loaders would give a new session the old functions, and Windows keeps the file."""
    pyopnb.cpp_op(SOFT_CLIP, "demo::SoftClip")
    session = bare_session(pyopnb.write_library("demo::SoftClip", tmp_path / "libops.so"))
    x = np.ones(2, np.float32)
    before = session.run(None, {"x": x})[0]
    pyopnb.cpp_op(SOFT_CLIP.replace("limit * std::tanh", "3 * limit * std::tanh"), "demo::SoftClip")
    with pytest.raises(
        pyopnb.errors.ModelError,
        match=r"libops.so.*: expected a library that can be replaced, got one that a session has "
        "loaded, with its old functions. Try: another name",
    ):
        pyopnb.write_library("demo::SoftClip", tmp_path / "libops.so")
    assert [path.name for path in tmp_path.iterdir()] == ["libops.so"]
    again = bare_session(pyopnb.write_library("demo::SoftClip", tmp_path / "libnew.so"))
    np.testing.assert_allclose(again.run(None, {"x": x})[0], 3 * before, rtol=1e-6)


def test_a_library_of_no_op_is_refused(tmp_path: Path) -> None:
    with pytest.raises(pyopnb.errors.InputError, match="expected ops in C.., got none"):
        pyopnb.write_library([], tmp_path / "libops.so")
    with pytest.raises(pyopnb.errors.InputError, match=r"write_library, path: .*got list"):
        pyopnb.write_library("libops.so", ["demo::SoftClip"])
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(pyopnb.errors.UnknownName, match="got an object of ModelProto"):
        pyopnb.write_library(onnx.ModelProto(), tmp_path / "libops.so")


@pytest.fixture
def two_ops(tmp_path):
    pyopnb.cpp_op(SOFT_CLIP, "twice::First")
    pyopnb.cpp_op(SOFT_CLIP, "twice::Second")
    return pyopnb.write_library(["twice::First", "twice::Second"], tmp_path / "libtwice.so")


def test_a_library_whose_registration_failed_offers_all_of_its_ops_the_next_time(two_ops):
    runtime = Registering(two_ops)
    runtime.is_full = lambda: runtime.ops.total() == 1
    assert not runtime(7)
    assert not runtime.offered
    runtime.is_full = lambda: False
    assert runtime(8)
    assert runtime(9)
    assert runtime.offered == [(8, 2, 2), (9, 2, 2)]


def test_threads_that_register_a_library_at_once_get_all_of_its_ops(two_ops):
    runtime = Registering(two_ops)
    is_adding, is_offered = threading.Event(), threading.Event()

    def wait():
        is_adding.set()
        is_offered.wait(0.2)
        return False

    runtime.is_full = wait
    first = threading.Thread(target=runtime, args=[7])
    first.start()
    is_adding.wait(60)
    assert runtime(8)
    is_offered.set()
    first.join()
    assert sorted(runtime.offered) == [(7, 1, 2), (8, 1, 2)]
