"""Read Netron's files from the installed package, without importing or copying them.

Run as a script, this module writes the prebuilt JupyterLab extension into a folder. The build of
the wheel does so in an isolated environment with Netron, but without ONNX and pyopnb, so this
module imports the standard library alone.
"""

from __future__ import annotations

import functools
import gzip
import importlib.util
import json
import re
import sys
from dataclasses import dataclass
from pathlib import Path

__all__ = [
    "ALL",
    "MINIMAL",
    "MODEL_MARKER",
    "OLDEST",
    "Assets",
    "UnusableNetron",
    "read_assets",
    "read_script",
    "write_extension",
]

OLDEST = (8, 8)
"""The first Netron that lays out graphs without a worker, which needs a server to load."""

# Netron needs these to detect the format of a file.
_DETECTION = ("base", "text", "json", "protobuf", "flatbuffers", "flexbuffers", "zip")
MINIMAL = (*_DETECTION, "dagre", "grapher", "view", "browser", "onnx", "onnx-proto")
"""The modules that a plain .onnx file needs."""

ALL = (*MINIMAL, "xml", "tar", "hdf5", "message", "onnx-schema")
"""With these Netron also reads archives and the ONNX Runtime format."""

MODEL_MARKER = "<!--model-->"
"""Where a model can be put into the page, before the script that reads it."""

_NAME = "pyopnb-netron"
_POLICY = (
    "default-src 'none'; script-src 'unsafe-inline' blob:; "
    "style-src 'unsafe-inline'; img-src data: blob:"
)


class UnusableNetron(Exception):
    """The installed Netron cannot be used; the arguments are the finding and the advice."""


@dataclass(frozen=True)
class Assets:
    """The parts of Netron that a view needs.

    Attributes
    ----------
    page : str
        Netron's index.html with its styles, without its scripts, and with a script of pyopnb that
        waits for a model.
    """

    version: str
    page: str
    folder: Path

    def modules(self, names: tuple[str, ...]) -> dict[str, str]:
        """Read JavaScript modules by name, without modules that this version lacks."""
        files = {name: self.folder / f"{name}.js" for name in names}
        return {name: file.read_text("utf-8") for name, file in files.items() if file.is_file()}

    def documentation(self) -> list[dict[str, object]]:
        """Read Netron's documentation of the ONNX operators, without the examples.

        These are most of it.
        """
        return _read_documentation(self.folder / "onnx-metadata.json")


def read_script(name: str) -> str:
    """Read one of pyopnb's scripts, which contain no text that would end a script element."""
    return (Path(__file__).parent / f"{name}.js").read_text("utf-8")


def read_assets() -> Assets:
    """Read the assets of the installed Netron.

    Raises
    ------
    UnusableNetron
        Netron is missing or too old, or its page has an unknown structure.
    """
    spec = importlib.util.find_spec("netron")
    if spec is None or not spec.submodule_search_locations:
        raise UnusableNetron("no netron", "pip install netron")
    return _read_folder(Path(next(iter(spec.submodule_search_locations))))


@functools.lru_cache(maxsize=1)
def _read_folder(folder: Path) -> Assets:
    page = _read_text(folder / "index.html")
    version = re.search(r'<meta name="version" content="(\d+)\.(\d+)([\w.]*)"', page)
    if version is None:
        got = f"a folder netron without Netron's page ({folder})"
        raise UnusableNetron(got, "pip install --force-reinstall netron")
    text = f"{version[1]}.{version[2]}{version[3]}"
    if (int(version[1]), int(version[2])) < OLDEST:
        raise UnusableNetron(text, "pip install -U netron")
    # Netron's policy, icons and start-up code are for a server. Our policy forbids all requests
    # that a model could cause.
    theirs = (
        r'<meta http-equiv="Content-Security-Policy"[^>]*>|<link [^>]*>|<script [^>]*></script>'
    )
    page = re.sub(theirs, "", page)
    charset = '<meta charset="utf-8">'
    ours = {
        charset: f'{charset}<meta http-equiv="Content-Security-Policy" content="{_POLICY}">',
        "</head>": f"<style>{_read_text(folder / 'grapher.css')}</style></head>",
        "</body>": f"{MODEL_MARKER}<script>{read_script('frame')}</script></body>",
    }
    for place, replacement in ours.items():
        # Each part of the page has its place, or this Netron is built otherwise.
        if place not in page:
            got = f"{text}, whose page has an unknown structure"
            raise UnusableNetron(got, "pip install 'netron<10', and report it")
        page = page.replace(place, replacement, 1)
    return Assets(text, page, folder)


def _read_text(file: Path) -> str:
    if file.is_file():
        return file.read_text("utf-8")
    return ""


@functools.lru_cache(maxsize=1)
def _read_documentation(file: Path) -> list[dict[str, object]]:
    # A view can do without the documentation.
    if not file.is_file():
        return []
    entries: list[dict[str, object]] = json.loads(file.read_text("utf-8"))
    for entry in entries:
        entry.pop("examples", None)
    return entries


def write_extension(folder: Path, version: str) -> None:
    """Write the prebuilt extension, as in ``share/jupyter/labextensions/pyopnb-netron``."""
    assets = read_assets()
    static = folder / "static"
    static.mkdir(parents=True, exist_ok=True)
    _write_gzip(
        static / "assets.json.gz",
        {"version": assets.version, "page": assets.page, "modules": assets.modules(ALL)},
    )
    _write_gzip(static / "documentation.json.gz", assets.documentation())
    (static / "remoteEntry.js").write_text(read_script("extension"), "utf-8")
    build = {
        "load": "static/remoteEntry.js",
        "extension": "./extension",
        "mimeExtension": "./mimeExtension",
    }
    package = {
        "name": _NAME,
        "version": version,
        "description": (
            "Netron for ONNX models in outputs and files, without port and network, and controls."
        ),
        "license": "MIT",
        "jupyterlab": {"extension": True, "mimeExtension": True, "_build": build},
    }
    installed = {
        "packageManager": "python",
        "packageName": "pyopnb",
        "uninstallInstructions": "pip uninstall pyopnb",
    }
    (folder / "package.json").write_text(json.dumps(package, indent=2), "utf-8")
    (folder / "install.json").write_text(json.dumps(installed, indent=2), "utf-8")


def _write_gzip(file: Path, content: object) -> None:
    file.write_bytes(gzip.compress(json.dumps(content).encode(), 9, mtime=0))


if __name__ == "__main__":
    write_extension(Path(sys.argv[1]), sys.argv[2])
