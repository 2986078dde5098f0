"""What every test begins with."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import pyopnb


@pytest.fixture(autouse=True)
def clean_registry() -> Iterator[None]:
    """No op of one test is known to the next."""
    pyopnb.registry.clear()
    yield
    pyopnb.registry.clear()
