"""Models out of the onnx package, and from the tools of onnxruntime: these need only packages of the tests."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import onnx
import onnxruntime
from entries import entry
from light import DATA, feeds, light
from node_tests import cases, data_sets
from onnx import ModelProto, TensorProto, numpy_helper
from transformer import transformer

Made = tuple[ModelProto, dict[str, Any]]

_STORED = [
    "pytorch-converted/Conv2d_depthwise_with_multiplier",
    "pytorch-converted/ConvTranspose2d",
    "pytorch-converted/PixelShuffle",
    "pytorch-converted/MaxPool3d_stride_padding",
    "pytorch-operator/operator_convtranspose",
    "pytorch-operator/operator_repeat",
    "simple/expand_shape_model1",
    "simple/sequence_model1",
    "simple/sequence_model4",
    "simple/strnorm_model_nostopwords_nochangecase",
]
_NODE_TESTS = [
    "test_loop11",
    "test_if",
    "test_scan9_sum",
    "test_lstm_with_peepholes",
    "test_range_float_type_positive_delta_expanded",
    "test_center_crop_pad_crop_axes_hwc_expanded",
    "test_layer_normalization_4d_axis1_expanded_ver18",
    "test_ai_onnx_ml_tree_ensemble_single_tree",
    "test_string_concat_broadcasting",
]
_NETWORKS = ["squeezenet"]


def _stored(name: str) -> Made:
    """A model beside whose file its feeds are."""
    folder, _, test = name.partition("/")
    path = DATA / folder / f"test_{test}"
    model = onnx.load(path / "model.onnx")
    held = {tensor.name for tensor in model.graph.initializer}
    inputs = [value for value in model.graph.input if value.name not in held]
    return model, {
        value.name: _read(path / "test_data_set_0" / f"input_{n}.pb", value)
        for n, value in enumerate(inputs)
    }


def _read(path: Path, value: onnx.ValueInfoProto) -> Any:
    if value.type.HasField("sequence_type"):
        sequence = onnx.SequenceProto()
        sequence.ParseFromString(path.read_bytes())
        return numpy_helper.to_list(sequence)
    return numpy_helper.to_array(TensorProto.FromString(path.read_bytes()))


def _node_test(name: str) -> Made:
    case = cases()[name]
    model = ModelProto()
    model.CopyFrom(case.model)
    for imported in model.opset_import:
        if not imported.domain:  # none of these changed between this version and the newest, which not every onnxruntime takes
            imported.version = min(imported.version, 21)
    return model, {
        name: value for name, value in data_sets(case)[0][0].items() if value is not None
    }


def _network(name: str) -> Made:
    model = light(name)
    return model, feeds(model)


def _enter(names: list[str], made: Callable[[str], Made]) -> None:
    for name in names:
        entry(f"onnx {name.rpartition('/')[2].removeprefix('test_')}")(lambda name=name: made(name))


_enter(_STORED, _stored)
_enter(_NODE_TESTS, _node_test)
_enter(_NETWORKS, _network)


def _words() -> dict[str, np.ndarray]:
    return {"x": np.random.default_rng(2).standard_normal((2, 5, 32), np.float32)}


@entry("transformer")
def _transformer() -> Made:
    return transformer(blocks=2), _words()


def _rewritten(write: Callable[[Path, Path], Any]) -> ModelProto:
    with TemporaryDirectory() as folder:
        before, after = Path(folder) / "before.onnx", Path(folder) / "after.onnx"
        onnx.save(transformer(blocks=2), before)
        write(before, after)
        return onnx.load(after)


@entry("transformer quantized")
def _quantized() -> Made:
    from onnxruntime.quantization import quantize_dynamic

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about its findings in the model
        return _rewritten(quantize_dynamic), _words()


@entry("transformer optimized")
def _optimized() -> Made:
    def optimize(before: Path, after: Path) -> None:
        options = onnxruntime.SessionOptions()
        options.optimized_model_filepath = str(after)
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_EXTENDED
        onnxruntime.InferenceSession(str(before), options, providers=["CPUExecutionProvider"])

    model = _rewritten(optimize)
    # onnxruntime writes an import of every domain that a session of the process had; pyopnb's
    # private ones are not kept.
    kept = [entry for entry in model.opset_import if not entry.domain.startswith("pyopnb:")]
    del model.opset_import[:]
    model.opset_import.extend(kept)
    return model, _words()


@entry("transformer float16")
def _float16() -> Made:
    from onnxruntime.transformers.float16 import convert_float_to_float16

    return convert_float_to_float16(transformer(blocks=2), keep_io_types=True), _words()
