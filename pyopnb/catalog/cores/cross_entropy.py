"""The cross entropy of labels and logits, and its gradient."""

from __future__ import annotations

import numpy as np

from pyopnb.engine import dtype as find_dtype

__all__ = ["IGNORED", "cross_entropy", "loss_gradient", "output_dtype"]

IGNORED = -1
"""The label that does not count where a node says none."""


def output_dtype(output_type: int, otherwise: np.dtype) -> np.dtype:
    """Return the dtype of a node's ``output_type``, where 0 means the dtype of the scores."""
    return find_dtype(output_type).numpy if output_type else otherwise


def _weights_of(
    labels: np.ndarray, weights: np.ndarray | None, ignored: int, classes: int
) -> tuple[np.ndarray, np.ndarray]:
    """Return a class for each label that exists, and its weight; 0 for labels that are ignored."""
    is_ignored = labels == ignored
    # A label that is ignored may be any number, so that it indexes nothing.
    counted_labels = np.where(is_ignored, 0, labels)
    if counted_labels.size and not 0 <= counted_labels.min() <= counted_labels.max() < classes:
        raise IndexError(f"expected labels from 0 to {classes - 1}, got {labels}")
    if weights is None:
        per_class = np.ones(classes)
    else:
        per_class = weights.astype(np.float64)
    return counted_labels, np.where(is_ignored, 0, per_class[counted_labels])


def cross_entropy(
    scores: np.ndarray,
    labels: np.ndarray,
    weights: np.ndarray | None,
    ignored: int,
    reduction: str,
    dtype: np.dtype,
) -> tuple[np.ndarray, np.ndarray]:
    """Compute the loss and the logarithms of the softmax.

    Parameters
    ----------
    scores : ndarray
        float[N,C,...].
    labels : ndarray
        int[N,...].
    weights : ndarray, optional
        float[C].
    ignored : int
        A label that does not count.
    reduction : {"mean", "sum", "none"}
        A mean is divided by the weights of the labels that count, unless they are 0.
    dtype : dtype
        Of the loss.

    Returns
    -------
    loss, log_probability : ndarray
    """
    # The largest score is subtracted so that no exponential overflows.
    shifted = scores.astype(np.float64)
    shifted = shifted - shifted.max(axis=1, keepdims=True)
    log_probability = shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True))
    counted_labels, weight = _weights_of(labels, weights, ignored, scores.shape[1])
    chosen = np.take_along_axis(log_probability, counted_labels[:, None], axis=1)
    loss = np.asarray(-chosen[:, 0] * weight)
    if reduction == "sum":
        loss = loss.sum()
    elif reduction == "mean":
        loss = loss.sum() / (weight.sum() or 1)
    return np.asarray(loss, dtype), log_probability.astype(scores.dtype)


def loss_gradient(
    gradient: np.ndarray,
    log_probability: np.ndarray,
    labels: np.ndarray,
    weights: np.ndarray | None,
    ignored: int,
    reduction: str,
) -> np.ndarray:
    """Compute the gradient of the scores from the loss gradient, as `cross_entropy` takes them.

    It is float64.
    """
    counted_labels, weight = _weights_of(labels, weights, ignored, log_probability.shape[1])
    slope = np.exp(log_probability.astype(np.float64))
    column = [1] * (labels.ndim - 1)
    classes = np.arange(slope.shape[1])
    classes = classes.reshape(-1, *column)
    is_label = classes == counted_labels[:, None]
    slope = slope - is_label
    slope = slope * weight[:, None]
    if reduction == "mean":
        slope = slope / (weight.sum() or 1)
    incoming = gradient.astype(np.float64)
    if reduction == "none":
        incoming = incoming.reshape(labels.shape)[:, None]
    return slope * incoming
