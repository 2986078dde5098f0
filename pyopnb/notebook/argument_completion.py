"""What can stand at the cursor: a feed or attr of a call, the name of an op in a string, a word of ONNX's text form.

Objects are looked up by name in the notebook; nothing of the cell is run.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import onnx
from onnx import ModelProto

import pyopnb
from pyopnb.notebook.commands import user_namespace
from pyopnb.notebook.open_call import OpenCall, open_call
from pyopnb.ops.registry import registry
from pyopnb.runtime.session import Session

__all__ = ["Completions", "complete_arguments", "complete_onnx"]


@dataclass(frozen=True)
class Completions:
    """What can stand in the place of a fragment.

    Attributes
    ----------
    fragment : str
        The text before the cursor that they replace.
    candidates : list of (str, str)
        Texts, and what IPython shows as the type of each.
    alone : bool
        Whether nothing else can stand there.
    """

    fragment: str
    candidates: list[tuple[str, str]]
    alone: bool


_FEEDS_AFTER_MODEL = ("run", "trace", "watch", "interact")
_TAKES_OP = {"call": 0, "check": 0, "node": 0, "replace": 2}
_METHODS_OF_REGISTRY = ("history", "rollback", "remove")
_WORD = re.compile(r"\w*\Z")


def complete_arguments(text: str) -> Completions | None:
    """Complete the call around the end of a text; return None for a call that pyopnb does not know.

    Parameters
    ----------
    text : str
        What precedes the cursor.
    """
    call = open_call(text)
    if call is None:
        return None
    owner, name = _look_up(call.callee)
    if call.quote is not None:
        return _in_string(call, owner, name)
    fragment = _WORD.search(call.current)[0]  # type: ignore[index]  # it matches nothing as well
    if call.current.strip() != fragment:
        return None
    names = [
        f"{known}="
        for known in _names(call, owner, name)
        if known not in call.named and known.startswith(fragment)
    ]
    return (
        Completions(fragment, [(known, "param") for known in names], alone=not fragment)
        if names
        else None
    )


def _look_up(callee: str) -> tuple[Any, str]:
    """Look up the object that a function belongs to, and the function's name, which a session lacks."""
    first, *rest = callee.split(".")
    value = user_namespace().get(first)
    if not rest:
        if isinstance(value, Session):
            return value, ""
        name = getattr(value, "__name__", "")
        return (
            (pyopnb, name) if value is not None and value is vars(pyopnb).get(name) else (None, "")
        )
    if value is pyopnb and rest[0] == "registry" and len(rest) == 2:
        return registry, rest[1]
    return (
        (value, rest[0])
        if len(rest) == 1 and (value is pyopnb or isinstance(value, Session))
        else (None, "")
    )


def _names(call: OpenCall, owner: Any, name: str) -> list[str]:
    """List the feeds and attrs that can be passed by name."""
    if isinstance(owner, Session):
        if name == "set_attrs":
            return _attrs_of_session(owner)
        return _feeds(owner)[call.positional :] if name in ("", "trace") else []
    if owner is not pyopnb:
        return []
    if name in _FEEDS_AFTER_MODEL and len(call.arguments) > 1:
        model = user_namespace().get(call.arguments[0].strip())
        attrs = (
            _attrs_of_session(model) if name == "interact" and isinstance(model, Session) else []
        )
        return [*_feeds(model)[max(0, call.positional - 1) :], *attrs]
    return (
        _attrs_of_op(call.arguments[0])
        if name in ("call", "check", "node") and len(call.arguments) > 1
        else []
    )


def _feeds(model: Any) -> list[str]:
    if isinstance(model, Session):
        return list(model._feeds.types)
    if isinstance(model, ModelProto):
        initializers = {tensor.name for tensor in model.graph.initializer}
        return [info.name for info in model.graph.input if info.name not in initializers]
    return []


def _attrs_of_session(session: Session) -> list[str]:
    return list(dict.fromkeys(name for attrs in session.attrs.values() for name in attrs))


def _attrs_of_op(text: str) -> list[str]:
    """List the attrs of the op that an argument names, in quotes or as a class."""
    text = text.strip()
    if text[:1] in ("'", '"'):
        domain, _, op_type = text.strip("'\"").rpartition("::")
        return _attrs(domain, op_type)
    cls = user_namespace().get(text)
    return next(
        (
            _attrs(op.domain, op.op_type)
            for op in registry
            if isinstance(cls, type) and op.current.cls is cls
        ),
        [],
    )


def _attrs(domain: str, op_type: str) -> list[str]:
    op = registry.find(domain, op_type)
    if op is not None:
        return [attr.name for attr in op.current.schema.attrs]
    return (
        sorted(onnx.defs.get_schema(op_type, domain).attributes)
        if onnx.defs.has(op_type, domain)
        else []
    )


def _in_string(call: OpenCall, owner: Any, name: str) -> Completions | None:
    """Complete the name of an op where one is expected."""
    fragment = call.current[call.quote or 0 :].lstrip("'\"")
    if call.current[: call.quote].strip():
        return None
    if owner is pyopnb and _TAKES_OP.get(name) == call.positional:
        ops = _all_ops() if name in ("call", "node") and fragment else _op_names()
    elif owner is registry and name in _METHODS_OF_REGISTRY:
        ops = _op_names()
    else:
        return None
    return Completions(
        fragment, [(op, "class") for op in ops if op.startswith(fragment)], alone=True
    )


def _op_names() -> list[str]:
    return [op.name for op in registry]


def _all_ops() -> list[str]:
    return [*_op_names(), *_onnx_ops()]


def _onnx_ops() -> list[str]:
    """ONNX's own operators."""
    return sorted(
        schema.name
        for schema in onnx.defs.get_all_schemas()
        if not schema.domain and not schema.deprecated
    )


# ---- ONNX's text form --------------------------------------------------------------------------------------------------------

_TEXT_WORD = re.compile(r"[\w.]*\Z")
_NODE = re.compile(
    r"([\w.]+)\s*(?:\([^()]*\)\s*)?<[^<>]*\Z"
)  # attributes stand before the inputs or behind them
_NAME = re.compile(r"[A-Za-z_]\w*")
_DTYPES = [name.lower() for name, number in onnx.TensorProto.DataType.items() if number]
_AFTER_EQUALS = re.compile(r"=\s*\Z")


def complete_onnx(text: str) -> Completions:
    """Complete a ``%%onnx`` cell: attrs of a node, op types, domains, dtypes, and the names that occur before.

    Parameters
    ----------
    text : str
        What precedes the cursor, with the line of the magic.
    """
    body = text.lstrip().partition("\n")[2]
    fragment = _TEXT_WORD.search(body)[0]  # type: ignore[index]  # it matches nothing as well
    before = body[: len(body) - len(fragment)]
    candidates = _words(before, fragment)
    return Completions(
        fragment,
        [item for item in dict.fromkeys(candidates) if item[0].startswith(fragment)],
        alone=True,
    )


def _words(before: str, fragment: str) -> Iterable[tuple[str, str]]:
    node = _NODE.search(before)
    if node is not None:
        if _AFTER_EQUALS.search(before):
            return []  # a value
        domain, _, op_type = node[1].rpartition(".")
        return [(f"{name} = ", "param") for name in _attrs(domain, op_type)]
    if _AFTER_EQUALS.search(before):
        return _op_types(fragment)
    inside = before.rfind("{") > before.rfind("}")
    if not inside:
        return [(name, "keyword") for name in _DTYPES]
    if before.rstrip()[-1:] not in ("(", ","):
        return []  # a new name
    known = {*_onnx_ops(), *(name for op in registry for name in (op.op_type, op.domain)), *_DTYPES}
    return [(name, "instance") for name in _NAME.findall(before) if name not in known]


def _op_types(fragment: str) -> Sequence[tuple[str, str]]:
    """Op types: of a domain if the fragment has one, otherwise of ONNX, with the domains."""
    if "." in fragment:
        return [(f"{op.domain}.{op.op_type}", "class") for op in registry if op.domain]
    ours = [(f"{op.domain}.{op.op_type}", "class") for op in registry if op.domain]
    return [*ours, *((name, "class") for name in _onnx_ops())]
