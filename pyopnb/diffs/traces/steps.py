"""The nodes of two runs, pair by pair: what each does to the difference between the runs."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from pyopnb.diffs.arrays.diff import Diff
from pyopnb.diffs.arrays.parts import VERDICTS, Part
from pyopnb.diffs.arrays.report import format_number, summarize
from pyopnb.ops.errors import sanitize

__all__ = ["AMPLIFIES", "EFFECTS", "Step", "Tensor", "error", "format_step"]

EFFECTS = ("origin", "amplifies", "propagates", "hides", "same")
"""What a node can do to a difference, the most interesting first."""

AMPLIFIES = 10.0
"""From how many times its inputs' largest error on a node is said to amplify it: a decimal digit is lost."""


@dataclass(frozen=True)
class Tensor:
    """Two tensors that stand for the same, one of each run.

    Attributes
    ----------
    a, b : str
        Their names.
    by : str
        What says that they are the same: ``"structure"``, ``"value"``, ``"name"``, or ``"output"`` or ``"input"`` for the same
        place among the models' ends.
    diff : Diff
        What sets them apart: the accumulated error.
    alone : Diff or None
        a's tensor against what b's node gives on a's inputs: the isolated error. None where that could not be run.
    why : str
        Why not.
    steady : bool or None
        Whether b's node gave the same twice; None where nobody tried.
    """

    a: str
    b: str
    by: str
    diff: Diff
    alone: Diff | None = None
    why: str = ""
    steady: bool | None = None

    def judged(self, rtol: float | None, atol: float | None) -> Tensor:
        """The same under another tolerance."""
        alone = None if self.alone is None else self.alone.judged(rtol=rtol, atol=atol)
        return replace(self, diff=self.diff.judged(rtol=rtol, atol=atol), alone=alone)


@dataclass(frozen=True)
class Step:
    """A node of b, and what stands for it in a.

    Attributes
    ----------
    name : str
        The node in b, by its name or else its output, and its op.
    op : str
        ``domain::OpType``.
    a : str
        The node in a.
    outputs, inputs : tuple of Tensor
        What it gives, and the nearest tensors before it that could be compared.
    between, between_a : tuple of str
        Nodes of b, and of a, that stand between these inputs and the node, as after a fusion.
    versions : tuple of (int or None)
        The versions of its op that the two runs had; None where it is no op of the registry.
    changes : tuple of str
        How the node of b differs from that of a: attributes, weights, lines of source.
    inside : tuple of Tensor
        What the nodes of its bodies gave, where both traces looked into them and the names agree.
    """

    name: str
    op: str
    a: str
    outputs: tuple[Tensor, ...]
    inputs: tuple[Tensor, ...]
    between: tuple[str, ...] = ()
    between_a: tuple[str, ...] = ()
    versions: tuple[int | None, int | None] = (None, None)
    changes: tuple[str, ...] = ()
    inside: tuple[Tensor, ...] = ()

    @property
    def accumulated(self) -> float:
        """The largest error of its outputs; infinite where they cannot be compared."""
        return max(error(tensor.diff) for tensor in self.outputs)

    @property
    def isolated(self) -> float | None:
        """The largest error that it makes alone, on the inputs of a; None where that could not be run."""
        return max((error(tensor.alone) for tensor in self.outputs if tensor.alone is not None), default=None)

    @property
    def incoming(self) -> float:
        """The largest error of its inputs."""
        return max((error(tensor.diff) for tensor in self.inputs), default=0.0)

    @property
    def amplification(self) -> float | None:
        """``accumulated / incoming``; None where the inputs are the same, or beyond numbers."""
        if not self.incoming or math.isinf(self.incoming):
            return None
        return self.accumulated / self.incoming

    @property
    def nondeterministic(self) -> bool:
        """Whether it gave other values when it was run again: it draws random numbers, or keeps a state."""
        return any(tensor.steady is False for tensor in self.outputs)

    @property
    def verdict(self) -> str:
        """What it does to the difference between the runs.

        - ``origin``: alone, on the inputs of a, it is over the tolerance; or its inputs are the same in both runs and its
          outputs are not,
        - ``amplifies``: its outputs are over the tolerance and its inputs within, or its error is `AMPLIFIES` times theirs,
        - ``propagates``: its outputs are over the tolerance as its inputs are,
        - ``hides``: its inputs are over the tolerance and its outputs within,
        - ``same``: neither is.
        """
        bad_in = any(not tensor.diff.ok for tensor in self.inputs)
        bad_out = any(not tensor.diff.ok for tensor in self.outputs)
        if any(tensor.alone is not None and not tensor.alone.ok for tensor in self.outputs):
            return "origin"
        if not bad_out:
            return "hides" if bad_in else "same"
        if bad_in:
            return "amplifies" if (self.amplification or 0.0) >= AMPLIFIES else "propagates"
        exact = all(VERDICTS.index(tensor.diff.verdict) < 2 for tensor in self.inputs)
        return "origin" if exact or any(tensor.alone is None for tensor in self.outputs) else "amplifies"

    @property
    def worst(self) -> Tensor:
        """The output that is farthest apart."""
        return max(self.outputs, key=lambda tensor: (VERDICTS.index(tensor.diff.verdict), error(tensor.diff)))

    def __str__(self) -> str:
        return f"{self.verdict}: {format_step(self)}"


def format_step(step: Step) -> str:
    """A step in one line: which node, how far apart, and how much of that is its own."""
    said = [f"{step.name}"]
    numbers = [int(version) for version in step.versions if version is not None]
    if len(set(numbers)) > 1:
        said.append(f"versions {numbers[0]} → {numbers[1]}")
    worst = step.worst
    part = worst.diff.worst
    said.append(f"{sanitize(worst.b, 80)}: {part.verdict}, {part.reason or summarize(part)}")
    if step.isolated is None:
        why = next((tensor.why for tensor in step.outputs if tensor.why), "")
        said.append(f"not run alone{f': {why}' if why else ''}")
    elif step.accumulated or step.isolated:
        said.append(f"alone at most {format_number(step.isolated)}")
    if within := next((tensor for tensor in step.inside if not tensor.diff.ok), None):
        said.append(f"in its body first {sanitize(within.b, 80)}: {within.diff.verdict}, {summarize(within.diff.worst)}")
    if step.nondeterministic:
        said.append("gives other values each time")
    return "; ".join(said)


def error(diff: Diff) -> float:
    """The largest ``|a - b|`` of all parts; infinite where there is no such number, as of other types, NaN, or texts."""
    return max(map(_error, diff.parts))


def _error(part: Part) -> float:
    if VERDICTS.index(part.verdict) < 2:
        return 0.0
    facts = part.facts
    return math.inf if facts is None or facts.odd or facts.largest is None else float(facts.largest)
