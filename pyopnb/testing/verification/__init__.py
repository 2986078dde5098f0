"""Compare a converted function with its original, on inputs that are hard to convert."""

from pyopnb.testing.verification.comparison import Disagreement, verify
from pyopnb.testing.verification.kernel_error import KernelError
from pyopnb.testing.verification.slopes import GradientComparison
from pyopnb.testing.verification.trials import Trial, draw_trials, mild_trials, row_trials
from pyopnb.testing.verification.values import Arrays

__all__ = [
    "Arrays",
    "Disagreement",
    "GradientComparison",
    "KernelError",
    "Trial",
    "draw_trials",
    "mild_trials",
    "row_trials",
    "verify",
]
