"""The difference of two versions of an op: their schemas in words, their sources line by line."""

from __future__ import annotations

import ast
import difflib
from collections.abc import Iterator
from dataclasses import dataclass

from pyopnb.common import sanitize
from pyopnb.diffs.base import DiffBase, fit_lines
from pyopnb.engine import Op, Version, op_schema

__all__ = ["OpDiff", "diff_versions"]


@dataclass(frozen=True, repr=False)
class OpDiff(DiffBase):
    """The difference of two versions of an op, or of two ops, as `pyopnb.diff` finds it.

    Like a `Diff`, it has no truth value.

    Attributes
    ----------
    a, b : str
        The versions: ``"demo::SoftClip, version 1"``.
    schema : tuple of str
        Each change of attrs, inputs, outputs and flags, in words.
    source : tuple of str
        Lines of the unified diff of the sources, without its header; empty if they are the
        same, or one is unknown.
    same_code : bool or None
        Whether the sources have the same syntax tree apart from comments and layout;
        None if one is unknown.
    """

    _FORMAT = "pyopnb.op-diff"

    a: str
    b: str
    schema: tuple[str, ...]
    source: tuple[str, ...]
    same_code: bool | None

    @property
    def verdict(self) -> str:
        """Return ``"identical"`` or ``"different"``.

        Comments and layout do not count, and unknown sources differ.
        """
        if self.same_code and not self.schema:
            return "identical"
        return "different"

    @property
    def ok(self) -> bool:
        """Tell whether the verdict is ``"identical"``."""
        return self.verdict == "identical"

    def headline(self) -> list[str]:
        code = ""
        if self.same_code is None:
            code = ", one source is unknown"
        elif not self.source:
            code = ", same source"
        elif self.same_code:
            code = ", same code"
        return [f"{self.verdict}: {self.a} against {self.b}{code}"]

    def __str__(self) -> str:
        return fit_lines([*self.headline(), *self.schema, *self.source])


def diff_versions(a: Version | Op, b: Version | Op) -> OpDiff:
    """Compare two versions of an op; an Op means its current version. See `pyopnb.diff`."""
    old, new = (side.current if isinstance(side, Op) else side for side in (a, b))
    # The schemas first: they say in words what callers of the op notice.
    changes = list(_schema_changes(old.schema, new.schema))
    if old.opset != new.opset:
        changes.append(f"opset: {old.opset} → {new.opset}")
    source: list[str] = []
    same_code = True if old.cls is new.cls and old.source == new.source else None
    if old.source is not None and new.source is not None:
        sources = old.source.splitlines(), new.source.splitlines()
        # The first two lines are a header of file names.
        for line in list(difflib.unified_diff(*sources, lineterm="", n=1))[2:]:
            source.append(sanitize(line, 2000).replace("\\t", "\t"))
        # Another comment or layout changes lines, but not the computation.
        same_code = not source or _same_tree(old.source, new.source)
    return OpDiff(str(old), str(new), tuple(changes), tuple(source), same_code)


def _same_tree(a: str, b: str) -> bool:
    try:
        return ast.dump(ast.parse(_dedent(a))) == ast.dump(ast.parse(_dedent(b)))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        # A cell with magics is no Python. Its lines decide, and they differ.
        return False


def _dedent(source: str) -> str:
    # A class inside a function is indented; textwrap.dedent would also change its strings.
    if source[:1] in (" ", "\t"):
        return f"if True:\n{source}"
    return source


# ---- schemas in words


def _schema_changes(a: op_schema.Schema, b: op_schema.Schema) -> Iterator[str]:
    texts_a = _described(a)
    texts_b = _described(b)
    for key in {**texts_a, **texts_b}:
        text_a = texts_a.get(key)
        text_b = texts_b.get(key)
        change = f"{text_a} → {text_b}"
        if text_a is None or text_b is None:
            change = f"{text_a or text_b}: only in {'b' if text_a is None else 'a'}"
        if text_a != text_b:
            yield sanitize(f"{key[0]} {change}".strip(), 200)


def _described(schema: op_schema.Schema) -> dict[tuple[str, str], str]:
    """Put a schema into words, with a kind and a name for each fact."""
    texts = {("attr", attr.name): str(attr) for attr in schema.attrs}
    for index, port in enumerate(schema.inputs):
        texts[f"input {index}:", ""] = str(port)
    outputs = "as many as the node has"
    if schema.outputs is not None:
        outputs = ", ".join(map(str, schema.outputs)) or "none"
    texts["outputs:", ""] = outputs
    flags = {
        "**attrs": schema.open_attrs,
        "infer": schema.infers,
        "copy_inputs": schema.copy_inputs,
        "serial": schema.serial,
        "backward": schema.differentiable,
    }
    for name, is_set in flags.items():
        if is_set:
            texts["", name] = name
    return texts
