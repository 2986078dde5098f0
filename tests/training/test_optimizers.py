"""The updates equal plain ONNX operators in the ONNX reference implementation."""

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from onnx.reference import ReferenceEvaluator

import pyopnb
from pyopnb.training.nodes import Nodes
from pyopnb.training.optimizers import find_optimizer

CASES = {
    "adam": (pyopnb.training.Adam(0.1), "Adam", {"alpha": 0.9, "beta": 0.999, "epsilon": 1e-8}),
    "adam with weight decay": (
        pyopnb.training.Adam(0.1, weight_decay=0.2, beta1=0.5, beta2=0.7, epsilon=1e-3),
        "Adam",
        {"alpha": 0.5, "beta": 0.7, "epsilon": 1e-3, "norm_coefficient": 0.2},
    ),
    "momentum": (
        pyopnb.training.Momentum(0.1, momentum=0.8),
        "Momentum",
        {"alpha": 0.8, "beta": 1.0, "mode": "standard", "norm_coefficient": 0.0},
    ),
    "nesterov": (
        pyopnb.training.Momentum(0.1, weight_decay=0.3, nesterov=True),
        "Momentum",
        {"alpha": 0.9, "beta": 1.0, "mode": "nesterov", "norm_coefficient": 0.3},
    ),
    "adagrad": (
        pyopnb.training.Adagrad(0.1, weight_decay=0.1),
        "Adagrad",
        {"decay_factor": 0.0, "epsilon": 1e-6, "norm_coefficient": 0.1},
    ),
    "sgd": (
        pyopnb.training.SGD(0.1),
        "Momentum",
        {"alpha": 0.0, "beta": 1.0, "mode": "standard", "norm_coefficient": 0.0},
    ),
}


def reference(op, attrs, rate, number, weight, gradient, slots):
    names = ["r", "t", "x", "g", *(f"s{k}" for k in range(len(slots)))]
    outputs = ["x_new", *(f"s{k}_new" for k in range(len(slots)))]
    node = helper.make_node(op, names, outputs, domain="ai.onnx.preview.training", **attrs)
    infos = [
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in each]
        for each in (names, outputs)
    ]
    opsets = [helper.make_opsetid("", 18), helper.make_opsetid("ai.onnx.preview.training", 1)]
    model = helper.make_model(helper.make_graph([node], "step", *infos), opset_imports=opsets)
    values = [np.float32(rate), np.int64(number), weight, gradient, *slots]
    return ReferenceEvaluator(model).run(None, dict(zip(names, values, strict=True)))


def session(optimizer, dtype="float32"):
    graph = onnx.GraphProto(name="step")
    nodes = Nodes(graph, "train")
    nodes.input("t", "int64", ())
    names = ["x", *optimizer.slots]
    for name in (*names, "g"):
        nodes.input(name, dtype, (3, 4))
    made = optimizer.update(
        nodes, "x", "g", optimizer.slots, optimizer.rate(nodes, "t", dtype), dtype
    )
    for name in made:
        nodes.output(name, dtype, (3, 4))
    return pyopnb.Session(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10)
    )


@pytest.mark.parametrize("name", CASES)
def test_five_steps_are_those_of_the_reference_implementation(name):
    optimizer, op, attrs = CASES[name]
    rng = np.random.default_rng(0)
    weight = rng.standard_normal((3, 4)).astype(np.float32)
    slots = [np.zeros_like(weight) for _ in optimizer.slots]
    expected = [weight, *(slots or [np.zeros_like(weight)])]
    ours, run = [weight, *slots], session(optimizer)
    for number in range(1, 6):
        gradient = rng.standard_normal((3, 4)).astype(np.float32)
        expected = reference(
            op, attrs, optimizer.learning_rate, number, expected[0], gradient, expected[1:]
        )
        ours = list(
            run(
                {
                    "t": np.int64(number),
                    "g": gradient,
                    **dict(zip(["x", *optimizer.slots], ours, strict=True)),
                }
            )
        )
        for mine, theirs in zip(ours, expected, strict=False):
            np.testing.assert_allclose(mine, theirs, rtol=2e-5, atol=1e-7)
    assert len(ours) == 1 + len(optimizer.slots)


def test_the_comparison_can_fail():
    weight, gradient = np.ones((3, 4), np.float32), np.ones((3, 4), np.float32)
    ours = session(pyopnb.training.SGD(0.1))(t=np.int64(1), x=weight, g=gradient)[0]
    theirs = reference("Momentum", CASES["sgd"][2], 0.11, 1, weight, gradient, [weight * 0])[0]
    assert np.abs(ours - theirs).max() > 5e-3


def test_doubles_stay_doubles():
    x = np.ones((3, 4))
    result = session(pyopnb.training.Adam(0.1), "float64")(
        t=np.int64(1), x=x, g=x, mean=x * 0, square=x * 0
    )
    np.testing.assert_allclose(result[0], 0.9, rtol=1e-7)


def test_names_of_optimizers():
    assert find_optimizer("Adam") == pyopnb.training.Adam()
    with pytest.raises(
        pyopnb.errors.InputError,
        match=r"train, optimizer: expected one of sgd.*got 'adma'\. Try: adam",
    ):
        find_optimizer("adma")


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (
            lambda: pyopnb.training.Adam(-1),
            r"Adam, learning_rate: expected a number from 0 on, got -1",
        ),
        (
            lambda: pyopnb.training.SGD(float("nan")),
            r"SGD, learning_rate: expected a number from 0 on, got nan",
        ),
        (
            lambda: pyopnb.training.Adam(beta2=1.0),
            r"Adam, beta2: expected a number from 0 to below 1, got 1\.0",
        ),
    ],
)
def test_numbers_that_make_no_sense(make, text):
    with pytest.raises(pyopnb.errors.InputError, match=text):
        make()
