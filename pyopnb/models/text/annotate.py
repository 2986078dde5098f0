"""Annotations for a model: what its text form lacks, found by comparing it with what was read of that text."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from google.protobuf import text_format
from onnx import ModelProto, TensorProto

from pyopnb.models.tensors import is_repeated, tensors
from pyopnb.models.text.annotations import CAN_BE_EMPTY, Message, clear_empty, nodes_of_text, places
from pyopnb.models.text.float_bits import bits_of, float_fields, has_odd_nan
from pyopnb.models.text.tensor_fields import has_numbers, store_raw, store_typed

__all__ = ["annotate", "annotate_bits"]


def annotate(want: ModelProto, have: ModelProto) -> list[list[str]]:
    """The annotations that make of a model what it should be.

    Parameters
    ----------
    want : ModelProto
    have : ModelProto
        What was read of the text without annotations. It is changed.

    Returns
    -------
    list of list of str
        Lines for each of the `places` of ``have``.
    """
    there = places(have)
    lines: list[list[str]] = [[] for _ in there]
    kept = _kept_empty(want)
    if kept:
        lines[0].append(f"set {' '.join(sorted(kept))}")
    clear_empty(there, {*CAN_BE_EMPTY} - kept)
    raw = [tensor.HasField("raw_data") for tensor in tensors(want) if has_numbers(tensor)]
    if sum(raw) * 2 > len(raw):
        lines[0].append("raw")
        for tensor in tensors(have):
            store_raw(tensor)
    numbers = {id(item): number for number, item in enumerate(there)}
    for number, path, words in _Changes(numbers).of(want, have, 0, ""):
        lines[number].append(f"{path} {words}" if path else words)
    return [[f"#@ {line}" for line in those] for those in lines]


def annotate_bits(want: ModelProto, have: ModelProto, there: Sequence[Message]) -> list[list[str]]:
    """The annotations of NaN that are not those of ``have``, into which all others are merged.

    Parameters
    ----------
    want, have : ModelProto
    there : sequence of Message
        The `places` of the text in ``have``.

    Returns
    -------
    list of list of str
        Lines for each of the places.
    """
    numbers = {id(item): number for number, item in enumerate(there)}
    lines: list[list[str]] = [[] for _ in there]
    ahead: list[tuple[Message, Message, int, str]] = [(want, have, 0, "")]
    while ahead:
        mine, theirs, number, path = ahead.pop()
        if id(theirs) in numbers:
            number, path = numbers[id(theirs)], ""
        for name in float_fields(mine):
            if has_odd_nan(mine, name):
                bits = bits_of(mine, name)
                values = " ".join(f"{value:0{2 * bits.itemsize}x}" for value in bits.tolist())
                lines[number].append(f"#@ {path} bits {name} {values}")
        for descriptor, value in mine.ListFields():
            if descriptor.message_type is None:
                continue
            other, step = getattr(theirs, descriptor.name), f"{path}.{descriptor.name}".lstrip(".")
            if not is_repeated(descriptor):
                ahead.append((value, other, number, step))
            elif len(value) == len(other):
                ahead += [(a, b, number, f"{step}[{n}]") for n, (a, b) in enumerate(zip(value, other, strict=True))]
    return lines


def _kept_empty(want: ModelProto) -> set[str]:
    """The fields that are there though they are empty, in most of the model."""
    nodes = nodes_of_text(want)
    empty = {"domain": [node for node in nodes if not node.domain]}
    empty["name"] = [a.t for node in nodes for a in node.attribute if a.HasField("t") and not a.t.name]
    return {name for name, those in empty.items() if sum(one.HasField(name) for one in those) * 2 > len(those)}


@dataclass(frozen=True)
class _Changes:
    """What makes one message of another, as annotations of the nearest place above it."""

    numbers: dict[int, int]

    def of(self, want: Message, have: Message, number: int, path: str) -> Iterator[tuple[int, str, str]]:
        if want.SerializeToString(deterministic=True) == have.SerializeToString(deterministic=True):
            return
        if id(have) in self.numbers:
            number, path = self.numbers[id(have)], ""
        if isinstance(want, TensorProto) and want.HasField("raw_data") != have.HasField("raw_data"):
            before = have.ByteSize()
            (store_raw if want.HasField("raw_data") else store_typed)(have)
            if have.ByteSize() != before or want.HasField("raw_data") == have.HasField("raw_data"):
                yield number, path, "raw" if want.HasField("raw_data") else "typed"
        fields = {descriptor.name: (descriptor, value) for descriptor, value in want.ListFields()}
        cleared = [descriptor.name for descriptor, _ in have.ListFields() if descriptor.name not in fields]
        rest = type(want)()
        deeper: list[tuple[int, str, str]] = []
        for name, (descriptor, value) in fields.items():
            step = f"{path}.{name}" if path else name
            if is_repeated(descriptor):
                cleared += [name] if self._list(descriptor, value, have, rest, (number, step), deeper) else []
            elif not have.HasField(name):
                _set(rest, descriptor, value)
            elif descriptor.message_type is not None:
                deeper += self.of(value, getattr(have, name), number, step)
            elif not _same(value, getattr(have, name)):
                _set(rest, descriptor, value)
        if cleared:
            yield number, path, f"clear {' '.join(cleared)}"
        if rest.ListFields():
            yield number, path, _one_line(rest)
        yield from deeper

    def _list(
        self,
        descriptor: Any,
        want: Any,
        have: Message,
        rest: Message,
        at: tuple[int, str],
        deeper: list[tuple[int, str, str]],
    ) -> bool:
        """Change a list; whether it must be cleared first."""
        number, path = at
        there, added = getattr(have, descriptor.name), getattr(rest, descriptor.name)
        if descriptor.message_type is None:
            kept = len(there) <= len(want) and all(_same(a, b) for a, b in zip(want, there, strict=False))
            added.extend(want[len(there) :] if kept else want)
            return not kept
        pairs = _pairs(want, there)
        if pairs is None:
            added.extend(want)
            return True
        last = max((place for place, other in enumerate(pairs) if other is not None), default=-1)
        for place, other in enumerate(pairs):
            if other is None and place > last:
                added.add().CopyFrom(want[place])
            elif other is None:
                deeper.append((number, f"{path}[{place}]", f"insert {_one_line(want[place])}"))
        names = Counter(getattr(entry, "name", "") for entry in want), Counter(getattr(entry, "name", "") for entry in there)
        for place, other in enumerate(pairs):
            if other is not None:
                name = getattr(want[place], "name", "")
                by_name = _is_plain(name) and all(counts[name] == 1 for counts in names)
                by_name = by_name and there[other].name == name
                selector = f'"{name}"' if by_name else place
                deeper += self.of(want[place], there[other], number, f"{path}[{selector}]")
        return False


def _pairs(want: Any, have: Any) -> list[int | None] | None:
    """For each entry, that which was read of it; None if there is no such order."""
    if len(want) == len(have):
        return list(range(len(want)))
    pairs: list[int | None] = []
    here = 0
    for entry in want:
        found = here < len(have) and hasattr(entry, "name") and entry.name == have[here].name
        pairs.append(here if found else None)
        here += found
    return pairs if here == len(have) else None


def _is_plain(name: str) -> bool:
    return bool(name) and name.isprintable() and not set(name) & {'"', "\\"}


def _same(a: Any, b: Any) -> bool:
    """Whether two scalars are the same; NaN is itself, and 0.0 is not -0.0."""
    return type(a) is type(b) and (a == b or a != a) and repr(a) == repr(b)


def _set(message: Message, descriptor: Any, value: Any) -> None:
    if descriptor.message_type is None:
        setattr(message, descriptor.name, value)
    else:
        getattr(message, descriptor.name).SetInParent()
        getattr(message, descriptor.name).CopyFrom(value)


def _one_line(message: Message) -> str:
    return str(text_format.MessageToString(message, as_one_line=True, as_utf8=True)).strip()
