"""One Chromium for all tests of this lane."""

from __future__ import annotations

import pytest
from lab import browser


@pytest.fixture(scope="session")
def chromium():
    with browser() as started:
        yield started
