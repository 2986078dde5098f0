"""Find the ops of a model's nodes, in the registry or among ops that came with a pickle."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Protocol

from pyopnb.engine.ops.op import Op

__all__ = ["OpSource", "ReceivedOps"]


class OpSource(Protocol):
    """Finds an op by the domain and op type of a node, or by module and class name.

    The retired PyOp's nodes have a module and a class name.
    """

    def find(self, domain: str, op_type: str) -> Op | None: ...

    def find_class(self, module: str, class_name: str) -> Op | None: ...


class ReceivedOps:
    """The ops that came with a session from another process, which uses no others.

    Parameters
    ----------
    ops : iterable of Op
        As `Registry.admit` returns them.
    classes : mapping of (str, str) to Op
        Ops that serve the retired PyOp's nodes, by module and class name.
    """

    def __init__(self, ops: Iterable[Op], classes: Mapping[tuple[str, str], Op]) -> None:
        self._ops = {op.name: op for op in ops}
        self._classes = dict(classes)

    def find(self, domain: str, op_type: str) -> Op | None:
        """Find an op as `Registry.find` does."""
        return self._ops.get(f"{'' if domain == 'ai.onnx' else domain}::{op_type}")

    def find_class(self, module: str, class_name: str) -> Op | None:
        """Find a class as `Registry.find_class` does."""
        return self._classes.get((module, class_name))
