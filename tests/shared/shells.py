"""One shell for all tests that run cells, and the functions that run them; conftests import these."""

from __future__ import annotations

import gc
from dataclasses import dataclass
from textwrap import dedent
from typing import Any

import pytest
from IPython.core.interactiveshell import ExecutionResult, InteractiveShell
from IPython.utils.capture import capture_output
from traitlets.config import Config

from pyopnb import registry


@pytest.fixture(scope="session")
def only_shell(tmp_path_factory):
    config = Config()
    config.HistoryManager.enabled = False
    config.InteractiveShell.colors = "nocolor"
    shell = InteractiveShell.instance(
        config=config, ipython_dir=str(tmp_path_factory.mktemp("ipython"))
    )
    yield shell
    InteractiveShell.clear_instance()


@pytest.fixture
def bare(only_shell):
    """The shell without the extension."""
    only_shell.reset(new_session=False)
    registry.clear()
    # The next reset collects garbage, 20 ms of modules of IPython if they were not left out.
    gc.freeze()
    yield only_shell
    only_shell.extension_manager.unload_extension("pyopnb")
    registry.clear()


@pytest.fixture
def shell(bare):
    bare.extension_manager.load_extension("pyopnb")
    return bare


@dataclass
class Ran:
    """The value and the printed output of a cell."""

    result: ExecutionResult
    out: str
    err: str

    @property
    def value(self) -> Any:
        return self.result.result

    @property
    def ok(self) -> bool:
        return self.result.success

    @property
    def error(self) -> BaseException | None:
        return self.result.error_in_exec or self.result.error_before_exec


@pytest.fixture
def run(shell):
    """Run a cell as a user does."""

    def run(cell: str, number: int | None = None) -> Ran:
        if number is not None:
            shell.execution_count = number
        with capture_output() as shown:
            result = shell.run_cell(dedent(cell), store_history=True)
        return Ran(result, shown.stdout, shown.stderr)

    return run


@pytest.fixture
def define(run):
    """Run a cell that must succeed."""

    def define(cell: str, number: int | None = None) -> Ran:
        ran = run(cell, number)
        assert ran.ok, ran.out + ran.err
        return ran

    return define
