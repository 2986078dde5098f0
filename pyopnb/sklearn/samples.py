"""What the estimators inside another one are called with: seen by calling it once, on a copy."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from sklearn.base import is_classifier, is_clusterer, is_outlier_detector, is_regressor

__all__ = ["METHODS", "Sample", "nested", "outputs_of", "plan", "recorded"]

METHODS = ("predict", "predict_proba", "decision_function", "transform")


@dataclass
class Sample:
    """What an estimator was called with first.

    Attributes
    ----------
    x : object
        The first argument.
    methods : list of str
        Every method that others called, each once.
    """

    x: Any
    methods: list[str] = field(default_factory=list)


def plan(estimator: Any) -> list[str]:
    """The methods whose results a converted estimator gives, in skl2onnx's order: labels, and what goes with them."""
    has = [name for name in METHODS if callable(getattr(estimator, name, None))]
    if "predict" not in has:
        return [name for name in has if name == "transform"] or has[:1]
    if is_regressor(estimator):
        return ["predict"]
    if is_clusterer(estimator):
        return [name for name in has if name in ("predict", "transform")]
    if is_classifier(estimator) or is_outlier_detector(estimator) or "predict_proba" in has:
        return has[:2] if has[1:] and has[1] != "transform" else ["predict"]
    return ["predict"]


def outputs_of(estimator: Any, methods: list[str], x: Any) -> list[np.ndarray]:
    """The results of methods as dense arrays; one that is a list of arrays as several.

    What a regressor predicts is a column, as skl2onnx has it.
    """
    results: list[np.ndarray] = []
    for method in methods:
        given = getattr(estimator, method)(x)
        for one in given if isinstance(given, list) and given and hasattr(given[0], "shape") else [given]:
            array = one.toarray() if hasattr(one, "toarray") else np.asarray(one)
            column = method == "predict" and array.ndim == 1 and not _labels(estimator)
            results.append(array[:, None] if column else array)
    return results


def _labels(estimator: Any) -> bool:
    return (
        is_classifier(estimator)
        or is_clusterer(estimator)
        or is_outlier_detector(estimator)
        or hasattr(estimator, "predict_proba")
    )


def nested(estimator: Any) -> Iterator[Any]:
    """Every object with one of `METHODS` inside an estimator, itself first, each once."""
    seen: set[int] = set()
    waiting = [estimator]
    while waiting:
        value = waiting.pop(0)
        if id(value) in seen or isinstance(value, (str, bytes, type, int, float)):
            continue
        seen.add(id(value))
        if isinstance(value, np.ndarray):
            waiting += list(value.flat) if value.dtype == object else []
        elif isinstance(value, dict):
            waiting += list(value.values())
        elif isinstance(value, (list, tuple)):
            waiting += list(value)
        elif hasattr(value, "__dict__") and not callable(value):
            if any(callable(getattr(value, name, None)) for name in METHODS):
                yield value
            waiting += list(vars(value).values())


@contextmanager
def recorded(estimator: Any) -> Iterator[dict[int, Sample]]:
    """Watch the calls of everything inside an estimator, which must be nobody else's.

    Yields
    ------
    dict of int to Sample
        By the ``id`` of an estimator.
    """
    samples: dict[int, Sample] = {}
    watched = [(one, name) for one in nested(estimator) for name in METHODS if callable(getattr(one, name, None))]
    running: set[int] = set()
    for one, name in watched:
        vars(one)[name] = _watched(one, name, getattr(one, name), samples, running)
    try:
        yield samples
    finally:
        for one, name in watched:
            vars(one).pop(name, None)


def _watched(
    owner: Any, name: str, method: Callable[..., Any], samples: dict[int, Sample], running: set[int]
) -> Callable[..., Any]:
    @functools.wraps(method)  # scikit-learn asks some methods for their names
    def call(x: Any, *args: Any, **kwargs: Any) -> Any:
        if id(owner) in running:  # its own methods call one another
            return method(x, *args, **kwargs)
        sample = samples.setdefault(id(owner), Sample(x))
        if name not in sample.methods:
            sample.methods.append(name)
        running.add(id(owner))
        try:
            return method(x, *args, **kwargs)
        finally:
            running.discard(id(owner))

    return call
