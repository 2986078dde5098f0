"""Cells in a shell, and one process that all tests of the folder may send things to."""

from __future__ import annotations

import multiprocessing
import sys
from concurrent.futures import ProcessPoolExecutor

import pytest
from shells import bare, define, only_shell, run, shell

__all__ = ["bare", "define", "only_shell", "run", "shell"]


@pytest.fixture(scope="session")
def _only_process():
    vars(sys.modules["__main__"]).setdefault(
        "__spec__", None
    )  # a shell's reset takes it, and multiprocessing asks for it
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        pool.submit(abs, 1).result()
        yield pool


@pytest.fixture
def remote(_only_process):
    """A function that calls one of `remote_work` in another process, whose registry is empty at first."""
    import remote_work

    _only_process.submit(remote_work.forget).result()
    return lambda function, *arguments: _only_process.submit(function, *arguments).result()


@pytest.fixture
def processes(_only_process):
    """An executor of one process."""
    return _only_process
