"""Replace nodes by ops, to debug a kernel in Python inside a real network."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import replace as changed
from typing import Any

from onnx import AttributeProto, GraphProto, ModelProto, NodeProto

from pyopnb.engine import (
    ANY,
    ModelSource,
    Op,
    TensorType,
    check_arguments,
    find_op,
    model_files,
    onnx_schemas,
    op_names,
    op_schema,
    protos,
    registry,
    to_model,
)
from pyopnb.errors import ModelError
from pyopnb.models.edit.select import Where, select_sites
from pyopnb.models.types import Types

__all__ = ["open_for_edit", "put_ops", "replace"]


@check_arguments
def replace(
    model: ModelProto | bytes | str | os.PathLike[str],
    where: Where,
    op: str | type | Op,
    *,
    base_dir: str | os.PathLike[str] | None = None,
) -> ModelProto:
    """Copy a model and replace some of its nodes by an op of the registry.

    Parameters
    ----------
    model : ModelProto, bytes or path
        It is not changed. External data stays in its files, where a `Session` in this process finds
        it. In another process, pass ``base_dir`` to the session of the copy.
    where : str, NodeProto, function of a node, or a list of these
        A str is the name of a node, the name of an output, or an op type: ``"::Softmax"`` in
        exactly that domain, ``"Softmax"`` in any domain. Nodes in the bodies of If, Loop and Scan
        and in local functions are also selected.
    op : str or type
        The name of an op in the registry, or its class.
    base_dir : path, optional
        The folder of the external data of a model in memory.

    Returns
    -------
    ModelProto
        The copy. The nodes keep their names, inputs, outputs and attributes. If a node leaves an
        attr out, it gets the default of the replaced operator, even if the op has another default.
        Outputs keep their types if these are known.

    Raises
    ------
    UnknownName
        The registry does not have the op.
    ModelError
        No node is selected, a str has two meanings, or the op does not fit: it lacks an attr, a
        port has another dtype or rank, or it has too few outputs.

    Examples
    --------
    >>> import numpy as np, pyopnb
    >>> @pyopnb.pyop("doctest::MySoftmax")
    ... class MySoftmax:
    ...     def __init__(self, axis: int = -1):
    ...         self.axis = axis
    ...     def compute(self, x):
    ...         e = np.exp(x - x.max(axis=self.axis, keepdims=True))
    ...         return e / e.sum(axis=self.axis, keepdims=True)
    >>> model = pyopnb.model(
    ...     [pyopnb.node("Softmax", "x", "y"), pyopnb.node("Neg", "y", "z")],
    ...     {"x": "float32[2]"},
    ...     "z",
    ... )
    >>> mine = replace(model, "Softmax", "doctest::MySoftmax")
    >>> pyopnb.Session(mine)(x=np.float32([1, 1]))["z"]
    array([-0.5, -0.5], dtype=float32)
    """
    target = find_op(op)
    source = open_for_edit(model, base_dir)
    sites = select_sites(source.proto, where, model)
    types = Types(source.proto)
    # A function can import another version of the ONNX operators than the model, with other
    # defaults.
    imports = dict(_imports(source.proto))
    for site in sites:
        schema = target.current.schema
        _give_defaults(
            site.node, schema, imports.get(id(site.node)) or protos.imported_versions(source.proto)
        )
        _check_attrs(site, schema, source.proto)
        _check_ports(site, schema, types)
    # The types are declared before the nodes are replaced, while the ONNX inference still knows the
    # operators.
    _declare(sites, types)
    put_ops(source.proto, [(site, target.name) for site in sites])
    return to_model(source)


def open_for_edit(model: Any, base_dir: str | os.PathLike[str] | None) -> ModelSource:
    """Read a model to edit it, without its weights.

    Parameters
    ----------
    model, base_dir
        As for `replace`.

    Raises
    ------
    ModelError
        It is in the ONNX Runtime format, or no model.
    """
    source = model_files.read_model(model, base_dir, data=False)
    if not source.proto.HasField("graph"):
        got = "the ONNX Runtime format, whose nodes are fixed"
        raise ModelError(
            "model",
            expected="an ONNX model",
            got=got,
            next="give the .onnx file that it was made from",
        )
    return source


def put_ops(proto: ModelProto, changes: Iterable[tuple[protos.Site, str]]) -> None:
    """Turn nodes into nodes of ops, and import the ops' domains, also in functions.

    Nothing is checked; the ops need not be in the registry yet.

    Parameters
    ----------
    proto : ModelProto
        It is changed.
    changes : iterable of (Site, str)
        Sites of ``proto`` and ``"domain::OpType"`` for each.
    """
    versions: dict[str, int] = {}
    for site, name in changes:
        domain, op_type = op_names.split_name(name)
        site.node.domain, site.node.op_type = domain, op_type
        # An onnx before 1.16 has no overloads. An op has none, so a call of a function loses its
        # own.
        if "overload" in site.node.DESCRIPTOR.fields_by_name:
            site.node.ClearField("overload")
        op = registry.find(domain, op_type)
        versions[domain] = max(versions.get(domain, 1), op.current.opset if op else 1)
    # A function sees its own imports only.
    for scope in (proto, *proto.functions):
        protos.add_imports(scope, versions)


# ---- whether the op fits -------------------------------------------------------------------------


def _imports(proto: ModelProto) -> Iterator[tuple[int, dict[str, int]]]:
    """Yield the versions of domains that the nodes of functions see."""
    for function in proto.functions:
        versions = protos.imported_versions(function)
        yield from ((id(node), versions) for node in protos.nodes_in(function))


def _give_defaults(node: NodeProto, schema: op_schema.Schema, versions: dict[str, int]) -> None:
    """Write the operator's defaults into a node: the op's may differ."""
    domain = op_names.canonical_domain(node.domain)
    # A node that leaves an attribute out means the operator's default, and the op may have
    # another one.
    operator = onnx_schemas.find_schema(domain, node.op_type, versions.get(domain, 1))
    # The defaults of a session are its kernel's own.
    if operator is None:
        return
    attr_names = {attribute.name for attribute in node.attribute}
    for attr in schema.attrs:
        known = operator.attributes.get(attr.name)
        if (
            known is not None
            and attr.name not in attr_names
            and known.default_value.type != AttributeProto.UNDEFINED
        ):
            node.attribute.append(known.default_value)


def _check_attrs(site: protos.Site, schema: op_schema.Schema, proto: ModelProto) -> None:
    linked = protos.linked_attributes(site.node)
    attr_names = {attr.name for attr in schema.attrs}
    # Attributes that the caller of a function sets have no value yet.
    names = {name: "set by the function's caller" for name in linked if name not in attr_names}
    # They are taken out of the schema, so that only the others are checked for their values.
    unlinked = changed(
        schema, attrs=tuple(attr for attr in schema.attrs if attr.name not in linked)
    )
    unlinked.bind({**protos.attribute_values(site.node, proto, site.where), **names}, site.where)


def _check_ports(site: protos.Site, schema: op_schema.Schema, types: Types) -> None:
    input_types: list[TensorType | None] = []
    for name in site.node.input:
        if name:
            input_types.append(types.of(site, name))
        else:
            input_types.append(None)
    schema.check_inputs(input_types, site.where)
    schema.check_outputs(len(site.node.output), site.where)
    for number, (name, hint) in enumerate(
        zip(site.node.output, schema.hinted(input_types) or (), strict=False)
    ):
        if name:
            output_type = types.of(site, name)
        else:
            output_type = ANY
        # Sizes are not checked here, because a file often declares only the sizes of an example.
        if not output_type.accepts(hint.without_sizes()):
            raise ModelError(
                f"{site.where}, output {number}",
                expected=f"{output_type}, as in the model",
                got=f"{hint}, as the op says",
                next="change the hint of compute, or what it returns",
            )


def _declare(sites: Iterable[protos.Site], types: Types) -> None:
    """Declare the known types of the nodes' outputs.

    Once the operators are replaced, these types can no longer be inferred.
    """
    declared: dict[int, set[str]] = {}
    for site in sites:
        if not isinstance(site.scope, GraphProto):
            continue
        names = declared.get(id(site.scope))
        if names is None:
            names = declared[id(site.scope)] = {
                info.name for info in (*site.scope.value_info, *site.scope.output)
            }
        for name in site.node.output:
            proto_type = types.find(site.scope, name)
            if name and name not in names and proto_type is not None:
                site.scope.value_info.add(name=name, type=proto_type)
