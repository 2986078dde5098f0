"""Compare the outputs of a plain and a traced run, to see whether exposing tensors changed them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from pyopnb.common import plural, sanitize

__all__ = ["Exposure", "exposure_of"]


@dataclass(frozen=True, repr=False)
class Exposure:
    """The differences between the final outputs of an unexposed run and of the exposed one.

    Attributes
    ----------
    differing : dict
        The largest difference of each output that is not bitwise equal, by name; None where there
        is no such number, as with strings, different shapes, or a NaN on one side.
    compared : int
        How many outputs were compared.
    plain : dict
        The differing outputs as the unexposed run gave them, by name.
    """

    differing: dict[str, float | None] = field(default_factory=dict)
    compared: int = 0
    plain: Mapping[str, Any] = field(default_factory=dict, repr=False)

    @property
    def same(self) -> bool:
        """Tell whether all outputs are bitwise equal."""
        return not self.differing

    def __repr__(self) -> str:
        if self.same:
            outputs = plural(self.compared, "output")
            return f"recording the tensors changed no bit of {outputs}"
        listed = []
        for name, difference in self.differing.items():
            text = sanitize(name)
            if difference is not None:
                text += f" (by at most {difference:.3g})"
            listed.append(text)
        shown = ", ".join(listed[:3])
        if len(listed) > 3:
            shown += f" and {len(listed) - 3} more"
        return (
            f"recording the tensors changed {shown}: ONNX Runtime fuses other nodes in a normal run"
            ", or a node gives other results each time"
        )


def exposure_of(plain: Mapping[str, Any], exposed: Mapping[str, Any]) -> Exposure:
    """Compare the outputs of the two runs."""
    differing = {}
    for name, value in plain.items():
        if not _same(value, exposed[name]):
            differing[name] = _largest(value, exposed[name])
    return Exposure(differing, len(plain), {name: plain[name] for name in differing})


def _same(a: Any, b: Any) -> bool:
    """Tell whether two values of an output are the same bit by bit, NaN included."""
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(map(_same, a, b))
    if not isinstance(a, np.ndarray) or not isinstance(b, np.ndarray):
        return type(a) is type(b) and bool(a == b)
    if a.dtype != b.dtype:
        return False
    # Texts are objects, whose bytes are addresses. All others are views, as copies of large outputs
    # would double the memory.
    if a.shape == b.shape and a.dtype.kind != "O":
        a, b = (np.ascontiguousarray(x).reshape(-1).view(np.uint8) for x in (a, b))
    return bool(np.array_equal(a, b))


def _largest(a: Any, b: Any) -> float | None:
    """Find the largest difference of two arrays; None if it is not a number."""
    if not isinstance(a, np.ndarray) or not isinstance(b, np.ndarray):
        return None
    if a.shape != b.shape or a.dtype != b.dtype or a.dtype.kind == "O":
        return None
    # float64 has exact differences where float16 and int8 would overflow.
    with np.errstate(all="ignore"):
        difference = np.abs(a.astype(np.float64) - b.astype(np.float64))
    # Two infinities of one sign, and two NaNs, do not differ.
    difference[(a == b) | ((a != a) & (b != b))] = 0
    largest = float(difference.max(initial=0.0))
    return None if np.isnan(largest) else largest
