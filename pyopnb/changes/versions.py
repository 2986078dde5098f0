"""What changed between two versions of an op: its schema in words, and the lines of its source."""

from __future__ import annotations

import ast
import difflib
import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any, NoReturn

from pyopnb.ops.drawn import Drawn
from pyopnb.ops.errors import FeedError, shown
from pyopnb.ops.registry import Op, Version
from pyopnb.ops.schema import Attr, Port, Schema

__all__ = ["OpDiff", "Side", "between"]

_FORMAT, _VERSION = "pyopnb.op-diff", 1
_LINES = 12
_WIDEST = 160


@dataclass(frozen=True)
class Side:
    """One of the two versions.

    Attributes
    ----------
    op : str
    number : int
    source : str or None
        None where its text was not kept.
    schema : str
    """

    op: str
    number: int
    source: str | None
    schema: str

    def __str__(self) -> str:
        return f"{self.op}, version {self.number}"


@dataclass(frozen=True, repr=False)
class OpDiff(Drawn):
    """What `pyopnb.diff` found between two versions of an op.

    Attributes
    ----------
    a, b : Side
    schema : tuple of str
        What changed in the schema, a sentence each.
    lines : tuple of str
        The lines of the sources, as ``diff -u`` has them: ``+`` in b, ``-`` in a, a space in both.
    same_code : bool
        Both sources mean the same: at most comments, blank lines and layout differ.
    """

    a: Side
    b: Side
    schema: tuple[str, ...]
    lines: tuple[str, ...]
    same_code: bool

    @property
    def verdict(self) -> str:
        """``"identical"`` where neither schema nor code changed, else ``"different"``."""
        return "identical" if self.same_code and not self.schema else "different"

    @property
    def ok(self) -> bool:
        """Whether nothing changed but comments and layout."""
        return self.verdict == "identical"

    def __bool__(self) -> NoReturn:
        raise TypeError("an OpDiff is neither true nor false. Try: diff(a, b).ok, or .verdict")

    def __str__(self) -> str:
        said = "only comments or layout changed" if self.ok and self.lines else "the code is the same" if self.same_code else ""
        lines = [f"{self.verdict}: {self.a} → {self.b}{f': {said}' if said else ''}"]
        more = len(self.schema) - 3
        lines += self.schema if more < 2 else [*self.schema[:3], f"… and {more} more in the schema"]
        room = _LINES - len(lines)
        changed = [line for line in self.lines if line[:1] in "+-" and line[:3] not in ("+++", "---")]
        kept = self.lines if len(self.lines) <= room else changed if len(changed) <= room else changed[: room - 1]
        lines += kept
        if len(kept) < len(changed):
            lines.append(f"… and {len(changed) - len(kept)} more lines")
        if self.a.source is None or self.b.source is None:
            lines.append(f"the source of {self.a if self.a.source is None else self.b} was not kept")
        return "\n".join(_cut(line) for line in lines[:_LINES])

    __repr__ = __str__

    def to_json(self) -> str:
        """All of it as strict JSON."""
        return json.dumps({"format": _FORMAT, "version": _VERSION, "verdict": self.verdict, "ok": self.ok, **asdict(self)})

    @classmethod
    def from_json(cls, text: str) -> OpDiff:
        """What `to_json` wrote.

        Raises
        ------
        FeedError
            The text is something else, or of a later version.
        """
        try:
            held = json.loads(text)
            if (held["format"], held["version"]) != (_FORMAT, _VERSION):
                raise ValueError(f"{held['format']} {held['version']}")
            sides = [_side(held[name]) for name in ("a", "b")]
            told = [tuple(map(_text, held[name])) for name in ("schema", "lines")]
            return cls(sides[0], sides[1], told[0], told[1], bool(held["same_code"]))
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
            got = shown(f"{type(error).__name__}: {error}")
            expected = f"JSON with format {_FORMAT}, version {_VERSION}"
            raise FeedError("OpDiff.from_json", expected=expected, got=got) from None


def _side(held: Any) -> Side:
    source = None if held["source"] is None else _text(held["source"])
    return Side(_text(held["op"]), int(held["number"]), source, _text(held["schema"]))


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{type(value).__name__} instead of a text")
    return value


def _cut(line: str) -> str:
    line = shown(line, 10**6).replace("\n", " ")
    return line if len(line) <= _WIDEST else f"{line[: _WIDEST - 1]}…"


def between(a: Version | Op, b: Version | Op) -> OpDiff:
    """What changed from one version to another; an op stands for its current version."""
    one, two = (thing.current if isinstance(thing, Op) else thing for thing in (a, b))
    sides = [Side(v.op, v.number, v.source, str(v.schema)) for v in (one, two)]
    return OpDiff(sides[0], sides[1], tuple(_schema(one, two)), tuple(_lines(*sides)), _same_code(one, two))


def _lines(a: Side, b: Side) -> Iterator[str]:
    if a.source is None or b.source is None:
        return
    old, new = a.source.splitlines(), b.source.splitlines()
    yield from difflib.unified_diff(old, new, str(a), str(b), lineterm="", n=2)


def _same_code(a: Version, b: Version) -> bool:
    if a.cls is b.cls:
        return True
    if a.source is None or b.source is None:
        return False
    return a.source == b.source or _tree(a.source) == _tree(b.source)


def _tree(source: str) -> str:
    try:
        return ast.dump(ast.parse(source))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return source  # the text of a cell can hold what only IPython reads


# ---- schemas in words --------------------------------------------------------------------------------------------------------


def _schema(a: Version, b: Version) -> Iterator[str]:
    if a.op != b.op:
        yield f"op {a.op} → {b.op}"
    if a.opset != b.opset:
        yield f"there from version {a.opset} of its domain on → {b.opset}"
    yield from _attrs(a.schema, b.schema)
    yield from _inputs(a.schema.inputs, b.schema.inputs)
    old, new = (s.outputs and ", ".join(map(str, s.outputs)) for s in (a.schema, b.schema))
    if old != new:
        yield f"outputs {old or 'without a hint'} → {new or 'without a hint'}"
    for flag in ("infers", "copy_inputs", "serial"):
        if getattr(a.schema, flag) != getattr(b.schema, flag):
            name = "infer" if flag == "infers" else flag
            yield f"{name} {'came' if getattr(b.schema, flag) else 'went'}"


def _attrs(a: Schema, b: Schema) -> Iterator[str]:
    old, new = ({attr.name: attr for attr in schema.attrs} for schema in (a, b))
    for name in [*old, *(name for name in new if name not in old)]:
        one, two = old.get(name), new.get(name)
        if one is None or two is None:
            yield f"attr {'+' if one is None else '-'} {one or two}"
        elif one != two:
            yield f"attr {_said(one)} → {_said(two)}"
    if a.open_attrs != b.open_attrs:
        yield f"**attrs {'came' if b.open_attrs else 'went'}"


def _said(attr: Attr) -> str:
    return f"{attr}{f', one of {attr.choices}' if attr.choices else ''}"


def _inputs(a: tuple[Port, ...], b: tuple[Port, ...]) -> Iterator[str]:
    for place in range(max(len(a), len(b))):
        one, two = (ports[place] if place < len(ports) else None for ports in (a, b))
        if one is None or two is None:
            yield f"input {'+' if one is None else '-'} {one or two}"
        elif one != two:
            yield f"input {one} → {two}"
