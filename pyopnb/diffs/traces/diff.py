"""Where two runs part: to be read, saved, judged and asserted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from pyopnb.diffs.arrays.diff import Diff
from pyopnb.diffs.arrays.parts import VERDICTS, Part
from pyopnb.diffs.arrays.report import format_number, format_place, summarize
from pyopnb.diffs.arrays.stats import Place
from pyopnb.diffs.base import ToleranceDiff, fit_lines, from_document, to_document
from pyopnb.diffs.traces.steps import EFFECTS, Step, Tensor, format_step
from pyopnb.ops.errors import FeedError, sanitize

__all__ = ["TraceDiff"]

_MAX_WIDTH, _ORIGINS, _CHANGES, _NAMES = 200, 3, 4, 6


@dataclass(frozen=True, repr=False)
class TraceDiff(ToleranceDiff):
    """What `pyopnb.diff` found between two runs.

    It has no truth value, as `Diff` has none.

    Attributes
    ----------
    a, b : str
        What ran each: ``"onnxruntime 1.31.1, all optimisations"``, or ``"arrays"``.
    feeds, tensors : tuple of Tensor
        What the runs were fed, and what their nodes gave, pair by pair in the order of b's graph.
    steps : tuple of Step
        What each node does to the difference, in that order.
    outputs : tuple of str
        The names of b's outputs that have a partner.
    only_a, only_b : tuple of str
        Tensors that have no partner.
    outputs_only_a, outputs_only_b : tuple of str
        Outputs that have no partner: with one of these the verdict is ``incomparable``.
    runs : int or None
        How many pairs of runs `first_divergence` made; None where both runs were there as a whole.
    """

    _FORMAT = "pyopnb.trace-diff"

    a: str
    b: str
    feeds: tuple[Tensor, ...]
    tensors: tuple[Tensor, ...]
    steps: tuple[Step, ...]
    outputs: tuple[str, ...] = ()
    only_a: tuple[str, ...] = ()
    only_b: tuple[str, ...] = ()
    outputs_only_a: tuple[str, ...] = ()
    outputs_only_b: tuple[str, ...] = ()
    runs: int | None = None

    # ---- the verdict ---------------------------------------------------------------------------------------------------------

    @property
    def parts(self) -> tuple[Part, ...]:
        """Every pair of arrays, as a `Diff` has them."""
        return tuple(part for tensor in (*self.feeds, *self.tensors) for part in tensor.diff.parts)

    @property
    def worst(self) -> Part:
        """The part of the worst verdict, of equal ones the first."""
        return max(self.parts, key=lambda part: VERDICTS.index(part.verdict))

    @property
    def verdict(self) -> str:
        """That of the worst tensor: ``"bit-identical"`` … ``"incomparable"``."""
        return "incomparable" if self.outputs_only_a or self.outputs_only_b else self.worst.verdict

    @property
    def ok(self) -> bool:
        """Whether the verdict is one of the first three."""
        return VERDICTS.index(self.verdict) < 3

    # ---- where the runs part -------------------------------------------------------------------------------------------------

    @property
    def origins(self) -> tuple[Step, ...]:
        """The nodes that make a difference themselves, in the order of b's graph."""
        return tuple(step for step in self.steps if step.verdict == "origin")

    @property
    def origin(self) -> Step | None:
        """The first of `origins`; where none errs by itself, the first that is over the tolerance.

        None where none is, and where the difference comes with the feeds.
        """
        if self.origins or self.feeds_differ:
            return next(iter(self.origins), None)
        return next((step for step in self.steps if step.verdict not in _QUIET), None)

    @property
    def interval(self) -> tuple[str, ...]:
        """The nodes among which the runs part first: `origin`, and those before it whose outputs could not be compared."""
        return () if self.origin is None else (*self.origin.between, self.origin.name)

    @property
    def first(self) -> Step | None:
        """The first node of which an output is not the same to the bit, be it within the tolerance."""
        return next((s for s in self.steps if any(t.diff.verdict != "bit-identical" for t in s.outputs)), None)

    @property
    def feeds_differ(self) -> bool:
        """Whether the runs were fed different values."""
        return any(VERDICTS.index(feed.diff.verdict) > 1 for feed in self.feeds)

    def __getitem__(self, name: str) -> Tensor:
        """The pair of a tensor, by its name in b."""
        known = {tensor.b: tensor for tensor in (*self.feeds, *self.tensors)}
        if name not in known:
            raise KeyError(name)
        return known[name]

    # ---- text ----------------------------------------------------------------------------------------------------------------

    def __str__(self) -> str:
        return fit_lines(list(self._lines()), _MAX_WIDTH, "more lines: .steps, .tensors")

    def _lines(self) -> Iterator[str]:
        if self.feeds_differ:
            apart = [feed for feed in self.feeds if VERDICTS.index(feed.diff.verdict) > 1]
            yield f"the feeds differ: {'; '.join(_said(feed) for feed in apart[:3])}{_more(len(apart) - 3)}"
        yield f"{self.verdict}: {_counted(self.tensors)}, {self._sides()}"
        yield from self._origins()
        counts = Counter(step.verdict for step in self.steps)
        if set(counts) - {"same"}:
            yield f"nodes: {', '.join(f'{counts[effect]} {_WORDS[effect]}' for effect in EFFECTS if counts[effect])}"
            yield from self._amplified()
        loose = [step.name for step in self.steps if step.nondeterministic]
        if loose:
            yield f"not the same when run again (random, or with a state): {_listed(loose)}"
        ends = [tensor for tensor in self.tensors if tensor.b in self.outputs]
        if ends and counts["same"] != len(self.steps):
            yield f"outputs: {'; '.join(_said(tensor) for tensor in ends[:3])}{_more(len(ends) - 3)}"
        by = Counter(tensor.by for tensor in self.tensors)
        if set(by) - {"structure", "given"}:
            yield f"aligned: {', '.join(f'{count} by {way}' for way, count in by.items())}"
        for side, ends_alone in (("a", self.outputs_only_a), ("b", self.outputs_only_b)):
            if ends_alone:
                yield f"outputs only in {side}: {_listed(ends_alone)}"
        for side, names in (("a", self.only_a), ("b", self.only_b)):
            if names:
                yield f"not compared, only in {side}: {_listed(names)}"

    def _sides(self) -> str:
        sides = self.a if self.a == self.b else f"{self.a} against {self.b}"
        return f"{sides}, {self.runs} pairs of runs" if self.runs is not None else sides

    def _origins(self) -> Iterator[str]:
        origins = self.origins
        for step in origins[:_ORIGINS]:
            yield f"origin: {format_step(step)}"
            if len(step.between):
                yield f"  or before it: {_listed(step.between)}"
            yield from (f"  worst: {format_place(place)}" for place in _worst(step))
            yield from (f"  {line}" for line in step.changes[:_CHANGES])
            if len(step.changes) > _CHANGES:
                yield f"  … and {len(step.changes) - _CHANGES} more changes"
        if len(origins) > _ORIGINS:
            yield f"… and {len(origins) - _ORIGINS} more origins"
        if not origins and self.feeds_differ:
            yield "no node errs by itself: what differs comes with the feeds"
        elif not origins and self.origin is not None:
            yield f"no node errs by itself; the first over the tolerance {format_step(self.origin)}"
        if self.ok and self.first is not None:
            yield f"all within the tolerance; the first that is not the same to the bit: {format_step(self.first)}"

    def _amplified(self) -> Iterator[str]:
        most = max((s for s in self.steps if s.verdict == "amplifies"), key=lambda s: s.amplification or 0.0, default=None)
        if most is not None and most.amplification:
            yield f"most amplified: {most.name}, {format_number(most.amplification)} × the error of its inputs"

    # ---- another tolerance, JSON ---------------------------------------------------------------------------------------------

    def _judged(self, rtol: float | None, atol: float | None) -> TraceDiff:
        known = {tensor.b: tensor.judged(rtol, atol) for tensor in (*self.feeds, *self.tensors)}
        return replace(
            self,
            feeds=tuple(known[tensor.b] for tensor in self.feeds),
            tensors=tuple(known[tensor.b] for tensor in self.tensors),
            steps=tuple(
                replace(
                    step,
                    outputs=tuple(known[tensor.b] for tensor in step.outputs),
                    inputs=tuple(known[tensor.b] for tensor in step.inputs),
                    inside=tuple(tensor.judged(rtol, atol) for tensor in step.inside),
                )
                for step in self.steps
            ),
        )

    def _to_fields(self) -> dict[str, Any]:
        fields = {name: getattr(self, name) for name in ("a", "b", "runs", *_LISTS)}
        fields |= {name: [_plain(tensor) for tensor in getattr(self, name)] for name in ("feeds", "tensors")}
        return {**fields, "steps": [_plain_step(step) for step in self.steps]}

    @classmethod
    def _from_fields(cls, held: Mapping[str, Any]) -> TraceDiff:
        feeds, tensors = (tuple(map(_tensor, held[name])) for name in ("feeds", "tensors"))
        known = {tensor.b: tensor for tensor in (*feeds, *tensors)}
        lists = {name: _texts(held[name]) for name in _LISTS}
        steps = tuple(_step(step, known) for step in held["steps"])
        runs = None if held["runs"] is None else int(held["runs"])
        read = cls(str(held["a"]), str(held["b"]), feeds, tensors, steps, runs=runs, **lists)
        if not read.parts:
            raise FeedError("TraceDiff.from_json", expected="at least one tensor", got="none")
        return read


_QUIET = ("same", "hides")
_WORDS = {
    "origin": "where it begins",
    "amplifies": "amplify",
    "propagates": "propagate",
    "hides": "hide",
    "same": "the same",
}
_LISTS = ("outputs", "only_a", "only_b", "outputs_only_a", "outputs_only_b")


def _worst(step: Step) -> Sequence[Place]:
    """The worst element of a step, where it has any."""
    facts = step.worst.diff.worst.facts
    return facts.worst[:1] if facts is not None else ()


def _said(tensor: Tensor) -> str:
    part = tensor.diff.worst
    return f"{sanitize(tensor.b, 80)} {part.verdict}, {part.reason or summarize(part)}"


def _counted(tensors: Sequence[Tensor]) -> str:
    counts = Counter(tensor.diff.verdict for tensor in tensors)
    return f"of {len(tensors)} tensors {', '.join(f'{counts[v]} {v}' for v in VERDICTS if counts[v])}"


def _listed(names: Sequence[str]) -> str:
    return f"{', '.join(sanitize(name, 80) for name in names[:_NAMES])}{_more(len(names) - _NAMES)}"


def _more(count: int) -> str:
    return f" and {count} more" if count > 0 else ""


# ---- JSON --------------------------------------------------------------------------------------------------------------------


def _plain(tensor: Tensor) -> dict[str, Any]:
    held = {name: getattr(tensor, name) for name in ("a", "b", "by", "why", "steady")}
    alone = None if tensor.alone is None else to_document(tensor.alone)
    return {**held, "diff": to_document(tensor.diff), "alone": alone}


def _plain_step(step: Step) -> dict[str, Any]:
    held = {name: getattr(step, name) for name in ("name", "op", "a", "between", "between_a", "versions", "changes", "verdict")}
    ends = {"outputs": [tensor.b for tensor in step.outputs], "inputs": [tensor.b for tensor in step.inputs]}
    return {**held, **ends, "inside": [_plain(tensor) for tensor in step.inside]}


def _tensor(held: Mapping[str, Any]) -> Tensor:
    diff, alone = from_document(Diff, held["diff"]), held["alone"]
    if held["steady"] not in (None, True, False):
        raise ValueError("steady is neither true nor false nor null")
    isolated = None if alone is None else from_document(Diff, alone)
    return Tensor(str(held["a"]), str(held["b"]), str(held["by"]), diff, isolated, str(held["why"]), held["steady"])


def _step(held: Mapping[str, Any], known: Mapping[str, Tensor]) -> Step:
    first, second = (None if version is None else int(version) for version in held["versions"])
    outputs, inputs = (tuple(known[name] for name in held[ends]) for ends in ("outputs", "inputs"))
    if not outputs:
        raise ValueError("a step without outputs")
    inside = tuple(map(_tensor, held["inside"]))
    lists = {name: _texts(held[name]) for name in ("between", "between_a", "changes")}
    return Step(
        str(held["name"]), str(held["op"]), str(held["a"]), outputs, inputs, versions=(first, second), inside=inside, **lists
    )


def _texts(held: Any) -> tuple[str, ...]:
    if not isinstance(held, list):
        raise TypeError("a list of names is something else")
    return tuple(map(str, held))
