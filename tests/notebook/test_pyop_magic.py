"""``%pyop``: inspecting and restoring versions, help, completion."""

from __future__ import annotations

import re
from html.parser import HTMLParser

import pytest
from IPython.core.completer import provisionalcompleter
from small_ops import soft_clip_cell

import pyopnb
from pyopnb import registry
from pyopnb.notebook.commands import COMMANDS
from pyopnb.notebook.table import Source
from pyopnb.ops.text_table import Table

HOSTILE = "<script>alert(1)</script>\"'&\u202e\x1b[31m"


@pytest.fixture
def ops(define):
    define(soft_clip_cell())
    define(
        "%%pyop -d demo -q\nclass SoftClip:\n    '''Second.'''\n    def compute(self, x: 'float32[N]'): ...\n"
    )
    define("%%pyop -q --opset 4\nclass Other:\n    def compute(self, *xs): ...\n")


# Tables


def test_the_registry(ops, define):
    table = define("%pyop").value
    head, *rows = repr(table).split("\n")
    assert head.split() == ["op", "version", "schema", "opset", "defined"]
    assert re.fullmatch(
        r"demo::SoftClip  2 +\(x: float32\[N\]\)  1 +\d{4}-\d\d-\d\d \d\d:\d\d:\d\d", rows[0]
    )
    assert re.fullmatch(r"pyopnb::Other   1 +\(\*xs\) +4 +\d{4}-.*", rows[1])


def test_an_empty_registry(define):
    table = define("%pyop").value
    assert repr(table) == "No op is defined. Try: %%pyop in a cell"
    assert table._repr_html_() == "<div>No op is defined. Try: %%pyop in a cell</div>"


def test_history(ops, define):
    define("%pyop rollback demo::SoftClip 1")
    head, *rows = repr(define("%pyop history demo::SoftClip").value).split("\n")
    assert [row.split()[1] for row in rows] == ["1", "2", "3"]
    assert head.endswith("restored from")
    assert rows[2].endswith("version 1")
    assert not rows[1].endswith("version 1")


class Tags(HTMLParser):
    def __init__(self):
        super().__init__()
        self.names, self.styles, self.text = set(), "", ""

    def handle_starttag(self, tag, attrs):
        self.names.add(tag)
        assert {name for name, _ in attrs} <= {"style"}
        self.styles += "".join(value for _, value in attrs) + ";"

    def handle_data(self, data):
        self.text += data


@pytest.mark.parametrize(
    "shown",
    [Table((HOSTILE, "b"), [(HOSTILE, HOSTILE * 50)]), Table(("a",), [], HOSTILE), Source(HOSTILE)],
)
def test_html_lets_nothing_through(shown):
    tags = Tags()
    tags.feed(shown._repr_html_())
    assert tags.names <= {"table", "thead", "tbody", "tr", "th", "td", "div", "pre"}
    assert "<script>alert(1)</script>\"'&\\u202e\\x1b[31m" in tags.text
    assert not re.search(r"(^|;)\s*(color|background)", tags.styles)
    if isinstance(shown, Table):
        assert "\x1b" not in repr(shown)
        assert "\u202e" not in repr(shown)


def test_html_of_the_registry_has_what_the_text_has(ops, define):
    table = define("%pyop").value
    tags = Tags()
    tags.feed(table._repr_html_())
    assert tags.text == "".join("".join(row) for row in (table.head, *table.rows))
    assert tags.names == {"table", "thead", "tbody", "tr", "th", "td"}


def test_a_table_with_many_lines_in_a_cell_stays_a_table():
    assert repr(Table(("a", "b"), [("one\ntwo", "c")])) == "a        b\none two  c"


# Subcommands


def test_remove(ops, define, run):
    said = define("%pyop remove SoftClip").out
    assert said == "demo::SoftClip is removed. Sessions that use it keep version 2\n"
    assert "demo::SoftClip" not in [op.name for op in registry]
    assert (
        "UnknownOp: op SoftClip: expected an op of the registry" in run("%pyop remove SoftClip").out
    )


def test_rollback(ops, define):
    assert (
        define("%pyop rollback demo::SoftClip").out
        == "demo::SoftClip, version 3: (x)<limit: float = 1.0>\n"
    )
    assert registry["demo::SoftClip"].current.restored == 1


def test_the_domain_may_be_left_out_while_one_op_has_the_type(ops, define):
    assert (
        "version 2"
        in define("%pyop rollback SoftClip 2").out + define("%pyop history SoftClip").out
    )


def test_source(ops, define):
    assert "Second." in repr(define("%pyop source demo::SoftClip").value)
    first = define("%pyop source demo::SoftClip 1").value
    assert repr(first) == registry.history("demo::SoftClip")[0].source
    assert first._repr_html_().startswith("<pre style=")


def test_a_long_line_of_source_is_not_cut():
    assert "y" * 1000 in Source("y" * 1000)._repr_html_()
    assert "    x" in Source("\tx")._repr_html_()


@pytest.mark.parametrize(
    ("line", "text"),
    [
        (
            "histroy A",
            f"%pyop: expected {', '.join(COMMANDS)} or nothing, got histroy. Try: %pyop history OP\n",
        ),
        (
            "history",
            "%pyop history: the following arguments are required: OP. Try: %pyop history OP",
        ),
        ("history A 1", "%pyop history: unrecognized arguments: 1. Try: %pyop history OP"),
        (
            "source A B",
            "%pyop source: argument N: invalid int value: 'B'. Try: %pyop source OP [N]",
        ),
        ("rollback A 1 2", "%pyop rollback: unrecognized arguments: 2. Try: %pyop rollback OP [N]"),
        (
            "skeleton m",
            "%pyop skeleton: the following arguments are required: NODE. Try: %pyop skeleton MODEL NODE",
        ),
        (
            "missing",
            "%pyop missing: the following arguments are required: MODEL. Try: %pyop missing MODEL",
        ),
        ("source 'A", "No closing quotation: 'A"),
    ],
)
def test_a_wrong_line(run, line, text):
    ran = run(f"%pyop {line}")
    assert not ran.ok
    assert ran.err.startswith(f"UsageError: {text}")
    assert ran.err.count("\n") == 1
    assert ran.out == ""


@pytest.mark.parametrize(
    ("line", "text"),
    [
        (
            "history demo::SoftClap",
            "UnknownOp: op demo::SoftClap: expected an op of the registry, got demo::SoftClap. Try: demo::SoftClip\n",
        ),
        (
            "source SoftClip 9",
            "UnknownOp: op demo::SoftClip: expected one of versions 1, 2, got 9. Try: 2\n",
        ),
        (
            "rollback SoftClip 9",
            "UnknownOp: op demo::SoftClip, rollback: expected one of versions 1, 2, got 9. Try: 2\n",
        ),
    ],
)
def test_what_the_registry_does_not_have(ops, run, line, text):
    ran = run(f"%pyop {line}")
    assert not ran.ok
    assert ran.out == text


def test_a_version_without_source(run):
    registry.define(type("Made", (), {"compute": lambda self, x: x}))
    ran = run("%pyop source Made")
    assert (
        ran.out
        == "UnknownOp: pyopnb::Made, version 1: expected its source, got a class whose source was not recorded.\n"
    )


# Help


@pytest.mark.parametrize("asked", ["%%pyop?", "%pyop?"])
def test_help(run, asked):
    out = run(asked).out
    assert "%%pyop [-d DOMAIN] [--opset N] [--module MODULE] [-q] [--run" in out
    assert "class SoftClip:" in out
    for word in (
        "--domain",
        "--opset",
        "--module",
        "--quiet",
        *(command.usage for command in COMMANDS.values()),
    ):
        assert word in out


# Completion


def offered(shell, text, cursor=None):
    with provisionalcompleter():
        return [
            match.text
            for match in shell.Completer.completions(text, len(text) if cursor is None else cursor)
        ]


OPTIONS = ["--domain", "--module", "--opset", "--quiet", "--run", "-d", "-q"]
OPS = ["demo::SoftClip", "pyopnb::Other"]


@pytest.mark.parametrize(
    ("text", "matches"),
    [
        ("%%pyop -", OPTIONS),
        ("%%pyop --", OPTIONS[:5]),
        ("%%pyop --d", ["--domain"]),
        ("%%pyop ", [*OPTIONS, *OPS]),
        ("%%pyop de", ["demo::SoftClip"]),
        ("%%pyop demo::S", ["demo::SoftClip"]),
        ("%%pyop -d ", ["demo", "pyopnb"]),
        ("%%pyop --domain p", ["pyopnb"]),
        ("%%pyop -q -d demo --o", ["--opset"]),
        ("%pyop ", list(COMMANDS)),
        ("%pyop ro", ["rollback"]),
        ("%pyop history ", OPS),
        ("%pyop history pyopnb::", ["pyopnb::Other"]),
        ("%pyop rollback demo::SoftClip ", ["1", "2"]),
        ("x = 1\n%pyop so", ["source"]),
    ],
)
def test_completion(ops, shell, text, matches):
    assert sorted(offered(shell, text)) == sorted(matches)


def test_completion_replaces_the_whole_name(ops, shell):
    with provisionalcompleter():
        (match,) = shell.Completer.completions("%%pyop demo::So", 15)
    assert (match.start, match.end, match.text) == (7, 15, "demo::SoftClip")


def test_the_body_is_completed_as_python(ops, shell):
    shell.user_ns["a_long_name"] = 1
    assert "a_long_name" in offered(shell, "%%pyop -d demo\na_long_n")
    assert offered(shell, "%%pyop\n%%pyop --d") != ["--domain"]
    assert "a_long_name" in offered(shell, "a_long_n")
    assert "%pyop" in offered(shell, "%pyo")


# ---- what is missing ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def clipper(shell, tmp_path, monkeypatch):
    """A model in a variable of the notebook and in a file of the working folder."""
    model = pyopnb.model(pyopnb.node("Erf", "x", "y"), {"x": "float32[N]"}, "y")
    model.graph.node[0].op_type = "Erff"
    monkeypatch.chdir(tmp_path)
    (tmp_path / "sub").mkdir()
    for place in (tmp_path, tmp_path / "sub"):
        (place / "clip.onnx").write_bytes(model.SerializeToString())
        (place / "clip.txt").write_text("")
    shell.push({"clipper": model, "clipping": 3, "path": tmp_path / "clip.onnx"})
    return model


@pytest.mark.parametrize("model", ["clipper", "path", "clip.onnx", "sub/clip.onnx"])
def test_missing_takes_a_name_or_a_path(clipper, run, model):
    assert repr(run(f"%pyop missing {model}").value) == repr(pyopnb.missing(clipper))


def test_missing_of_neither(clipper, run):
    ran = run("%pyop missing clipping")
    assert not ran.ok
    assert ran.out.startswith("ModelError: Load model clipping failed. File doesn't exist.")


@pytest.mark.parametrize(
    ("fragment", "matches"),
    [
        ("cl", ["clip.onnx", "clipper"]),
        ("s", ["sub/"]),
        ("sub/", ["sub/clip.onnx"]),
        ("sub/clip.o", ["sub/clip.onnx"]),
    ],
)
def test_completion_of_models(clipper, shell, fragment, matches):
    assert sorted(offered(shell, f"%pyop missing {fragment}")) == matches


# ---- the cell for a node -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "line",
    ["%pyop skeleton m Celu", "pyopnb.skeleton(m, 'Celu')", "print(1); pyopnb.skeleton(m, 'y')"],
)
def test_skeleton_puts_a_cell_below_that_runs_as_written(shell, run, line):
    shell.user_ns |= {
        "m": pyopnb.model(
            pyopnb.node("Celu", "x", "y", alpha=2.0),
            {"x": "float64[N]"},
            {"y": "float64[N]"},
            opset=12,
        ),
        "pyopnb": pyopnb,
    }
    ran = run(line)
    assert "Celu" not in ran.out
    cell = shell.rl_next_input
    assert cell == pyopnb.skeleton(shell.user_ns["m"], "Celu")
    shell.set_next_input("")
    run(cell)
    assert pyopnb.Session(shell.user_ns["m"])(x=[2.0])["y"].tolist() == [2]


def test_skeleton_of_no_node(shell, run):
    shell.user_ns["m"] = pyopnb.model(pyopnb.node("Abs", "x", "y"), {"x": "float32[N]"}, "y")
    ran = run("%pyop skeleton m Bas")
    assert "got none of these" in str(ran.error)
