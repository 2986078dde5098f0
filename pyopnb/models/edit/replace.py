"""Replace nodes by ops, to debug a kernel in Python inside a real network."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import replace as changed

from onnx import AttributeProto, GraphProto, ModelProto, NodeProto

from pyopnb.engine import (
    ANY,
    Op,
    TensorType,
    check_arguments,
    find_op,
    onnx_schemas,
    op_names,
    op_schema,
    protos,
    to_model,
)
from pyopnb.errors import ModelError
from pyopnb.models.edit.node_edits import (
    Where,
    imports_of_scopes,
    open_for_edit,
    put_ops,
    select_sites,
)
from pyopnb.models.types import Types

__all__ = ["replace"]


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
    imports = dict(imports_of_scopes(source.proto))
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
