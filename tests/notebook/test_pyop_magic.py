"""``%pyop``: inspecting and restoring versions, help, completion."""

from __future__ import annotations

import os
import re
from html.parser import HTMLParser

import pytest
from IPython.core.completer import provisionalcompleter
from small_ops import soft_clip_cell

import pyopnb
from pyopnb import registry
from pyopnb.common.text_table import Table
from pyopnb.notebook.commands import COMMANDS

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
        assert {name for name, _ in attrs} <= {"style", "class"}
        self.styles += "".join(value for _, value in attrs) + ";"

    def handle_data(self, data):
        self.text += data


@pytest.mark.parametrize(
    "shown",
    [Table((HOSTILE, "b"), [(HOSTILE, HOSTILE * 50)]), Table(("a",), [], HOSTILE)],
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


# Subcommands


def test_remove(ops, define, run):
    said = define("%pyop remove SoftClip").out
    assert said == "demo::SoftClip is removed. Sessions that use it keep version 2\n"
    assert "demo::SoftClip" not in [op.name for op in registry]
    assert (
        "UnknownName: op SoftClip: expected an op of the registry"
        in run("%pyop remove SoftClip").out
    )


def test_rollback(ops, define):
    assert (
        define("%pyop rollback demo::SoftClip").out
        == "demo::SoftClip, version 3: (x)<limit: float = 1.0>\n"
    )
    assert registry["demo::SoftClip"].current.restored == 1


def test_source(ops, define):
    assert "Second." in define("%pyop source demo::SoftClip").out
    first = define("%pyop source demo::SoftClip 1").out
    assert first.strip() == registry.history("demo::SoftClip")[0].source.strip()


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
        ("%pyop rollback Soft", ["SoftClip"]),
        ("%pyop rollback demo::SoftClip ", ["1", "2"]),
        ("x = 1\n%pyop so", ["source"]),
    ],
)
def test_completion(ops, shell, text, matches):
    assert sorted(offered(shell, text)) == sorted(matches)


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
        (place / "clip.txt").write_text("", encoding="utf-8")
    shell.push({"clipper": model, "clipping": 3, "path": tmp_path / "clip.onnx"})
    return model


@pytest.mark.parametrize(
    ("fragment", "matches"),
    [
        ("cl", ["clip.onnx", "clipper"]),
        ("s", [f"sub{os.sep}"]),
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
