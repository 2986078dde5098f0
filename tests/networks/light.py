"""The networks that come with onnx."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import onnx
from onnx import ModelProto, helper, numpy_helper

__all__ = ["DATA", "LIGHT", "converted", "feeds", "light"]

DATA = Path(onnx.__file__).parent / "backend" / "test" / "data"
LIGHT = sorted(path.stem.removeprefix("light_") for path in (DATA / "light").glob("light_*.onnx"))


def light(name: str) -> ModelProto:
    """A light model, each of its ConstantOfShape, in place of weights, an initializer of random numbers.

    Constants would hide a wrong axis.
    """
    model = onnx.load(DATA / "light" / f"light_{name}.onnx")
    graph = model.graph
    model.ir_version = 8  # before 4, an initializer that is no input has no type for inference
    shapes = {t.name: numpy_helper.to_array(t).tolist() for t in graph.initializer}
    rng = np.random.default_rng(0)
    for node in [n for n in graph.node if n.op_type == "ConstantOfShape"]:
        graph.initializer.append(
            numpy_helper.from_array(_weights(rng, shapes[node.input[0]]), node.output[0])
        )
        graph.node.remove(node)
    softmax = [n for n in graph.node if n.op_type == "Softmax"]
    # With random weights a Softmax gives one 1 and many 0, which hides what came before it.
    graph.output.extend(helper.make_tensor_value_info(n.input[0], 1, None) for n in softmax)
    return model


def _weights(rng: np.random.Generator, shape: list[int]) -> np.ndarray:
    """Such that numbers neither vanish nor explode on their way; what has one axis may be a variance, and is positive."""
    drawn = rng.standard_normal(shape, np.float32)
    return (
        np.abs(drawn) + np.float32(0.5)
        if len(shape) == 1
        else drawn * np.float32(math.sqrt(2 / math.prod(shape[1:])))
    )


def converted(name: str) -> ModelProto:
    """One of the models that were converted from PyTorch."""
    return onnx.load(DATA / "pytorch-converted" / f"test_{name}" / "model.onnx")


def feeds(model: ModelProto) -> dict[str, np.ndarray]:
    """Random arrays for a model's inputs."""
    held = {t.name for t in model.graph.initializer}
    rng = np.random.default_rng(1)
    shapes = {
        i.name: [d.dim_value for d in i.type.tensor_type.shape.dim]
        for i in model.graph.input
        if i.name not in held
    }
    return {name: rng.standard_normal(shape, np.float32) for name, shape in shapes.items()}
