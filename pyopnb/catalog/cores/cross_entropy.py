"""The cross entropy of labels and logits, and its gradient."""

from __future__ import annotations

import numpy as np

__all__ = ["cross_entropy", "loss_gradient"]


def _weights_of(
    labels: np.ndarray, weights: np.ndarray | None, ignored: int | None, classes: int
) -> tuple[np.ndarray, np.ndarray]:
    """Return a class for each label that exists, and its weight; 0 for labels that are ignored."""
    if ignored is not None:
        is_ignored = labels == ignored
    else:
        is_ignored = np.zeros(labels.shape, bool)
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
    ignored: int | None,
    reduction: str,
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
    ignored : int, optional
        A label that does not count.
    reduction : {"mean", "sum", "none"}
        A mean is divided by the weights of the labels that count.

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
        loss = loss.sum() / weight.sum()
    return np.asarray(loss, scores.dtype), log_probability.astype(scores.dtype)


def loss_gradient(
    gradient: np.ndarray,
    log_probability: np.ndarray,
    labels: np.ndarray,
    weights: np.ndarray | None,
    ignored: int | None,
    reduction: str,
) -> np.ndarray:
    """Compute the gradient of the scores from that of the loss, as `cross_entropy` takes them."""
    counted_labels, weight = _weights_of(labels, weights, ignored, log_probability.shape[1])
    slope = np.exp(log_probability.astype(np.float64))
    column = [1] * (labels.ndim - 1)
    classes = np.arange(slope.shape[1])
    classes = classes.reshape(-1, *column)
    is_label = classes == counted_labels[:, None]
    slope = slope - is_label
    slope = slope * weight[:, None]
    if reduction == "mean":
        slope = slope / weight.sum()
    incoming = gradient.astype(np.float64)
    if reduction == "none":
        incoming = incoming.reshape(labels.shape)[:, None]
    return (slope * incoming).astype(log_probability.dtype)
