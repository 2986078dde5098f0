"""Tell code that is neither torch's nor pyopnb's, which may read what it is given without looking."""

from __future__ import annotations

from typing import Any

from torch.utils._python_dispatch import TorchDispatchMode

__all__ = ["ForeignCalls", "is_foreign"]

_KNOWN_NAMESPACES = {"aten", "prims", "prim", "higher_order", "profiler"}
# These take any values. Torchvision's roi_align and roi_pool (0.28) do not: a box of an image that is
# not in the batch ends the process.
_KNOWN_OPS = {"torchvision.nms.default", "transformers.grouped_mm_fallback.default"}


def is_foreign(target: Any) -> bool:
    """Tell whether an op is neither torch's nor pyopnb's."""
    namespace = getattr(target, "namespace", "aten")
    if namespace in _KNOWN_NAMESPACES or namespace.startswith("pyopnb_"):
        return False
    return str(target) not in _KNOWN_OPS


class ForeignCalls(TorchDispatchMode):  # type: ignore[misc]
    """Notes whether an op is called that is not torch's."""

    def __init__(self) -> None:
        super().__init__()
        self.seen = False

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.seen = self.seen or is_foreign(func)
        return func(*args, **(kwargs or {}))
