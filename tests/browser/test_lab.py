"""The driver itself: it leaves no process behind, and blocks requests to other hosts."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from lab import lab, new_context, tab, write_notebook
from playwright.sync_api import expect


def processes(mark):
    """The ids of processes whose environment contains this text."""
    pids = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            try:
                if mark in (entry / "environ").read_bytes():
                    pids.append(int(entry.name))
            except OSError:  # it has ended, or is not ours
                continue
    return pids


@pytest.mark.everywhere  # a server of its own
def test_a_failure_leaves_no_process_and_reaches_nobody_else(chromium, tmp_path):
    write_notebook(tmp_path / "one.ipynb", "1 + 1")
    # All of it is inside raises: the test is what the exception in the last line leaves behind.
    with (  # noqa: PT012
        pytest.raises(ZeroDivisionError),
        lab(tmp_path, base_url="/user/bob/") as server,
        tab(new_context(chromium), server) as page,
    ):
        mark = bytes(server.home)
        page.open_notebook("one.ipynb")
        page.run_all()
        expect(page.output(0).locator("pre").last).to_have_text("2")
        page.edit(0, "1 + 2")
        page.run(0)
        expect(page.output(0).locator("pre").last).to_have_text("3")
        assert len(processes(mark)) >= 2  # the server and a kernel

        assert page.blocked == []
        assert (
            page.page.evaluate(
                "() => fetch('http://127.0.0.1:9/').then(() => 'answered', () => 'refused')"
            )
            == "refused"
        )
        assert page.blocked == ["http://127.0.0.1:9/"]
        page.page.evaluate("() => { setTimeout(() => { throw new Error('seen') }) }")
        assert page.eventually(lambda: any("seen" in error for error in page.console_errors))
        1 / 0  # noqa: B018
    assert processes(mark) == []
    assert not server.home.exists()
