"""Explain the terms of diffs, each in a sentence, folded under a question mark."""

from __future__ import annotations

import html
import re
from collections.abc import Mapping
from types import MappingProxyType

from pyopnb.common import Table

__all__ = ["TERMS", "glossary"]

TERMS: Mapping[str, str] = MappingProxyType(
    {
        "bit-identical": "The same type and the same bits.",
        "value-identical": "Equal except for -0.0 against 0.0 and the bits of NaN.",
        "close": "Every element is within the tolerance.",
        "incomparable": "Types, names or lengths differ, so there are no pairs of elements.",
        "rtol, atol": (
            "The tolerance: an element passes if |a-b| <= atol + rtol * |b|. b is the reference."
        ),
        "stol": "More tolerance: this part of the largest |b| of the array, for every element.",
        "would pass": (
            "The smallest tolerances with which the verdict becomes close, as diff takes them."
        ),
        "worst": (
            "The element with the largest |a-b|; before that, elements of which one is NaN "
            "or infinite."
        ),
        "ULP": (
            "Unit in the last place: how many numbers of the dtype lie between a and b. "
            "Large near 0."
        ),
        "rms": "Root mean square, here of a-b.",
        "cosine": (
            "Cosine of the angle between a and b as vectors: 1 if they have the same direction."
        ),
        "SNR": (
            "Signal-to-noise ratio, 10 log10(sum b² / sum (a-b)²): 20 dB more is one decimal "
            "digit more."
        ),
        "PSNR": "The same with the largest |b| in place of every b.",
        "subnormal": "Nonzero, but so small that the dtype has fewer digits for it.",
        "origin": "A node whose own result differs although it gets the same inputs.",
        "in isolation": (
            "b's node was run alone on a's inputs, so that errors of earlier nodes do not count."
        ),
        "amplifies": (
            "The error of the node's outputs is 10 times the error of its inputs, or leaves the "
            "tolerance."
        ),
        "propagates": (
            "Inputs and outputs are outside the tolerance, and the node adds no error of its own."
        ),
        "hides": "Inputs are outside the tolerance and outputs within.",
        "absorbed": (
            "Outputs are outside the tolerance, but everything computed from them agrees in the "
            "end: the two models get there in different ways."
        ),
        "unaffected": "Inputs and outputs are within the tolerance.",
        "paired by": (
            "Why two tensors are compared: the same computation (structure), equal values, "
            "or the same name."
        ),
        "rewired": "The node reads other tensors.",
        "fused": "Several nodes became one, fewer, or as many others.",
        "split": "One node became several.",
        "folded": "A node's constant result became a weight.",
    }
)
"""Terms and their meanings."""

# Terms that are found by another pattern than their name.
_PATTERNS = {
    "stol": r"\bstol\b",
    "rtol, atol": r"\brtol\b|\batol\b|tolerance",
    "would pass": r"would (just |also )?pass",
}


def glossary(*texts: str) -> str:
    """Explain every term that occurs in some HTML, folded; empty if there is none.

    Examples
    --------
    >>> glossary("cosine 1").count("<tr>"), glossary("12")
    (2, '')
    """
    # Tags and attributes also have words, which the page does not show.
    text = html.unescape(re.sub(r"<[^>]*>", " ", "".join(texts)))
    rows = []
    for term, meaning in TERMS.items():
        if re.search(_PATTERNS.get(term, rf"\b{term}\b"), text):
            rows.append((term, meaning))
    if not rows:
        return ""
    table = Table(("term", "meaning"), rows)._repr_html_()
    return f"<details><summary>what the words mean</summary>{table}</details>"
