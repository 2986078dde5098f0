"""Ops in C++: signature, numbers, errors, reload, and the group norm of PyTorch's page on custom operators."""

import os
import shutil
import subprocess
import sys
import threading
from textwrap import dedent

import numpy as np
import onnxruntime
import pytest
from cpp_sources import GROUP_NORM, PARTS, SOFT_CLIP
from systems import needs_compiler, needs_modes

import pyopnb
from pyopnb.compile import compiler
from pyopnb.compile.compiler import cache_directory
from pyopnb.compile.cpp import cpp_class
from pyopnb.compile.signature import read_signature
from pyopnb.engine.ops.op_schema import REQUIRED
from pyopnb.models.module_files import load_module, save_module

# Compilers take long.
pytestmark = [pytest.mark.one_python, needs_compiler]

MODEL = "(float[N,3] x) => (float[N,3] y) { a = Abs(x)  y = demo.SoftClip<limit = 2.0>(a) }"
X = np.linspace(-4, 4, 12, dtype=np.float32).reshape(4, 3)


def test_session_calls_the_function():
    cls = pyopnb.cpp_op(SOFT_CLIP, "demo::SoftClip")
    session = pyopnb.Session(pyopnb.parse(MODEL))
    np.testing.assert_allclose(session(x=X)["y"], 2 * np.tanh(np.abs(X) / 2), rtol=1e-6)
    (kernel,) = session.state.kernels
    assert kernel.at(pyopnb.registry.epoch).compiled
    assert cls.__doc__ == "Clip x smoothly to ±limit."
    np.testing.assert_allclose(cls(limit=2.0).compute(X), 2 * np.tanh(X / 2), rtol=1e-6)


def test_reload_between_python_and_cpp():
    @pyopnb.pyop("demo::SoftClip")
    class SoftClip:
        def __init__(self, limit: float = 1.0):
            self.limit = limit

        def compute(self, x: "float32[...]") -> "float32[...]":
            return np.clip(x, -self.limit, self.limit)

    session = pyopnb.Session(pyopnb.parse(MODEL))
    clipped = session(x=X)["y"].copy()
    pyopnb.cpp_op(SOFT_CLIP, "demo::SoftClip")
    smooth = session(x=X)["y"].copy()
    assert not np.allclose(clipped, smooth)
    first, second = pyopnb.registry.history("demo::SoftClip")
    assert "std::tanh" in second.source and any(
        "std::tanh" in line for line in pyopnb.diff(first, second).source
    )
    pyopnb.registry.rollback("demo::SoftClip")
    np.testing.assert_array_equal(session(x=X)["y"], clipped)
    pyopnb.registry.rollback("demo::SoftClip", second.number)
    np.testing.assert_array_equal(session(x=X)["y"], smooth)


@pytest.mark.parametrize(("channels", "groups"), [(2, 2), (6, 2), (6, 1), (6, 6)])
def test_group_norm_of_the_pytorch_page(channels, groups):
    cls = pyopnb.cpp_op(GROUP_NORM, "demo::GroupNorm")
    rng = np.random.default_rng(0)
    x = rng.standard_normal((3, channels, 4, 5)).astype(np.float32)
    scale, bias = rng.standard_normal((2, channels)).astype(np.float32)
    grouped = x.astype(np.float64).reshape(3, groups, -1)
    normal = (grouped - grouped.mean(2, keepdims=True)) / np.sqrt(
        grouped.var(2, keepdims=True) + 1e-5
    )
    want = normal.reshape(x.shape) * scale[:, None, None] + bias[:, None, None]
    np.testing.assert_allclose(
        pyopnb.call("demo::GroupNorm", x, scale, bias, num_groups=groups),
        want,
        rtol=1e-5,
        atol=1e-6,
    )
    np.testing.assert_allclose(
        cls(num_groups=groups).compute(x, scale, bias), want, rtol=1e-5, atol=1e-6
    )


def test_exceptions_arrive_with_node_op_and_version():
    pyopnb.cpp_op(GROUP_NORM, "demo::GroupNorm")
    x, ones = np.ones((1, 3, 2, 2), np.float32), np.ones(3, np.float32)
    with pytest.raises(ValueError, match="3 channels are no multiple") as caught:
        pyopnb.call("demo::GroupNorm", x, ones, ones, num_groups=2)
    assert "demo::GroupNorm), version 1, with x: float32[" in caught.value.__notes__[0]
    with pytest.raises(IndexError, match="dimension 1 of a tensor of rank 1"):
        pyopnb.call("demo::GroupNorm", ones, ones, ones, num_groups=1)


def test_all_kinds_of_parameters():
    pyopnb.cpp_op(PARTS, "demo::Parts")
    version = pyopnb.registry["demo::Parts"].current
    assert str(version.schema) == (
        "(x, bias = None, *masks: bool[...])<axes: list[int] = [1, -2], mode: str = 'sum', by: float = 10.0, twice: bool = False, "
        "most: int = 16> -> any[...], int64[...]"
    )
    mask = np.array([True])
    for dtype in (np.float32, np.float64, np.int64):
        x = np.arange(3).astype(dtype)
        y, counts = pyopnb.call("demo::Parts", x, None, mask, mask, outputs=2)
        assert (
            y.dtype == dtype and y.tolist() == [0, 10, 20] and counts.tolist() == [[2, 2], [1, 16]]
        )
        y, counts = pyopnb.call(
            "demo::Parts", x, x, outputs=2, axes=[7], mode="no", twice=True, by=2.0
        )
        assert y.tolist() == [0, 5, 10] and counts.tolist() == [[0, 0], [7, 16]]
    one = pyopnb.parse(
        "(int64[N] x) => (int64[N] y) { y = demo.Parts(x) }"
    )  # a node with one output of the two
    assert pyopnb.Session(one)(x=x)["y"].tolist() == [0, 10, 20]
    with pytest.raises(
        pyopnb.errors.ModelError, match="expected float32 or float64 or int64, got float16"
    ):
        pyopnb.call("demo::Parts", np.ones(2, np.float16))
    with pytest.raises(pyopnb.errors.ModelError, match="input bias: expected float32, got float64"):
        pyopnb.call("demo::Parts", np.ones(2, np.float32), np.ones(2))


WRONG = """
void Wrong(Input<float> x, Output<float> y, Output<float> z, int64_t how = 0) {
  if (how == 0) y.allocate(x.shape());
  if (how == 1) y.allocate(x.shape()), y.allocate(x.shape());
  if (how == 2) y.allocate({-1});
  if (how == 3) throw 5;
  if (how == 4) y.allocate({int64_t{1} << 60});
  if (how == 5) throw std::bad_alloc();
}
"""


@pytest.mark.parametrize(
    ("how", "error", "text"),
    [
        (0, pyopnb.errors.ResultError, "output 1: expected float32.*got nothing"),
        (1, RuntimeError, "output 0 was allocated twice"),
        (2, ValueError, "output 0 was allocated with a dimension of -1"),
        (3, RuntimeError, "no std::exception"),
        (4, RuntimeError, "(?i)alloc|size|memory"),
        (5, MemoryError, "bad_alloc"),
    ],
)
def test_what_a_function_does_wrong(how, error, text):
    pyopnb.cpp_op(WRONG, "demo::Wrong")
    with pytest.raises(error, match=text):
        pyopnb.call("demo::Wrong", np.ones(2, np.float32), outputs=2, how=how)


def test_shape_that_the_model_declares_is_checked():
    cls = pyopnb.cpp_op(
        "void Grow(Input<float> x, Output<float> y) { y.allocate({x.size() + 1}); y[0] = 0; }",
        "demo::Grow",
    )
    cls.infer = lambda self, kind: kind
    pyopnb.registry.define(cls, "demo::Grow")
    with pytest.raises(
        pyopnb.errors.ResultError, match=r"expected float32\[N\], as infer says, got float32\[3\]"
    ):
        pyopnb.Session(pyopnb.parse("(float[N] x) => (float[N] y) { y = demo.Grow(x) }"))(
            x=np.ones(2, np.float32)
        )


def test_compiler_error_names_the_line():
    with pytest.raises(pyopnb.errors.DefinitionError) as caught:
        pyopnb.cpp_op(SOFT_CLIP.replace("std::tanh", "std::tanhh"))
    text = str(caught.value)
    assert (
        "line 5:" in text
        and "tanhh" in text
        and "out[i] = limit * std::tanhh(x[i] / limit);" in text
    )
    assert "SoftClip" not in pyopnb.registry


@pytest.mark.parametrize(
    ("source", "text"),
    [
        (
            "int f() { return 1; }",
            "expected one function with an Output among its parameters, got none",
        ),
        ("void f(Output<float> y) {} void g(Output<float> y) {}", r"got 2 \(f, g\)"),
        (
            "\nvoid f(Input<half> x, Output<float> y) {}",
            "line 2, f, parameter x: expected elements of bool.*Try: an op in Python",
        ),
        ("void f(Input<std::string> x, Output<float> y) {}", "got string. Try: an op in Python"),
        ("void f(Output<float> y, size_t n = 1) {}", "got size_t. Try: int64_t"),
        (
            "void f(Input<float> x, Output<float> y, float by = other()) {}",
            "attr by: expected a literal",
        ),
        (
            "template <typename T> void f(Input<T> x, Output<T> y) {}",
            "Try: template <typename T = AnyOf<float, double>>",
        ),
    ],
)
def test_signatures_that_no_op_has(source, text):
    with pytest.raises(pyopnb.errors.DefinitionError, match=text):
        pyopnb.cpp_op(source)


def test_signature_is_read_past_comments_and_helpers():
    found = read_signature(
        dedent(
            r"""
            #include <vector>  // void no(Output<float> y) {
            /* void no(Output<float> y) { } */
            static const char* text = "void no(Output<float> y) {";
            namespace inner { inline void helper(float* p) { *p = 1; } }
            // Two lines
            // of text.
            static inline void yes(const Input<uint8_t>& x /* the input */, Output<bool>& y,
                                   float required, std::vector<float> list = {1, 2.5f}) {}
            """
        )
    )
    assert (found.name, found.line, found.doc) == ("yes", 8, "Two lines\nof text.")
    assert [(port.name, port.element) for port in (*found.inputs, *found.outputs)] == [
        ("x", "uint8"),
        ("y", "bool"),
    ]
    assert [attr.default for attr in found.attrs] == [REQUIRED, [1.0, 2.5]]


def test_no_compiler_says_what_to_install(monkeypatch):
    monkeypatch.setenv("CXX", "no-such-compiler")
    with pytest.raises(
        pyopnb.errors.DefinitionError,
        match="expected a C\\+\\+ compiler, got none at CXX=no-such-compiler. "
        "Try: pip install ziglang",
    ):
        pyopnb.cpp_op(SOFT_CLIP)


# As clang does: it has another version, and refuses the flags that only GCC knows.
CLANG = """#!{python}
import os, sys
if "--version" in sys.argv:
    print("Some clang version 99")
    sys.exit()
for flag in ("-fno-diagnostics-show-caret", "-fmax-errors=5"):
    if flag in sys.argv:
        sys.exit(f"error: unknown argument: {{flag}}")
its = [flag for flag in sys.argv[1:] if "caret-diagnostics" in flag or "error-limit" in flag]
assert len(its) == 2, sys.argv
os.execvp("g++", ["g++", *(flag for flag in sys.argv[1:] if flag not in its)])
"""


@pytest.mark.skipif(shutil.which("g++") is None, reason="the script calls g++")
def test_clang_gets_flags_that_it_knows(monkeypatch, tmp_path):
    script = tmp_path / "clang++"
    script.write_text(CLANG.format(python=sys.executable), encoding="utf-8")
    script.chmod(0o755)
    monkeypatch.setenv("CXX", str(script))
    monkeypatch.setenv("PYOPNB_CACHE", str(tmp_path / "cache"))
    pyopnb.cpp_op(TWICE, "demo::TwiceByClang")
    assert pyopnb.call("demo::TwiceByClang", X).tolist() == (2 * X).tolist()
    # Nothing but the library is left in the cache.
    left = {path.suffix for path in (tmp_path / "cache" / "compiled").iterdir()}
    assert left == {".so"}
    with pytest.raises(pyopnb.errors.DefinitionError, match="line 3: .*nonsense"):
        pyopnb.cpp_op(TWICE.replace("{", "{\n\nnonsense;", 1))


def test_zig_is_found_where_there_is_no_other_compiler(monkeypatch, tmp_path):
    monkeypatch.delenv("CXX", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    # The wheel is a package of that name, which runs as python -m ziglang.
    (tmp_path / "ziglang.py").touch()
    monkeypatch.syspath_prepend(tmp_path)
    assert compiler.find_compiler() == (sys.executable, "-m", "ziglang", "c++")


def test_a_library_that_another_process_made_meanwhile_is_taken(monkeypatch, tmp_path):
    """Where a library is loaded, Windows does not let it be replaced."""
    monkeypatch.setenv("PYOPNB_CACHE", str(tmp_path))
    rename = os.rename

    def refused(source, target):
        shutil.copy(source, target)
        raise FileExistsError(17, "Cannot create a file when that file already exists", str(target))

    monkeypatch.setattr(os, "rename", refused)
    monkeypatch.setattr(os, "replace", lambda *_: pytest.fail("replaced"))
    np.testing.assert_array_equal(
        cpp_class(SOFT_CLIP)(limit=1.0).compute(np.zeros(2, np.float32)), [0, 0]
    )
    monkeypatch.setattr(os, "rename", rename)
    cpp_class(SOFT_CLIP, flags=["-DOTHER"])
    assert len(list(cache_directory().iterdir())) == 2  # and nothing unfinished


RACE = """
import ctypes, shutil, subprocess, sys
from pyopnb.compile import compiler
_, made = sys.argv
# The race alone, and no compiler.
def run(command, text):
    if "--version" not in command:
        shutil.copy(made, command[-1])
    return subprocess.CompletedProcess(command, 0, "clang", "")
compiler._run = run
print("ready", flush=True)
input()
for number in range(60):
    ctypes.CDLL(str(compiler.library_of(f"{number}", "", 1)))
"""


def test_processes_that_compile_the_same_at_once_get_it(monkeypatch, tmp_path):
    monkeypatch.setenv("PYOPNB_CACHE", str(tmp_path / "cache"))
    cpp_class(TWICE)
    (made,) = (tmp_path / "cache" / "compiled").glob("*.so")
    command = [sys.executable, "-P", "-c", RACE, str(made)]
    pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    processes = [subprocess.Popen(command, **pipes) for _ in range(3)]
    assert [process.stdout.readline().strip() for process in processes] == [b"ready"] * 3
    for process in processes:
        process.stdin.write(b"\n")
        process.stdin.flush()
    assert [process.communicate()[1] for process in processes] == [b""] * 3


def test_a_text_is_compiled_once(monkeypatch):
    pyopnb.cpp_op(SOFT_CLIP)
    monkeypatch.setattr(compiler, "compiled", lambda *_: pytest.fail("compiled again"))
    pyopnb.cpp_op(SOFT_CLIP)


WAIT = """
#include <atomic>
#include <chrono>
#include <thread>
static std::atomic<int> inside{0};
// Returns how many calls were inside at once: waits until there are two.
void Meet(Input<float> x, Output<int64_t> y) {
  ++inside;
  int64_t most = 0;
  for (int i = 0; i < 3000 && most < 2; ++i) {
    most = std::max<int64_t>(most, inside);
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  *y.allocate({}) = most;
}
"""


def test_two_runs_are_in_the_function_at_once_and_python_goes_on():
    pyopnb.cpp_op(WAIT, "demo::Meet")
    session = pyopnb.Session(pyopnb.parse("(float[N] x) => (int64 y) { y = demo.Meet(x) }"))
    found = []
    threads = [
        threading.Thread(target=lambda: found.append(int(session(x=X[0])["y"]))) for _ in range(2)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [2, 2]


def test_bare_session_and_exit_while_a_function_runs():
    """A daemon thread is in the compiled function while the interpreter ends: the process ends with its own exit code."""
    script = f"""
        import threading, time
        import numpy as np, onnxruntime, pyopnb
        pyopnb.cpp_op({WAIT!r}, "demo::Meet")
        options = onnxruntime.SessionOptions()
        options.register_custom_ops_library(pyopnb.get_library_path())
        model = pyopnb.parse("(float[N] x) => (int64 y) {{ y = demo.Meet(x) }}").SerializeToString()
        session = onnxruntime.InferenceSession(model, options)
        feeds = {{"x": np.ones(2, np.float32)}}
        threading.Thread(target=session.run, args=(None, feeds), daemon=True).start()
        time.sleep(0.3)
        raise SystemExit(7)
    """
    done = subprocess.run(
        [sys.executable, "-P", "-c", dedent(script)], capture_output=True, text=True
    )
    assert (done.returncode, done.stderr) == (7, "")


def test_template_with_an_output_of_another_dtype_in_a_bare_session():
    text = """
        template <typename T = AnyOf<float, double>>
        void Halves(Input<int64_t> by, Input<T> x, Output<int64_t> n, Output<T> y) {
          y.allocate(x.shape());
          for (int64_t i = 0; i < x.size(); ++i) y[i] = x[i] / by[0];
          *n.allocate({}) = x.size();
        }"""
    pyopnb.cpp_op(text, "demo::Halves")
    options = onnxruntime.SessionOptions()
    options.register_custom_ops_library(pyopnb.get_library_path())
    graph = "(int64[1] by, double[N] x) => (m, z) { n, y = demo.Halves(by, x)  m = Add(n, n)  z = Add(y, y) }"
    session = onnxruntime.InferenceSession(pyopnb.parse(graph).SerializeToString(), options)
    m, z = session.run(None, {"by": np.int64([2]), "x": np.float64([1, 3])})
    assert (m, m.dtype, z.tolist(), z.dtype) == (4, np.int64, [1, 3], np.float64)


def test_saved_as_a_module_beside_an_op_in_python(tmp_path):
    written = tmp_path / "half.py"
    written.write_text(
        "import pyopnb\n\n\n@pyopnb.pyop('demo::Half')\nclass Half:\n    def compute(self, x):\n        return x / 2\n",
        encoding="utf-8",
    )
    load_module(written)
    for place, name in enumerate(("demo::SoftClip", "demo::Clip")):
        pyopnb.cpp_op(SOFT_CLIP, name, opset=place + 1)
    path = tmp_path / "ops.py"
    save_module(path, "demo::SoftClip", "demo::Half", "demo::Clip")
    assert f'pyopnb.cpp_op(r"""{SOFT_CLIP}""", \'demo::Clip\', opset=2)' in path.read_text(
        encoding="utf-8"
    )
    pyopnb.registry.clear()
    loaded = {version.op: version for version in load_module(path)}
    assert (
        list(loaded) == ["demo::SoftClip", "demo::Half", "demo::Clip"]
        and loaded["demo::Clip"].opset == 2
    )
    assert loaded["demo::SoftClip"].source == SOFT_CLIP
    np.testing.assert_allclose(
        pyopnb.call("demo::SoftClip", X, limit=2.0), 2 * np.tanh(X / 2), rtol=1e-6
    )


def test_a_file_that_raises_has_defined_nothing(tmp_path):
    path = tmp_path / "raises.py"
    path.write_text(
        f"import pyopnb\n\npyopnb.cpp_op(r'''{SOFT_CLIP}''', 'demo::SoftClip')\n1 / 0\n",
        encoding="utf-8",
    )
    with pytest.raises(ZeroDivisionError):
        load_module(path)
    assert "demo::SoftClip" not in pyopnb.registry


def test_more_than_memory_has_room_for_is_an_error_and_ends_no_process():
    script = """
        import numpy as np, pyopnb
        pyopnb.cpp_op('''
            void Large(Input<float> x, Output<float> y, Output<float> z, bool two = false) {
              y.allocate(x.shape());
              if (two) z.allocate({int64_t{1} << 40, int64_t{1} << 40});
              else z.allocate({int64_t{1} << 60});
            }''', "demo::Large")
        for two in (False, True):
            for outputs in (["y"], ["y", "z"]):
                node = pyopnb.node("demo::Large", "x", outputs, two=two)
                session = pyopnb.Session(pyopnb.model(node, {"x": "float32[N]"}, outputs))
                for _ in range(2):
                    try:
                        session(x=np.ones(3, np.float32))
                    except MemoryError:
                        print(two, *outputs, "MemoryError")
                    except Exception as error:
                        print(two, *outputs, "Failed to allocate memory" in str(error))
    """
    done = subprocess.run(
        [sys.executable, "-P", "-c", dedent(script)], capture_output=True, text=True
    )
    assert (done.returncode, done.stderr) == (0, "")
    # ONNX Runtime allocates an output that is wanted and whose size is a number.
    cases = (
        "False y MemoryError",
        "False y z True",
        "True y MemoryError",
        "True y z MemoryError",
    )
    assert done.stdout.splitlines() == [case for case in cases for _ in range(2)]


COUNT = """void Count(Input<float> x, Output<int64_t> y, int n = {}, std::vector<int> many = {{{}}})
    {{ y.allocate({{1}}); y[0] = 0; }}"""
TOO_LARGE = 2**33 + 5


def test_an_int_that_cpp_would_cut_off_is_refused_with_its_name():
    for defaults, name in (((TOO_LARGE, ""), "n"), ((1, f"1, {TOO_LARGE}"), "many")):
        with pytest.raises(pyopnb.errors.DefinitionError, match=f"attr {name}: 8589934597"):
            pyopnb.cpp_op(COUNT.format(*defaults), "demo::Count")
    pyopnb.cpp_op(COUNT.format(1, ""), "demo::Count")
    for attrs in ({"n": TOO_LARGE}, {"many": [1, TOO_LARGE]}):
        with pytest.raises(Exception, match=f"attr {next(iter(attrs))}: 8589934597"):
            pyopnb.call("demo::Count", np.ones(1, np.float32), **attrs)


def test_numbers_are_those_of_cpp():
    numbers = {"0x1F": 31, "1'000": 1000, "0": 0, "08.5": 8.5}
    kinds = ["double" if "." in text else "int64_t" for text in numbers]
    attrs = [
        f"{kind} n{n} = {text}" for n, (kind, text) in enumerate(zip(kinds, numbers, strict=True))
    ]
    listed = ", ".join(f"double(n{n})" for n in range(len(numbers)))
    source = f"""
        void Numbers(Input<float> x, Output<double> y, {", ".join(attrs)}) {{
          const double all[] = {{{listed}}};
          y.allocate({{{len(numbers)}}});
          for (int i = 0; i < {len(numbers)}; ++i) y[i] = all[i];
        }}"""
    want = list(numbers.values())
    assert [attr.default for attr in read_signature(source).attrs] == want
    cls = pyopnb.cpp_op(source, "demo::Numbers")
    assert cls().compute(np.ones(1, np.float32)).tolist() == want


def test_includes_stay_where_they_are_written():
    source = """
        /*
        #include <no_such_header_in_a_comment>
        */
        #ifdef NO_SUCH_MACRO
        #include <no_such_header_in_a_condition>
        #endif
        #define CHOSEN 1
        #if CHOSEN
        #include <map>
        #endif
        static const char* text = R"(
        #include <in a raw string>
        )";
        void Count(Input<float> x, Output<int64_t> y) {
          std::map<int, int> one{{1, 1}};
          y.allocate({1})[0] = std::string(text).find("#include") + one.size();
        }"""
    cls = pyopnb.cpp_op(source, "demo::Count")
    assert cls().compute(np.ones(1, np.float32)).tolist() == [
        source.split('R"(')[1].index("#include") + 1
    ]
    with pytest.raises(pyopnb.errors.DefinitionError, match="line 16: .*mapp"):
        pyopnb.cpp_op(source.replace("std::map<", "std::mapp<"), "demo::Count")


TWICE = "void Twice(Input<float> x, Output<float> y) { y.allocate(x.shape()); for (int i = 0; i < x.size(); ++i) y[i] = 2 * x[i]; }"


def run_twice(folder, **environment):
    """Compile and call an op in a process of its own."""
    script = (
        f"import numpy as np, pyopnb; print(pyopnb.cpp_op({TWICE!r})().compute(np.float32([4]))[0])"
    )
    env = {**os.environ, "PYOPNB_CACHE": str(folder), **environment}
    return subprocess.run(
        [sys.executable, "-P", "-c", script], env=env, capture_output=True, text=True, cwd=folder
    )


def test_a_library_that_was_cut_off_is_made_anew(tmp_path):
    assert run_twice(tmp_path, LC_ALL="xx_YY.not_installed").stdout == "8.0\n"
    for size in (0, 6000):
        for library in (tmp_path / "compiled").iterdir():
            os.truncate(library, size)
        again = run_twice(tmp_path)
        assert (again.returncode, again.stdout) == (0, "8.0\n")
        assert max(path.stat().st_size for path in (tmp_path / "compiled").iterdir()) > 6000


@pytest.mark.parametrize(
    ("environment", "message"),
    [
        ({"PYOPNB_CACHE": "here"}, "expected an absolute path, got here"),
        ({"CXX": "g++ 'x"}, "CXX: expected words"),
        ({"CXXFLAGS": "'"}, "CXXFLAGS: expected words"),
        ({"CXX": "false"}, r"expected a C\+\+ compiler, got"),
        ({"CXXFLAGS": "--no-such-flag"}, "--no-such-flag"),
    ],
)
def test_a_broken_environment_is_one_message(monkeypatch, environment, message):
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(pyopnb.errors.DefinitionError, match=message):
        pyopnb.cpp_op(TWICE)


@needs_modes
def test_a_cache_that_others_can_rename_is_refused(tmp_path, monkeypatch):
    tmp_path.chmod(0o777)
    monkeypatch.setenv("PYOPNB_CACHE", str(tmp_path / "cache"))
    with pytest.raises(pyopnb.errors.DefinitionError, match="folders above it"):
        cache_directory()
