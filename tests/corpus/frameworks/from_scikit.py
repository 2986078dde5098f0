"""Models from skl2onnx for scikit-learn estimators, and from onnxmltools for LightGBM."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from entries import entry
from lightgbm import LGBMClassifier, LGBMRegressor
from onnx import ModelProto
from onnxmltools import convert_lightgbm
from onnxmltools.convert.common.data_types import FloatTensorType as LightgbmFloats
from skl2onnx import to_onnx
from skl2onnx.common.data_types import FloatTensorType, Int64TensorType, StringTensorType
from sklearn.calibration import CalibratedClassifierCV
from sklearn.cluster import KMeans
from sklearn.compose import ColumnTransformer
from sklearn.decomposition import PCA, TruncatedSVD
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis, QuadraticDiscriminantAnalysis
from sklearn.ensemble import (
    AdaBoostClassifier,
    BaggingClassifier,
    ExtraTreesRegressor,
    GradientBoostingClassifier,
    GradientBoostingRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
    StackingClassifier,
)
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.impute import SimpleImputer
from sklearn.linear_model import (
    ElasticNet,
    LinearRegression,
    LogisticRegression,
    Perceptron,
    PoissonRegressor,
    SGDClassifier,
)
from sklearn.mixture import GaussianMixture
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier, KNeighborsRegressor
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import (
    KBinsDiscretizer,
    MinMaxScaler,
    Normalizer,
    OneHotEncoder,
    OrdinalEncoder,
    PolynomialFeatures,
    StandardScaler,
)
from sklearn.svm import SVC, SVR, LinearSVC, OneClassSVM
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

Made = tuple[ModelProto, dict[str, Any]]

_RNG = np.random.default_rng(0)
_X = _RNG.standard_normal((120, 4)).astype(np.float32)
_CLASSES = (_X[:, 0] + _X[:, 1] ** 2 > 0.5).astype(np.int64) + (_X[:, 2] > 0.6)
_NUMBERS = (_X @ _RNG.standard_normal(4) + np.sin(_X[:, 0])).astype(np.float32)
_FED = _X[:7]

_CLASSIFIERS = {
    "LogisticRegression": LogisticRegression(),
    "SGDClassifier": SGDClassifier(loss="log_loss", random_state=0),
    "Perceptron": Perceptron(random_state=0),
    "SVC": SVC(probability=True, random_state=0),
    "LinearSVC": LinearSVC(random_state=0),
    "DecisionTreeClassifier": DecisionTreeClassifier(max_depth=4, random_state=0),
    "RandomForestClassifier": RandomForestClassifier(5, max_depth=4, random_state=0),
    "GradientBoostingClassifier": GradientBoostingClassifier(n_estimators=4, random_state=0),
    "AdaBoostClassifier": AdaBoostClassifier(n_estimators=4, random_state=0),
    "BaggingClassifier": BaggingClassifier(DecisionTreeClassifier(max_depth=3), 3, random_state=0),
    "StackingClassifier": StackingClassifier([("a", LogisticRegression()), ("b", GaussianNB())]),
    "CalibratedClassifierCV": CalibratedClassifierCV(LinearSVC(random_state=0), cv=2),
    "KNeighborsClassifier": KNeighborsClassifier(3),
    "GaussianNB": GaussianNB(),
    "MLPClassifier": MLPClassifier((8,), max_iter=30, random_state=0),
    "LinearDiscriminantAnalysis": LinearDiscriminantAnalysis(),
    "QuadraticDiscriminantAnalysis": QuadraticDiscriminantAnalysis(),
}
_REGRESSORS = {
    "LinearRegression": LinearRegression(),
    "ElasticNet": ElasticNet(alpha=0.01),
    "SVR": SVR(),
    "DecisionTreeRegressor": DecisionTreeRegressor(max_depth=4, random_state=0),
    "RandomForestRegressor": RandomForestRegressor(5, max_depth=4, random_state=0),
    "ExtraTreesRegressor": ExtraTreesRegressor(5, max_depth=4, random_state=0),
    "GradientBoostingRegressor": GradientBoostingRegressor(n_estimators=4, random_state=0),
    "KNeighborsRegressor": KNeighborsRegressor(3),
    "GaussianProcessRegressor": GaussianProcessRegressor(),
}
_OTHERS = {
    "KMeans": KMeans(3, n_init=1, random_state=0),
    "PCA": PCA(2),
    "TruncatedSVD": TruncatedSVD(2, random_state=0),
    "GaussianMixture": GaussianMixture(2, random_state=0),
    "OneClassSVM": OneClassSVM(),
    "KBinsDiscretizer": KBinsDiscretizer(
        3, encode="onehot-dense", quantile_method="averaged_inverted_cdf"
    ),
    "scalers": make_pipeline(
        SimpleImputer(), MinMaxScaler(), PolynomialFeatures(2), StandardScaler(), Normalizer()
    ),
}


def _converted(estimator: Any, targets: np.ndarray | None) -> Made:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of few iterations, and of changes to come in scikit-learn
        estimator.fit(_X, targets)
        return to_onnx(estimator, _X[:1]), {"X": _FED}


def _enter(estimators: dict[str, Any], targets: np.ndarray | None) -> None:
    for name, estimator in estimators.items():
        entry(f"sklearn {name}")(lambda estimator=estimator: _converted(estimator, targets))


_enter(_CLASSIFIERS, _CLASSES)
_enter(_REGRESSORS, _NUMBERS)
_enter(_OTHERS, None)


@entry("sklearn PoissonRegressor")
def _poisson() -> Made:
    return _converted(PoissonRegressor(), np.abs(_NUMBERS))


@entry("sklearn LogisticRegression without ZipMap")
def _without_map() -> Made:
    fitted = LogisticRegression().fit(_X, _CLASSES > 0)
    return to_onnx(fitted, _X[:1], options={"zipmap": False}), {"X": _FED}


@entry("sklearn LogisticRegression of texts")
def _texts() -> Made:
    return to_onnx(
        LogisticRegression().fit(_X, np.array(["red", "green", "blue"])[_CLASSES]), _X[:1]
    ), {"X": _FED}


@entry("sklearn ColumnTransformer")
def _columns() -> Made:
    colors = np.array(["red", "green", "blue"], object)[_CLASSES][:, None]
    sizes = (_CLASSES * 2 + 1)[:, None]
    table = np.hstack([_X[:, :2].astype(object), colors, sizes.astype(object)])
    columns = ColumnTransformer(
        [
            ("numbers", StandardScaler(), [0, 1]),
            ("colors", OneHotEncoder(), [2]),
            ("sizes", OrdinalEncoder(), [3]),
        ]
    )
    fitted = make_pipeline(columns, RandomForestClassifier(3, max_depth=3, random_state=0)).fit(
        table, _NUMBERS > 0
    )
    types = [("a", FloatTensorType([None, 1])), ("b", FloatTensorType([None, 1]))]
    types += [("color", StringTensorType([None, 1])), ("size", Int64TensorType([None, 1]))]
    feeds = {"a": _X[:7, :1], "b": _X[:7, 1:2], "color": colors[:7], "size": sizes[:7]}
    return to_onnx(fitted, initial_types=types), feeds


def _lightgbm(make: Callable[..., Any], targets: np.ndarray) -> Made:
    fitted = make(n_estimators=4, num_leaves=5, verbose=-1, n_jobs=1).fit(_X, targets)
    return convert_lightgbm(
        fitted, initial_types=[("X", LightgbmFloats([None, 4]))], target_opset=15
    ), {"X": _FED}


@entry("lightgbm LGBMClassifier")
def _lightgbm_classifier() -> Made:
    return _lightgbm(LGBMClassifier, _CLASSES)


@entry("lightgbm LGBMRegressor")
def _lightgbm_regressor() -> Made:
    return _lightgbm(LGBMRegressor, _NUMBERS)
