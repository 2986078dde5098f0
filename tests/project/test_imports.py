"""``import pyopnb`` must not pull in a user interface or a framework."""

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import pyopnb

CONTRACTS = tomllib.loads(Path(__file__).parents[2].joinpath("pyproject.toml").read_text("utf-8"))
HEAVY = [
    package
    for contract in CONTRACTS["tool"]["importlinter"]["contracts"]
    for package in contract.get("forbidden_modules", [])
    if not package.startswith(("pyopnb", "onnxruntime"))
]
LIGHT = ["engine", "engine.runtime", "models", *pyopnb._PACKAGES]
MODULES = ["pyopnb", *(f"pyopnb.{name}" for name in LIGHT)]


def heavy_after(statements, cwd):
    """The modules of `HEAVY` that a fresh process holds after each of the statements, which it runs in turn."""
    code = f"import sys\nfor each in {statements}:\n    exec(each)\n    print(*(name for name in {HEAVY} if name in sys.modules))"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=cwd, capture_output=True, text=True, check=True
    )
    return {
        each: line.split() for each, line in zip(statements, done.stdout.splitlines(), strict=True)
    }


def test_imports_are_light(tmp_path):
    found = heavy_after([f"import {module}" for module in MODULES], tmp_path)
    assert found == {f"import {module}": [] for module in MODULES}


@pytest.mark.one_python  # of the test alone
def test_that_the_test_above_can_fail(tmp_path):
    assert "IPython" in heavy_after(["import IPython"], tmp_path)["import IPython"]
