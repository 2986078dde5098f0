"""One model on one way, and what came of it."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import Any

import pytest
from entries import make
from onnx import ModelProto
from ways import WAYS
from without_weights import WITHOUT_WEIGHTS

__all__ = ["pairs", "tried"]


def pairs(names: Iterable[str]) -> list[Any]:
    """Parameters: each model with each way that it can go."""
    return [
        pytest.param(name, way, id=f"{name}-{way}".replace(" ", "_"))
        for name in names
        for way in WAYS
        if way != "divergence" or name not in WITHOUT_WEIGHTS
    ]


@lru_cache(maxsize=1)
def _made(name: str) -> tuple[ModelProto, dict[str, Any]]:
    return make(name)


def tried(name: str, way: str) -> None:
    """Let a model go a way."""
    model, feeds = _made(name)
    before = model.SerializeToString(deterministic=True)
    WAYS[way](model, feeds)
    assert model.SerializeToString(deterministic=True) == before, "the model itself was changed"
