"""Widths of texts without a font."""

import pytest

from pyopnb.display.svg.text_width import fitted, width


def test_letters_are_as_wide_as_those_of_a_common_face():
    # of Liberation Sans at 100 pixels, as FreeType gives them
    for text, true in (("Conv", 232), ("iiii", 92), ("MMMM", 332), ("float32[1,64,56,56]", 831), ("BatchNormalization", 870)):
        assert true <= width(text, 100) <= 1.25 * true


def test_wide_letters_are_wide_and_marks_are_none():
    assert width("漢字", 10) >= 20
    assert width("e\u0301", 10) == width("e", 10)


@pytest.mark.parametrize("text", ["x" * 10_000, "漢" * 50, "W" * 300, "a\nb\x1b[31m" * 40, "\u202e" * 30])
def test_a_text_is_cut_to_its_room(text):
    cut = fitted(text, 12, 100)
    assert cut.endswith("…") and cut.isprintable()
    assert 60 < width(cut, 12) <= 100


def test_what_has_room_stays():
    assert fitted("Conv", 12, 100) == "Conv"
