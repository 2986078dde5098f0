"""ATen, the node that torch's exporter writes for a function that ONNX lacks.

Defined by torch's ONNX exporter with ATEN_FALLBACK: the attribute ``operator`` names the function, and
its arguments are inputs in their order. The functions that are files here run in NumPy, and all others
by torch, which has to be installed.
Tested against torch, to 1e-6.
"""

import importlib

import numpy as np

from pyopnb.catalog.index import find_entry

NAMES = ("org.pytorch.aten::ATen", "::ATen")


class ATen:
    """Run a function of torch."""

    def __init__(self, operator: str, overload_name: str = ""):
        self.operator = operator
        self.overload = overload_name or "default"

    def infer(self, *inputs):
        # How many results there are, and of which types, only the function knows.
        return ("any[...]",) * 8

    def compute(self, *inputs):
        entry = find_entry(f"org.pytorch.aten::{self.operator}", len(inputs))
        if entry is not None:
            return entry.op_class().compute(*inputs)
        return self._by_torch(inputs)

    def _by_torch(self, inputs):
        """Call the function with its arguments in order; those that have only a name come last."""
        torch = importlib.import_module("torch")
        function = getattr(getattr(torch.ops.aten, self.operator), self.overload)
        arguments = []
        by_name = {}
        for value, declared in zip(inputs, function._schema.arguments, strict=False):
            converted = _convert(torch, value, str(declared.type))
            if declared.kwarg_only:
                by_name[declared.name] = converted
            else:
                arguments.append(converted)
        results = function(*arguments, **by_name)
        if isinstance(results, torch.Tensor):
            return results.numpy()
        return tuple(result.numpy() for result in results)


def _convert(torch, value, declared):
    """Convert an input to what a function of torch declares: a tensor, a list or a number."""
    if value is None:
        return None
    if "Tensor" in declared:
        # torch may write into what it is given, and the input is the runtime's.
        return torch.from_numpy(np.array(value))
    if "List" in declared:
        return value.tolist()
    return value.item()
