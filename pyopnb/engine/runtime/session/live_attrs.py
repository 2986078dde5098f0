"""Read and change the attrs of a live session's nodes, without rebuilding anything."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from typing import Any

import numpy as np

from pyopnb.common import messages, sanitize
from pyopnb.engine.models.model_building import checked_attribute
from pyopnb.engine.ops.op_names import split_name
from pyopnb.engine.ops.op_schema import REQUIRED
from pyopnb.engine.runtime.kernel import Kernel
from pyopnb.errors import ModelError

__all__ = [
    "attrs_of",
    "changed_attrs",
    "labels_of",
    "merge_attrs",
    "select_kernels",
]


def labels_of(kernels: Iterable[Kernel]) -> dict[Kernel, str]:
    """Name each node as the user would type it, in file order.

    Its name or first output, where no other node has it; else with its number in the file.
    """
    ordered = sorted(kernels, key=lambda kernel: kernel.number)
    counts = Counter(kernel.label for kernel in ordered)
    labels = {}
    for kernel in ordered:
        labels[kernel] = kernel.label
        # Nodes need no names, and two outputs in two bodies can share one.
        if counts[kernel.label] > 1:
            labels[kernel] = f"{kernel.label}#{kernel.number}"
    return labels


def attrs_of(kernel: Kernel, values: Mapping[str, Any]) -> dict[str, Any]:
    """Add the defaults to the attrs of a node."""
    schema = kernel.schema(kernel.op.current)
    defaults = {attr.name: attr.default for attr in schema.attrs if attr.default is not REQUIRED}
    return {**defaults, **values}


def select_kernels(
    kernels: Collection[Kernel], where: str | None, names: Collection[str]
) -> list[Kernel]:
    """Find the nodes whose attrs a call of `set_attrs` refers to.

    Raises
    ------
    ModelError
        No node is called so, none has such an attr, or nodes of several ops have it and
        ``where`` says nothing.
    """
    labels = labels_of(kernels)
    candidates = []
    for kernel, label in labels.items():
        if where is None or _is_meant(kernel, where, label):
            candidates.append(kernel)
    if not labels:
        expected = "a session with ops of the registry"
        next_ = 'pyopnb.replace(model, NODE, "demo::Op"), which puts an op in the place of a node'
        raise ModelError("attrs", expected=expected, got=sanitize(where), next=next_)
    if not candidates:
        known_names = sorted({*labels.values(), *[kernel.op.name for kernel in labels]})
        raise ModelError(
            "attrs",
            expected="a node or op of the session",
            got=sanitize(where),
            next=messages.suggest(where or "", known_names),
        )
    selected = candidates
    for name in names:
        # Each name is looked up in all candidates, so that the error lists all their attrs.
        having = [kernel for kernel in candidates if _takes(kernel, name)]
        _refuse_ambiguous(name, having, candidates, where)
        selected = [kernel for kernel in selected if _takes(kernel, name)]
    return selected


def _is_meant(kernel: Kernel, where: str, label: str) -> bool:
    return where in (kernel.op.name, kernel.label, label) or where == split_name(kernel.op.name)[1]


def _takes(kernel: Kernel, name: str) -> bool:
    schema = kernel.schema(kernel.op.current)
    # With **attrs, a class takes any.
    if schema.open_attrs or name in kernel.values:
        return True
    return any(attr.name == name for attr in schema.attrs)


def _refuse_ambiguous(
    name: str, having: list[Kernel], candidates: list[Kernel], where: str | None
) -> None:
    if not having:
        attr_names: set[str] = set()
        for kernel in candidates:
            attr_names.update(attrs_of(kernel, kernel.values))
        listed = ", ".join(sorted({kernel.op.name for kernel in candidates}))
        raise ModelError(
            f"attr {name}",
            expected=f"an attr of {listed}",
            got=name,
            next=messages.suggest(name, sorted(attr_names)),
        )
    # Two ops can mean different things by one name, so the user has to say which one.
    ops = sorted({kernel.op.name for kernel in having})
    if len(ops) > 1 and where is None:
        raise ModelError(
            f"attr {name}",
            expected="an attr that only one op of the session has",
            got=f"{', '.join(ops)}, which all have it",
            next=f'session.set_attrs("{ops[0]}", {name}=…)',
        )


def merge_attrs(
    kernel: Kernel, values: Mapping[str, Any], changes: Mapping[str, Any]
) -> dict[str, Any]:
    """Change some attrs of a node, and check that a node and the op's ``__init__`` take them.

    Raises
    ------
    ModelError
        An attr of another kind, or with a value that no attribute of a model can have.
    """
    merged = {**values, **changes}
    arguments = kernel.schema(kernel.op.current).bind(merged, kernel.where)
    for name in changes:
        if arguments[name] is not None:
            checked_attribute(kernel.where, name, arguments[name])
    return merged


def changed_attrs(
    kernel: Kernel, values: Mapping[str, Any], model: Mapping[str, Any]
) -> dict[str, Any]:
    """Select the attrs of a node whose values are not the model's."""
    before = attrs_of(kernel, model)
    changed = {}
    for name, value in attrs_of(kernel, values).items():
        # A value can be an array, which == compares by element.
        if name not in before or not np.array_equal(value, before[name]):
            changed[name] = value
    return changed
