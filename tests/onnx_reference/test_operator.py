"""The ONNX reference implementation of one operator, called."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from onnx import helper

import pyopnb
from pyopnb.onnx_reference.operator import Evaluation, stand_in_class

ROOT = Path(pyopnb.__file__).parents[
    1
]  # where Python that is started anew finds the pyopnb under test

F = np.float32


def test_an_operator_of_another_domain() -> None:
    found = pyopnb.reference(
        "ai.onnx.ml::LabelEncoder",
        np.array(["b", "a", "?"], object),
        keys_strings=["a", "b"],
        values_int64s=[1, 2],
        default_int64=9,
    )
    assert found.tolist() == [2, 1, 9]


def test_a_variadic_output_needs_a_count() -> None:
    x = F([1, 2, 3, 4])
    assert [part.tolist() for part in pyopnb.reference("Split", x, num_outputs=2)] == [
        [1, 2],
        [3, 4],
    ]
    assert [
        part.tolist() for part in pyopnb.reference("Split", x, np.int64([1, 3]), outputs=2)
    ] == [[1], [2, 3, 4]]
    with pytest.raises(
        pyopnb.errors.ModelError, match=r"::Split: expected outputs=…, .* Try: outputs=2"
    ):
        pyopnb.reference("Split", x, np.int64([1, 3]))


def test_a_sequence() -> None:
    made = pyopnb.reference("SequenceInsert", [F([1]), F([2])], F([3]))
    assert [item.tolist() for item in made] == [[1], [2], [3]]
    assert pyopnb.reference("SequenceAt", made, np.int64(0)).tolist() == [1]


def test_softmax_before_13_takes_the_axes_from_one_on_for_one() -> None:
    x = np.float32([[[0, 1], [2, 3]], [[4, np.nan], [6, 7]]])
    shares = np.exp(x.reshape(2, 4).astype(float))
    shares /= shares.sum(axis=1, keepdims=True)
    old = pyopnb.reference("Softmax", x, opset=11)
    np.testing.assert_allclose(old.reshape(2, 4), shares, rtol=1e-6)
    assert not np.allclose(old[0], pyopnb.reference("Softmax", x, opset=13)[0])
    np.testing.assert_allclose(
        pyopnb.reference("LogSoftmax", x, axis=-2, opset=1)[0].ravel(), np.log(shares[0]), rtol=1e-6
    )
    assert pyopnb.reference("Hardmax", x[:1], axis=1, opset=11).tolist() == [[[0, 0], [0, 1]]]
    assert pyopnb.reference("Softmax", x.astype("float16"), axis=0, opset=1).dtype == np.float16
    assert pyopnb.reference("Softmax", x[:0], opset=11).shape == (0, 2, 2)


@pytest.mark.parametrize("opset", [7, 9, 14])
def test_a_batch_normalization_that_does_not_train(opset: int) -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(2, 3, 4)).astype(F)
    scale, bias, mean, var = (rng.uniform(1, 2, (3, 1)).astype(F) for _ in range(4))
    rest = [v[:, 0] for v in (scale, bias, mean, var)]
    found = pyopnb.reference("BatchNormalization", x, *rest, opset=opset, epsilon=1e-3)
    if opset == 7:
        assert np.array_equal(
            found,
            Evaluation("", "BatchNormalization", 7, {"epsilon": 1e-3, "spatial": 1}, 1)(x, *rest)[
                0
            ],
        )
    np.testing.assert_allclose(found, (x - mean) / np.sqrt(var + 1e-3) * scale + bias, rtol=1e-5)


@pytest.mark.parametrize("bias", [None, F([10, 20])])
def test_an_operator_that_is_only_defined_by_a_function_of_types(bias: np.ndarray | None) -> None:
    x = np.arange(4, dtype=F).reshape(1, 2, 2)
    scale, zero = np.ones(2, F), np.zeros(2, F)
    normal = pyopnb.reference(
        "GroupNormalization", x, scale, zero if bias is None else bias, num_groups=1
    )
    assert normal.shape == x.shape and np.allclose(
        normal.mean(), 0 if bias is None else 15, atol=1e-5
    )


def test_a_graph_among_the_attrs() -> None:
    body = pyopnb.model(
        pyopnb.node("Add", "total item", "sum"),
        {"total": "float32[]", "item": "float32[]"},
        {"sum": "float32[]"},
    )
    body.graph.node.append(helper.make_node("Identity", ["sum"], ["each"]))
    body.graph.output.append(helper.make_tensor_value_info("each", 1, []))
    total, each = pyopnb.reference(
        "Scan", F(0), F([1, 2, 3]), body=body, num_scan_inputs=1, outputs=2
    )
    assert total == 6 and each.ravel().tolist() == [1, 3, 6]  # onnx 1.19 gives it an axis too many


# ---- what is refused ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("value", "got"), [("a", "str a"), ([1.0], "list"), (0.5, "float 0.5")])
def test_an_attr_of_another_kind(value: object, got: str) -> None:
    with pytest.raises(
        pyopnb.errors.ModelError,
        match=rf"::Softmax, attr axis: expected a value of kind INT, got {got.split()[0]}",
    ):
        pyopnb.reference("Softmax", F([1]), axis=value)


# ---- the pieces --------------------------------------------------------------------------------------------------------------


def test_a_stand_in_is_an_op() -> None:
    pyopnb.registry.define(stand_in_class("", "TopK", 11), "demo::TopK")
    model = pyopnb.model(
        [pyopnb.node("demo::TopK", "x k", "v i", reference_outputs=2, axis=0)],
        {"x": "float32[N]", "k": "int64[1]"},
        "v i",
    )
    values, places = pyopnb.Session(model)(x=F([3, 1, 2]), k=np.int64([2]))
    assert values.tolist() == [3, 2] and places.dtype == np.int64


@pytest.mark.one_python  # processes of their own
def test_importing_pyopnb_does_not_import_the_reference() -> None:
    show = "import pyopnb, sys; print('onnx.reference' in sys.modules)"
    use = (
        "import pyopnb, sys; pyopnb.reference('Abs', -1.0); print('onnx.reference' in sys.modules)"
    )
    runs = [
        subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT
        ).stdout
        for code in (show, use)
    ]
    assert [run.strip() for run in runs] == ["False", "True"]
