"""What a ``%%pyop`` cell defines, and what a failing one leaves behind."""

from __future__ import annotations

import sys

import numpy as np
import pytest

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


def test_the_version(define, shell):
    define(f"%%pyop -d demo --opset 3 --module old\n{TWICE}")
    version = registry["demo::Twice"].current
    assert version.cls is shell.user_ns["Twice"]
    assert version.opset == 3
    assert version.source == TWICE
    assert registry.find_class("old", "Twice") is registry["demo::Twice"]


def test_it_prints_what_it_defined(define):
    typed = TWICE.replace("x)", "x: 'float32[N]') -> 'float32[N]'")
    define(f"%%pyop -d demo\n{TWICE}")
    assert (
        define(f"%%pyop -d demo\n{typed}").out
        == "demo::Twice, version 2: (x: float32[N]) -> float32[N]\n"
    )


@pytest.mark.parametrize("quiet", ["-q", "--quiet"])
def test_quiet(define, quiet):
    assert define(f"%%pyop {quiet}\n{TWICE}").out == ""


def test_redefinition_is_a_new_version_with_a_new_class(define, shell):
    for number in range(1, 30):  # many, because a freed class's address is soon used again
        define(f"%%pyop -q\n{TWICE}")
        assert registry["Twice"].current.number == number
        assert registry["Twice"].current.cls is shell.user_ns["Twice"]


def test_several_classes_are_several_ops(define):
    more = "class Thrice(Twice):\n    def compute(self, x):\n        return x * 3\nclass Plain:\n    pass\n"
    assert define(f"%%pyop -d demo\n{TWICE}{more}").out.count("version 1") == 2
    assert names() == ["demo::Thrice", "demo::Twice"]


def test_when_one_of_several_is_wrong_none_is_defined(run):
    wrong = "class Wrong:\n    def compute(self, x=3): ...\n"
    ran = run(f"%%pyop\n{TWICE}{wrong}")
    assert not ran.ok
    assert (
        "class Wrong, compute, input x: expected no default, or None for an optional input, got 3"
        in ran.out
    )
    assert names() == []


def test_what_the_cell_did_not_bind_is_no_op(define):
    define("class Base:\n    def compute(self, x):\n        return x\n")
    define("%%pyop\nfrom fractions import Fraction\nclass Derived(Base):\n    pass\n")
    assert names() == ["pyopnb::Derived"]


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


def test_a_deleted_name_is_no_op(run):
    ran = run(f"%%pyop\n{TWICE}del Twice\n")
    assert not ran.ok


def test_ipython_syntax_works_in_the_body(define):
    define(f"%%pyop\nfound = !echo hello\n%time 1\n{TWICE}")
    assert registry["Twice"].current.source.endswith(TWICE)


def test_text_is_not_expanded(define):
    ran = define(
        "%%pyop -d demo\nclass A:\n    '''{limit} $limit'''\n    def compute(self, x): ...\n"
    )
    assert "demo::A" in ran.out
    assert registry["A"].current.cls.__doc__ == "{limit} $limit"


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


def test_each_of_two_classes_is_defined_at_its_end(session, define, shell):
    more = "seen = ['Other' in pyopnb.registry]\nclass Other(Gain): ...\nseen.append('Other' in pyopnb.registry)"
    define(GAIN.format(line="", gain=3) + more)
    assert shell.user_ns["seen"] == [False, True]


def test_a_class_inside_a_class_or_function_is_no_op(define):
    inner = "class Inner:\n        def compute(self, x): ...\n"
    define(f"%%pyop -q\n{TWICE}    {inner}\ndef made():\n    {inner}made()\n")
    assert names() == ["pyopnb::Twice"]


def test_an_attribute_that_is_set_after_the_class_counts(define):
    define(f"%%pyop -q\n{TWICE}Twice.copy_inputs = True\n")
    assert registry["Twice"].current.schema.copy_inputs


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


def test_a_failed_first_version_is_not_defined(define, run):
    define("import numpy as np, pyopnb")
    failed = run(GAIN.format(line="", gain=3) + "1 / 0")
    assert (
        "demo::Gain, version 1 is withdrawn because its cell failed; the op is not defined\n"
        in failed.out
    )
    assert names() == []
    assert "withdrawn" not in run(GAIN.format(line=" -q", gain=3) + "1 / 0").out


def test_an_interrupted_cell_leaves_the_version_before(session, run):
    assert not run(GAIN.format(line="", gain=3) + "raise KeyboardInterrupt").ok
    assert ran(session) == 2


def test_what_else_a_failed_cell_defined_stays(session, run):
    decorated = "@pyopnb.pyop('demo::Other')\nclass Other:\n    def compute(self, x): ...\n"
    inner = (
        "get_ipython().run_cell('%%pyop -q -d demo\\nclass Inner:\\n    def compute(self, x): ...')"
    )
    assert not run(GAIN.format(line="", gain=3) + f"{decorated}{inner}\n1 / 0").ok
    assert names() == ["demo::Gain", "demo::Inner", "demo::Other"]
    assert ran(session) == 2


# The value of the last expression


def test_the_last_expression_is_shown(define):
    assert define(f"%%pyop\n{TWICE}Twice().compute(21)").value == 42
    assert define(f"%%pyop\n{TWICE}Twice().compute(21);").value is None
    assert define(f"%%pyop\n{TWICE}").value is None


def test_the_last_expression_runs_once(define):
    assert define(f"%%pyop -q\n{TWICE}ran = []\nran.append(1), len(ran)").value == (None, 1)


def test_the_last_expression_may_wait(define):
    waits = "async def twice(x):\n    return Twice().compute(x)\n"
    assert define(f"%%pyop\n{TWICE}{waits}await twice(4)").value == 8
    assert names() == ["pyopnb::Twice"]


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


def test_the_next_cell_does_not_define_the_class_of_a_failed_cell(run):
    run(
        "%%pyop demo::Half --opset 7\nclass Half:\n    def compute(self, x): ...\nraise ValueError('half')\n"
    )
    assert run("class Other:\n    def compute(self, x): ...\n").ok
    assert names() == []
    run("%%pyop\nclass Whole:\n    def compute(self, x): ...\n")
    assert names() == ["pyopnb::Whole"]
    assert registry["Whole"].current.opset == 1


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


@pytest.mark.parametrize("kind", WRONG)
def test_by_hand_an_error_is_raised_once(run, kind):
    line, body, error = WRONG[kind]
    ran = run(f"get_ipython().run_cell_magic('pyop', {line!r}, {body!r})")
    assert not ran.ok
    assert isinstance(ran.error, error)
    assert (ran.out + ran.err).count(f"{type(ran.error).__name__}: ") == 1
    assert names() == []


@pytest.mark.parametrize("outer", ["%%capture captured", "%%time"])
def test_inside_another_magic(define, outer):
    define(f"{outer}\n%%pyop -d demo\n{TWICE}")
    assert names() == ["demo::Twice"]


# Growth


@pytest.mark.one_python  # long
def test_hundreds_of_redefinitions_leave_one_module(define):
    define(f"%%pyop -q\n{TWICE}")
    before = len(sys.modules)
    for limit in range(300):
        define(f"%%pyop -q\n{TWICE}    limit = {limit}\n")
    assert len(sys.modules) == before
    assert registry["Twice"].current.number == 301


# Waiting for the rest of a cell at a prompt


@pytest.mark.parametrize(
    ("typed", "status"),
    [
        ("%%pyop", "incomplete"),
        ("%%pyop -d demo\n", "incomplete"),
        ("%%pyop\nclass A:", "incomplete"),
        ("%%pyop\n" + TWICE.rstrip(), "incomplete"),
        ("%%pyop\n" + TWICE + "\n", "complete"),
        ("%%pyop\nx = = 1\n\n", "invalid"),
    ],
)
def test_is_complete(shell, typed, status):
    assert shell.check_complete(typed)[0] == status
