"""What a ``%%pyop`` cell defines, and what a failing one leaves behind."""

from __future__ import annotations

import sys

import numpy as np
import pytest

import pyopnb
from pyopnb import registry

TWICE = "class Twice:\n    def compute(self, x):\n        return x * 2\n"


def names():
    return [op.name for op in registry]


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ("", "pyopnb::Twice"),
        ("Double", "pyopnb::Double"),
        ("demo::Double", "demo::Double"),
        ("-d demo", "demo::Twice"),
        ("--domain demo Double", "demo::Double"),
        ("--domain=demo", "demo::Twice"),
        ("::Double", "::Double"),
        ("-d ai.onnx Double", "::Double"),
    ],
)
def test_the_name(define, line, name):
    define(f"%%pyop {line}\n{TWICE}")
    assert names() == [name]


def test_when_one_of_several_is_wrong_none_is_defined(run):
    wrong = "class Wrong:\n    def compute(self, x=3): ...\n"
    ran = run(f"%%pyop\n{TWICE}{wrong}")
    assert not ran.ok
    assert (
        "class Wrong, compute, input x: expected no default, or None for an optional input, got 3"
        in ran.out
    )
    assert names() == []


@pytest.mark.parametrize(
    "body",
    [
        "if True:\n    class A:\n        def compute(self, x): ...\n",
        "def made():\n    class A:\n        def compute(self, x): ...\n    return A\nB = made()\n",
        "from dataclasses import dataclass\n@dataclass(slots=True)\nclass A:\n    k: int = 1\n    def compute(self, x): ...\n",
        "class A:\n    def compute(self, x): ...\nB = A\n",
        "import numpy as np\nA = type('A', (), {'compute': staticmethod(np.add)})\n",
        "from __future__ import annotations\nclass A:\n    def compute(self, x: float32[N]): ...\n",
    ],
    ids=[
        "in a block",
        "made by a function",
        "dataclass with slots",
        "two names",
        "type()",
        "future",
    ],
)
def test_ways_to_write_the_class(define, body):
    define(f"%%pyop\n{body}")
    assert names() == ["pyopnb::A"]


# What follows the class in its cell uses it

GAIN = "%%pyop -d demo{line}\nclass Gain:\n    def compute(self, x):\n        return x * np.float32({gain})\n"


@pytest.fixture
def session(define, shell):
    """A session in the notebook; its op multiplies by 2."""
    define("import numpy as np, pyopnb")
    define(GAIN.format(line=" -q", gain=2))
    define(
        "model = pyopnb.parse('(float[N] x) => (y) { y = demo.Gain(x) }')\nsession = pyopnb.Session(model)"
    )
    define(
        "def results():\n    return [float(run(x=np.float32([1]))[0][0]) for run in (session, pyopnb.Session(model))]"
    )
    return shell.user_ns["session"]


def ran(session):
    return float(session(x=np.float32([1]))[0][0])


AFTER = {
    "a statement": "seen = results()",
    "a print": "seen = results()\nprint(seen)",
    "the last expression": "seen = None\n(seen := results())",
    "a loop": "for _ in range(2):\n    seen = results()",
    "call": "seen = [pyopnb.call('demo::Gain', np.float32([1]))[0]]",
    "await": "import asyncio\nawait asyncio.sleep(0)\nseen = results()",
}


@pytest.mark.parametrize("after", AFTER)
def test_what_follows_the_class_uses_it(session, define, shell, after):
    assert define(GAIN.format(line="", gain=3) + AFTER[after]).out.startswith(
        "demo::Gain, version 2: (x)\n"
    )
    assert set(shell.user_ns["seen"]) == {3.0}
    assert ran(session) == 3


def test_what_precedes_the_class_uses_the_version_before(session, define, shell):
    first, rest = GAIN.format(line="", gain=3).split("\n", 1)
    define(f"{first}\nbefore = results()\n{rest}after = results()")
    assert (set(shell.user_ns["before"]), set(shell.user_ns["after"])) == ({2.0}, {3.0})


def test_a_class_inside_a_class_or_function_is_no_op(define):
    inner = "class Inner:\n        def compute(self, x): ...\n"
    define(f"%%pyop -q\n{TWICE}    {inner}\ndef made():\n    {inner}made()\n")
    assert names() == ["pyopnb::Twice"]


# A cell that fails after the class


FAILS = [
    "raise ValueError('late')",
    "1 / 0",
    "assert results() == [2.0, 2.0], 'guard'",
    "class Wrong:\n    def compute(self, x=3): ...\n",
]


@pytest.mark.parametrize("after", FAILS)
def test_a_cell_that_fails_leaves_the_version_before(session, run, define, shell, after):
    good = registry["demo::Gain"].current
    failed = run(GAIN.format(line="", gain=3) + f"seen = results()\n{after}")
    assert not failed.ok
    assert set(shell.user_ns["seen"]) == {3.0}
    assert failed.out.startswith(
        "demo::Gain, version 2: (x)\ndemo::Gain, version 2 is withdrawn because its cell failed; version 1 is current again\n"
    )
    assert registry["demo::Gain"].current is good
    assert registry.history("demo::Gain") == (good,)
    assert ran(session) == 2
    assert define(GAIN.format(line="", gain=4)).out == "demo::Gain, version 3: (x)\n"
    assert ran(session) == 4
    define("%pyop rollback Gain")
    assert ran(session) == 2


@pytest.mark.filterwarnings("ignore::pyopnb.errors.SessionRebuilt")
def test_a_cell_that_fails_with_other_outputs_leaves_the_session_right(session, run, shell):
    body = (
        "class Gain:\n    def compute(self, x) -> 'float64[N]':\n        return x.astype(float)\n"
    )
    assert not run(
        f"%%pyop -q -d demo\n{body}seen = session(x=np.float32([1]))[0].dtype\nraise ValueError"
    ).ok
    assert shell.user_ns["seen"] == np.float64
    assert session(x=np.float32([1]))[0].dtype == np.float32


def test_an_interrupted_cell_leaves_the_version_before(session, run):
    assert not run(GAIN.format(line="", gain=3) + "raise KeyboardInterrupt").ok
    assert ran(session) == 2


# The value of the last expression


def test_the_last_expression_is_shown(define):
    assert define(f"%%pyop\n{TWICE}Twice().compute(21)").value == 42
    assert define(f"%%pyop\n{TWICE}Twice().compute(21);").value is None
    assert define(f"%%pyop\n{TWICE}").value is None


def test_the_last_expression_runs_once(define):
    assert define(f"%%pyop -q\n{TWICE}ran = []\nran.append(1), len(ran)").value == (None, 1)


# A cell that fails


WRONG = {
    "syntax": ("", "class Twice:\n    def compute(self, x)\n        return x\n", SyntaxError),
    "class body": (
        "",
        "class Twice:\n    limit = 1 / 0\n    def compute(self, x): ...\n",
        ZeroDivisionError,
    ),
    "schema": ("", "class Twice:\n    def compute(self, x=3): ...\n", TypeError),
    "notation": ("", "class Twice:\n    def compute(self, x: 'float33[N]'): ...\n", ValueError),
    "no compute": ("", "class Twice:\n    pass\n", TypeError),
    "option": ("--nope", TWICE, Exception),
}


@pytest.mark.parametrize("kind", WRONG)
def test_a_cell_that_fails(define, run, kind):
    line, body, error = WRONG[kind]
    define(f"%%pyop\n{TWICE}")
    good = registry["Twice"].current
    ran = run(f"%%pyop {line}\n{body}")
    assert not ran.ok
    assert isinstance(ran.error, error)
    assert ran.out.strip() + ran.err.strip()
    assert registry["Twice"].current is good
    assert len(registry) == 1
    assert define(f"%%pyop\n{TWICE}").out == "pyopnb::Twice, version 2: (x)\n"


@pytest.mark.parametrize(
    ("line", "text"),
    [
        ("--nope", "%%pyop: unrecognized arguments: --nope. Try: %%pyop?"),
        ("A B", "%%pyop: unrecognized arguments: B. Try: %%pyop?"),
        (
            "-d demo other::A",
            "%%pyop: other::A and --domain demo name two domains. Try: leave one out",
        ),
    ],
)
def test_a_wrong_line_is_one_line_and_the_body_does_not_run(run, shell, line, text):
    ran = run(f"%%pyop {line}\n{TWICE}")
    assert not ran.ok
    assert type(ran.error).__name__ == "UsageError"
    assert ran.err == f"UsageError: {text}\n"
    assert ran.out == ""
    assert "Twice" not in shell.user_ns


# By hand, and inside other magics


def test_by_hand(define):
    ran = define(
        f"get_ipython().run_cell_magic('pyop', '-d demo', {TWICE + 'Twice().compute(3)'!r})"
    )
    assert ran.out.startswith("demo::Twice, version 1: (x)\n")
    assert ran.value == 6
    assert registry["demo::Twice"].current.source == TWICE + "Twice().compute(3)\n"


# Growth


@pytest.mark.one_python  # long
def test_hundreds_of_redefinitions_leave_one_module(define):
    define(f"%%pyop -q\n{TWICE}")
    before = len(sys.modules)
    for limit in range(300):
        define(f"%%pyop -q\n{TWICE}    limit = {limit}\n")
    assert len(sys.modules) == before
    assert registry["Twice"].current.number == 301


def test_class_of_the_reference_implementation(define):
    cell = """\
    %%pyop -d demo
    from onnx.reference.op_run import OpRun
    class Inverse(OpRun):
        def _run(self, x, by=None):
            return ({} / (x + by),)
    """
    define(cell.format(1))
    assert pyopnb.call("demo::Inverse", np.float32([1]), by=1.0).tolist() == [0.5]
    define(cell.format(2))
    assert pyopnb.call("demo::Inverse", np.float32([1]), by=1.0).tolist() == [1.0]
    assert [version.number for version in registry.history("demo::Inverse")] == [1, 2]
