"""Write the ``%%pyop`` cell for a node.

The cell has the node's ports, types and attrs, and where ONNX has a reference implementation, a
body that runs. Text from a model never becomes code: names are used only if they are identifiers,
everything else is written as a literal.
"""

from __future__ import annotations

import ast
import keyword
import os
import re
import textwrap
from collections.abc import Iterable, Mapping
from typing import Any

from onnx import ModelProto

from pyopnb.catalog import Entry
from pyopnb.common import sanitize
from pyopnb.engine import ANY, TensorType, check_arguments, model_files, op_names, protos, registry
from pyopnb.errors import DefinitionError, ModelError
from pyopnb.models import MissingNode, catalog_names, missing, node_edits
from pyopnb.onnx_reference.usage import OPTION, RESERVED, AttrUsage, OperatorUsage

__all__ = ["SkeletonCell", "skeleton"]

_SYMBOL = re.compile(r"[^\W\d][\w.:/-]*")
# The onnx names for unknown sizes.
_UNKNOWN = re.compile(r"unk__\d+")
_LONGEST_DOC = 1000
_WIDTH = 110


class SkeletonCell(str):
    """The text of a cell, which a prompt displays as one would type it."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


@check_arguments
def skeleton(
    model: ModelProto | bytes | str | os.PathLike[str],
    node: Any,
    *,
    base_dir: str | os.PathLike[str] | None = None,
) -> SkeletonCell:
    """Return the text of a ``%%pyop`` cell for a node of a model.

    Parameters
    ----------
    model : ModelProto, bytes or path
        A model in memory, its serialized bytes, or a file.
    node : NodeProto, str, or a row of `missing`
        A str is the name of a node, the name of an output, or an op type that occurs once.
    base_dir : path, optional
        The folder of the external data of a model in memory. The data is not read.

    Returns
    -------
    SkeletonCell
        A str. For an operator of the catalog, it is the source that `fill` runs. If the installed
        ONNX Runtime lacks the operator, the cell defines it and the model then runs. Otherwise the
        cell defines an op in the domain ``pyopnb``, for use with `replace`. All nodes of an
        operator share one class, so types and defaults in the cell hold for all of them.

    Raises
    ------
    ModelError
        There is no such node, several match, the operator's name is not allowed for an op, or the
        node reads or makes a sequence, a map or an optional, which no op can.

    Examples
    --------
    >>> import pyopnb
    >>> act = pyopnb.node("com.example::Scale", "x", "y", by=2.0)
    >>> pyopnb.skeleton(pyopnb.model(act, {"x": "float32[N,3]"}, {"y": "float32[N,3]"}), "Scale")
    %%pyop -d com.example
    import numpy as np
    import pyopnb
    <BLANKLINE>
    <BLANKLINE>
    class Scale:
        def __init__(self, by: float = 2.0):
            self.by = by
    <BLANKLINE>
        def compute(self, x: "float32[N,3]") -> "float32[N,3]":
            # Return float32[N,3].
            raise NotImplementedError("com.example::Scale")
    """
    proto = model_files.read_model(model, base_dir, data=False).proto
    site = _site(proto, node, model)
    domain, op_type = _op_name(site)
    sites = [site]
    for candidate in protos.walk(proto):
        if (
            protos.full_name(candidate.node) == protos.full_name(site.node)
            and candidate is not site
        ):
            sites.append(candidate)
    # An op of the registry under the node's own name runs it already, and can be redefined.
    is_missing = registry.find(domain, op_type) is not None
    for row in missing(proto):
        if row.site is not None and row.site.node == site.node:
            is_missing = True
    usage = OperatorUsage(proto, sites)
    # The catalog has old versions that the reference refuses.
    version = None if usage.schema is None else usage.schema.since_version
    entry = catalog_names.node_entry(site.node, version)
    if is_missing and not usage.has_reference and entry is not None:
        return SkeletonCell(_catalog_cell(entry, domain, op_type))
    return SkeletonCell(_cell_text(usage, domain, op_type, is_missing))


def _site(proto: ModelProto, node: Any, model: object) -> protos.Site:
    """Find the requested node."""
    if isinstance(node, MissingNode) and node.site:
        node = node.site.node
    sites = node_edits.select_sites(proto, node, model)
    if isinstance(node, str) and len(sites) > 1:
        names = [sanitize(site.node.name or protos.first_output(site.node), 40) for site in sites]
        raise ModelError(
            f"node {sanitize(repr(node))}",
            expected="one node",
            got=f"{len(sites)}: {', '.join(names[:8])}",
            next=repr(names[0]),
        )
    return sites[0]


def _op_name(site: protos.Site) -> tuple[str, str]:
    try:
        return op_names.split_name(protos.full_name(site.node))
    except DefinitionError as error:
        raise ModelError(
            site.where,
            expected="a domain and an op type of letters, digits, _ and, in the domain, . and -",
            got=sanitize(repr(protos.full_name(site.node))),
            next="rename the operator in a copy of the model",
        ) from error


# ---- the cell ------------------------------------------------------------------------------------


def _catalog_cell(entry: Entry, domain: str, op_type: str) -> str:
    """Write the whole file of an operator of the catalog, so that it can be read and changed."""
    lines = entry.source.splitlines()
    for statement in ast.parse(entry.source).body:
        # The names are how the catalog finds the file; the first line of the cell has the node's.
        if isinstance(statement, ast.Assign) and ast.unparse(statement.targets[0]) == "NAMES":
            del lines[statement.lineno - 1 : statement.end_lineno + 1]  # type: ignore[operator]
            break
    first_line = _first_line(domain, op_type, entry.op_class.__name__, True)
    return "\n".join([first_line, *lines]) + "\n"


def _cell_text(usage: OperatorUsage, domain: str, op_type: str, is_missing: bool) -> str:
    class_name = op_type
    if keyword.iskeyword(op_type) or op_type in RESERVED:
        class_name += "_"
    lines = [_first_line(domain, op_type, class_name, is_missing), "import numpy as np"]
    if any("onnx." in attr.annotation for attr in usage.attrs):
        lines.append("import onnx")
    lines += ["import pyopnb", "", ""]
    if not is_missing:
        name = sanitize(protos.full_name(usage.node))
        op_domain = op_names.DEFAULT_DOMAIN
        lines += [
            f"# ONNX Runtime has {name}: this op is in the domain {op_domain}, and",
            f'# pyopnb.replace(model, …, "{op_domain}::{op_type}") puts it in place of nodes.',
        ]
    lines.append(f"class {class_name}:")
    body = _docstring(usage) + _init(usage) + _compute(usage, f"{domain}::{op_type}")
    lines += _indented(body)
    return "\n".join(lines) + "\n"


def _indented(lines: Iterable[str]) -> list[str]:
    return textwrap.indent("\n".join(lines), "    ").split("\n")


def _first_line(domain: str, op_type: str, class_name: str, is_missing: bool) -> str:
    # Without a name, the op has the name of the class.
    name = ""
    if class_name != op_type:
        name = f" {op_type}"
    if not is_missing:
        return f"%%pyop{name}"
    if not domain:
        return f"%%pyop ::{op_type}"
    # After a space, it would be taken for an option.
    if domain.startswith("-"):
        return f"%%pyop --domain={domain}{name}"
    return f"%%pyop -d {domain}{name}"


def _docstring(usage: OperatorUsage) -> list[str]:
    """Quote the first paragraph of the operator's documentation."""
    # A schema that was made in Python may have None.
    doc = textwrap.dedent((usage.schema and usage.schema.doc) or "").strip()
    if not doc:
        return []
    paragraph = doc.partition("\n\n")[0]
    # Escape the documentation, which must not end the string that contains it.
    text = sanitize(" ".join(paragraph.split()), _LONGEST_DOC).replace("\\", "\\\\")
    text = text.replace('"', '\\"')
    lines = textwrap.wrap(f'"""{text}', _WIDTH, break_long_words=False, break_on_hyphens=False)
    return [*lines, '"""', ""]


def _init(usage: OperatorUsage) -> list[str]:
    """Write ``__init__``, which keeps each attr on self."""
    if not usage.attrs:
        return []
    attrs = [attr for attr in usage.attrs if _is_parameter(attr.name)]
    body = [f"self.{attr.name} = {attr.name}" for attr in attrs]
    parts = {"self": ""}
    # Parameters without a default come first, as Python requires.
    for attr in sorted(attrs, key=lambda attr: bool(attr.default)):
        parts[_parameter(attr)] = attr.remark
    if len(attrs) < len(usage.attrs):
        parts["**attrs: object"] = "whose names are not identifiers"
        body.append("self.attrs = attrs")
    return [*_head("__init__", parts, "):"), *_indented(body), ""]


def _head(name: str, parts: Mapping[str, str], end: str) -> list[str]:
    """Write the head of a method on one line, or with a line for each parameter and its remark."""
    line = f"def {name}({', '.join(parts)}{end}"
    if len(line) <= _WIDTH and not any(parts.values()):
        return [line]
    lines = []
    for part, remark in parts.items():
        comma = "" if part.startswith("**") else ","
        lines.append(f"    {part}{comma}" + (f"  # {remark}" if remark else ""))
    return [f"def {name}(", *lines, end]


def _parameter(attr: AttrUsage) -> str:
    text = attr.name
    if attr.annotation:
        text += f": {attr.annotation}"
    if attr.default:
        # PEP 8 wants spaces beside an annotation only.
        equals = "="
        if attr.annotation:
            equals = " = "
        text += f"{equals}{attr.default}"
    return text


def _is_parameter(name: str) -> bool:
    """Tell whether an attr can be a parameter of a method.

    Python normalizes letters beyond ASCII and mangles names with two leading underscores, so
    these cannot.
    """
    if not name.isidentifier() or not name.isascii() or keyword.iskeyword(name):
        return False
    return not name.startswith("__") and name not in RESERVED


def _compute(usage: OperatorUsage, name: str) -> list[str]:
    lines = []
    parameters = ["self"]
    if usage.has_reference and not usage.has_default_dtypes:
        names = ["self"]
        for argument, port in zip(_arguments_of(usage), usage.inputs, strict=True):
            names.append(f"{argument}=None" if port.optional else argument)
        lines = _head("infer", dict.fromkeys(names, ""), "):")
        lines += [*_indented(_reference_call(usage, name)), ""]
    for port in usage.inputs:
        text = f"*{port.name}" if port.variadic else port.name
        equals = "="
        if port.type != ANY:
            text += f': "{_type_text(port.type)}"'
            equals = " = "
        if port.optional:
            text += f"{equals}None"
        parameters.append(text)
    end = "):"
    if any(type_ != ANY for type_ in usage.outputs):
        hints = ", ".join(f'"{_type_text(type_)}"' for type_ in usage.outputs)
        if len(usage.outputs) > 1:
            hints = f"({hints})"
        end = f") -> {hints}:"
    lines += _head("compute", dict.fromkeys(parameters, ""), end)
    return lines + _indented(_body(usage, name))


def _type_text(type_: TensorType) -> str:
    """Write a type without the names that onnx invents for unknown sizes."""
    if type_.shape is None:
        return str(type_)
    dims = []
    for dim in type_.shape:
        text = "?"
        if isinstance(dim, int):
            text = str(dim)
        elif dim is not None and _SYMBOL.fullmatch(dim) and not _UNKNOWN.fullmatch(dim):
            text = dim
        dims.append(text)
    return f"{type_.dtype or 'any'}[{','.join(dims)}]"


def _body(usage: OperatorUsage, name: str) -> list[str]:
    """Write the body of ``compute``: a call of the reference where there is one."""
    lines = []
    for type_ in (*usage.outputs, *(port.type for port in usage.inputs)):
        if type_.dtype is not None and not type_.dtype.carried:
            lines = [
                f"# No custom op of ONNX Runtime can have {type_.dtype}: "
                "put a Cast around the node."
            ]
    if not usage.has_reference:
        types = ", ".join(map(_type_text, usage.outputs)) or "nothing"
        return [*lines, f"# Return {types}.", f'raise NotImplementedError("{name}")']
    return lines + _reference_call(usage, name)


def _arguments_of(usage: OperatorUsage) -> list[str]:
    return [f"*{port.name}" if port.variadic else port.name for port in usage.inputs]


def _reference_call(usage: OperatorUsage, name: str) -> list[str]:
    """Write the return of the result of the reference for arrays, or for their types."""
    schema: Any = usage.schema
    arguments = [f'"{name}"', *_arguments_of(usage)]
    # The version to which these attrs and numbers belong, even if onnx has a newer one.
    arguments.append(f"opset={schema.since_version}")
    is_variadic = schema.outputs[-1].option == OPTION.Variadic
    if is_variadic or len(usage.outputs) != max(1, schema.min_output):
        arguments.append(f"outputs={len(usage.outputs)}")
    attrs = [attr.name for attr in usage.attrs if _is_parameter(attr.name)]
    arguments += [f"{attr}=self.{attr}" for attr in attrs]
    if len(attrs) < len(usage.attrs):
        arguments.append("**self.attrs")
    call = f"return pyopnb.reference({', '.join(arguments)})"
    if len(call) <= _WIDTH:
        return [call]
    return ["return pyopnb.reference(", *(f"    {item}," for item in arguments), ")"]
