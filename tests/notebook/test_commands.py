"""The subcommands of ``%pyop`` that try, check, compare, load and save, and ``%%pyop --run``."""

from __future__ import annotations

import os

import numpy as np
import pytest
from IPython.core.completer import provisionalcompleter
from small_ops import soft_clip_source
from systems import needs_free_names

import pyopnb
from pyopnb import registry
from pyopnb.notebook import arguments

SOFT_CLIP = soft_clip_source(
    "self.limit * np.tanh(x / self.limit) + len(more)",
    '(self, x: "float32[N]", *more) -> "float32[N]"',
)


@pytest.fixture
def soft_clip(shell, define, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    shell.push({"np": np, "v": np.float32([100, 0])})
    define(f"%%pyop -d demo -q{SOFT_CLIP}")
    return registry["demo::SoftClip"]


# ---- --run -------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "values"),
    [
        ("--run x=v", [1, 0]),
        ("--run v", [1, 0]),
        ("--run v, limit=2.0", [2, 0]),
        ("--run=x=v,limit=2.0", [2, 0]),
        ("--run 'x=v, limit=2.0'", [2, 0]),
        ("--run x=np.where(v > 1, v, np.float32(0)), limit = 2.0", [2, 0]),
        ('--run x=np.float32([float("100"), {"a b": 0}["a b"]])', [1, 0]),
        ("--run v, v, v", [3, 2]),
    ],
)
def test_an_op_is_called_at_once(soft_clip, define, line, values):
    ran = define(f"%%pyop -d demo {line}{SOFT_CLIP}")
    assert ran.out.startswith(
        "demo::SoftClip, version 2: (x: float32[N], *more)<limit: float = 1.0> -> float32[N]\n"
    )
    assert ran.value.tolist() == values


def test_several_runs_and_a_last_expression(soft_clip, define):
    ran = define(f"%%pyop -d demo -q --run v --run v, limit=3.0{SOFT_CLIP}'last'")
    assert ran.value == "last"
    assert [line for line in ran.out.split("\n") if line[:1] == "["] == ["[1. 0.]", "[3. 0.]"]


@pytest.mark.parametrize(
    ("line", "text"),
    [
        ("limt=2.0", "limt: expected one of x, more, limit, got limt. Try: write limit for limt"),
        ("v, x=v", "demo::SoftClip, version 2, x: expected one value, got x"),
        ("v.astype(float)", "call of demo::SoftClip, input x: expected float32[N], got float64[2]"),
    ],
)
def test_arguments_that_do_not_fit_are_one_line_and_the_op_is_defined(soft_clip, run, line, text):
    ran = run(f"%%pyop -d demo -q --run {line}{SOFT_CLIP}")
    assert not ran.ok
    assert ran.out.startswith("InputError: ") and text in ran.out and ran.out.count("\n") == 1
    assert soft_clip.current.number == 2


@pytest.mark.parametrize("line", ["x=", "x=(1", "x=1) + f(2", "x=1, x=2", "lambda"])
def test_invalid_arguments_run_nothing(soft_clip, run, line):
    ran = run(f"%%pyop -d demo --run {line}{SOFT_CLIP}")
    assert ran.err.startswith("UsageError: %%pyop --run: expected x=EXPR, y=EXPR, got ")
    assert soft_clip.current.number == 1


def test_what_an_expression_or_the_op_raises_is_shown_from_the_cell_on(soft_clip, run):
    ran = run(f"%%pyop -d demo --run x=nope + 1{SOFT_CLIP}", number=5)
    assert "----> 1 call(x=nope + 1)" in ran.out and "NameError: name 'nope'" in ran.out
    assert "expressions.py" not in ran.out
    ran = run(f"%%pyop -d demo --run v{SOFT_CLIP.replace('tanh', 'nope')}", number=6)
    assert "Cell In[6], line 6, in SoftClip.compute" in ran.out
    assert "pyop_cell.py" not in ran.out and "expressions.py" not in ran.out


# ---- check, diff -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "tried"),
    [
        ("", "Tried (float32[2], float32[2,3], float32[2,3])"),
        ("x=v", "Tried (float32[2])"),
        ("v, limit=2.0", "Tried (float32[2], limit=2.0)"),
        (
            "limit=2.0",
            "Tried (float32[2], float32[2,3], float32[2,3], limit=2.0)",
        ),
    ],
)
def test_check(soft_clip, define, line, tried):
    report = define(f"%pyop check SoftClip {line}").value
    assert tried in repr(report)
    assert repr(report).split("\n")[0].startswith("demo::SoftClip, version 1: ")


@pytest.mark.one_python  # long
def test_forms(soft_clip, define, run):
    forms = define("%pyop forms SoftClip np.float32([1, 2]), limit=2.0").value
    assert [form.verdict for form in forms] == ["", "yes"]
    assert "(float32[2], limit=2.0)" in repr(forms)
    assert run("%pyop forms SoftClip x=").err.startswith(
        "UsageError: %pyop forms SoftClip: expected x=EXPR, y=EXPR, got x=."
    )


def test_diff(soft_clip, define, run):
    assert (
        "demo::SoftClip, diff: expected two versions, got one. Try: edit its cell and run it again"
        in run("%pyop diff SoftClip").out
    )
    define(f"%%pyop -d demo -q{SOFT_CLIP.replace('1.0', '3.0')}")
    define(f"%%pyop -d demo -q{SOFT_CLIP.replace('tanh', 'sin')}")
    versions = soft_clip.versions
    for line, a, b in (("", 1, 2), ("1", 0, 2), ("3 1", 2, 0)):
        assert repr(define(f"%pyop diff SoftClip {line}").value) == repr(
            pyopnb.diff(versions[a], versions[b])
        )
    assert "expected one of versions 1, 2, 3, got 9" in run("%pyop diff SoftClip 9").out
    assert (
        "argument B: invalid int value: 'x'. Try: %pyop diff OP [A] [B]"
        in run("%pyop diff SoftClip 1 x").err
    )


# ---- missing --cells ---------------------------------------------------------------------------------------------------------


def test_cells_one_after_the_other(shell, run, define):
    shell.push({"np": np})
    define(
        "%%onnx -q m\n(float[N] x) => (float[N] y) { a = demo.A(x)\n b = other.B<k = 1>(a)\n c = demo.A(b)\n y = Abs(c) }"
    )
    printed = ["demo::A; 1 more missing: run this line again", "other::B"]
    for name, words in zip(("demo::A", "other::B"), printed, strict=True):
        ran = define("%pyop missing m --cells")
        assert ran.out.startswith(f"The cell below is for {words}.\n")
        assert repr(ran.value) == repr(pyopnb.missing(shell.user_ns["m"]))
        cell = shell.rl_next_input
        shell.set_next_input("")
        define(cell)
        assert name in registry
    ran = define("%pyop missing m --cells")
    assert (bool(ran.value), shell.rl_next_input) == (False, "")


# ---- save, load --------------------------------------------------------------------------------------------------------------


def test_cells_as_a_file(soft_clip, define, shell, tmp_path):
    define("from math import tau as turn\nK = 2\ndef helper(v):\n    return v * np.float32(K)\n")
    define(
        "%%pyop -q\nclass Turn:\n    def compute(self, x):\n        return helper(x) * np.float32(turn)\n"
    )
    define(
        "%%pyop -q -d demo\nclass Child(SoftClip):\n    def compute(self, x):\n        return super().compute(x)\n"
    )
    out = define("%pyop save ops.py").out
    assert [line.split(":")[0] for line in out.splitlines()] == ["ops.py"] * 3
    text = (tmp_path / "ops.py").read_text(encoding="utf-8")
    for words in (
        "import numpy as np\n",
        "turn = 6.28",
        "K = 2\n",
        "def helper(v):\n",
        '@pyopnb.pyop("demo::Child")\nclass Child(Soft',
    ):
        assert words in text
    v = np.float32([1])
    before = [pyopnb.call(op.name, v) for op in registry]
    registry.clear()
    out = define("%pyop load ops.py").out
    assert sorted(line.split(",")[0] for line in out.splitlines()) == [op.name for op in registry]
    assert [pyopnb.call(op.name, v) for op in registry] == before
    define("%pyop save one.py demo::SoftClip --overwrite")
    assert "Turn" not in (tmp_path / "one.py").read_text(encoding="utf-8")


def test_classes_without_methods_come_along(soft_clip, define, run, shell, tmp_path):
    define("%%pyop -q -d demo\nclass Wide(SoftClip):\n    margin = 3\n")
    define("from enum import Enum\nclass Mode(Enum):\n    DOUBLE = 2\n")
    define(
        "%%pyop -q -d demo\nclass Times:\n    def compute(self, x):\n        return x * np.float32(Mode.DOUBLE.value)\n"
    )
    define("%pyop save ops.py")
    before = pyopnb.call("demo::Times", np.float32([1]))
    registry.clear()
    define("%pyop load ops.py")
    assert pyopnb.call("demo::Times", np.float32([1])) == before == 2
    assert pyopnb.call("demo::Wide", np.float32([9])) < 2
    # Which of two texts made the class, nothing tells.
    define("class Mode(Enum):\n    DOUBLE = 3\n")
    define(
        "%%pyop -q -d demo\nclass Uses:\n    def compute(self, x):\n        return x * Mode.DOUBLE.value\n"
    )
    out = run("%pyop save one.py demo::Uses").out
    assert "Mode (a class whose text is not known)" in out


def test_a_file_that_fails_is_shown_from_its_line_on(soft_clip, run, tmp_path):
    (tmp_path / "bad.py").write_text("x = 1\n1 / 0\n", encoding="utf-8")
    ran = run("%pyop load bad.py")
    assert "bad.py:2" in ran.out and "ZeroDivisionError" in ran.out
    assert "exec_module.py" not in ran.out and "commands.py" not in ran.out
    assert "expected a Python file, got no such file" in run("%pyop load none.py").out


@needs_free_names
def test_a_path_of_windows_keeps_its_backslashes(monkeypatch, run, soft_clip, tmp_path):
    # There, a backslash is a part of a path; on this system, it is in the name of the file.
    monkeypatch.setattr(arguments, "_ESCAPE", "")
    run(r"%pyop save sub\new.py demo::SoftClip")
    assert [path.name for path in tmp_path.glob("*.py")] == [r"sub\new.py"]
    assert arguments.split_words(r"""a\b "c d\e" 'f#g' -DN="x y" """) == [
        r"a\b",
        r"c d\e",
        "f#g",
        "-DN=x y",
    ]


# ---- completion --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "matches"),
    [
        ("%pyop check d", ["demo::SoftClip"]),
        ("%pyop diff demo::SoftClip ", ["1"]),
        ("%pyop missing ", ["m", f"sub{os.sep}", "m.onnx"]),
        ("%pyop missing m --", ["--cells"]),
        ("%pyop missing m ", ["--cells"]),
        ("%pyop skeleton m ", ["Abs", "first", "y"]),
        ("%pyop skeleton m.onnx f", ["first"]),
        ("%pyop load ", [f"sub{os.sep}", "ops.py"]),
        ("%pyop load sub/", ["sub/more.py"]),
        ("%pyop load ops.py ", ["--watch"]),
        ("%pyop save ops.py ", ["demo::SoftClip"]),
        ("%pyop save ops.py --", ["--overwrite"]),
        ("%%pyop --r", ["--run"]),
    ],
)
def test_completion(soft_clip, shell, tmp_path, text, matches):
    nodes = [pyopnb.node("Abs", "x", "a", name="first"), pyopnb.node("Abs", "a", "y")]
    nodes[1].name = ""
    model = pyopnb.model(nodes, {"x": "float32[N]"}, "y")
    model.graph.node[1].name = ""
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "more.py").touch()
    (tmp_path / "ops.py").touch()
    (tmp_path / "m.onnx").write_bytes(model.SerializeToString())
    shell.push({"m": model})
    with provisionalcompleter():
        offered = [match.text for match in shell.Completer.completions(text, len(text))]
    assert sorted(offered) == sorted(matches)
