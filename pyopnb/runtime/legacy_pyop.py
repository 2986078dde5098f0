"""The retired Python Operator's nodes: what they say, which class serves them, and what they may not do.

A node of op type ``PyOp`` names a module and a class. The operator that ONNX Runtime had imported whatever a file named. Here
the names are keys: a class comes from the registry (``%%pyop --module``), or from a module that the caller allowed by its exact
name, and then only if that module itself defines it. All nodes are checked before anything is imported.
"""

from __future__ import annotations

import importlib
import inspect
import keyword
import time
from collections.abc import Sequence
from dataclasses import dataclass
from types import FunctionType, ModuleType
from typing import Any

from onnx import AttributeProto, ModelProto

from pyopnb.models.nodes import Site, attribute_values
from pyopnb.ops.dtypes import dtype
from pyopnb.ops.errors import ModelError, ModuleRefused, NotationError, sanitize
from pyopnb.ops.registry import Op, Version, registry
from pyopnb.ops.signature import schema_of
from pyopnb.ops.types import TensorType

__all__ = ["OP_TYPE", "LegacyNode", "Retired", "checked_modules", "describe", "serve"]

OP_TYPE = "PyOp"
_RESERVED = ("module", "class_name", "compute", "input_types", "output_types")


@dataclass(frozen=True)
class Retired:
    """What a retired PyOp's node says beyond its attrs."""

    compute: str
    inputs: tuple[TensorType, ...]
    outputs: tuple[TensorType, ...]

    def check_inputs(self, given: Sequence[TensorType | None], where: str) -> None:
        """Raise `ModelError` unless the inputs are of the dtypes that the node says."""
        for number, (got, want) in enumerate(zip(given, self.inputs, strict=False)):
            if got is not None and got.dtype is not None and got.dtype != want.dtype:
                raise ModelError(
                    f"{where}, input {number}", expected=f"{want}, as input_types says", got=str(got), next="change input_types"
                )


class LegacyNode:
    """What one node asks for: checked, and nothing imported yet."""

    def __init__(self, site: Site, model: ModelProto) -> None:
        self.where = site.where
        values = attribute_values(site.node, model, self.where)
        self.module = _text(values, "module", self.where, "PyOp module not specified")
        self.class_name = _text(values, "class_name", self.where, "PyOp class name not specified")
        compute = values.get("compute", "compute")
        self.retired = Retired(
            compute=_name(compute, "compute", self.where),
            inputs=_types(site, values, "input_types", "PyOp node inputs not specified", len(site.node.input)),
            outputs=_types(site, values, "output_types", "PyOp node outputs not specified", len(site.node.output)),
        )
        _name(self.class_name, "class_name", self.where)
        self.attrs = {k: v for k, v in values.items() if k not in _RESERVED}


def describe(sites: Sequence[Site], model: ModelProto, modules: frozenset[str]) -> list[LegacyNode]:
    """Read and check every retired node of a model; nothing is imported.

    Raises
    ------
    ModelError
        One of the four "not specified", or a name that is no identifier.
    ModuleRefused
        A node asks for a module that is neither in the registry nor allowed.
    """
    asked = [LegacyNode(site, model) for site in sites]
    for one in asked:
        if registry.find_class(one.module, one.class_name) is None and one.module not in modules:
            raise ModuleRefused(
                f"{one.where} asks for class {sanitize(one.class_name)} of module {sanitize(one.module)}, "
                "and nothing is imported because a model says so",
                next=f"Session(model, modules=[{sanitize(one.module)!r}]) if you trust that module, "
                f"or define the class: %%pyop --module {sanitize(one.module)}",
            )
    return asked


def serve(asked: LegacyNode) -> Op:
    """The op for a node that `describe` has passed: the registry's, else the class that the allowed module defines."""
    registered = registry.find_class(asked.module, asked.class_name)
    if registered is not None:
        return registered
    try:
        module = importlib.import_module(asked.module)
    except ImportError as error:
        raise ModelError(
            f"{asked.where}, module {sanitize(asked.module)}",
            expected="a module that can be imported",
            got=sanitize(str(error)),
            next="put its folder on sys.path",
        ) from error
    found = vars(module).get(asked.class_name)
    if not isinstance(found, type) or not _defined_in(module, found):
        if isinstance(found, type):
            origin = f"one of {sanitize(found.__module__)}, or made elsewhere"
        else:
            origin = "none" if found is None else type(found).__name__
        raise ModuleRefused(
            f"{asked.where}, class {sanitize(asked.class_name)}",
            expected=f"a class that {sanitize(asked.module)} itself defines",
            got=origin,
            next=f"define class {sanitize(asked.class_name)} in {sanitize(asked.module)}",
        )
    return _pinned(found, asked)


def _defined_in(module: ModuleType, cls: type) -> bool:
    """Whether a module's own code made the class: what ``__module__`` says must be true of its methods as well."""
    says = type.__getattribute__(cls, "__dict__").get("__module__")
    own = [inspect.unwrap(member) for member in vars(cls).values() if isinstance(member, FunctionType)]
    return type(says) is str and says == module.__name__ and (not own or any(f.__globals__ is vars(module) for f in own))


def _pinned(cls: type, asked: LegacyNode) -> Op:
    """An op with one version, outside the registry."""
    if not callable(getattr(cls, asked.retired.compute, None)):
        raise ModelError(
            f"{asked.where}, class {sanitize(asked.class_name)}",
            expected=f"a method {asked.retired.compute}",
            got="none",
            next=f"def {asked.retired.compute}(self, x): …",
        )
    op = Op(f"{sanitize(asked.module)}::{asked.class_name}")
    any_inputs = schema_of(type("Retired", (), {"compute": staticmethod(lambda *inputs: inputs)}))
    op.versions = (Version(op.name, 1, cls, any_inputs, 1, None, time.time(), 0),)
    return op


def checked_modules(modules: Any) -> frozenset[str]:
    """The caller's permission: exact names and nothing else; no True, no pattern, no prefix."""
    if isinstance(modules, str) or not all(isinstance(m, str) and m for m in _listed(modules)):
        raise ModelError("Session, modules", expected='a list of exact names, as ["mymodule"]', got=sanitize(repr(modules)))
    return frozenset(modules)


def _listed(modules: Any) -> list[Any]:
    try:
        return list(modules)
    except TypeError:
        return [None]


def _text(values: dict[str, Any], key: str, where: str, missing: str) -> str:
    value = values.get(key)
    if not isinstance(value, str) or not value:
        raise ModelError(f"{where}: {missing}", next=f"give the node {key}='…'")
    return value


def _name(value: Any, key: str, where: str) -> str:
    good = isinstance(value, str) and value.isidentifier() and not keyword.iskeyword(value) and not value.startswith("__")
    if not good:
        raise ModelError(f"{where}, {key}", expected="one identifier, no dots and no dunder", got=sanitize(repr(value)))
    return str(value)


def _types(site: Site, values: dict[str, Any], key: str, missing: str, count: int) -> tuple[TensorType, ...]:
    numbers = values.get(key) or []
    is_ints = any(a.name == key and a.type == AttributeProto.INTS for a in site.node.attribute)
    if not numbers or not is_ints:
        raise ModelError(f"{site.where}: {missing}", next=f"give the node {key}=[TensorProto.FLOAT, …]")
    if len(numbers) != count:
        raise ModelError(f"{site.where}, {key}", expected=f"{count}, as the node has", got=str(len(numbers)))
    try:
        return tuple(TensorType(dtype(number), None) for number in numbers)
    except NotationError as error:
        raise ModelError(f"{site.where}, {key}: {error.where}", expected=error.expected, got=error.got) from None
