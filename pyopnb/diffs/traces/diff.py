"""The difference of two runs: to be read, saved, judged and asserted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from pyopnb.diffs.arrays.parts import VERDICTS, Part
from pyopnb.diffs.arrays.report import count_verdicts, format_number, summarize
from pyopnb.diffs.base import (
    ToleranceDiff,
    fit_lines,
)
from pyopnb.diffs.traces.steps import (
    EFFECTS,
    Step,
    Tensor,
    default_stol,
    format_body,
    format_error,
    format_step,
    format_versions,
    same_values,
)
from pyopnb.errors import InputError
from pyopnb.ops.messages import plural, sanitize

__all__ = ["TraceDiff"]

_MAX_WIDTH, _MAX_ORIGINS, _MAX_CHANGES, _MAX_NAMES, _MAX_TENSORS = 200, 3, 4, 6, 3


@dataclass(frozen=True, repr=False)
class TraceDiff(ToleranceDiff):
    """The difference of two runs, as `pyopnb.diff` finds it.

    It has no truth value, as `Diff` has none.

    Attributes
    ----------
    a, b : str
        What ran each: ``"onnxruntime 1.31.1, all optimisations"``, or ``"arrays"``.
    feeds, tensors : tuple of Tensor
        The feeds, and the results of the nodes, pair by pair in the order of b's graph.
    steps : tuple of Step
        What each node does to the difference, in that order.
    outputs : tuple of str
        The names of b's outputs that have a partner.
    only_a, only_b : tuple of str
        Tensors without a partner.
    outputs_only_a, outputs_only_b : tuple of str
        Outputs without a partner: with one of these the verdict is ``incomparable``.
    exposed : tuple of str
        For each run of which a plain run gives other outputs, far beyond rounding: which, and by how much.
    runs : int or None
        How many pairs of runs `first_divergence` made; None if both runs were traced as a whole.
    models : tuple of ModelProto, or None
        The models that ran, for drawing; not in the JSON, and not compared.
    partners : dict
        Tensors of a's main graph and the corresponding ones of b's, likewise for drawing.
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
    exposed: tuple[str, ...] = ()
    runs: int | None = None
    models: tuple[Any, Any] | None = field(default=None, compare=False)
    partners: Mapping[str, str] = field(default_factory=dict, compare=False)

    # ---- the verdict ---------------------------------------------------------------------------------------------------------

    @property
    def parts(self) -> tuple[Part, ...]:
        """Every pair of arrays, as in a `Diff`."""
        return tuple(part for tensor in (*self.feeds, *self.tensors) for part in tensor.diff.parts)

    @cached_property
    def worst(self) -> Part:
        """Return the part of the worst verdict, of equal ones the first."""
        return max(self.parts, key=lambda part: VERDICTS.index(part.verdict))

    @property
    def verdict(self) -> str:
        """Return the verdict of the worst tensor: ``"bit-identical"`` … ``"incomparable"``."""
        return "incomparable" if self.outputs_only_a or self.outputs_only_b else self.worst.verdict

    @property
    def ok(self) -> bool:
        """Tell whether the verdict is one of the first three."""
        return VERDICTS.index(self.verdict) < 3

    # ---- where the runs diverge ----------------------------------------------------------------------------------------------

    @cached_property
    def origins(self) -> tuple[Step, ...]:
        """Return the nodes that introduce a difference, in the order of b's graph."""
        return tuple(step for step in self.steps if step.verdict == "origin")

    @cached_property
    def origin(self) -> Step | None:
        """Return the first of `origins`; if there is none, the first node that is over the tolerance.

        None if no node is over the tolerance, or if the difference comes from the feeds.
        """
        if self.origins or self.feeds_differ:
            return next(iter(self.origins), None)
        return next((step for step in self.steps if step.verdict not in ("same", "hides")), None)

    @property
    def interval(self) -> tuple[str, ...]:
        """Return the nodes among which the runs first diverge.

        They are `origin`, and those before it whose outputs could not be compared.
        """
        return () if self.origin is None else (*self.origin.between, self.origin.name)

    @property
    def first(self) -> Step | None:
        """Return the first node with an output that is not bit-identical, be it within the tolerance."""
        return next(
            (s for s in self.steps if any(t.diff.verdict != "bit-identical" for t in s.outputs)),
            None,
        )

    @property
    def feeds_differ(self) -> bool:
        """Tell whether the runs were fed different values."""
        return not all(same_values(feed.diff) for feed in self.feeds)

    def __getitem__(self, name: str) -> Tensor:
        """Return the pair of a tensor, by its name in b."""
        by_name = {tensor.b: tensor for tensor in (*self.feeds, *self.tensors)}
        if name not in by_name:
            raise KeyError(name)
        return by_name[name]

    # ---- text ----------------------------------------------------------------------------------------------------------------

    def __str__(self) -> str:
        lines = [*self._headline(), *(f"  {line}" for line in (*self._causes(), *self.details()))]
        return fit_lines(lines, _MAX_WIDTH, "more lines: .steps, .tensors")

    def _headline(self) -> list[str]:
        lone = [
            f"only {side} has the output{'s' * (len(names) > 1)} {_join_names(names)}"
            for side, names in (("a", self.outputs_only_a), ("b", self.outputs_only_b))
            if names
        ]
        verdicts = (tensor.diff.verdict for tensor in (*self.feeds, *self.tensors))
        lines = [f"{self.verdict}: {'; '.join(lone) or count_verdicts(verdicts, 'tensor')}"]
        if self.feeds_differ:
            feeds = [feed for feed in self.feeds if not same_values(feed.diff)]
            nodes = (
                "; a node introduces a difference too"
                if self.origins
                else "; no node introduces a difference"
            )
            return [
                *lines,
                f"where: already in the feeds{nodes}",
                f"how much: {_join_tensors(feeds)}",
            ]
        step = self.origin or self.first
        if step is None:
            return lines
        return [*lines, f"where: {self._where(step)}", f"how much: {format_error(step)}"]

    def _where(self, step: Step) -> str:
        versions = f", {format_versions(step)}" if format_versions(step) else ""
        versions += f", from {step.source}" if step.source else ""
        between = f", or a node before it: {_join_names(step.between)}" if step.between else ""
        where = f"{step.name}{versions}{between}"
        if more := self.origins[1:]:
            return f"{where}; {plural(len(more), 'more origin')}: {_join_names([one.name for one in more])}"
        if self.origins:
            return where
        if self.origin is None:
            return f"first in {where}"
        isolation = (
            "isolation proves it of no node"
            if any(step.inconclusive for step in self.steps)
            else "in isolation no node is"
        )
        return f"{where} is the first outside the tolerance; {isolation}"

    def _causes(self) -> Iterator[str]:
        if self.origins:
            yield from _changes(self.origins[0])
        for step in self.origins[0 if self.feeds_differ else 1 : _MAX_ORIGINS]:
            yield f"origin: {format_step(step)}"
            yield from _changes(step)

    def details(self) -> list[str]:
        """Yield what the headline leaves out, apart from the origins.

        Returns
        -------
        list of str
            What the nodes do, the outputs, what was paired and what was not, and what ran.
        """
        return list(self._details())

    def _details(self) -> Iterator[str]:
        if inner := next(
            (
                line
                for step in (self.origin, self.first)
                if step is not None
                for line in format_body(step)
            ),
            "",
        ):
            yield inner
        counts = Counter(step.verdict for step in self.steps)
        if set(counts) - {"same"}:
            yield f"nodes: {', '.join(f'{counts[effect]} {_EFFECTS[effect]}' for effect in EFFECTS if counts[effect])}"
            yield from self._amplification()
        if inconclusive := [
            s.name
            for s in self.steps
            if s.inconclusive and s.verdict in ("amplifies", "propagates")
        ]:
            yield f"isolation proves nothing, as it is as far off from their own runs: {_join_names(inconclusive)}"
        if nondeterministic := [step.name for step in self.steps if step.nondeterministic]:
            yield f"nondeterministic (random or stateful): {_join_names(nondeterministic)}"
        if counts["same"] != len(self.steps):
            yield from self._output_lines()
        evidence = Counter(tensor.by for tensor in self.tensors)
        if set(evidence) - {"structure", "given"}:
            yield f"paired by: {', '.join(f'{by} {count}' for by, count in evidence.items())}"
        for what, names in (
            ("not compared, only in a", self.only_a),
            ("not compared, only in b", self.only_b),
        ):
            if names:
                yield f"{what}: {_join_names(names)}"
        yield from self.exposed
        sides = f"both on {self.a}" if self.a == self.b else f"a: {self.a}; b: {self.b}"
        if scaled := max((part.stol for part in self.parts), default=0.0):
            sides += f"; stol {scaled:g}: that part of a tensor's largest |b| is allowed as well"
        yield f"{sides}; {plural(self.runs, 'pair')} of runs" if self.runs is not None else sides

    def _output_lines(self) -> Iterator[str]:
        """Describe the outputs, apart from one that the headline shows."""
        shown = "" if self.origin is None or self.feeds_differ else self.origin.worst.b
        named = frozenset(self.outputs)
        outputs = [tensor for tensor in self.tensors if tensor.b in named and tensor.b != shown]
        for tensor in outputs[:_MAX_TENSORS]:
            result = (
                tensor.diff.verdict if same_values(tensor.diff) else summarize(tensor.diff.worst)
            )
            yield f"output {sanitize(tensor.b, 80)}: {result}"
        if len(outputs) > _MAX_TENSORS:
            yield f"… and {plural(len(outputs) - _MAX_TENSORS, 'more output')}"

    def _amplification(self) -> Iterator[str]:
        most = max(
            (s for s in self.steps if s.verdict == "amplifies"),
            key=lambda s: s.amplification or 0.0,
            default=None,
        )
        if most is not None and most.amplification:
            yield f"most amplified: {most.name}, {format_number(most.amplification)} × the error of its inputs"

    # ---- another tolerance, JSON ---------------------------------------------------------------------------------------------

    def _judged(self, rtol: float | None, atol: float | None, stol: float | None) -> TraceDiff:
        given = rtol, atol, default_stol((self.a, self.b), rtol, atol, stol)
        judged = {tensor.b: tensor.judged(*given) for tensor in (*self.feeds, *self.tensors)}

        def judge(tensors: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
            return tuple(judged[tensor.b] for tensor in tensors)

        steps = tuple(
            replace(
                step,
                outputs=judge(step.outputs),
                inputs=judge(step.inputs),
                inside=tuple(tensor.judged(*given) for tensor in step.inside),
            )
            for step in self.steps
        )
        return replace(self, feeds=judge(self.feeds), tensors=judge(self.tensors), steps=steps)

    @classmethod
    def _from_fields(cls, document: Any) -> TraceDiff:
        # A step has the names of its tensors in b, which stand beside it.
        tensors = {tensor["b"]: tensor for tensor in (*document["feeds"], *document["tensors"])}
        steps = []
        for step in document["steps"]:
            if not step["outputs"] or len(set(step["outputs"])) < len(step["outputs"]):
                raise ValueError("a step without outputs, or with one twice")
            outputs, inputs = (_pick(tensors, step[port]) for port in ("outputs", "inputs"))
            steps.append({**step, "outputs": outputs, "inputs": inputs})
        diff = super()._from_fields({**document, "steps": steps})
        if not diff.parts:
            raise InputError("TraceDiff.from_json", expected="at least one tensor", got="none")
        return diff


def _pick(tensors: Mapping[str, Any], names: Any) -> list[Any]:
    if type(names) is not list:
        raise TypeError(f"a list expected, not {type(names).__name__}")
    return [tensors[name] for name in names]


_EFFECTS = {
    "origin": "origin",
    "amplifies": "amplifying",
    "propagates": "propagating",
    "hides": "hiding",
    "same": "unaffected",
}


def _join_tensors(tensors: Sequence[Tensor]) -> str:
    texts = [f"{sanitize(t.b, 80)} {summarize(t.diff.worst)}" for t in tensors[:_MAX_TENSORS]]
    return f"{'; '.join(texts)}{_more(len(tensors) - _MAX_TENSORS)}"


def _changes(step: Step) -> Iterator[str]:
    """Say in short what the nodes of a step differ in."""
    yield from step.changes[:_MAX_CHANGES]
    if len(step.changes) > _MAX_CHANGES:
        yield f"… and {plural(len(step.changes) - _MAX_CHANGES, 'more change')}: .origin.changes"


def _join_names(names: Sequence[str]) -> str:
    return f"{', '.join(sanitize(name, 80) for name in names[:_MAX_NAMES])}{_more(len(names) - _MAX_NAMES)}"


def _more(count: int) -> str:
    return f" and {count} more" if count > 0 else ""
