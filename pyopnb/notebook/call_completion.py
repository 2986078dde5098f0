"""Complete the feeds, attrs and op names of calls of pyopnb, which depend on a model or an op.

Signatures cannot say them: the names differ from session to session. Nothing of the cell is run.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from inspect import Parameter, signature
from itertools import pairwise
from typing import Any

import onnx
from onnx import ModelProto

import pyopnb
from pyopnb.display import view
from pyopnb.engine import Registry, Session, model_files, protos, registry
from pyopnb.errors import PyopError
from pyopnb.notebook.expressions import user_namespace
from pyopnb.traces import Trace

__all__ = ["attrs_of", "complete_call", "nodes_of", "onnx_ops"]

# A string that is open at the end of its line runs to that end.
_TOKEN = re.compile(r"""'(?:\\.|[^'\\\n])*'|"(?:\\.|[^"\\\n])*"|['"].*|[()\[\]{},]""")
_CALLEE = re.compile(r"([A-Za-z_][\w.]*)\s*\Z")
_KEYWORD = re.compile(r"(\w+)\s*=(?!=)")

# The text of an argument, behind its keyword and its quote.
_TEXT = re.compile(r"""(?:(\w+)\s*=\s*)?['"](.*)""", re.DOTALL)
_CHOICE = re.compile(r"""['"](.*?)['"]""")


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
    keywords = [match[1] for match in map(_KEYWORD.match, earlier) if match]
    model = getattr(function, "__self__", None)
    if not isinstance(model, Session):
        model = user_namespace().get(earlier[0]) if earlier else None
    parameters = signature(function).parameters
    if function is pyopnb.show:
        parameters = signature(view.dispatch(type(model))).parameters
    typed = _TEXT.fullmatch(current)
    if typed is not None:
        position = len(earlier) - len(keywords)
        parameter = parameters.get(typed[1] or _name_at(parameters, position))
        return _texts(function, parameter, model, typed[2]), typed[2]
    if not re.fullmatch(r"\w*", current):
        return [], ""
    if function is pyopnb.show and earlier:
        names = [name for name, item in parameters.items() if item.default is not item.empty]
    else:
        names = _parameters(function, parameters, model, earlier, len(earlier) - len(keywords))
    return [f"{parameter}=" for parameter in names if parameter not in keywords], current


def _name_at(parameters: Mapping[str, Parameter], position: int) -> str:
    """Name the parameter that takes the argument at a position; empty if none of its own does."""
    kinds = (Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD)
    names = [name for name, parameter in parameters.items() if parameter.kind in kinds]
    return names[position] if position < len(names) else ""


def _texts(function: Any, parameter: Parameter | None, model: Any, fragment: str) -> list[str]:
    """List the texts that an argument can be: choices of its annotation, ops, nodes or tensors."""
    if parameter is None:
        return []
    _, _, choices = str(parameter.annotation).partition("Literal[")
    if choices:
        return _CHOICE.findall(choices.partition("]")[0])
    owner = getattr(function, "__self__", None)
    if parameter.name in ("op", "ops") or (
        isinstance(owner, Registry) and parameter.name == "name"
    ):
        ops = [op.name for op in registry if not op.is_generated]
        # ONNX has many operators: where most calls are of ops, after the first letter.
        if function in (pyopnb.node, pyopnb.reference) or (function is pyopnb.call and fragment):
            ops += onnx_ops()
        return ops
    if isinstance(owner, Session) and parameter.name == "where":
        return [text for label, op, _ in owner.nodes() for text in (label, op)]
    if parameter.name in ("where", "node", "nodes"):
        return nodes_of(model)
    if parameter.name in ("inputs", "outputs", "only"):
        return _tensors(model)
    if parameter.name == "wrt" and isinstance(model, ModelProto):
        return [*_feeds(model), *(tensor.name for tensor in model.graph.initializer)]
    return []


def nodes_of(model: Any) -> list[str]:
    """List how the nodes of a model can be named: by name or first output, and by op type."""
    if isinstance(model, Trace):
        model = model.model
    try:
        sites = list(protos.walk(model_files.as_proto(model)))
    except PyopError:
        # There is no such model, or not yet.
        return []
    names = [site.node.name or protos.first_output(site.node) for site in sites]
    names += [protos.full_name(site.node).removeprefix("::") for site in sites]
    # A name with a space would be two words of a line.
    return [name for name in names if name and name.isprintable() and not set(name) & set(" '\"\\")]


def _tensors(model: Any) -> list[str]:
    if isinstance(model, Trace):
        return list(model)
    if not isinstance(model, (Session, ModelProto)):
        return []
    nodes = model_files.as_proto(model).graph.node
    return [*_feeds(model), *(name for node in nodes for name in node.output if name)]


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
    if callable(value) and (isinstance(value, Session) or module.startswith("pyopnb.")):
        return value
    return None


def _parameters(
    function: Any,
    parameters: Mapping[str, Parameter],
    model: Any,
    earlier: list[str],
    positional: int,
) -> list[str]:
    """List the feeds and attrs that can be passed by name."""
    if isinstance(function, Session):
        return _feeds(function)[positional:]
    name = function.__name__
    if model is getattr(function, "__self__", None) and isinstance(model, Session):
        if name in ("set_attrs", "with_attrs"):
            return _attrs_of_session(model)
        return _feeds(model)[positional:] if name == "trace" else []
    if not earlier:
        return []
    if "attrs" in parameters:
        if not earlier[0].startswith(("'", '"')):
            # A class; its op has the same name.
            ops = [op for op in registry if op.op_type == earlier[0]]
            return attrs_of(ops[0].domain, earlier[0]) if ops else []
        domain, _, op_type = earlier[0].strip("'\"").rpartition("::")
        return attrs_of(domain, op_type)
    # Feeds by name are collected under these names.
    if parameters.keys().isdisjoint(("named", "requests")):
        return []
    names = _feeds(model)[positional - 1 :]
    if name in ("interact", "sweep") and isinstance(model, Session):
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
