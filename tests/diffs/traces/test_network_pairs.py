"""Networks and what simplifiers, converters and runtimes make of them, with and without a fault."""

from __future__ import annotations

import itertools
import re
from collections import Counter
from typing import Any

import numpy as np
import pytest
from onnx import ModelProto
from rewrites import NETWORKS, REWRITES, feeds, feeds_of, network, plant, rewritten

import pyopnb

PAIRS = list(itertools.product(NETWORKS, REWRITES))
KINDS = ("weight", "attribute", "order", "dtype")
PLACES = (0.1, 0.5, 0.9)
QUICK: dict[str, Any] = {"check": False, "times": False}
# Each network and each rewriting is among them.
FEW = [pair for number, pair in enumerate(PAIRS) if number % 4 == 1]


def values(model: ModelProto, arrays: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The float tensors of a run that tell more than one number."""
    run = pyopnb.trace(model, arrays, **QUICK)
    return {
        name: value
        for name, value in run.items()
        if name not in arrays and value.dtype.kind == "f" and np.ptp(value) > 0
    }


def same_numbers(x: np.ndarray, y: np.ndarray) -> bool:
    """Tell whether two tensors hold the same numbers in any order."""
    if x.size != y.size:
        return False
    return np.allclose(np.sort(x, None), np.sort(y, None), rtol=0, atol=1e-4 * np.abs(x).max())


def in_form(x: np.ndarray, form: str) -> np.ndarray:
    """Put a tensor into the form that a pair claims, as its text says it."""
    for kind, numbers in re.findall(r"(axes|shape) (\d+(?:,\d+)*)", form):
        order = [int(number) for number in numbers.split(",")]
        x = x.transpose(order) if kind == "axes" else x.reshape(order)
    return x


def holds(tensor: Any, in_a: dict[str, np.ndarray], in_b: dict[str, np.ndarray]) -> bool:
    """Tell whether what a pair claims is true of other runs, element by element."""
    x, y = in_form(in_a[tensor.a], tensor.form), in_b[tensor.b]
    return x.shape == y.shape and np.allclose(x, y, rtol=0, atol=1e-4 * np.abs(x).max())


def agree(name: str, how: str) -> tuple[int, int]:
    """Compare a network with its rewritten form; return the counterparts found and there are."""
    model = network(name)
    other = rewritten(model, how)
    runs = []
    for seed in (0, 1):
        arrays = feeds(model, seed)
        own = feeds_of(how, arrays)
        runs.append((arrays, own, values(model, arrays), values(other, own)))
    arrays, own = runs[0][:2]
    found = pyopnb.diff(pyopnb.trace(model, arrays, **QUICK), pyopnb.trace(other, own, **QUICK))
    assert found.outputs_agree and found.origin is None, str(found)
    searched = pyopnb.first_divergence(model, other, (arrays, own))
    assert searched.ok and searched.origin is None, str(searched)
    # None is wrong: with other feeds, what each pair claims is true again.
    paired = set()
    for tensor in found.tensors:
        for _, _, in_a, in_b in runs:
            if tensor.a in in_a and tensor.b in in_b:
                assert holds(tensor, in_a, in_b), (tensor.a, tensor.b, tensor.form)
                paired.add(tensor.a)
    counterparts = set()
    for x in runs[0][2]:
        for y in runs[0][3]:
            if all(x in a and y in b and same_numbers(a[x], b[y]) for _, _, a, b in runs):
                counterparts.add(x)
    return len(paired), len(counterparts)


def named(name: str, how: str, number: int) -> list[bool]:
    """Plant a fault in the rewritten form; tell whether diff and the search name its node."""
    model = network(name)
    arrays = feeds(model)
    own = feeds_of(how, arrays)
    at, kind = PLACES[number % 3], KINDS[number % 4]
    faulty, node = plant(rewritten(model, how), at, (kind, *KINDS), own)
    found = pyopnb.diff(pyopnb.trace(model, arrays, **QUICK), pyopnb.trace(faulty, own, **QUICK))
    searched = pyopnb.first_divergence(model, faulty, (arrays, own))
    results = []
    for diff in (found, searched):
        assert diff.origin is not None, str(diff)
        segment = (diff.origin.name, *diff.origin.between)
        results.append(any(text.startswith(f"{node} (") for text in segment))
    return results


@pytest.mark.one_python  # long
@pytest.mark.parametrize(("name", "how"), FEW)
def test_a_rewritten_network_is_no_fault(name: str, how: str) -> None:
    found, there = agree(name, how)
    assert found >= 0.9 * there


@pytest.mark.one_python  # long
@pytest.mark.parametrize(("name", "how"), FEW)
def test_a_fault_in_a_rewritten_network_is_named(name: str, how: str) -> None:
    assert all(named(name, how, PAIRS.index((name, how))))


@pytest.mark.everywhere
def test_all_pairs() -> None:
    found = there = 0
    hits: Counter[str] = Counter()
    for number, (name, how) in enumerate(PAIRS):
        counts = agree(name, how)
        found, there = found + counts[0], there + counts[1]
        for shift in range(3):
            results = named(name, how, number + shift)
            hits.update(kind for kind, ok in zip(("diff", "search"), results, strict=True) if ok)
    faults = 3 * len(PAIRS)
    print(f"{len(PAIRS)} pairs: {found} of {there} counterparts, {faults} faults, {dict(hits)}")
    assert found >= 0.9 * there
    assert min(hits["diff"], hits["search"]) >= 0.95 * faults
