"""The effect of quantization on one tensor of a float model."""

from __future__ import annotations

from dataclasses import dataclass

from pyopnb.common import sanitize
from pyopnb.diffs.arrays.report import format_number

__all__ = ["QuantizedTensor"]


@dataclass(frozen=True)
class QuantizedTensor:
    """A tensor or weight of a float model, and the effect of quantization on it.

    Attributes
    ----------
    tensor, b : str
        Its name in the float model, and the name of its counterpart in the quantized one.
    weight : bool
        Whether it is a weight.
    sqnr : float or None
        The signal to quantization noise ratio in dB, as `onnxruntime.quantization.qdq_loss_debug`
        computes it between two models; None for all zeros.
    alone : float or None
        The same for the float model's own numbers after this tensor's scale alone, without the
        errors from before; for a weight, its ``sqnr``. None for a tensor without a scale.
    saturated : float or None
        The share of the elements that are outside the scale's range.
    range, scale_range : tuple of (float, float) or None
        The smallest and largest number in the float model, and the ones that the scale can
        represent.
    bits : float or None
        The binary logarithm of the number of levels that are in use.
    rounding : str
        How the node that makes it rounds its own input; empty if it does not.
    """

    tensor: str
    b: str
    weight: bool
    sqnr: float | None
    alone: float | None = None
    saturated: float | None = None
    range: tuple[float, float] | None = None
    scale_range: tuple[float, float] | None = None
    bits: float | None = None
    rounding: str = ""

    def __str__(self) -> str:
        """Describe the effect of quantization on a tensor in one line."""
        noun = ""
        if self.weight:
            noun = "weight "
        text = f"{noun}{sanitize(self.tensor, 80)}: SQNR {format_number(self.sqnr)} dB"
        if self.rounding:
            text += f"; {self.rounding}"
        if self.alone is None:
            return text
        text += f", {format_number(self.alone)} dB by its scale alone"
        if self.saturated:
            text += f", {100 * self.saturated:.3g} % saturated"
        if self.range is not None and self.scale_range is not None:
            low, high = map(format_number, self.range)
            least, most = map(format_number, self.scale_range)
            text += f", {low} … {high} in a scale of {least} … {most}"
        if self.bits is not None:
            text += f", {self.bits:.1f} bits used"
        return text
