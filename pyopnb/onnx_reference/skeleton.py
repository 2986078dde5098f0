"""The ``%%pyop`` cell for a node: its ports, types and attrs, and a body that runs where ONNX has a reference.

Text from a model never becomes code: names are used only if they are identifiers, everything else is written as a literal.
"""

from __future__ import annotations

import keyword
import os
import re
import textwrap
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
import onnx
from onnx import AttributeProto, FunctionProto, ModelProto, NodeProto

from pyopnb.models.edit.select import select_sites
from pyopnb.models.functions import function_key
from pyopnb.models.index import GraphIndex
from pyopnb.models.io import read_model, without_weights
from pyopnb.models.nodes import (
    Site,
    attribute_values,
    first_output,
    full_name,
    imported_versions,
    path_of_function,
    walk,
)
from pyopnb.models.support.missing import MissingNode, missing
from pyopnb.models.types import Types
from pyopnb.onnx_reference.operator import has_reference, runs_as_newest, schema_of_op
from pyopnb.ops.dtypes import DType, dtype
from pyopnb.ops.errors import DefinitionError, ModelError, hide_internal_frames, sanitize
from pyopnb.ops.names import DEFAULT_DOMAIN, canonical_domain, split_name
from pyopnb.ops.registry import registry
from pyopnb.ops.types import ANY, TensorType

__all__ = ["Cell", "skeleton"]

_TAKEN = {"self", "np", "onnx", "pyopnb", "attrs"}  # names in use in the cell
_METHODS = {"compute", "infer"}
_SYMBOL = re.compile(r"[^\W\d][\w.:/-]*")
_UNKNOWN = re.compile(r"unk__\d+")  # onnx's names for unknown sizes
_MOST_ITEMS = 64  # items of a list or tensor that are written out; longer ones come from the node
_DOC_LINES = 12
_OPTION = onnx.defs.OpSchema.FormalParameterOption
_KINDS: dict[int, str] = {
    AttributeProto.INT: "int",
    AttributeProto.FLOAT: "float",
    AttributeProto.STRING: "str",
    AttributeProto.TENSOR: "np.ndarray",
    AttributeProto.GRAPH: "onnx.ModelProto",
    AttributeProto.INTS: "list[int]",
    AttributeProto.FLOATS: "list[float]",
    AttributeProto.STRINGS: "list[str]",
    AttributeProto.TENSORS: "list[np.ndarray]",
    AttributeProto.GRAPHS: "list[onnx.ModelProto]",
}


class Cell(str):
    """The text of a cell; its repr is the text itself, so a prompt displays it as it would be typed."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


@hide_internal_frames
def skeleton(
    model: ModelProto | bytes | str | os.PathLike[str], node: Any, *, base_dir: str | os.PathLike[str] | None = None
) -> Cell:
    """The text of a ``%%pyop`` cell for a node of a model.

    Parameters
    ----------
    model : ModelProto, bytes or path
    node : NodeProto, str, or a row of `missing`
        A str is the node's name, the name of an output, or an op type that occurs once.
    base_dir : path, optional
        The folder of the external data of a model in memory; it is not read.

    Returns
    -------
    Cell
        A str. Where the installed ONNX Runtime lacks the node, the cell defines the node's own operator and the model runs;
        otherwise an op in the domain ``pyopnb``, for `replace`. All nodes of one operator run through one class: a type or
        a default in the cell holds for each of them.

    Raises
    ------
    ModelError
        There is no such node, several match, or its operator has a name that no op can have.

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
    similar = [s for s in walk(proto) if full_name(s.node) == full_name(site.node) and s is not site]
    described = _Described(proto, site, [site, *similar])
    lacking = any(row.site and row.site.node == site.node for row in missing(proto)) or registry.find(domain, op_type)
    return Cell(_text(described, domain, op_type, bool(lacking)))


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


# ---- what the model says about the operator ----------------------------------------------------------------------------------


@dataclass
class _Input:
    name: str
    type: TensorType
    optional: bool
    variadic: bool


@dataclass
class _Attr:
    name: str
    kind: str  # "" where the annotation must stay away
    default: str  # Python text; "" where there is none
    remark: str = ""


class _Described:
    """An operator as its nodes in one model use it."""

    def __init__(self, proto: ModelProto, site: Site, similar: Sequence[Site]) -> None:
        self.site, self.similar = site, similar
        self.version = _versions(proto, site).get(canonical_domain(site.node.domain))
        self.schema = _schema(site.node, self.version)
        self.types = _PortTypes(proto)
        self.inputs = self._inputs()
        self.outputs = [self._merged(n, inputs=False) for n in range(len(site.node.output))]
        values = [attribute_values(s.node, proto, s.where) for s in similar]
        protos = self._attr_protos()
        names = dict.fromkeys((*protos, *(self.schema.attributes if self.schema else ())))
        self.attrs = [self._attr(name, protos.get(name, []), values) for name in names]
        self.has_reference = self.schema is not None and has_reference(site.node, self.schema.since_version)

    def _merged(self, place: int, *, inputs: bool) -> TensorType:
        """What the types of the port have in common at all nodes; `ANY` if nothing."""
        ends = [(s, s.node.input if inputs else s.node.output) for s in self.similar]
        kinds = [self.types.of(s, names[place]) for s, names in ends if place < len(names) and names[place]]
        common = _common_type(kinds)
        if inputs or common.dtype or self.schema is None:
            return common
        return common.like(dtype=_only_dtype(self.schema, place))

    def _inputs(self) -> list[_Input]:
        node, ports = self.site.node, list(self.schema.inputs) if self.schema else []
        names = _Names(_TAKEN)
        if not ports:
            count = max(len(s.node.input) for s in self.similar)
            texts = [node.input[n] if n < len(node.input) else "" for n in range(count)]
            lacking = [any(n >= len(s.node.input) or not s.node.input[n] for s in self.similar) for n in range(count)]
            made = [_Input(names.of(t, f"x{n}"), self._merged(n, inputs=True), lacking[n], False) for n, t in enumerate(texts)]
        else:
            made = [
                _Input(
                    names.of(port.name, f"x{n}"),
                    self._rest(n) if port.option == _OPTION.Variadic else self._merged(n, inputs=True),
                    port.option == _OPTION.Optional,
                    port.option == _OPTION.Variadic,
                )
                for n, port in enumerate(ports)
            ]
        for earlier, later in pairwise(made):  # as Python requires
            later.optional |= earlier.optional and not later.variadic
        return made

    def _rest(self, first: int) -> TensorType:
        return _common_type([self._merged(n, inputs=True) for n in range(first, max(len(s.node.input) for s in self.similar))])

    def _attr_protos(self) -> dict[str, list[AttributeProto]]:
        found: dict[str, list[AttributeProto]] = {}
        for site in self.similar:
            for attribute in site.node.attribute:
                found.setdefault(attribute.name, []).append(attribute)
        return found

    def _attr(self, name: str, protos: Sequence[AttributeProto], values: Sequence[Mapping[str, Any]]) -> _Attr:
        """The node's value, unless another node omits the attr: then the operator's default."""
        known = self.schema.attributes.get(name) if self.schema else None
        kind = known.type.value if known else protos[0].type
        hint = _hint(int(kind), [v[name] for v in values if name in v])
        here = values[0]
        everywhere = all(name in v for v in values)
        if name in here and (everywhere or not known):
            return _Attr(name, hint, *_literal(here[name], int(kind)))
        if any(a.ref_attr_name for a in protos) and not (known and known.default_value.type):
            return _Attr(name, hint, "", "from the caller of the function")
        if known and known.default_value.type:
            default = attribute_values(NodeProto(attribute=[_renamed(known.default_value, name)]), ModelProto(), "default")
            return _Attr(name, hint, *_literal(default[name], int(kind)))
        if known and known.required:
            return _Attr(name, hint, "")
        return _Attr(name, f"{hint} | None" if hint else "", "None")


class _PortTypes:
    """The types of values that hold in every run that ONNX Runtime makes of a model."""

    def __init__(self, proto: ModelProto) -> None:
        self._copy = _without_claims(proto)
        self._declared, self._inferred = Types(proto), Types(self._copy)
        self._twins = {id(site.scope): twin.scope for site, twin in zip(walk(proto), walk(self._copy), strict=True)}
        # Outputs of nodes whose operators onnx knows; of others the declared type is all that is known.
        standard = {n for node in proto.graph.node if _schema(node, None) is not None for n in node.output}
        self._claimed = standard & {info.name for info in proto.graph.output}
        called = Counter(function_key(site.node) for site in walk(proto))
        self._shared = [function for function in proto.functions if called[function_key(function)] != 1]

    def of(self, site: Site, name: str) -> TensorType:
        """The type of a value at a node; ``any[...]`` in a function that several nodes call, each with types of its own."""
        if any(_holds(function, site) for function in self._shared):
            return ANY
        declared = self._declared.of(site, name)
        inferred = self._inferred.of(replace(site, scope=self._twins[id(site.scope)]), name)
        if inferred.shape is None and name in self._claimed and declared.shape is not None:
            return TensorType(declared.dtype, tuple(None if isinstance(dim, int) else dim for dim in declared.shape))
        return _tolerated(declared, inferred)


def _without_claims(proto: ModelProto) -> ModelProto:
    """A copy that declares shapes only of what a run is fed and of what onnx cannot infer.

    ONNX Runtime warns of a wrong shape of an output, and goes on.
    """
    copy = without_weights(proto).proto
    for graph in GraphIndex(copy.graph).walk():
        scope = graph.scope
        known = [node for node in scope.node if _schema(node, None) is not None]
        inferable = {name for node in known for name in node.output}
        for info in scope.output:
            if info.name in inferable:
                info.ClearField("type")
        kept = [info for info in scope.value_info if info.name not in inferable]
        del scope.value_info[:]
        scope.value_info.extend(kept)
    return copy


def _tolerated(declared: TensorType, inferred: TensorType) -> TensorType:
    """What is certain of a type: a size that is declared where onnx infers none was true when the model was exported."""
    if inferred.shape is None:
        return declared if declared.dtype or declared.shape is not None else inferred
    shape = declared.shape
    if shape is None or len(shape) != len(inferred.shape):
        return TensorType(inferred.dtype or declared.dtype, inferred.shape)
    named = [i is not None and not (isinstance(i, str) and _UNKNOWN.fullmatch(i)) for i in inferred.shape]
    dims = [i if n else d if isinstance(d, str) else None for d, i, n in zip(shape, inferred.shape, named, strict=True)]
    return TensorType(inferred.dtype or declared.dtype, tuple(dims))


def _only_dtype(schema: Any, place: int) -> DType | None:
    """The dtype that an output has in all nodes of its operator, whatever the inputs have; None where there are several."""
    port = schema.outputs[min(place, len(schema.outputs) - 1)] if schema.outputs else None
    if port is None or len(port.types) != 1 or port.type_str in {given.type_str for given in schema.inputs}:
        return None
    match = re.fullmatch(r"tensor\((\w+)\)", next(iter(port.types)))
    return dtype(match[1]) if match else None


def _versions(proto: ModelProto, site: Site) -> dict[str, int]:
    return imported_versions(proto, *(f for f in proto.functions if _holds(f, site)))


def _holds(function: FunctionProto, site: Site) -> bool:
    return site.scope is function or site.path.startswith(f"{path_of_function(function)},")


def _schema(node: NodeProto, version: int | None) -> Any:
    try:
        return schema_of_op(canonical_domain(node.domain), node.op_type, version)
    except (ModelError, OverflowError, TypeError):  # the numbers of a file can be of any size
        return None


def _renamed(attribute: AttributeProto, name: str) -> AttributeProto:
    named = AttributeProto()
    named.CopyFrom(attribute)
    named.name = name
    return named


def _common_type(kinds: Iterable[TensorType]) -> TensorType:
    """What these types have in common."""
    met: TensorType | None = None
    for kind in kinds:
        met = kind if met is None else _meet(met, kind)
    return met or ANY


def _meet(a: TensorType, b: TensorType) -> TensorType:
    shape = None
    if a.shape is not None and b.shape is not None and len(a.shape) == len(b.shape):
        shape = tuple(m if m == n else None for m, n in zip(a.shape, b.shape, strict=True))
    return TensorType(a.dtype if a.dtype == b.dtype else None, shape)


# ---- as Python ---------------------------------------------------------------------------------------------------------------


class _Names:
    """Unique identifiers."""

    def __init__(self, taken: Iterable[str]) -> None:
        self._taken = set(taken)

    def of(self, text: str, otherwise: str) -> str:
        """The text, changed as little as needed to be a new identifier."""
        name = re.sub(r"\W", "_", text[:40], flags=re.ASCII).lstrip("_")
        name = name if name and not name[0].isdigit() else otherwise if not name else f"x{name}"
        while keyword.iskeyword(name) or name in self._taken:
            name += "_"
        self._taken.add(name)
        return name


def _hint(kind: int, values: Sequence[Any]) -> str:
    hint = _KINDS.get(kind, "")
    # A string that is not UTF-8 arrives as bytes.
    flat = [item for value in values for item in (value if isinstance(value, list) else [value])]
    if any(isinstance(item, bytes) for item in flat):
        hint = "" if any(isinstance(item, str) for item in flat) else hint.replace("str", "bytes")
    return hint


def _literal(value: Any, kind: int) -> tuple[str, str]:
    """A value as Python source, and a remark; no source where the value must come from the node."""
    if isinstance(value, float):
        return _number(value), ""
    if isinstance(value, (int, str, bytes)):
        return (repr(value), "") if not isinstance(value, (str, bytes)) or len(value) <= 1000 else ("", f"{len(value)} long")
    if isinstance(value, list) and kind in (AttributeProto.INTS, AttributeProto.FLOATS, AttributeProto.STRINGS):
        if len(value) <= _MOST_ITEMS and all(len(item) <= 200 for item in value if isinstance(item, (str, bytes))):
            return f"[{', '.join(_number(item) if isinstance(item, float) else repr(item) for item in value)}]", ""
        return "", f"{len(value)} values"
    if isinstance(value, np.ndarray):
        return _array(value)
    return "", ""


def _number(value: float) -> str:
    return repr(value) if np.isfinite(value) else f"float({str(value)!r})"


def _array(value: np.ndarray) -> tuple[str, str]:
    builtin = value.dtype.kind in "biuf" and value.dtype.isbuiltin != 2
    if value.size > _MOST_ITEMS or not (builtin or value.dtype == object):
        return "", f"an array of {value.dtype.name}, {'×'.join(map(str, value.shape)) or 'a scalar'}"
    items = ", ".join(_number(item) if isinstance(item, float) else repr(item) for item in value.ravel().tolist())
    if value.dtype == object and any(not isinstance(item, (str, bytes)) or len(item) > 200 for item in value.ravel().tolist()):
        return "", "an array of strings"
    kind = "object" if value.dtype == object else f"np.{'bool_' if value.dtype.kind == 'b' else value.dtype.name}"
    shape = "" if value.ndim == 1 else f".reshape({value.shape!r})"
    return f"np.array([{items}], dtype={kind}){shape}", ""


def _type_text(kind: TensorType) -> str:
    if kind.shape is None:
        return f"{kind.dtype or 'any'}[...]"
    return f"{kind.dtype or 'any'}[{','.join(map(_dim, kind.shape))}]"


def _dim(dim: int | str | None) -> str:
    known = isinstance(dim, int) or (dim and _SYMBOL.fullmatch(dim) and not _UNKNOWN.fullmatch(dim))
    return str(dim) if known else "?"


def _quoted(kind: TensorType) -> str:
    return f'"{_type_text(kind)}"'


def _text(described: _Described, domain: str, op_type: str, lacking: bool) -> str:
    class_name = op_type if not (keyword.iskeyword(op_type) or op_type in _TAKEN) else f"{op_type}_"
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
    return f"%%pyop -d {domain}{name}" if not domain.startswith("-") else f"%%pyop --domain={domain}{name}"


def _docstring(described: _Described) -> list[str]:
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
    return [f'"""{safe[0]}', *safe[1:], '"""', ""] if len(safe) > 1 or safe[0].endswith('"') else [f'"""{safe[0]}"""', ""]


def _init(described: _Described) -> list[str]:
    if not described.attrs:
        return []
    plain = [attr for attr in described.attrs if _is_plain(attr.name)]
    others = [attr for attr in described.attrs if not _is_plain(attr.name)]
    parts = []
    for attr in sorted(plain, key=lambda attr: bool(attr.default)):  # those without a default come first, as Python requires
        hint = f": {attr.kind}" if attr.kind else ""
        parts.append((f"{attr.name}{hint}" + (f" = {attr.default}" if hint else f"={attr.default}") * bool(attr.default), attr))
    if others:
        parts.append(("**attrs: object", _Attr("attrs", "", "", "whose names are not identifiers")))
    return [
        *_signature("__init__", parts),
        *(f"    self.{attr.name} = {attr.name}" for attr in plain),
        *(["    self.attrs = attrs"] if others else []),
        "",
    ]


def _infer(described: _Described) -> list[str]:
    """The type of a Cast's output, where its nodes do not have one in common."""
    if full_name(described.site.node) != "::Cast" or not described.has_reference or described.outputs[0].dtype is not None:
        return []
    name = described.inputs[0].name
    return [f"def infer(self, {name}):", f"    return {name}.like(dtype=self.to)", ""]


def _signature(method: str, parts: Sequence[tuple[str, _Attr]]) -> list[str]:
    short = f"def {method}(self, {', '.join(text for text, _ in parts)}):"
    if len(short) <= 110 and not any(attr.remark for _, attr in parts):
        return [short]
    return [
        f"def {method}(",
        "    self,",
        *(f"    {text},{f'  # {attr.remark}' if attr.remark else ''}" for text, attr in parts if not text.startswith("**")),
        *(f"    {text}  # {attr.remark}" for text, attr in parts if text.startswith("**")),
        "):",
    ]


def _is_plain(name: str) -> bool:
    """Whether an attr can be a parameter: Python changes other letters, and names with two leading underscores."""
    usable = name.isidentifier() and name.isascii() and not keyword.iskeyword(name) and not name.startswith("__")
    return usable and name not in _TAKEN | _METHODS


def _compute(described: _Described, name: str) -> list[str]:
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


def _body(described: _Described, name: str) -> list[str]:
    kinds = [_type_text(kind) if kind != ANY else "?" for kind in described.outputs]
    types = [*described.outputs, *(port.type for port in described.inputs)]
    closed = sorted({kind.dtype.name for kind in types if kind.dtype and not kind.dtype.carried})
    lines = [f"# No custom op of ONNX Runtime can have {', '.join(closed)}: put a Cast around the node."] if closed else []
    if not described.has_reference:
        return [*lines, f"# Return {_result_text(kinds)}.", f'raise NotImplementedError("{name}")']
    schema = described.schema
    arguments = [f'"{name}"', *(f"{'*' * port.variadic}{port.name}" for port in described.inputs)]
    arguments += [f"opset={schema.since_version}"]
    if len(described.outputs) != max(1, schema.min_output) or schema.outputs[-1].option == _OPTION.Variadic:
        arguments += [f"outputs={len(described.outputs)}"]
    arguments += [f"{attr.name}=self.{attr.name}" for attr in described.attrs if _is_plain(attr.name)]
    arguments += ["**self.attrs"] if any(not _is_plain(attr.name) for attr in described.attrs) else []
    if runs_as_newest(schema.domain, schema.name, schema.since_version):
        lines += [
            "# ONNX has changed this operator since, and its reference implementation knows one version only:",
            "# compare the numbers.",
        ]
    call = f"return pyopnb.reference({', '.join(arguments)})"
    if len(call) <= 110:
        return [*lines, call]
    return [*lines, "return pyopnb.reference(", *(f"    {argument}," for argument in arguments), ")"]
