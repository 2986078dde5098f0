"""Configure Sphinx for ``make docs``.

A warning is an error, and so is a link inside the pages that leads nowhere.
"""

from __future__ import annotations

import atexit
import hashlib
import os
import shutil
import sys
from contextlib import ExitStack
from importlib.metadata import version as version_of
from pathlib import Path

from sphinx.ext.autodoc.mock import mock

import pyopnb
import pyopnb.torch

sys.path.insert(0, str(Path(__file__).parent / "ext"))
from executed import needs_torch  # of that folder
from forked_kernels import forked_kernels

# The pages need no torch to describe what needs it.
with mock(["torch", "onnxscript", "onnx_ir", "sympy"]):
    for name in pyopnb.torch.__all__:
        setattr(pyopnb.torch, name, pyopnb.torch._find_name(name))

project = "pyopnb"
author = "the pyopnb developers"
release = version = pyopnb.__version__

extensions = [
    "myst_nb",
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx_copybutton",
    "pages",
]
# `tutorials` is a link to ../notebooks, whose Markdown and Python files are no pages.
exclude_patterns = ["ext", "tutorials/pictures", "tutorials/*.md"]
nitpicky = True
nitpick_ignore_regex = [
    ("py:.*", r"(numpy|onnx|onnxruntime|torch)\..*")
]  # their pages are not built here
show_warning_types = True
# A warning of Sphinx's about the cache of its own environment, which holds functions of
# this file's extensions.
suppress_warnings = ["config.cache"]

# ---- Pages and notebooks are run as they are built -----------------------------------------------


def _state_of_the_package() -> str:
    """Digest the package under test and the runtime, as a page must run again when one changes."""
    digest = hashlib.sha256(f"{sys.version} {version_of('onnxruntime')}".encode())
    for path in sorted(Path(pyopnb.__file__).parent.rglob("*")):
        if path.suffix in {".py", ".so"}:
            digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


_executed = Path(__file__).parents[1] / "build" / "docs" / "executed"
_current = _executed / _state_of_the_package()
for _old in _executed.glob("*"):
    if _old != _current:
        shutil.rmtree(_old)
# Cells that type `!python` mean this one.
os.environ["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"

_kernels = ExitStack()
atexit.register(_kernels.close)
_kernels.enter_context(forked_kernels("forked"))

nb_execution_mode = "cache"
nb_kernel_rgx_aliases = {"python3": "forked"}
_notebooks = (Path(__file__).parents[1] / "notebooks").glob("*.ipynb")
nb_execution_excludepatterns = [
    path.name for path in _notebooks if needs_torch(path.read_text(encoding="utf-8"))
]
nb_execution_cache_path = str(_current)
nb_execution_timeout = 600  # seconds; only what hangs reaches it
nb_execution_raise_on_error = True
nb_output_stderr = "warn"
nb_merge_streams = True
# Widgets need a kernel; what they leave in a saved notebook is HTML, and that is shown.
nb_ipywidgets_js = {}
nb_mime_priority_overrides = [
    ("html", "text/html", 0),
    ("html", "application/vnd.jupyter.widget-view+json", None),
]
# A live output carries a type beside its HTML that only pyopnb's extension of JupyterLab knows.
suppress_warnings += ["mystnb.unknown_mime_type"]
myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 3

# ---- The reference is made from the docstrings ---------------------------------------------------

default_role = "py:obj"
autodoc_typehints = "none"  # the docstrings say the types, in the notation of the rest of the pages
autodoc_member_order = "groupwise"
autosummary_generate = False
numpydoc_show_class_members = False
numpydoc_class_members_toctree = False
add_module_names = False

# ---- How it looks --------------------------------------------------------------------------------

html_theme = "furo"
html_title = f"pyopnb {release}"
html_static_path = ["static", "../notebooks/pictures"]
html_css_files = ["pyopnb.css"]
html_show_sphinx = False
html_show_copyright = False
html_copy_source = False
html_theme_options = {"navigation_with_keys": True}
pygments_style = "default"
pygments_dark_style = "github-dark"
copybutton_exclude = ".linenos, .gp, .go"
