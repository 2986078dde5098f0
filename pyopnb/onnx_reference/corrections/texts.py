"""Operators on texts."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

__all__ = ["string_normalizer"]


def string_normalizer(
    x: np.ndarray,
    *,
    case_change_action: str,
    is_case_sensitive: int,
    stopwords: Sequence[str] = (),
    locale: str = "",
) -> np.ndarray:
    """Leave out stop words, and change the case of the other texts.

    It keeps accents and empty texts. Python changes the case in the same way in each locale.
    """
    dropped = set(stopwords)
    if not is_case_sensitive:
        dropped = {text.lower() for text in dropped}
    kept = []
    for text in x.ravel().tolist():
        if (text if is_case_sensitive else text.lower()) not in dropped:
            kept.append(
                {"LOWER": text.lower(), "UPPER": text.upper()}.get(case_change_action, text)
            )
    return np.array(kept or [""], object).reshape(*[1] * (x.ndim - 1), -1)
