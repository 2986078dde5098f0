"""ATen nodes of the catalogue, of functions that only torch has, against torch."""

import numpy as np
import pytest
import torch

import pyopnb

X = np.random.default_rng(0).standard_normal((2, 3, 8, 6)).astype(np.float32)


def run_aten(operator, *inputs, **options):
    return pyopnb.call("org.pytorch.aten::ATen", X, *inputs, operator=operator, **options)


@pytest.mark.parametrize(
    ("operator", "inputs", "function"),
    [
        ("logcumsumexp", [np.int64(1)], lambda x: torch.logcumsumexp(x, 1)),
        ("roll", [np.int64([1, -2]), np.int64([2, 3])], lambda x: x.roll((1, -2), (2, 3))),
        # A file of the catalogue in NumPy.
        ("adaptive_avg_pool2d", [np.int64([3, 2])], torch.nn.AdaptiveAvgPool2d((3, 2))),
    ],
)
def test_a_node_of_aten_is_the_function_of_torch(operator, inputs, function):
    expected = function(torch.from_numpy(X)).numpy()
    np.testing.assert_allclose(run_aten(operator, *inputs), expected, rtol=1e-6, atol=1e-6)


def test_an_overload_with_several_results():
    axes = np.int64([0, 2])
    results = run_aten("var_mean", axes, np.True_, overload_name="dim", outputs=2)
    expected = torch.var_mean(torch.from_numpy(X), (0, 2))
    for result, tensor in zip(results, expected, strict=True):
        np.testing.assert_array_equal(result, tensor.numpy())
