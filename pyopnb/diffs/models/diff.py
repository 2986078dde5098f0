"""The difference of two models: to be read, saved, judged and asserted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from pyopnb.common import plural, progress
from pyopnb.diffs.arrays.parts import VERDICTS, largest_difference
from pyopnb.diffs.arrays.report import summarize
from pyopnb.diffs.base import ToleranceDiff, fit_lines
from pyopnb.diffs.models.change import KINDS, Change, Fact, NodeAt
from pyopnb.diffs.models.changes import find_changes
from pyopnb.diffs.models.hashing import COMPARED
from pyopnb.diffs.tolerances import DEFAULT, Tolerances
from pyopnb.engine import external_files, model_files

__all__ = ["ModelDiff", "diff_models", "format_change"]


@dataclass(frozen=True, repr=False)
class ModelDiff(ToleranceDiff):
    """The difference of two models, as `pyopnb.diff` finds it.

    Other names, another order of nodes, documentation, metadata, a default that is written out, and
    a weight in a Constant node are not changes. Like a `Diff`, it has no truth value.

    Attributes
    ----------
    changes : tuple of Change
        By kind; each with the nodes of both models that it concerns.
    nodes : tuple of (int, int)
        How many nodes the models have, bodies and functions included, Constants not.
    pairs : int
        How many of these both models have, changed or not.
    models : tuple or None
        The two models as they were given, for drawing; not in the JSON, and not compared.
    tensors : dict
        Tensors of a's main graph and the corresponding ones of b's, likewise for drawing.
    """

    _FORMAT = "pyopnb.model-diff"

    changes: tuple[Change, ...]
    nodes: tuple[int, int]
    pairs: int
    models: tuple[Any, Any] | None = field(default=None, compare=False)
    tensors: Mapping[str, str] = field(default_factory=dict, compare=False)

    @property
    def verdict(self) -> str:
        """Return ``"identical"``, ``"close"`` or ``"different"``.

        Models are close if only weights differ, all within the tolerance.
        """
        if not self.changes:
            return "identical"
        if all(change.values is not None and change.values.ok for change in self.changes):
            return "close"
        return "different"

    @property
    def ok(self) -> bool:
        """Tell whether the verdict is not ``"different"``."""
        return self.verdict != "different"

    def of(self, *kinds: str) -> tuple[Change, ...]:
        """Select the changes of some kinds.

        Parameters
        ----------
        *kinds : str
            As in `Change.kind`.

        Returns
        -------
        tuple of Change
            In the order of the diff.
        """
        return tuple(change for change in self.changes if change.kind in kinds)

    def __str__(self) -> str:
        lines = self.headline()
        for change in self.changes:
            lines += [f"  {line}" for line in format_change(change)]
        return fit_lines(lines, more="more")

    def headline(self) -> list[str]:
        if not self.changes:
            return [f"{self.verdict}: {plural(self.nodes[0], 'node')}"]
        counts = Counter(change.kind for change in self.changes)
        kinds = []
        for kind in KINDS:
            if counts[kind]:
                kinds.append(plural(counts[kind], _NOUNS.get(kind, f"{kind} node")))
        subjects = list(dict.fromkeys(map(_subject, self.changes)))
        where = f"where: {', '.join(subjects[:_MAX_SUBJECTS])}"
        if len(subjects) > _MAX_SUBJECTS:
            where += f" and {len(subjects) - _MAX_SUBJECTS} more"
        lines = [f"{self.verdict}: {', '.join(kinds)}", where]
        amounts = [*self._share(), *self._worst_weight()]
        if amounts:
            lines.append(f"how much: {'; '.join(amounts)}")
        return lines

    def _share(self) -> Iterator[str]:
        """Say how many nodes of the two models have changed, if any has."""
        changed: tuple[set[Any], set[Any]] = (set(), set())
        for change in self.changes:
            # A changed weight does not make its node a changed one.
            if change.kind != "weight":
                changed[0].update((change.path, node.place) for node in change.a)
                changed[1].update((change.path, node.place) for node in change.b)
        share_a, share_b = (
            f"{len(places):,} of {plural(count, 'node')}"
            for places, count in zip(changed, self.nodes, strict=True)
        )
        if share_a == share_b and changed[0]:
            yield share_a
        elif any(changed):
            yield f"{share_a} in a, {share_b} in b"

    def _worst_weight(self) -> Iterator[str]:
        """Say how large the largest weight difference is."""
        ranked = []
        for change in self.changes:
            if change.values is not None:
                part = change.values.worst
                # Weights of other shapes have no largest difference, and come first.
                rank = VERDICTS.index(part.verdict), largest_difference(part)
                ranked.append((rank, f"weight {change.facts[0].a} {summarize(part)}"))
        if ranked:
            yield max(ranked)[1]

    def _judged(self, tolerances: Tolerances) -> ModelDiff:
        changes = []
        for change in self.changes:
            if change.values is not None:
                change = replace(change, values=change.values._judged(tolerances))
            changes.append(change)
        return replace(self, changes=tuple(changes))


def diff_models(a: Any, b: Any, tolerances: Tolerances = DEFAULT) -> ModelDiff:
    """Compare two models; see `pyopnb.diff`.

    Parameters
    ----------
    a, b : ModelProto, bytes or path
    tolerances : Tolerances
        For the weights.

    Examples
    --------
    >>> from onnx import parser
    >>> model = '''<ir_version: 10, opset_import: ["": 20]>
    ...     g (float[N] x) => (float[N] y) { v = %s  y = Relu(v) }'''
    >>> diff_models(
    ...     parser.parse_model(model % "Gelu(x)"),
    ...     parser.parse_model(model % 'Gelu<approximate="tanh">(x)'),
    ... )
    different: 1 changed node
    where: Gelu 'v'
    how much: 1 of 2 nodes
      changed: Gelu 'v', attr approximate: 'none' → 'tanh'
    """
    source_a, source_b = model_files.open_readonly(a), model_files.open_readonly(b)
    megabytes = external_files.weight_bytes(source_b.proto) // 1_000_000
    with progress.tracking(COMPARED, megabytes):
        changes, graphs = find_changes(source_a, source_b, tolerances)
    size_a = size_b = pairs = 0
    for comparison in graphs:
        size_a += len(comparison.a.computing)
        size_b += len(comparison.b.computing)
        pairs += len(comparison.matching.forward)
    tensors = graphs[0].matching.values
    return ModelDiff(tuple(changes), (size_a, size_b), pairs, (a, b), tensors)


# ---- text

_MAX_SUBJECTS = 4
_NOUNS = {
    "input": "input",
    "output": "output",
    "weight": "weight",
    "function": "function",
    "opset": "opset",
    "fused": "fused group",
    "split": "split group",
}


def _subject(change: Change) -> str:
    """Name the nodes that a change concerns, if possible in b, or its weight, input or function."""
    nodes = change.b or change.a
    if nodes and change.kind != "weight":
        subject = _format_nodes(nodes)
    elif change.kind == "weight" and change.facts:
        subject = f"weight {change.facts[0].a}"
    else:
        subject = f"{change.kind} {', '.join(fact.what for fact in change.facts)}"
    return _prefix(change) + subject


def _prefix(change: Change) -> str:
    if change.path:
        return f"{change.path}: "
    return ""


def format_change(change: Change) -> Iterator[str]:
    """Describe a change: a line for each fact, or one."""
    where = _prefix(change)
    nodes_a = _format_nodes(change.a)
    nodes_b = _format_nodes(change.b)
    if change.kind in ("changed", "rewired"):
        for fact in change.facts:
            yield f"{where}{change.kind}: {nodes_a}, {_format_fact(fact)}"
    elif change.kind in ("fused", "split"):
        yield f"{where}{nodes_a} {change.kind} into {nodes_b}"
    elif change.kind in ("added", "removed"):
        yield f"{where}{change.kind}: {nodes_a or nodes_b}"
    elif change.kind == "weight" and change.facts:
        yield f"{where}weight {change.facts[0].a}{_weight_values(change, nodes_a)}"
    else:
        for fact in change.facts:
            yield f"{where}{change.kind} {_format_fact(fact)}"


def _weight_values(change: Change, reader: str) -> str:
    if change.values is None:
        return "".join(f": {_format_fact(fact)}" for fact in change.facts[1:])
    of_reader = ""
    if reader:
        of_reader = f" of {reader}"
    return f"{of_reader}: {change.values.verdict}, {summarize(change.values.worst)}"


def _format_nodes(nodes: tuple[NodeAt, ...]) -> str:
    texts = []
    for node in nodes:
        first_output = next(filter(None, node.outputs), "")
        texts.append(f"{node.op} '{node.name or first_output}'")
    return ", ".join(texts)


def _format_fact(fact: Fact) -> str:
    if fact.a is not None and fact.b is not None:
        return f"{fact.what}: {fact.a} → {fact.b}"
    side, value = ("b", fact.b) if fact.a is None else ("a", fact.a)
    text = f"{fact.what}: only in {side}"
    if value == "there":
        return text
    return f"{text}, {value}"
