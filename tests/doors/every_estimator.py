"""Every estimator of scikit-learn, fitted on suitable data."""

import inspect
import warnings
from functools import cache

import numpy as np
from sklearn.datasets import make_blobs
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeRegressor
from sklearn.utils import all_estimators

__all__ = ["CANNOT", "every", "fitted"]

X, LABELS = make_blobs(60, 4, centers=3, cluster_std=2.0, random_state=0)
X = X.astype(np.float32)
POSITIVE = np.abs(X) + np.float32(0.1)
NUMBERS = POSITIVE @ np.arange(1, 5) + 1
TEXTS = np.array(["a cat sat", "the dog ran far", "a dog sat", "cats and dogs"] * 15)


def _words(text):
    return set(text.split())


CANNOT = {
    "no transform, predict or predict_proba": _words(
        """AgglomerativeClustering DBSCAN HDBSCAN OPTICS SpectralClustering ClassicalMDS MDS
    SpectralBiclustering SpectralCoclustering SpectralEmbedding TSNE EmpiricalCovariance
    GraphicalLasso GraphicalLassoCV KernelDensity LedoitWolf MinCovDet OAS NearestNeighbors
    ShrunkCovariance"""
    ),
    "takes lists, not arrays": {"DictVectorizer", "FeatureHasher"},
    "takes images": {"PatchExtractor"},
}


def _of(*args, **kwargs):
    return args, kwargs


_TWO_SCALERS = [("a", StandardScaler()), ("b", StandardScaler(with_mean=False))]
_TWO_CLASSIFIERS = [("a", LogisticRegression()), ("b", LogisticRegression(C=0.1))]
_TWO_REGRESSORS = [("a", Ridge()), ("b", DecisionTreeRegressor(max_depth=2))]
_FEW_TREES = """RandomForestClassifier RandomForestRegressor ExtraTreesClassifier ExtraTreesRegressor AdaBoostClassifier
    AdaBoostRegressor GradientBoostingClassifier GradientBoostingRegressor IsolationForest"""
_FEW_ROUNDS = "HistGradientBoostingClassifier HistGradientBoostingRegressor"
_FEW_STEPS = "DictionaryLearning MiniBatchDictionaryLearning MiniBatchSparsePCA"
_PROJECTIONS = "GaussianRandomProjection SparseRandomProjection"
# Arguments of the constructors that need some, or that take long by default.
_ARGUMENTS = {
    **dict.fromkeys(_words(_FEW_TREES), _of(n_estimators=10)),
    **dict.fromkeys(_words(_FEW_ROUNDS), _of(max_iter=5, min_samples_leaf=5)),
    **dict.fromkeys(_words(_FEW_STEPS), _of(max_iter=20)),
    **dict.fromkeys(_words(_PROJECTIONS), _of(2, random_state=0)),
    "HashingVectorizer": _of(n_features=64),  # of its own accord it makes a million columns
    "ColumnTransformer": _of([("a", StandardScaler(), [0, 1]), ("b", "passthrough", [2, 3])]),
    "FeatureUnion": _of(_TWO_SCALERS),
    "Pipeline": _of([("a", StandardScaler()), ("b", LogisticRegression())]),
    "StackingClassifier": _of(_TWO_CLASSIFIERS, cv=2),
    "StackingRegressor": _of(_TWO_REGRESSORS, cv=2),
    "VotingClassifier": _of(_TWO_CLASSIFIERS),
    "VotingRegressor": _of(_TWO_REGRESSORS),
    "GridSearchCV": _of(LogisticRegression(), {"C": [0.1, 1]}, cv=2),
    "HalvingGridSearchCV": _of(LogisticRegression(), {"C": [0.1, 1]}, cv=2),
    "RandomizedSearchCV": _of(LogisticRegression(), {"C": [0.1, 1]}, cv=2, n_iter=2),
    "HalvingRandomSearchCV": _of(LogisticRegression(), {"C": [0.1, 1, 2, 3]}, cv=2),
    "SparseCoder": _of(np.eye(4, dtype=np.float32)),
    "NuSVC": _of(nu=0.2),
    "LocalOutlierFactor": _of(novelty=True),
    "TunedThresholdClassifierCV": _of(LogisticRegression(), cv=2),
    "TSNE": _of(max_iter=250, init="random"),
    "MDS": _of(n_init=1, max_iter=5, init="random"),
    "GraphicalLassoCV": _of(alphas=2, cv=2),
    "FrozenEstimator": _of(LogisticRegression().fit(X, LABELS)),
    "SelfTrainingClassifier": _of(LogisticRegression()),
    "FixedThresholdClassifier": _of(LogisticRegression(), threshold=0.3),
    "OneHotEncoder": _of(handle_unknown="ignore"),
    "RandomTreesEmbedding": _of(n_estimators=5),
    "RFECV": _of(LogisticRegression(), cv=2),
    "SequentialFeatureSelector": _of(LogisticRegression(), cv=2),
    "QuantileTransformer": _of(n_quantiles=10),
    "ClassifierChain": _of(LogisticRegression()),
    "RegressorChain": _of(Ridge()),
    "SelectKBest": _of(k=2),
    "Isomap": _of(n_neighbors=20),
    "LocallyLinearEmbedding": _of(n_neighbors=20, random_state=0),
}
_BINARY = {"FixedThresholdClassifier", "TunedThresholdClassifierCV"}
_SEVERAL = _words(
    """ClassifierChain MultiOutputClassifier MultiTaskElasticNet MultiTaskElasticNetCV MultiTaskLasso
    MultiTaskLassoCV MultiOutputRegressor RegressorChain CCA PLSCanonical PLSSVD PLSRegression"""
)
_POSITIVE = _words(
    """ComplementNB MultinomialNB CategoricalNB NMF MiniBatchNMF LatentDirichletAllocation
    AdditiveChi2Sampler SpectralBiclustering SpectralCoclustering SkewedChi2Sampler
    PowerTransformer TfidfTransformer"""
)
_TEXT = {"CountVectorizer", "TfidfVectorizer", "HashingVectorizer"}


@cache
def every():
    """Names and classes, in alphabetical order."""
    return dict(all_estimators())


def fitted(name):
    """A fitted estimator of that name, and what it takes."""
    cls = every()[name]
    x, y = _data(name, cls)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        estimator = _made(name, cls)
        if "random_state" in estimator.get_params():
            estimator.set_params(random_state=0)
        return (estimator.fit(x, y) if y is not None else estimator.fit(x)), x


def _made(name, cls):
    if name in _ARGUMENTS:
        args, kwargs = _ARGUMENTS[name]
        return cls(*args, **kwargs)
    needed = [
        p.name
        for p in inspect.signature(cls).parameters.values()
        if p.default is p.empty and p.kind is not p.VAR_KEYWORD
    ]
    inner = Ridge() if "Regress" in name else LogisticRegression()
    return cls(**dict.fromkeys(needed, inner))


def _data(name, cls):
    if name in _TEXT:
        return TEXTS, None
    if name == "IsotonicRegression":
        return POSITIVE[:, :1], NUMBERS
    if name == "LabelBinarizer" or name == "LabelEncoder":
        return LABELS, None
    if name == "MultiLabelBinarizer":
        return [[int(label)] for label in LABELS], None
    if name == "CategoricalNB":
        return np.floor(POSITIVE).astype(np.int64) % 3, LABELS
    if name == "KernelCenterer":
        return X @ X.T, None
    x = POSITIVE if name in _POSITIVE else X
    kind = getattr(cls, "_estimator_type", None)
    if name in _SEVERAL:
        several = (
            np.stack([LABELS > 0, LABELS > 1], 1).astype(int)
            if "Classif" in name
            else np.stack([NUMBERS, NUMBERS**0.5], 1)
        )
        return x, several
    if name in _BINARY:
        return x, (LABELS > 0).astype(int)
    if ("Regress" in name and "Logistic" not in name) or kind == "regressor" or _is_regressor(cls):
        return x, NUMBERS
    return x, LABELS


def _is_regressor(cls):
    from sklearn.base import RegressorMixin

    return issubclass(cls, RegressorMixin)
