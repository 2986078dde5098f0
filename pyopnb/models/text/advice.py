"""What to type where ONNX's text form was written in the manner of Python, or of ``domain::OpType``."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

import onnx
from onnx import TensorProto

from pyopnb.models.text.python_like import translate
from pyopnb.models.text.tokens import Layout, Token

__all__ = ["advise"]

_CONSTANTS = {"True": "1", "False": "0", **{name: str(number) for name, number in TensorProto.DataType.items()}}


def advise(layout: Layout, number: int | None, dtypes: Mapping[str, str]) -> tuple[Token | None, str | None, str] | None:
    """The advice for a text that the parser refused.

    Parameters
    ----------
    layout : Layout
    number : int or None
        The token at which the parser failed; None for the end of the text.
    dtypes : mapping
        The text form's names of dtypes, by themselves and by ours.

    Returns
    -------
    tuple of (Token or None), (str or None) and str, or None
        The token in question and what was expected, where these are others, and what to type.
    """
    if number:
        for rule in _RULES:
            found = rule(layout, number, dtypes)
            if found is not None:
                return found
    statement = layout.statement(number)
    if statement is None:
        return None
    known = {token.name or "" for token in layout.tokens}
    nodes = translate(statement, lambda name: dtypes.get(_dtype_in_head(layout, name)), known)
    return (None, None, nodes) if nodes and _is_readable(nodes) else None


def _is_readable(nodes: str) -> bool:
    try:
        onnx.parser.parse_graph(f"g () => () {{ {nodes} }}")
    except onnx.parser.ParseError:
        return False
    return True


def _dtype_in_head(layout: Layout, name: str) -> str:
    found = re.search(rf"\b(\w+)\s*(?:\[[^\]]*\])?\s+{re.escape(name)}\s*[,)]", layout.text)
    return found[1] if found else ""


_Advice = tuple[Token | None, str | None, str] | None


def _double_colon(layout: Layout, number: int, dtypes: Mapping[str, str]) -> _Advice:
    """``lab::NMS(x)``."""
    found = re.compile(r"([A-Za-z_][\w.]*)::([A-Za-z_]\w*)").search(layout.text, max(0, _line_start(layout, number)))
    tokens = layout.tokens
    place = tokens[number].start
    if found is None or not found.start() <= place < found.end():
        return None
    return next(t for t in tokens if t.start == found.start()), "domain.OpType", f"{found[1]}.{found[2]}"


def _line_start(layout: Layout, number: int) -> int:
    return layout.text.rfind("\n", 0, layout.tokens[number].start) + 1


def _arrow(layout: Layout, number: int, dtypes: Mapping[str, str]) -> _Advice:
    """``(float[N] x) -> (y)``."""
    return (None, "`=>`", "=>") if layout.text.startswith("->", layout.tokens[number].start) else None


def _bare_output(layout: Layout, number: int, dtypes: Mapping[str, str]) -> _Advice:
    """``(float[N] x) => y``."""
    token, before = layout.tokens[number], layout.tokens[number - 1]
    return (None, None, f"({token.text})") if token.kind == "word" and before.kind == "arrow" else None


def _hinted(layout: Layout, number: int, dtypes: Mapping[str, str]) -> _Advice:
    """``(x: float32[N])``."""
    name = layout.tokens[number - 1]
    found = re.compile(r":\s*(\w+(?:\s*\[[^\]]*\])?)").match(layout.text, layout.tokens[number].start)
    in_head = layout.tokens[number].inside == "(" and layout.tokens[number].depth == 1
    return (name, "a type and a name", f"{found[1]} {name.text}") if found and in_head and name.kind == "word" else None


def _constant(layout: Layout, number: int, dtypes: Mapping[str, str]) -> _Advice:
    """``to = FLOAT``, ``keepdims = False``."""
    before, equals = layout.tokens[number - 1], layout.tokens[number - 2]
    if equals.text == "=" and before.inside == "<" and before.text in _CONSTANTS:
        return before, "a number or text", _CONSTANTS[before.text]
    return None


def _quotes(layout: Layout, number: int, dtypes: Mapping[str, str]) -> _Advice:
    """``mode = 'linear'``."""
    found = re.compile(r"'([^'\n\"\\]*)'").match(layout.text, layout.tokens[number].start)
    if found is None or layout.tokens[number - 1].text not in ("=", "[", ","):
        return None
    return None, "a number or a text in double quotes", f'"{found[1]}"'


def _tuple(layout: Layout, number: int, dtypes: Mapping[str, str]) -> _Advice:
    """``perm = (1, 0)``."""
    found = re.compile(r"\(([^()\n]*)\)").match(layout.text, layout.tokens[number].start)
    inside = layout.tokens[number - 1]
    return (None, "a list", f"[{found[1].strip(' ,')}]") if found and inside.text == "=" and inside.inside == "<" else None


def _initializer(layout: Layout, number: int, dtypes: Mapping[str, str]) -> _Advice:
    """``<w = float[2] {1, 2}>``."""
    start = _line_start(layout, number)
    for found in re.finditer(r"(\w+)\s*=\s*(\w+(?:\s*\[[^\]]*\])?)\s*(\{[^{}]*\})", layout.text[start:]):
        if start + found.start() <= layout.tokens[number].start <= start + found.end():
            name = next(t for t in layout.tokens if t.start == start + found.start())
            dtype = re.match(r"\w+", found[2])
            if name.inside == "<" and name.depth == 1 and dtype and dtype[0] in dtypes:
                return name, "a type and a name", f"{found[2]} {found[1]} = {found[3]}"
    return None


_RULES: tuple[Callable[[Layout, int, Mapping[str, str]], _Advice], ...] = (
    _double_colon,
    _arrow,
    _bare_output,
    _hinted,
    _constant,
    _quotes,
    _tuple,
    _initializer,
)
