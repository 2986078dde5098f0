"""An output that runs again when an op is redefined."""

import base64
import gc
import itertools
import re
import sys
import threading
import time
import types
import weakref

import pytest
from limits import LIMIT
from line_interrupts import lines_that_leave_held
from systems import interrupt_main

import pyopnb
from pyopnb.notebook.live import cells, output

HARD = "np.clip(x, -self.limit, self.limit).astype(np.float32)"


def test_a_redefinition_shows_result_diff_time_and_lines(clip, redefine):
    watch = clip.run("w = pyopnb.watch(session, x=x)\nw")
    assert "demo::SoftClip version 1" in clip.text
    redefine(HARD)
    assert watch.runs == 2
    assert clip.updates == 1
    assert watch.result["y"].tolist() == [-2, 0, 1, 2]
    assert watch.diff.verdict == "different"
    assert "demo::SoftClip version 2" in clip.text and "s · " in clip.text
    for text in ("version 1 → 2", "different", "np.clip"):
        assert text in clip.html, text
    assert re.search(r"^\+ *return np.clip", clip.text, re.MULTILINE)
    # The numbers of both are in one table, which says what they are.
    assert "a: now" in clip.html and "b: the previous run" in clip.html
    assert "<b>the previous run</b>" not in clip.html
    assert clip.html.count("✗ different") == 1


def test_both_runs_stand_beside_their_difference_on_one_scale(clip, redefine):
    clip.run("import numpy as np; x = np.float32(np.outer(np.arange(40), np.arange(50)))")
    model = "(float[N,M] x) => (float[N,M] y) { y = demo.SoftClip<limit = 2.0>(x) }"
    clip.run(f"pyopnb.watch(pyopnb.Session(pyopnb.parse('{model}')), x=x)")
    assert "the previous run" not in clip.html
    redefine("x.astype(np.float32)")
    columns = re.findall(r"<b>(the previous run|now|against the previous run)</b>", clip.html)
    assert columns == ["the previous run", "now", "against the previous run"]
    assert "a: now, b: the previous run" in clip.html
    # Both pictures have the colors of the larger result.
    pictures = [base64.b64decode(data).decode() for data in re.findall('base64,([^"]+)', clip.html)]
    ends = [re.findall(">([0-9,.]+)</text>", picture)[-1] for picture in pictures[:2]]
    assert ends == ["1,910", "1,910"]


def test_it_stays_in_an_untrusted_notebook(clip, redefine):
    clip.run("pyopnb.watch(session, x=x)")
    redefine(HARD)
    tags = set(re.findall(r"<([a-z0-9]+)", clip.html))
    assert tags <= {
        "div",
        "details",
        "summary",
        "table",
        "thead",
        "tbody",
        "tr",
        "td",
        "th",
        "pre",
        "img",
        "b",
        "span",
        "progress",
    }
    assert len(clip.html) < 200_000


def test_an_error_of_the_op_appears_in_it_and_not_in_the_cell_that_redefined(clip, redefine):
    watch = clip.run("w = pyopnb.watch(session, x=x)\nw")
    redefine("x / nothing")
    assert isinstance(watch.error, NameError)
    assert "NameError" in clip.html and "nothing" in clip.html
    assert (
        re.search(r"Cell In\[\d+\], line \d+, in compute", clip.text)
        and "in node" not in clip.text.splitlines()[0]
    )
    assert "pyopnb/" not in clip.text
    redefine(HARD)
    assert watch.error is None
    assert watch.diff.verdict == "different"  # against version 1, the last that ran


def test_it_follows_the_attrs_of_the_session_and_names_those_that_are_not_the_models(clip):
    watch = clip.run("w = pyopnb.watch(session, x=x)\nw")
    assert "limit" not in clip.text
    clip.run("session.set_attrs(limit=1.0)")
    assert watch.runs == 2 and "· y.limit = 1 ·" in clip.text
    assert (
        "y.limit: the model's → 1" in clip.text
        and "against the previous run: different: y" in clip.text
    )
    clip.run("session.set_attrs(limit=2.0)")
    assert "y.limit: 1 → the model's" in clip.text and "y.limit =" not in clip.text
    clip.run("w.close()")
    clip.run("session.set_attrs(limit=1.0)")
    assert watch.runs == 3 and not clip.run("session")._attr_listeners


@pytest.fixture
def in_jupyterlab(clip, monkeypatch):
    monkeypatch.setattr(cells, "PATIENCE", 0.2)
    runs = (
        f"cell {number}" for number in itertools.count()
    )  # each run belongs to a cell of its own
    monkeypatch.setattr(
        clip.shell, "get_parent", lambda: {"metadata": {"cellId": next(runs)}}, raising=False
    )


def test_a_long_run_leaves_the_cell_free(clip, redefine, in_jupyterlab):
    watch = clip.run("w = pyopnb.watch(session, x=x)\nw")
    assert (
        watch.runs == 1
    )  # a slow machine is still at it, and a redefinition would replace the run
    gate = clip.shell.user_ns["gate"] = threading.Event()
    start = time.monotonic()
    redefine("gate.wait(600) * x")
    assert time.monotonic() - start < 300 and not watch.wait(0)
    assert re.match(r"running since [\d:]+\ndemo::SoftClip version 1", repr(watch))
    gate.set()
    assert watch.result["y"].tolist() == [-4, 0, 1, 8] and watch.runs == 2  # which waits


def test_a_redefinition_replaces_a_long_run(clip, redefine, in_jupyterlab):
    watch = clip.run("w = pyopnb.watch(session, x=x)\nw")
    assert watch.runs == 1
    gate = clip.shell.user_ns["gate"] = threading.Event()
    redefine("gate.wait(600) * x")
    redefine("x + np.float32(1)")
    redefine("x + np.float32(2)")
    gate.set()
    assert watch.result["y"].tolist() == [-2, 2, 3, 10] and watch.error is None
    assert watch.runs <= 3


def test_stop(clip, redefine, in_jupyterlab):
    watch = clip.run("w = pyopnb.watch(session, x=x)\nw")
    assert watch.runs == 1
    redefine("[time.sleep(0.01) for _ in range(10_000)] and x")
    clip.run("w.stop()")
    assert isinstance(watch.error, KeyboardInterrupt) and watch.runs == 2
    assert "stopped after" in repr(
        watch
    ) and "the last result without an error: demo::SoftClip version 1" in repr(watch)
    redefine(HARD)
    assert watch.wait(LIMIT) and watch.error is None


def test_a_cell_whose_output_is_not_updated_later_waits_for_its_runs(clip, redefine, monkeypatch):
    monkeypatch.setattr(cells, "PATIENCE", 0.0)
    clip.run("watch = pyopnb.watch(session, x=x)\nwatch")
    assert "running since" not in clip.text and "demo::SoftClip version 1" in clip.text
    redefine("time.sleep(0.3) or x")
    assert "running since" not in clip.text and "demo::SoftClip version 2" in clip.text


def test_an_interrupt_of_a_cell_that_waits_stops_the_run(clip, redefine):
    clip.shell.user_ns["interrupt"] = interrupt_main
    watch = clip.run("w = pyopnb.watch(session, x=x)\nw")
    # The cell has to wait by then: before, the interrupt would hit other code, such as a
    # busy machine showed.
    redefine("time.sleep(1) or interrupt() or [time.sleep(0.01) for _ in range(10_000)] and x")
    assert "stopped after" in repr(watch) and isinstance(watch.error, KeyboardInterrupt)
    clip.run("w.close()")
    clip.run("pyopnb.watch(session, x=x)", ok=False)  # its own cell
    assert isinstance(clip.shell.last_execution_result.error_in_exec, KeyboardInterrupt)


def test_two_ops_in_one_cell_are_one_run(page):
    cell = "%%pyop -q -d demo\nclass A:\n    def compute(self, x): return x + {0}\nclass B:\n    def compute(self, x): return x * {0}"
    page.run(cell.format("np.float32(1)"))
    page.run("""
        nodes = [pyopnb.node("demo::A", "x", "a"), pyopnb.node("demo::B", "a", "y")]
        w = pyopnb.watch(pyopnb.Session(pyopnb.model(nodes, {"x": "float32[N]"}, "y")), x=np.float32([1, 2]))
        w
        """)
    page.run(cell.format("np.float32(3)"))
    watch = page.run("w")
    assert watch.runs == 2
    assert watch.result["y"].tolist() == [12, 15]


def test_close(clip, redefine, listeners):
    before = listeners()
    watch = clip.run("w = pyopnb.watch(session, x=x)\nw")
    clip.run("w.close()")
    assert "ended" in clip.text
    redefine("x")
    assert watch.runs == 1 and listeners() == before


def test_running_its_cell_again_ends_the_previous_one(clip, redefine):
    cell = "w = pyopnb.watch(session, x=x)\nw"
    first = clip.run(cell)
    second = clip.run(cell)
    redefine(HARD)
    assert first.closed and first.runs == 1
    assert not second.closed and second.runs == 2


def test_deleting_its_cell_ends_it(clip, redefine, monkeypatch):
    metadata = {"cellId": "one"}
    monkeypatch.setattr(clip.shell, "get_parent", lambda: {"metadata": metadata}, raising=False)
    watch = clip.run("w = pyopnb.watch(session, x=x)\nw")
    metadata.clear()
    metadata |= {"cellId": "two", "deletedCells": ["one"]}
    clip.run("1")
    assert watch.closed
    redefine(HARD)
    assert watch.runs == 1


def test_a_watch_without_references_is_collected(clip, listeners):
    before = listeners()
    clip.run("w = pyopnb.watch(session, x=x); del w")
    end = time.monotonic() + LIMIT
    while listeners() != before:  # the thread of its run, which is about to end, may still hold it
        assert time.monotonic() < end
        time.sleep(0.01)
        gc.collect()


def test_unloading_the_extension_ends_all(clip, listeners):
    before = listeners()
    events = {name: len(callbacks) for name, callbacks in clip.shell.events.callbacks.items()}
    watch = clip.run("w = pyopnb.watch(session, x=x)\nw")
    clip.run("%unload_ext pyopnb")
    # The extension itself listens for classes that are changed in place.
    assert watch.closed and listeners() == before - 1
    assert {
        name: len(callbacks) for name, callbacks in clip.shell.events.callbacks.items()
    } == events
    clip.run("%load_ext pyopnb")
    assert clip.run("pyopnb.watch(session, x=x)").runs == 1


def test_feeds_are_its_own(clip, redefine):
    watch = clip.run("w = pyopnb.watch(session, x=x)\nw")
    clip.run("x[:] = 100")
    redefine(HARD)
    assert watch.result["y"].tolist() == [-2, 0, 1, 2]


@pytest.mark.parametrize("where", ["watch", "interact"])
def test_a_script_has_no_outputs_and_marimo_none_of_this_kind(clip, monkeypatch, where):
    session, x = clip.run("session"), clip.run("x")
    monkeypatch.setattr(cells, "get_ipython", lambda: None)
    with pytest.raises(
        pyopnb.errors.InputError, match=f"{where}: expected a notebook or IPython, got a script"
    ):
        getattr(pyopnb, where)(session, x=x)
    monkeypatch.setitem(
        sys.modules, "marimo", types.SimpleNamespace(running_in_notebook=lambda: True)
    )
    with pytest.raises(
        pyopnb.errors.InputError, match=f"{where}: expected Jupyter or IPython, got marimo. Try: "
    ) as caught:
        getattr(pyopnb, where)(session, x=x)
    advice = re.search(r"session[.\w]*\(.*\bx=x\)", str(caught.value))[0]
    result = eval(advice, {"session": session, "x": x, "slider": types.SimpleNamespace(value=1.0)})
    assert result["y"].shape == (4,)


def test_a_closed_watch_is_released(clip):
    ref = weakref.ref(clip.run("w = pyopnb.watch(session, x=x)\nw"))
    clip.run("w.close()")
    clip.run("del w")
    clip.shell.reset(new_session=False)
    clip.shell.displayhook.flush()
    gc.collect()
    assert ref() is None


@pytest.mark.parametrize("made", ["watch(session, x=x)", "interact(session, x=x)"])
def test_an_interrupt_at_any_line_leaves_no_lock_held(clip, monkeypatch, made):
    shown = clip.run(f"shown = pyopnb.{made}\nshown")
    held = [shown._lock, output._session_locks[shown.session]]

    def action():
        shown._run()
        shown.stop()
        shown._show()

    assert lines_that_leave_held(action, held, output, sys.modules[type(shown).__module__]) == []
    assert lines_that_leave_held(shown.close, held, output) == []


def test_a_view_that_draws_with_pyplot(clip):
    clip.run(
        "import matplotlib; matplotlib.use('agg')\n"
        "from matplotlib import pyplot\n"
        "w = pyopnb.watch(session, x=x, view=lambda result: pyplot.plot(result['y']))\nw"
    )
    assert "data:image/png" in clip.html
    # Else the figure would also be shown below the next cell.
    assert clip.shell.user_ns["pyplot"].get_fignums() == []
