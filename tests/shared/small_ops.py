"""The small ops and models that many tests share: take these before you write another SoftClip or another chain."""

from __future__ import annotations

from typing import Any

import numpy as np
from onnx import ModelProto

import pyopnb

_TANH = "(self.limit * np.tanh(x / self.limit)).astype(x.dtype)"


def soft_clip_source(result: str = _TANH, signature: str = "(self, x)") -> str:
    """The source of a SoftClip whose ``compute`` returns ``result``; starts with a newline, and needs NumPy as ``np``."""
    return f"""
class SoftClip:
    def __init__(self, limit: float = 1.0):
        self.limit = limit
    def compute{signature}:
        return {result}
"""


def soft_clip_cell(result: str = _TANH) -> str:
    """A ``%%pyop`` cell that defines ``demo::SoftClip`` with ``soft_clip_source(result)``."""
    return f"%%pyop -q -d demo{soft_clip_source(result)}"


SOFT_CLIP = soft_clip_source()
"""The body of a ``%%pyop`` cell, or of a module that imports NumPy as ``np``."""


class SoftClip:
    """Clip x smoothly to ±limit."""

    def __init__(self, limit: float = 1.0):
        self.limit = limit

    def compute(self, x):
        return (self.limit * np.tanh(x / self.limit)).astype(x.dtype)


class Scale:
    """Multiply by a factor."""

    def __init__(self, by: float = 2.0):
        self.by = by

    def compute(self, x):
        return x * x.dtype.type(self.by)


class PlusOne:
    """Add one."""

    def compute(self, x):
        return x + x.dtype.type(1)


class Repeat:
    """Stack x as often as ``times`` says, so that an attr decides on a shape."""

    def __init__(self, times: int = 2):
        self.times = times

    def infer(self, x):
        return x.like(shape=[self.times, *x.shape])

    def compute(self, x):
        return np.stack([x] * self.times)


def define(cls: type, name: str | None = None) -> Any:
    """Define a class as ``demo::ItsName``, or under another name."""
    return pyopnb.registry.define(cls, name or f"demo::{cls.__name__}")


def chain(*op_types: str, kind: str = "float32[N]", **attrs: Any) -> ModelProto:
    """Unary nodes ``n0``, ``n1`` … one after the other, from ``x`` over ``t1``, ``t2`` … to ``y``; ``attrs`` go to each."""
    names = ["x", *(f"t{n}" for n in range(1, len(op_types))), "y"]
    nodes = [
        pyopnb.node(op, names[n], names[n + 1], name=f"n{n}", **attrs)
        for n, op in enumerate(op_types)
    ]
    return pyopnb.model(nodes, {"x": kind}, "y")
