"""Compare what was converted with its original, on inputs that are not kind."""

from pyopnb.testing.verify.rounding import KernelError
from pyopnb.testing.verify.trials import Dims, Trial, draw_trials, mild_trials
from pyopnb.testing.verify.values import Arrays
from pyopnb.testing.verify.verification import Disagreement, Verification, verify

__all__ = ["Arrays", "Dims", "Disagreement", "KernelError", "Trial", "Verification", "draw_trials"]
__all__ += ["mild_trials", "verify"]
