"""Convert by skl2onnx, with ops for the estimators that it does not convert correctly."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Any

import numpy as np
import skl2onnx
from onnx import ModelProto
from sklearn.base import BaseEstimator, is_classifier

from pyopnb.engine import TensorType, dtype, ort_capabilities, protos, registry
from pyopnb.engine import model as build_model
from pyopnb.engine import node as build_node
from pyopnb.sklearn.columns import Columns
from pyopnb.sklearn.comparison import Comparison, shorten
from pyopnb.sklearn.fitted import DOMAIN, define
from pyopnb.sklearn.holes import is_frame, with_holes
from pyopnb.sklearn.inputs import (
    cast_inputs,
    declare_outputs,
    feeds,
    restore_names,
    skl2onnx_inputs,
)
from pyopnb.sklearn.missing_values import mend_missing_values
from pyopnb.sklearn.samples import Sample, nested, plan

__all__ = ["Attempt"]

_OUTPUT_NAMES = {
    "predict": "label",
    "predict_proba": "probabilities",
    "decision_function": "scores",
    "transform": "scores",
}


class Attempt:
    """An estimator, and the common parts of all attempts to convert it.

    Parameters
    ----------
    estimator : estimator
    rows : object
        The example that it is called with.
    comparison : Comparison
        Of the estimator with its model.
    samples : dict of int to Sample
        The calls of the estimators inside, by their ``id``.
    options : dict
        skl2onnx's.
    as_doubles : bool
        Declare every number as a double to skl2onnx.
    verify : bool
        Compare each model with the estimator.
    """

    def __init__(
        self,
        estimator: Any,
        rows: Any,
        comparison: Comparison,
        samples: Mapping[int, Sample],
        options: Mapping[Any, Any],
        *,
        as_doubles: bool = False,
        verify: bool = True,
    ) -> None:
        self._estimator, self._rows, self._comparison = estimator, rows, comparison
        self._samples, self._options, self._as_doubles = samples, options, as_doubles
        self._verify = verify
        self._feeds = feeds(rows)

    def convert(self, reasons: Mapping[int, str]) -> tuple[ModelProto | None, str]:
        """Convert with ops for some estimators.

        Parameters
        ----------
        reasons : dict of int to str
            Why each of them becomes an op, by its ``id``.

        Returns
        -------
        tuple of ModelProto or None, and str
            A model that agrees with scikit-learn, or why there is none.
        """
        parts = {id(part): part for part in nested(self._estimator)}
        holes = {}
        for key, reason in reasons.items():
            holes[key] = parts[key], self._samples[key], reason
        declared = skl2onnx_inputs(self._feeds, as_doubles=self._as_doubles)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                estimator, options = with_holes(self._estimator, holes, self._options)
                model = _call_skl2onnx(estimator, declared, options)
        except Exception as error:
            # The skl2onnx converters fail by any exception.
            return None, f"skl2onnx: {shorten(error)}"
        # skl2onnx imports each domain that it may use, for all ops of the registry.
        used = {site.node.domain for site in protos.walk(model)} | {""}
        imports = [entry for entry in model.opset_import if entry.domain in used]
        del model.opset_import[:]
        model.opset_import.extend(imports)
        restore_names(model, list(self._feeds))
        # skl2onnx declares wider inputs than the rows have, where its converters know no others.
        cast_inputs(model, self._feeds)
        mend_missing_values(model, self._estimator)
        declare_outputs(model)
        # With verify=False skl2onnx is taken at its word.
        if not self._verify:
            return model, ""
        reason = self._comparison.refuse(model)
        return (None, reason) if reason else (model, "")

    def without_failing_parts(self, reasons: Mapping[int, str]) -> tuple[ModelProto | None, str]:
        """Convert with ops for the estimators inside that fail, as few as possible.

        Returns
        -------
        tuple of ModelProto or None, and str
            As for `convert`.
        """
        failing = dict(reasons)
        # The innermost first, as an outer estimator often fails only because of one inside.
        for part in reversed(list(nested(self._estimator))):
            sample = self._samples.get(id(part))
            if sample is None or id(part) in failing or part is self._estimator:
                continue
            # A pipeline fails because of an estimator inside it.
            if not isinstance(part, BaseEstimator) or is_frame(part):
                continue
            try:
                comparison = Comparison(part, plan(part), sample.x)
                attempt = Attempt(
                    part, sample.x, comparison, self._samples, {}, as_doubles=self._as_doubles
                )
            except Exception:  # noqa: S112  # a step that cannot be fed alone is judged with the rest
                continue
            # Each part is converted alone, on the rows that it got inside the whole.
            inner_ids = {id(inner) for inner in nested(part)}
            inner_reasons = {key: reason for key, reason in failing.items() if key in inner_ids}
            _, reason = attempt.convert(inner_reasons)
            if reason:
                failing[id(part)] = reason
        return self.convert(failing)

    def whole(self, reason: str) -> ModelProto:
        """Build a model of one node, which calls the estimator.

        Parameters
        ----------
        reason : str
            Why skl2onnx does not convert it.
        """
        methods = plan(self._estimator)
        names = _output_names(self._estimator, methods, self._comparison.expected)
        types = []
        for array in chain.from_iterable(self._comparison.expected):
            name = "string" if array.dtype.kind in "UTSO" else str(array.dtype)
            types.append(TensorType(dtype(name), ("N", *array.shape[1:])))
        # The number of rows stays open in every input and output.
        op_type = define(self._estimator, methods, types, Columns.of(self._rows), reason)
        inputs = {}
        for name, array in self._feeds.items():
            inputs[name] = TensorType(dtype(array.dtype), ("N", *array.shape[1:]))
        node = build_node(f"{DOMAIN}::{op_type}", list(inputs), names)
        return build_model([node], inputs, dict(zip(names, types, strict=True)))


def _output_names(
    estimator: Any, methods: Sequence[str], expected: Sequence[Sequence[np.ndarray]]
) -> list[str]:
    names = []
    for method, arrays in zip(methods, expected, strict=True):
        name = _OUTPUT_NAMES[method]
        if len(methods) == 1 and not is_classifier(estimator):
            name = "variable"
        if len(arrays) == 1:
            names.append(name)
        else:
            names += [f"{name}_{index}" for index in range(len(arrays))]
    return names


def _call_skl2onnx(
    estimator: Any, inputs: Sequence[tuple[str, Any]], options: Mapping[Any, Any]
) -> ModelProto:
    # Converters that a user has registered may write nodes of any op of the registry.
    opsets = {op.domain: op.current.opset for op in registry if op.domain}
    opsets[""] = min(ort_capabilities.newest_opset(), skl2onnx.__max_supported_opset__)
    opsets |= {"ai.onnx.ml": 3, DOMAIN: 1}

    def convert(chosen: Mapping[Any, Any]) -> ModelProto:
        model: ModelProto = skl2onnx.convert_sklearn(
            estimator, "pyopnb", list(inputs), target_opset=opsets, options=dict(chosen) or None
        )
        return model

    asks_for_zipmap = any("zipmap" in str(option) for option in (*options, *options.values()))
    if not is_classifier(estimator) or asks_for_zipmap:
        return convert(options)
    try:
        return convert({**options, "zipmap": False})
    except NameError:
        # A classifier without probabilities has no such option.
        return convert(options)
