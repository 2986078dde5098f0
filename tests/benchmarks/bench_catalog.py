"""Operators of the catalog beside the kernels of ONNX Runtime that are nearest to them, on the same numbers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from types import MappingProxyType

import numpy as np
from table import Row, milli, timed

import pyopnb

REPEATS = 10


def compared(
    what: str, name: str, bar: float, entry: partial, lowered: partial, own: partial
) -> Iterator[Row]:
    """Yield a row for the NumPy of an entry, and one for its form in plain ONNX operators."""
    ways = {"entry": entry, "lowered": lowered, "own": own}
    seconds = timed(ways, REPEATS)
    peer = f"{milli(seconds['own'])} of ONNX Runtime's {name}"
    for way, label in (("entry", what), ("lowered", "… lowered")):
        yield Row(label, milli(seconds[way]), peer, seconds[way] / seconds["own"], bar)


def in_plain_runtime(op: str, *inputs: np.ndarray | None, **attrs: object) -> partial:
    """Return a call of an operator's form, in a session without ops."""
    function = pyopnb.lower(op, *inputs, **attrs, verify=False)
    function.domain = "plain"
    opset = next(entry.version for entry in function.opset_import if not entry.domain)
    name = f"plain::{function.name}"
    return in_session(name, inputs, len(function.output), functions=[function], opset=opset)


def in_session(
    op: str,
    inputs: Sequence[np.ndarray | None],
    outputs: int = 1,
    attrs: Mapping[str, object] = MappingProxyType({}),
    **options: object,
) -> partial:
    """Return a call of one node in a session of its own; `options` are as for `pyopnb.model`."""
    names, types, feeds = [], {}, {}
    for number, array in enumerate(inputs):
        names.append("" if array is None else f"x{number}")
        if array is not None:
            types[names[-1]] = f"{array.dtype}[{','.join(map(str, array.shape))}]"
            feeds[names[-1]] = array
    results = [f"y{number}" for number in range(outputs)]
    model = pyopnb.model([pyopnb.node(op, names, results, **attrs)], types, results, **options)
    return partial(pyopnb.Session(model).run, None, feeds)


def rows() -> Iterator[Row]:
    random = np.random.default_rng(0)
    corner = random.uniform(0, 600, (1, 25_200, 2))
    boxes = np.float32(np.concatenate([corner, corner + random.uniform(5, 60, corner.shape)], -1))
    scores = np.float32(random.random((1, 25_200, 80)) ** 60)
    attrs = {"score_threshold": 0.25, "iou_threshold": 0.45, "max_output_boxes": 100}
    limits = np.int64([100]), np.float32([0.45]), np.float32([0.25])
    by_class = np.ascontiguousarray(scores.transpose(0, 2, 1))
    yield from compared(
        "EfficientNMS_TRT, 25,200 boxes of 80 classes",
        "NonMaxSuppression",
        3,
        partial(pyopnb.call, "TRT::EfficientNMS_TRT", boxes, scores, **attrs),
        in_plain_runtime("TRT::EfficientNMS_TRT", boxes, scores, **attrs),
        partial(pyopnb.call, "NonMaxSuppression", boxes, by_class, *limits),
    )
    x, offset = random.normal(size=(1, 64, 64, 64)), random.normal(size=(1, 18, 64, 64))
    mask, weight = random.random((1, 9, 64, 64)), random.normal(size=(64, 64, 3, 3))
    x, offset, mask, weight = (array.astype(np.float32) for array in (x, offset, mask, weight))
    name = "mmdeploy::MMCVModulatedDeformConv2d"
    bias = np.zeros(64, np.float32)
    pads = [1, 1, 1, 1]
    yield from compared(
        "deformable convolution, 64 to 64 channels of 64×64",
        "DeformConv",
        1.2,
        partial(pyopnb.call, name, x, offset, mask, weight, padding=[1, 1]),
        in_plain_runtime(name, x, offset, mask, weight, padding=[1, 1]),
        partial(pyopnb.call, "DeformConv", x, weight, offset, bias, mask, pads=pads),
    )
    images = random.normal(size=(1, 64, 64, 320)).astype(np.float32)
    scale = np.ones(320, np.float32)
    turned = np.ascontiguousarray(images.transpose(0, 3, 1, 2))
    attrs = {"groups": 32, "activation": 0}
    yield from compared(
        "GroupNorm of com.microsoft, 1×64×64×320",
        "GroupNormalization, transposed",
        3,
        partial(pyopnb.call, "com.microsoft::GroupNorm", images, scale, scale, **attrs),
        in_plain_runtime("com.microsoft::GroupNorm", images, scale, scale, **attrs),
        partial(pyopnb.call, "GroupNormalization", turned, scale, scale, num_groups=32),
    )
