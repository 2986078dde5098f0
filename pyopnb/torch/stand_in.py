"""Ops that call torch: what runs at a node for which ONNX has no operator."""

from __future__ import annotations

from typing import Any

import torch

from pyopnb.ops.names import split_name
from pyopnb.ops.op import Version
from pyopnb.ops.registry import registry
from pyopnb.torch.arrays import to_array, to_tensor
from pyopnb.torch.calls import COMPLEX, DTYPES, decode, op_name, target_name

__all__ = ["TorchOp", "define", "own_memory"]

_OF_TORCH = ("aten", "prims", "quantized")
_WRITES = (
    "aten::batch_norm",
    "aten::instance_norm",
    "aten::native_batch_norm",
    "aten::_batch_norm_impl_index",
)
"""Ops that write to their running statistics, which their schemas do not say."""
_PARTS = {"complex64": "float32", "complex128": "float64", "complex32": "float16"}


class TorchOp:
    """A torch op as an op of ONNX Runtime; `define` makes one class for each.

    The attributes are the op's arguments by name, and those that `pyopnb.torch.calls` tells of.
    """

    target: Any

    def __init__(self, **attrs: Any) -> None:
        self._attrs = attrs
        self._complex = frozenset(attrs.get(COMPLEX, ()))
        self._dtypes = [_PARTS.get(name, name) for name in attrs.get(DTYPES, ())]

    def infer(self, *given: Any) -> list[str]:
        return [f"{name}[...]" for name in self._dtypes]

    def compute(self, *inputs: Any) -> Any:
        tensors = [
            None if array is None else to_tensor(array, complex_=place in self._complex)
            for place, array in enumerate(inputs)
        ]
        args, kwargs = decode(self.target, self._attrs, tensors)
        with torch.no_grad():
            results = self.target(*args, **kwargs)
        if isinstance(results, torch.Tensor):
            return to_array(results)
        arrays = tuple(map(to_array, results))
        return arrays if len(arrays) > 1 else arrays[0]

    @classmethod
    def _module_source(cls, version: Version) -> str:
        """The text of a module that defines the op anew, for `pyopnb.save`."""
        lines = [
            "import torch",
            "",
            "import pyopnb",
            "from pyopnb.torch.stand_in import TorchOp",
            "",
            "",
        ]
        if cls.target.namespace not in _OF_TORCH:
            lines.append(
                f"# torch has this op after the import of what registers it: the namespace {cls.target.namespace}."
            )
        lines += [
            f'@pyopnb.pyop("{version.op}")',
            f"class {cls.__name__}(TorchOp):",
            f'    """{cls.__doc__}"""',
            "",
        ]
        lines += ["    copy_inputs = True"] * (cls.target._schema.name in _WRITES)
        return "\n".join([*lines, f"    target = {target_name(cls.target)}", ""])


def own_memory(results: Any, inputs: Any) -> Any:
    """Results of which none shares memory with an input, or with another one.

    Parameters
    ----------
    results : torch.Tensor, or list or tuple of them
    inputs : iterable
        Of which the tensors count.

    Returns
    -------
    torch.Tensor, list or tuple
    """
    taken = {
        value.untyped_storage().data_ptr() for value in inputs if isinstance(value, torch.Tensor)
    }
    apart = []
    for result in [results] if isinstance(results, torch.Tensor) else results:
        place = result.untyped_storage().data_ptr()
        apart.append(result.clone() if place in taken else result)
        taken.add(place)
    if isinstance(results, torch.Tensor):
        return apart[0]
    return apart if isinstance(results, list) else tuple(apart)


def define(target: Any) -> str:
    """The name of the op that stands in for a torch op; defined on first use only, as again it would be a new version.

    Parameters
    ----------
    target : torch._ops.OpOverload

    Returns
    -------
    str
    """
    name = op_name(target)
    if registry.find(*split_name(name)) is None:
        body = {"target": target, "__doc__": f"{target_name(target)}, called in torch itself."}
        if target._schema.name in _WRITES:
            body["copy_inputs"] = True
        registry.define(type(name.partition("::")[2], (TorchOp,), body), name)
    return name
