"""Widths of texts without a font."""

import pytest

from pyopnb.display.svg.text_width import fit, text_width


def test_letters_are_as_wide_as_those_of_a_common_face():
    # of Liberation Sans at 100 pixels, as FreeType gives them
    for text, true in (
        ("Conv", 232),
        ("iiii", 92),
        ("MMMM", 332),
        ("float32[1,64,56,56]", 831),
        ("BatchNormalization", 870),
    ):
        assert true <= text_width(text, 100) <= 1.25 * true


def test_wide_letters_are_wide_and_marks_are_none():
    assert text_width("漢字", 10) >= 20
    assert text_width("e\u0301", 10) == text_width("e", 10)


@pytest.mark.parametrize(
    "text", ["x" * 10_000, "漢" * 50, "W" * 300, "a\nb\x1b[31m" * 40, "\u202e" * 30]
)
def test_a_text_is_cut_to_its_room(text):
    cut = fit(text, 12, 100)
    assert cut.endswith("…") and cut.isprintable()
    assert 60 < text_width(cut, 12) <= 100


def test_what_has_room_stays():
    assert fit("Conv", 12, 100) == "Conv"
