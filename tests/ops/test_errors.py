"""The texts and the tree of the errors."""

from __future__ import annotations

import copy
import pickle
import re

import pytest

from pyopnb import errors
from pyopnb.errors import PyopError
from pyopnb.ops.messages import hide_internal_frames, sanitize

ALL = [value for name in errors.__all__ if issubclass(value := getattr(errors, name), PyopError)]


def drawn():
    """Name, parent and builtin base of each error, as the module's docstring draws them."""
    above = {}
    for line in errors.__doc__.splitlines():
        found = re.match(r"    ([│├└─ ]*)([A-Z]\w+) +.*?(?:\((\w+)[\w, ]*\))?$", line)
        if found:
            depth = len(found[1]) // 4
            above[depth] = found[2]
            yield found[2], above.get(depth - 1, "Exception"), found[3]


def test_the_tree_is_as_drawn():
    real = {
        (
            cls.__name__,
            cls.__bases__[0].__name__,
            cls.__bases__[1].__name__ if len(cls.__bases__) > 1 else None,
        )
        for cls in ALL
    }
    assert set(drawn()) == real
    assert len(real) == len(ALL)


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


@pytest.mark.parametrize(
    "bad",
    [
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
    ],
)
def test_shown_lets_no_control_or_bidirectional_character_through(bad):
    text = sanitize(f"a{bad}b")
    assert bad not in text
    assert text.isprintable()
    assert text == f"a{bad.encode('unicode_escape').decode()}b" or bad == "\ud800"
    text.encode()


def test_shown_cuts_what_is_long():
    assert sanitize("x" * 200) == "x" * 200
    assert sanitize("x" * 201) == "x" * 200 + "… (201 characters)"
    assert sanitize(10**50) == str(10**50)


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
