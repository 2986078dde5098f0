"""``SVMClassifier`` with the probabilities that libsvm, scikit-learn and ONNX Runtime give three classes and more.

Each pair of classes has a probability of its own; Wu, Lin and Weng (2004, "Probability Estimates for Multi-class Classification
by Pairwise Coupling", the second method) say how one distribution over all classes follows. onnx's class multiplies rows where
the method multiplies elements.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

__all__ = ["svm_classifier_class"]


@cache
def svm_classifier_class() -> type:
    """The class for ``new_ops`` of ``onnx.reference.ReferenceEvaluator``, which is slow to import."""
    from onnx.reference.ops.aionnxml.op_svm_classifier import SVMClassifier as Wrong

    class SVMClassifier(Wrong):
        """onnx's, apart from the probabilities."""

        op_domain = "ai.onnx.ml"

        def _probabilities(self, scores: Any, class_count_: int) -> np.ndarray:
            attrs: Any = self._svm.atts
            first, second = np.triu_indices(class_count_, 1)
            above = 1 / (1 + np.exp(scores * np.asarray(attrs.prob_a) + np.asarray(attrs.prob_b)))
            pairs = np.zeros((class_count_, class_count_), scores.dtype)
            pairs[first, second] = above.clip(1e-7, 1 - 1e-7)
            pairs[second, first] = 1 - pairs[first, second]
            return _coupled(pairs)

    return SVMClassifier


def _coupled(pairs: np.ndarray) -> np.ndarray:
    """The distribution over k classes of which ``pairs[i, j]`` is the probability of i among i and j.

    It minimizes a quadratic form, one class after the other, and stops where libsvm stops.
    """
    k = len(pairs)
    form = -pairs.T * pairs
    np.fill_diagonal(form, (pairs**2).sum(axis=0))
    found = np.full(k, 1 / k, pairs.dtype)
    for _ in range(max(100, k)):
        slope = form @ found
        value = found @ slope
        if np.abs(slope - value).max() < 0.005 / k:
            break
        for one in range(k):
            step = (value - slope[one]) / form[one, one]
            value = (value + step * (step * form[one, one] + 2 * slope[one])) / (1 + step) ** 2
            slope = (slope + step * form[one]) / (1 + step)
            found[one] += step
            found /= 1 + step
    return found
