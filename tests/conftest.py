"""What every test begins with, and what many share."""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator
from textwrap import dedent

import pytest
from hypothesis import HealthCheck, settings
from onnx.backend.test.case.test_case import TestCase
from small_ops import SOFT_CLIP

import pyopnb

# How long an example takes says how busy the machine is, and nothing about pyopnb.
settings.register_profile("untimed", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("untimed")


@pytest.fixture(scope="module", autouse=True)
def frozen() -> None:
    """Keep what earlier modules and pytest itself hold, millions of objects in the end, out of each `gc.collect` in a test."""
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


@pytest.fixture
def define(tmp_path):
    """Define the ops of a text, as a file that is loaded."""
    before = set(sys.modules)

    def define(text: str, name: str = "written.py") -> tuple[pyopnb.registry.__class__, ...]:
        (tmp_path / name).write_text("import numpy as np\nimport pyopnb\n" + dedent(text))
        return pyopnb.load_module(tmp_path / name)

    yield define
    for module in set(sys.modules) - before:
        if module.startswith(("pyop_file_", "pyop_kept_")):
            del sys.modules[module]


@pytest.fixture
def clipper():
    """A model of one node, ``demo::SoftClip`` with ``limit = 2``."""
    return pyopnb.model(pyopnb.node("demo::SoftClip", "x", "y", limit=2.0), {"x": "float32[N]"}, {"y": "float32[N]"})


@pytest.fixture
def soft_clip(define):
    return define(f'@pyopnb.pyop("demo::SoftClip"){SOFT_CLIP}')[0]
