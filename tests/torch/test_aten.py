"""ATen nodes and torch functions of the catalog, against torch."""

import numpy as np
import pytest
import torch

import pyopnb

RANDOM = np.random.default_rng(0)
X = RANDOM.standard_normal((2, 3, 8, 6)).astype(np.float32)


def run_aten(operator, *inputs, **options):
    return pyopnb.call("org.pytorch.aten::ATen", X, *inputs, operator=operator, **options)


@pytest.mark.parametrize(
    ("operator", "inputs", "function"),
    [
        ("logcumsumexp", [np.int64(1)], lambda x: torch.logcumsumexp(x, 1)),
        ("roll", [np.int64([1, -2]), np.int64([2, 3])], lambda x: x.roll((1, -2), (2, 3))),
        # A file of the catalog in NumPy.
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


def of_torch(name, *inputs, **attrs):
    return pyopnb.call(f"org.pytorch.aten::{name}", *inputs, **attrs)


@pytest.mark.parametrize("padding_idx", [None, 3, -1])
@pytest.mark.parametrize("has_last", [False, True])
@pytest.mark.parametrize("mode", [0, 1, 2])
def test_bags_of_embeddings(mode, has_last, padding_idx):
    weight = RANDOM.normal(size=(6, 3)).astype(np.float32)
    indices, offsets = np.int64([1, 5, 3, 0, 3]), np.int64([0, 2, 2])
    if has_last:
        offsets = np.append(offsets, len(indices))
    attrs = {"operator": "embedding_bag", "mode": mode, "include_last_offset": int(has_last)}
    if padding_idx is not None:
        attrs["padding_idx"] = padding_idx
    bags, *_ = of_torch("ATen", weight, indices, offsets, **attrs, outputs=4)
    tensors = map(torch.tensor, (weight, indices, offsets))
    expected, *_ = torch.ops.aten.embedding_bag(
        *tensors, False, mode, False, None, has_last, padding_idx
    )
    np.testing.assert_allclose(bags, expected, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("size", [(3, 5), (1, 1), (4, 4), (9, 2)], ids=str)
def test_adaptive_pools(size):
    means = of_torch("adaptive_avg_pool2d", X, np.int64(size))
    maxima, places = of_torch("adaptive_max_pool2d", X, np.int64(size), outputs=2)
    images = torch.tensor(X)
    expected = torch.nn.functional.adaptive_avg_pool2d(images, size)
    np.testing.assert_allclose(means, expected, rtol=1e-5, atol=1e-6)
    expected, where = torch.ops.aten.adaptive_max_pool2d(images, size)
    np.testing.assert_array_equal(maxima, expected)
    np.testing.assert_array_equal(places, where)


@pytest.mark.parametrize("form", [([3], [2], [1], [1]), ([2, 3], [], [1, 1], [2, 1])], ids=str)
def test_pools_and_back(form):
    numbers = [np.int64(item) for item in form]
    maxima, places = of_torch("max_pool2d_with_indices", X, *numbers, np.bool_(False), outputs=2)
    expected, where = torch.ops.aten.max_pool2d_with_indices(torch.tensor(X), *form)
    np.testing.assert_array_equal(maxima, expected)
    np.testing.assert_array_equal(places, where)
    # Without overlaps, each place has one maximum.
    if form[0] == [2, 3]:
        back = of_torch("max_unpool2d", maxima, places, np.int64([8, 6]))
        np.testing.assert_array_equal(back, torch.ops.aten.max_unpool2d(expected, where, [8, 6]))


def test_an_argument_may_be_an_attribute():
    result = run_aten("logcumsumexp", dim=1)
    np.testing.assert_array_equal(result, run_aten("logcumsumexp", np.int64(1)))
