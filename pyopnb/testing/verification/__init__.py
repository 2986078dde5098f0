"""Compare a converted function with its original, on inputs that are hard to convert."""

from pyopnb.testing.verification.comparison import Disagreement, verify
from pyopnb.testing.verification.rounding import KernelError
from pyopnb.testing.verification.slopes import GradientComparison, WrongGradient
from pyopnb.testing.verification.trials import Trial, draw_trials, mild_trials
from pyopnb.testing.verification.values import Arrays

__all__ = [
    "Arrays",
    "Disagreement",
    "GradientComparison",
    "KernelError",
    "Trial",
    "WrongGradient",
    "draw_trials",
    "mild_trials",
    "verify",
]
