"""Call entries of the catalog as ops of the registry, which ONNX Runtime runs; and what tests judge them by."""

import numpy as np

import pyopnb
from pyopnb.catalog.index import find_entry


def run(name, /, *inputs, **attrs):
    entry = find_entry(name, len(inputs))
    local = f"test.catalog::{entry.op_class.__name__}"
    pyopnb.registry.define(entry.op_class, local)
    return pyopnb.call(local, *inputs, **attrs)


def near(result, expected, rtol, atol=0):
    # Looked up at each call: tests/benchmarks/catalog_agreement.py records what is compared.
    np.testing.assert_allclose(result, expected, rtol, atol)


def equal(result, expected):
    np.testing.assert_array_equal(result, expected)


def softmax(x, axis=-1):
    exponentials = np.exp(x - x.max(axis=axis, keepdims=True))
    return exponentials / exponentials.sum(axis=axis, keepdims=True)


def random_boxes(random, *shape, within=50, largest=30):
    """Boxes as corners."""
    corner = random.uniform(0, within, (*shape, 2))
    size = random.uniform(1, largest, (*shape, 2))
    return np.concatenate([corner, corner + size], -1).astype(np.float32)


def pixel(image, row, column):
    """A value between four pixels, each of which is 0 outside the image."""
    top, left = int(np.floor(row)), int(np.floor(column))
    total = 0.0
    for y, x in ((top, left), (top, left + 1), (top + 1, left), (top + 1, left + 1)):
        if 0 <= y < image.shape[0] and 0 <= x < image.shape[1]:
            total += float(image[y, x]) * (1 - abs(row - y)) * (1 - abs(column - x))
    return total
