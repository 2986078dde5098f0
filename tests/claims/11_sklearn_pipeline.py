"""What tutorial 11_sklearn_pipeline claims: run after its last cell, among the notebook's own names."""

assert sorted(type(row.estimator).__name__ for row in filled) == [
    "Nystroem",
    "RandomForestRegressor",
    "SplineTransformer",
]
assert len(model.graph.node) > 10
assert from_sklearn.ok
assert without_nystroem.ok
np.testing.assert_allclose(from_file, trained[0].transform(test), rtol=1e-4, atol=1e-4)
