"""A kernel of ONNX Runtime inside an operator, where its definition is that of the operator."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnxruntime
from onnx import TensorProto, helper

__all__ = ["RuntimeKernel"]


class RuntimeKernel:
    """A node in sessions of its own, one for each combination of dtypes that it meets.

    Parameters
    ----------
    name : str
        ``domain::op``, as in model files.
    opset : int
        The version of its domain.
    outputs : sequence of numpy dtype
        Of each output.
    library : str, optional
        The path of a library of custom ops that has it.
    **attrs
        Of the node.
    """

    def __init__(
        self, name: str, opset: int, outputs: Sequence[Any], library: str = "", **attrs: Any
    ) -> None:
        self._domain, _, self._op_type = name.rpartition("::")
        self._opset = opset
        self._outputs = outputs
        self._library = library
        self._attrs = attrs
        self._sessions: dict[tuple[Any, ...], onnxruntime.InferenceSession] = {}

    def __call__(self, *inputs: np.ndarray | None) -> list[np.ndarray]:
        """Run the node; None omits an input."""
        key = tuple(None if value is None else (value.dtype, value.ndim) for value in inputs)
        if key not in self._sessions:
            self._sessions[key] = self._session(inputs)
        feeds = {f"x{n}": value for n, value in enumerate(inputs) if value is not None}
        return self._sessions[key].run(None, feeds)  # type: ignore[no-any-return]

    def _session(self, inputs: Sequence[np.ndarray | None]) -> onnxruntime.InferenceSession:
        names = []
        ports = []
        for number, value in enumerate(inputs):
            names.append("" if value is None else f"x{number}")
            if value is not None:
                # Only the rank, so that images of all sizes share a session.
                shape = [None] * value.ndim
                ports.append(helper.make_tensor_value_info(f"x{number}", _code(value.dtype), shape))
        results = []
        for number, dtype in enumerate(self._outputs):
            results.append(helper.make_tensor_value_info(f"y{number}", _code(dtype), None))
        outputs = [port.name for port in results]
        node = helper.make_node(self._op_type, names, outputs, domain=self._domain, **self._attrs)
        graph = helper.make_graph([node], "alone", ports, results)
        imports = [helper.make_opsetid(self._domain, self._opset)]
        if self._domain:
            imports.append(helper.make_opsetid("", 17))
        model = helper.make_model(graph, opset_imports=imports, ir_version=8)
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 4
        if self._library:
            options.register_custom_ops_library(self._library)
        providers = ["CPUExecutionProvider"]
        return onnxruntime.InferenceSession(model.SerializeToString(), options, providers)


def _code(dtype: Any) -> int:
    """Return ONNX's number of a dtype; arrays of strings hold objects."""
    dtype = np.dtype(dtype)
    if dtype.kind in "OU":
        return TensorProto.STRING
    return helper.np_dtype_to_tensor_dtype(dtype)
