"""A decoder of a language model with random weights in a file, as large as one likes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from onnx import ModelProto, TensorProto, helper, numpy_helper

import pyopnb

__all__ = ["decoder"]

_WORDS = 2048
_ALIGNED = 4096  # bytes at which ONNX Runtime can map weights


def decoder(path: Path, *, layers: int, width: int, other: int = -1) -> int:
    """Write ``ids: int64[B,S]`` to ``logits``, and return the bytes of its weights.

    Parameters
    ----------
    path : Path
        The model; the weights are in a file beside it. They are the same for the same sizes.
    other : int
        The layer that has a Relu in place of its Gelu; none if it is negative.
    """
    drawn = np.random.default_rng(0)
    block = drawn.standard_normal(1 << 20, np.float32)
    nodes = []
    weights: list[TensorProto] = []
    data = path.with_suffix(".data")

    def weight(name: str, *shape: int) -> str:
        place = -(-file.tell() // _ALIGNED) * _ALIGNED
        file.seek(place)
        size = 4 * int(np.prod(shape))
        while file.tell() < place + size:
            # Drawing all of them would take longer than what is measured.
            values = block * np.float32(drawn.uniform(0.9, 1.1) / np.sqrt(shape[0]))
            file.write(values.tobytes()[: place + size - file.tell()])
        tensor = TensorProto(name=name, data_type=TensorProto.FLOAT, dims=shape)
        tensor.data_location = TensorProto.EXTERNAL
        for key, value in {"location": data.name, "offset": place, "length": size}.items():
            tensor.external_data.add(key=key, value=str(value))
        weights.append(tensor)
        return name

    def node(op_type: str, inputs: list[str], output: str, **attrs: object) -> str:
        nodes.append(pyopnb.node(op_type, inputs, output, **attrs))
        return output

    def norm(x: str, output: str) -> str:
        weights.append(numpy_helper.from_array(np.ones(width, np.float32), f"{output}_scale"))
        return node("LayerNormalization", [x, f"{output}_scale"], output)

    with data.open("wb") as file:
        x = node("Gather", [weight("words", _WORDS, width), "ids"], "x0")
        for n in range(layers):
            read = norm(x, f"l{n}.read")
            q, k, v = (
                node("MatMul", [read, weight(f"l{n}.w{part}", width, width)], f"l{n}.{part}")
                for part in "qkv"
            )
            turned = node("Transpose", [k], f"l{n}.turned", perm=[0, 2, 1])
            seen = node("Softmax", [node("MatMul", [q, turned], f"l{n}.scores")], f"l{n}.seen")
            mixed = node("MatMul", [seen, v], f"l{n}.mixed")
            shown = node("MatMul", [mixed, weight(f"l{n}.wo", width, width)], f"l{n}.shown")
            x = node("Add", [x, shown], f"l{n}.attended")
            wide = [norm(x, f"l{n}.thought"), weight(f"l{n}.up", width, 4 * width)]
            bend = "Relu" if n == other else "Gelu"
            bent = node(bend, [node("MatMul", wide, f"l{n}.wide")], f"l{n}.bent")
            down = node("MatMul", [bent, weight(f"l{n}.down", 4 * width, width)], f"l{n}.narrow")
            x = node("Add", [x, down], f"x{n + 1}")
        node("MatMul", [x, weight("head", width, _WORDS)], "logits")
        size = file.tell()
    inputs = [helper.make_tensor_value_info("ids", TensorProto.INT64, ["B", "S"])]
    outputs = [helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["B", "S", _WORDS])]
    graph = helper.make_graph(nodes, "decoder", inputs, outputs, weights)
    imports = [helper.make_opsetid("", 20)]
    model: ModelProto = helper.make_model(graph, opset_imports=imports, ir_version=10)
    path.write_bytes(model.SerializeToString())
    return size
