"""IPython compiles the body itself: labels, line numbers, sources and code names are as in any cell."""

from __future__ import annotations

import inspect
import os
import re
import subprocess
import sys
import traceback
from pathlib import Path

import cloudpickle
import pytest
from ipykernel.compiler import XCachingCompiler

SCALE = """\
%%pyop -q
class Scale:
    def __init__(self, k=2):
        self.k = k

    def compute(self, x):
        return x.nope * self.k
"""


def frames(error):
    return traceback.extract_tb(error.__traceback__)


def of_the_extension(text):
    return re.findall(r"pyopnb|__import__|define\(|check\(", text)


def test_a_traceback_in_a_method(define, run):
    define(SCALE, number=7)
    ran = run("Scale().compute(1)", number=8)
    assert "Cell In[7], line 7, in Scale.compute(self, x)" in ran.out
    assert "----> 7     return x.nope * self.k" in ran.out
    assert "Cell In[8], line 1" in ran.out
    assert frames(ran.error)[-1].lineno == 7
    assert not of_the_extension(ran.out)


def test_a_traceback_of_a_class_body(run):
    ran = run(
        "%%pyop -d demo\n\n# a comment\nclass A:\n    limit = 1 / 0\n    def compute(self, x): ...\n",
        number=5,
    )
    assert "Cell In[5], line 5, in A()" in ran.out
    assert "----> 5     limit = 1 / 0" in ran.out
    assert not of_the_extension(ran.out)
    assert [frame.name for frame in frames(ran.error)][-2:] == ["<module>", "A"]


@pytest.mark.parametrize(
    "body", ["class A\n", "class A:\n    def compute(self, x):\n    return x\n", "return 1\n"]
)
def test_a_syntax_error_is_shown_as_in_any_cell(run, body):
    plain = run(f"# 12345\n{body}", number=11)
    ours = run(f"%%pyop\n{body}", number=11)
    assert not ours.ok
    assert isinstance(ours.error, SyntaxError)
    assert ours.out == plain.out
    assert "Cell In[11], line" in ours.out
    assert not of_the_extension(ours.out)


def test_a_kernel_names_the_code_after_the_raw_cell(define, shell, monkeypatch):
    compiler = XCachingCompiler()
    monkeypatch.setattr(shell, "compile", compiler)
    define(SCALE)
    assert shell.user_ns["Scale"].compute.__code__.co_filename == compiler.get_code_name(
        SCALE, "", 0
    )


@pytest.mark.parametrize(
    "after",
    ["total = 1 + nope", "if True:\n    total = 1 + nope", "for _ in [1]:\n\n    total = nope"],
)
def test_a_traceback_of_a_line_after_the_class(run, after):
    ran = run(f"%%pyop -q\nclass A:\n    def compute(self, x): ...\n\n{after}\nprint(1)", number=6)
    line = 5 + after.count("\n")
    assert f"Cell In[6], line {line}\n" in ran.out
    assert f"----> {line} {after.splitlines()[-1]}" in ran.out
    assert ran.out.count("Cell In[6]") == 1
    assert not of_the_extension(ran.out)


# The source and module of the class


def test_getsource(define, shell):
    define(SCALE + "\nother = 1\n")
    assert inspect.getsource(shell.user_ns["Scale"]) == "".join(SCALE.splitlines(keepends=True)[1:])
    assert inspect.getsource(shell.user_ns["Scale"].compute).startswith(
        "    def compute(self, x):\n"
    )


def test_question_marks_show_the_source(define, run):
    define(SCALE)
    assert "return x.nope * self.k" in run("Scale??").out


def test_an_old_version_keeps_its_lines(define, run, shell):
    define(SCALE, number=3)
    run("old = Scale()")
    define(
        "%%pyop -q\n# line\n# line\n# line\nclass Scale:\n    def compute(self, x):\n        return x.other\n",
        number=4,
    )
    ran = run("old.compute(1)")
    assert "Cell In[3], line 7, in Scale.compute(self, x)" in ran.out
    assert "----> 7     return x.nope * self.k" in ran.out
    assert "x.other" not in ran.out
    assert "x.other" in inspect.getsource(shell.user_ns["Scale"])


def test_the_class_before_a_failed_cell_keeps_its_source(define, run, shell):
    define(SCALE)
    old = shell.user_ns["Scale"]
    assert not run(SCALE.replace("nope", "other") + "\nraise ValueError\n").ok
    assert "x.nope" in inspect.getsource(old)
    assert shell.user_ns["Scale"].__module__ == "__main__"
    with pytest.raises((OSError, TypeError)):
        inspect.getsource(shell.user_ns["Scale"])


READ = "import cloudpickle, sys; scale = cloudpickle.load(sys.stdin.buffer); print(scale.compute(20), type(scale).__name__)"


def fresh(dumped):
    # Somewhere else, so that this process's modules are out of reach.
    env = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    return subprocess.run(
        [sys.executable, "-c", READ], input=dumped, capture_output=True, cwd=Path("/"), env=env
    )


def test_cloudpickle_to_a_fresh_process(define, run, shell):
    run("factor = 2\ndef times(x, k):\n    return x * k * factor\n")
    define(SCALE.replace("x.nope * self.k", "times(x, self.k)"))
    done = fresh(cloudpickle.dumps(shell.user_ns["Scale"](k=3)))
    assert (done.stdout.split(), done.stderr) == ([b"120", b"Scale"], b"")
