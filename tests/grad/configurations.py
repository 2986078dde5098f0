"""Gradients of ONNX's operators over opsets, attributes, shapes and dtypes, judged by central differences.

``python tests/grad/configurations.py`` prints how many are right, refused for which reason, and wrong. The
reference is none of ours: ONNX's reference implementation in float64, or onnxruntime where that has no such
version. The loss is a random sum of the outputs.
"""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
import onnxruntime
from onnx import ModelProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

import pyopnb
from pyopnb.errors import ModelError

NEWEST = 24
TOLERANCES = {"float64": 1e-5, "float32": 2e-3, "float16": 5e-2}
"""Of the largest derivative."""


@dataclass
class Configuration:
    """A node, its opset, and the arrays that go in; those of floats are derived, but for constants."""

    op: str
    opset: int
    inputs: list[np.ndarray | None]
    attrs: dict[str, Any] = field(default_factory=dict)
    constants: tuple[int, ...] = ()
    outputs: int = 1
    dtype: str = "float32"
    unread: tuple[str, ...] = ()

    def __str__(self) -> str:
        shapes = [None if array is None else list(array.shape) for array in self.inputs]
        return f"{self.op}-{self.opset} {self.dtype} {shapes} {self.attrs}"

    @property
    def moved(self) -> list[int]:
        chosen = []
        for place, array in enumerate(self.inputs):
            if array is not None and array.dtype.kind == "f" and place not in self.constants:
                chosen.append(place)
        return chosen

    def model(self, dtype: str, weights: list[np.ndarray] | None = None) -> ModelProto:
        """Make the model; its outputs are those of the node, or their weighted sum."""
        arrays = self.arrays(dtype)
        names = ["" if array is None else f"x{place}" for place, array in enumerate(arrays)]
        outputs = [f"y{place}" for place in range(self.outputs)]
        nodes = [helper.make_node(self.op, names, [*outputs, *self.unread], **self.attrs)]
        constants = []
        for place, array in enumerate(arrays):
            if array is not None and place not in self.moved:
                constants.append(numpy_helper.from_array(array, f"x{place}"))
        element = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
        results = [helper.make_tensor_value_info(name, element, None) for name in outputs]
        if weights is not None:
            for place, weight in enumerate(weights):
                constants.append(numpy_helper.from_array(weight.astype(dtype), f"w{place}"))
                nodes.append(helper.make_node("Mul", [f"y{place}", f"w{place}"], [f"m{place}"]))
                nodes.append(
                    helper.make_node("ReduceSum", [f"m{place}"], [f"s{place}"], keepdims=0)
                )
            sums = [f"s{place}" for place in range(len(weights))]
            nodes.append(helper.make_node("Sum", sums, ["loss"]))
            results = [helper.make_tensor_value_info("loss", element, [])]
        inputs = []
        for place in self.moved:
            shape = arrays[place].shape
            inputs.append(helper.make_tensor_value_info(f"x{place}", element, shape))
        graph = helper.make_graph(nodes, "g", inputs, results, constants)
        imports = [helper.make_opsetid("", self.opset)]
        return helper.make_model(graph, opset_imports=imports, ir_version=8)

    def arrays(self, dtype: str) -> list[np.ndarray | None]:
        arrays = []
        for array in self.inputs:
            is_float = array is not None and array.dtype.kind == "f"
            arrays.append(array.astype(dtype) if is_float else array)
        return arrays

    def feeds(self, dtype: str) -> dict[str, np.ndarray]:
        arrays = self.arrays(dtype)
        return {f"x{place}": arrays[place] for place in self.moved}


# ---- the reference ------------------------------------------------------------------------------


Feeds = dict[str, np.ndarray]
Run = Callable[[Feeds], list[np.ndarray]]


def _references(configuration: Configuration) -> Iterator[Run]:
    """Yield what runs the node in float64: neither has each operator in each version."""
    model = configuration.model("float64")
    with suppress(Exception):
        evaluator = ReferenceEvaluator(model)
        yield lambda feeds: evaluator.run(None, feeds)
    with suppress(Exception):
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 4
        session = onnxruntime.InferenceSession(model.SerializeToString(), options)
        yield lambda feeds: session.run(None, feeds)


def _expected(configuration: Configuration) -> tuple[list[np.ndarray], float, Feeds] | None:
    """Return random weights of the outputs, their sum and its gradients; None if nothing tells."""
    feeds = configuration.feeds("float64")
    random = np.random.default_rng(0)
    for run in _references(configuration):
        try:
            outputs = [np.asarray(output) for output in run(feeds)]
            weights = [random.normal(size=output.shape) for output in outputs]
            coarse, fine = (_differences(run, feeds, weights, step) for step in (1e-4, 1e-5))
        except Exception:  # it has the operator, and not in this dtype
            continue
        # A kernel of float64 that computes in float32 gives other differences for each step.
        if all(output.dtype == np.float64 for output in outputs) and all(
            np.allclose(coarse[name], fine[name], rtol=0, atol=1e-4 * np.abs(fine[name]).max())
            for name in feeds
        ):
            loss = sum(float(np.sum(y * w)) for y, w in zip(outputs, weights, strict=True))
            return weights, loss, fine
    return None


def _differences(run: Run, feeds: Feeds, weights: list[np.ndarray], step: float) -> Feeds:
    def loss(moved: Feeds) -> float:
        outputs = run(moved)
        return sum(float(np.sum(y * w)) for y, w in zip(outputs, weights, strict=True))

    gradients = {}
    for name, array in feeds.items():
        gradient = np.zeros(array.shape)
        for place in np.ndindex(array.shape):
            ends = []
            for sign in (1, -1):
                moved = array.copy()
                moved[place] += sign * step
                ends.append(loss({**feeds, name: moved}))
            gradient[place] = (ends[0] - ends[1]) / (2 * step)
        gradients[name] = gradient
    return gradients


def judge(configuration: Configuration) -> tuple[str, str]:
    """Return right, refused, wrong or no reference, and why."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        reference = _expected(configuration)
        if reference is None:
            return "no reference", ""
        weights, loss, expected = reference
        model = configuration.model(configuration.dtype, weights)
        feeds = configuration.feeds(configuration.dtype)
        try:
            derived = pyopnb.grad(model, list(feeds), "loss", verify=False)
            results = pyopnb.Session(derived, fill=True)(**feeds)
        except ModelError as error:
            return "refused", str(error)
        except Exception as error:
            return "wrong", f"{type(error).__name__}: {error}"
        # ONNX's reference takes LpNormalization of p = 1 without the absolute values.
        if abs(float(results["loss"]) - loss) > 0.05 * max(1, abs(loss)):
            return "no reference", "runtimes disagree on the outputs"
        for name, want in expected.items():
            got = np.asarray(results[f"grad_{name}"]).astype(np.float64)
            if got.shape != want.shape:
                return "wrong", f"{name}: shape {got.shape} instead of {want.shape}"
            allowed = TOLERANCES[configuration.dtype] * max(float(np.abs(want).max()), 1e-3)
            off = np.abs(got - want)
            if not np.all(off <= allowed):
                worst = np.unravel_index(np.argmax(np.nan_to_num(off, nan=np.inf)), off.shape)
                place = list(map(int, worst))
                return "wrong", f"{name}{place}: {got[worst]:.6g} instead of {want[worst]:.6g}"
        try:
            pyopnb.grad(model, list(feeds), "loss", feeds=feeds)
        except ModelError as error:
            return "wrongly refused", str(error)
        return "right", ""


# ---- the configurations -------------------------------------------------------------------------


def versions(op: str) -> list[int]:
    """Return an opset for each version of an operator from 8 on: 7 is refused."""
    opsets = {}
    for opset in range(8, NEWEST + 1):
        try:
            since = onnx.defs.get_schema(op, opset).since_version
        except onnx.defs.SchemaError:
            continue
        opsets.setdefault(since, opset)
    return list(opsets.values())


def _draw(*shape: int, low: float = -2.0, high: float = 2.0, seed: int = 0) -> np.ndarray:
    """Draw numbers that are no ties: no two are nearer than 1e-4, and none to 0."""
    random = np.random.default_rng((seed, *shape))
    return random.uniform(low, high, shape)


def _ints(*values: int) -> np.ndarray:
    return np.array(values, np.int64)


_UNARY = {
    **dict.fromkeys(
        [
            "Abs",
            "Atan",
            "Celu",
            "Cos",
            "Cosh",
            "Elu",
            "Erf",
            "Exp",
            "Gelu",
            "HardSigmoid",
            "HardSwish",
            "Identity",
            "LeakyRelu",
            "Mish",
            "Neg",
            "Relu",
            "Selu",
            "Shrink",
            "Sigmoid",
            "Sin",
            "Sinh",
            "Softplus",
            "Softsign",
            "Tanh",
            "ThresholdedRelu",
            "Asinh",
            "Floor",
            "Round",
            "Sign",
        ],
        (-2.0, 2.0),
    ),
    **dict.fromkeys(["Acos", "Asin", "Atanh", "Tan"], (-0.8, 0.8)),
    **dict.fromkeys(["Log", "Sqrt", "Reciprocal"], (0.3, 2.0)),
    "Acosh": (1.2, 3.0),
}
_UNARY_ATTRS: dict[str, list[dict[str, Any]]] = {
    "Celu": [{"alpha": 0.5}],
    "Elu": [{"alpha": 0.5}],
    "Gelu": [{"approximate": "tanh"}],
    "HardSigmoid": [{"alpha": 0.4, "beta": 0.3}],
    "LeakyRelu": [{"alpha": 0.3}, {"alpha": -0.3}],
    "Selu": [{"alpha": 1.1, "gamma": 0.7}],
    "Shrink": [{"lambd": 0.7, "bias": 0.2}],
    "ThresholdedRelu": [{"alpha": 0.4}],
}


def _unary() -> Iterator[Configuration]:
    for op, (low, high) in _UNARY.items():
        for opset in versions(op):
            for dtype in ("float32", "float64"):
                for attrs in [{}, *_UNARY_ATTRS.get(op, [])]:
                    x = _draw(2, 3, low=low, high=high)
                    yield Configuration(op, opset, [x], attrs, dtype=dtype)
        yield Configuration(op, versions(op)[-1], [_draw(low=low, high=high)])
        yield Configuration(op, versions(op)[-1], [_draw(4, low=low, high=high)], dtype="float16")


def _binary() -> Iterator[Configuration]:
    shapes = [((2, 3), (2, 3)), ((2, 3), (3,)), ((2, 1), (1, 3)), ((), (2, 3)), ((2, 3), ())]
    for op in ("Add", "Sub", "Mul", "Div", "Pow", "Max", "Min", "Mod", "PRelu"):
        for opset in versions(op):
            for left, right in shapes:
                if op == "PRelu" and np.broadcast_shapes(left, right) != left:
                    continue  # a slope has the shape of its input
                attrs = {"fmod": 1} if op == "Mod" else {}
                low = 0.4 if op in ("Div", "Pow", "Mod") else -2.0
                inputs = [_draw(*left, low=low, seed=1), _draw(*right, low=low, seed=2)]
                yield Configuration(op, opset, inputs, attrs)
    for op in ("Max", "Min", "Mean", "Sum"):
        for opset in versions(op):
            for count in (1, 3):
                inputs = [
                    _draw(*shape, seed=place) for place, shape in enumerate([(2, 3), (3,), (2, 1)])
                ]
                yield Configuration(op, opset, inputs[:count])
    for exponent in (-1.0, 0.5, 2.0, 3.0):
        yield Configuration("Pow", 13, [_draw(5, low=0.3), np.array(exponent)], constants=(1,))
    yield Configuration("Pow", 13, [_draw(5), np.array(3, np.int64)])
    yield Configuration("Pow", 13, [np.array([0.0, 1.0, -2.0]), np.array(2.0)], constants=(1,))


def _with_axes(
    op: str, opset: int, x: np.ndarray, axes: list[int] | None, since: int, **attrs: Any
) -> Configuration:
    """Give axes as an attribute before a version, and as an input from it on."""
    if opset < since:
        given = {} if axes is None else {"axes": axes}
        return Configuration(op, opset, [x], {**attrs, **given})
    inputs = [x] if axes is None else [x, _ints(*axes)]
    return Configuration(op, opset, inputs, attrs)


def _reductions() -> Iterator[Configuration]:
    for op in [
        "ReduceSum",
        "ReduceMean",
        "ReduceMax",
        "ReduceMin",
        "ReduceProd",
        "ReduceL1",
        "ReduceL2",
        "ReduceLogSum",
        "ReduceLogSumExp",
        "ReduceSumSquare",
    ]:
        since = 13 if op == "ReduceSum" else 18
        x = _draw(2, 3, 2, low=0.3) if op == "ReduceLogSum" else _draw(2, 3, 2)
        for opset in versions(op):
            for axes in (None, [1], [0, 2], [-1]):
                for keepdims in (0, 1):
                    yield _with_axes(op, opset, x, axes, since, keepdims=keepdims)
            if opset >= since:
                for noop in (0, 1):
                    yield _with_axes(op, opset, x, [], since, noop_with_empty_axes=noop)
                    yield _with_axes(op, opset, x, None, since, noop_with_empty_axes=noop)
        zeros = _draw(2, 3)
        zeros[0, 1] = 0
        if op in ("ReduceProd", "ReduceSumSquare", "ReduceL2"):
            yield _with_axes(op, NEWEST, zeros, [1], since)


def _pools() -> Iterator[Configuration]:
    variants: list[dict[str, Any]] = [
        {"kernel_shape": [2, 2]},
        {"kernel_shape": [3, 2], "strides": [2, 1]},
        {"kernel_shape": [2, 2], "pads": [1, 0, 0, 1]},
        {"kernel_shape": [2, 2], "pads": [1, 1, 1, 1], "strides": [2, 2]},
        {"kernel_shape": [2, 2], "auto_pad": "SAME_UPPER"},
        {"kernel_shape": [2, 2], "auto_pad": "VALID"},
    ]
    for op in ("MaxPool", "AveragePool", "LpPool"):
        for opset in versions(op):
            allowed = set(onnx.defs.get_schema(op, opset).attributes)
            more: list[dict[str, Any]] = [
                {"kernel_shape": [2, 2], "ceil_mode": 1, "strides": [2, 2]},
                {"kernel_shape": [2, 2], "dilations": [2, 1]},
                {"kernel_shape": [2, 2], "pads": [1, 1, 1, 1], "count_include_pad": 1},
                {"kernel_shape": [2, 2], "p": 1},
                {"kernel_shape": [2, 2], "p": 3},
            ]
            for attrs in [*variants, *more]:
                if attrs.keys() <= allowed:
                    yield Configuration(op, opset, [_draw(1, 2, 4, 5)], attrs)
            yield Configuration(op, opset, [_draw(2, 1, 6)], {"kernel_shape": [3]})
    for op in ("GlobalAveragePool", "GlobalMaxPool", "GlobalLpPool"):
        for opset in versions(op):
            yield Configuration(op, opset, [_draw(2, 2, 3, 2)])
            yield Configuration(op, opset, [_draw(1, 2, 4)])


def _convolutions() -> Iterator[Configuration]:
    variants: list[dict[str, Any]] = [
        {},
        {"strides": [2, 1]},
        {"pads": [1, 0, 0, 1]},
        {"pads": [1, 1, 1, 1], "strides": [2, 2]},
        {"dilations": [2, 1]},
        {"auto_pad": "SAME_LOWER"},
        {"auto_pad": "VALID"},
        {"kernel_shape": [2, 2]},
    ]
    for op in ("Conv", "ConvTranspose"):
        for opset in versions(op):
            for attrs in variants:
                x, w, b = _draw(1, 2, 4, 5), _draw(2, 2, 2, 2, seed=1), _draw(2, seed=2)
                yield Configuration(op, opset, [x, w, b], attrs)
            grouped = [_draw(2, 2, 5), _draw(2, 1, 3, seed=1)]
            yield Configuration(op, opset, grouped, {"group": 2})
    for attrs in (
        {"output_padding": [1, 1], "strides": [2, 2]},
        {"output_shape": [9, 10], "strides": [2, 2]},
    ):
        x, w = _draw(1, 2, 4, 5), _draw(2, 1, 2, 2, seed=1)
        yield Configuration("ConvTranspose", 11, [x, w], attrs)


def _products() -> Iterator[Configuration]:
    shapes = [
        ((2, 3), (3, 2)),
        ((3,), (3, 2)),
        ((2, 3), (3,)),
        ((3,), (3,)),
        ((2, 2, 3), (3, 2)),
        ((2, 1, 2, 3), (2, 3, 2)),
        ((1, 3), (4, 3, 1)),
    ]
    for opset in versions("MatMul"):
        for left, right in shapes:
            yield Configuration("MatMul", opset, [_draw(*left), _draw(*right, seed=1)])
    for opset in versions("Gemm"):
        for attrs in (
            {},
            {"transA": 1},
            {"transB": 1},
            {"alpha": 0.5, "beta": 2.0},
            {"transA": 1, "transB": 1},
        ):
            for bias in ((2, 4), (4,), (1,), ()):
                a = _draw(*((3, 2) if "transA" in attrs else (2, 3)))
                b = _draw(*((4, 3) if "transB" in attrs else (3, 4)), seed=1)
                yield Configuration("Gemm", opset, [a, b, _draw(*bias, seed=2)], attrs)
    for equation, shapes_of in {
        "ij,jk->ik": [(2, 3), (3, 2)],
        "ij->ji": [(2, 3)],
        "ij->i": [(2, 3)],
        "ij->": [(2, 3)],
        "bij,bjk->bik": [(2, 2, 3), (2, 3, 2)],
        "ii->i": [(3, 3)],
        "i,i->": [(3,), (3,)],
        "...ij,...jk->...ik": [(2, 2, 3), (2, 3, 2)],
        "ij,jk": [(2, 3), (3, 2)],
        "i,j->ij": [(2,), (3,)],
    }.items():
        inputs = [_draw(*shape, seed=place) for place, shape in enumerate(shapes_of)]
        yield Configuration("Einsum", 12, inputs, {"equation": equation})


def _norms() -> Iterator[Configuration]:
    for op in ("Softmax", "LogSoftmax"):
        for opset in versions(op):
            for attrs in ({}, {"axis": 0}, {"axis": 1}, {"axis": 2}):
                yield Configuration(op, opset, [_draw(2, 3, 2)], attrs)
    for opset in versions("LpNormalization"):
        for attrs in ({}, {"p": 1}, {"axis": 0}, {"p": 1, "axis": 1}):
            yield Configuration("LpNormalization", opset, [_draw(2, 3)], attrs)
    channels = [_draw(2, seed=place, low=0.5) for place in range(4)]
    for opset in versions("BatchNormalization"):
        for attrs in ({}, {"epsilon": 0.1}):
            yield Configuration("BatchNormalization", opset, [_draw(2, 2, 3), *channels], attrs)
    for opset in versions("InstanceNormalization"):
        yield Configuration("InstanceNormalization", opset, [_draw(2, 2, 3), *channels[:2]])
    for axis in (-1, 1, 0):
        x = _draw(2, 3, 2)
        scale = _draw(*x.shape[axis:], seed=1)
        inputs = [x, scale, _draw(*scale.shape, seed=2)]
        yield Configuration("LayerNormalization", 17, inputs, {"axis": axis})
        yield Configuration("LayerNormalization", 17, inputs[:2], {"axis": axis, "epsilon": 0.1})
        yield Configuration("RMSNormalization", 23, inputs[:2], {"axis": axis})
    for opset in versions("LRN"):
        for size in (1, 3):
            yield Configuration("LRN", opset, [_draw(1, 4, 2)], {"size": size, "alpha": 0.5})
    for opset in versions("MeanVarianceNormalization"):
        yield Configuration("MeanVarianceNormalization", opset, [_draw(2, 2, 2, 2)])
    for opset in versions("GroupNormalization"):
        size = 2 if opset < 21 else 4
        inputs = [_draw(1, 4, 3), _draw(size, seed=1), _draw(size, seed=2)]
        yield Configuration("GroupNormalization", opset, inputs, {"num_groups": 2})


def _shapes() -> Iterator[Configuration]:
    x = _draw(2, 3, 4)
    for opset in versions("Concat"):
        for axis in (0, 1, -1) if opset >= 11 else (0, 1):
            yield Configuration("Concat", opset, [x, _draw(2, 3, 4, seed=1)], {"axis": axis})
    for opset in versions("Split"):
        for sizes in ([1, 3], [2, 2]):
            if opset < 13:
                yield Configuration("Split", opset, [x], {"axis": 2, "split": sizes}, outputs=2)
            else:
                yield Configuration("Split", opset, [x, _ints(*sizes)], {"axis": 2}, outputs=2)
    yield Configuration("Split", 18, [x], {"axis": 2, "num_outputs": 2}, outputs=2)
    yield Configuration("Split", 18, [x], {"axis": 1, "num_outputs": 2}, outputs=2)
    for opset in versions("Slice"):
        for starts, ends, axes, steps in (
            ([1], [2], [1], [1]),
            ([0, -3], [2, -1], [0, 2], [1, 1]),
            ([3], [0], [2], [-1]),
            ([0], [9], [2], [2]),
        ):
            if opset < 10:
                if steps == [1] * len(steps):
                    attrs = {"starts": starts, "ends": ends, "axes": axes}
                    yield Configuration("Slice", opset, [x], attrs)
            else:
                yield Configuration(
                    "Slice", opset, [x, _ints(*starts), _ints(*ends), _ints(*axes), _ints(*steps)]
                )
    for opset in versions("Pad"):
        for mode in ("constant", "reflect", "edge", "wrap"):
            for pads in ([0, 1, 0, 1], [1, 0, 0, 2], [0, -1, 0, 0], [0, 0, 0, 0]):
                if mode == "wrap" and opset < 19:
                    continue
                if opset < 11:
                    yield Configuration("Pad", opset, [_draw(3, 4)], {"mode": mode, "pads": pads})
                else:
                    yield Configuration("Pad", opset, [_draw(3, 4), _ints(*pads)], {"mode": mode})
    for opset in versions("Transpose"):
        yield Configuration("Transpose", opset, [x], {"perm": [2, 0, 1]})
        yield Configuration("Transpose", opset, [x])
    for opset in versions("Reshape"):
        for shape in ([4, 6], [-1], [0, -1], [2, 3, 4, 1]):
            yield Configuration("Reshape", opset, [x, _ints(*shape)])
    for opset in versions("Flatten"):
        for axis in (0, 1, 3):
            yield Configuration("Flatten", opset, [x], {"axis": axis})
    for op, array, axes in (
        ("Squeeze", _draw(1, 3, 1), [0, 2]),
        ("Unsqueeze", _draw(3, 2), [0, 2]),
    ):
        for opset in versions(op):
            yield _with_axes(op, opset, array, axes, 13)
    for opset in versions("Expand"):
        for shape in ([2, 3, 4], [3, 1], [3, 4]):
            yield Configuration("Expand", opset, [_draw(3, 1), _ints(*shape)])
    for opset in versions("Tile"):
        for repeats in ([1, 2], [2, 3], [1, 1]):
            yield Configuration("Tile", opset, [_draw(2, 3), _ints(*repeats)])
    for op in ("DepthToSpace", "SpaceToDepth"):
        for opset in versions(op):
            yield Configuration(op, opset, [_draw(1, 8, 2, 4)], {"blocksize": 2})
            if opset >= 11 and op == "DepthToSpace":
                yield Configuration(op, opset, [_draw(1, 8, 2, 2)], {"blocksize": 2, "mode": "CRD"})
    for opset in versions("CumSum"):
        for exclusive in (0, 1):
            for reverse in (0, 1):
                attrs = {"exclusive": exclusive, "reverse": reverse}
                yield Configuration("CumSum", opset, [_draw(2, 3), np.array(1, np.int64)], attrs)
    for upper in (0, 1):
        for k in (-1, 0, 1):
            yield Configuration("Trilu", 14, [_draw(3, 4), np.array(k, np.int64)], {"upper": upper})


def _indices() -> Iterator[Configuration]:
    x = _draw(3, 4)
    for opset in versions("Gather"):
        for axis in (0, 1):
            for indices in (_ints(0, 2), np.array([[1, 0], [1, 1]]), np.array(1), _ints(-1, 0)):
                yield Configuration("Gather", opset, [x, indices.astype(np.int64)], {"axis": axis})
    for opset in versions("GatherElements"):
        for axis in (0, 1):
            indices = np.array([[0, 1, 2], [2, 1, 1]], np.int64)
            yield Configuration("GatherElements", opset, [_draw(3, 3), indices], {"axis": axis})
    for opset in versions("GatherND"):
        yield Configuration("GatherND", opset, [x, np.array([[0, 1], [2, 3], [0, 1]], np.int64)])
        yield Configuration("GatherND", opset, [x, np.array([[1], [1]], np.int64)])
    yield Configuration("GatherND", 13, [x, np.array([[0], [2], [1]], np.int64)], {"batch_dims": 1})
    for op in ("Scatter", "ScatterElements"):
        for opset in versions(op)[:1] if op == "Scatter" else versions(op):
            for axis in (0, 1):
                inputs = [_draw(3, 3), np.array([[0, 1, 2]], np.int64), _draw(1, 3, seed=1)]
                yield Configuration(op, opset, inputs, {"axis": axis})
    for reduction in ("add", "mul", "max", "min"):
        inputs = [_draw(3, 3), np.array([[0, 1, 0]], np.int64), _draw(1, 3, seed=1)]
        yield Configuration("ScatterElements", 18, inputs, {"axis": 1, "reduction": reduction})
        nd = [_draw(3, 2), np.array([[0], [2]], np.int64), _draw(2, 2, seed=1)]
        yield Configuration("ScatterND", 18, nd, {"reduction": reduction})
    for opset in versions("ScatterND"):
        yield Configuration(
            "ScatterND", opset, [_draw(3, 2), np.array([[0], [2]], np.int64), _draw(2, 2, seed=1)]
        )
    for opset in versions("Where"):
        for shape in ((2, 3), (3,), ()):
            condition = np.array([[True, False, True], [False, True, True]])
            yield Configuration("Where", opset, [condition, _draw(2, 3), _draw(*shape, seed=1)])
    for opset in versions("Compress"):
        yield Configuration("Compress", opset, [x, np.array([True, False, True])], {"axis": 0})
        yield Configuration("Compress", opset, [x, np.array([True, False, True])])
    for opset in versions("ReverseSequence"):
        yield Configuration("ReverseSequence", opset, [_draw(4, 3), _ints(2, 4, 1)])
    for opset in versions("TopK"):
        if opset >= 10:
            for axis in (0, 1):
                attrs = {"axis": axis}
                yield Configuration("TopK", opset, [x, _ints(2)], attrs, unread=("places",))


def _bounds() -> Iterator[Configuration]:
    for opset in versions("Clip"):
        for low, high in ((-0.5, 0.5), (None, 0.5), (-0.5, None), (None, None)):
            if opset < 11:
                attrs = {
                    key: value for key, value in (("min", low), ("max", high)) if value is not None
                }
                yield Configuration("Clip", opset, [_draw(2, 3)], attrs)
            else:
                bounds = [None if value is None else np.array(value) for value in (low, high)]
                yield Configuration("Clip", opset, [_draw(2, 3), *bounds], constants=(1, 2))
    for opset in versions("Dropout"):
        yield Configuration("Dropout", opset, [_draw(2, 3)])
    for mode in ("nearest", "linear", "cubic"):
        for transform in ("half_pixel", "align_corners", "asymmetric", "pytorch_half_pixel"):
            for opset in versions("Resize"):
                if opset < 11:
                    continue
                inputs = [_draw(1, 1, 3, 4), None, np.array([1, 1, 2.0, 1.5])]
                attrs = {"mode": mode, "coordinate_transformation_mode": transform}
                if opset == 11:
                    inputs[1] = np.zeros(0)
                yield Configuration("Resize", opset, inputs, attrs, constants=(1, 2))
    for mode in ("nearest", "linear"):
        yield Configuration(
            "Upsample",
            9,
            [_draw(1, 1, 2, 3), np.array([1, 1, 2.0, 2.0])],
            {"mode": mode},
            constants=(1,),
        )
        yield Configuration(
            "Upsample", 7, [_draw(1, 1, 2, 3)], {"mode": mode, "scales": [1.0, 1.0, 2.0, 2.0]}
        )


def _recurrent() -> Iterator[Configuration]:
    for op, gates in (("RNN", 1), ("GRU", 3), ("LSTM", 4)):
        for opset in versions(op):
            for direction, count in (("forward", 1), ("reverse", 1), ("bidirectional", 2)):
                x = _draw(3, 1, 2)
                w, r = _draw(count, 2 * gates, 2, seed=1), _draw(count, 2 * gates, 2, seed=2)
                b = _draw(count, 4 * gates, seed=3)
                attrs = {"hidden_size": 2, "direction": direction}
                yield Configuration(op, opset, [x, w, r, b], attrs)
                if op == "GRU":
                    yield Configuration(
                        op, opset, [x, w, r, b], {**attrs, "linear_before_reset": 1}
                    )


def _opset_7() -> Iterator[Configuration]:
    for op in ("Relu", "Sigmoid", "Softmax", "ReduceSum", "GlobalAveragePool"):
        yield Configuration(op, 7, [_draw(1, 2, 3)])


def configurations() -> list[Configuration]:
    """Return all of them, in a fixed order."""
    families = (
        _unary,
        _binary,
        _reductions,
        _pools,
        _convolutions,
        _products,
        _norms,
        _shapes,
        _indices,
        _bounds,
        _recurrent,
        _opset_7,
    )
    return [each for family in families for each in family()]


def survey(chosen: list[Configuration]) -> tuple[Counter[str], Counter[str], list[str]]:
    """Return counts by outcome, refusals by reason, and lines on what is wrong."""
    outcomes: Counter[str] = Counter()
    reasons: Counter[str] = Counter()
    lines = []
    for configuration in chosen:
        outcome, why = judge(configuration)
        outcomes[outcome] += 1
        if outcome == "refused":
            got = why.partition(", got ")[2].partition(". Try:")[0]
            reasons[f"{configuration.op}: {got}"] += 1
        elif outcome.startswith("wrong"):
            lines.append(f"{outcome}: {configuration}: {why}")
    return outcomes, reasons, lines


def main() -> None:
    """Print the counts."""
    outcomes, reasons, lines = survey(configurations())
    print(*lines, sep="\n")
    for reason, count in reasons.most_common():
        print(f"{count:4} refused: {reason}")
    print(f"{outcomes.total()} configurations: {dict(outcomes)}")


if __name__ == "__main__":
    main()
