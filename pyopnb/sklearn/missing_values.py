"""Send NaN down the branch of a decision tree that scikit-learn takes.

skl2onnx (up to 1.20) writes for every node of a decision tree or forest that NaN goes to the right.
scikit-learn decides it for each node in fit, also where fit saw no NaN. The version of skl2onnx
that writes `missing_go_to_left` ends this file.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import Any

import numpy as np
from onnx import ModelProto, NodeProto

from pyopnb.sklearn.samples import nested

__all__ = ["limit_thresholds", "mend_missing_values"]

_ENSEMBLES = ("TreeEnsembleClassifier", "TreeEnsembleRegressor")
_Shape = tuple[tuple[int, int], ...]
"""The node and the feature of each branch of a tree, which tell a forest's trees apart."""


def limit_thresholds(estimator: Any) -> None:
    """Give finite thresholds to splits that separate NaN from all numbers.

    skl2onnx (up to 1.20) never returns from the infinite ones of scikit-learn for rows of float64.
    """
    for part in nested(estimator):
        thresholds = getattr(getattr(part, "tree_", None), "threshold", None)
        if isinstance(thresholds, np.ndarray):
            thresholds[np.isposinf(thresholds)] = np.finfo(np.float32).max


def mend_missing_values(model: ModelProto, estimator: Any) -> None:
    """Write into the trees of a model which branch NaN takes in the estimator's trees."""
    trees: dict[_Shape, list[np.ndarray]] = defaultdict(list)
    for part in nested(estimator):
        # Forests and boosted ensembles hold decision trees.
        tree: Any = getattr(part, "tree_", None)
        if hasattr(tree, "missing_go_to_left"):
            trees[_shape_of(tree)].append(tree.missing_go_to_left)
    for node in model.graph.node:
        if node.op_type in _ENSEMBLES:
            _mend_ensemble(node, trees)


def _shape_of(tree: Any) -> _Shape:
    branches = np.flatnonzero(tree.children_left >= 0)
    return tuple((int(index), int(tree.feature[index])) for index in branches)


def _mend_ensemble(node: NodeProto, fitted: Mapping[_Shape, list[np.ndarray]]) -> None:
    attributes = {attribute.name: attribute for attribute in node.attribute}
    flags = attributes.get("nodes_missing_value_tracks_true")
    # A skl2onnx that writes the flags needs no help.
    if flags is None or any(flags.ints):
        return
    numbers = attributes["nodes_nodeids"].ints
    features = attributes["nodes_featureids"].ints
    modes = attributes["nodes_modes"].strings
    branches: dict[int, list[int]] = defaultdict(list)
    for position, tree in enumerate(attributes["nodes_treeids"].ints):
        if modes[position] != b"LEAF":
            branches[tree].append(position)
    for positions in branches.values():
        shape = tuple(sorted((numbers[position], features[position]) for position in positions))
        candidates = fitted.get(shape)
        if not candidates:
            continue
        # Trees of one shape are written in the order of the estimators.
        to_left = candidates.pop(0)
        candidates.append(to_left)
        for position in positions:
            flags.ints[position] = int(to_left[numbers[position]])
