"""Calls of the operators of ai.onnx.ml and of training."""

from __future__ import annotations

import numpy as np
from onnx import helper, numpy_helper

from audit.cases import ABSENT, combined, dtypes_of, floats, generates, integers

F = np.float32
I = np.int64  # noqa: E741
ML = "ai.onnx.ml"

_POST = [ABSENT, "NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT"]


def _texts(*values):
    return np.array(values, object)


@generates("ArrayFeatureExtractor", domain=ML)
def extractor(schema):
    for dtype in dtypes_of(schema):
        yield [floats(3, 4, dtype=dtype), I([0, 2])], {}
    yield [floats(3, 4), I([3])], {}
    yield [floats(5), I([3, 1])], {}
    yield [floats(2, 3, 4), I([[1, 0]])], {}
    yield [_texts("a", "b").reshape(1, 2), I([1])], {}


@generates("Binarizer", domain=ML)
def binarizer(schema):
    for threshold in (ABSENT, 0.5, -1.0):
        yield [F([[-1, 0, 0.5], [0.75, np.nan, np.inf]])], {"threshold": threshold}
    for dtype in dtypes_of(schema):
        yield [floats(3, dtype=dtype)], {"threshold": 1.0}


@generates("CastMap", domain=ML)
def cast_map(schema):
    for cast in (ABSENT, "TO_FLOAT", "TO_INT64", "TO_STRING"):
        for form in (ABSENT, "DENSE", "SPARSE"):
            for x in ({0: 1.5, 1: 2.0, 3: -1.0}, {0: "1", 2: "3"}):
                yield [x], {"cast_to": cast, "map_form": form, "max_map": 5}


@generates("CategoryMapper", domain=ML)
def category_mapper(schema):
    base = {"cats_strings": ["a", "b"], "cats_int64s": [1, 2]}
    for attrs in combined(schema, default_string=[ABSENT, "none"], default_int64=[ABSENT, 9]):
        yield [_texts("a", "c", "b")], {**base, **attrs}
        yield [I([[1, 3], [2, 1]])], {**base, **attrs}


@generates("DictVectorizer", domain=ML)
def dict_vectorizer(schema):
    yield [{"a": 1.0, "c": 2.0}], {"string_vocabulary": ["a", "b", "c"]}
    yield [{1: 1.0, 7: 2.0}], {"int64_vocabulary": [7, 5, 1]}
    yield [{"a": 3}], {"string_vocabulary": ["a", "b", "c"]}


@generates("FeatureVectorizer", domain=ML)
def feature_vectorizer(schema):
    yield [floats(3, 2), floats(3, 4)], {"inputdimensions": [2, 4]}
    yield [floats(3, 2), floats(3, 4)], {"inputdimensions": [1, 2]}
    yield [floats(3, 2), floats(3, 1)], {"inputdimensions": [3, 1]}
    yield [floats(3, 2)], {"inputdimensions": [2]}
    for dtype in dtypes_of(schema):
        yield [floats(3, 2, dtype=dtype), floats(3, 1, dtype=dtype)], {"inputdimensions": [2, 1]}


@generates("Imputer", domain=ML)
def imputer(schema):
    x = F([[1, np.nan, 3], [np.nan, 2, 0]])
    yield [x], {"imputed_value_floats": [1.0, 2.0, 3.0], "replaced_value_float": float("nan")}
    yield [x], {"imputed_value_floats": [9.0], "replaced_value_float": float("nan")}
    yield [x], {"imputed_value_floats": [9.0, 8.0, 7.0], "replaced_value_float": 3.0}
    yield [x], {"imputed_value_floats": [9.0, 8.0, 7.0]}
    yield (
        [I([[1, 0, 3], [0, 2, 5]])],
        {"imputed_value_int64s": [1, 2, 3], "replaced_value_int64": 0},
    )
    yield [I([[1, 0, 3], [0, 2, 5]])], {"imputed_value_int64s": [7], "replaced_value_int64": 3}
    yield [I([[1, 0, 3], [0, 2, 5]])], {"imputed_value_int64s": [7]}


@generates("LabelEncoder", domain=ML)
def label_encoder(schema):
    version = schema.since_version
    if version == 1:
        for attrs in combined(schema, default_string=[ABSENT, "none"], default_int64=[ABSENT, 9]):
            yield [_texts("a", "c", "b")], {"classes_strings": ["a", "b"], **attrs}
            yield [I([[0, 1], [2, -1]])], {"classes_strings": ["a", "b"], **attrs}
        return
    keys = {
        "keys_strings": (["a", "b"], _texts("a", "z", "b")),
        "keys_int64s": ([1, 2], I([[1, 5], [2, 1]])),
        "keys_floats": ([1.5, float("nan")], F([1.5, np.nan, 0])),
    }
    values = {
        "values_strings": (["x", "y"], "default_string", "none"),
        "values_int64s": ([10, 20], "default_int64", 7),
        "values_floats": ([0.5, 2.5], "default_float", 9.5),
    }
    for key, (names, x) in keys.items():
        for value, (targets, default, fallback) in values.items():
            for given in (ABSENT, fallback):
                yield [x], {key: names, value: targets, default: given}
    if version >= 4:
        tensor = numpy_helper.from_array
        yield (
            [np.float64([1.5, 3, 0])],
            {
                "keys_tensor": tensor(np.float64([1.5, 3])),
                "values_tensor": tensor(np.float64([1, 2])),
                "default_tensor": tensor(np.float64([7])),
            },
        )
        yield (
            [_texts("a", "q")],
            {
                "keys_tensor": tensor(_texts("a", "b")),
                "values_tensor": tensor(np.int16([1, 2])),
                "default_tensor": tensor(np.int16([7])),
            },
        )
        yield (
            [I([1, 5])],
            {
                "keys_tensor": tensor(I([1, 2])),
                "values_tensor": tensor(F([1, 2])),
                "default_tensor": tensor(F([7])),
            },
        )
        yield (
            [I([1, 5])],
            {
                "keys_int64s": [1, 2],
                "values_tensor": tensor(np.float64([1, 2])),
                "default_tensor": tensor(np.float64([7])),
            },
        )


@generates("LinearClassifier", domain=ML)
def linear_classifier(schema):
    three = {"coefficients": floats(12).tolist(), "intercepts": floats(3).tolist()}
    binary = {"coefficients": floats(4).tolist(), "intercepts": [0.25]}
    two = {"coefficients": floats(8).tolist(), "intercepts": floats(2).tolist()}
    for post in _POST:
        for multi in (ABSENT, 1):
            for labels in (
                {"classlabels_ints": [5, 7, 9]},
                {"classlabels_strings": ["a", "b", "c"]},
            ):
                yield (
                    [floats(5, 4)],
                    {**three, **labels, "post_transform": post, "multi_class": multi},
                    2,
                )
            for given in (binary, two):
                for labels in ({"classlabels_ints": [5, 7]}, {"classlabels_strings": ["a", "b"]}):
                    yield (
                        [floats(5, 4)],
                        {**given, **labels, "post_transform": post, "multi_class": multi},
                        2,
                    )
    yield [floats(5, 4)], {"coefficients": floats(12).tolist(), "classlabels_ints": [0, 1, 2]}, 2
    for dtype in dtypes_of(schema):
        yield [floats(5, 4, dtype=dtype)], {**three, "classlabels_ints": [0, 1, 2]}, 2


@generates("LinearRegressor", domain=ML)
def linear_regressor(schema):
    for post in _POST:
        yield (
            [floats(5, 4)],
            {"coefficients": floats(4).tolist(), "intercepts": [0.5], "post_transform": post},
        )
        yield (
            [floats(5, 4)],
            {"coefficients": floats(8).tolist(), "targets": 2, "post_transform": post},
        )
        yield (
            [floats(5, 4)],
            {
                "coefficients": floats(8).tolist(),
                "intercepts": [0.5, 1.0],
                "targets": 2,
                "post_transform": post,
            },
        )
    for dtype in dtypes_of(schema):
        yield [floats(5, 4, dtype=dtype)], {"coefficients": floats(4).tolist(), "intercepts": [0.5]}


@generates("Normalizer", domain=ML)
def normalizer(schema):
    for norm in (ABSENT, "MAX", "L1", "L2"):
        for x in (floats(3, 4), floats(5), np.zeros((2, 3), F), F([[-3, 1], [-2, -5]])):
            yield [x], {"norm": norm}
        for dtype in dtypes_of(schema):
            yield [floats(3, 4, dtype=dtype)], {"norm": norm}


@generates("OneHotEncoder", domain=ML)
def one_hot_encoder(schema):
    yield [_texts("a", "c", "b")], {"cats_strings": ["a", "b", "c"]}
    for zeros in (ABSENT, 0, 1):
        yield [I([1, 3, 2])], {"cats_int64s": [1, 2, 3], "zeros": zeros}
        yield [I([[1, 3], [2, 2]])], {"cats_int64s": [1, 2, 3], "zeros": zeros}
    yield [I([1, 9])], {"cats_int64s": [1, 2, 3]}
    yield [I([1, 9])], {"cats_int64s": [1, 2, 3], "zeros": 1}
    yield [_texts("a", "q")], {"cats_strings": ["a", "b"], "zeros": 1}
    for dtype in (F, np.float64, np.int32):
        yield [dtype([1, 2])], {"cats_int64s": [1, 2, 3]}


@generates("Scaler", domain=ML)
def scaler(schema):
    for dtype in dtypes_of(schema):
        yield [floats(3, 2, dtype=dtype)], {"offset": [0.5, 1.0], "scale": [2.0, 0.5]}
    yield [floats(3, 2)], {"offset": [0.5], "scale": [2.0]}
    yield [floats(5)], {"offset": [0.5], "scale": [2.0]}


_KERNELS = {
    "LINEAR": [ABSENT, [0.5, 0.0, 3.0]],
    "POLY": [[0.5, 0.25, 3.0]],
    "RBF": [[0.5, 0.0, 3.0]],
    "SIGMOID": [[0.5, 0.25, 3.0]],
}


@generates("SVMRegressor", domain=ML)
def svm_regressor(schema):
    for kind, parameters in _KERNELS.items():
        for given in parameters:
            for post in _POST:
                for one_class in (ABSENT, 0, 1):
                    yield (
                        [floats(5, 4)],
                        {
                            "coefficients": floats(3).tolist(),
                            "support_vectors": floats(12).tolist(),
                            "n_supports": 3,
                            "rho": [0.25],
                            "kernel_type": kind,
                            "kernel_params": given,
                            "post_transform": post,
                            "one_class": one_class,
                        },
                    )
    yield (
        [floats(5, 4)],
        {
            "coefficients": floats(4).tolist(),
            "rho": [0.25],
            "kernel_type": "LINEAR",
            "kernel_params": [0.5, 0.0, 3.0],
        },
    )
    yield (
        [floats(5, 4)],
        {
            "coefficients": floats(4).tolist(),
            "rho": [0.25],
            "kernel_type": "LINEAR",
            "one_class": 1,
        },
    )


@generates("SVMClassifier", domain=ML)
def svm_classifier(schema):
    for labels in ({"classlabels_ints": [5, 7]}, {"classlabels_strings": ["a", "b"]}):
        for kind, parameters in _KERNELS.items():
            for given in parameters:
                for prob in ({}, {"prob_a": [-1.5], "prob_b": [0.1]}):
                    for post in _POST:
                        yield (
                            [floats(5, 4)],
                            {
                                "coefficients": floats(3).tolist(),
                                "support_vectors": floats(12).tolist(),
                                "vectors_per_class": [1, 2],
                                "rho": [0.25],
                                "kernel_type": kind,
                                "kernel_params": given,
                                "post_transform": post,
                                **labels,
                                **prob,
                            },
                            2,
                        )
    for labels in ({"classlabels_ints": [5, 7, 9]}, {"classlabels_strings": ["a", "b", "c"]}):
        for kind, parameters in _KERNELS.items():
            for prob in ({}, {"prob_a": [-1.5, -1.0, -0.7], "prob_b": [0.1, 0.2, -0.1]}):
                for post in _POST:
                    yield (
                        [floats(5, 4)],
                        {
                            "coefficients": floats(10).tolist(),
                            "support_vectors": floats(20).tolist(),
                            "vectors_per_class": [1, 2, 2],
                            "rho": [0.25, -0.5, 0.1],
                            "kernel_type": kind,
                            "kernel_params": parameters[0],
                            "post_transform": post,
                            **labels,
                            **prob,
                        },
                        2,
                    )
    for post in _POST:
        yield (
            [floats(5, 4)],
            {
                "coefficients": floats(12).tolist(),
                "rho": [0.25, -0.5, 0.1],
                "kernel_type": "LINEAR",
                "classlabels_ints": [0, 1, 2],
                "post_transform": post,
            },
            2,
        )
        yield (
            [floats(5, 4)],
            {
                "coefficients": floats(8).tolist(),
                "rho": [0.25],
                "kernel_type": "LINEAR",
                "classlabels_ints": [0, 1],
                "post_transform": post,
            },
            2,
        )
    for dtype in dtypes_of(schema):
        yield (
            [floats(5, 4, dtype=dtype)],
            {
                "coefficients": floats(3).tolist(),
                "support_vectors": floats(12).tolist(),
                "vectors_per_class": [1, 2],
                "rho": [0.25],
                "kernel_type": "RBF",
                "kernel_params": [0.5, 0.0, 3.0],
                "classlabels_ints": [0, 1],
            },
            2,
        )


# ---- trees -------------------------------------------------------------------------------------


def _trees(mode="BRANCH_LEQ", missing=None):
    """Two trees over four features: three inner nodes and four leaves; one and two."""
    nodes = [
        # tree, node, feature, value, mode, true, false
        (0, 0, 0, 0.25, mode, 1, 2),
        (0, 1, 1, -0.5, mode, 3, 4),
        (0, 2, 2, 0.75, mode, 5, 6),
        *[(0, n, 0, 0.0, "LEAF", 0, 0) for n in (3, 4, 5, 6)],
        (1, 0, 3, 0.0, mode, 1, 2),
        *[(1, n, 0, 0.0, "LEAF", 0, 0) for n in (1, 2)],
    ]
    names = ("treeids", "nodeids", "featureids", "values", "modes", "truenodeids", "falsenodeids")
    attrs = {f"nodes_{name}": [row[place] for row in nodes] for place, name in enumerate(names)}
    if missing is not None:
        attrs["nodes_missing_value_tracks_true"] = [
            missing if row[4] != "LEAF" else 0 for row in nodes
        ]
    return attrs


_LEAVES = [(0, 3), (0, 4), (0, 5), (0, 6), (1, 1), (1, 2)]
_MODES = ["BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ"]


def _tree_input():
    x = floats(6, 4)
    x[0, 0], x[1, 3], x[2, 1] = 0.25, 0.0, -0.5
    return x


def _with_missing():
    x = _tree_input()
    x[0, 0] = x[3, 3] = x[4, 1] = np.nan
    return x


def _weights(prefix, ids, count=1):
    rows = [
        (tree, node, n, 0.5 + 0.7 * place - 1.1 * n)
        for place, (tree, node) in enumerate(_LEAVES)
        for n in range(count)
    ]
    return {
        f"{prefix}_treeids": [row[0] for row in rows],
        f"{prefix}_nodeids": [row[1] for row in rows],
        f"{prefix}_ids": [row[2] for row in rows],
        f"{prefix}_weights": [row[3] for row in rows],
    }


@generates("TreeEnsembleRegressor", domain=ML)
def tree_regressor(schema):
    for mode in _MODES:
        for x in (_tree_input(), _with_missing()):
            for missing in (None, 1):
                yield [x], {**_trees(mode, missing), **_weights("target", 1), "n_targets": 1}
    for aggregate in (ABSENT, "SUM", "AVERAGE", "MIN", "MAX"):
        for post in _POST:
            yield (
                [_tree_input()],
                {
                    **_trees(),
                    **_weights("target", 1),
                    "n_targets": 1,
                    "aggregate_function": aggregate,
                    "post_transform": post,
                },
            )
            yield (
                [_tree_input()],
                {
                    **_trees(),
                    **_weights("target", 2, 2),
                    "n_targets": 2,
                    "aggregate_function": aggregate,
                    "post_transform": post,
                },
            )
        yield (
            [_tree_input()],
            {
                **_trees(),
                **_weights("target", 1),
                "n_targets": 1,
                "aggregate_function": aggregate,
                "base_values": [0.5],
            },
        )
        yield (
            [_tree_input()],
            {
                **_trees(),
                **_weights("target", 2, 2),
                "n_targets": 2,
                "aggregate_function": aggregate,
                "base_values": [0.5, -2.0],
            },
        )
    yield (
        [_tree_input()],
        {**_trees(), **_weights("target", 1), "n_targets": 1, "nodes_hitrates": [1.0] * 10},
    )
    for dtype in dtypes_of(schema):
        yield [_tree_input().astype(dtype)], {**_trees(), **_weights("target", 1), "n_targets": 1}
    if schema.since_version >= 3:
        yield (
            [_tree_input().astype(np.float64)],
            _as_tensors(
                {
                    **_trees(),
                    **_weights("target", 1),
                    "n_targets": 1,
                    "base_values": [0.5],
                    "nodes_hitrates": [1.0] * 10,
                },
                "target",
            ),
        )
    yield [_tree_input()], {**_trees(), **_weights("target", 2, 2), "n_targets": 3}


def _as_tensors(attrs, prefix):
    """The numbers of a tree as tensors of float64."""
    attrs = dict(attrs)
    for name in ("nodes_values", "nodes_hitrates", f"{prefix}_weights", "base_values"):
        if name in attrs:
            attrs[f"{name}_as_tensor"] = numpy_helper.from_array(np.float64(attrs.pop(name)))
    return attrs


@generates("TreeEnsembleClassifier", domain=ML)
def tree_classifier(schema):
    three, two = {"classlabels_int64s": [5, 7, 9]}, {"classlabels_strings": ["a", "b"]}
    for mode in _MODES:
        for x in (_tree_input(), _with_missing()):
            for missing in (None, 1):
                yield [x], {**_trees(mode, missing), **_weights("class", 3, 3), **three}, 2
    for post in _POST:
        yield (
            [_tree_input()],
            {**_trees(), **_weights("class", 3, 3), **three, "post_transform": post},
            2,
        )
        yield (
            [_tree_input()],
            {
                **_trees(),
                **_weights("class", 3, 3),
                "classlabels_strings": ["a", "b", "c"],
                "post_transform": post,
            },
            2,
        )
        yield (
            [_tree_input()],
            {
                **_trees(),
                **_weights("class", 3, 3),
                **three,
                "post_transform": post,
                "base_values": [0.5, -1.0, 2.0],
            },
            2,
        )
        for sign in (1, -1):
            for labels in (two, {"classlabels_int64s": [3, 8]}):
                weights = _weights("class", 1)
                weights["class_weights"] = [sign * (w - 2) for w in weights["class_weights"]]
                yield [_tree_input()], {**_trees(), **weights, **labels, "post_transform": post}, 2
                yield (
                    [_tree_input()],
                    {
                        **_trees(),
                        **weights,
                        **labels,
                        "post_transform": post,
                        "base_values": [0.75],
                    },
                    2,
                )
                yield (
                    [_tree_input()],
                    {
                        **_trees(),
                        **weights,
                        **labels,
                        "post_transform": post,
                        "base_values": [0.75, -0.5],
                    },
                    2,
                )
        positive = _weights("class", 1)
        positive["class_weights"] = [0.1, 0.2, 0.45, 0.3, 0.05, 0.2]
        yield [_tree_input()], {**_trees(), **positive, **two, "post_transform": post}, 2
        yield (
            [_tree_input()],
            {**_trees(), **_weights("class", 2, 2), **two, "post_transform": post},
            2,
        )
    yield (
        [_tree_input()],
        {**_trees(), **_weights("class", 3, 3), **three, "nodes_hitrates": [1.0] * 10},
        2,
    )
    for dtype in dtypes_of(schema):
        yield [_tree_input().astype(dtype)], {**_trees(), **_weights("class", 3, 3), **three}, 2
    if schema.since_version >= 3:
        yield (
            [_tree_input().astype(np.float64)],
            _as_tensors(
                {
                    **_trees(),
                    **_weights("class", 3, 3),
                    **three,
                    "base_values": [0.5, -1.0, 2.0],
                    "nodes_hitrates": [1.0] * 10,
                },
                "class",
            ),
            2,
        )


@generates("TreeEnsemble", domain=ML)
def tree_ensemble(schema):
    tensor = numpy_helper.from_array

    def attrs(dtype=F, modes=(0, 0, 0), targets=1, **more):
        found = {
            "n_targets": targets,
            "tree_roots": [0],
            "nodes_modes": tensor(np.uint8(modes)),
            "nodes_featureids": [0, 1, 2],
            "nodes_splits": tensor(dtype([0.25, -0.5, 0.75])),
            "nodes_truenodeids": [1, 0, 2],
            "nodes_trueleafs": [0, 1, 1],
            "nodes_falsenodeids": [2, 1, 3],
            "nodes_falseleafs": [0, 1, 1],
            "leaf_targetids": [0, 0, targets - 1, targets - 1],
            "leaf_weights": tensor(dtype([0.5, -1.5, 2.5, 0.75])),
        }
        return {**found, **more}

    for dtype in dtypes_of(schema):
        yield [_tree_input().astype(dtype)], attrs(dtype)
    for mode in range(6):
        for x in (_tree_input(), _with_missing()):
            yield [x], attrs(modes=(mode,) * 3)
            yield [x], attrs(modes=(mode,) * 3, nodes_missing_value_tracks_true=[1, 1, 1])
    for aggregate in (ABSENT, 0, 1, 2, 3):
        for post in (ABSENT, 0, 1, 2, 3, 4):
            for targets in (1, 2):
                yield (
                    [_tree_input()],
                    attrs(targets=targets, aggregate_function=aggregate, post_transform=post),
                )
    two = attrs(
        tree_roots=[0, 3],
        nodes_modes=tensor(np.uint8([0, 0, 0, 1])),
        nodes_featureids=[0, 1, 2, 3],
        nodes_splits=tensor(F([0.25, -0.5, 0.75, 0.0])),
        nodes_truenodeids=[1, 0, 2, 4],
        nodes_trueleafs=[0, 1, 1, 1],
        nodes_falsenodeids=[2, 1, 3, 5],
        nodes_falseleafs=[0, 1, 1, 1],
        leaf_targetids=[0] * 6,
        leaf_weights=tensor(F([0.5, -1.5, 2.5, 0.75, 3, -3])),
    )
    for aggregate in (ABSENT, 0, 1, 2, 3):
        yield [_tree_input()], {**two, "aggregate_function": aggregate}
    yield [_tree_input()], attrs(nodes_hitrates=tensor(F([1, 1, 1])))
    members = attrs(modes=(6, 0, 0), membership_values=tensor(F([0.25, 1.0, np.nan])))
    yield [_tree_input()], members
    members = attrs(modes=(6, 6, 0), membership_values=tensor(F([0.25, 1.0, np.nan, -0.5, np.nan])))
    yield [_tree_input()], members


@generates("ZipMap", domain=ML)
def zip_map(schema):
    yield [floats(3, 2)], {"classlabels_strings": ["a", "b"]}
    yield [floats(3, 2)], {"classlabels_int64s": [5, 7]}
    yield [floats(2)], {"classlabels_int64s": [5, 7]}


# ---- training ----------------------------------------------------------------------------------

TRAINING = "ai.onnx.preview.training"


@generates("Adagrad", domain=TRAINING)
def adagrad(schema):
    for attrs in combined(
        schema, norm_coefficient=[ABSENT, 0.1], decay_factor=[ABSENT, 0.2], epsilon=[ABSENT, 0.01]
    ):
        for step in (0, 3):
            yield [F(0.1), I(step), floats(3), floats(3, low=-1), floats(3, low=0)], attrs, 2
            yield (
                [
                    F(0.1),
                    I(step),
                    floats(3),
                    floats(2),
                    floats(3, low=-1),
                    floats(2, low=-1),
                    floats(3, low=0),
                    floats(2, low=0),
                ],
                attrs,
                4,
            )


@generates("Adam", domain=TRAINING)
def adam(schema):
    for attrs in combined(
        schema,
        norm_coefficient=[ABSENT, 0.1],
        norm_coefficient_post=[ABSENT, 0.2],
        epsilon=[ABSENT, 0.01],
        alpha=[ABSENT, 0.5],
        beta=[ABSENT, 0.7],
    ):
        for step in (0, 3):
            yield (
                [
                    F(0.1),
                    I(step),
                    floats(3),
                    floats(3, low=-1),
                    floats(3, low=-3),
                    floats(3, low=0),
                ],
                attrs,
                3,
            )
            yield (
                [
                    F(0.1),
                    I(step),
                    floats(3),
                    floats(2),
                    floats(3, low=-1),
                    floats(2, low=-1),
                    floats(3, low=-3),
                    floats(2, low=-3),
                    floats(3, low=0),
                    floats(2, low=0),
                ],
                attrs,
                6,
            )


@generates("Gradient", domain=TRAINING)
def gradient(schema):
    for zs in (ABSENT, ["w"]):
        yield [floats(3)], {"xs": ["x"], "zs": zs, "y": "z"}


@generates("Momentum", domain=TRAINING)
def momentum(schema):
    for attrs in combined(
        schema,
        norm_coefficient=[0.0, 0.1],
        alpha=[0.9],
        beta=[0.5, 1.0],
        mode=["standard", "nesterov"],
    ):
        for step in (0, 3):
            yield [F(0.1), I(step), floats(3), floats(3, low=-1), floats(3, low=-3)], attrs, 2
            yield (
                [
                    F(0.1),
                    I(step),
                    floats(3),
                    floats(2),
                    floats(3, low=-1),
                    floats(2, low=-1),
                    floats(3, low=-3),
                    floats(2, low=-3),
                ],
                attrs,
                4,
            )


_ = helper, integers
