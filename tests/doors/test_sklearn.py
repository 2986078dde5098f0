"""`pyopnb.sklearn`: every estimator of scikit-learn, and what pipelines are made of."""

import datetime
import decimal
import doctest
import pathlib
import subprocess
import sys
import textwrap
import warnings
from contextlib import contextmanager

import every_estimator
import numpy as np
import pandas as pd
import pytest
import scipy.sparse
from line_interrupts import lines_that_leave_held
from onnx import TensorProto, numpy_helper
from skl2onnx import convert_sklearn
from skl2onnx._supported_operators import sklearn_operator_name_map
from skl2onnx.algebra.onnx_ops import OnnxAdd, OnnxMin, OnnxReduceMax, OnnxSub
from skl2onnx.common.data_types import FloatTensorType
from skl2onnx.common.utils import check_input_and_output_numbers
from sklearn.base import BaseEstimator, ClassifierMixin, TransformerMixin
from sklearn.calibration import CalibratedClassifierCV
from sklearn.cluster import Birch, BisectingKMeans, FeatureAgglomeration
from sklearn.compose import ColumnTransformer
from sklearn.datasets import load_diabetes
from sklearn.decomposition import NMF, FastICA
from sklearn.ensemble import (
    BaggingClassifier,
    RandomForestClassifier,
    RandomForestRegressor,
    StackingClassifier,
    StackingRegressor,
)
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.kernel_approximation import Nystroem, RBFSampler
from sklearn.linear_model import LogisticRegression, RidgeCV
from sklearn.model_selection import GridSearchCV
from sklearn.multioutput import MultiOutputClassifier
from sklearn.neighbors import NearestCentroid
from sklearn.pipeline import make_pipeline, make_union
from sklearn.preprocessing import (
    FunctionTransformer,
    MinMaxScaler,
    Normalizer,
    OneHotEncoder,
    PolynomialFeatures,
    PowerTransformer,
    StandardScaler,
)
from sklearn.semi_supervised import LabelPropagation
from sklearn.tree import DecisionTreeClassifier

import pyopnb
import pyopnb.sklearn as door
from pyopnb.sklearn import conversion, fitted, stored
from pyopnb.sklearn.samples import outputs_of, plan

pytestmark = pytest.mark.filterwarnings("ignore::pyopnb.sklearn.RunsInPython")

X, LABELS = every_estimator.X, every_estimator.LABELS
FEW = (X[:, 0] > 0).astype(int)


@pytest.fixture(autouse=True)
def no_other_ops():
    pyopnb.registry.clear()
    yield
    pyopnb.registry.clear()


def run(model, x):
    return pyopnb.Session(model).run(None, door.feeds(x))


def assert_agrees(model, estimator, x):
    """Labels exactly, numbers to 1e-5."""
    results = []
    for result in run(model, x):
        results += result if isinstance(result, list) else [result]
    expected = [outputs_of(estimator, [method], x) for method in plan(estimator)]
    wants = [array for arrays in expected for array in arrays]
    if len(wants) != len(results):
        wants = [arrays[0] if len(arrays) == 1 else np.stack(arrays) for arrays in expected]
    assert results
    for result, want in zip(results, wants, strict=False):
        if want.ndim == 1 and result.shape[1:] == (2,) and want.dtype.kind == "f":
            result = result[:, 1]
        result = result.reshape(want.shape)
        if want.dtype.kind == "f":
            np.testing.assert_allclose(result, want, rtol=1e-5, atol=1e-5)
        else:
            np.testing.assert_array_equal(result, want)
    return results


def filled(model):
    return sorted(type(one.estimator).__name__ for one in door.filled(model))


CANNOT = set().union(*every_estimator.CANNOT.values())
REASONS = {}


@pytest.mark.parametrize("name", [name for name in every_estimator.every() if name not in CANNOT])
def test_an_estimator_agrees_with_scikit_learn(name):
    with warnings.catch_warnings():
        # Of estimators that scikit-learn will remove.
        warnings.filterwarnings("ignore", ".* is deprecated", FutureWarning)
        estimator, x = every_estimator.fitted(name)
        model = door.convert(estimator, x)
        assert_agrees(model, estimator, x[:40])
    REASONS[name] = "; ".join(part.reason for part in door.filled(model))


@pytest.mark.parametrize(
    "name", sorted(every_estimator.CANNOT["no transform, predict or predict_proba"])
)
def test_an_estimator_without_a_method_for_new_rows_is_refused(name):
    message = f"convert, {name}: expected an estimator with transform, predict or"
    with pytest.raises(pyopnb.errors.DefinitionError, match=message):
        door.convert(*every_estimator.fitted(name))


def test_most_estimators_need_no_python(capsys):
    if len(REASONS) < 100:
        pytest.fail("run the whole file: this test prints what the ones before it counted")
    with capsys.disabled():
        print(*(f"{name:32} {text[:100]}" for name, text in REASONS.items() if text), sep="\n")
    assert list(REASONS.values()).count("") >= 100 and len(REASONS) >= 180


def nmf():
    return NMF(2, max_iter=2000, random_state=0)


class ByKeyword(ClassifierMixin, BaseEstimator):
    """A classifier whose methods call one another by keyword, as LightGBM's do."""

    def fit(self, X, y):
        self.classes_ = np.unique(y)
        return self

    def predict_proba(self, X):
        positive = (np.asarray(X)[:, :1] > 0).astype(float)
        return np.hstack([1 - positive, positive])

    def predict(self, X):
        return self.classes_[self.predict_proba(X=X).argmax(1)]


class PredictsByKeyword(ByKeyword):
    """A classifier that calls the estimator inside it by keyword."""

    def fit(self, X, y):
        self.inner_ = ByKeyword().fit(X, y)
        return super().fit(X, y)

    def predict_proba(self, X):
        return self.inner_.predict_proba(X=X)


CUBE_ROOTS = make_pipeline(FunctionTransformer(np.cbrt), RidgeCV())
PARTS = {
    "pipeline": (make_pipeline(MinMaxScaler(), nmf(), LogisticRegression()), ["NMF"]),
    "column transformer": (
        make_pipeline(
            ColumnTransformer([("a", StandardScaler(), [0, 1]), ("b", Nystroem(n_components=3, random_state=0), [2, 3])]),
            LogisticRegression(),
        ),
        ["Nystroem"],
    ),
    "union": (
        make_pipeline(make_union(StandardScaler(), RBFSampler(n_components=3, random_state=0)), LogisticRegression()),
        ["RBFSampler"],
    ),
    "stacking": (
        StackingClassifier([("a", LabelPropagation(gamma=0.1)), ("b", LogisticRegression())], cv=2),
        ["LabelPropagation"],
    ),
    "calibration": (CalibratedClassifierCV(NearestCentroid(), cv=2), None),
    "grid search": (
        GridSearchCV(make_pipeline(MinMaxScaler(), LabelPropagation()), {"labelpropagation__gamma": [1, 2]}, cv=2),
        ["LabelPropagation"],
    ),
    "search inside a pipeline": (
        make_pipeline(StandardScaler(), GridSearchCV(LabelPropagation(), {"gamma": [0.1, 1]}, cv=2)),
        ["LabelPropagation"],
    ),
    "what its converter refuses": (
        make_pipeline(StandardScaler(), FunctionTransformer(np.cbrt), LogisticRegression()),
        ["FunctionTransformer"],
    ),
    "the same in a stack": (
        make_pipeline(StandardScaler(), StackingRegressor([("a", RidgeCV()), ("b", CUBE_ROOTS)], cv=2)),
        ["FunctionTransformer"],
    ),
    "lambda": (
        make_pipeline(StandardScaler(), FunctionTransformer(lambda x: x**2), LogisticRegression()),
        ["FunctionTransformer"],
    ),
    "by keyword": (make_pipeline(StandardScaler(), ByKeyword()), ["ByKeyword"]),
    "inside, by keyword": (make_pipeline(StandardScaler(), PredictsByKeyword()), None),
    "several outputs": (MultiOutputClassifier(LabelPropagation(gamma=0.1)), None),
    "clusters": (make_pipeline(StandardScaler(), Birch(n_clusters=3)), ["Birch"]),
    "clusters before another step": (
        make_pipeline(StandardScaler(), BisectingKMeans(3, random_state=0), LogisticRegression()),
        ["BisectingKMeans"],
    ),
    "features of clusters": (
        make_pipeline(StandardScaler(), FeatureAgglomeration(2), LogisticRegression()),
        ["FeatureAgglomeration"],
    ),
}  # fmt: skip


@pytest.mark.parametrize("where", PARTS)
def test_an_estimator_without_a_converter_inside_others(where):
    estimator, expected = PARTS[where]
    labels = {
        "several outputs": np.stack([FEW, LABELS], 1),
        "by keyword": FEW,
        "inside, by keyword": FEW,
    }
    estimator.fit(X, labels.get(where, LABELS))
    model = door.convert(estimator, X)
    assert_agrees(model, estimator, X[5:25])
    if expected is None:
        assert filled(model)
    else:
        assert filled(model) == expected and len(model.graph.node) > 1


@pytest.mark.parametrize("missing", [None, np.nan])
def test_a_text_that_is_missing_is_named_with_its_column(missing):
    table = pd.DataFrame(
        {"size": X[:, 0], "kind": pd.Series(["a", missing, "b"] * 20, dtype=object)}
    )
    estimator = ColumnTransformer(
        [("kind", OneHotEncoder(), ["kind"])], remainder="passthrough"
    ).fit(table)
    message = r"convert, X\['kind'\]: expected numbers or texts, got .* among them\. Try: X\['kind'\] = X\['kind'\]\.fillna\(\"\"\) before fit"
    with pytest.raises(pyopnb.errors.ModelError, match=message):
        door.convert(estimator, table)


class Share(TransformerMixin, BaseEstimator):
    """Any column to a constant one, as an estimator that reads dates would."""

    def fit(self, X, y=None):
        return self

    def transform(self, X):
        return np.ones((len(X), 1))


@pytest.mark.parametrize(
    "column",
    [
        pd.date_range("2024-01-01", periods=6),
        pd.date_range("2024-01-01", periods=6).astype("datetime64[ns]"),
        pd.date_range("2024-01-01", periods=6, tz="UTC"),
        pd.to_timedelta(np.arange(6), unit="D"),
        [datetime.date(2024, 1, day + 1) for day in range(6)],
        [datetime.timedelta(hours=hour) for hour in range(6)],
        [decimal.Decimal(number) for number in range(6)],
        [[number, 1] for number in range(6)],
        pd.period_range("2024-01", periods=6, freq="M"),
        [pathlib.PurePosixPath("a")] * 6,
    ],
    ids=lambda column: str(getattr(column, "dtype", type(column[0]).__name__)),
)
def test_the_advice_for_a_column_of_other_values_works(column):
    table = pd.DataFrame({"when": column, "size": X[:6, 0]})
    estimator = ColumnTransformer([("when", Share(), [0])], remainder="passthrough")
    with pytest.raises(
        pyopnb.errors.ModelError, match=r"X\['when'\]: expected numbers or"
    ) as raised:
        door.convert(estimator.fit(table), table)
    names = {"X": table, "pd": pd}
    exec(raised.value.next.removesuffix(" before fit"), names)
    table = names["X"]
    assert_agrees(door.convert(estimator.fit(table), table), estimator, table)


@pytest.mark.parametrize(
    "rows",
    [
        [[1, "a"], ["b", 2]],
        np.array([[1, "a"], ["b", 2]], object),
        np.array([[1, "2"], ["3", 4]], object),
        np.array([["a", None], ["b", "c"]], object),
        np.array([["a", np.nan], ["b", "c"]], object),
        [[1, None], [2, 3]],
    ],
    ids=str,
)
def test_the_advice_for_rows_of_numbers_and_texts_works(rows):
    estimator = OneHotEncoder(sparse_output=False).fit(np.array(rows, object).astype(str))
    with pytest.raises(pyopnb.errors.ModelError, match="X: expected numbers or texts") as raised:
        door.convert(estimator, np.array(rows, object))
    names = {"X": rows, "pd": pd, "np": np}
    exec(raised.value.next.removesuffix(" before fit"), names)
    assert door.convert(OneHotEncoder(sparse_output=False).fit(names["X"]), names["X"])


def test_a_clusterer_gives_labels_and_distances():
    results = run(door.convert(Birch(n_clusters=3).fit(X), X), X)
    assert [array.dtype for array in results] == [np.int64, np.float32]


def test_strings_and_numbers_of_a_table():
    table = pd.DataFrame(
        {
            "size": X[:, 0],
            "count": np.arange(60),
            "kind": list("abc") * 20,
            "weight": X[:, 1].astype(float),
        }
    )
    columns = ColumnTransformer(
        [
            ("a", OneHotEncoder(), ["kind"]),
            ("b", RBFSampler(n_components=3, random_state=0), ["size", "weight"]),
            ("c", "passthrough", ["count"]),
        ]
    )
    for estimator in (
        make_pipeline(columns, LogisticRegression(max_iter=2000)),
        columns,
        LabelPropagationOfNumbers(gamma=0.01),
    ):
        estimator.fit(table, LABELS)
        model = door.convert(estimator, table)
        assert [value.name for value in model.graph.input] == list(table.columns)
        assert_agrees(model, estimator, table[:20])
        assert filled(model)


class LabelPropagationOfNumbers(LabelPropagation):
    """A user's estimator, which looks at columns by their names."""

    def fit(self, x, y):
        return super().fit(x[["size", "count"]], y)

    def predict_proba(self, x):
        assert (
            list(x.columns) == ["size", "count", "kind", "weight"] and x["count"].dtype == np.int64
        )
        return super().predict_proba(x[["size", "count"]])

    def predict(self, x):
        return self.classes_[self.predict_proba(x).argmax(1)]


def test_sparse_rows_and_texts():
    sparse = scipy.sparse.csr_matrix(np.maximum(X, 0))
    estimator = make_pipeline(nmf(), LogisticRegression()).fit(sparse, LABELS)
    model = door.convert(estimator, sparse)
    assert_agrees(model, estimator, sparse[:20])
    assert door.filled(model)[0].estimator.n_components_ == 2
    texts = every_estimator.TEXTS
    estimator = make_pipeline(CountVectorizer(), LogisticRegression()).fit(texts, LABELS)
    assert_agrees(door.convert(estimator, list(texts)), estimator, texts)


def test_classes_that_are_texts_and_numbers_in_double():
    names = np.array(["no", "yes"])[FEW]
    estimator = LabelPropagation(gamma=0.1).fit(X.astype(float), names)
    model = door.convert(estimator, X.astype(float))
    label, probabilities = assert_agrees(model, estimator, X.astype(float))
    assert set(label) == {"no", "yes"} and probabilities.dtype == np.float64
    assert [value.type.tensor_type.elem_type for value in model.graph.output] == [
        TensorProto.STRING,
        TensorProto.DOUBLE,
    ]


def test_options_of_skl2onnx_are_passed_on():
    estimator = make_pipeline(MinMaxScaler(), nmf(), LogisticRegression()).fit(X, LABELS)
    model = door.convert(estimator, X, options={"zipmap": True})
    _, probabilities = run(model, X[:3])
    np.testing.assert_allclose(
        [row[2] for row in probabilities], estimator.predict_proba(X[:3])[:, 2], atol=1e-5
    )
    with pytest.raises(
        pyopnb.errors.ModelError,
        match="convert, options: expected options with which .* got skl2onnx: ",
    ):
        door.convert(estimator, X, options={id(estimator[-1]): {"nosuch": True}})


def test_a_model_stays_what_it_was_when_the_estimator_is_fitted_again():
    estimator = FastICA(2, random_state=0).fit(X)
    model, before = door.convert(estimator, X), estimator.transform(X)
    assert door.convert(estimator, X) == model
    estimator.fit(X**3)
    np.testing.assert_array_equal(run(model, X)[0], before)
    assert door.convert(estimator, X) != model
    assert not {"onnx_parser", "transform"} & set(vars(estimator))


def test_nothing_stays_registered_in_skl2onnx():
    door.convert(make_pipeline(MinMaxScaler(), NMF(2, random_state=0, max_iter=2000)).fit(X), X)
    assert NMF not in sklearn_operator_name_map


def test_the_estimators_that_are_filled_are_listed():
    parts = door.filled(door.convert(make_pipeline(MinMaxScaler(), nmf()).fit(X), X))
    assert parts[0].op.startswith("sklearn::NMF_") and "skl2onnx has no converter" in repr(parts)
    compile(parts[0].cell.partition("\n")[2], "cell", "exec")
    assert repr(door.filled(door.convert(StandardScaler().fit(X), X))).startswith("No Python node")


def test_a_cell_in_place_of_a_filled_estimator_serves_the_live_session():
    estimator = make_pipeline(MinMaxScaler(), nmf()).fit(X)
    model = door.convert(estimator, X)
    session, (one,) = pyopnb.Session(model), door.filled(model)

    @pyopnb.pyop(one.op)
    class Zeros:
        def compute(self, *inputs) -> "float32[?,2]":
            return np.zeros((len(inputs[0]), 2), np.float32)

    assert not session.run(None, {"X": X})[0].any()


def saved(estimator, path):
    pyopnb.save(door.convert(estimator, X), path)
    return pyopnb.load(path)


def test_fitted_estimators_travel_and_run_in_another_process_where_they_are_named(tmp_path):
    by_skops = make_pipeline(MinMaxScaler(), nmf()).fit(X)
    loaded = saved(by_skops, tmp_path / "nmf.onnx")
    assert "as skops wrote it" in repr(loaded) and "UNPICKLING" not in repr(loaded)
    assert "Nothing of this was run" in repr(loaded)
    # A function of the notebook goes by value.
    by_value = FunctionTransformer(lambda x: x**2).fit(X)
    assert "UNPICKLING RUNS CODE" in repr(saved(by_value, tmp_path / "lambda.onnx"))
    np.save(tmp_path / "x.npy", X)
    code = """
        import numpy as np, pyopnb, sys
        for name in ("nmf", "lambda"):
            loaded = pyopnb.load(f"{name}.onnx")
            assert name == "lambda" or "pyopnb.sklearn" not in sys.modules
            loaded = pyopnb.load(f"{name}.onnx", ops=list(loaded.ops))
            np.save(f"{name}.npy", pyopnb.run(loaded.model, X=np.load("x.npy"))[0])
    """
    subprocess.run([sys.executable, "-P", "-c", textwrap.dedent(code)], check=True, cwd=tmp_path)
    for name, estimator in (("nmf", by_skops), ("lambda", by_value)):
        result = np.load(tmp_path / f"{name}.npy")
        np.testing.assert_allclose(result, estimator.transform(X), atol=1e-5)


def test_ops_with_underscores_do_not_keep_skl2onnx_out(tmp_path):
    code = """
        import numpy as np, onnx, pyopnb
        from sklearn.linear_model import Ridge

        @pyopnb.pyop("demo::My_own_op")
        class Op:
            def compute(self, x):
                return 2 * x

        X = np.eye(2)
        pyopnb.sklearn.convert(Ridge().fit(X, X[0]), X)
        assert onnx.defs.has("My_own_op", "demo")
    """
    subprocess.run([sys.executable, "-P", "-c", textwrap.dedent(code)], check=True, cwd=tmp_path)


def test_what_skops_cannot_hold_is_a_pickle_with_a_warning_that_is_read_before_it_runs(tmp_path):
    estimator = Birch(n_clusters=3).fit(X)
    loaded = saved(estimator, tmp_path / "birch.onnx")
    assert "UNPICKLING RUNS CODE" in repr(loaded)
    pyopnb.registry.clear()
    again = pyopnb.load(tmp_path / "birch.onnx", ops=list(loaded.ops))
    np.testing.assert_array_equal(run(again.model, X)[0], estimator.predict(X))
    pyopnb.save(again.model, tmp_path / "again.onnx")
    assert pyopnb.load(tmp_path / "again.onnx").ops == loaded.ops


def test_a_pickle_is_not_read_before_its_op_is_named_and_run(tmp_path, monkeypatch):
    loaded = saved(Birch(n_clusters=3).fit(X), tmp_path / "birch.onnx")
    pyopnb.registry.clear()
    read = []
    monkeypatch.setattr(
        stored.pickle,
        "loads",
        lambda data: read.append(data) or (_ for _ in ()).throw(AssertionError("read")),
    )
    pyopnb.load(tmp_path / "birch.onnx")
    assert not read
    named = pyopnb.load(tmp_path / "birch.onnx", ops=list(loaded.ops))
    assert not read
    with pytest.raises(AssertionError, match="read"):
        pyopnb.Session(named.model)


def test_without_skops_estimators_are_pickled(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "skops.io", None)
    assert "UNPICKLING RUNS CODE" in repr(
        saved(FastICA(2, random_state=0).fit(X), tmp_path / "ica.onnx")
    )


def test_damaged_text_is_refused():
    with pytest.raises(pyopnb.errors.ModelError, match="expected a fitted estimator, got damaged"):
        stored.load("demo", "!!", "pickle", ())


@pytest.mark.parametrize("estimator", [NMF(2), NMF, np.cbrt])
def test_what_is_no_fitted_estimator_is_refused(estimator):
    with pytest.raises(pyopnb.errors.DefinitionError, match="expected a fitted estimator"):
        door.convert(estimator, X)


@pytest.mark.parametrize("x", [np.hstack([X, X]), np.where(X[3, 1] == X, np.nan, X), X[0]])
def test_what_the_estimator_says_of_rows_arrives_as_itself(x):
    estimator = make_pipeline(StandardScaler(), LogisticRegression()).fit(X, FEW)
    with pytest.raises(ValueError, match="expecting 4 features|contains NaN|Expected 2D array"):
        door.convert(estimator, x)


class MyNmf:
    def __init__(self, W):
        self.__W = np.array([float(w) for w in W.split("|")], dtype=np.single).reshape(6, 2)

    def compute(self, X):
        return self.__W


def test_nmf_as_the_document_of_the_retired_op_writes_it():
    rows = np.array([[1, 1], [2, 1], [3, 1.2], [4, 1], [5, 0.8], [6, 1]], dtype=np.single)
    nmf = NMF(n_components=2, init="random", random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        W = np.array(nmf.fit_transform(rows), dtype=np.single)

    def calculate_sklearn_nmf_output_shapes(operator):
        check_input_and_output_numbers(operator, output_count_range=1, input_count_range=1)
        operator.outputs[0].type.shape = operator.inputs[0].type.shape

    def convert_nmf(scope, operator, container):
        ws = [str(w) for w in W.flatten()]
        attrs = {"W": "|".join(ws)}
        container.add_node(
            op_type="PyOp", name="nmf", inputs=["X"], outputs=["variable"], op_version=10, op_domain="MyDomain",
            module="mymodule", class_name="MyNmf", input_types=[TensorProto.FLOAT], output_types=[TensorProto.FLOAT], **attrs,
        )  # fmt: skip

    pyopnb.pyop("demo::MyNmf", module="mymodule")(MyNmf)
    initial, opsets = [("X", FloatTensorType([6, 2]))], {"": 18, "MyDomain": 10}
    model = convert_sklearn(
        nmf, "", initial, "", opsets, {NMF: convert_nmf}, {NMF: calculate_sklearn_nmf_output_shapes}
    )
    np.testing.assert_allclose(pyopnb.run(model, X=rows)[0], W)


def test_a_converter_that_somebody_has_registered_is_used():
    from skl2onnx import _supported_operators
    from skl2onnx.common import _registration

    @pyopnb.pyop("demo::IcaTransform")
    class IcaTransform:
        def __init__(self, mixing: np.ndarray, mean: np.ndarray):
            self.mixing, self.mean = mixing, mean

        def compute(self, x) -> "float32[N,2]":
            return ((x - self.mean) @ self.mixing.T).astype(np.float32)

    def shape(operator):
        operator.outputs[0].type = FloatTensorType([None, 2])

    def convert(scope, operator, container):
        ica = operator.raw_operator
        names = (
            [one.full_name for one in operator.inputs],
            [one.full_name for one in operator.outputs],
        )
        arrays = {
            "mixing": numpy_helper.from_array(ica.components_),
            "mean": numpy_helper.from_array(ica.mean_),
        }
        container.add_node(
            "IcaTransform", *names, op_domain="demo", op_version=1, name="ica", **arrays
        )

    door.update_registered_converter(FastICA, "DemoFastICA", shape, convert)
    try:
        estimator = make_pipeline(StandardScaler(), FastICA(2, random_state=0)).fit(X)
        model = door.convert(estimator, X)
        assert [node.op_type for node in model.graph.node] == [
            "Scaler",
            "IcaTransform",
        ] and not door.filled(model)
        assert_agrees(model, estimator, X)
    finally:
        del _supported_operators.sklearn_operator_name_map[FastICA]
        del (
            _registration._converter_pool["DemoFastICA"],
            _registration._shape_calculator_pool["DemoFastICA"],
        )


def test_the_example_of_the_docstring_runs():
    flags = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
    assert doctest.testmod(conversion, optionflags=flags).failed == 0


def test_an_interrupt_at_any_line_leaves_no_lock_held():
    class Scaler(fitted.FittedEstimator):
        estimator = StandardScaler()

    assert lines_that_leave_held(Scaler, [fitted._lock], fitted) == []


def test_rows_of_int32_are_fed_as_they_are():
    rows = np.arange(12, dtype=np.int32).reshape(4, 3)
    trained = make_pipeline(StandardScaler(), MinMaxScaler()).fit(rows)
    model = door.convert(trained, rows)
    assert not door.filled(model)
    result = pyopnb.run(model, X=rows)[0]
    np.testing.assert_allclose(result, trained.transform(rows), rtol=1e-5, atol=1e-6)


class KeepsNothing(TransformerMixin, BaseEstimator):
    def fit(self, X, y=None):
        return self

    def transform(self, X):
        return np.asarray(X) * 2


def test_a_transformer_that_keeps_nothing_of_fit():
    assert_agrees(door.convert(KeepsNothing().fit(X), X), KeepsNothing(), X)


class TextsAndNumbers(KeepsNothing):
    def transform(self, X):
        mixed = np.empty((len(X), 2), object)
        mixed[:, 0] = "text"
        mixed[:, 1] = [float(row[0]) for row in X]
        return mixed


def test_an_output_of_texts_and_numbers_is_refused():
    with pytest.raises(pyopnb.errors.ModelError, match="TextsAndNumbers.transform: expected"):
        door.convert(TextsAndNumbers(), X)


@pytest.mark.parametrize("kind", [np.int64, np.int32, np.float32])
def test_other_numbers_beside_float64_in_one_scaler_need_no_op(kind):
    table = pd.DataFrame({"a": np.arange(60).astype(kind), "b": X[:, 0].astype(np.float64)})
    table["text"] = ["u", "v", "w"] * 20
    columns = [("numbers", StandardScaler(), ["a", "b"]), ("text", OneHotEncoder(), ["text"])]
    trained = make_pipeline(ColumnTransformer(columns), LogisticRegression()).fit(table, FEW)
    model = door.convert(trained, table)
    assert not door.filled(model)
    assert_agrees(model, trained, table)


@pytest.mark.parametrize("with_text", [False, True])
def test_a_table_with_ordinary_columns_needs_no_python(with_text):
    rows = np.random.default_rng(0).random((40, 2))
    table = pd.DataFrame(rows, columns=["sepal length (cm)", "petal width (cm)"])
    steps = [StandardScaler()]
    if with_text:
        table["the kind"] = ["a", "b", "a", "c"] * 10
        numbers = ["sepal length (cm)", "petal width (cm)"]
        columns = [("t", OneHotEncoder(), ["the kind"]), ("n", StandardScaler(), numbers)]
        steps = [ColumnTransformer(columns)]
    trained = make_pipeline(*steps, LogisticRegression()).fit(table, rows[:, 0] > 0.5)
    model = door.convert(trained, table)
    assert not door.filled(model)
    result = pyopnb.Session(model)(table)
    np.testing.assert_array_equal(result["label"], trained.predict(table))
    np.testing.assert_allclose(result["probabilities"], trained.predict_proba(table), atol=1e-6)


def test_a_warning_names_the_estimators_that_run_in_python():
    trained = make_pipeline(MinMaxScaler(), NMF(2, max_iter=2000)).fit(X)
    with pytest.warns(door.RunsInPython, match="NMF: skl2onnx has no converter") as caught:
        model = door.convert(trained, X)
    assert caught[0].message.parts == door.filled(model)
    assert caught[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        door.convert(StandardScaler().fit(X), X)


WITH_NAN = np.where(np.arange(X.size).reshape(X.shape) % 5, X, np.nan).astype(np.float32)


def test_a_split_between_nan_and_all_numbers_is_converted():
    """Its threshold is infinite, from which skl2onnx does not return for float64."""
    rows = np.where(np.arange(X.size).reshape(X.shape) % 3, X, np.nan).astype(np.float64)
    trained = RandomForestClassifier(3, random_state=0).fit(rows, np.isnan(rows[:, 0]).astype(int))
    thresholds = [tree.tree_.threshold.tolist() for tree in trained.estimators_]
    assert np.inf in thresholds[0]
    model = door.convert(trained, rows)
    assert not door.filled(model)
    assert (run(model, rows)[0] == trained.predict(rows)).all()
    assert [tree.tree_.threshold.tolist() for tree in trained.estimators_] == thresholds


@pytest.mark.parametrize("bagged", [False, True])
def test_nan_goes_down_the_branch_of_a_tree_that_scikit_learn_takes(bagged):
    tree = DecisionTreeClassifier(random_state=0)
    estimator = BaggingClassifier(tree, 5, random_state=0) if bagged else tree
    for rows in (X, WITH_NAN):  # scikit-learn decides for each node, whether fit saw NaN or not
        trained = estimator.fit(rows, LABELS)
        model = door.convert(trained, rows)
        assert not door.filled(model)
        assert (run(model, WITH_NAN)[0] == trained.predict(WITH_NAN)).all()


@pytest.mark.parametrize(
    ("estimator", "rows"),
    [
        (
            Normalizer(),
            np.float32([[1e-20, 0, 0, 0]]),
        ),  # skl2onnx divides by the norm, however small
        (PowerTransformer(), WITH_NAN),  # skl2onnx gives a number for NaN
    ],
)
def test_what_skl2onnx_converts_wrongly_for_unusual_numbers_becomes_an_op(estimator, rows):
    trained = estimator.fit(X)
    model = door.convert(trained, X)
    (part,) = door.filled(model)
    assert part.reason.startswith("skl2onnx: with ")
    assert_agrees(model, trained, rows)


class Shift(KeepsNothing):
    """Adds 1."""

    def transform(self, X):
        return np.asarray(X) + np.float32(1)


@contextmanager
def registered(cls, width, build):
    """A converter of a class for skl2onnx, whose last node build returns."""

    def shape(operator):
        operator.outputs[0].type = FloatTensorType([None, width])

    def convert(scope, operator, container):
        node = build(operator.inputs[0], op_version=15, output_names=operator.outputs)
        node.add_to(scope, container)

    door.update_registered_converter(cls, f"Test{cls.__name__}", shape, convert)
    try:
        yield
    finally:
        sklearn_operator_name_map.pop(cls)


def of_the_right_size_only(x, **names):
    return OnnxAdd(x, np.ones((60, 4), np.float32), **names)


def of_small_numbers_only(x, **names):
    return OnnxAdd(OnnxMin(x, np.float32([50]), op_version=15), np.float32([1]), **names)


def right(x, **names):
    return OnnxAdd(x, np.float32([1]), **names)


@pytest.fixture(params=[of_the_right_size_only, of_small_numbers_only, right])
def converter(request):
    with registered(Shift, 4, request.param):
        yield request.param


def test_a_wrong_converter_is_not_used(converter):
    model = door.convert(Shift(), X)
    assert bool(door.filled(model)) == (converter is not right)
    assert_agrees(model, Shift(), X * 1000)
    assert_agrees(model, Shift(), X[:7])


class BelowMax(KeepsNothing):
    """Looks at all rows together, and takes no NaN, which ReduceMax in ONNX Runtime leaves out."""

    def transform(self, X):
        if not np.isfinite(X).all():
            raise ValueError("not finite")
        return np.asarray(X) - np.asarray(X).max(axis=0)


def test_an_estimator_may_look_at_all_rows():
    def below_max(x, **names):
        return OnnxSub(x, OnnxReduceMax(x, axes=[0], keepdims=1, op_version=15), **names)

    with registered(BelowMax, 4, below_max):
        model = door.convert(BelowMax(), X)
    assert not door.filled(model)
    assert_agrees(model, BelowMax(), X[:7])


def test_what_was_not_verified_says_so(converter):
    model = door.convert(Shift(), X, verify=False)
    assert not door.filled(model)
    assert [(entry.key, entry.value) for entry in model.metadata_props] == [
        ("pyopnb.verified", "no")
    ]
    assert not door.convert(Shift(), X).metadata_props


class Capped(KeepsNothing):
    """Caps numbers, in a table that also has texts."""

    def transform(self, X):
        return np.minimum(np.asarray(X), np.float32(50))


def test_unusual_numbers_are_tried_in_a_table_with_texts():
    def uncapped(x, **names):
        return OnnxAdd(x, np.float32([0]), **names)

    table = pd.DataFrame({"a": X[:, 0], "text": ["u", "v", "w"] * 20})
    columns = [("cap", Capped(), ["a"]), ("text", OneHotEncoder(), ["text"])]
    trained = ColumnTransformer(columns, sparse_threshold=0).fit(table)
    with registered(Capped, 1, uncapped):
        model = door.convert(trained, table)
    (part,) = door.filled(model)
    assert isinstance(part.estimator, (Capped, ColumnTransformer))


def test_forest_in_a_stack_gives_its_own_numbers():
    # As float32, the thresholds of trees send a few rows down the other branch.
    data = load_diabetes(scaled=False)
    forest = RandomForestRegressor(10, max_depth=5, random_state=0)
    stack = StackingRegressor([("linear", RidgeCV()), ("trees", forest)], cv=3).fit(
        data.data, data.target
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = pyopnb.sklearn.convert(stack, data.data)
    predicted = pyopnb.run(model, **pyopnb.sklearn.feeds(data.data))[0]
    np.testing.assert_allclose(predicted[:, 0], stack.predict(data.data), rtol=1e-5)


def test_polynomials_of_integers_do_not_wrap():
    rows = np.random.default_rng(0).integers(-5, 9, (40, 3))
    estimator = PolynomialFeatures(2).fit(rows)
    model = door.convert(estimator, rows)
    large = np.full((2, 3), 2**40)
    (result,) = pyopnb.Session(model).run(None, {model.graph.input[0].name: large})
    np.testing.assert_allclose(result, estimator.transform(large), rtol=1e-6)


def test_domains_that_the_model_does_not_use_are_not_imported():
    @pyopnb.pyop("unrelated::Op")
    class Op:
        def compute(self, x):
            return x

    model = door.convert(StandardScaler().fit(X), X)
    assert {entry.domain for entry in model.opset_import} == {"", "ai.onnx.ml"}
