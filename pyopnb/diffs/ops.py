"""What sets two versions of an op apart: their schemas in words, their sources line by line."""

from __future__ import annotations

import ast
import difflib
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

from pyopnb.diffs.base import DiffBase, fit_lines
from pyopnb.ops.errors import sanitize
from pyopnb.ops.registry import Op, Version
from pyopnb.ops.schema import REQUIRED, Attr, Schema

__all__ = ["OpDiff", "diff_versions"]


@dataclass(frozen=True, repr=False)
class OpDiff(DiffBase):
    """What `pyopnb.diff` found between two versions of an op, or between two ops.

    It has no truth value, as a `Diff` has none.

    Attributes
    ----------
    a, b : str
        The versions: ``"demo::SoftClip, version 1"``.
    schema : tuple of str
        Each change of what the op takes and gives, in words.
    source : tuple of str
        Lines of the unified diff of the sources, without its head; empty where they are the same, or one is not known.
    same_code : bool or None
        Whether the sources say the same to Python, comments, blank lines and layout aside; None where one is not known.
    """

    _FORMAT = "pyopnb.op-diff"

    a: str
    b: str
    schema: tuple[str, ...]
    source: tuple[str, ...]
    same_code: bool | None

    @property
    def verdict(self) -> str:
        """``"identical"`` or ``"different"``: comments and layout do not count, and sources that are not known differ."""
        return "identical" if self.same_code and not self.schema else "different"

    @property
    def ok(self) -> bool:
        """Whether the verdict is ``"identical"``."""
        return self.verdict == "identical"

    def __str__(self) -> str:
        code = "" if self.same_code is None else "same source" if not self.source else "same code" if self.same_code else ""
        if self.same_code is None:
            code = "the source of one is not known"
        lines = [f"{self.verdict}: {self.a} against {self.b}{', ' if code else ''}{code}", *self.schema, *self.source]
        return fit_lines(lines)

    def _to_fields(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def _from_fields(cls, fields: Any) -> OpDiff:
        if fields["same_code"] not in (True, False, None):
            raise TypeError("same_code is true, false or null")
        schema, source = (tuple(map(_text, fields[name])) for name in ("schema", "source"))
        return cls(_text(fields["a"]), _text(fields["b"]), schema, source, fields["same_code"])


def diff_versions(a: Version | Op, b: Version | Op) -> OpDiff:
    """What sets two versions of an op apart; an Op stands for its current version. See `pyopnb.diff`."""
    one, other = (side.current if isinstance(side, Op) else side for side in (a, b))
    left, right = one.source, other.source
    schema = tuple(_schema(one.schema, other.schema))
    if one.opset != other.opset:
        schema += (f"opset: {one.opset} against {other.opset}",)
    if left is None or right is None:
        return OpDiff(str(one), str(other), schema, (), True if one.cls is other.cls else None)
    lines = tuple(difflib.unified_diff(left.splitlines(), right.splitlines(), lineterm="", n=1))[2:]
    return OpDiff(str(one), str(other), schema, tuple(map(_safe, lines)), not lines or _same_code(left, right))


def _same_code(left: str, right: str) -> bool:
    try:
        trees = [ast.dump(ast.parse(_dedented(source))) for source in (left, right)]
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False  # a cell with magics in it, say: by its lines, which differ
    return trees[0] == trees[1]


def _dedented(source: str) -> str:
    # A class inside a function is indented; textwrap.dedent would also touch the inside of its strings.
    return f"if True:\n{source}" if source[:1] in (" ", "\t") else source


# ---- schemas in words


def _schema(a: Schema, b: Schema) -> Iterator[str]:
    yield from _attrs({attr.name: attr for attr in a.attrs}, {attr.name: attr for attr in b.attrs})
    yield from _flag("**attrs", a.open_attrs, b.open_attrs)
    yield from _ports(a, b)
    yield from _outputs(a, b)
    for name, text in (("infers", "infer"), ("copy_inputs", "copy_inputs"), ("serial", "serial")):
        yield from _flag(text, getattr(a, name), getattr(b, name))


def _flag(name: str, a: bool, b: bool) -> Iterator[str]:
    if a != b:
        yield f"{name}: only in {'a' if a else 'b'}"


def _attrs(a: dict[str, Attr], b: dict[str, Attr]) -> Iterator[str]:
    for name in dict.fromkeys((*a, *b)):
        if name not in a or name not in b:
            yield f"attr {(a.get(name) or b[name])}: only in {'a' if name in a else 'b'}"
            continue
        one, other = a[name], b[name]
        if one == other:
            continue
        said = [f"{what} {x} against {y}" for what, x, y in _parts(one, other) if x != y]
        yield f"attr {name}: {', '.join(said)}" if said else f"attr {name}: {one} against {other}"


def _parts(a: Attr, b: Attr) -> Iterator[tuple[str, str, str]]:
    yield "kind", a.kind, b.kind
    yield "default", _default(a), _default(b)
    yield "choices", _choices(a), _choices(b)


def _default(attr: Attr) -> str:
    return "none" if attr.default is REQUIRED else sanitize(repr(attr.default), 60)


def _choices(attr: Attr) -> str:
    return sanitize(", ".join(map(repr, attr.choices)), 60) or "any"


def _ports(a: Schema, b: Schema) -> Iterator[str]:
    for place in range(max(len(a.inputs), len(b.inputs))):
        one, other = (schema.inputs[place] if place < len(schema.inputs) else None for schema in (a, b))
        if one != other:
            if one is None or other is None:
                yield f"input {place}: {one or other}, only in {'b' if one is None else 'a'}"
            else:
                yield f"input {place}: {one} against {other}"


def _outputs(a: Schema, b: Schema) -> Iterator[str]:
    if a.outputs != b.outputs:
        said = ["as many as the node has" if x.outputs is None else ", ".join(map(str, x.outputs)) or "none" for x in (a, b)]
        yield f"outputs: {said[0]} against {said[1]}"


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"text expected, not {type(value).__name__}")
    return value


def _safe(line: str) -> str:
    return sanitize(line, 2000).replace("\\t", "\t")
