"""One Chromium, and one server with a folder for each file of this lane, and a tab for each test."""

from __future__ import annotations

from dataclasses import replace

import pytest
from lab import browser, lab, new_context, tab


@pytest.fixture(scope="session")
def chromium():
    with browser() as started:
        yield started


@pytest.fixture(scope="session")
def started(tmp_path_factory):
    with lab(tmp_path_factory.mktemp("root"), base_url="/user/alice/") as server:
        yield server


@pytest.fixture(scope="module")
def server(request, started):
    """The server, with the files that the test module's ``write_files`` writes, and no kernels of other modules."""
    folder = request.path.stem
    root = started.root / folder
    root.mkdir()
    request.module.write_files(root)
    yield replace(started, root=root, folder=folder)
    for kernel in started.kernels():
        started.api(f"kernels/{kernel}", "DELETE")


@pytest.fixture(scope="session")
def context(chromium):
    made = new_context(chromium)
    yield made
    made.close()


@pytest.fixture
def page(context, server):
    """A tab that must not have tried to reach other hosts, or logged an error."""
    with tab(context, server) as opened:
        yield opened
        assert not opened.blocked, opened.blocked
        assert not opened.console_errors, opened.console_errors
