"""TreeEnsemble, TreeEnsembleClassifier and TreeEnsembleRegressor."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from onnx import numpy_helper

from pyopnb.catalog import sigmoid, wide_dtype

__all__ = ["tree_classifier", "tree_ensemble", "tree_regressor"]

_COMPARISONS: dict[str, Callable[[Any, Any], Any]] = {
    "BRANCH_LEQ": np.less_equal,
    "BRANCH_LT": np.less,
    "BRANCH_GTE": np.greater_equal,
    "BRANCH_GT": np.greater,
    "BRANCH_EQ": np.equal,
    "BRANCH_NEQ": np.not_equal,
    "BRANCH_MEMBER": np.isin,
}
_AGGREGATES = ("AVERAGE", "SUM", "MIN", "MAX")


@dataclass
class _Node:
    """A node of a tree: a question, or a leaf with weights for targets."""

    mode: str
    feature: int
    value: Any
    missing_is_true: bool
    # Tree and number of the nodes that follow.
    yes: tuple[int, int]
    no: tuple[int, int]
    weights: list[tuple[int, float]] = field(default_factory=list)


_Nodes = dict[tuple[int, int], _Node]


def tree_regressor(x: np.ndarray, **attrs: Any) -> np.ndarray:
    """Add up, or otherwise combine, the leaves that the trees reach."""
    nodes = _nodes_of(attrs, "target")
    count = attrs.get("n_targets") or 1 + max(attrs["target_ids"])
    how = attrs.get("aggregate_function", "SUM")
    totals = _aggregate(x, nodes, _roots(attrs), count, how)
    base = _numbers(attrs, "base_values")
    if base:
        totals = totals + np.array(base, totals.dtype)
    return totals.astype(np.float32)


def tree_classifier(x: np.ndarray, **attrs: Any) -> tuple[np.ndarray, np.ndarray]:
    """Return the labels and the scores of all classes.

    ONNX does not say what two classes are where the leaves have weights for only one of them.
    This is what ONNX Runtime does.
    """
    texts = attrs.get("classlabels_strings")
    labels = np.array(texts, object) if texts else np.array(attrs["classlabels_int64s"])
    nodes = _nodes_of(attrs, "class")
    scores = _aggregate(x, nodes, _roots(attrs), len(labels), "SUM")
    base = np.array(_numbers(attrs, "base_values"), scores.dtype)
    transform = attrs.get("post_transform", "NONE")
    single = len(set(attrs["class_ids"])) == 1
    if len(labels) != 2 or not single:
        if base.size:
            scores = scores + base
        return labels[scores.argmax(axis=1)], _transformed(scores, transform)
    total = scores[:, attrs["class_ids"][0]]
    if base.size:
        total = total + base[0]
    is_positive = min(_numbers(attrs, "class_weights")) >= 0
    chosen = (total > (0.5 if is_positive else 0)).astype(int)
    return labels[chosen], _of_two(total, transform, is_positive)


def tree_ensemble(x: np.ndarray, **attrs: Any) -> np.ndarray:
    """Combine the leaves that the trees reach."""
    splits = numpy_helper.to_array(attrs["nodes_splits"])
    members = _members(attrs.get("membership_values"))
    names = list(_COMPARISONS)
    nodes: _Nodes = {}
    for place, mode in enumerate(numpy_helper.to_array(attrs["nodes_modes"]).tolist()):
        is_member = names[mode] == "BRANCH_MEMBER"
        nodes[0, place] = _Node(
            names[mode],
            attrs["nodes_featureids"][place],
            next(members) if is_member else splits[place],
            bool(attrs.get("nodes_missing_value_tracks_true", [0] * len(splits))[place]),
            (attrs["nodes_trueleafs"][place], attrs["nodes_truenodeids"][place]),
            (attrs["nodes_falseleafs"][place], attrs["nodes_falsenodeids"][place]),
        )
    weights = numpy_helper.to_array(attrs["leaf_weights"]).tolist()
    for place, (target, weight) in enumerate(zip(attrs["leaf_targetids"], weights, strict=True)):
        nodes[1, place] = _Node("LEAF", 0, 0, False, (1, place), (1, place), [(target, weight)])
    roots = [(0, root) for root in attrs["tree_roots"]]
    count = attrs.get("n_targets") or 1 + max(attrs["leaf_targetids"])
    how = _AGGREGATES[attrs.get("aggregate_function", 1)]
    return _aggregate(x, nodes, roots, count, how).astype(x.dtype)


def _members(values: Any) -> Any:
    """Yield the sets of values, each of which ends in a NaN."""
    items: list[float] = []
    for value in [] if values is None else numpy_helper.to_array(values).tolist():
        if value == value:
            items.append(value)
        else:
            yield items
            items = []


# ---- the trees of the first versions -----------------------------------------------------------


def _numbers(attrs: dict[str, Any], name: str) -> list[float]:
    """Return an attr that is a list, or from version 3 on a tensor."""
    tensor = attrs.get(f"{name}_as_tensor")
    if tensor is not None:
        values: list[float] = numpy_helper.to_array(tensor).tolist()
        return values
    return list(attrs.get(name, []))


def _roots(attrs: dict[str, Any]) -> list[tuple[int, int]]:
    """Return the first node of each tree, to which no other node leads."""
    roots: dict[int, tuple[int, int]] = {}
    for key in zip(attrs["nodes_treeids"], attrs["nodes_nodeids"], strict=True):
        roots.setdefault(key[0], key)
    return list(roots.values())


def _nodes_of(attrs: dict[str, Any], prefix: str) -> _Nodes:
    trees, values = attrs["nodes_treeids"], _numbers(attrs, "nodes_values")
    missing = attrs.get("nodes_missing_value_tracks_true") or [0] * len(trees)
    nodes: _Nodes = {}
    for place, tree in enumerate(trees):
        nodes[tree, attrs["nodes_nodeids"][place]] = _Node(
            attrs["nodes_modes"][place],
            attrs["nodes_featureids"][place],
            values[place],
            bool(missing[place]),
            (tree, attrs["nodes_truenodeids"][place]),
            (tree, attrs["nodes_falsenodeids"][place]),
        )
    keys = zip(attrs[f"{prefix}_treeids"], attrs[f"{prefix}_nodeids"], strict=True)
    weights = _numbers(attrs, f"{prefix}_weights")
    for key, target, weight in zip(keys, attrs[f"{prefix}_ids"], weights, strict=True):
        nodes[key].weights.append((target, weight))
    return nodes


def _aggregate(
    x: np.ndarray, nodes: _Nodes, roots: Sequence[tuple[int, int]], count: int, how: str
) -> np.ndarray:
    """Return the combined weights of the leaves."""
    totals = np.zeros((len(x), count), wide_dtype(x.dtype))
    has_score = np.zeros((len(x), count), bool)
    combine: Callable[[Any, Any], Any] = {"MIN": np.minimum, "MAX": np.maximum}.get(how, np.add)
    for row, features in enumerate(x.reshape(len(x), -1)):
        for root in roots:
            for target, weight in _leaf(features, nodes, root).weights:
                if has_score[row, target]:
                    weight = combine(totals[row, target], weight)
                totals[row, target] = weight
                has_score[row, target] = True
    if how == "AVERAGE":
        totals /= len(roots)
    return totals


def _leaf(features: np.ndarray, nodes: _Nodes, key: tuple[int, int]) -> _Node:
    node = nodes[key]
    while node.mode != "LEAF":
        value = features[node.feature]
        is_true = bool(_COMPARISONS[node.mode](value, node.value))
        is_true |= node.missing_is_true and bool(value != value)
        node = nodes[node.yes if is_true else node.no]
    return node


# ---- scores ------------------------------------------------------------------------------------


def _of_two(total: np.ndarray, transform: str, is_positive: bool) -> np.ndarray:
    """Return the scores of two classes if the trees know only one."""
    if transform == "LOGISTIC":
        scores = np.stack([sigmoid(-total), sigmoid(total)], axis=1)
    elif is_positive:
        scores = np.stack([1 - total, total], axis=1)
    else:
        scores = np.stack([-total, total], axis=1)
    return scores.astype(np.float32)


def _transformed(scores: np.ndarray, transform: str) -> np.ndarray:
    if transform == "LOGISTIC":
        scores = sigmoid(scores)
    elif transform.startswith("SOFTMAX"):
        shares = np.exp(scores - scores.max(axis=1, keepdims=True))
        if transform == "SOFTMAX_ZERO":
            # A score of 0 stays 0.
            shares = np.where(np.abs(scores) > 1e-7, shares, 0)
        scores = shares / shares.sum(axis=1, keepdims=True)
    return scores.astype(np.float32)
