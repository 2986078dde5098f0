"""Times of nodes: what ONNX Runtime's profile says of each, and what was measured in Python."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["NodeTime"]


@dataclass(frozen=True)
class NodeTime:
    """How long a node took, in microseconds; medians where there were several runs.

    Attributes
    ----------
    node : str
        The node's name, or that of its first output.
    op_type : str
    total : float
        What ONNX Runtime measured; it counts whole microseconds.
    python : float or None
        Of an op: the time in ``compute``. None for other nodes.
    runs : int
        How many runs were timed.
    """

    node: str
    op_type: str
    total: float
    python: float | None = None
    runs: int = 1

    @property
    def crossing(self) -> float | None:
        """Of an op: the time between ONNX Runtime and ``compute``, and the checks on what it gave; None for other nodes."""
        return None if self.python is None else max(0.0, self.total - self.python)

    def __str__(self) -> str:
        split = "" if self.python is None else f" ({self.python:.0f} in Python)"
        return f"{self.total:.0f} µs{split}"
