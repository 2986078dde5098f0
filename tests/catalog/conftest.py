import pytest

import pyopnb


@pytest.fixture(autouse=True)
def empty_registry():
    yield
    pyopnb.registry.clear()
