"""Complete the feeds, attrs and op names of calls of pyopnb, which depend on a model or an op.

Signatures cannot say them: the names differ from session to session. Nothing of the cell is run.
"""

from __future__ import annotations

import re
from itertools import pairwise
from typing import Any

import onnx
from onnx import ModelProto

import pyopnb
from pyopnb.engine import Registry, Session, registry
from pyopnb.notebook.commands import user_namespace

__all__ = ["attrs_of", "complete_call", "onnx_ops"]

# A string that is open at the end of its line runs to that end.
_TOKEN = re.compile(r"""'(?:\\.|[^'\\\n])*'|"(?:\\.|[^"\\\n])*"|['"].*|[()\[\]{},]""")
_CALLEE = re.compile(r"([A-Za-z_][\w.]*)\s*\Z")
_KEYWORD = re.compile(r"(\w+)\s*=(?!=)")

_TAKES_MODEL = ("run", "trace", "watch", "interact")
_TAKES_ATTRS = ("call", "check", "node")
_TAKES_OP = (*_TAKES_ATTRS, "history", "rollback", "remove")


def complete_call(text: str) -> tuple[list[str], str]:
    """Complete the call around the end of a text.

    Returns
    -------
    tuple of list of str and str
        The candidates and the fragment that they replace. For functions of other packages there are
        no candidates.
    """
    callee, arguments = _open_call(text)
    function = _look_up(callee)
    if function is None:
        return [], ""
    *earlier, current = arguments
    name = getattr(function, "__name__", "")
    if current[:1] in ("'", '"'):
        is_op = (name in _TAKES_OP and not earlier) or (name == "replace" and len(earlier) == 2)
        ops = [op.name for op in registry if is_op and not op.is_generated]
        # ONNX has many operators, so they are offered only after the first letter.
        if is_op and name in ("call", "node") and current[1:]:
            ops += onnx_ops()
        return ops, current[1:]
    if not re.fullmatch(r"\w*", current):
        return [], ""
    keywords = [match[1] for match in map(_KEYWORD.match, earlier) if match]
    names = _parameters(function, name, earlier, len(earlier) - len(keywords))
    return [f"{parameter}=" for parameter in names if parameter not in keywords], current


def _open_call(text: str) -> tuple[str, list[str]]:
    """Return the innermost call that is open at the end of a text, and the texts of its arguments.

    Examples
    --------
    >>> _open_call("y = f(g(1), session(x=[1, 2], ot")
    ('session', ['x=[1, 2]', 'ot'])
    >>> _open_call("a[")
    ('', [''])
    """
    text = re.sub(r"#.*", "", text)
    # For each open bracket: its position, and the positions of its commas.
    brackets: list[list[int]] = []
    for token in _TOKEN.finditer(text):
        if token[0] in "([{":
            brackets.append([token.start()])
        elif token[0] in ")]}" and brackets:
            brackets.pop()
        elif token[0] == "," and brackets:
            brackets[-1].append(token.start())
    if not brackets or text[brackets[-1][0]] != "(":
        return "", [""]
    callee = _CALLEE.search(text[: brackets[-1][0]])
    cuts = [*brackets[-1], len(text)]
    arguments = [text[start + 1 : end].strip() for start, end in pairwise(cuts)]
    return callee[1] if callee else "", arguments


def _look_up(callee: str) -> Any:
    """Look up a session, or a function of pyopnb, of a session or of the registry.

    Return None for anything else.
    """
    first, *attributes = callee.split(".")
    value = user_namespace().get(first)
    for name in attributes:
        # Attributes of the user's objects may be properties, which would run their code.
        if value is not pyopnb and not isinstance(value, (Session, Registry)):
            return None
        value = getattr(value, name, None)
    module = getattr(value, "__module__", None) or ""
    if isinstance(value, Session) or module.startswith("pyopnb."):
        return value
    return None


def _parameters(function: Any, name: str, earlier: list[str], positional: int) -> list[str]:
    """List the feeds and attrs that can be passed by name."""
    session = function if isinstance(function, Session) else getattr(function, "__self__", None)
    if isinstance(session, Session):
        if name == "set_attrs":
            return _attrs_of_session(session)
        return _feeds(session)[positional:] if name in ("", "trace") else []
    if not earlier:
        return []
    model = user_namespace().get(earlier[0])
    if name in _TAKES_ATTRS:
        if not earlier[0].startswith(("'", '"')):
            # A class; its op has the same name.
            ops = [op for op in registry if op.op_type == earlier[0]]
            return attrs_of(ops[0].domain, earlier[0]) if ops else []
        domain, _, op_type = earlier[0].strip("'\"").rpartition("::")
        return attrs_of(domain, op_type)
    if name not in _TAKES_MODEL:
        return []
    names = _feeds(model)[positional - 1 :]
    if name == "interact" and isinstance(model, Session):
        names += _attrs_of_session(model)
    return names


def _feeds(model: Any) -> list[str]:
    if isinstance(model, Session):
        return list(model.state.feeds.types)
    if isinstance(model, ModelProto):
        initializers = {tensor.name for tensor in model.graph.initializer}
        return [info.name for info in model.graph.input if info.name not in initializers]
    return []


def _attrs_of_session(session: Session) -> list[str]:
    return list(dict.fromkeys(name for attrs in session.attrs.values() for name in attrs))


def attrs_of(domain: str, op_type: str) -> list[str]:
    """List the attrs of an op of the registry or of ONNX."""
    op = registry.find(domain, op_type)
    if op is not None:
        return [attr.name for attr in op.current.schema.attrs]
    if onnx.defs.has(op_type, domain):
        return sorted(onnx.defs.get_schema(op_type, domain).attributes)
    return []


def onnx_ops() -> list[str]:
    """List the ONNX operators."""
    schemas = onnx.defs.get_all_schemas()
    return sorted(schema.name for schema in schemas if not schema.domain and not schema.deprecated)
