"""Where a session finds the ops of a model's nodes: the registry, or ops that are fixed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Protocol

from pyopnb.ops.op import Op

__all__ = ["FixedOps", "OpSource", "ReceivedOps"]


class OpSource(Protocol):
    """What finds an op by the domain and type of a node, or by what the retired PyOp's nodes ask for."""

    def find(self, domain: str, op_type: str) -> Op | None: ...

    def find_class(self, module: str, class_name: str) -> Op | None: ...


class ReceivedOps:
    """The ops that came with a session from another process. Nothing else serves it.

    Parameters
    ----------
    ops : iterable of Op
        As `Registry.admit` returns them.
    classes : mapping of (str, str) to Op
        Those that serve the retired PyOp's nodes, by module and class name.
    """

    def __init__(self, ops: Iterable[Op], classes: Mapping[tuple[str, str], Op]) -> None:
        self._ops = {op.name: op for op in ops}
        self._classes = dict(classes)

    def find(self, domain: str, op_type: str) -> Op | None:
        """As `Registry.find`."""
        return self._ops.get(f"{'' if domain == 'ai.onnx' else domain}::{op_type}")

    def find_class(self, module: str, class_name: str) -> Op | None:
        """As `Registry.find_class`."""
        return self._classes.get((module, class_name))


class FixedOps:
    """The ops of a source as they were in one epoch, whatever is defined later.

    Parameters
    ----------
    ops : OpSource
    epoch : int
    known : iterable of Op
        Those that are found even if the source has lost them.
    """

    def __init__(self, ops: OpSource, epoch: int, known: Iterable[Op]) -> None:
        self._ops, self._epoch = ops, epoch
        self._fixed: dict[str, Op] = {}
        for op in known:
            self._fix(op)

    def find(self, domain: str, op_type: str) -> Op | None:
        """As `Registry.find`."""
        name = f"{'' if domain == 'ai.onnx' else domain}::{op_type}"
        return self._fixed.get(name) or self._fix(self._ops.find(domain, op_type))

    def find_class(self, module: str, class_name: str) -> Op | None:
        """As `Registry.find_class`."""
        return self._fix(self._ops.find_class(module, class_name))

    def _fix(self, op: Op | None) -> Op | None:
        return None if op is None else self._fixed.setdefault(op.name, Op(op.name, (op.at(self._epoch),), op.lock))
