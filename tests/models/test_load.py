"""What a file keeps is shown, and nothing of it runs that was not named."""

from __future__ import annotations

import html
import inspect
import json
import re
import sys
from html.parser import HTMLParser

import numpy as np
import onnx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from small_ops import soft_clip_source

import pyopnb
from pyopnb import registry
from pyopnb.models.op_metadata import MAX_SOURCE, digest, read_ops

PREFIX = "pyopnb.op."
KEY = f"{PREFIX}demo::SoftClip"


def entry(text, **changed):
    held = {"source": text, "digest": digest(text), "schema": "(x)", "pyopnb": "0.1.0", **changed}
    return json.dumps({key: value for key, value in held.items() if value is not None})


@pytest.fixture
def file(clipper, tmp_path):
    """A file with entries of any kind."""

    def file(*entries):
        made = onnx.ModelProto()
        made.CopyFrom(clipper)
        for key, value in entries:
            made.metadata_props.add(key=key, value=value)
        (tmp_path / "clip.onnx").write_bytes(made.SerializeToString())
        return tmp_path / "clip.onnx"

    return file


@pytest.fixture
def trap(tmp_path, file):
    """A source that leaves a mark when it runs, the file that keeps it, and the mark."""
    source = f"""\
import pathlib

import numpy as np
import pyopnb

pathlib.Path({str(tmp_path / "mark")!r}).touch()


@pyopnb.pyop("demo::SoftClip"){soft_clip_source("np.minimum(x, np.float32(self.limit))")}"""
    return source, file((KEY, entry(source))), tmp_path / "mark"


def test_nothing_is_run_by_looking(trap):
    source, path, mark = trap
    loaded = pyopnb.load(path)
    shown = repr(loaded) + loaded._repr_html_()
    assert loaded.ops["demo::SoftClip"].source == source
    pyopnb.missing(loaded.model), pyopnb.save(loaded.model, path)
    assert digest(source) in shown
    assert not mark.exists()
    assert len(registry) == 0
    with pytest.raises(pyopnb.errors.UnknownName):
        pyopnb.Session(loaded.model)


@pytest.mark.parametrize("form", ["name", "digest"])
def test_what_is_named_is_run(trap, form):
    source, path, mark = trap
    loaded = pyopnb.load(path, ops=["demo::SoftClip" if form == "name" else digest(source)])
    assert mark.exists()
    assert pyopnb.run(loaded.model, x=np.float32([1, 3]))["y"].tolist() == [1, 2]
    (version,) = loaded.versions
    assert version is registry["demo::SoftClip"].current
    assert version.source == source
    assert inspect.getsource(version.cls).startswith(
        '@pyopnb.pyop("demo::SoftClip")\nclass SoftClip:'
    )
    assert version.cls.__module__ in sys.modules


@pytest.mark.parametrize(
    ("ops", "words"),
    [
        (True, "a list of names or digests, got True"),
        ("all", "a list of names or digests, got 'all'"),
        ("demo::SoftClip", "a list of names or digests"),
        ([True], "a list of names or digests"),
        ({"demo::SoftClip": True}, "a list of names or digests"),
        (None, "a list of names or digests, got None"),
        (["*"], r"the name of an op that the file keeps, or the whole digest .* got '\*'"),
        (["demo::SoftCli[p]"], "the name of an op"),
        (["all"], "the name of an op"),
        ([""], "the name of an op"),
        (["SoftClip"], "the name of an op"),
        (["sha256:" + "0" * 64], "the name of an op"),
        (["demo::SoftClip", "demo::Other"], "the name of an op"),
    ],
)
def test_no_blanket_yes(trap, ops, words):
    _, path, mark = trap
    with pytest.raises(pyopnb.errors.ModelError, match=f"load, ops: expected {words}"):
        pyopnb.load(path, ops=ops)
    assert not mark.exists()


def test_no_part_of_a_digest_will_do(trap):
    source, path, mark = trap
    for wrong in (
        digest(source)[:-1],
        digest(source)[:19],
        digest(source).upper(),
        digest(source)[7:],
    ):
        with pytest.raises(pyopnb.errors.ModelError, match="load, ops"):
            pyopnb.load(path, ops=[wrong])
    assert not mark.exists()


SOURCE = "x = 1\n"

BAD = {
    "not JSON": ([(KEY, "{")], "JSON with source"),
    "a list": ([(KEY, "[1]")], "JSON with source"),
    "empty": ([(KEY, "")], "JSON with source, .*, got nothing"),
    "deep": ([(KEY, "[" * 100_000)], "JSON with source"),
    "a field is missing": ([(KEY, entry(SOURCE, digest=None))], "JSON with source"),
    "a number for a source": (
        [(KEY, json.dumps({"source": 1, "digest": "", "schema": "", "pyopnb": ""}))],
        "JSON with",
    ),
    "a key twice in it": ([(KEY, '{"source": "a", ' + entry(SOURCE)[1:])], "JSON with source"),
    "an entry twice": ([(KEY, entry(SOURCE))] * 2, "expected one entry, got two"),
    "tampered": (
        [(KEY, entry(SOURCE, source="import os\n"))],
        "a source with the digest sha256:.*, got sha256:",
    ),
    "another digest": (
        [(KEY, entry(SOURCE, digest="sha256:" + "0" * 64))],
        "a source with the digest",
    ),
    "too long": ([(KEY, entry("#" * MAX_SOURCE))], f"at most {MAX_SOURCE} characters"),
    "a carriage return": (
        [(KEY, entry("# a\rimport os\n"))],
        r"a source of plain lines, got the character \\r in it",
    ),
    "an escape": ([(KEY, entry("#\x1b[2K\n"))], r"the character \\x1b in it"),
    "half a character": (
        [(KEY, entry(SOURCE).replace("x = 1", "\\ud800"))],
        "JSON with source|plain lines",
    ),
    "a strange name": ([(f"{PREFIX}de\x1bmo::A", entry(SOURCE))], "expected domain::OpType"),
    "no domain": ([(f"{PREFIX}A", entry(SOURCE))], "expected domain::OpType"),
    "a path": ([(f"{PREFIX}../a::A", entry(SOURCE))], "expected domain::OpType"),
    "a long name": ([(f"{PREFIX}a::{'A' * 300}", entry(SOURCE))], "expected domain::OpType"),
}


@pytest.mark.parametrize("kind", BAD)
def test_a_hostile_entry(file, kind):
    entries, words = BAD[kind]
    with pytest.raises(
        pyopnb.errors.ModelError, match=f"as the model keeps it: .*({words})"
    ) as raised:
        pyopnb.load(file(*entries), ops=["demo::SoftClip"])
    assert "\x1b" not in str(raised.value)
    assert len(str(raised.value)) < 800


@pytest.mark.one_python  # of our own reading and writing; no library's version changes it
@given(
    st.text()
    | st.recursive(
        st.none() | st.booleans() | st.text(), lambda inner: st.dictionaries(st.text(), inner)
    ).map(json.dumps)
)
def test_any_entry_is_read_or_refused(text):
    model = onnx.ModelProto()
    model.metadata_props.add(key=KEY, value=text.encode("utf-8", "ignore").decode())
    try:
        (op,) = read_ops(model).values()
    except pyopnb.errors.ModelError:
        return
    assert digest(op.source) == op.digest


@pytest.mark.parametrize(
    ("source", "error", "words"),
    [
        ("1 / 0\n", ZeroDivisionError, "division"),
        ("def\n", SyntaxError, "invalid syntax"),
        (
            "x = 1\n",
            pyopnb.errors.ModelError,
            "expected a source that defines this op alone, got none",
        ),
        (
            "import pyopnb\n@pyopnb.pyop('::Relu')\nclass A:\n    def compute(self, x): ...\n",
            pyopnb.errors.ModelError,
            "got ::Relu",
        ),
        (
            "import pyopnb\n@pyopnb.pyop('demo::SoftClip')\n@pyopnb.pyop('::Relu')\nclass A:\n    def compute(self, x): ...\n",
            pyopnb.errors.ModelError,
            "got ::Relu, demo::SoftClip",
        ),
        (
            "import pyopnb\n@pyopnb.pyop('demo::SoftClip')\nclass A: ...\n",
            pyopnb.errors.DefinitionError,
            "compute",
        ),
    ],
)
def test_a_source_that_does_not_define_the_op(file, soft_clip, source, error, words):
    with pytest.raises(error, match=words):
        pyopnb.load(file((KEY, entry(source))), ops=["demo::SoftClip"])
    assert [op.name for op in registry] == ["demo::SoftClip"]
    assert registry["demo::SoftClip"].versions == (soft_clip,)


def test_the_schema_and_the_version_that_it_was_run_as(soft_clip, clipper, tmp_path):
    path = tmp_path / "clip.onnx"
    pyopnb.save(clipper, path)
    assert "  (x)<limit: float = 1.0>" in repr(pyopnb.load(path))
    loaded = pyopnb.load(path, ops=["demo::SoftClip"])
    assert "run, now version 2" in repr(loaded)
    assert repr(loaded).endswith("Ran demo::SoftClip, version 2.")


# ---- what is shown -----------------------------------------------------------------------------------------------------------

HOSTILE = "x = '</pre><script>alert(1)</script>\u202e'\n" + "y = 1;" + " " * 5000 + "import os\n"


class Tags(HTMLParser):
    def __init__(self):
        super().__init__()
        self.names, self.text = set(), ""

    def handle_starttag(self, tag, attrs):
        self.names.add(tag)
        assert {name for name, _ in attrs} <= {"style", "open"}

    def handle_data(self, data):
        self.text += data


def test_text_and_html_hide_nothing(file):
    path = file((KEY, entry(HOSTILE, schema="<b>\x1b[31m")))
    loaded = pyopnb.load(path)
    tags = Tags()
    tags.feed(loaded._repr_html_())
    assert tags.names <= {"div", "details", "summary", "b", "pre"}
    for shown in (repr(loaded), tags.text):
        assert "</pre><script>alert(1)</script>\\u202e'" in shown
        assert " " * 5000 + "import os" in shown
        assert "\x1b" not in shown and "\u202e" not in shown
        assert f'pyopnb.load({str(path)!r}, ops=["demo::SoftClip"])' in shown
        assert digest(HOSTILE) in shown
        assert "Nothing of this was run" in shown
    style = re.search(r"<pre style=\"([^\"]*)\"", loaded._repr_html_())[1]
    assert "pre-wrap" in style, "what stands far to the right must not be out of sight"


def test_the_data_of_a_fitted_estimator_is_one_line(file):
    blob = "\n".join(f"        '{'c-n=B)7pX2' * 10}'" for _ in range(50))
    source = f"class A:\n    stored = (\n{blob}\n    )\n    after = 1\n"
    loaded = pyopnb.load(file((KEY, entry(source))))
    assert "c-n=B" not in repr(
        loaded
    ) and "50 lines of data, 5,550 characters, are NOT shown: print(" in repr(loaded)
    assert "after = 1" in repr(loaded)
    assert next(iter(loaded.ops.values())).source == source


@pytest.mark.parametrize(
    "source",
    [
        "class A:\n    x = '\\\n{blob}\n    )\n",  # a string that does not end: a seeming literal is code
        "class A:\n    stored = (\n{blob}\n        + print('hi')\n    )\n",
        "class A:\n    stored = (\n{blob}'\n    )\n",
    ],
)
def test_what_may_be_code_is_shown(file, source):
    blob = "\n".join(f"        ';exec(bytes([112])){number}#{'x' * 60}'" for number in range(9))
    loaded = pyopnb.load(file((KEY, entry(source.replace("{blob}", blob)))))
    assert repr(loaded).count("exec(bytes") == 9


def test_what_is_too_long_to_be_shown_says_so(file):
    source = "# line\n" * 20_000
    loaded = pyopnb.load(file((KEY, entry(source)), (f"{PREFIX}demo::B", entry("hidden = 1\n"))))
    for shown in (repr(loaded), html.unescape(loaded._repr_html_())):
        assert len(shown) < 200_000
        assert shown.count("are NOT shown: print(….ops['demo::") == 2


def test_a_model_without_ops_from_memory(clipper):
    loaded = pyopnb.load(clipper)
    assert repr(loaded) == "model: (x: float32[N]) -> (y: float32[N]), 1 node\nIt keeps no op."
    assert loaded.model is not clipper
    with pytest.raises(pyopnb.errors.ModelError, match="an op that the file keeps"):
        pyopnb.load(clipper, ops=["demo::A"])


@pytest.mark.parametrize(
    "invisible",
    ["\u3164", "\ufe00", "\ufe0f", "\u115f", "\u034f", "\u2800", "\uffa0", "\u200b", "\U000e0101"],
)
def test_what_nobody_sees_is_escaped(file, invisible):
    source = f"allowed = True\nallowed{invisible} = False  # {invisible}\n"
    loaded = pyopnb.load(
        file(
            (KEY, entry(source, schema=f"(x{invisible})")),
            (f"{PREFIX}demo::B", entry("é = '日本'\n")),
        )
    )
    for shown in (repr(loaded), html.unescape(loaded._repr_html_())):
        assert invisible not in shown
        assert f"allowed{invisible.encode('unicode_escape').decode()} = False" in shown
        assert "é = '日本'" in shown
