"""Which tensors of a model a run can show, and the model that shows them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from fnmatch import translate

from onnx import ModelProto

from pyopnb.ops.errors import FeedError, nearest, shown

__all__ = ["chosen_names", "expose", "made_names"]


def made_names(model: ModelProto) -> list[str]:
    """The names of what the main graph's nodes give, in the order of the nodes."""
    return list(dict.fromkeys(name for node in model.graph.node for name in node.output if name))


def chosen_names(names: Sequence[str], only: str | Iterable[str]) -> list[str]:
    """The names that are meant: exact ones, and globs (``"layer1/*"``).

    Raises
    ------
    FeedError
        One of them names nothing.
    """
    wanted: set[str] = set()
    for text in [only] if isinstance(only, str) else only:
        if text in names:
            found = {text}
        else:
            pattern = re.compile(translate(str(text)))
            found = {name for name in names if pattern.match(name)}
        if not found:
            raise FeedError(
                "trace, only",
                expected="names of tensors that nodes of the model give, or globs of them",
                got=shown(repr(text)),
                next=f"write {shown(nearest(str(text), names))}" if names else None,
            )
        wanted |= found
    return [name for name in names if name in wanted]


def expose(model: ModelProto, names: Iterable[str]) -> None:
    """Make outputs of what is not yet one; ONNX Runtime infers their types."""
    known = {info.name for info in model.graph.output}
    for name in names:
        if name not in known:
            model.graph.output.add(name=name)
