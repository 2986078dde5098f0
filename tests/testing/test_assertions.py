"""`assert_close` fails where it must, and its failure can be read, kept and sent."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import unittest
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pyopnb
from pyopnb.testing import assert_close

X = np.float32([1, 2, 3])


def test_what_is_close_passes_and_gives_the_diff() -> None:
    assert assert_close(X, X + np.float32(1e-6)).verdict == "close"
    assert assert_close({"y": X}, {"y": X.copy()}).verdict == "bit-identical"


@pytest.mark.parametrize(
    ("actual", "expected"),
    [
        (X, X + 1),
        (X, X.astype(float)),
        (X, X[:2]),
        (X, None),
        ({"y": X}, {"z": X}),
        ([X], [X, X]),
        ("a", "b"),
        (np.nan, 1.0),
    ],
)
def test_what_is_not_fails_with_the_text_of_the_diff(actual: Any, expected: Any) -> None:
    with pytest.raises(AssertionError) as caught:
        assert_close(actual, expected)
    assert str(caught.value) == str(pyopnb.diff(actual, expected)) == str(caught.value.diff)


@pytest.mark.parametrize(
    ("actual", "expected", "fails"),
    [
        (X, X + np.float32(1e-6), ["value-identical", "bit-identical"]),
        (np.float32([0.0]), np.float32([-0.0]), ["bit-identical"]),
        (X, X.copy(), []),
        (X, X + 1, ["close", "value-identical", "bit-identical"]),
    ],
)
@pytest.mark.parametrize("at_least", ["close", "value-identical", "bit-identical"])
def test_a_stricter_verdict(actual: Any, expected: Any, fails: list[str], at_least: str) -> None:
    if at_least not in fails:
        assert_close(actual, expected, at_least=at_least)
        return
    with pytest.raises(AssertionError) as caught:
        assert_close(actual, expected, at_least=at_least)
    assert (f"expected {at_least}, got {caught.value.diff.verdict}: " in str(caught.value)) == (
        at_least != "close"
    )


def test_where_begins_the_text_and_twelve_lines_are_kept() -> None:
    many = {f"y{i}": X + i for i in range(40)}
    with pytest.raises(
        AssertionError,
        match=r"^case 3 \\x1b: expected bit-identical, got different: 39 of 40 parts; 1 bit-identical",
    ) as caught:
        assert_close(dict.fromkeys(many, X), many, at_least="bit-identical", where="case\n3 \x1b")
    assert len(str(caught.value).splitlines()) == 12


def test_the_error_is_sent_with_its_diff() -> None:
    with pytest.raises(AssertionError) as caught:
        assert_close(X, X + 1)
    again = pickle.loads(pickle.dumps(caught.value))
    assert (str(again), again.diff) == (str(caught.value), caught.value.diff)


@pytest.mark.one_python  # long, and of pytest
def test_a_failure_shows_the_test_and_nothing_of_ours(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(
        "import numpy as np\nfrom pyopnb.testing import assert_close\n"
        "def test_it():\n    assert_close(np.zeros(3), np.ones(3), where='here')\n",
        encoding="utf-8",
    )
    quiet = ["-q", "-p", "no:cacheprovider", "-c", "/dev/null"]
    done = subprocess.run(
        [sys.executable, "-P", "-m", "pytest", *quiet, str(tmp_path)],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
    )
    said = done.stdout + done.stderr
    assert done.returncode == 1
    assert "here: different: float64[3]" in said
    assert "test_it.py" in said and "raise error" not in said and "testing.py" not in said


def test_a_failure_of_unittest_ends_in_the_users_line() -> None:
    class Case(unittest.TestCase):
        def runTest(self) -> None:
            assert_close(X, X + 1, where="here")

    ((_, said),) = Case().run().failures
    assert "here: different: float32[3]" in said
    assert "test_assertions.py" in said and "raise error" not in said
