"""What a ``%%pyop`` cell defines, and what a failing one leaves behind."""

from __future__ import annotations

import re
import sys

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
        ("-d demo demo::Double", "demo::Double"),
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
    assert define(f"%%pyop -d demo\n{typed}").out == "demo::Twice, version 2: (x: float32[N]) -> float32[N]\n"


@pytest.mark.parametrize("quiet", ["-q", "--quiet"])
def test_quiet(define, quiet):
    assert define(f"%%pyop {quiet}\n{TWICE}").out == ""


def test_a_default_of_many_lines_is_printed_on_one(define):
    cell = "%%pyop\nimport numpy as np\nclass A:\n    def __init__(self, w=np.eye(3)): ...\n    def compute(self, x): ...\n"
    assert define(cell).out.count("\n") == 1


def test_redefinition_is_a_new_version_with_a_new_class(define, shell):
    for number in range(1, 30):  # many, because a freed class's address is soon used again
        define(f"%%pyop -q\n{TWICE}")
        assert registry["Twice"].current.number == number
        assert registry["Twice"].current.cls is shell.user_ns["Twice"]


def test_several_classes_are_several_ops(define):
    more = "class Thrice(Twice):\n    def compute(self, x):\n        return x * 3\nclass Plain:\n    pass\n"
    assert define(f"%%pyop -d demo\n{TWICE}{more}").out.count("version 1") == 2
    assert names() == ["demo::Thrice", "demo::Twice"]


def test_a_name_for_several_classes_is_refused(run):
    ran = run(f"%%pyop Name\n{TWICE}class Thrice:\n    def compute(self, x): ...\n")
    assert not ran.ok
    assert ran.err == (
        "UsageError: %%pyop Name: expected one class with compute, got Twice, Thrice. Try: one cell each, or no NAME\n"
    )
    assert names() == []


def test_when_one_of_several_is_wrong_none_is_defined(run):
    wrong = "class Wrong:\n    def compute(self, x=3): ...\n"
    ran = run(f"%%pyop\n{TWICE}{wrong}")
    assert not ran.ok
    assert "class Wrong, compute, input x: expected no default, or None for an optional input, got 3" in ran.out
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
    ids=["in a block", "made by a function", "dataclass with slots", "two names", "type()", "future"],
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
    ran = define("%%pyop -d demo\nclass A:\n    '''{limit} $limit'''\n    def compute(self, x): ...\n")
    assert "demo::A" in ran.out
    assert registry["A"].current.cls.__doc__ == "{limit} $limit"


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


def test_every_expression_is_shown_where_the_shell_is_told_to(define, shell, monkeypatch):
    monkeypatch.setattr(shell, "ast_node_interactivity", "all")
    assert re.findall(r"Out\[\d+\]: (.*)", define(f"%%pyop -q\n{TWICE}1\n2").out) == ["1", "2"]


def test_a_test_in_the_cell_guards_the_op(define, run):
    define(f"%%pyop -q\n{TWICE}")
    good = registry["Twice"].current
    for check in ("assert Twice().compute(1) == 3", "print(Twice().compute(1) + undefined)"):
        ran = run(f"%%pyop -q\n{TWICE}{check}")
        assert not ran.ok
        assert registry["Twice"].current is good


# A cell that fails


WRONG = {
    "syntax": ("", "class Twice:\n    def compute(self, x)\n        return x\n", SyntaxError),
    "class body": ("", "class Twice:\n    limit = 1 / 0\n    def compute(self, x): ...\n", ZeroDivisionError),
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
    run("%%pyop demo::Half --opset 7\nclass Half:\n    def compute(self, x): ...\nraise ValueError('half')\n")
    assert run("class Other:\n    def compute(self, x): ...\n").ok
    assert names() == []
    run("%%pyop\nclass Whole:\n    def compute(self, x): ...\n")
    assert names() == ["pyopnb::Whole"]
    assert registry["Whole"].current.opset == 1


REFUSED = {
    "class A:\n    pass\n": "DefinitionError: class A: expected a compute method, got none.",
    "class A:\n    pass\nclass B:\n    pass\n": "DefinitionError: class A, B: expected a compute method, got none.",
    "# only a comment\n": "DefinitionError: %%pyop cell: expected a class with compute, got no class.",
    "x = 1\n": "DefinitionError: %%pyop cell: expected a class with compute, got no class.",
    "class A:\n    compute = 3\n": "DefinitionError: class A: expected a method compute, got compute = 3.",
}


@pytest.mark.parametrize("body", REFUSED)
def test_a_refusal_is_one_line(run, body):
    ran = run(f"%%pyop\n{body}")
    assert not ran.ok
    assert ran.out == f"{REFUSED[body]} Try: def compute(self, x): return x\n"


@pytest.mark.parametrize(
    ("line", "text"),
    [
        ("--nope", "%%pyop: unrecognized arguments: --nope. Try: %%pyop?"),
        ("A B", "%%pyop: unrecognized arguments: B. Try: %%pyop?"),
        ("--opset x", "%%pyop: argument --opset: invalid int value: 'x'. Try: %%pyop?"),
        ("--opset 0", "%%pyop, opset: expected a number from 1 to 1000, got 0."),
        ("-d", "%%pyop: argument -d/--domain: expected one argument. Try: %%pyop?"),
        ("9x", "op name: expected domain::OpType, got '9x'. Try: \"demo::SoftClip\""),
        ("-d 'a b'", "op name: expected domain::OpType, got 'a b::Twice'. Try: \"demo::SoftClip\""),
        ("-d 'a", "No closing quotation: -d 'a"),
        ("-d demo other::A", "%%pyop: other::A and --domain demo name two domains. Try: leave one out"),
    ],
)
def test_a_wrong_line_is_one_line_and_the_body_does_not_run(run, shell, line, text):
    ran = run(f"%%pyop {line}\n{TWICE}")
    assert not ran.ok
    assert type(ran.error).__name__ == "UsageError"
    assert ran.err == f"UsageError: {text}\n".replace("a b::Twice", "a b::OpType")
    assert ran.out == ""
    assert "Twice" not in shell.user_ns


@pytest.mark.parametrize("body", ["", "\n", "\n   \n"])
def test_an_empty_body(run, body):
    ran = run(f"%%pyop{body}")
    assert not ran.ok
    assert ran.err.startswith("UsageError: %%pyop")
    assert "empty" in ran.err


def test_a_string_is_not_taken_for_a_cell_of_ours(define):
    define(f"'%%pyop -d demo'\n{TWICE}")
    assert names() == []


def test_a_comparable_magic_is_left_alone(run):
    assert "pyopera" in run(f"%%pyopera\n{TWICE}").err


# By hand, and inside other magics


def test_by_hand(define):
    ran = define(f"get_ipython().run_cell_magic('pyop', '-d demo', {TWICE + 'Twice().compute(3)'!r})")
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


def test_by_hand_an_error_can_be_caught(shell):
    with pytest.raises(TypeError, match="class A: expected a compute method"):
        shell.run_cell_magic("pyop", "", "class A: ...\n")


@pytest.mark.parametrize("outer", ["%%capture captured", "%%time"])
def test_inside_another_magic(define, outer):
    define(f"{outer}\n%%pyop -d demo\n{TWICE}")
    assert names() == ["demo::Twice"]


def test_a_cell_that_runs_a_cell(define):
    inner = "%%pyop -q\nclass Inner:\n    def compute(self, x): ...\n"
    define(f"%%pyop -d outer -q\n{TWICE}get_ipython().run_cell({inner!r})\n")
    assert names() == ["outer::Twice", "pyopnb::Inner"]


# Growth


def test_a_thousand_redefinitions_leave_one_module(define):
    define(f"%%pyop -q\n{TWICE}")
    before = len(sys.modules)
    for limit in range(1000):
        define(f"%%pyop -q\n{TWICE}    limit = {limit}\n")
    assert len(sys.modules) == before
    assert registry["Twice"].current.number == 1001


def test_what_a_listener_raises_fails_the_cell(run):
    def listener(version):
        raise RuntimeError(f"listener of {version}")

    leave = registry.subscribe(listener)
    try:
        ran = run(f"%%pyop\n{TWICE}")
    finally:
        leave()
    assert not ran.ok
    assert "RuntimeError: listener of pyopnb::Twice, version 1" in ran.out


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
