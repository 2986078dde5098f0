"""The texts and the tree of the errors."""

from __future__ import annotations

import copy
import pickle

import pytest

from pyopnb import errors
from pyopnb.common.told.messages import hide_internal_frames, sanitize
from pyopnb.errors import PyopError

ALL = [value for name in errors.__all__ if issubclass(value := getattr(errors, name), PyopError)]


@pytest.mark.parametrize("cls", ALL)
@pytest.mark.parametrize(
    "again",
    [lambda e: pickle.loads(pickle.dumps(e)), copy.copy, copy.deepcopy],
    ids=["pickle", "copy", "deep"],
)
def test_errors_cross_processes(cls, again):
    error = cls("op a::B", expected="float32[N]", got="int8[2]", next="x.astype(np.float32)")
    other = again(error)
    assert type(other) is cls
    assert (
        str(other)
        == str(error)
        == "op a::B: expected float32[N], got int8[2]. Try: x.astype(np.float32)"
    )
    assert (other.where, other.expected, other.got, other.next) == (
        "op a::B",
        "float32[N]",
        "int8[2]",
        "x.astype(np.float32)",
    )


BAD = [
    "\x00",
    "\x1b",
    "\r",
    "\x7f",
    "\x9b",
    "\u202e",
    "\u2066",
    "\u200b",
    "\u2028",
    "\ud800",
    "\ufeff",
    "\t",
]


@pytest.mark.parametrize("bad", BAD)
def test_shown_lets_no_control_or_bidirectional_character_through(bad):
    text = sanitize(f"a{bad}b")
    assert bad not in text
    assert text.isprintable()
    assert text == f"a{bad.encode('unicode_escape').decode()}b" or bad == "\ud800"
    text.encode()


@pytest.mark.parametrize("cls", ALL)
@pytest.mark.parametrize("bad", BAD)
def test_errors_let_no_such_character_through_in_any_part(cls, bad):
    name = f"a{bad}b"
    error = cls(f"node '{name}'", expected=name, got=f"got {name}", next=f"x[{name}]")
    for text in (str(error), error.where, error.expected, error.got, error.next):
        assert text.isprintable(), text


def test_errors_cut_each_part_of_a_hostile_length():
    long = "x" * 10**6
    error = PyopError(long, expected=long, got=long, next=long)
    assert len(str(error)) < 10_000
    assert str(error).count("… (1000000 characters)") == 4
    again = pickle.loads(pickle.dumps(error))
    assert str(again) == str(error)
    assert (again.where, again.next) == (error.where, error.next)


def test_parts_that_say_nothing_are_left_out():
    error = PyopError("op a::B", got="")
    assert (error.expected, error.got, error.next) == (None, "", None)
    assert str(error) == "op a::B."


@hide_internal_frames
def refusing(error):
    """Refuse, some frames down."""

    def deeper():
        raise error

    return deeper()


def frames(error):
    with pytest.raises(type(error)) as raised:
        refusing(error)
    return [entry.name for entry in raised.traceback]


def test_a_refusal_shows_no_way_through_pyopnb_and_an_error_of_the_user_does():
    assert frames(PyopError("here")) == ["frames", "wrapper"]
    assert frames(ValueError("here")) == ["frames", "wrapper", "refusing", "deeper"]
    assert refusing.__doc__ == "Refuse, some frames down."
