"""Read and check nodes of the retired Python Operator of ONNX Runtime, and find their classes.

A node of op type ``PyOp`` names a module and a class. The ONNX Runtime operator imported any module
that a file named. Here the names are keys: a class comes from the registry (``%%pyop --module``),
or from a module that the caller allowed by its exact name, and then only if that module itself
defines it. All nodes are checked before anything is imported.
"""

from __future__ import annotations

import importlib
import inspect
import keyword
import time
from collections.abc import Iterable, Sequence
from types import FunctionType, ModuleType
from typing import Any, NamedTuple

from onnx import AttributeProto, ModelProto

from pyopnb.common import sanitize
from pyopnb.engine.models.protos import Site, attribute_values
from pyopnb.engine.ops.dtypes import dtype
from pyopnb.engine.ops.op import Op, Version
from pyopnb.engine.ops.op_sources import OpSource
from pyopnb.engine.ops.registry import registry
from pyopnb.engine.ops.signature import schema_of
from pyopnb.engine.ops.types import TensorType
from pyopnb.errors import InputError, ModelError, ModuleRefused

__all__ = ["OP_TYPE", "LegacyNode", "LegacySpec", "checked_modules", "op_for", "read_nodes"]

OP_TYPE = "PyOp"
_RESERVED = ("module", "class_name", "compute", "input_types", "output_types")


class LegacySpec(NamedTuple):
    """The method and the types that a retired node declares beside its attrs."""

    compute: str
    inputs: tuple[TensorType, ...]
    outputs: tuple[TensorType, ...]

    def check_inputs(self, given: Sequence[TensorType | None], where: str) -> None:
        """Raise `ModelError` unless the inputs are of the dtypes that the node says."""
        for number, (got, want) in enumerate(zip(given, self.inputs, strict=False)):
            if got is not None and got.dtype is not None and got.dtype != want.dtype:
                raise ModelError(
                    f"{where}, input {number}",
                    expected=f"{want}, as input_types says",
                    got=str(got),
                    next="change input_types",
                )


class LegacyNode:
    """A retired node, read and checked; nothing is imported yet."""

    def __init__(self, site: Site, model: ModelProto) -> None:
        self.where = site.where
        values = attribute_values(site.node, model, self.where)
        self.module = _text(values, "module", self.where, "PyOp module not specified")
        self.class_name = _text(values, "class_name", self.where, "PyOp class name not specified")
        compute = values.get("compute", "compute")
        self.legacy = LegacySpec(
            compute=_name(compute, "compute", self.where),
            inputs=_types(
                site, values, "input_types", "PyOp node inputs not specified", len(site.node.input)
            ),
            outputs=_types(
                site,
                values,
                "output_types",
                "PyOp node outputs not specified",
                len(site.node.output),
            ),
        )
        _name(self.class_name, "class_name", self.where)
        self.attrs = {k: v for k, v in values.items() if k not in _RESERVED}


def read_nodes(
    sites: Sequence[Site], model: ModelProto, modules: frozenset[str], ops: OpSource = registry
) -> list[LegacyNode]:
    """Read and check every retired node of a model; nothing is imported.

    Raises
    ------
    ModelError
        One of the four "not specified", or a name that is no identifier.
    ModuleRefused
        A node asks for a module that is neither in the registry nor allowed.
    """
    nodes = [LegacyNode(site, model) for site in sites]
    for node in nodes:
        if ops.find_class(node.module, node.class_name) is None and node.module not in modules:
            raise ModuleRefused(
                f"{node.where} asks for class {node.class_name} "
                f"of module {node.module}, "
                "and nothing is imported because a model says so",
                next=f"Session(model, modules=[{node.module!r}]) "
                "if you trust that module, "
                f"or define the class: %%pyop --module {node.module}",
            )
    return nodes


def op_for(node: LegacyNode, ops: OpSource = registry) -> Op:
    """Find the op of a retired node in the registry, or else in an allowed module."""
    # A class that was defined in the notebook needs no module to be imported.
    registered = ops.find_class(node.module, node.class_name)
    if registered is not None:
        return registered
    try:
        module = importlib.import_module(node.module)
    except ImportError as error:
        raise ModelError(
            f"{node.where}, module {node.module}",
            expected="a module that can be imported",
            got=sanitize(str(error)),
            next="put its folder on sys.path",
        ) from error
    cls = vars(module).get(node.class_name)
    if not isinstance(cls, type) or not _defined_in(module, cls):
        origin = "none" if cls is None else type(cls).__name__
        if isinstance(cls, type):
            origin = f"one of {cls.__module__}, or made elsewhere"
        raise ModuleRefused(
            f"{node.where}, class {node.class_name}",
            expected=f"a class that {node.module} itself defines",
            got=origin,
            next=f"define class {node.class_name} in {node.module}",
        )
    return _unregistered_op(cls, node)


def _defined_in(module: ModuleType, cls: type) -> bool:
    """Tell whether a module's own code defines the class and its methods."""
    says = type.__getattribute__(cls, "__dict__").get("__module__")
    if type(says) is not str or says != module.__name__:
        return False
    # A class can say any module of itself, but the globals of its methods tell whose code they are.
    methods = []
    for member in vars(cls).values():
        if isinstance(member, FunctionType):
            methods.append(inspect.unwrap(member))
    return not methods or any(method.__globals__ is vars(module) for method in methods)


def _unregistered_op(cls: type, node: LegacyNode) -> Op:
    """Make an op with one version, outside the registry."""
    if not callable(getattr(cls, node.legacy.compute, None)):
        raise ModelError(
            f"{node.where}, class {node.class_name}",
            expected=f"a method {node.legacy.compute}",
            got="none",
            next=f"def {node.legacy.compute}(self, x): …",
        )
    name = f"{sanitize(node.module)}::{node.class_name}"
    # The node says what its inputs are, and the class need not have a method called `compute`.
    any_inputs = schema_of(type("Retired", (), {"compute": staticmethod(lambda *inputs: inputs)}))
    return Op(name, (Version(name, 1, cls, any_inputs, 1, None, time.time(), 0),))


def checked_modules(modules: Any) -> frozenset[str]:
    """Check the modules that the caller allows: exact names, no patterns or prefixes.

    Raises
    ------
    ModelError
    """
    # A str is also an iterable of names, each of one letter.
    is_list = isinstance(modules, Iterable) and not isinstance(modules, str)
    if not is_list or not all(isinstance(name, str) and name for name in modules):
        expected = 'a list of exact names, as ["mymodule"]'
        got = sanitize(repr(modules))
        next_ = 'modules=["mymodule"]'
        raise ModelError("Session, modules", expected=expected, got=got, next=next_)
    return frozenset(modules)


def _text(values: dict[str, Any], key: str, where: str, missing: str) -> str:
    value = values.get(key)
    if not isinstance(value, str) or not value:
        raise ModelError(f"{where}: {missing}", next=f"give the node {key}='…'")
    return value


def _name(value: Any, key: str, where: str) -> str:
    # The name comes from a model file, and decides which class is looked up and called.
    good = (
        isinstance(value, str)
        and value.isidentifier()
        and not keyword.iskeyword(value)
        and not value.startswith("__")
    )
    if not good:
        raise ModelError(
            f"{where}, {key}",
            expected="one identifier, no dots and no dunder",
            got=sanitize(repr(value)),
        )
    return str(value)


def _types(
    site: Site, values: dict[str, Any], key: str, missing: str, count: int
) -> tuple[TensorType, ...]:
    numbers = values.get(key) or []
    attributes = site.node.attribute
    is_ints = any(a.name == key and a.type == AttributeProto.INTS for a in attributes)
    if not numbers or not is_ints:
        raise ModelError(
            f"{site.where}: {missing}", next=f"give the node {key}=[TensorProto.FLOAT, …]"
        )
    if len(numbers) != count:
        raise ModelError(
            f"{site.where}, {key}", expected=f"{count}, as the node has", got=str(len(numbers))
        )
    try:
        return tuple(TensorType(dtype(number), None) for number in numbers)
    except InputError as error:
        raise ModelError(
            f"{site.where}, {key}: {error.where}", expected=error.expected, got=error.got
        ) from None
