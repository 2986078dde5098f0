"""Find the arguments of the estimators inside another one, by one call of a copy."""

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
    """The first call of an estimator.

    Attributes
    ----------
    x : object
        The rows.
    methods : list of str
        Every method that others called, each once.
    """

    x: Any
    methods: list[str] = field(default_factory=list)


def plan(estimator: Any) -> list[str]:
    """List the methods whose results a converted estimator gives, in the skl2onnx order."""
    methods = [name for name in METHODS if callable(getattr(estimator, name, None))]
    if "predict" not in methods:
        return ["transform"] if "transform" in methods else methods[:1]
    # A regressor may also have transform, which skl2onnx does not write beside predict.
    if is_regressor(estimator):
        return ["predict"]
    if is_clusterer(estimator):
        return [name for name in methods if name in ("predict", "transform")]
    gives_scores = is_classifier(estimator) or is_outlier_detector(estimator)
    if not gives_scores and "predict_proba" not in methods:
        return ["predict"]
    return [name for name in methods[:2] if name != "transform"]


def outputs_of(estimator: Any, methods: list[str], x: Any) -> list[np.ndarray]:
    """Return the results of methods as dense arrays, a list of arrays as several.

    The prediction of a regressor becomes a column, as in skl2onnx.
    """
    results: list[np.ndarray] = []
    for method in methods:
        returned = getattr(estimator, method)(x)
        is_list = isinstance(returned, list) and returned and hasattr(returned[0], "shape")
        for result in returned if is_list else [returned]:
            array = result.toarray() if hasattr(result, "toarray") else np.asarray(result)
            if method == "predict" and array.ndim == 1 and not _predicts_labels(estimator):
                array = array[:, None]
            results.append(array)
    return results


def _predicts_labels(estimator: Any) -> bool:
    return (
        is_classifier(estimator)
        or is_clusterer(estimator)
        or is_outlier_detector(estimator)
        or hasattr(estimator, "predict_proba")
    )


def nested(estimator: Any) -> Iterator[Any]:
    """Walk over every object with one of `METHODS` inside an estimator, itself first."""
    seen: set[int] = set()
    waiting = [estimator]
    while waiting:
        value = waiting.pop(0)
        if id(value) in seen:
            continue
        seen.add(id(value))
        if isinstance(value, dict):
            waiting += value.values()
        elif isinstance(value, (list, tuple)):
            waiting += value
        # GradientBoosting keeps its trees in an array of objects.
        elif isinstance(value, np.ndarray) and value.dtype == object:
            waiting += value.flat
        elif hasattr(value, "__dict__") and not callable(value):
            if any(callable(getattr(value, name, None)) for name in METHODS):
                yield value
            waiting += vars(value).values()


@contextmanager
def recorded(estimator: Any) -> Iterator[dict[int, Sample]]:
    """Record the calls of everything inside an estimator, which must not be used elsewhere.

    Yields
    ------
    dict of int to Sample
        By the ``id`` of an estimator.
    """
    samples: dict[int, Sample] = {}
    running: set[int] = set()
    parts = list(nested(estimator))
    # An attribute of the object hides the method of its class.
    for part in parts:
        for name in METHODS:
            method = getattr(part, name, None)
            if callable(method):
                vars(part)[name] = _watched(part, name, method, samples, running)
    try:
        yield samples
    finally:
        for part in parts:
            for name in METHODS:
                vars(part).pop(name, None)


def _watched(
    owner: Any,
    name: str,
    method: Callable[..., Any],
    samples: dict[int, Sample],
    running: set[int],
) -> Callable[..., Any]:
    # scikit-learn asks some methods for their names.
    @functools.wraps(method)
    def call(*args: Any, **kwargs: Any) -> Any:
        # An estimator's methods call one another, and by keyword if they like: predict_proba(X=X).
        if id(owner) in running or not (args or kwargs):
            return method(*args, **kwargs)
        rows = args[0] if args else kwargs.get("X", next(iter(kwargs.values())))
        # The first call decides which rows; later ones only add methods.
        sample = samples.setdefault(id(owner), Sample(rows))
        if name not in sample.methods:
            sample.methods.append(name)
        running.add(id(owner))
        try:
            return method(*args, **kwargs)
        finally:
            running.discard(id(owner))

    return call
