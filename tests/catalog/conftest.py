import pytest
from shells import bare, only_shell, shell

import pyopnb

__all__ = ["bare", "only_shell", "shell"]


@pytest.fixture(autouse=True)
def empty_registry():
    yield
    pyopnb.registry.clear()
