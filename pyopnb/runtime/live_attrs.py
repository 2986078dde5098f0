"""The attrs of a live session's nodes: what they are, and others in their place without building anything anew."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from pyopnb.ops.errors import ModelError, sanitize, suggest
from pyopnb.ops.registry import split_name
from pyopnb.ops.schema import REQUIRED
from pyopnb.runtime.kernel import Kernel

__all__ = ["attrs_of", "chosen", "label_of", "merged"]


def label_of(place: Kernel, places: Collection[Kernel]) -> str:
    """What a user types for a node: its name or first output, where that is its alone; else its place in the file as well."""
    same = [other for other in places if other.label == place.label]
    return place.label if len(same) == 1 else f"{place.label}#{place.number}"


def attrs_of(place: Kernel) -> dict[str, Any]:
    """The attrs of a node by name, with the defaults of those that it does not say."""
    schema = place.schema(place.op.current)
    defaults = {attr.name: attr.default for attr in schema.attrs if attr.default is not REQUIRED}
    return {**defaults, **place.values}


def chosen(places: Collection[Kernel], where: str | None, names: Collection[str]) -> list[Kernel]:
    """The nodes whose attrs of these names are meant.

    Raises
    ------
    ModelError
        No node is called so, none has such an attr, or nodes of several ops have it and ``where`` says nothing.
    """
    inside = [place for place in places if where is None or _is_meant(place, where, places)]
    if not inside:
        known = sorted({label_of(place, places) for place in places} | {place.op.name for place in places})
        expected = "a node or op of the session" if known else "a session with ops of the registry"
        raise ModelError("attrs", expected=expected, got=sanitize(where), next=suggest(where or "", known) if known else None)
    for name in names:
        _refuse_ambiguous(name, [place for place in inside if _takes(place, name)], inside, where)
    return [place for place in inside if all(_takes(place, name) for name in names)]


def _is_meant(place: Kernel, where: str, places: Collection[Kernel]) -> bool:
    return where in (place.op.name, place.label, label_of(place, places)) or where == split_name(place.op.name)[1]


def _takes(place: Kernel, name: str) -> bool:
    schema = place.schema(place.op.current)
    return name in place.values or schema.open_attrs or name in [attr.name for attr in schema.attrs]


def _refuse_ambiguous(name: str, having: list[Kernel], inside: list[Kernel], where: str | None) -> None:
    if not having:
        known = sorted({attr for place in inside for attr in attrs_of(place)})
        raise ModelError(
            f"attr {sanitize(name)}",
            expected=f"an attr of {', '.join(sorted({place.op.name for place in inside}))}",
            got=sanitize(name),
            next=suggest(name, known) if known else "an op with attrs: parameters of __init__",
        )
    ops = sorted({place.op.name for place in having})
    if len(ops) > 1 and where is None:
        raise ModelError(
            f"attr {sanitize(name)}",
            expected="an attr that one op of the session has",
            got=f"{', '.join(ops)}, which all have it",
            next=f'session.set_attrs("{ops[0]}", {sanitize(name)}=…)',
        )


def merged(place: Kernel, changes: Mapping[str, Any]) -> dict[str, Any]:
    """The attrs of a node with some of them changed, as the op's ``__init__`` takes them.

    Raises
    ------
    ModelError
        An attr of another kind.
    """
    values = {**place.values, **changes}
    place.schema(place.op.current).bind(values, place.where)
    return values
