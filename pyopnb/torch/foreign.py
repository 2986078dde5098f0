"""Find calls that may read beyond their inputs: code outside torch, and some ops of torch."""

from __future__ import annotations

from typing import Any

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

__all__ = ["CheckedSizes", "ForeignCalls", "is_foreign", "keys_and_values"]

_KNOWN_NAMESPACES = {"aten", "prims", "prim", "higher_order", "profiler"}
# These take any values. Torchvision's roi_align and roi_pool (0.28) do not: a box of an image that
# is not in the batch ends the process.
_KNOWN_OPS = {"torchvision.nms.default", "transformers.grouped_mm_fallback.default"}


def is_foreign(target: Any) -> bool:
    """Tell whether an op belongs to neither torch nor pyopnb."""
    namespace = getattr(target, "namespace", "aten")
    if namespace in _KNOWN_NAMESPACES or namespace.startswith("pyopnb_"):
        return False
    return str(target) not in _KNOWN_OPS


class ForeignCalls(TorchDispatchMode):  # type: ignore[misc]
    """Notes whether an op outside torch is called."""

    def __init__(self) -> None:
        super().__init__()
        self.seen = False

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.seen = self.seen or is_foreign(func)
        return func(*args, **(kwargs or {}))


class CheckedSizes(TorchFunctionMode):  # type: ignore[misc]
    """Refuses calls that read beyond tensors of other sizes.

    Torch 2.13 does not, and that ends the process.
    """

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        fits, name = True, getattr(func, "__name__", "")
        # With a packed sequence, LSTM has its weights in the fourth place, and checks nothing.
        if name == "lstm" and isinstance(args[3], (list, tuple)):
            rows, batch_sizes, (hidden, cell), weights, _, layers, _, _, bidirectional = args
            gates, size = weights[1].shape
            count, batch = layers * (2 if bidirectional else 1), int(batch_sizes[0])
            fits = hidden.shape == (count, batch, size) and cell.shape == (count, batch, gates // 4)
            fits = fits and rows.shape[1] == weights[0].shape[1]
        elif func is torch.nn.functional.scaled_dot_product_attention:
            keys, values = keys_and_values(args, kwargs)
            fits = keys.shape[-2] == values.shape[-2]
        elif name == "ctc_loss" and args[1].numel():
            # Its classes are numbered, and there may be fewer.
            fits = int(args[1].max()) < args[0].shape[-1]
        if not fits:
            raise RuntimeError("expected sizes that belong together")
        return func(*args, **(kwargs or {}))


def keys_and_values(args: Any, kwargs: Any) -> tuple[Any, Any]:
    """Return two arguments of a call of attention, by position or by name."""
    arguments = dict(zip(("query", "key", "value"), args, strict=False))
    arguments.update(kwargs or {})
    return arguments["key"], arguments["value"]
