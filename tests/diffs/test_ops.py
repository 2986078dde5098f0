"""Two versions of an op: what changed, in words and line by line."""

from __future__ import annotations

import pytest
from small_ops import soft_clip_source

import pyopnb
from pyopnb import registry

CLIP = soft_clip_source("x").lstrip()


def define(source, name="demo::SoftClip", **options):
    held = {}
    exec(source, held)
    return registry.define(
        next(v for v in held.values() if isinstance(v, type)), name, source=source, **options
    )


def between(old, new):
    return pyopnb.diff(define(old), define(new))


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("limit: float = 1.0", "limit: float = 2.0", "attr limit: float = 1.0 → limit: float = 2.0"),
        ("limit: float = 1.0", "limit: int = 1", "attr limit: float = 1.0 → limit: int = 1"),
        ("limit: float = 1.0", "limit: float = 1.0, mode: str = 'a'", "attr mode: str = 'a': only in b"),
        ("self, x)", "self, x, y=None)", "input 1: y = None: only in b"),
        ("self, x)", "self, x: 'float32[N]')", "input 0: x → x: float32[N]"),
        ("self, x)", "self, x) -> 'float32[N]'", "outputs: as many as the node has → float32[N]"),
        ("class SoftClip:\n", "class SoftClip:\n    serial = True\n", "serial: only in b"),
    ],
)  # fmt: skip
def test_the_schema_in_words(old, new, said):
    found = between(CLIP, CLIP.replace(old, new))
    assert found.schema == (said,) and found.verdict == "different" and not found.ok
    assert said in str(found)


def test_the_source_line_by_line():
    found = between(CLIP, CLIP.replace("return x", "return -x"))
    assert found.schema == () and found.same_code is False
    assert [line for line in found.source if line[0] in "+-"] == [
        "-        return x",
        "+        return -x",
    ]
    assert (
        str(found).splitlines()[0]
        == "different: demo::SoftClip, version 1 against demo::SoftClip, version 2"
    )


def test_comments_and_blank_lines_are_the_same_code():
    found = between(CLIP, CLIP.replace("return x", "# as it is\n\n        return x"))
    assert found.verdict == "identical" and found.ok and found.source and "same code" in str(found)


def test_an_op_is_its_current_version():
    first = define(CLIP)
    define(CLIP.replace("1.0", "2.0"))
    assert pyopnb.diff(first, registry["demo::SoftClip"]).schema == (
        "attr limit: float = 1.0 → limit: float = 2.0",
    )


def test_a_source_that_nobody_knows_is_not_the_same():
    first, second = define(CLIP), define(CLIP)
    unknown = registry.define(
        type("SoftClip", (), {"compute": lambda self, x: x}), "demo::SoftClip"
    )
    assert pyopnb.diff(first, second).verdict == "identical"
    assert (
        pyopnb.diff(first, unknown).same_code is None
        and pyopnb.diff(first, unknown).verdict == "different"
    )
    assert "one source is unknown" in str(pyopnb.diff(first, unknown))


def test_a_long_text_is_cut():
    found = between(
        CLIP,
        CLIP.replace(
            "return x", "\n        ".join(f"x = x + {n}" for n in range(50)) + "\n        return x"
        ),
    )
    lines = str(found).splitlines()
    assert len(lines) == 12 and lines[-1] == f"… and {len(found.source) - 10} more lines"
