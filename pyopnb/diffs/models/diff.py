"""What sets two models apart: to be read, saved, judged and asserted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from pyopnb.diffs.arrays.diff import Diff
from pyopnb.diffs.arrays.report import summarize
from pyopnb.diffs.base import MAX_LINES, ToleranceDiff, fit_lines, from_document, to_document
from pyopnb.diffs.models.changes import KINDS, Change, Fact, NodeAt, find_changes
from pyopnb.models.io import open_readonly
from pyopnb.ops.errors import FeedError, plural, sanitize

__all__ = ["ModelDiff", "diff_models", "format_change"]


@dataclass(frozen=True, repr=False)
class ModelDiff(ToleranceDiff):
    """What `pyopnb.diff` found between two models.

    Other names, another order of nodes, documentation, a default that is written out, and a weight that stands in a Constant
    node are no changes. It has no truth value, as a `Diff` has none.

    Attributes
    ----------
    changes : tuple of Change
        By kind; each with the nodes of both models that it is about.
    nodes : tuple of (int, int)
        How many nodes the models have, bodies and functions included, Constants not.
    pairs : int
        How many of these are in both, changed or not.
    renamed : int
        How many nodes and tensors have another name.
    moved : bool
        Whether nodes stand in another order.
    models : tuple or None
        The two models as they were given, to be drawn; not in the JSON, and not compared.
    """

    _FORMAT = "pyopnb.model-diff"

    changes: tuple[Change, ...]
    nodes: tuple[int, int]
    pairs: int
    renamed: int = 0
    moved: bool = False
    models: tuple[Any, Any] | None = field(default=None, compare=False)

    @property
    def verdict(self) -> str:
        """``"identical"``; ``"close"`` where nothing but weights differ, all within the tolerance; or ``"different"``."""
        if not self.changes:
            return "identical"
        return "close" if all(change.values is not None and change.values.ok for change in self.changes) else "different"

    @property
    def ok(self) -> bool:
        """Whether the verdict is not ``"different"``."""
        return self.verdict != "different"

    def of(self, *kinds: str) -> tuple[Change, ...]:
        """The changes of some kinds.

        Raises
        ------
        FeedError
            There is no such kind.
        """
        for kind in kinds:
            if kind not in KINDS:
                raise FeedError("ModelDiff.of", expected=f"one of {', '.join(KINDS)}", got=sanitize(kind))
        return tuple(change for change in self.changes if change.kind in kinds)

    def __str__(self) -> str:
        lines = [self._summary()]
        told = [line for change in self.changes for line in format_change(change)]
        names = [self._names()] if self.renamed or self.moved else []
        room = MAX_LINES - 1 - len(names)
        lines += told if len(told) <= room else [*told[: room - 1], f"… and {len(told) - room + 1} more"]
        return fit_lines([*lines, *names])

    def _summary(self) -> str:
        one, other = self.nodes
        size = (
            f"{plural(one, 'node')}" if one == other else f"{plural(one, 'node')} against {other}, {self.pairs} of them in both"
        )
        counts = Counter(change.kind for change in self.changes)
        said = ", ".join(plural(counts[k], _TOLD[k]) if k in _TOLD else f"{counts[k]} {k}" for k in KINDS if counts[k])
        return f"{self.verdict}: {size}" + (f"; {said}" if said else "")

    def _names(self) -> str:
        names = f"{plural(self.renamed, 'other name')} of nodes and tensors" if self.renamed else ""
        return "no changes: " + ", ".join(filter(None, [names, "another order of nodes" if self.moved else ""]))

    def _judged(self, rtol: float | None, atol: float | None) -> ModelDiff:
        return replace(
            self,
            changes=tuple(
                c if c.values is None else replace(c, values=c.values.judged(rtol=rtol, atol=atol)) for c in self.changes
            ),
        )

    def _to_fields(self) -> dict[str, Any]:
        fields = {name: getattr(self, name) for name in ("nodes", "pairs", "renamed", "moved")}
        return {**fields, "changes": [_plain(change) for change in self.changes]}

    @classmethod
    def _from_fields(cls, fields: Any) -> ModelDiff:
        one, other = map(_whole, fields["nodes"])
        changes = tuple(map(_change, fields["changes"]))
        return cls(changes, (one, other), _whole(fields["pairs"]), _whole(fields["renamed"]), _typed(fields["moved"], bool))


def diff_models(a: Any, b: Any, rtol: float | None = None, atol: float | None = None) -> ModelDiff:
    """What sets two models apart; see `pyopnb.diff`.

    Parameters
    ----------
    a, b : ModelProto, bytes or path
    rtol, atol : float, optional
        For the weights.

    Raises
    ------
    ModelError
        No model is there.

    Examples
    --------
    >>> from onnx import parser
    >>> model = '<ir_version: 10, opset_import: ["": 20]> g (float[N] x) => (float[N] y) { v = %s  y = Relu(v) }'
    >>> diff_models(parser.parse_model(model % "Gelu(x)"), parser.parse_model(model % 'Gelu<approximate="tanh">(x)'))
    different: 2 nodes; 1 changed
    changed: Gelu 'v', attr approximate: 'none' against 'tanh'
    """
    changes, counts = find_changes(open_readonly(a), open_readonly(b), rtol, atol)
    return ModelDiff(tuple(changes), (counts.a, counts.b), counts.pairs, counts.renamed, counts.moved, (a, b))


# ---- text

_TOLD = {
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


def format_change(change: Change) -> Iterator[str]:
    """A change in words: a line for each fact, or one."""
    where = f"{change.path}: " if change.path else ""
    left, right = (", ".join(f"{node.op} '{node.name or _first(node)}'" for node in nodes) for nodes in (change.a, change.b))
    kind = change.kind
    if kind == "changed":
        yield from (f"{where}changed: {left}, {_against(fact)}" for fact in change.facts)
    elif kind == "rewired":
        yield from (f"{where}rewired: {left}, {_against(fact)}" for fact in change.facts)
    elif kind in ("fused", "split", "exchanged") and change.b:
        into = {"fused": "fused into", "split": "split into", "exchanged": "exchanged for"}[kind]
        yield f"{where}{left} {into} {right}"
    elif kind == "fused":
        yield f"{where}computed once now: {left}, as {change.facts[0].b}"
    elif kind == "folded":
        yield f"{where}folded: {left} became the weight {change.facts[0].b}"
    elif kind in ("added", "removed"):
        yield f"{where}{kind}: {left or right}"
    elif kind == "weight":
        yield from _weight(change, where, left)
    else:
        yield from (f"{where}{'' if kind == 'header' else kind + ' '}{_against(fact)}" for fact in change.facts)


def _first(node: NodeAt) -> str:
    return next(filter(None, node.outputs), "")


def _against(fact: Fact) -> str:
    if fact.a is None or fact.b is None:
        side, value = ("a", fact.a) if fact.b is None else ("b", fact.b)
        return f"{fact.what}: only in {side}" + ("" if value == "there" else f", {value}")
    return f"{fact.what}: {fact.a} against {fact.b}"


def _weight(change: Change, where: str, reader: str) -> Iterator[str]:
    fact = change.facts[0]
    if change.values is None:
        unread = len(change.facts) == 1
        told = f"only in {'a' if fact.a else 'b'}, unread" if unread else _against(change.facts[1])
        yield f"{where}weight {fact.a or fact.b}: {told}"
        return
    worst = change.values.worst
    yield f"{where}weight {fact.a}{f' of {reader}' if reader else ''}: {worst.verdict}, {summarize(worst)}"


# ---- JSON


def _plain(change: Change) -> dict[str, Any]:
    held = asdict(replace(change, values=None))
    return {**held, "values": None if change.values is None else to_document(change.values)}


def _typed(value: Any, kind: type) -> Any:
    if type(value) is not kind:
        raise TypeError(f"{kind.__name__} expected, not {type(value).__name__}")
    return value


def _whole(value: Any) -> int:
    return int(_typed(value, int))


def _change(held: Mapping[str, Any]) -> Change:
    if held["kind"] not in KINDS:
        raise ValueError(f"no kind of change: {held['kind']}")
    a, b = (tuple(map(_node, held[side])) for side in ("a", "b"))
    facts = tuple(Fact(_typed(f["what"], str), _maybe(f["a"]), _maybe(f["b"])) for f in held["facts"])
    values = None if held["values"] is None else from_document(Diff, held["values"])
    return Change(held["kind"], _typed(held["path"], str), a, b, facts, values)


def _maybe(value: Any) -> str | None:
    return None if value is None else str(_typed(value, str))


def _node(held: Mapping[str, Any]) -> NodeAt:
    outputs = tuple(_typed(name, str) for name in held["outputs"])
    return NodeAt(_whole(held["place"]), _typed(held["op"], str), _typed(held["name"], str), outputs)
