"""`pyopnb.sklearn`: every estimator of scikit-learn, and what pipelines are made of."""

import doctest
import importlib
import subprocess
import sys
import textwrap
import warnings

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
from pyopnb.sklearn import fitted, stored
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
    results = [
        one for given in run(model, x) for one in (given if isinstance(given, list) else [given])
    ]
    expected = [outputs_of(estimator, [method], x) for method in plan(estimator)]
    several = [array for arrays in expected for array in arrays]
    wanted = (
        several
        if len(several) == len(results)
        else [arrays[0] if len(arrays) == 1 else np.stack(arrays) for arrays in expected]
    )
    assert results
    for given, want in zip(results, wanted, strict=False):
        if want.ndim == 1 and given.ndim == 2 and given.shape[1] == 2 and want.dtype.kind == "f":
            given = given[:, 1]
        if want.dtype.kind == "f":
            np.testing.assert_allclose(given.reshape(want.shape), want, rtol=1e-5, atol=1e-5)
        else:
            np.testing.assert_array_equal(given.reshape(want.shape), want)
    return results


def filled(model):
    return sorted(type(one.estimator).__name__ for one in door.filled(model))


# ---- every estimator ---------------------------------------------------------------------------------------------------------

COUNTS = {}


@pytest.mark.parametrize(
    "name",
    [
        name
        for name in every_estimator.every()
        if name not in set().union(*every_estimator.CANNOT.values())
    ],
)
def test_an_estimator_agrees_with_scikit_learn(name):
    with warnings.catch_warnings():
        warnings.filterwarnings(
            "ignore", ".* is deprecated", FutureWarning
        )  # of estimators that scikit-learn will remove
        estimator, x = every_estimator.fitted(name)
        model = door.convert(estimator, x)
        assert_agrees(model, estimator, x[:40])
    reasons = [one.reason for one in door.filled(model)]
    COUNTS[name] = f"filled: {'; '.join(reasons)}" if reasons else "converted"


@pytest.mark.parametrize(
    "name", sorted(every_estimator.CANNOT["no transform, predict or predict_proba"])
)
def test_an_estimator_without_a_method_for_new_rows_is_refused(name):
    estimator, x = every_estimator.fitted(name)
    with pytest.raises(
        pyopnb.errors.DefinitionError,
        match=f"convert, {name}: expected an estimator with transform, predict or",
    ) as why:
        door.convert(estimator, x)
    COUNTS[name] = f"refused: {why.value.got}"


def test_the_table_of_all_estimators(capsys):
    if not COUNTS:
        pytest.fail("run the whole file: this test prints what the ones before it counted")
    rows = {
        name: COUNTS.get(
            name,
            next((why for why, names in every_estimator.CANNOT.items() if name in names), None),
        )
        for name in every_estimator.every()
    }
    assert None not in rows.values(), [name for name, text in rows.items() if text is None]
    kinds = [text.partition(":")[0] for text in rows.values()]
    converted, held = kinds.count("converted"), kinds.count("filled")
    with capsys.disabled():
        print(
            f"\n{len(rows)} estimators: {converted} converted, {held} filled, {len(rows) - converted - held} refused"
        )
        print(*(f"{name:32} {text[:100]}" for name, text in rows.items()), sep="\n")
    assert converted >= 100 and converted + held >= 180


# ---- where an estimator without a converter can be ---------------------------------------------------------------------------

PARTS = {
    "pipeline": (
        make_pipeline(MinMaxScaler(), NMF(2, max_iter=2000, random_state=0), LogisticRegression()),
        ["NMF"],
    ),
    "column transformer": (
        make_pipeline(
            ColumnTransformer(
                [
                    ("a", StandardScaler(), [0, 1]),
                    ("b", Nystroem(n_components=3, random_state=0), [2, 3]),
                ]
            ),
            LogisticRegression(),
        ),
        ["Nystroem"],
    ),
    "union": (
        make_pipeline(
            make_union(StandardScaler(), RBFSampler(n_components=3, random_state=0)),
            LogisticRegression(),
        ),
        ["RBFSampler"],
    ),
    "stacking": (
        StackingClassifier([("a", LabelPropagation(gamma=0.1)), ("b", LogisticRegression())], cv=2),
        ["LabelPropagation"],
    ),
    "calibration": (CalibratedClassifierCV(NearestCentroid(), cv=2), None),
    "grid search": (
        GridSearchCV(
            make_pipeline(MinMaxScaler(), LabelPropagation(gamma=0.1)),
            {"labelpropagation__gamma": [1, 2]},
            cv=2,
        ),
        ["LabelPropagation"],
    ),
    "what its converter refuses": (
        make_pipeline(StandardScaler(), FunctionTransformer(np.cbrt), LogisticRegression()),
        ["FunctionTransformer"],
    ),
    "lambda": (
        make_pipeline(StandardScaler(), FunctionTransformer(lambda x: x**2), LogisticRegression()),
        ["FunctionTransformer"],
    ),
}


@pytest.mark.parametrize("where", PARTS)
def test_an_estimator_without_a_converter_inside_others(where):
    estimator, expected = PARTS[where]
    estimator.fit(X, LABELS)
    model = door.convert(estimator, X)
    assert_agrees(model, estimator, X[5:25])
    if expected is None:
        assert filled(model)
    else:
        assert filled(model) == expected and len(model.graph.node) > 1


def test_a_part_that_its_converter_refuses_is_filled_and_not_the_stack_around_it():
    refused = make_pipeline(FunctionTransformer(np.cbrt), RidgeCV())
    stack = StackingRegressor([("line", RidgeCV()), ("roots", refused)], cv=2)
    estimator = make_pipeline(StandardScaler(), stack).fit(X, X[:, 0])
    model = door.convert(estimator, X)
    assert_agrees(model, estimator, X)
    assert filled(model) == ["FunctionTransformer"]


def test_a_search_inside_a_pipeline(tmp_path):
    search = GridSearchCV(LabelPropagation(gamma=0.1), {"gamma": [0.1, 1]}, cv=2)
    estimator = make_pipeline(StandardScaler(), search).fit(X, LABELS)
    model = door.convert(estimator, X)
    assert_agrees(model, estimator, X)
    assert filled(model) == ["LabelPropagation"] and len(model.graph.node) > 1
    pyopnb.save(model, tmp_path / "search.onnx")
    # joblib cannot hash the results of a search, which are masked arrays of objects.
    whole = GridSearchCV(
        make_pipeline(StandardScaler(), LabelPropagation()), {"labelpropagation__gamma": [1]}, cv=2
    )
    assert stored.digest(whole.fit(X, LABELS)) == stored.digest(whole) != stored.digest(search)
    assert stored.digest(FunctionTransformer(lambda x: x)) is None


def test_a_lambda_beside_an_estimator_without_a_converter():
    columns = [
        ("a", FastICA(2, random_state=0), ["a", "b"]),
        ("b", FunctionTransformer(lambda x: x**2), ["c", "d"]),
    ]
    table = pd.DataFrame(X[:, :4], columns=list("abcd")).assign(kind=list("xyz") * 20)
    for more in ([], [("kind", OneHotEncoder(), ["kind"])]):
        names = np.array(["no", "yes"])[FEW]
        estimator = make_pipeline(ColumnTransformer(columns + more), LogisticRegression()).fit(
            table, names
        )
        model = door.convert(estimator, table)
        assert_agrees(model, estimator, table)
        assert filled(model) == ["FastICA", "FunctionTransformer"]


@pytest.mark.parametrize("missing", [None, np.nan])
def test_a_text_that_is_missing_is_named_with_its_column(missing):
    table = pd.DataFrame(
        {"size": X[:, 0], "kind": pd.Series(["a", missing, "b"] * 20, dtype=object)}
    )
    estimator = ColumnTransformer(
        [("kind", OneHotEncoder(), ["kind"])], remainder="passthrough"
    ).fit(table)
    message = r"convert, X\['kind'\]: expected numbers or texts, got .* among them. Try: X\['kind'\].fillna\(\"\"\)"
    with pytest.raises(pyopnb.errors.ModelError, match=message):
        door.convert(estimator, table)


def test_outputs_of_one_step_only_go_where_they_are_used():
    for cluster in (
        Birch(n_clusters=3),
        BisectingKMeans(3, random_state=0),
        FeatureAgglomeration(2),
    ):
        estimator = make_pipeline(StandardScaler(), cluster).fit(X)
        assert_agrees(door.convert(estimator, X), estimator, X)
        inside = make_pipeline(StandardScaler(), cluster, LogisticRegression()).fit(X, LABELS)
        model = door.convert(inside, X)
        assert_agrees(model, inside, X)
        assert filled(model) == [type(cluster).__name__]
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
    """Somebody's own estimator, which looks at columns by their names."""

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
    estimator = make_pipeline(NMF(2, max_iter=2000, random_state=0), LogisticRegression()).fit(
        sparse, LABELS
    )
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


def test_several_outputs():
    several = np.stack([FEW, LABELS], 1)
    estimator = MultiOutputClassifier(LabelPropagation(gamma=0.1)).fit(X, several)
    model = door.convert(estimator, X)
    assert_agrees(model, estimator, X)
    assert "LabelPropagation" in str(filled(model)) or filled(model) == ["MultiOutputClassifier"]


def test_options_of_skl2onnx_are_passed_on():
    estimator = make_pipeline(
        MinMaxScaler(), NMF(2, max_iter=2000, random_state=0), LogisticRegression()
    ).fit(X, LABELS)
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
    from skl2onnx._supported_operators import sklearn_operator_name_map

    door.convert(make_pipeline(MinMaxScaler(), NMF(2, random_state=0, max_iter=2000)).fit(X), X)
    assert NMF not in sklearn_operator_name_map


def test_the_estimators_that_are_filled_are_listed_with_a_cell_for_each():
    estimator = make_pipeline(MinMaxScaler(), NMF(2, max_iter=2000, random_state=0)).fit(X)
    rows = door.filled(door.convert(estimator, X))
    (one,) = rows
    assert (
        one.op.startswith("sklearn::NMF_")
        and repr(rows).startswith("op")
        and "skl2onnx has no converter" in repr(rows)
    )
    assert (
        one.cell.startswith(f"%%pyop -d sklearn\nclass {one.op.removeprefix('sklearn::')}:")
        and '"float32[?,2]"' in one.cell
    )
    compile(one.cell.partition("\n")[2], "cell", "exec")
    assert repr(door.filled(door.convert(StandardScaler().fit(X), X))).startswith("No Python node")


def test_a_cell_in_place_of_a_filled_estimator_serves_the_live_session():
    estimator = make_pipeline(MinMaxScaler(), NMF(2, max_iter=2000, random_state=0)).fit(X)
    model = door.convert(estimator, X)
    session, (one,) = pyopnb.Session(model), door.filled(model)

    @pyopnb.pyop(one.op)
    class Zeros:
        def compute(self, *inputs) -> "float32[?,2]":
            return np.zeros((len(inputs[0]), 2), np.float32)

    assert not session.run(None, {"X": X})[0].any()


# ---- files -------------------------------------------------------------------------------------------------------------------


def saved(estimator, path):
    pyopnb.save(door.convert(estimator, X), path)
    return pyopnb.load(path)


def test_a_fitted_estimator_travels_with_save_and_runs_in_another_process_where_it_is_named(
    tmp_path,
):
    estimator = make_pipeline(MinMaxScaler(), NMF(2, max_iter=2000, random_state=0)).fit(X)
    path = tmp_path / "nmf.onnx"
    loaded = saved(estimator, path)
    (name,) = loaded.ops
    assert (
        "as skops wrote it" in repr(loaded)
        and "UNPICKLING" not in repr(loaded)
        and "Nothing of this was run" in repr(loaded)
    )
    np.save(tmp_path / "x.npy", X)
    code = f"""
        import numpy as np, pyopnb, sys
        loaded = pyopnb.load({str(path)!r})
        assert "sklearn" not in sys.modules and "pyopnb.sklearn" not in sys.modules
        loaded = pyopnb.load({str(path)!r}, ops=[{name!r}])
        np.save({str(tmp_path / "y.npy")!r}, pyopnb.run(loaded.model, X=np.load({str(tmp_path / "x.npy")!r}))[0])
    """
    subprocess.run([sys.executable, "-P", "-c", textwrap.dedent(code)], check=True, cwd=tmp_path)
    np.testing.assert_allclose(np.load(tmp_path / "y.npy"), estimator.transform(X), atol=1e-5)


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


def test_damaged_text_and_a_lambda_in_a_file_are_refused(tmp_path):
    with pytest.raises(
        pyopnb.errors.ModelError, match="op demo: expected a fitted estimator, got damaged text"
    ):
        stored.load("demo", "!!", "pickle", ())
    model = door.convert(
        make_pipeline(StandardScaler(), FunctionTransformer(lambda x: x**2)).fit(X), X
    )
    message = r"FunctionTransformer.func: expected a function that a module has .* got a lambda. Try: write it as def"
    with pytest.raises(pyopnb.errors.DefinitionError, match=message):
        pyopnb.save(model, tmp_path / "lambda.onnx")
    assert not (tmp_path / "lambda.onnx").exists()


# ---- what is refused ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("estimator", "x", "message"),
    [
        (
            NMF(2),
            X,
            r"convert, NMF: expected a fitted estimator, got one that was not fitted. Try: nmf.fit\(X\) first",
        ),
        (NMF, X, r"convert: expected a fitted estimator, got the class NMF. Try: NMF\(\).fit\(X\)"),
        (np.cbrt, X, "convert: expected an estimator of scikit-learn, got ufunc"),
    ],
)
def test_what_is_no_fitted_estimator_is_refused(estimator, x, message):
    with pytest.raises(pyopnb.PyopError, match=message):
        door.convert(estimator, x)


TABLE = pd.DataFrame({"age": [20.0, 30.0, 40.0], "town": ["Ulm", "Bonn", "Ulm"]})
SCALED = make_pipeline(StandardScaler(), LogisticRegression()).fit(X, FEW)
BY_NAME = ColumnTransformer(
    [("age", StandardScaler(), ["age"]), ("town", OneHotEncoder(), ["town"])]
).fit(TABLE)


@pytest.mark.parametrize(
    ("estimator", "x", "said"),
    [
        (
            SCALED,
            np.hstack([X, X]),
            f"convert, X: expected {X.shape[1]} columns, as in fit, got {2 * X.shape[1]}. Try: X[:, :{X.shape[1]}]",
        ),
        (
            SCALED,
            np.where(X[3, 1] == X, np.nan, X),
            "convert, X: expected rows that Pipeline takes, got ValueError: Input X contains NaN. "
            "Try: X without NaN and inf, or a SimpleImputer() in the pipeline",
        ),
        (
            SCALED,
            X[0],
            "convert, X: expected rows that Pipeline takes, got ValueError: Expected 2D array, got 1D array instead. "
            "Try: X.reshape(1, -1) if it is one row, X.reshape(-1, 1) if it is one column",
        ),
        (
            BY_NAME,
            TABLE.rename(columns={"age": "Age"}),
            "convert, X: expected the columns of fit: age, town, got none named age. Try: X.rename(columns={'Age': 'age'})",
        ),
    ],
)
def test_rows_that_the_estimator_does_not_take(estimator, x, said):
    with pytest.raises(pyopnb.errors.ModelError) as caught:
        door.convert(estimator, x)
    assert str(caught.value).removesuffix(".") == said.removesuffix(".")
    assert isinstance(caught.value.__cause__, ValueError)


def test_an_error_of_ones_own_function_arrives_as_itself():
    def strict(x):
        if len(x) < len(X):
            raise ValueError("too few rows for me")
        return x

    with pytest.raises(ValueError, match=r"^too few rows for me$"):
        door.convert(make_pipeline(FunctionTransformer(strict)).fit(X), X[:5])


# ---- converters of one's own -------------------------------------------------------------------------------------------------


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


@pytest.mark.parametrize(
    "module", ["conversion", "fitted", "columns", "samples", "holes", "stored"]
)
def test_the_examples_of_docstrings_run(module):
    loaded = importlib.import_module(f"pyopnb.sklearn.{module}")
    assert (
        doctest.testmod(loaded, optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE).failed
        == 0
    )


def test_an_interrupt_at_any_line_leaves_no_lock_held():
    class Scaler(fitted.FittedEstimator):
        estimator = StandardScaler()

    assert lines_that_leave_held(Scaler, [fitted._lock], fitted) == []


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


@pytest.mark.parametrize("cls", [ByKeyword, PredictsByKeyword])
def test_a_method_that_is_called_by_keyword(cls):
    trained = make_pipeline(StandardScaler(), cls()).fit(X, FEW)
    assert_agrees(door.convert(trained, X), trained, X)


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
    with pytest.raises(
        pyopnb.errors.ModelError, match="TextsAndNumbers.transform: expected .* float"
    ):
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


def test_a_warning_names_the_estimators_that_run_in_python():
    trained = make_pipeline(MinMaxScaler(), NMF(2, max_iter=2000)).fit(X)
    with pytest.warns(door.RunsInPython, match="NMF: skl2onnx has no converter") as caught:
        model = door.convert(trained, X)
    assert caught[0].message.parts == door.filled(model)
    assert caught[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        door.convert(StandardScaler().fit(X), X)


# ---- what is compared before a model is returned

WITH_NAN = np.where(np.arange(X.size).reshape(X.shape) % 5, X, np.nan).astype(np.float32)


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


def of_the_right_size_only(x):
    return x, np.ones((60, 4), np.float32)


def of_small_numbers_only(x):
    return OnnxMin(x, np.float32([50]), op_version=15), np.float32([1])


def right(x):
    return x, np.float32([1])


@pytest.fixture(params=[of_the_right_size_only, of_small_numbers_only, right])
def converter(request):
    def convert_shift(scope, operator, container):
        terms = request.param(operator.inputs[0])
        node = OnnxAdd(*terms, op_version=15, output_names=operator.outputs)
        node.add_to(scope, container)

    def shape(operator):
        operator.outputs[0].type = FloatTensorType([None, 4])

    door.update_registered_converter(Shift, "TestShift", shape, convert_shift)
    yield request.param
    sklearn_operator_name_map.pop(Shift)


def test_a_wrong_converter_is_not_used(converter):
    model = door.convert(Shift(), X)
    assert bool(door.filled(model)) == (converter is not right)
    assert_agrees(model, Shift(), X * 1000)
    assert_agrees(model, Shift(), X[:7])


class Counted(Shift):
    """Counts how often it is called."""

    calls = []

    def transform(self, X):
        self.calls.append(len(X))
        return super().transform(X)


class BelowMax(KeepsNothing):
    """Looks at all rows together, and takes no NaN, which ONNX Runtime's ReduceMax leaves out."""

    def transform(self, X):
        if not np.isfinite(X).all():
            raise ValueError("not finite")
        return np.asarray(X) - np.asarray(X).max(axis=0)


def convert_counted(x, outputs):
    return OnnxAdd(x, np.float32([1]), op_version=15, output_names=outputs)


def convert_below_max(x, outputs):
    largest = OnnxReduceMax(x, axes=[0], keepdims=1, op_version=15)
    return OnnxSub(x, largest, op_version=15, output_names=outputs)


@pytest.mark.parametrize(
    ("cls", "convert"), [(Counted, convert_counted), (BelowMax, convert_below_max)]
)
def test_an_estimator_is_called_a_few_times_and_may_look_at_all_rows(cls, convert):
    def convert_operator(scope, operator, container):
        convert(operator.inputs[0], operator.outputs).add_to(scope, container)

    def shape(operator):
        operator.outputs[0].type = FloatTensorType([None, 4])

    Counted.calls.clear()
    door.update_registered_converter(cls, f"Test{cls.__name__}", shape, convert_operator)
    try:
        model = door.convert(cls(), X)
    finally:
        sklearn_operator_name_map.pop(cls)
    # Three times with X, then with each set of few rows.
    assert len(Counted.calls) <= 20 and Counted.calls.count(len(X)) <= 3
    assert not door.filled(model)
    assert_agrees(model, cls(), X[:7])


def test_what_was_not_verified_says_so(converter):
    model = door.convert(Shift(), X, verify=False)
    assert not door.filled(model)
    assert [(entry.key, entry.value) for entry in model.metadata_props] == [
        ("pyopnb.verified", "no")
    ]
    assert not door.convert(Shift(), X).metadata_props


class Capped(KeepsNothing):
    """Caps numbers, in a table that has texts as well."""

    def transform(self, X):
        return np.minimum(np.asarray(X), np.float32(50))


def test_unusual_numbers_are_tried_in_a_table_with_texts():
    def convert_uncapped(scope, operator, container):
        node = OnnxAdd(
            operator.inputs[0], np.float32([0]), op_version=15, output_names=operator.outputs
        )
        node.add_to(scope, container)

    def shape(operator):
        operator.outputs[0].type = FloatTensorType([None, 1])

    table = pd.DataFrame({"a": X[:, 0], "text": ["u", "v", "w"] * 20})
    columns = [("cap", Capped(), ["a"]), ("text", OneHotEncoder(), ["text"])]
    trained = ColumnTransformer(columns, sparse_threshold=0).fit(table)
    door.update_registered_converter(Capped, "TestCapped", shape, convert_uncapped)
    try:
        model = door.convert(trained, table)
    finally:
        sklearn_operator_name_map.pop(Capped)
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
