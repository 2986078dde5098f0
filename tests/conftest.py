"""What every test begins with, and what many share."""

from __future__ import annotations

import gc
import signal
import sys
import weakref
from collections.abc import Iterator
from pathlib import Path
from textwrap import dedent

import onnxruntime
import pytest
from calm import calm
from hypothesis import HealthCheck, settings
from onnx.backend.test.case.test_case import TestCase
from small_ops import SOFT_CLIP

import pyopnb
from pyopnb.models.module_files import load_module

# How long an example takes says how busy the machine is, and nothing about pyopnb.
settings.register_profile("untimed", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("untimed")

# A shell that starts something in the background has it ignore interrupts, and so
# would all that it starts.
signal.signal(signal.SIGINT, signal.default_int_handler)

HERE = Path(__file__).parent
# Which folders and files have something to say where. The first Python runs all of them; in one
# of these lists a test that says nothing there, or that is long, is marked one_python. What is
# in neither list runs on the first Python only, and on all of them in make test-all. What a
# version of Python may change: how it reads, writes down, copies, names, interrupts and collects
# things; and the border.
PYTHONS = [
    "border/test_interrupts.py",
    "border/test_lifetime.py",
    "border/test_misbehavior.py",
    "border/test_random_calls.py",
    "border/test_reuse.py",
    "diffs/test_ops.py",
    "models/test_load.py",
    "models/test_save.py",
    "notebook/test_argument_completion.py",
    "notebook/test_commands.py",
    "notebook/test_extension.py",
    "notebook/test_kernel.py",
    "notebook/test_native.py",
    "notebook/test_pyop_cell.py",
    "notebook/test_pyop_magic.py",
    "notebook/test_tracebacks.py",
    "ops",
    "project/test_installed.py",
    "reload",
    "runtime/test_attrs.py",
    "runtime/test_bare.py",
    "runtime/test_call.py",
    "runtime/test_session.py",
    "testing/test_check.py",
    "threads",
]
# What the oldest NumPy, onnx, onnxruntime, IPython, ipywidgets, netron or matplotlib may change.
LIBRARIES = [
    "border/test_misbehavior.py",
    "diffs/arrays",
    "diffs/traces",
    "display/netron",
    "display/svg/test_to_matplotlib.py",
    "display/test_models.py",
    "display/test_show.py",
    "display/test_tensors.py",
    "lowering/test_random_expressions.py",
    "models",
    "notebook",
    "onnx_reference",
    "ops/test_dtypes.py",
    "ops/test_plain_values.py",
    "ops/test_returns.py",
    "ops/test_types.py",
    "ortx",
    "project/test_imports.py",
    "project/test_installed.py",
    "runtime",
    "testing",
    "traces",
]


# Their rows are marked one by one.
MARKED = {HERE / "mistakes/test_mistakes.py"}
LISTS = {
    "pythons": {HERE / place for place in PYTHONS},
    "libraries": {HERE / place for place in LIBRARIES},
}


def listed(path: Path, mark: str) -> bool:
    return not LISTS[mark].isdisjoint((path, *path.parents))


def runs_under_asan(item: pytest.Item) -> bool:
    """Tell whether tests/lanes/asan.sh runs the test."""
    is_plain = item.get_closest_marker("plain") is not None
    is_at_border = HERE / "border" in item.path.parents
    return is_at_border and not is_plain and item.path.name != "test_namesakes.py"


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave alone a file of which `-m`, when it ends in a list's mark, would select nothing: to import all takes 20 s."""
    mark = config.option.markexpr.rpartition(" and ")[2]
    needless = mark in LISTS and collection_path.is_file() and collection_path not in MARKED
    return True if needless and not listed(collection_path, mark) else None


@pytest.hookimpl(tryfirst=True)  # before -m selects
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests in the lists above."""
    for place in set().union(*LISTS.values()):
        assert place.exists(), f"{place} is in a list of tests/conftest.py, and is not there"
    for item in items:
        for mark in LISTS:
            assert item.path in MARKED or item.get_closest_marker(mark) is None, (
                f"put {item.path} into a list of tests/conftest.py"
            )
            if listed(item.path, mark):
                item.add_marker(mark)
        if runs_under_asan(item):
            item.add_marker("under_asan")


@pytest.fixture(scope="module", autouse=True)
def frozen() -> None:
    """Keep what earlier modules and pytest itself hold, millions of objects in the end, out of each `gc.collect` in a test."""
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="module", autouse=True)
def calm_pools(request: pytest.FixtureRequest) -> Iterator[None]:
    """Sessions whose idle threads sleep; they spin, as by default, in tests/threads, where runs meet."""
    with pytest.MonkeyPatch.context() as patch:
        if HERE / "threads" not in request.path.parents:
            patch.setattr(
                onnxruntime.InferenceSession,
                "__init__",
                calm(onnxruntime.InferenceSession.__init__),
            )
        yield


@pytest.fixture(autouse=True)
def clean_registry() -> Iterator[None]:
    """No op of one test is known to the next."""
    pyopnb.registry.clear()
    yield
    pyopnb.registry.clear()


# What goes through all of them takes 10 to 20 s; the sample has each operator, each dtype
# and each kind of value.
@pytest.fixture(
    scope="session", params=["sample", pytest.param("all", marks=pytest.mark.everywhere)]
)
def node_tests(request: pytest.FixtureRequest) -> dict[str, TestCase]:
    """The ONNX node tests by name."""
    from node_tests import cases, sample  # seconds, for those who ask for it

    return cases() if request.param == "all" else sample()


class OpenSessions:
    """Counts the ONNX Runtime sessions that were made, and how many were open at a time."""

    def __init__(self) -> None:
        self.made = self.open = self.most = 0

    def opened(self, session: object) -> None:
        self.made += 1
        self.open += 1
        self.most = max(self.most, self.open)
        weakref.finalize(session, self.closed)

    def closed(self) -> None:
        self.open -= 1


@pytest.fixture
def open_sessions(monkeypatch) -> OpenSessions:
    """Count the sessions that ONNX Runtime itself makes in the test."""
    counts = OpenSessions()
    binding = onnxruntime.capi.onnxruntime_inference_collection.C
    made = binding.InferenceSession

    def counted(*args):
        session = made(*args)
        counts.opened(session)
        return session

    monkeypatch.setattr(binding, "InferenceSession", counted)
    return counts


@pytest.fixture
def define(tmp_path):
    """Define the ops of a text, as a file that is loaded."""
    before = set(sys.modules)

    def define(text: str, name: str = "written.py") -> tuple[pyopnb.registry.__class__, ...]:
        (tmp_path / name).write_text(
            "import numpy as np\nimport pyopnb\n" + dedent(text), encoding="utf-8"
        )
        return load_module(tmp_path / name)

    yield define
    for module in set(sys.modules) - before:
        if module.startswith(("pyop_file_", "pyop_kept_")):
            del sys.modules[module]


@pytest.fixture
def clipper():
    """A model of one node, ``demo::SoftClip`` with ``limit = 2``."""
    return pyopnb.model(
        pyopnb.node("demo::SoftClip", "x", "y", limit=2.0), {"x": "float32[N]"}, {"y": "float32[N]"}
    )


@pytest.fixture
def soft_clip(define):
    return define(f'@pyopnb.pyop("demo::SoftClip"){SOFT_CLIP}')[0]
