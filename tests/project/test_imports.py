"""``import pyopnb`` must not pull in a user interface or a framework."""

import subprocess
import sys

import pytest

HEAVY = ["IPython", "ipywidgets", "jupyterlab", "jupyter_client", "jupyter_server", "netron", "torch", "sklearn"]


def heavy_after(statement, cwd):
    """Those of `HEAVY` that a fresh process holds after running the statement."""
    code = f"{statement}\nimport sys\nprint(*(name for name in {HEAVY} if name in sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], cwd=cwd, capture_output=True, text=True, check=True)
    return done.stdout.split()


@pytest.mark.parametrize(
    "module", ["pyopnb", "pyopnb.ops", "pyopnb.models", "pyopnb.runtime", "pyopnb.ortx", "pyopnb.sklearn", "pyopnb.torch"]
)
def test_import_is_light(module, tmp_path):
    assert heavy_after(f"import {module}", tmp_path) == []


@pytest.mark.one_python  # of the test alone
def test_that_the_test_above_can_fail(tmp_path):
    assert "IPython" in heavy_after("import pyopnb, IPython", tmp_path)
    assert "netron" in heavy_after("import pyopnb, netron", tmp_path)


def test_doors_need_no_import_of_their_own(tmp_path):
    assert heavy_after("import pyopnb; pyopnb.torch, pyopnb.sklearn, pyopnb.ortx", tmp_path) == []
