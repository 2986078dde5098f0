"""A tenth of the corpus: models that need only what every test needs. `frameworks/test_corpus.py` has all."""

import from_onnx  # noqa: F401  # enters models
import pytest
from trial import pairs, tried

FEW = [
    "onnx ConvTranspose2d",
    "onnx operator_convtranspose",
    "onnx sequence_model1",
    "onnx loop11",
    "onnx range_float_type_positive_delta_expanded",
    "onnx ai_onnx_ml_tree_ensemble_single_tree",
    "transformer",
    "transformer quantized",
]


@pytest.mark.parametrize(("name", "way"), pairs(FEW))
def test_way(name: str, way: str) -> None:
    tried(name, way)
