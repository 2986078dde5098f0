"""Files that are reloaded whenever they are saved."""

from __future__ import annotations

import os
import threading
import time

import pytest
from limits import LIMIT
from line_interrupts import lines_that_leave_held

from pyopnb import registry
from pyopnb.notebook import file_watcher
from pyopnb.notebook.file_watcher import FileWatcher

OP = "import pyopnb\n@pyopnb.pyop('demo::A')\nclass A:\n    limit = {}\n    def compute(self, x): return x\n"


@pytest.fixture
def save(tmp_path, monkeypatch):
    """Save the file as an editor does, with a new modification time."""
    monkeypatch.chdir(tmp_path)
    times = iter(range(1_000_000_000, 2_000_000_000))

    def save(text):
        (tmp_path / "ops.py").write_text(text, encoding="utf-8")
        os.utime("ops.py", (now := next(times), now))

    save(OP.format(1))
    return save


@pytest.fixture
def slow(monkeypatch):
    """The thread sleeps: only cells poll."""
    monkeypatch.setattr(file_watcher, "_INTERVAL", 1000)


def limit():
    return registry["demo::A"].current.cls.limit


def threads():
    return [thread for thread in threading.enumerate() if thread.name == "pyopnb files"]


def until(true):
    end = time.monotonic() + LIMIT
    while not true():
        assert time.monotonic() < end
        time.sleep(0.01)


def test_a_cell_uses_what_was_saved_before_it(define, shell, save, slow):
    out = define("%pyop load ops.py --watch").out
    assert (
        out.splitlines()[1] == "ops.py is reloaded whenever it is saved. To stop: %pyop load ops.py"
    )
    shell.push({"limit": limit})
    assert define("limit()").value == 1
    save(OP.format(2))
    ran = define("limit()")
    assert ran.value == 2
    assert ran.out.startswith("demo::A, version 2: (x)\n")
    assert "version" not in define("limit()").out


def test_a_save_is_seen_without_a_cell(define, save, monkeypatch):
    monkeypatch.setattr(file_watcher, "_INTERVAL", 0.01)
    define("%pyop load ops.py --watch")
    save(OP.format(5))
    until(lambda: limit() == 5)


def test_a_failure_is_reported_once_and_leaves_the_last_good_version(define, save, slow):
    define("%pyop load ops.py --watch")
    for text, words in [
        (
            OP.format(2) + "1 / 0\n",
            [
                "ops.py was saved but could not be loaded; its ops are unchanged.",
                "line 6",
                "ZeroDivisionError",
            ],
        ),
        ("class A(", ["SyntaxError", "line 1"]),
        ("x = 1\n", ["DefinitionError: file", "expected an op, got none"]),
        ("raise SystemExit", ["SystemExit"]),
    ]:
        save(text)
        ran = define("1")
        for word in words:
            assert word in ran.err
        assert "exec_module.py" not in ran.err and "file_watcher.py" not in ran.err
        assert define("1").err == ""
        assert (limit(), registry["demo::A"].current.number) == (1, 1)
    save(OP.format(3))
    define("1")
    assert limit() == 3


def test_an_op_keeps_the_names_of_the_file_it_came_from(define, save, slow):
    text = "import pyopnb\nby = {}\n@pyopnb.pyop('demo::A')\nclass A:\n    def compute(self, x): return x * by\n"
    save(text.format(2))
    define("%pyop load ops.py --watch")
    save(text.format(3))
    # Editors empty a file before they write it.
    for later in ("", OP.format(1).replace("A", "B")):
        define("%pyop rollback A 1")
        save(later)
        assert "unchanged" in define("1").err or later
        define("1")
        assert registry["demo::A"].current.cls().compute(1) == 2


def test_loading_without_watch_ends_it(define, save, slow):
    define("%pyop load ops.py --watch")
    define("%pyop load ops.py")
    save(OP.format(2))
    define("1")
    assert limit() == 1


def test_unloading_ends_the_thread_and_the_polling(bare, define, save):
    before = list(bare.events.callbacks["pre_run_cell"])
    define("%pyop load ops.py --watch")
    define("%pyop load ops.py --watch")
    assert len(threads()) == 1
    assert len(bare.events.callbacks["pre_run_cell"]) == len(before) + 1
    define("%unload_ext pyopnb")
    assert threads() == []
    assert bare.events.callbacks["pre_run_cell"] == before
    save(OP.format(2))
    define("1")
    assert limit() == 1


def test_an_interrupt_at_any_line_leaves_no_lock_held(shell, save, slow):
    watcher = FileWatcher(shell)

    def action():
        watcher.watch("ops.py")
        save(OP.format(2))
        watcher.poll()
        watcher.unwatch("ops.py")

    assert lines_that_leave_held(action, [watcher._lock], file_watcher) == []
    watcher.close()
