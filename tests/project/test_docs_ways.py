"""How many rooms and files a feed, a batch and a trace pass: docs/architecture says it, and here it is measured.

A room is entered where one of its Python functions is called with the thing: as an argument, or in
a list, tuple or dict that is one. Functions that get something made of it, as its name or its type,
do not count; nor does C++.
"""

import sys
from pathlib import Path

import numpy as np
from small_ops import chain

import pyopnb

PACKAGE = Path(pyopnb.__file__).parent


def holds(value, things):
    if any(value is thing for thing in things):
        return True
    inside = (
        value.values() if type(value) is dict else value if type(value) in (list, tuple) else ()
    )
    return any(item is thing for item in inside for thing in things)


def files_that_see(things, call):
    """The files of which a function is called with one of the things while ``call`` runs."""
    files = set()

    def look(frame, event, _):
        if event == "call" and frame.f_code.co_filename.startswith(str(PACKAGE)):
            values = frame.f_locals.values()  # of a call that begins: its arguments
            if any(holds(value, things) for value in list(values)):
                files.add(Path(frame.f_code.co_filename).relative_to(PACKAGE).as_posix())

    sys.setprofile(look)
    try:
        call()
    finally:
        sys.setprofile(None)
    return files


def session_of(op_type):
    return pyopnb.Session(chain(op_type, "demo::SoftClip"))


def test_a_feed_passes_two_files(soft_clip):
    session, x = session_of("::Abs"), np.float32([1, 2, -4])
    session(x=x)
    files = {"engine/runtime/session/session.py", "engine/runtime/session/state.py"}
    assert files_that_see([x], lambda: session(x=x)) == files
    assert files_that_see([x], lambda: session(x)) == files
    assert files_that_see([x], lambda: session.run(None, {"x": x})) == files


def test_a_batch_passes_at_most_five_files(soft_clip):
    session, x = session_of("::Abs"), np.float32([1, 2, -4])
    assert len(files_that_see([x], lambda: pyopnb.map(session, [x]))) <= 5
    assert len(files_that_see([x], lambda: pyopnb.sweep(session, x, limit=[1.0, 2.0]))) <= 5


def test_a_trace_and_its_tensors_enter_three_rooms(soft_clip):
    x = np.float32([1, 2, -4])
    a, b = (session_of(op_type).trace(x=x) for op_type in ("::Abs", "::Neg"))
    things = [a, b, *(tensor for trace in (a, b) for _, tensor in trace.items())]
    files = files_that_see(things, lambda: pyopnb.diff(a, b))
    rooms = {file.partition("/")[0] for file in files}
    assert rooms - {"common"} == {"diffs", "traces", "engine"}
    assert len(files_that_see([a, b], lambda: pyopnb.diff(a, b))) <= 10


def test_an_op_passes_at_most_twelve_files_of_lower(soft_clip):
    op, x = pyopnb.registry["demo::SoftClip"], np.float32([1, 2, -4])
    things = [op, op.current, op.current.cls]
    assert len(files_that_see(things, lambda: pyopnb.lower(op, x))) <= 12


def test_a_model_passes_at_most_twelve_files_of_train():
    weights = {"w": np.ones((3, 2), np.float32)}
    node = pyopnb.node("MatMul", "x w", "y")
    model = pyopnb.model(node, {"x": "float32[N,3]"}, {"y": "float32[N,2]"}, initializers=weights)
    data = {"x": np.eye(3, dtype=np.float32), "labels": np.array([0, 1, 0])}
    files = files_that_see([model], lambda: pyopnb.train(model, data, progress=False))
    assert 3 <= len(files) <= 12
