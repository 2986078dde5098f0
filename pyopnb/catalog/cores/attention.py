"""Attention of heads, in float32."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from pyopnb.catalog.cores.precision import widen

__all__ = ["attend_heads", "attend_packed", "causal_window", "find_slots", "softmax", "split_heads"]


def split_heads(rows: np.ndarray, heads: int) -> np.ndarray:
    """Convert float[T,H·D] to float[H,T,D]."""
    result = rows.reshape(len(rows), heads, -1)
    return result.swapaxes(0, 1)


def softmax(scores: np.ndarray, sink: np.ndarray | None = None) -> np.ndarray:
    """Compute the softmax over the last axis.

    Parameters
    ----------
    scores : ndarray
        float[...,T]; -inf where masked.
    sink : ndarray, optional
        float[...,1], logits that take part in the sum and have no result.

    Returns
    -------
    ndarray
        0 in rows where all is masked.
    """
    highest = scores.max(axis=-1, keepdims=True, initial=-np.inf)
    if sink is not None:
        highest = np.maximum(highest, sink)
    # A row without any score that counts would subtract infinities.
    highest = np.where(np.isfinite(highest), highest, 0)
    exponentials = np.exp(scores - highest)
    total = exponentials.sum(axis=-1, keepdims=True)
    if sink is not None:
        total = total + np.exp(sink - highest)
    return exponentials / np.where(total > 0, total, 1)


def attend_heads(
    query: np.ndarray,
    key: np.ndarray,
    value: np.ndarray,
    *,
    scale: float = 0.0,
    bias: np.ndarray | None = None,
    is_visible: np.ndarray | None = None,
    softcap: float = 0.0,
    sink: np.ndarray | None = None,
) -> np.ndarray:
    """Attend with each head of a sequence.

    Parameters
    ----------
    query, key, value : ndarray
        float32[H,S,D], [H,T,D] and [H,T,V].
    scale : float
        0 means 1 / √D.
    bias : ndarray, optional
        Is added to scores; broadcasts to [H,S,T].
    is_visible : ndarray, optional
        bool, broadcasts to [H,S,T]; False where a query does not see a key.
    softcap : float
        Scores go through softcap · tanh(score / softcap) if it is not 0.
    sink : ndarray, optional
        float32[H], as `softmax` takes it.

    Returns
    -------
    ndarray
        float32[S,H·V].
    """
    scores = query @ key.swapaxes(1, 2)
    # The scale is applied before a cap, as the kernels do.
    scores = scores * (scale or query.shape[-1] ** -0.5)
    if softcap:
        scores = softcap * np.tanh(scores / softcap)
    if bias is not None:
        scores = scores + bias
    if is_visible is not None:
        scores = np.where(is_visible, scores, -np.inf)
    if sink is None:
        logits = None
    else:
        logits = sink[:, None, None]
    # Heads are side by side in the result.
    attended = softmax(scores, logits) @ value
    return attended.swapaxes(0, 1).reshape(query.shape[1], -1)


def attend_packed(
    heads: Sequence[np.ndarray],
    begins: np.ndarray,
    attention_bias: np.ndarray | None,
    scale: float,
) -> np.ndarray:
    """Attend inside each sentence of a batch without padding.

    Parameters
    ----------
    heads : sequence of ndarray
        Queries, keys and values, float32[H,T,D].
    begins : ndarray
        int[B+1], the first token of each sentence, and their number.
    attention_bias : ndarray, optional
        float[B or 1,H or 1,S,S], of the padded length.
    scale : float
        As `attend_heads` takes it.

    Returns
    -------
    ndarray
        float32[T,H·D].
    """
    tokens = heads[0].shape[1]
    shape = (tokens, len(heads[2]) * heads[2].shape[2])
    attended = np.empty(shape, np.float32)
    for sentence, (start, end) in enumerate(pairwise(begins)):
        bias = None
        if attention_bias is not None:
            # One image of the bias may serve all sentences.
            if len(attention_bias) > 1:
                number = sentence
            else:
                number = 0
            bias = widen(attention_bias[number])[:, : end - start, : end - start]
        parts = [part[:, start:end] for part in heads]
        attended[start:end] = attend_heads(*parts, scale=scale, bias=bias)
    return attended


def causal_window(
    positions: np.ndarray, keys: int, *, is_causal: bool = True, window: int = -1
) -> np.ndarray:
    """Tell which of the first keys the queries at some positions see, bool[S,T].

    Parameters
    ----------
    positions : ndarray
        int[S].
    is_causal : bool
        Whether a query sees no key after its own position.
    window : int
        How many keys up to its own a query sees; all of them if it is not positive.
    """
    distance = positions[:, None] - np.arange(keys)
    is_visible = np.ones(distance.shape, bool)
    if is_causal:
        is_visible &= distance >= 0
    if window > 0:
        is_visible &= distance < window
    return is_visible


def find_slots(blocks: np.ndarray, block_size: int, length: int) -> np.ndarray:
    """Return the slot of each position of a sequence in a cache of blocks.

    The slot is negative where a position has no block.
    """
    positions = np.arange(length)
    firsts = blocks[positions // block_size].astype(np.int64) * block_size
    return firsts + positions % block_size
