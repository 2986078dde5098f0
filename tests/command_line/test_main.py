"""``python -m pyopnb``: what it prints, and the three exit codes."""

from __future__ import annotations

import errno
import json
import os
import platform
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import numpy_helper
from systems import needs_free_names

import pyopnb
from pyopnb.__main__ import main
from pyopnb.diffs.arrays.diff import Diff

ROOT = Path(pyopnb.__file__).parents[1]
OPS = "import pyopnb\n@pyopnb.pyop('cli::Clip')\nclass Clip:\n    def compute(self, x):\n        return {}\n"

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(files: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Run a command in the folder of the files: exit code, stdout, stderr."""
    monkeypatch.chdir(files)

    def call(*arguments: str) -> tuple[int, str, str]:
        code = main(arguments)
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return call


@pytest.mark.parametrize(
    ("arguments", "code", "text"),
    [
        ("diff x.npy x.pb", 0, "bit-identical: float32[3]"),
        ("diff x.npz x.npz", 0, "bit-identical: x: float32[3]"),
        (
            "diff x.npy near.npy",
            0,
            "close: float32[3], 3 of 3 elements differ, within rtol 1e-05, atol 1e-05",
        ),
        (
            "diff x.npy near.npy --rtol 0",
            1,
            "different: float32[3], 3 of 3 elements (100 %) differ\n",
        ),
        ("diff x.npy far.npy", 1, "different: float32[3]"),
        ("diff x.npy scalar.npy", 1, "incomparable: a is float32[3], b is float64[]"),
        ("diff x.npz other.npz", 1, "incomparable: all 2 parts"),
        ("diff x.npy x.npz", 1, "incomparable: a is float32[3], b is map of 1"),
        ("diff empty.npy empty.npy", 0, "bit-identical: float64[0,3]"),
        ("diff bf16.pb bf16.pb", 0, "bit-identical: bfloat16[2]"),
        ("diff relu.onnx relu.onnx", 0, "identical: 1 node"),
        (
            "diff relu.onnx leaky.onnx",
            1,
            "different: 1 changed node\nwhere: LeakyRelu 'y'\nhow much: 1 of 1 node\n  changed: Relu 'y', op: Relu → L",
        ),
        ("diff scaled.onnx rescaled.onnx", 1, "different: 1 weight"),
        ("diff relu.onnx relu.onnx --feeds x.npz", 0, "bit-identical: y: float32[3]"),
        ("diff relu.onnx leaky.onnx --feeds x.npz", 1, "different: y: float32[3]"),
        ("diff self.npz self.npz", 0, "bit-identical: all 2 parts"),
        ("diff relu.onnx leaky.onnx --feeds x.npz --trace --atol 1", 0, "close: "),
        ("show relu.onnx", 0, "model 'graph': 1 node, 1 input, 1 output"),
        ("missing relu.onnx", 0, "Nothing is missing"),
        (
            "missing own.onnx",
            1,
            "node  op         missing         reason\ny     cli::Clip  unknown domain",
        ),
    ],
)
def test_what_is_printed(run: Run, arguments: str, code: int, text: str) -> None:
    done = run(*arguments.split())
    assert done[1].startswith(text)
    assert (done[0], done[2], "\x1b" in done[1]) == (code, "", False)


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (
            "diff relu.onnx leaky.onnx --feeds other.npz",
            "model relu.onnx: feeds: expected x: float32[N], got z. Try: write x for z",
        ),
        (
            "diff relu.onnx leaky.onnx --trace",
            "diff --trace: expected --feeds with it, got none. Try: --feeds F.npz",
        ),
        (
            "show relu.onnx --save o.xyz",
            "expected a name that ends in .html, .svg, .png, got o.xyz",
        ),
        (
            "diff x.npy relu.onnx",
            "diff: expected two models, or two files of arrays, got .npy and .onnx",
        ),
        (
            "diff x.json x.json",
            "file x.json: expected a name that ends in .onnx, .npz, .npy, .pb, got .json",
        ),
        (
            "diff objects.npz x.npz",
            "file objects.npz: expected arrays, got Python objects, which only pickle can read",
        ),
        ("diff cut.npz x.npz", "file cut.npz: expected arrays, got "),
        ("missing none.onnx", "Load model none.onnx failed. File doesn't exist"),
        ("diff own.onnx own.onnx --feeds x.npz", "Try: --ops MODULE, with a module that defines"),
    ],
)
def test_what_is_refused(run: Run, arguments: str, text: str) -> None:
    code, out, err = run(*arguments.split())
    assert (code, out) == (2, "")
    assert err.startswith("pyopnb: ") and err.count("\n") == 1
    assert text in err and ".." not in err


def test_versions_for_a_report(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["--version"])
    assert ended.value.code == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == f"pyopnb {pyopnb.__version__}"
    assert lines[1].startswith(f"Python {platform.python_version()} (")
    # The packages that are imported here, by the names of their distributions.
    assert {f"numpy {np.__version__}", f"onnx {onnx.__version__}"} <= set(lines[2:])
    assert f"onnxruntime {onnxruntime.__version__}" in lines[2:]


@pytest.mark.parametrize("ending", ["npz", "onnx"])
@pytest.mark.parametrize(
    ("name", "text"),
    [
        (
            "pointer",
            "a Git LFS pointer: the name of a large file that was not fetched. Try: git lfs pull",
        ),
        ("nothing", ""),
        ("garbage", ""),
        ("folder", "folder"),
        ("none", ""),
    ],
)
def test_a_file_that_is_something_else(run: Run, name: str, text: str, ending: str) -> None:
    file = f"{name}.{ending}"
    code, out, err = run("diff", file, "relu.onnx" if ending == "onnx" else "x.npy")
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert file in err and text in err


def test_json_can_be_read_and_judged_again(run: Run, tmp_path: Path) -> None:
    code, out, err = run("diff", "x.npy", "far.npy", "--json", "--html", str(tmp_path / "o.html"))
    assert (code, err, json.loads(out)["verdict"]) == (1, "", "different")
    assert str(Diff.from_json(out)) == str(
        pyopnb.diff(np.float32([1, -2, 3]), np.float32([2, -1, 4]))
    )
    assert Diff.from_json(out).judged(atol=1).ok
    page = (tmp_path / "o.html").read_text(encoding="utf-8")
    assert (
        page.startswith("<!DOCTYPE html>")
        and "<title>x.npy against far.npy</title>" in page
        and ">a-b</th>" in page
    )


def test_where_two_models_diverge(run: Run, tmp_path: Path) -> None:
    page = tmp_path / "o.html"
    code, out, _ = run("diff", "relu.onnx", "leaky.onnx", "--feeds", "x.npz", "--html", str(page))
    outputs, _, trace = out.partition("\n\n")
    assert (
        code == 1
        and outputs.startswith("different: y: float32[3]")
        and "origin" in trace
        and "LeakyRelu" in trace
    )
    assert (
        page.read_text(encoding="utf-8").count("different</span>") == 2
    )  # the outputs, and the runs
    code, out, _ = run("diff", "relu.onnx", "leaky.onnx", "--feeds", "x.npz", "--trace", "--json")
    assert (code, json.loads(out)["format"]) == (1, "pyopnb.trace-diff")


def test_the_second_model_runs_on_another_python(run: Run) -> None:
    feeds = ["--feeds", "x.npz", "--on", sys.executable]
    code, out, _ = run("diff", "relu.onnx", "leaky.onnx", *feeds)
    assert code == 1 and "LeakyRelu" in out and "b: onnxruntime" in out
    assert run("diff", "relu.onnx", "relu.onnx", *feeds)[0] == 0
    code, _, err = run("diff", "relu.onnx", "relu.onnx", "--on", sys.executable)
    assert code == 2 and err.startswith("pyopnb: diff --on: expected --feeds with it")


@pytest.mark.parametrize(
    ("ending", "begins", "text"),
    [("svg", "<svg", ">Relu<"), ("html", "<!doctype html>", "1 node, 1 input")],
)
def test_a_picture_of_a_model(
    run: Run, tmp_path: Path, ending: str, begins: str, text: str
) -> None:
    assert run("show", "relu.onnx", "--save", str(tmp_path / f"o.{ending}")) == (0, "", "")
    made = (tmp_path / f"o.{ending}").read_text(encoding="utf-8")
    assert made.lower().startswith(begins) and text in made


@needs_free_names
def test_names_of_files_are_escaped_in_the_page(run: Run, tmp_path: Path) -> None:
    name = tmp_path / "<script>\x1b.npy"
    np.save(name, np.zeros(2))
    assert run("diff", str(name), str(name), "--html", str(tmp_path / "o.html"))[0] == 0
    page = (tmp_path / "o.html").read_text(encoding="utf-8")
    assert "<script>" not in page and "\x1b" not in page and "&lt;script&gt;\\x1b" in page


def test_ops_of_a_module_that_is_named(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    for module, body in (("cli_good", "x.clip(-1, 1)"), ("cli_bad", "x[7]"), ("cli_broken", "1 +")):
        (tmp_path / f"{module}.py").write_text(OPS.format(body), encoding="utf-8")
    assert run("missing", "own.onnx", "--ops", "cli_good")[0] == 0
    code, out, _ = run("diff", "own.onnx", "relu.onnx", "--feeds", "x.npz", "--ops", "cli_good")
    assert code == 1 and "worst at [2], a = 1.0, b = 3.0" in out
    code, out, err = run("diff", "own.onnx", "relu.onnx", "--feeds", "x.npz", "--ops", "cli_bad")
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert (
        "model own.onnx: IndexError: index 7 is out of bounds" in err
        and f"at {tmp_path / 'cli_bad.py'}:5" in err
    )
    code, _, err = run("missing", "own.onnx", "--ops", "cli_broken")
    assert code == 2 and "--ops cli_broken: SyntaxError: " in err and err.count("\n") == 1


def test_an_unexpected_error_is_not_a_difference(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pyopnb, "missing", lambda model: 1 / 0)
    code, _, err = run("missing", "relu.onnx")
    assert code == 2 and "ZeroDivisionError" in err


def test_an_interrupt_is_silent(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(model: str) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(pyopnb, "missing", interrupted)
    assert run("missing", "relu.onnx") == (130, "", "")


def test_a_filled_model_brings_its_weights_and_its_ops(run: Run, tmp_path: Path) -> None:
    made = pyopnb.parse("""
        <ir_version: 8, opset_import: ["" : 18, "ai.onnx.preview.training": 1]>
        g (float r, int64 t, float[300] x, float[300] w, float[300] h) => (float[300] y, float[300] z)
        { y, z = ai.onnx.preview.training.Adagrad(r, t, x, w, h) }
    """)
    made.graph.initializer.append(numpy_helper.from_array(np.ones(300, np.float32), "w"))
    (tmp_path / "from").mkdir()
    source = tmp_path / "from" / "m.onnx"
    onnx.save(made, source, save_as_external_data=True, location="m.data", size_threshold=0)
    target = tmp_path / "filled.onnx"
    assert run("fill", str(source), "-o", str(target))[0] == 0
    pyopnb.registry.clear()
    loaded = pyopnb.load(target, ops=list(pyopnb.load(target).ops))
    one = np.ones(300, np.float32)
    found = pyopnb.run(loaded.model, r=np.float32(0.1), t=np.int64(1), x=one, h=one)
    assert found["z"].tolist() == [2] * 300


# ---- in processes of their own -----------------------------------------------------------------------------------------------


def process(
    *arguments: str, encoding: str = "utf-8", **keywords: object
) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONIOENCODING": encoding, **dict(keywords.pop("env", {}))}  # type: ignore[call-overload]
    command = [sys.executable, "-m", "pyopnb", *arguments]
    return subprocess.run(
        command,
        cwd=ROOT,
        env=environment,
        text=True,
        encoding=encoding,
        **{"capture_output": True, **keywords},
    )  # type: ignore[call-overload]


@pytest.mark.parametrize(("b", "code"), [("far.npy", 1), ("none.npy", 2)])
def test_exit_codes(files: Path, b: str, code: int) -> None:
    done = process("diff", str(files / "x.npy"), str(files / b))
    assert done.returncode == code
    assert bool(done.stdout) == (code < 2) and bool(done.stderr) == (code == 2)
    assert "Traceback" not in done.stderr


def test_a_reader_that_has_gone(files: Path) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    done = process(
        "diff",
        str(files / "x.npy"),
        str(files / "far.npy"),
        capture_output=False,
        stdout=writing,
        stderr=subprocess.PIPE,
    )
    os.close(writing)
    assert (done.returncode, done.stderr) == (2, "")


def test_a_reader_that_has_gone_on_windows(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """Windows says EINVAL of such a pipe, without a file; of anything else, that is an error."""
    windows = SimpleNamespace(**{**vars(os), "name": "nt", "dup2": lambda *_: None})
    monkeypatch.setattr(pyopnb.__main__, "os", windows)
    gone = OSError(errno.EINVAL, "Invalid argument")

    def closed(_: object) -> int:
        raise gone

    monkeypatch.setattr(pyopnb.__main__, "_diff", closed)
    assert main(["diff", "a.npy", "b.npy"]) == 2
    assert capfd.readouterr().err == ""
    gone.filename = "a.npy"
    assert main(["diff", "a.npy", "b.npy"]) == 2
    assert "Invalid argument" in capfd.readouterr().err


@pytest.mark.parametrize(("encoding", "shown"), [("ascii", "\\xe9"), ("cp1252", "é")])
def test_an_encoding_without_our_characters(
    files: Path, tmp_path: Path, encoding: str, shown: str
) -> None:
    """A pipe of Windows has cp1252, in which there is no ≤ or →."""
    np.save(tmp_path / "é.npy", np.zeros(3))
    np.save(tmp_path / "text.npy", np.array(["é→"]))
    done = process("diff", str(tmp_path / "text.npy"), str(tmp_path / "é.npy"), encoding=encoding)
    assert (done.returncode, done.stderr) == (1, "")
    done = process("diff", str(tmp_path / "é.npz"), str(tmp_path / "é.npy"), encoding=encoding)
    assert done.returncode == 2 and f"{shown}.npz does not exist" in done.stderr
