"""What every test begins with, and what many share."""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator
from pathlib import Path
from textwrap import dedent

import pytest
from hypothesis import HealthCheck, settings
from onnx.backend.test.case.test_case import TestCase
from small_ops import SOFT_CLIP

import pyopnb

# How long an example takes says how busy the machine is, and nothing about pyopnb.
settings.register_profile("untimed", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("untimed")

HERE = Path(__file__).parent
# Folders and files whose tests give on every Python what they give on the first one. What depends on how Python reads, writes down,
# copies or collects things is in none of them: hints, sources, tracebacks, pickles, threads, lifetimes, and all of the border.
ONE_PYTHON = [
    "corpus",
    "project/test_benchmarks.py",
    "project/test_binder.py",
    "project/test_docs.py",
    "project/test_docs_ways.py",
    "project/test_habits.py",
]
LIBRARIES = [
    "command_line",
    "diffs/arrays",
    "diffs/models",
    "diffs/traces",
    "display",
    "models/edit",
    "models/support",
    "models/test_build.py",
    "models/test_external_data.py",
    "models/test_functions.py",
    "models/test_index.py",
    "models/test_io.py",
    "models/test_markers.py",
    "models/test_nodes.py",
    "models/test_ort_capabilities.py",
    "models/test_tensors.py",
    "models/test_versions.py",
    "models/text",
    "onnx_reference",
    "runtime/test_newer_models.py",
    "runtime/test_onnx_overview.py",
    "runtime/test_plain_feeds.py",
    "runtime/test_sweep.py",
    "runtime/test_too_large.py",
    "runtime/trace/test_exposure.py",
    "runtime/trace/test_origins.py",
    "runtime/trace/test_profile.py",
    "runtime/trace/test_select.py",
    "runtime/trace/test_summary.py",
    "runtime/trace/test_times.py",
    "testing/test_difference.py",
]


@pytest.hookimpl(tryfirst=True)  # before -m selects
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what stands in the lists above."""
    marks = {HERE / place: mark for mark, places in (("one_python", ONE_PYTHON), ("libraries", LIBRARIES)) for place in places}
    for place in marks:
        assert place.exists(), f"{place} is in a list of tests/conftest.py, and is not there"
    for item in items:
        for mark in {marks[place] for place in (item.path, *item.path.parents) if place in marks}:
            item.add_marker(mark)


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
