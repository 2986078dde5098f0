"""Widths of texts without a font."""

from pyopnb.display.svg.text_width import text_width


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
