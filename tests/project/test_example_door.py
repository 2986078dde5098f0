"""The door that the page on building on pyopnb shows: it is built, installed, and used."""

import ast
import os
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

import pyopnb.engine

FOLDER = Path(__file__).parents[1] / "example_door"
SOURCE = FOLDER / "pyopnb_polynomials.py"

USE = """
import numpy as np
from numpy.polynomial import Chebyshev, Polynomial
import pyopnb
from pyopnb_polynomials import convert, kept_in_python

x = np.linspace(-1, 3, 50)
wave = np.sin(x)
power = convert(Polynomial.fit(x, wave, 5))
assert [node.op_type for node in power.graph.node] == ["Mul", "Add"] * 6
assert kept_in_python(power) == [] and not list(pyopnb.missing(power))
np.testing.assert_allclose(pyopnb.run(power, x)["y"], Polynomial.fit(x, wave, 5)(x), rtol=1e-12)

series = Chebyshev.fit(x, wave, 5)
model = convert(series)
assert kept_in_python(model) == ["y"]
session = pyopnb.Session(model)
for places in (x, x[:1], x[:0], np.array([np.nan, np.inf, -0.0])):
    with np.errstate(invalid="ignore"):
        np.testing.assert_array_equal(session(places)["y"], series(places))

constant = convert(Polynomial([2.5]), "float32")
assert pyopnb.run(constant, np.float32([1, 7]))["y"].tolist() == [2.5, 2.5]
for wrong in (convert, "x**2"):
    try:
        convert(wrong)
    except pyopnb.PyopError as error:
        print(error)
"""


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """A folder in which the wheel of the example is installed."""
    folder = tmp_path_factory.mktemp("site")
    build = "import sys, flit_core.buildapi as backend; print(backend.build_wheel(sys.argv[1]))"
    done = subprocess.run(
        [sys.executable, "-c", build, str(folder)],
        cwd=FOLDER, capture_output=True, text=True, check=True,
    )  # fmt: skip
    with zipfile.ZipFile(folder / done.stdout.strip()) as wheel:
        wheel.extractall(folder)
    return folder


def test_the_example_is_installed_and_used(site, tmp_path):
    done = subprocess.run(
        [sys.executable, "-P", "-W", "error", "-c", USE],
        cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(site)}, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        "convert: expected a series of numpy.polynomial, got function. Try: convert(Polynomial.fit(x, y, 3))",
        "convert: expected a series of numpy.polynomial, got str. Try: convert(Polynomial.fit(x, y, 3))",
    ]


def test_the_example_imports_the_two_doors_alone_and_is_short():
    text = SOURCE.read_text(encoding="utf-8")
    imported = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            imported |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            imported.add(node.module)
    assert {name for name in imported if name.startswith("pyopnb")} == {"pyopnb", "pyopnb.engine"}
    lines = [line for line in text.splitlines() if line.strip()]
    assert len(lines) <= 100, len(lines)


def test_the_page_lists_the_door_of_the_engine():
    page = Path(__file__).parents[2] / "docs" / "how_to" / "build_on.md"
    listed = set()
    for line in page.read_text(encoding="utf-8").splitlines():
        if line.startswith("| `"):
            listed |= set(re.findall(r"`(\w+)`", line.split("|")[1]))
    assert listed == set(pyopnb.engine.__all__)
    assert len(listed) <= 60
