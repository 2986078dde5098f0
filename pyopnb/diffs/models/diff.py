"""The difference of two models: to be read, saved, judged and asserted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from pyopnb.diffs.arrays.parts import VERDICTS, largest_difference
from pyopnb.diffs.arrays.report import summarize
from pyopnb.diffs.base import (
    MAX_LINES,
    ToleranceDiff,
    fit_lines,
)
from pyopnb.diffs.models.change import KINDS, Change, Fact, NodeAt
from pyopnb.diffs.models.changes import find_changes
from pyopnb.errors import InputError
from pyopnb.models.io import open_readonly
from pyopnb.ops.messages import plural, sanitize

__all__ = ["ModelDiff", "diff_models", "format_change"]


@dataclass(frozen=True, repr=False)
class ModelDiff(ToleranceDiff):
    """The difference of two models, as `pyopnb.diff` finds it.

    Other names, another order of nodes, documentation, a default that is written out, and a weight in a Constant node are not
    changes. It has no truth value, as a `Diff` has none.

    Attributes
    ----------
    changes : tuple of Change
        By kind; each with the nodes of both models that it concerns.
    nodes : tuple of (int, int)
        How many nodes the models have, bodies and functions included, Constants not.
    pairs : int
        How many of these both models have, changed or not.
    renamed : int
        How many nodes and tensors have different names.
    moved : bool
        Whether nodes stand in another order.
    models : tuple or None
        The two models as they were given, for drawing; not in the JSON, and not compared.
    tensors : dict
        Tensors of a's main graph and the corresponding ones of b's, likewise for drawing.
    """

    _FORMAT = "pyopnb.model-diff"

    changes: tuple[Change, ...]
    nodes: tuple[int, int]
    pairs: int
    renamed: int = 0
    moved: bool = False
    models: tuple[Any, Any] | None = field(default=None, compare=False)
    tensors: Mapping[str, str] = field(default_factory=dict, compare=False)

    @property
    def verdict(self) -> str:
        """``"identical"``; ``"close"`` if only weights differ, all within the tolerance; or ``"different"``."""
        if not self.changes:
            return "identical"
        return (
            "close"
            if all(change.values is not None and change.values.ok for change in self.changes)
            else "different"
        )

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

        Raises
        ------
        InputError
            There is no such kind.
        """
        for kind in kinds:
            if kind not in KINDS:
                raise InputError(
                    "ModelDiff.of", expected=f"one of {', '.join(KINDS)}", got=sanitize(kind)
                )
        return tuple(change for change in self.changes if change.kind in kinds)

    def __str__(self) -> str:
        head = self._headline()
        changes = [f"  {line}" for change in self.changes for line in format_change(change)]
        names = [f"  {self._names()}"] if self.renamed or self.moved else []
        room = MAX_LINES - len(head) - len(names)
        if len(changes) > room:
            changes = [*changes[: room - 1], f"  … and {len(changes) - room + 1} more"]
        return fit_lines([*head, *changes, *names])

    def _headline(self) -> list[str]:
        if not self.changes:
            return [f"{self.verdict}: {plural(self.nodes[0], 'node')}"]
        counts = Counter(change.kind for change in self.changes)
        kinds = ", ".join(
            plural(counts[kind], _NOUNS.get(kind, f"{kind} node")) for kind in KINDS if counts[kind]
        )
        places = list(dict.fromkeys(place for change in self.changes for place in _places(change)))
        more = f" and {len(places) - _MAX_PLACES} more" if len(places) > _MAX_PLACES else ""
        amounts = "; ".join(filter(None, (self._share(), self._worst_weight())))
        where = f"where: {', '.join(places[:_MAX_PLACES])}{more}"
        return [f"{self.verdict}: {kinds}", where, *([f"how much: {amounts}"] if amounts else [])]

    def _share(self) -> str:
        """Say how many nodes of the two models have changed; empty if none has."""
        changed = [
            len(
                {
                    (change.path, node.place)
                    for change in self.changes
                    if change.kind != "weight"
                    for node in getattr(change, side)
                }
            )
            for side in ("a", "b")
        ]
        one, other = (
            f"{count:,} of {plural(total, 'node')}"
            for count, total in zip(changed, self.nodes, strict=True)
        )
        return "" if not any(changed) else one if one == other else f"{one} in a, {other} in b"

    def _worst_weight(self) -> str:
        """Say how large the largest difference of a weight is, where both models have it."""
        weights = [
            (change.facts[0].a, change.values.worst)
            for change in self.changes
            if change.values is not None
        ]
        if not weights:
            return ""
        name, part = max(
            weights,
            key=lambda weight: (VERDICTS.index(weight[1].verdict), largest_difference(weight[1])),
        )
        return f"weight {name} {summarize(part)}"

    def _names(self) -> str:
        names = (
            [f"{plural(self.renamed, 'other name')} of nodes and tensors"] if self.renamed else []
        )
        return "not counted as changes: " + ", ".join(
            [*names, *(["another order of nodes"] if self.moved else [])]
        )

    def _judged(self, rtol: float | None, atol: float | None, stol: float | None) -> ModelDiff:
        return replace(
            self,
            changes=tuple(
                c
                if c.values is None
                else replace(c, values=c.values.judged(rtol=rtol, atol=atol, stol=stol))
                for c in self.changes
            ),
        )

    @classmethod
    def _from_fields(cls, document: Any) -> ModelDiff:
        diff = super()._from_fields(document)
        for change in diff.changes:
            if change.kind not in KINDS:
                raise ValueError(f"no kind of change: {change.kind}")
            try:
                # A change of a kind without the facts that it needs cannot be written.
                list(format_change(change))
                list(_places(change))
            except IndexError:
                raise ValueError(f"a change without facts: {change.kind}") from None
        return diff


def diff_models(
    a: Any, b: Any, rtol: float | None = None, atol: float | None = None, stol: float | None = None
) -> ModelDiff:
    """Compare two models; see `pyopnb.diff`.

    Parameters
    ----------
    a, b : ModelProto, bytes or path
    rtol, atol, stol : float, optional
        For the weights.

    Returns
    -------
    ModelDiff

    Raises
    ------
    ModelError
        One is not a model.

    Examples
    --------
    >>> from onnx import parser
    >>> model = '<ir_version: 10, opset_import: ["": 20]> g (float[N] x) => (float[N] y) { v = %s  y = Relu(v) }'
    >>> diff_models(parser.parse_model(model % "Gelu(x)"), parser.parse_model(model % 'Gelu<approximate="tanh">(x)'))
    different: 1 changed node
    where: Gelu 'v'
    how much: 1 of 2 nodes
      changed: Gelu 'v', attr approximate: 'none' → 'tanh'
    """
    changes, counts = find_changes(open_readonly(a), open_readonly(b), (rtol, atol, stol))
    return ModelDiff(
        tuple(changes),
        (counts.a, counts.b),
        counts.pairs,
        counts.renamed,
        counts.moved,
        (a, b),
        counts.tensors,
    )


# ---- text

_MAX_PLACES = 4
_NOUNS = {
    "input": "input",
    "output": "output",
    "weight": "weight",
    "function": "function",
    "opset": "opset",
    "header": "other field",
    "fused": "fused group",
    "split": "split group",
    "exchanged": "exchanged group",
}


def _places(change: Change) -> Iterator[str]:
    """Name the nodes that a change concerns, those of b if it has any, or what else it concerns."""
    where = f"{change.path}: " if change.path else ""
    nodes = change.b or change.a
    if change.kind == "weight" or not nodes:
        prefix = f"{change.kind} " if change.kind != "header" else ""
        yield from (
            f"{where}{prefix}{fact.a or fact.b if change.kind == 'weight' else fact.what}"
            for fact in change.facts[:1]
        )
        return
    yield from (f"{where}{node.op} '{node.name or _first(node)}'" for node in nodes)


def format_change(change: Change) -> Iterator[str]:
    """Describe a change: a line for each fact, or one."""
    where = f"{change.path}: " if change.path else ""
    left, right = (
        ", ".join(f"{node.op} '{node.name or _first(node)}'" for node in nodes)
        for nodes in (change.a, change.b)
    )
    kind = change.kind
    if kind in ("changed", "rewired"):
        yield from (f"{where}{kind}: {left}, {_format_fact(fact)}" for fact in change.facts)
    elif kind in ("fused", "split", "exchanged") and change.b:
        yield f"{where}{left} {kind} {'for' if kind == 'exchanged' else 'into'} {right}"
    elif kind == "fused":
        yield f"{where}merged: {left} is computed once, as {change.facts[0].b}"
    elif kind == "folded":
        yield f"{where}folded: {left} became the weight {change.facts[0].b}"
    elif kind in ("added", "removed"):
        yield f"{where}{kind}: {left or right}"
    elif kind == "weight":
        yield from _weight(change, where, left)
    else:
        yield from (
            f"{where}{'' if kind == 'header' else kind + ' '}{_format_fact(fact)}"
            for fact in change.facts
        )


def _first(node: NodeAt) -> str:
    return next(filter(None, node.outputs), "")


def _format_fact(fact: Fact) -> str:
    if fact.a is None or fact.b is None:
        side, value = ("a", fact.a) if fact.b is None else ("b", fact.b)
        return f"{fact.what}: only in {side}" + ("" if value == "there" else f", {value}")
    return f"{fact.what}: {fact.a} → {fact.b}"


def _weight(change: Change, where: str, reader: str) -> Iterator[str]:
    fact = change.facts[0]
    if change.values is None:
        unread = len(change.facts) == 1
        text = (
            f"only in {'a' if fact.a else 'b'}, unread" if unread else _format_fact(change.facts[1])
        )
        yield f"{where}weight {fact.a or fact.b}: {text}"
        return
    of_reader = f" of {reader}" if reader else ""
    yield f"{where}weight {fact.a}{of_reader}: {change.values.verdict}, {summarize(change.values.worst)}"
