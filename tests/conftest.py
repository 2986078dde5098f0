"""What every test begins with, and what many share."""

from __future__ import annotations

import gc
import inspect
import warnings
from collections.abc import Iterator
from functools import cache

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


@cache
def node_cases() -> dict[str, TestCase]:
    """ONNX's own node tests by name; onnx itself makes them once a process, in some seconds."""
    from onnx.backend.test.case.node import collect_testcases

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # some of ONNX's cases compute with infinities and warn while they are made
        made = collect_testcases(*[None] * bool(inspect.signature(collect_testcases).parameters))  # onnx 1.19 wants an op type
    return {case.name: case for case in made}


@pytest.fixture(scope="session")
def node_tests() -> dict[str, TestCase]:
    """ONNX's own node tests by name."""
    return node_cases()
