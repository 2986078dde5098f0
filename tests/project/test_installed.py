"""What the other tests test must be the installed package, and not the sources that lie beside them."""

import sys
from pathlib import Path

import pyopnb
from pyopnb.engine.runtime import _bridge


def test_native_module_is_the_environments_own():
    # True of a wheel and of an editable install; false of a module left in the source folder
    # by an in-place build.
    assert Path(_bridge.__file__).is_relative_to(sys.prefix)


def test_versions_agree():
    from importlib.metadata import version

    assert pyopnb.__version__ == version("pyopnb")
