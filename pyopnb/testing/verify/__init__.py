"""Compare a converted function with its original, on inputs that are hard to convert."""

from pyopnb.testing.verify.rounding import KernelError
from pyopnb.testing.verify.trials import Trial, draw_trials, mild_trials
from pyopnb.testing.verify.values import Arrays
from pyopnb.testing.verify.verification import Disagreement, verify

__all__ = ["Arrays", "Disagreement", "KernelError", "Trial", "draw_trials", "mild_trials", "verify"]
