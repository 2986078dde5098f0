"""Netron's files: from the installed package, of a version that works, without what a server or Netron's authors would get."""

from __future__ import annotations

import gzip
import importlib.util
import json
import re
import subprocess
import sys
from importlib.machinery import ModuleSpec
from pathlib import Path

import pytest

import pyopnb
from pyopnb.display.netron_page import assets

SMALL = "(float[N] x) => (float[N] y) { y = Neg(x) }"
PAGE = '<html><head><meta charset="utf-8"><meta name="version" content="{}"></head><body></body></html>'


@pytest.fixture
def installed(monkeypatch, tmp_path):
    """Let another folder be the installed Netron; None: there is none."""

    def installed(page):
        spec = None
        if page is not None:
            spec = ModuleSpec("netron", None, is_package=True)
            spec.submodule_search_locations = [str(tmp_path)]
            (tmp_path / "index.html").write_text(page, encoding="utf-8")
        monkeypatch.setattr(importlib.util, "find_spec", lambda name: spec)
        assets._read_folder.cache_clear()

    yield installed
    assets._read_folder.cache_clear()


@pytest.mark.parametrize(
    ("page", "text"),
    [
        (None, "netron: expected version 8.8 or newer, got no netron. Try: pip install netron"),
        (
            PAGE.format("8.7.9"),
            "netron: expected version 8.8 or newer, got 8.7.9. Try: pip install -U netron",
        ),
        (PAGE.format("7.10.0"), "got 7.10.0. Try: pip install -U netron"),
        ("<html></html>", "got a folder netron without Netron's page"),
        (
            PAGE.format("9.0.0").replace("</head>", ""),
            "got 9.0.0, whose page has an unknown structure",
        ),
    ],
)
def test_a_netron_that_cannot_be_used(installed, page, text):
    installed(page)
    with pytest.raises(pyopnb.PyopError) as error:
        pyopnb.netron(pyopnb.parse(SMALL))
    assert text in str(error.value)


def test_the_page_asks_nobody_for_anything():
    page = assets.read_assets().page
    assert page.count("Content-Security-Policy") == 1
    policy = page.index("default-src 'none'")
    assert (
        policy < page.index("<style>") < page.index("<script>")
    )  # before anything that it is about
    assert "<link" not in page and "src=" not in page.partition("<script>")[0]


def test_modules_are_netrons_and_complete():
    modules = assets.read_assets().modules(assets.ALL)
    assert set(modules) == set(assets.ALL)
    assert "ModelProto" in modules["onnx-proto"]


def test_a_script_of_ours_does_not_end_early():
    for name in ("frame", "theme"):
        assert not re.search(r"</|<!--|<script>", assets.read_script(name))


def test_the_extension_as_a_build_writes_it(tmp_path):
    # As CMake calls it: in a process that could not import pyopnb, for want of ONNX.
    command = [sys.executable, "-I", "-S", "-c", "import sys; sys.path[:0] = eval(sys.argv[1]); import runpy; del sys.argv[:2]; "
               "runpy.run_path(sys.argv[0], run_name='__main__'); assert not {'onnx', 'netron', 'pyopnb'} & set(sys.modules)"]  # fmt: skip
    paths = repr([str(Path(importlib.util.find_spec("netron").origin).parents[1])])
    subprocess.run([*command, paths, assets.__file__, str(tmp_path), "1.2.3"], check=True)
    package = json.loads((tmp_path / "package.json").read_text(encoding="utf-8"))
    assert package["version"] == "1.2.3"
    assert (tmp_path / package["jupyterlab"]["_build"]["load"]).read_text(encoding="utf-8") == (
        Path(assets.__file__).parent / "extension.js"
    ).read_text(encoding="utf-8")
    content = json.loads(gzip.decompress((tmp_path / "static/assets.json.gz").read_bytes()))
    assert content == {
        "version": assets.read_assets().version,
        "page": assets.read_assets().page,
        "modules": assets.read_assets().modules(assets.ALL),
    }
    documentation = json.loads(
        gzip.decompress((tmp_path / "static/documentation.json.gz").read_bytes())
    )
    assert {"Gemm", "LSTM"} <= {entry["name"] for entry in documentation}
    assert not any("examples" in entry for entry in documentation)
