"""The numbers of a training, step by step, for its curves and its table."""

from __future__ import annotations

import csv
import io
from dataclasses import dataclass

import numpy as np

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

    def smoothed(self, count: int) -> np.ndarray:
        """Average each loss with the losses before it, ``count`` in all, or as many as there are.

        Examples
        --------
        >>> TrainingRecord("SGD()", "loss", (4.0, 2.0, 0.0)).smoothed(2).tolist()
        [4.0, 3.0, 1.0]
        """
        steps = len(self.losses)
        losses = np.zeros(-(-steps // count) * count)
        losses[:steps] = self.losses
        blocks = losses.reshape(-1, count)
        # A window is the end of one block and the beginning of the next. Differences of sums over
        # all steps would lose small losses beside one huge loss.
        with np.errstate(all="ignore"):
            sums = blocks.cumsum(axis=1).ravel()[:steps]
            ends = blocks[:, ::-1].cumsum(axis=1)[:, ::-1].ravel()
            starts = np.arange(steps) - count + 1
            in_two = (starts > 0) & (starts % count > 0)
            sums[in_two] += ends[starts[in_two]]
            means: np.ndarray = sums / np.minimum(np.arange(1, steps + 1), count)
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
