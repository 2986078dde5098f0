"""Compare a converted function with its original, on inputs that are hard to convert."""

from pyopnb.testing.verification.comparison import Disagreement, verify
from pyopnb.testing.verification.kernel_error import KernelError
from pyopnb.testing.verification.slopes import GradientComparison
from pyopnb.testing.verification.trials import (
    Trial,
    draw_trials,
    mild_trials,
    number_trial,
    row_trials,
)

__all__ = [
    "Disagreement",
    "GradientComparison",
    "KernelError",
    "Trial",
    "draw_trials",
    "mild_trials",
    "number_trial",
    "row_trials",
    "verify",
]
