"""How many rooms a feed enters in a run, and a trace in a diff: docs/architecture says it, and here it is measured.

A room is entered where one of its Python functions is called with the thing: as an argument, or in a list, tuple or dict that
is one. Functions that get something made of it, as its name or its type, do not count; nor does C++.
"""

import sys
from pathlib import Path

import numpy as np
from small_ops import chain

import pyopnb

PACKAGE = Path(pyopnb.__file__).parent
MOST = 4


def holds(value, things):
    if any(value is thing for thing in things):
        return True
    inside = (
        value.values() if type(value) is dict else value if type(value) in (list, tuple) else ()
    )
    return any(item is thing for item in inside for thing in things)


def rooms_that_see(things, call):
    """The rooms of which a function is called with one of the things while ``call`` runs."""
    rooms = set()

    def look(frame, event, _):
        if event == "call" and frame.f_code.co_filename.startswith(str(PACKAGE)):
            values = frame.f_locals.values()  # of a call that begins: its arguments
            if any(holds(value, things) for value in list(values)):
                rooms.add(Path(frame.f_code.co_filename).relative_to(PACKAGE).parts[0])

    sys.setprofile(look)
    try:
        call()
    finally:
        sys.setprofile(None)
    return rooms


def test_a_feed_enters_one_room(soft_clip):
    session = pyopnb.Session(chain("::Abs", "demo::SoftClip"))
    x = np.float32([1, 2, -4])
    session(x=x)
    assert rooms_that_see([x], lambda: session(x=x)) == {"runtime"}
    assert rooms_that_see([x], lambda: session.run(None, {"x": x})) == {"runtime"}


def test_a_trace_and_its_tensors_enter_at_most_four_rooms(soft_clip):
    x = np.float32([1, 2, -4])
    a = pyopnb.Session(chain("::Abs", "demo::SoftClip")).trace(x=x)
    b = pyopnb.Session(chain("::Neg", "demo::SoftClip")).trace(x=x)
    assert not pyopnb.diff(a, b).ok
    things = [a, b, *(tensor for trace in (a, b) for _, tensor in trace.items())]
    rooms = rooms_that_see(things, lambda: pyopnb.diff(a, b))
    assert rooms == {"diffs", "traces", "runtime", "ops"}
    assert len(rooms) <= MOST


def test_that_a_room_too_many_is_seen(soft_clip):
    x = np.float32([1, 2, -4])
    a = pyopnb.Session(chain("::Abs", "demo::SoftClip")).trace(x=x)
    b = pyopnb.Session(chain("::Neg", "demo::SoftClip")).trace(x=x)
    rooms = rooms_that_see([a, b, *dict(a).values()], lambda: (pyopnb.diff(a, b), pyopnb.show(a)))
    assert "display" in rooms
    assert len(rooms) > MOST
