"""The difference of two trainings: in the losses of their steps, at their ends, and in weights."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pyopnb.diffs import Diff, DiffBase, fit_lines
from pyopnb.training.record import TrainingRecord

__all__ = ["TrainingDiff"]

# The last loss belongs to a single batch, so the end of a training is the mean of this many.
_LAST = 10


@dataclass(frozen=True, repr=False)
class TrainingDiff(DiffBase):
    """The difference of two trainings, as `pyopnb.diff` finds it.

    Like a `Diff`, it has no truth value.

    Attributes
    ----------
    a, b : TrainingRecord
        The records of the two trainings.
    weights : Diff
        The weights of a against the weights of b.
    """

    _FORMAT = "pyopnb.training-diff"

    a: TrainingRecord
    b: TrainingRecord
    weights: Diff

    @property
    def step(self) -> int | None:
        """Return the first step whose loss differs or that only one of them made, or None."""
        common = min(len(self.a.losses), len(self.b.losses))
        differs = np.array(self.a.losses[:common]) != np.array(self.b.losses[:common])
        if differs.any():
            return int(differs.argmax()) + 1
        if len(self.a.losses) != len(self.b.losses):
            return common + 1
        return None

    @property
    def verdict(self) -> str:
        """``"identical"``: the same losses to the bit, and the same weights; or ``"different"``."""
        if self.step is None and self.weights.verdict == "bit-identical":
            return "identical"
        return "different"

    @property
    def ok(self) -> bool:
        """Tell whether they are identical."""
        return self.verdict == "identical"

    def headline(self) -> list[str]:
        lines = [self._where()]
        if self.a.losses and self.b.losses:
            counts = f"{len(self.a.losses):,} and {len(self.b.losses):,} steps"
            ends = f"{_end(self.a):.4g} → {_end(self.b):.4g}"
            lines.append(f"training loss after {counts}: {ends}")
        if self.a.scores and self.b.scores:
            _, score_a = self.a.scores[-1]
            _, score_b = self.b.scores[-1]
            lines.append(f"validation {self.a.metric}: {score_a:.4g} → {score_b:.4g}")
        return lines

    def _where(self) -> str:
        if self.verdict == "identical":
            return f"identical: {len(self.a.losses):,} steps to the bit"
        if self.step is None:
            return "different: the same losses, and other weights"
        return f"different: the losses differ from step {self.step:,} on, or end there"

    def details(self) -> list[str]:
        """Say what differs beside the numbers: the optimizers, and the weights.

        Returns
        -------
        list of str
            One line for each.
        """
        lines = []
        if self.a.optimizer != self.b.optimizer:
            lines.append(f"optimizer: {self.a.optimizer} → {self.b.optimizer}")
        lines += [f"weights: {line}" for line in self.weights.headline()[:2]]
        return lines

    def __str__(self) -> str:
        return fit_lines([*self.headline(), *self.details()])


def _end(record: TrainingRecord) -> float:
    return float(np.mean(record.losses[-_LAST:]))
