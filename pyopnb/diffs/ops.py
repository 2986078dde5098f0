"""The difference of two versions of an op: their schemas in words, their sources line by line."""

from __future__ import annotations

import ast
import difflib
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import zip_longest

from pyopnb.diffs.base import DiffBase, fit_lines
from pyopnb.ops.messages import sanitize
from pyopnb.ops.op import Op, Version
from pyopnb.ops.schema import REQUIRED, Attr, Schema

__all__ = ["OpDiff", "diff_versions"]


@dataclass(frozen=True, repr=False)
class OpDiff(DiffBase):
    """The difference of two versions of an op, or of two ops, as `pyopnb.diff` finds it.

    It has no truth value, as a `Diff` has none.

    Attributes
    ----------
    a, b : str
        The versions: ``"demo::SoftClip, version 1"``.
    schema : tuple of str
        Each change of attrs, inputs, outputs and flags, in words.
    source : tuple of str
        Lines of the unified diff of the sources, without its header; empty if they are the same, or one is unknown.
    same_code : bool or None
        Whether the sources have the same syntax tree, whatever their comments and layout; None if one is unknown.
    """

    _FORMAT = "pyopnb.op-diff"

    a: str
    b: str
    schema: tuple[str, ...]
    source: tuple[str, ...]
    same_code: bool | None

    @property
    def verdict(self) -> str:
        """``"identical"`` or ``"different"``: comments and layout do not count, and unknown sources differ."""
        return "identical" if self.same_code and not self.schema else "different"

    @property
    def ok(self) -> bool:
        """Tell whether the verdict is ``"identical"``."""
        return self.verdict == "identical"

    def _headline(self) -> list[str]:
        if self.same_code is None:
            code = ", one source is unknown"
        else:
            code = ", same source" if not self.source else ", same code" if self.same_code else ""
        return [f"{self.verdict}: {self.a} against {self.b}{code}"]

    def __str__(self) -> str:
        return fit_lines([*self._headline(), *self.schema, *self.source])


def diff_versions(a: Version | Op, b: Version | Op) -> OpDiff:
    """Compare two versions of an op; an Op stands for its current version. See `pyopnb.diff`.

    Returns
    -------
    OpDiff
    """
    one, other = (side.current if isinstance(side, Op) else side for side in (a, b))
    changes = tuple(_schema_changes(one.schema, other.schema))
    if one.opset != other.opset:
        changes += (f"opset: {one.opset} → {other.opset}",)
    if one.source is None or other.source is None:
        return OpDiff(str(one), str(other), changes, (), True if one.cls is other.cls else None)
    lines = tuple(
        difflib.unified_diff(one.source.splitlines(), other.source.splitlines(), lineterm="", n=1)
    )[2:]
    source = tuple(sanitize(line, 2000).replace("\\t", "\t") for line in lines)
    return OpDiff(
        str(one), str(other), changes, source, not lines or _same_tree(one.source, other.source)
    )


def _same_tree(a: str, b: str) -> bool:
    try:
        one, other = (ast.dump(ast.parse(_dedent(source))) for source in (a, b))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False  # a cell with magics, say: its lines decide, and they differ
    return one == other


def _dedent(source: str) -> str:
    # A class inside a function is indented; textwrap.dedent would also change the inside of its strings.
    return f"if True:\n{source}" if source[:1] in (" ", "\t") else source


# ---- schemas in words


def _schema_changes(a: Schema, b: Schema) -> Iterator[str]:
    yield from _attr_changes(
        {attr.name: attr for attr in a.attrs}, {attr.name: attr for attr in b.attrs}
    )
    yield from _flag_change("**attrs", a.open_attrs, b.open_attrs)
    for index, (one, other) in enumerate(zip_longest(a.inputs, b.inputs)):
        if one is None or other is None:
            yield f"input {index}: {one or other}, only in {'b' if one is None else 'a'}"
        elif one != other:
            yield f"input {index}: {one} → {other}"
    if a.outputs != b.outputs:
        yield f"outputs: {_format_outputs(a)} → {_format_outputs(b)}"
    for name, field in (
        ("infer", "infers"),
        ("copy_inputs", "copy_inputs"),
        ("serial", "serial"),
        ("backward", "differentiable"),
    ):
        yield from _flag_change(name, getattr(a, field), getattr(b, field))


def _flag_change(name: str, a: bool, b: bool) -> Iterator[str]:
    if a != b:
        yield f"{name}: only in {'a' if a else 'b'}"


def _attr_changes(a: dict[str, Attr], b: dict[str, Attr]) -> Iterator[str]:
    for name in dict.fromkeys((*a, *b)):
        if name not in a or name not in b:
            yield f"attr {(a.get(name) or b[name])}: only in {'a' if name in a else 'b'}"
        elif a[name] != b[name]:
            fields = zip(
                ("kind", "default", "choices"),
                _attr_fields(a[name]),
                _attr_fields(b[name]),
                strict=True,
            )
            changes = [f"{what} {x} → {y}" for what, x, y in fields if x != y]
            yield f"attr {name}: {', '.join(changes) or f'{a[name]} → {b[name]}'}"


def _attr_fields(attr: Attr) -> tuple[str, str, str]:
    default = "none" if attr.default is REQUIRED else sanitize(repr(attr.default), 60)
    return attr.kind, default, sanitize(", ".join(map(repr, attr.choices)), 60) or "any"


def _format_outputs(schema: Schema) -> str:
    return (
        "as many as the node has"
        if schema.outputs is None
        else ", ".join(map(str, schema.outputs)) or "none"
    )
