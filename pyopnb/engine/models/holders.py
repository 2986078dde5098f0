"""Find the models that objects of other packages hold or write.

Such an object is recognized by its attributes, as none of these packages is imported.
"""

from __future__ import annotations

import sys
from typing import Any

from onnx import ModelProto

__all__ = ["held_model"]


def held_model(thing: Any) -> tuple[Any, str | None]:
    """Return the model that an object holds or writes, or the object itself if it has none.

    Parameters
    ----------
    thing : object
        With a ``model_proto``, as the torch ``ONNXProgram``; with a method ``to_model_proto``, as
        an onnxscript function; or an ``onnx_ir.Model``.

    Returns
    -------
    model : object
        A ModelProto, or ``thing``.
    folder : str or None
        Where the external data of an ``onnx_ir.Model`` is.

    Raises
    ------
    Exception
        The exception that ``to_model_proto`` raises.
    """
    if isinstance(thing, (ModelProto, bytes, str, type)):
        return thing, None
    if _is_ir_model(thing):
        return sys.modules["onnx_ir"].to_proto(thing), _folder(thing)
    proto = getattr(thing, "model_proto", None)
    if proto is None and callable(write := getattr(thing, "to_model_proto", None)):
        proto = write()
    return (proto if isinstance(proto, ModelProto) else thing), None


def _is_ir_model(thing: Any) -> bool:
    module = sys.modules.get("onnx_ir")
    return module is not None and isinstance(thing, module.Model)


def _folder(model: Any) -> str | None:
    """Return the folder of its external tensors; None if there are none, or several folders."""
    tensors = [value.const_value for value in model.graph.initializers.values()]
    folders = {str(tensor.base_dir) for tensor in tensors if getattr(tensor, "base_dir", None)}
    if len(folders) == 1:
        return folders.pop()
    return None
