"""The ``%%pyop`` cell for a node: its ports, types and attrs, and a body that runs where ONNX has a reference.

Text from a model never becomes code: names are used only if they are identifiers, everything else is written as a literal.
"""

from __future__ import annotations

import keyword
import os
import re
import textwrap
from collections.abc import Sequence
from typing import Any

from onnx import ModelProto

from pyopnb.errors import DefinitionError, ModelError
from pyopnb.models.edit.select import select_sites
from pyopnb.models.io import read_model
from pyopnb.models.nodes import Site, first_output, full_name, walk
from pyopnb.models.support.missing import MissingNode, missing
from pyopnb.onnx_reference.operator import runs_as_newest
from pyopnb.onnx_reference.usage import OPTION, TAKEN, UNKNOWN_SIZE, AttrUsage, OperatorUsage
from pyopnb.ops.arguments import check_arguments
from pyopnb.ops.messages import hide_internal_frames, sanitize
from pyopnb.ops.names import DEFAULT_DOMAIN, split_name
from pyopnb.ops.registry import registry
from pyopnb.ops.types import ANY, TensorType

__all__ = ["SkeletonCell", "skeleton"]

_METHODS = {"compute", "infer"}
_SYMBOL = re.compile(r"[^\W\d][\w.:/-]*")
_DOC_LINES = 12


class SkeletonCell(str):
    """The text of a cell; its repr is the text itself, so a prompt displays it as it would be typed."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


@hide_internal_frames
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
    node : NodeProto, str, or a row of `missing`
        A str is the node's name, the name of an output, or an op type that occurs once.
    base_dir : path, optional
        The folder of the external data of a model in memory; it is not read.

    Returns
    -------
    SkeletonCell
        A str. Where the installed ONNX Runtime lacks the node, the cell defines the node's own operator and the model runs;
        otherwise an op in the domain ``pyopnb``, for `replace`. All nodes of one operator run through one class: a type or
        a default in the cell holds for each of them.

    Raises
    ------
    ModelError
        There is no such node, several match, its operator has a name that no op can have, or it reads or makes a sequence, a
        map or an optional, which no op can.

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
            # Return an array of type float32[N,3].
            raise NotImplementedError("com.example::Scale")
    """
    proto = read_model(model, base_dir, data=False).proto
    site = _site(proto, node, model)
    domain, op_type = _op_name(site)
    similar = [
        s for s in walk(proto) if full_name(s.node) == full_name(site.node) and s is not site
    ]
    described = OperatorUsage(proto, site, [site, *similar])
    lacking = any(
        row.site and row.site.node == site.node for row in missing(proto)
    ) or registry.find(domain, op_type)
    return SkeletonCell(_text(described, domain, op_type, bool(lacking)))


def _site(proto: ModelProto, node: Any, model: object) -> Site:
    wanted = node.site.node if isinstance(node, MissingNode) and node.site else node
    sites = select_sites(proto, wanted, model)
    if isinstance(wanted, str) and len(sites) > 1:
        names = [sanitize(s.node.name or first_output(s.node), 40) for s in sites]
        raise ModelError(
            f"node {sanitize(repr(wanted))}",
            expected="one node",
            got=f"{len(sites)}: {', '.join(names[:8])}",
            next=repr(names[0]),
        )
    return sites[0]


def _op_name(site: Site) -> tuple[str, str]:
    try:
        return split_name(full_name(site.node))
    except DefinitionError as error:
        raise ModelError(
            site.where,
            expected="a domain and an op type of letters, digits, _ and, in the domain, . and -",
            got=sanitize(repr(full_name(site.node))),
            next="rename the operator in a copy of the model",
        ) from error


def _type_text(kind: TensorType) -> str:
    if kind.shape is None:
        return f"{kind.dtype or 'any'}[...]"
    return f"{kind.dtype or 'any'}[{','.join(map(_dim, kind.shape))}]"


def _dim(dim: int | str | None) -> str:
    known = isinstance(dim, int) or (
        dim and _SYMBOL.fullmatch(dim) and not UNKNOWN_SIZE.fullmatch(dim)
    )
    return str(dim) if known else "?"


def _quoted(kind: TensorType) -> str:
    return f'"{_type_text(kind)}"'


def _text(described: OperatorUsage, domain: str, op_type: str, lacking: bool) -> str:
    class_name = op_type if not (keyword.iskeyword(op_type) or op_type in TAKEN) else f"{op_type}_"
    lines = [_first_line(domain, op_type, class_name, lacking)]
    lines += ["import numpy as np"]
    if any("onnx." in attr.kind for attr in described.attrs):
        lines += ["import onnx"]
    lines += ["import pyopnb", "", ""]
    if not lacking:
        lines += [
            f"# ONNX Runtime has {sanitize(full_name(described.site.node))}: this op is in the domain {DEFAULT_DOMAIN}, and",
            f'# pyopnb.replace(model, …, "{DEFAULT_DOMAIN}::{op_type}") puts it into the place of nodes.',
        ]
    lines += [f"class {class_name}:"]
    body = _docstring(described)
    body += _init(described)
    body += _infer(described)
    body += _compute(described, f"{domain}::{op_type}")
    return "\n".join([*lines, *(f"    {line}" if line else "" for line in body)]) + "\n"


def _first_line(domain: str, op_type: str, class_name: str, lacking: bool) -> str:
    if not lacking:
        return "%%pyop" if class_name == op_type else f"%%pyop {op_type}"
    if not domain:
        return f"%%pyop ::{op_type}"
    name = "" if class_name == op_type else f" {op_type}"
    return (
        f"%%pyop -d {domain}{name}"
        if not domain.startswith("-")
        else f"%%pyop --domain={domain}{name}"
    )


def _docstring(described: OperatorUsage) -> list[str]:
    if described.schema is None or not described.schema.doc:
        return []
    lines = textwrap.dedent(described.schema.doc).strip().splitlines()
    kept: list[str] = []
    for line in lines:
        wrapped = textwrap.wrap(line, 110, break_long_words=False, break_on_hyphens=False) or [""]
        if len(kept) + len(wrapped) > _DOC_LINES:
            kept.append("…")
            break
        kept += wrapped
    while kept and not kept[-1]:
        kept.pop()
    safe = [sanitize(line, 2000).replace("\\", "\\\\").replace('"""', '\\"\\"\\"') for line in kept]
    return (
        [f'"""{safe[0]}', *safe[1:], '"""', ""]
        if len(safe) > 1 or safe[0].endswith('"')
        else [f'"""{safe[0]}"""', ""]
    )


def _init(described: OperatorUsage) -> list[str]:
    if not described.attrs:
        return []
    plain = [attr for attr in described.attrs if _is_plain(attr.name)]
    others = [attr for attr in described.attrs if not _is_plain(attr.name)]
    parts = []
    for attr in sorted(
        plain, key=lambda attr: bool(attr.default)
    ):  # those without a default come first, as Python requires
        hint = f": {attr.kind}" if attr.kind else ""
        parts.append(
            (
                f"{attr.name}{hint}"
                + (f" = {attr.default}" if hint else f"={attr.default}") * bool(attr.default),
                attr,
            )
        )
    if others:
        parts.append(
            ("**attrs: object", AttrUsage("attrs", "", "", "whose names are not identifiers"))
        )
    return [
        *_signature_of_init(parts),
        *(f"    self.{attr.name} = {attr.name}" for attr in plain),
        *(["    self.attrs = attrs"] if others else []),
        "",
    ]


def _infer(described: OperatorUsage) -> list[str]:
    """Return the type of a Cast's output, where its nodes do not have one in common."""
    if (
        full_name(described.site.node) != "::Cast"
        or not described.has_reference
        or described.outputs[0].dtype is not None
    ):
        return []
    name = described.inputs[0].name
    return [f"def infer(self, {name}):", f"    return {name}.like(dtype=self.to)", ""]


def _signature_of_init(parts: Sequence[tuple[str, AttrUsage]]) -> list[str]:
    short = f"def __init__(self, {', '.join(text for text, _ in parts)}):"
    if len(short) <= 110 and not any(attr.remark for _, attr in parts):
        return [short]
    return [
        "def __init__(",
        "    self,",
        *(
            f"    {text},{f'  # {attr.remark}' if attr.remark else ''}"
            for text, attr in parts
            if not text.startswith("**")
        ),
        *(f"    {text}  # {attr.remark}" for text, attr in parts if text.startswith("**")),
        "):",
    ]


def _is_plain(name: str) -> bool:
    """Tell whether an attr can be a parameter: Python changes other letters, and names with two leading underscores."""
    usable = (
        name.isidentifier()
        and name.isascii()
        and not keyword.iskeyword(name)
        and not name.startswith("__")
    )
    return usable and name not in TAKEN | _METHODS


def _compute(described: OperatorUsage, name: str) -> list[str]:
    parts = []
    for port in described.inputs:
        hint = "" if port.type == ANY else f": {_quoted(port.type)}"
        default = "" if not port.optional or port.variadic else " = None" if hint else "=None"
        parts.append(f"{'*' * port.variadic}{port.name}{hint}{default}")
    end = f"){_returns(described.outputs)}:"
    head = [f"def compute({', '.join(['self', *parts])}{end}"]
    if len(head[0]) > 118:
        head = ["def compute(", *(f"    {part}," for part in ["self", *parts]), end]
    return [*head, *(f"    {line}" for line in _body(described, name))]


def _returns(outputs: Sequence[TensorType]) -> str:
    if all(kind == ANY for kind in outputs):
        return ""
    texts = ", ".join(map(_quoted, outputs))
    return f" -> {texts}" if len(outputs) == 1 else f" -> ({texts})"


def _result_text(kinds: Sequence[str]) -> str:
    if len(kinds) == 1:
        return "an array" if kinds[0] == "?" else f"an array of type {kinds[0]}"
    return f"a tuple: {', '.join(kinds)}" if kinds else "nothing"


def _body(described: OperatorUsage, name: str) -> list[str]:
    kinds = [_type_text(kind) if kind != ANY else "?" for kind in described.outputs]
    types = [*described.outputs, *(port.type for port in described.inputs)]
    closed = sorted({kind.dtype.name for kind in types if kind.dtype and not kind.dtype.carried})
    lines = (
        [
            f"# No custom op of ONNX Runtime can have {', '.join(closed)}: put a Cast around the node."
        ]
        if closed
        else []
    )
    if not described.has_reference:
        return [*lines, f"# Return {_result_text(kinds)}.", f'raise NotImplementedError("{name}")']
    schema = described.schema
    arguments = [f'"{name}"', *(f"{'*' * port.variadic}{port.name}" for port in described.inputs)]
    arguments += [f"opset={schema.since_version}"]
    if (
        len(described.outputs) != max(1, schema.min_output)
        or schema.outputs[-1].option == OPTION.Variadic
    ):
        arguments += [f"outputs={len(described.outputs)}"]
    arguments += [
        f"{attr.name}=self.{attr.name}" for attr in described.attrs if _is_plain(attr.name)
    ]
    arguments += (
        ["**self.attrs"] if any(not _is_plain(attr.name) for attr in described.attrs) else []
    )
    if runs_as_newest(schema.domain, schema.name, schema.since_version):
        lines += [
            "# ONNX has changed this operator since, and its reference implementation knows one version only:",
            "# compare the numbers.",
        ]
    call = f"return pyopnb.reference({', '.join(arguments)})"
    if len(call) <= 110:
        return [*lines, call]
    return [
        *lines,
        "return pyopnb.reference(",
        *(f"    {argument}," for argument in arguments),
        ")",
    ]
