"""Uses an installed wheel as its user would: without the sources, in IPython and in a plain session.

Usage: used_wheel.py [--compiler | --no-compiler], with the Python that has the wheel, in another
folder than the repository. With --compiler an op in C++ runs. With --no-compiler there must be none
on the PATH, and an op in C++ is refused in words that tell so.
"""

from __future__ import annotations

import shutil
import sys
import warnings
from pathlib import Path

import numpy as np
import onnxruntime as ort
from IPython.core.interactiveshell import InteractiveShell
from IPython.utils.capture import capture_output

import pyopnb

COMPILERS = ("cc", "c++", "gcc", "g++", "clang", "clang++", "ld")

DEFINITION = """%%pyop demo::SoftClip
class SoftClip:
    def __init__(self, limit: float = 1.0):
        self.limit = limit
    def compute(self, x: "float32[...]") -> "float32[...]":
        return self.limit * np.tanh(x / self.limit)"""

MODEL = """%%onnx clipper
(float32[N] x) => (float32[N] y) {
   z = demo.SoftClip <limit = 2.0> (x)
   y = Neg (z)
}"""

COMPILED = """%%cppop demo::Twice
void Twice(Input<float> x, Output<float> y) {
  float* out = y.allocate(x.shape());
  for (int64_t i = 0; i < x.size(); ++i) out[i] = 2 * x[i];
}"""


def check_place() -> None:
    """The package is the installed one, and has no sources but the headers for ops in C++."""
    package = Path(pyopnb.__file__).parent
    assert package.is_relative_to(sys.prefix), package
    sources = [*package.rglob("*.cpp"), *package.rglob("CMakeLists.txt")]
    assert not sources, sources
    assert (package / "compile" / "include" / "pyopnb.h").is_file()  # for users with a compiler


def check_notebook(shell: InteractiveShell, x: np.ndarray) -> None:
    """The first cells that a user runs, a new version, and a diff, which is the other native module."""
    for cell in (
        "import numpy as np, pyopnb",
        "%load_ext pyopnb",
        DEFINITION,
        MODEL,
        "session = pyopnb.Session(clipper)",
    ):
        shell.run_cell(cell).raise_error()
    session = shell.user_ns["session"]
    np.testing.assert_array_equal(session(x=x)["y"], -np.float32(2) * np.tanh(x / np.float32(2)))
    before = session.trace(x=x)
    shell.run_cell(
        DEFINITION.replace("np.tanh(x / self.limit)", "np.clip(x / self.limit, -1, 1)")
    ).raise_error()
    np.testing.assert_array_equal(session(x=x)["y"], -np.clip(x, -2, 2))
    assert "SoftClip" in str(pyopnb.diff(before, session.trace(x=x)))


def check_bare(model: object, x: np.ndarray) -> None:
    """onnxruntime alone loads the library that the wheel brings."""
    options = ort.SessionOptions()
    options.register_custom_ops_library(pyopnb.get_library_path())
    bare = ort.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    np.testing.assert_array_equal(bare.run(None, {"x": x})[0], -np.clip(x, -2, 2))


def check_missing(x: np.ndarray) -> None:
    """A node without a kernel is named, and computed by the ONNX reference."""
    node = pyopnb.node("LpNormalization", "x", "y", p=3, axis=0)
    model = pyopnb.model(node, {"x": "float32[N]"}, {"y": "float32[N]"})
    assert [row.kind for row in pyopnb.missing(model)] == ["no kernel"]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it names what it replaced
        found = pyopnb.run(pyopnb.fill(model), {"x": x})["y"]
    np.testing.assert_allclose(found, x / np.cbrt((np.abs(x) ** 3).sum()), rtol=1e-5)


def check_compiled(shell: InteractiveShell, x: np.ndarray) -> None:
    """An op in C++ is compiled with the headers of the wheel, and called."""
    shell.run_cell(COMPILED).raise_error()
    np.testing.assert_array_equal(pyopnb.call("demo::Twice", x), 2 * x)


def check_refusal(shell: InteractiveShell) -> None:
    """An op in C++ is refused in words that say what is missing, and what to type."""
    found = [path for path in map(shutil.which, COMPILERS) if path]
    assert not found, f"compilers on the PATH: {found}"
    with capture_output() as said:
        result = shell.run_cell(COMPILED)
    text = f"{said.stdout}{said.stderr}"
    assert not result.success, text
    for part in ("a C++ compiler", "no g++, clang++ or c++ on the PATH", "Try: "):
        assert part in text, text
    assert "demo::Twice" not in str(pyopnb.registry)


def main() -> None:
    check_place()
    x = np.float32([-3, -0.5, 0, 1, 5])
    shell = InteractiveShell.instance()
    check_notebook(shell, x)
    check_bare(shell.user_ns["clipper"], x)
    check_missing(x)
    if sys.argv[1:] == ["--compiler"]:
        check_compiled(shell, x)
    elif sys.argv[1:] == ["--no-compiler"]:
        check_refusal(shell)
    print(
        f"pyopnb {pyopnb.__version__} works on Python {sys.version.split()[0]} of {sys.platform}",
        *sys.argv[1:],
    )


if __name__ == "__main__":
    main()
