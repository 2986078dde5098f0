"""Which tensor of one run is which of another: by structure, then by value, then by name."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from onnx import ModelProto

from pyopnb.changes.matching import matched
from pyopnb.compare.diffs import compared
from pyopnb.divergence.segments import Segments
from pyopnb.ops.types import type_of

__all__ = ["Aligned", "Pair", "aligned"]

_TRIED = 64  # candidates of one type that are held against one tensor


@dataclass(frozen=True)
class Pair:
    """Two tensors that stand for the same.

    Attributes
    ----------
    a, b : str
        Their names.
    by : str
        ``"structure"``, ``"value"``, ``"name"`` or ``"output"``: what says so.
    """

    a: str
    b: str
    by: str = "structure"


@dataclass(frozen=True)
class Aligned:
    """The tensors of two graphs, in pairs.

    Attributes
    ----------
    pairs : tuple of Pair
        In the order of b's graph, its inputs first.
    only_a, only_b : tuple of str
        The tensors that have no partner.
    """

    pairs: tuple[Pair, ...]
    only_a: tuple[str, ...]
    only_b: tuple[str, ...]


def aligned(
    a: Segments, b: Segments, models: tuple[ModelProto, ModelProto], held_a: Mapping[str, Any], held_b: Mapping[str, Any]
) -> Aligned:
    """Pair the tensors of two graphs.

    Parameters
    ----------
    a, b : Segments
    models : tuple of ModelProto
    held_a, held_b : mapping
        The arrays of the tensors, as far as they are there; without them structure and names decide.
    """
    search = _Search(a, b, held_a, held_b)
    search.by_structure(models)
    search.exchanged()
    search.by_value()
    search.by_name()
    search.by_output()
    found = search.found
    taken = set(found)
    pairs = tuple(found[name] for name in b.order if name in taken)
    firsts = {pair.a for pair in pairs}
    return Aligned(
        pairs, tuple(name for name in a.order if name not in firsts), tuple(name for name in b.order if name not in taken)
    )


class _Search:
    """What was paired so far, by the name in b."""

    def __init__(self, a: Segments, b: Segments, held_a: Mapping[str, Any], held_b: Mapping[str, Any]) -> None:
        self.a, self.b, self.held_a, self.held_b = a, b, held_a, held_b
        self.found: dict[str, Pair] = {}
        self.taken: set[str] = set()
        self._ends: tuple[dict[str, int], dict[str, int]] | None = None

    def put(self, a: str, b: str, by: str) -> None:
        self.found[b] = Pair(a, b, by)
        self.taken.add(a)
        self._ends = None

    def left(self) -> tuple[list[str], list[str]]:
        return [name for name in self.a.order if name not in self.taken], [n for n in self.b.order if n not in self.found]

    def by_structure(self, models: tuple[ModelProto, ModelProto]) -> None:
        known_a, known_b = set(self.a.order), set(self.b.order)
        if models[0] is models[1] or models[0].graph == models[1].graph:
            values: Mapping[str, str] = {name: name for name in self.a.order}
        else:
            values = matched(*models).values
        for one, other in values.items():
            if one in known_a and other in known_b and other not in self.found and one not in self.taken:
                self.put(one, other, "structure")

    def exchanged(self) -> None:
        """Let go of pairs that structure took for each other: of two that differ, each is like the other's partner.

        Two branches that are built alike, and fused into one another further on, are told apart only by what they hold.
        """
        apart = [p for p in self.found.values() if self._arrays(p) and not _alike(self.held_a[p.a], self.held_b[p.b])]
        free_a, free_b = self.left()
        ones = defaultdict(list)
        for name in [*(pair.a for pair in apart), *free_a]:
            if isinstance(self.held_a.get(name), np.ndarray):
                ones[_kind(self.held_a[name])].append(name)
        for other in [*(pair.b for pair in apart), *free_b]:
            array = self.held_b.get(other)
            if not isinstance(array, np.ndarray) or not array.size or _plain(array):
                continue
            alike = [name for name in ones.get(_kind(array), [])[:_TRIED] if _alike(self.held_a[name], array)]
            if len(alike) == 1 and not (other in self.found and self.found[other].a == alike[0]):
                self._let_go(lambda pair, a=alike[0], b=other: pair.a == a or pair.b == b)
                self.put(alike[0], other, "value")

    def _let_go(self, which: Callable[[Pair], bool]) -> None:
        for pair in [pair for pair in self.found.values() if which(pair)]:
            del self.found[pair.b]
            self.taken.discard(pair.a)

    def _arrays(self, pair: Pair) -> bool:
        return all(isinstance(a, np.ndarray) for a in (self.held_a.get(pair.a), self.held_b.get(pair.b)))

    # ---- where two tensors stand among those that are paired ---------------------------------------------------------------

    def fits(self, a: str, b: str) -> int:
        """2: both were made of the same pairs; 1: nothing speaks against it; 0: one is before what the other is after."""
        if self._ends is None:
            pairs = list(self.found.values())
            marks_a = self.a.ancestors(pair.a for pair in pairs), self.b.ancestors(pair.b for pair in pairs)
            self._ends = marks_a
        above_a, above_b = self._ends[0].get(a, 0), self._ends[1].get(b, 0)
        if above_a == above_b:
            return 2
        return 0 if above_a & self._below(self.b, b) or above_b & self._below(self.a, a) else 1

    def _below(self, graph: Segments, name: str) -> int:
        """The pairs that were made of a tensor."""
        made = graph.ancestors([name])
        pairs = ((pair.a if graph is self.a else pair.b) for pair in self.found.values())
        return sum(1 << bit for bit, one in enumerate(pairs) if made.get(one, 0))

    # ---- by value ----------------------------------------------------------------------------------------------------------

    def by_value(self) -> None:
        """Where a node was fused or written in other words, what comes out of it is still the same."""
        ones, others = self.left()
        kinds: dict[str, list[str]] = defaultdict(list)
        for name in ones:
            if isinstance(self.held_a.get(name), np.ndarray):
                kinds[_kind(self.held_a[name])].append(name)
        for other in others:
            array = self.held_b.get(other)
            if not isinstance(array, np.ndarray) or not array.size:
                continue
            candidates = kinds.get(_kind(array), [])
            if best := max(self._alike(candidates[:_TRIED], other), default=None):
                self.put(best[2], other, "value")
                candidates.remove(best[2])

    def _alike(self, candidates: list[str], other: str) -> Iterator[tuple[int, int, str]]:
        """Those that hold what the other holds: how well it fits, and how early."""
        array = self.held_b[other]
        for place, name in enumerate(candidates):
            fits = self.fits(name, other)
            # A mask of zeros is like any other: where the place says little, the value must say much.
            if fits == 2 or (fits == 1 and not _plain(array)):
                diff = compared(self.held_a[name], array)
                if diff.verdict in ("bit-identical", "value-identical") or (fits == 2 and diff.ok and not _plain(array)):
                    yield fits, -place, name

    # ---- by name and place ---------------------------------------------------------------------------------------------------

    def by_name(self) -> None:
        ones, others = self.left()
        for name in sorted(set(ones) & set(others), key=others.index):
            if self._same_kind(name, name) and self.fits(name, name):
                self.put(name, name, "name")

    def by_output(self) -> None:
        """Inputs, and outputs, at the same place of two models that have as many."""
        for ends_a, ends_b in ((self.a.inputs, self.b.inputs), (self.a.outputs, self.b.outputs)):
            if len(ends_a) == len(ends_b):
                for one, other in zip(ends_a, ends_b, strict=True):
                    free = one not in self.taken and other not in self.found
                    if free and self._known(one, other) and self._same_kind(one, other):
                        self.put(one, other, "output" if ends_a is self.a.outputs else "input")

    def _known(self, one: str, other: str) -> bool:
        ends = ((self.a, one), (self.b, other))
        return all(name in graph.maker or name in graph.inputs for graph, name in ends)

    def _same_kind(self, one: str, other: str) -> bool:
        held = self.held_a.get(one), self.held_b.get(other)
        if not all(isinstance(array, np.ndarray) for array in held):
            return True
        return _kind(held[0]) == _kind(held[1])


def _kind(array: Any) -> str:
    try:
        return str(type_of(array))
    except ValueError:  # a dtype that ONNX does not have, which an op for the reference evaluator may give
        return f"{array.dtype}{array.shape}"


def _alike(one: np.ndarray, other: np.ndarray) -> bool:
    """Whether two arrays hold the same; a glance at a few elements settles most cases."""
    if one.dtype != other.dtype or one.shape != other.shape:
        return False
    few = slice(0, 16)
    with np.errstate(all="ignore"):
        first, second = one.flat[few], other.flat[few]
        if first.dtype.kind in "fc" and not np.allclose(first, second, 1e-3, 1e-3, equal_nan=True):
            return False
    return compared(one, other).ok


def _plain(array: np.ndarray) -> bool:
    """Whether all elements are the same, as of a mask."""
    return bool((array == array.reshape(-1)[0]).all())
