"""A function that differs from its op somewhere only is refused: `lower` looks at each of these places."""

from __future__ import annotations

import re

import numpy as np
import pytest

import pyopnb
from pyopnb.errors import NotLowered
from pyopnb.lowering import verify

X = np.arange(1, 7, dtype=np.float32).reshape(3, 2)
INTEGERS = np.arange(6)


def at(where, value):
    """Return what spoils a result in the elements of an input where a condition holds."""
    return lambda x, y: np.where(where(x), y.dtype.type(value), y)


# A body; an example; what the function gives instead, of its input and right result;
# what the refusal names.
PLACES = {
    "NaN": ("x * 2", X, at(np.isnan, 0), "NaN and infinities"),
    "-inf": ("np.minimum(x, 5)", X, at(np.isneginf, -3e38), "NaN and infinities"),
    "-0.0": ("1 / x", X, at(lambda x: (x == 0) & np.signbit(x), np.inf), "-0.0"),
    "tiny": ("np.log1p(x)", X, lambda x, y: np.log(1 + x), "tiny numbers"),
    "large": ("np.exp(x)", X, lambda x, y: np.exp(x.clip(-18, 18)), "large|hundred|largest"),
    "wrap-around": ("x * 3", INTEGERS, lambda x, y: (x * 3.0).astype(int), "integers"),
    "int8": ("x + x", INTEGERS.astype("i1"), lambda x, y: y.clip(-127), "integer"),
    "no elements": ("x * 2", X, lambda x, y: y if x.size else y.astype(float), "sizes .*0"),
    "one row": ("x - x.mean(0)", X, lambda x, y: y + (len(x) == 1), "sizes .*1"),
    "another size": ("x[-1] * 1", X, lambda x, y: x[min(2, len(x) - 1)], "sizes"),
    "a refilled buffer": ("x * 1", X, lambda x, y: x, "filled again"),
    "memory with gaps": ("x * 2", X, lambda x, y: y + (not x.data.contiguous), "not contiguous"),
}


@pytest.mark.parametrize("place", PLACES)
def test_function_that_is_wrong_in_one_place_only(place, define, monkeypatch):
    body, example, spoilt, named = PLACES[place]
    define(f"@pyopnb.pyop('demo::Op')\nclass Op:\n    def compute(self, x): return {body}")
    pyopnb.lower("demo::Op", example)
    right = verify._runner

    def runner(model, subject):
        run = right(model, subject)

        def wrong(feeds):
            (x,), (y,) = feeds.values(), run(feeds)
            return [np.asarray(spoilt(x, y))]

        return wrong

    monkeypatch.setattr(verify, "_runner", runner)
    with pytest.raises(NotLowered) as refusal:
        pyopnb.lower("demo::Op", example)
    assert re.search(named, str(refusal.value))
