"""What every test begins with, and what many share."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest
from onnx.backend.test.case.test_case import TestCase

import pyopnb


def pytest_collection_finish() -> None:
    """Keep what was collected, thousands of tests, out of each walk over all objects: gc.collect, and settling an escape."""
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True)
def clean_registry() -> Iterator[None]:
    """No op of one test is known to the next."""
    pyopnb.registry.clear()
    yield
    pyopnb.registry.clear()


@pytest.fixture(scope="session")
def node_tests() -> dict[str, TestCase]:
    """ONNX's own node tests by name."""
    from node_tests import cases  # seconds, for those who ask for it

    return cases()
