"""The difference of two runs: to be read, saved, judged and asserted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from pyopnb.common import NamedItems, plural, sanitize
from pyopnb.diffs.arrays.parts import VERDICTS, Part
from pyopnb.diffs.arrays.report import count_verdicts, format_number, summarize
from pyopnb.diffs.base import (
    ToleranceDiff,
    fit_lines,
)
from pyopnb.diffs.documents import from_plain
from pyopnb.diffs.tolerances import Tolerances
from pyopnb.diffs.traces.quantized import QuantizedTensor
from pyopnb.diffs.traces.steps import (
    EFFECTS,
    ComparedStep,
    ComparedTensor,
    follow_back,
    for_runtimes,
    format_error,
    format_step,
    format_versions,
    largest_error,
    same_values,
)

__all__ = ["TraceDiff"]

# How many of the tensors that quantization changed most the text names.
_MAX_QUANTIZED = 6
_MAX_WIDTH = 200
_MAX_ORIGINS = 3
_MAX_CHANGES = 4
_MAX_NAMES = 6
_MAX_TENSORS = 3


@dataclass(frozen=True, repr=False)
class TraceDiff(NamedItems, ToleranceDiff):
    """The difference of two runs, as `pyopnb.diff` finds it.

    Like a `Diff`, it has no truth value.

    Attributes
    ----------
    a, b : str
        The runtime of each: ``"onnxruntime 1.31.1, all optimizations"``, or ``"arrays"``.
    feeds, tensors : tuple of ComparedTensor
        The feeds, and the results of the nodes, pair by pair in the order of b's graph.
    steps : tuple of ComparedStep
        The effect of each node on the difference, in that order.
    outputs : tuple of str
        The names of b's outputs that have a partner.
    only_a, only_b : tuple of str
        Tensors without a partner.
    outputs_only_a, outputs_only_b : tuple of str
        Outputs without a partner: with one of these the verdict is ``incomparable``.
    plain : tuple of ComparedTensor
        Outputs as normal runs give them, where recording the tensors changed them.
    quantization : tuple of QuantizedTensor
        If b is a quantized model and a the float one: every tensor and weight, first the
        ones whose own scale loses most.
    rewritten : dict
        How often nodes of a are other nodes in b that give the same:
        ``{"Conv + BatchNormalization → Conv": 3}``.
    runs : int or None
        How many pairs of runs `first_divergence` made; None if both runs were traced as a whole.
    node_block_list : tuple of str
        Names of the nodes to keep in float32, as ``node_block_list`` of onnxconverter-common and
        ONNX Runtime takes them, if `first_divergence` ran a model in half precision. A node without
        a name has that of its first output, which you can give it.
    with_block_list : str
        The verdict with these nodes in float32.
    models : tuple of ModelProto, or None
        The models that ran, for drawing; not in the JSON, and not compared.
    partners : dict
        Tensors of a's main graph and the corresponding ones of b's, likewise for drawing.
    """

    _FORMAT = "pyopnb.trace-diff"

    a: str
    b: str
    feeds: tuple[ComparedTensor, ...]
    tensors: tuple[ComparedTensor, ...]
    steps: tuple[ComparedStep, ...]
    outputs: tuple[str, ...] = ()
    only_a: tuple[str, ...] = ()
    only_b: tuple[str, ...] = ()
    outputs_only_a: tuple[str, ...] = ()
    outputs_only_b: tuple[str, ...] = ()
    plain: tuple[ComparedTensor, ...] = ()
    quantization: tuple[QuantizedTensor, ...] = ()
    rewritten: Mapping[str, int] = field(default_factory=dict)
    runs: int | None = None
    node_block_list: tuple[str, ...] = ()
    with_block_list: str = ""
    models: tuple[Any, Any] | None = field(default=None, compare=False)
    partners: Mapping[str, str] = field(default_factory=dict, compare=False)

    # ---- the verdict -----------------------------------------------------------------------------

    @property
    def parts(self) -> tuple[Part, ...]:
        """Every pair of arrays, as in a `Diff`."""
        tensors = (*self.feeds, *self.tensors, *self.hidden)
        return tuple(part for tensor in tensors for part in tensor.diff.parts)

    @cached_property
    def hidden(self) -> tuple[ComparedTensor, ...]:
        """Return the outputs that differ in normal runs, and agree in the recorded ones."""
        hidden = []
        for tensor in self.plain:
            if self[tensor.b].diff.ok and not tensor.diff.ok:
                hidden.append(tensor)
        return tuple(hidden)

    @cached_property
    def worst(self) -> Part:
        """Return the first part with the worst verdict."""
        return max(self.parts, key=lambda part: VERDICTS.index(part.verdict))

    @property
    def verdict(self) -> str:
        """Return the verdict of the worst tensor: ``"bit-identical"`` … ``"incomparable"``."""
        if self.outputs_only_a or self.outputs_only_b:
            return "incomparable"
        return self.worst.verdict

    @property
    def ok(self) -> bool:
        """Tell whether the verdict is one of the first three."""
        return VERDICTS.index(self.verdict) < 3

    # ---- where the runs diverge ------------------------------------------------------------------

    @cached_property
    def origins(self) -> tuple[ComparedStep, ...]:
        """Return the nodes that introduce a difference, in the order of b's graph."""
        return tuple(step for step in self.steps if step.verdict == "origin")

    @cached_property
    def origin(self) -> ComparedStep | None:
        """Return the first of `origins`, or else the first node beyond the tolerance.

        None if no node is over the tolerance, or if the difference comes from the feeds.
        """
        if self.origins:
            return self.origins[0]
        if self.feeds_differ:
            return None
        # Isolation may prove nothing of any node: then the first that is off is the best answer.
        over = (step for step in self.steps if step.verdict in ("amplifies", "propagates"))
        return next(over, None)

    @property
    def first(self) -> ComparedStep | None:
        """Return the first node with an output that is not bit-identical, or None.

        Its difference may be within the tolerance.
        """
        for step in self.steps:
            if any(tensor.diff.verdict != "bit-identical" for tensor in step.outputs):
                return step
        return None

    @property
    def outputs_agree(self) -> bool:
        """Tell whether every output is within the tolerance, whatever is inside."""
        if self.outputs_only_a or self.outputs_only_b or self.hidden:
            return False
        return bool(self.outputs) and all(self[name].diff.ok for name in self.outputs)

    @property
    def feeds_differ(self) -> bool:
        """Tell whether the runs were fed different values."""
        return not all(same_values(feed.diff) for feed in self.feeds)

    def __getitem__(self, name: str) -> ComparedTensor:
        """Return the pair of a tensor, by its name in b."""
        return {tensor.b: tensor for tensor in (*self.feeds, *self.tensors)}[name]

    # ---- text ------------------------------------------------------------------------------------

    def __str__(self) -> str:
        lines = [*self.headline(), *(f"  {line}" for line in (*self._causes(), *self.details()))]
        return fit_lines(lines, _MAX_WIDTH, "more lines: .steps, .tensors")

    def headline(self) -> list[str]:
        lone = []
        for side, names in (("a", self.outputs_only_a), ("b", self.outputs_only_b)):
            if names:
                noun = "outputs"
                if len(names) == 1:
                    noun = "output"
                lone.append(f"only {side} has the {noun} {_join_names(names)}")
        verdicts = {}
        for tensor in (*self.feeds, *self.tensors, *self.hidden):
            verdicts[tensor.b] = tensor.diff.verdict
        counts = count_verdicts(iter(verdicts.values()), "tensor")
        if self.outputs_agree and not self.ok and all(feed.diff.ok for feed in self.feeds):
            count = sum(not tensor.diff.ok for tensor in self.tensors)
            ends = max((verdicts[name] for name in self.outputs), key=VERDICTS.index)
            lone.append(f"only inside, {count} of {len(verdicts)} tensors; the outputs are {ends}")
        lines = [f"{self.verdict}: {'; '.join(lone) or counts}"]
        # Where all are within the tolerance, the first that is not the same to
        # the bit is of interest.
        step = self.origin or self.first
        if self.feeds_differ:
            verb = "no node introduces a difference"
            if self.origins:
                verb = "a node introduces a difference too"
            feeds = []
            for feed in self.feeds:
                if not same_values(feed.diff):
                    feeds.append(f"{sanitize(feed.b, 80)} {summarize(feed.diff.worst)}")
            lines.append(f"where: already in the feeds; {verb}")
            lines.append(f"how much: {'; '.join(feeds[:_MAX_TENSORS])}")
        elif self.hidden and self.origin is None:
            hidden = _join_names([tensor.b for tensor in self.hidden])
            worst = max(self.hidden, key=lambda tensor: largest_error(tensor.diff))
            lines += [
                f"where: only in normal runs, where ONNX Runtime optimizes more: {hidden}",
                f"how much: {sanitize(worst.b, 80)} {summarize(worst.diff.worst)}",
            ]
        elif self.quantization:
            # Every node rounds to levels: the largest loss counts.
            lines.append(f"where: {self.quantization[0]}")
        elif step is not None:
            lines += [f"where: {self._where(step)}", f"how much: {format_error(step)}"]
        return lines

    def _where(self, step: ComparedStep) -> str:
        where = step.name
        if format_versions(step):
            where += f", {format_versions(step)}"
        if step.source:
            where += f", from {step.source}"
        if step.between:
            where += f", or a node before it: {_join_names(step.between)}"
        if len(self.origins) > 1:
            names = _join_names([origin.name for origin in self.origins[1:]])
            return f"{where}; {plural(len(self.origins) - 1, 'more origin')}: {names}"
        if self.origins:
            return where
        if self.origin is None:
            return f"first in {where}"
        return f"{where} is the first outside the tolerance; isolation proves no node at fault"

    def _causes(self) -> Iterator[str]:
        if self.hidden:
            yield 'which optimizers: pyopnb.first_divergence(model, feeds, over="optimizers")'
            for half in sorted({tensor.precision for tensor in self.hidden if tensor.precision}):
                yield f"or none: it computes {half} in float32 without a kernel, and rounds less"
        if self.quantization:
            yield from map(str, self.quantization[1:_MAX_QUANTIZED])
            return
        # The headline has the first origin, unless it is about the feeds.
        for number, step in enumerate(self.origins[:_MAX_ORIGINS]):
            if number or self.feeds_differ:
                yield f"origin: {format_step(step)}"
            yield from step.changes[:_MAX_CHANGES]
            if len(step.changes) > _MAX_CHANGES:
                count = plural(len(step.changes) - _MAX_CHANGES, "more change")
                yield f"… and {count}: .origin.changes"

    def details(self) -> list[str]:
        """List the details after the headline, apart from the origins.

        Returns
        -------
        list of str
            Lines about nodes, outputs, paired and unpaired tensors, and runtimes.
        """
        lines = []
        counts = Counter(step.verdict for step in self.steps)
        if counts.keys() - {"same"}:
            effects = [f"{counts[name]} {_EFFECTS[name]}" for name in EFFECTS if counts[name]]
            lines += [f"nodes: {', '.join(effects)}", *self._amplification(), *self._output_lines()]
        evidence = Counter(tensor.by for tensor in self.tensors)
        if evidence.keys() - {"structure", "given"}:
            texts = [f"{by} {count}" for by, count in evidence.items()]
            lines.append(f"paired by: {', '.join(texts)}")
        unproven = []
        for step in self.steps:
            if step.inconclusive and step.verdict in ("amplifies", "propagates"):
                unproven.append(step.name)
        remarks = {
            "isolation proves nothing, because it differs as much from their own runs": unproven,
            "nondeterministic (random or stateful)": [
                step.name for step in self.steps if step.nondeterministic
            ],
            "in another form": [
                f"{tensor.b} = {tensor.a} ({tensor.form})"
                for tensor in (*self.feeds, *self.tensors)
                if tensor.form
            ],
            "the same by other nodes": [
                f"{count} × {ops}" for ops, count in self.rewritten.items()
            ],
            "not compared, only in a": self.only_a,
            "not compared, only in b": self.only_b,
        }
        for remark, names in remarks.items():
            if names:
                lines.append(f"{remark}: {_join_names(names)}")
        if self.node_block_list:
            names = _join_names(self.node_block_list)
            lines.append(f"with node_block_list, {names}, in float32: {self.with_block_list}")
        # The runtimes, and the tolerance relative to whole tensors.
        line = f"a: {self.a}; b: {self.b}"
        if self.a == self.b:
            line = f"both on {self.a}"
        scaled = max((part.stol for part in self.parts), default=0.0)
        if scaled:
            line += (
                f"; stol {scaled:g}: errors up to that fraction of a tensor's largest |b| pass, too"
            )
        if self.runs is not None:
            line += f"; {plural(self.runs, 'pair')} of runs"
        return [*lines, *self._normal_lines(), line]

    def _output_lines(self) -> Iterator[str]:
        """Describe the outputs, apart from one that the headline shows."""
        names = set(self.outputs)
        if self.origin is not None and not self.feeds_differ:
            names.discard(self.origin.worst.b)
        outputs = [tensor for tensor in self.tensors if tensor.b in names]
        for tensor in outputs[:_MAX_TENSORS]:
            result = tensor.diff.verdict
            if not same_values(tensor.diff):
                result = summarize(tensor.diff.worst)
            yield f"output {sanitize(tensor.b, 80)}: {result}"

    def _normal_lines(self) -> Iterator[str]:
        """Describe the outputs whose verdict is another in normal runs."""
        # The headline says it of outputs that differ only there.
        for tensor in self.plain if self.origin is not None else ():
            if tensor.diff.ok != self[tensor.b].diff.ok:
                name = sanitize(tensor.b, 80)
                yield f"output {name} in normal runs, with nothing recorded: {tensor.diff.verdict}"

    def _amplification(self) -> Iterator[str]:
        amplifying = [step for step in self.steps if step.verdict == "amplifies"]
        most = max(amplifying, key=lambda step: step.amplification or 0.0, default=None)
        if most is not None and most.amplification:
            factor = format_number(most.amplification)
            yield f"most amplified: {most.name}, {factor} × the error of its inputs"

    # ---- another tolerance, JSON -----------------------------------------------------------------

    def _judged(self, tolerances: Tolerances) -> TraceDiff:
        tolerances = for_runtimes(tolerances, (self.a, self.b))
        # Every tensor is judged once, as steps share them.
        judged = {tensor.b: tensor.judged(tolerances) for tensor in (*self.feeds, *self.tensors)}

        def judge(tensors: tuple[ComparedTensor, ...]) -> tuple[ComparedTensor, ...]:
            return tuple(judged[tensor.b] for tensor in tensors)

        steps = []
        for step in self.steps:
            steps.append(replace(step, outputs=judge(step.outputs), inputs=judge(step.inputs)))
        scaled = tolerances.or_scaled()
        changed = replace(
            self,
            feeds=judge(self.feeds),
            tensors=judge(self.tensors),
            steps=tuple(steps),
            plain=tuple(tensor.judged(scaled) for tensor in self.plain),
        )
        return changed.followed()

    def followed(self) -> TraceDiff:
        """Find the steps whose difference reaches an output, or else the last tensors."""
        results = {tensor.b for step in self.steps for tensor in step.outputs}
        ends = results.intersection(self.outputs)
        if not ends or "arrays" in (self.a, self.b):
            # Neither arrays from elsewhere nor the tensors around a fault need contain the outputs.
            read = {tensor.b for step in self.steps for tensor in step.inputs}
            ends |= results - read
        return replace(self, steps=follow_back(self.steps, ends))

    @classmethod
    def _restored(cls, document: dict[str, Any]) -> dict[str, Any]:
        # A step has only the names of its tensors in b; the tensors are a separate list.
        tensors = {}
        for tensor in (*document["feeds"], *document["tensors"]):
            tensors[tensor["b"]] = tensor
        steps = []
        for step in document["steps"]:
            ports = {}
            for port in ("outputs", "inputs"):
                names = from_plain(tuple[str, ...], step[port])
                ports[port] = [tensors[name] for name in names]
            steps.append({**step, **ports})
        return {**document, "steps": steps}


_EFFECTS = {
    "origin": "origin",
    "amplifies": "amplifying",
    "propagates": "propagating",
    "hides": "hiding",
    "absorbed": "absorbed",
    "same": "unaffected",
}


def _join_names(names: Sequence[str]) -> str:
    text = ", ".join(sanitize(name, 80) for name in names[:_MAX_NAMES])
    if len(names) > _MAX_NAMES:
        text += f" and {len(names) - _MAX_NAMES} more"
    return text
