"""Pairs of nodes of two runs, with the effect of each node on the difference between the runs."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from pyopnb.common import sanitize
from pyopnb.diffs.arrays.diff import Diff
from pyopnb.diffs.arrays.parts import VERDICTS, largest_difference
from pyopnb.diffs.arrays.report import format_index, format_number, summarize
from pyopnb.diffs.documents import write_fields
from pyopnb.diffs.tolerances import Tolerances

__all__ = [
    "AMPLIFIES",
    "EFFECTS",
    "ComparedStep",
    "ComparedTensor",
    "follow_back",
    "for_runtimes",
    "format_error",
    "format_step",
    "format_versions",
    "largest_error",
    "same_values",
]

EFFECTS = ("origin", "amplifies", "propagates", "hides", "absorbed", "same")
"""The effects of a node on a difference, the most interesting first."""

AMPLIFIES = 10.0
"""A node amplifies if its error is at least this many times its inputs' largest error.

A decimal digit is lost then.
"""


@dataclass(frozen=True, repr=False)
class ComparedTensor:
    """Two corresponding tensors, one of each run.

    Attributes
    ----------
    a, b : str
        Their names.
    by : str
        The evidence that they correspond: ``"structure"``, ``"value"``, ``"form"`` (equal values in
        another order of axes or shape), ``"name"``, ``"output"`` (the same position among the
        models' outputs), or ``"given"``.
    diff : Diff
        Their difference: the accumulated error.
    alone : Diff or None
        The difference between a's tensor and the result of b's node on a's inputs: the isolated
        error. None if that could not be run.
    reason : str
        Why it could not be run.
    steady : bool or None
        Whether b's node gave the same result twice; None if it did not run twice.
    own : tuple of Diff
        Where ``alone`` is over the tolerance: the difference between the recorded result of each
        run and the result of its node in isolation on that run's own tensors. ONNX Runtime can run
        a node differently in a graph than by itself: in float32 where it has no kernel for float16,
        so that nothing is rounded between two such nodes.
    precision : str
        The coarsest float dtype that nodes made on the way to it; empty unless it is
        coarser than its own.
    form : str
        What turns a's tensor into the form of b's: ``"axes 0,2,3,1"``, ``"equal as int64"``; empty
        if nothing has to.
    """

    a: str
    b: str
    by: str
    diff: Diff
    alone: Diff | None = None
    reason: str = ""
    steady: bool | None = None
    own: tuple[Diff, ...] = ()
    precision: str = ""
    form: str = ""

    def __repr__(self) -> str:
        return f"{self.diff.verdict}: {sanitize(self.b, 80)} {summarize(self.diff.worst)}"

    @property
    def introduced(self) -> bool:
        """Tell whether b's node by itself exceeds the tolerance.

        Its error must be much larger than the difference between isolation and b's own run.
        """
        if self.alone is None or self.alone.ok:
            return False
        # ONNX Runtime may run a node differently in the graph than alone: that is no fault of
        # the node.
        offset = max(map(largest_error, self.own), default=0.0)
        return not math.isinf(offset) and largest_error(self.alone) >= AMPLIFIES * offset

    def judged(self, tolerances: Tolerances) -> ComparedTensor:
        """Apply another tolerance.

        Returns
        -------
        ComparedTensor
            The same tensor with a new verdict.
        """
        alone = None if self.alone is None else self.alone._judged(tolerances)
        offsets = tuple(diff._judged(tolerances) for diff in self.own)
        diff = self.diff._judged(tolerances.widened(self.precision))
        return replace(self, diff=diff, alone=alone, own=offsets)


@dataclass(frozen=True, repr=False)
class ComparedStep:
    """A node of b and the corresponding node of a.

    Attributes
    ----------
    name : str
        The name of b's node, or of its first output, and its op.
    op : str
        ``domain::OpType``.
    a : str
        The node of a.
    outputs, inputs : tuple of ComparedTensor
        Its outputs, and the nearest tensors before it that could be compared.
    between : tuple of str
        Nodes of b between these inputs and the node, as after a fusion.
    versions : tuple of (int or None)
        The versions of its op in the two runs; None if the op is not in the registry.
    changes : tuple of str
        How the node of b differs from the node of a: attributes, weights, lines of source.
    source : str
        The line of the user's program that the node comes from, where a trace knows it.
    counts : bool
        Whether its difference reaches a tensor at the end that differs.
    """

    name: str
    op: str
    a: str
    outputs: tuple[ComparedTensor, ...]
    inputs: tuple[ComparedTensor, ...]
    between: tuple[str, ...] = ()
    versions: tuple[int | None, int | None] = (None, None)
    changes: tuple[str, ...] = ()
    source: str = ""
    counts: bool = True

    @property
    def accumulated(self) -> float:
        """Return the largest error of its outputs; infinite if they cannot be compared."""
        return max(largest_error(tensor.diff) for tensor in self.outputs)

    @property
    def isolated(self) -> float | None:
        """Return the largest error that it makes alone on a's inputs; None if it could not run."""
        errors = [
            largest_error(tensor.alone) for tensor in self.outputs if tensor.alone is not None
        ]
        return max(errors, default=None)

    @property
    def inconclusive(self) -> bool:
        """Tell whether isolation exceeds the tolerance but proves nothing.

        The result in isolation then differs as much from the node's own runs.
        """
        if any(tensor.introduced for tensor in self.outputs):
            return False
        return any(tensor.alone is not None and not tensor.alone.ok for tensor in self.outputs)

    @property
    def incoming(self) -> float:
        """Return the largest error of its inputs."""
        return max((largest_error(tensor.diff) for tensor in self.inputs), default=0.0)

    @property
    def amplification(self) -> float | None:
        """Return ``accumulated / incoming``; None if the inputs are equal or infinitely off."""
        if not self.incoming or math.isinf(self.incoming):
            return None
        return self.accumulated / self.incoming

    @property
    def nondeterministic(self) -> bool:
        """Tell whether a second run gave another result: the node is random or has a state."""
        return any(tensor.steady is False for tensor in self.outputs)

    @cached_property
    def verdict(self) -> str:
        """Say how the node changes the difference between the runs.

        - ``origin``: in isolation on the inputs of a, its error is over the tolerance, and
          `AMPLIFIES` times the difference between isolation and each run's own record; or its
          inputs are the same in both runs and its outputs are not,
        - ``amplifies``: its outputs are over the tolerance and its inputs within, or its error is
          `AMPLIFIES` times theirs,
        - ``propagates``: its outputs are over the tolerance as its inputs are,
        - ``hides``: its inputs are over the tolerance and its outputs within,
        - ``absorbed``: its outputs are over the tolerance, but all that is computed from them
          agrees in the end: the two models only get there in different ways,
        - ``same``: inputs and outputs are within the tolerance, or the same to the bit, even if
          it differs in isolation.
        """
        tensors = (*self.inputs, *self.outputs)
        if all(tensor.diff.verdict == "bit-identical" for tensor in tensors):
            # In isolation, the runtime may run it in another dtype or unfused:
            # that is no difference.
            return "same"
        if self.counts and any(tensor.introduced for tensor in self.outputs):
            return "origin"
        # Decide by the tensors over the tolerance before and after the node.
        bad_inputs = not all(tensor.diff.ok for tensor in self.inputs)
        bad_outputs = not all(tensor.diff.ok for tensor in self.outputs)
        if not bad_outputs:
            if bad_inputs:
                return "hides"
            return "same"
        if not self.counts:
            return "absorbed"
        if bad_inputs:
            if (self.amplification or 0.0) >= AMPLIFIES:
                return "amplifies"
            return "propagates"
        # Inputs within the tolerance that grew beyond it: an origin only if they were the same.
        exact = all(same_values(tensor.diff) for tensor in self.inputs)
        not_isolated = any(tensor.alone is None for tensor in self.outputs)
        if exact or not_isolated:
            return "origin"
        return "amplifies"

    @property
    def worst(self) -> ComparedTensor:
        """Return the output with the worst verdict, and among equals with the largest error."""
        return max(
            self.outputs,
            key=lambda tensor: (VERDICTS.index(tensor.diff.verdict), largest_error(tensor.diff)),
        )

    def __repr__(self) -> str:
        return f"{self.verdict}: {format_step(self)}"

    def _to_plain(self) -> dict[str, Any]:
        # The tensors are written separately; a step has only their names.
        outputs = [tensor.b for tensor in self.outputs]
        inputs = [tensor.b for tensor in self.inputs]
        fields = write_fields(replace(self, outputs=(), inputs=()))
        return {**fields, "verdict": self.verdict, "outputs": outputs, "inputs": inputs}


def follow_back(steps: Sequence[ComparedStep], ends: Collection[str]) -> tuple[ComparedStep, ...]:
    """Find the steps that matter: the ones from which only differing tensors lead to an end.

    A difference before tensors that agree is no fault: another way led to the same numbers.
    """
    reached = set(ends)
    followed = []
    for step in reversed(steps):
        counts = any(tensor.b in reached and not tensor.diff.ok for tensor in step.outputs)
        if counts:
            reached.update(tensor.b for tensor in step.inputs)
        followed.append(replace(step, counts=counts))
    return tuple(reversed(followed))


def for_runtimes(tolerances: Tolerances, runtimes: tuple[str, str]) -> Tolerances:
    """Choose the tolerances of two runs.

    By default, they are `SCALED` if the ONNX Runtime levels of optimization differ, or if torch or
    another provider than the CPU's ran. Other kernels add up in another order: elements that cancel
    out are then off by a part of the largest number, not of themselves.
    """
    # The name and version of a runtime come before its level of optimization.
    runtime_a, runtime_b = (runtime.partition(", ")[0] for runtime in runtimes)
    # Two versions of ONNX Runtime should agree to the dtype, at every level.
    is_onnxruntime = runtime_a == runtime_b and runtime_a.startswith("onnxruntime")
    other_kernels = is_onnxruntime and runtimes[0] != runtimes[1]
    # The kernels of torch, or of a provider that the name of a runtime ends with.
    if any(runtime.startswith("torch ") or " with " in runtime for runtime in runtimes):
        other_kernels = True
    return tolerances.or_scaled() if other_kernels else tolerances


def format_step(step: ComparedStep) -> str:
    """Describe a step in one line: the node, its error, and how much of that is its own."""
    parts = [step.name, format_versions(step), format_error(step)]
    if step.nondeterministic:
        parts.append("nondeterministic")
    return "; ".join(filter(None, parts))


def format_versions(step: ComparedStep) -> str:
    """Name the versions of a step's op, if the two runs had different ones."""
    old, new = step.versions
    if old is None or new is None or old == new:
        return ""
    return f"version {old} → {new}"


def format_error(step: ComparedStep) -> str:
    """Describe the error of a step's worst output, its worst element, and the node's own part."""
    worst = step.worst.diff.worst
    facts = [f"{sanitize(step.worst.b, 80)} {summarize(worst)}"]
    if worst.facts is not None and worst.facts.worst:
        element = worst.facts.worst[0]
        facts.append(f"at {format_index(element.index)} a = {element.a}, b = {element.b}")
    if step.isolated is None:
        reason = next((f": {tensor.reason}" for tensor in step.outputs if tensor.reason), "")
        facts.append(f"not run in isolation{reason}")
    elif step.inconclusive:
        facts.append("isolation differs as much from its own runs, which proves nothing")
    elif step.isolated != step.accumulated:
        facts.append(f"in isolation up to {format_number(step.isolated)}")
    return "; ".join(facts)


def same_values(diff: Diff) -> bool:
    """Tell whether two values are equal, even with different bits as -0.0 and 0.0."""
    return diff.verdict in VERDICTS[:2]


def largest_error(diff: Diff) -> float:
    """Return the largest ``|a - b|`` of all parts; infinite for other types, NaN and text."""
    return max(map(largest_difference, diff.parts))
