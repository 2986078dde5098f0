"""The numbers of a training, step by step, for its curves and its table."""

from __future__ import annotations

import csv
import io
from dataclasses import dataclass

__all__ = ["TrainingRecord"]


@dataclass(frozen=True)
class TrainingRecord:
    """The measurements at each step of a training.

    Attributes
    ----------
    optimizer : str
        Its repr.
    metric : str
        The name of the metric of ``scores``.
    losses, norms : tuple of float
        For each step the loss of its batch, and the length of the gradient of all weights.
    scores : tuple of (int, float)
        Numbers of steps, and the metric on the validation data after them.
    marks : tuple of (int, str)
        The first step of each redefined op, and the op's version.
    """

    optimizer: str
    metric: str
    losses: tuple[float, ...] = ()
    norms: tuple[float, ...] = ()
    scores: tuple[tuple[int, float], ...] = ()
    marks: tuple[tuple[int, str], ...] = ()

    def means(self, count: int) -> dict[int, float]:
        """Average the losses of ``count`` steps each, by the last of these steps.

        Examples
        --------
        >>> TrainingRecord("SGD()", "loss", (4.0, 2.0, 1.0)).means(2)
        {2: 3.0, 3: 1.0}
        """
        means = {}
        for begin in range(0, len(self.losses), count):
            block = self.losses[begin : begin + count]
            means[begin + len(block)] = sum(block) / len(block)
        return means

    def to_csv(self) -> str:
        """Write a line for each step, with the metric where it was measured.

        Examples
        --------
        >>> record = TrainingRecord("SGD()", "loss", (4.0, 2.0), (1.5, 0.5), ((2, 1.75),))
        >>> print(record.to_csv(), end="")
        step,training_loss,gradient_norm,validation_loss
        1,4.0,1.5,
        2,2.0,0.5,1.75
        """
        scores = dict(self.scores)
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(["step", "training_loss", "gradient_norm", f"validation_{self.metric}"])
        for step, (loss, norm) in enumerate(zip(self.losses, self.norms, strict=True), 1):
            writer.writerow([step, loss, norm, scores.get(step, "")])
        return text.getvalue()
