"""One Chromium for all tests of this lane, a server for each file, and a tab for each test."""

from __future__ import annotations

import pytest
from lab import browser, lab, tab


@pytest.fixture(scope="session")
def chromium():
    with browser() as started:
        yield started


@pytest.fixture(scope="module")
def server(request, tmp_path_factory):
    """A server on the files that the test module's ``write_files`` writes."""
    root = tmp_path_factory.mktemp("root")
    request.module.write_files(root)
    with lab(root, base_url="/user/alice/") as started:
        yield started


@pytest.fixture
def page(chromium, server):
    """A tab that must not have tried to reach other hosts, or logged an error."""
    with tab(chromium, server) as opened:
        yield opened
        assert not opened.blocked, opened.blocked
        assert not opened.console_errors, opened.console_errors
