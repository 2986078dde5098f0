"""What is installed beside pyopnb: too old, missing, or another build of onnxruntime."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import pyopnb

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


@pytest.mark.parametrize(
    ("package", "text", "message"),
    [
        ("onnx", "__version__ = '1.18.0'", "pyopnb needs onnx 1.19 or newer, and 1.18.0 is installed. Type: pip install -U 'onnx>=1.19'"),
        ("onnxruntime", "__version__ = '1.9.2'", "pyopnb needs onnxruntime 1.25 or newer, and 1.9.2 is installed. Type: pip install -U"),
        ("onnxruntime", "raise ModuleNotFoundError(name='onnxruntime')", "pyopnb needs onnxruntime, and none is installed. Type: pip install onnxruntime (or onnxruntime-gpu, -directml or -openvino, of which one is enough)"),
        ("onnx", "import google_is_not_there", "No module named 'google_is_not_there'"),
    ],
)  # fmt: skip
def test_what_is_too_old_or_missing_is_named(tmp_path, package, text, message) -> None:
    (tmp_path / package).mkdir()
    (tmp_path / package / "__init__.py").write_text(text, encoding="utf-8")
    code = f"import sys; sys.path[:0] = [{str(tmp_path)!r}, {str(Path(pyopnb.__file__).parents[1])!r}]\nimport pyopnb"
    done = subprocess.run([sys.executable, "-P", "-c", code], capture_output=True, text=True)
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1].partition(": ")[2].startswith(message), done.stderr


SERVER = """
import importlib.abc, sys

MISSING = {"IPython", "ipykernel", "ipywidgets", "jupyterlab", "netron", "cloudpickle", "traitlets"}

class Missing(importlib.abc.MetaPathFinder):
    def find_spec(self, name, *_):
        if name.partition(".")[0] in MISSING:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Missing())
import numpy as np
import pyopnb

@pyopnb.pyop("demo::SoftClip")
class SoftClip:
    def __init__(self, limit: float = 1.0):
        self.limit = limit

    def compute(self, x):
        return self.limit * np.tanh(x / self.limit)

model = pyopnb.parse("(float[N] x) => (float[N] y) { y = demo.SoftClip<limit = 2.0>(x) }")
session = pyopnb.Session(model)
x = np.float32([-1, 2, -40])
print(session(x=x)["y"])
print(pyopnb.missing(model))
print(pyopnb.first_divergence(session, pyopnb.Session(model), {"x": x}))
print("pyopnb-output" in pyopnb.show(model)._repr_html_())
"""


def test_a_server_needs_no_notebook(tmp_path) -> None:
    done = subprocess.run(
        [sys.executable, "-P", "-W", "error", "-c", SERVER],
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stderr) == (0, "")
    first, *_, last = done.stdout.splitlines()
    assert (first, last) == ("[-0.9242344  1.5231884 -2.       ]", "True")


def test_another_build_of_onnxruntime_is_enough() -> None:
    # With --no-deps and this group, nothing asks for the plain one.
    needed = PROJECT["project"]["dependencies"]
    group = PROJECT["dependency-groups"]["without-onnxruntime"]
    assert group == [each for each in needed if not each.startswith("onnxruntime")]
    assert len(group) == len(needed) - 1 and not any("onnxruntime" in each for each in group)


def test_nothing_asks_which_distribution_brought_onnxruntime() -> None:
    # The other builds have its modules, but not its name among the installed distributions.
    asks = re.compile(r"""(version|distribution|requires|metadata|files)\(\s*["']onnxruntime""")
    assert [
        path
        for path in Path(pyopnb.__file__).parent.rglob("*.py")
        if asks.search(path.read_text(encoding="utf-8"))
    ] == []


def test_each_dependency_is_in_the_table_of_licenses() -> None:
    text = (ROOT / "docs/security.md").read_text(encoding="utf-8")
    table = " ".join(re.findall(r"^\| (.*?) \|", text, re.MULTILINE))
    extras = PROJECT["project"]["optional-dependencies"].values()
    needed = [*PROJECT["project"]["dependencies"], *(each for extra in extras for each in extra)]
    names = {re.split(r"[<>=]", each)[0] for each in needed}
    assert {name for name in names if not re.search(rf"\b{name}\b", table)} == set()


def test_the_oldest_lane_has_the_lowest_versions() -> None:
    lowest = dict(each.split(">=") for each in PROJECT["project"]["dependencies"])
    tried = dict(
        line.split("==")
        for line in (ROOT / "tests/oldest.txt").read_text(encoding="utf-8").splitlines()
        if "==" in line
    )
    for name, version in lowest.items():
        assert tried[name] == version or tried[name] == f"{version}.0", name
