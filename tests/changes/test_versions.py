"""What changed between two versions of an op."""

import json

import pytest

import pyopnb
from pyopnb.changes.versions import OpDiff

FIRST = "class Clip:\n    def __init__(self, limit: float = 1.0): self.limit = limit\n    def compute(self, x): return x\n"


def define(source, name="demo::Clip", **options):
    namespace = {}
    exec(source, namespace)
    return pyopnb.registry.define(namespace["Clip"], name, source=source, **options)


def test_lines_and_schema():
    a = define(FIRST)
    b = define(FIRST.replace("limit: float = 1.0", "limit: float = 2.0, mode: str = 'a'").replace("return x", "return -x"))
    found = pyopnb.diff(a, b)
    assert (found.verdict, found.ok) == ("different", False)
    assert found.schema == ("attr limit: float = 1.0 → limit: float = 2.0", "attr + mode: str = 'a'")
    assert "-    def compute(self, x): return x" in found.lines and "+    def compute(self, x): return -x" in found.lines
    text = str(found).splitlines()
    assert text[0] == "different: demo::Clip, version 1 → demo::Clip, version 2"
    assert "+    def compute(self, x): return -x" in text and len(text) <= 12


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("compute(self, x)", "compute(self, x, y=None)", ("input + y = None",)),
        ("compute(self, x)", 'compute(self, x: "float32[N]")', ("input x → x: float32[N]",)),
        ("compute(self, x)", 'compute(self, x) -> "float32[N]"', ("outputs without a hint → float32[N]",)),
        ("class Clip:\n", "class Clip:\n    serial = True\n", ("serial came",)),
        ("limit: float = 1.0", "**attrs", ("attr - limit: float = 1.0", "**attrs came")),
        ("class Clip:\n", "class Clip:\n    def infer(self, x): return x\n", ("infer came",)),
    ],
)
def test_each_part_of_the_schema(old, new, said):
    a, b = define(FIRST), define(FIRST.replace(old, new).replace("self.limit = limit", "pass"))
    assert pyopnb.diff(a, b).schema == said


def test_comments_and_layout_are_no_change():
    a, b = define(FIRST), define(FIRST.replace("return x", "return (x)  # as it is"))
    found = pyopnb.diff(a, b)
    assert found.ok and found.same_code and found.lines
    assert str(found).startswith("identical: demo::Clip, version 1 → demo::Clip, version 2: only comments or layout changed")
    assert pyopnb.diff(a, a).lines == ()


def test_an_op_means_its_current_version_and_a_rollback_is_no_change():
    a = define(FIRST)
    define(FIRST.replace("return x", "return -x"))
    c = pyopnb.registry.rollback("demo::Clip", 1)
    assert pyopnb.diff(a, pyopnb.registry["demo::Clip"]).b.number == c.number
    assert pyopnb.diff(a, c).verdict == "identical"


def test_a_source_that_was_not_kept_is_said():
    a = define(FIRST)
    namespace = {}
    exec(FIRST, namespace)
    b = pyopnb.registry.define(namespace["Clip"], "demo::Clip")
    found = pyopnb.diff(a, b)
    assert found.verdict == "different" and "the source of demo::Clip, version 2 was not kept" in str(found)


def test_many_lines_are_cut():
    a = define(FIRST)
    b = define(FIRST + "".join(f"    def m{n}(self): return {n}\n" for n in range(50)))
    text = str(pyopnb.diff(a, b)).splitlines()
    assert len(text) <= 12 and text[-1] == f"… and {50 - (len(text) - 2)} more lines"


def test_json_reads_back():
    a, b = define(FIRST), define(FIRST.replace("return x", "return -x"), opset=2)
    found = pyopnb.diff(a, b)
    assert OpDiff.from_json(found.to_json()) == found
    for wrong in ("{}", "[]", found.to_json().replace('"version": 1', '"version": 2'), json.dumps({"format": 1}), "nonsense"):
        with pytest.raises(pyopnb.FeedError, match="OpDiff.from_json: expected JSON with format"):
            OpDiff.from_json(wrong)


def test_neither_true_nor_false():
    a = define(FIRST)
    with pytest.raises(TypeError, match="neither true nor false"):
        bool(pyopnb.diff(a, a))
