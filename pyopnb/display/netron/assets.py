"""Netron's files, read from the installed package; nothing of it is imported, run or kept here.

Run as a script it writes the prebuilt JupyterLab extension into a folder, which is how the wheel is built: an isolated build
has Netron but neither ONNX nor pyopnb. So this module needs the standard library alone.
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

__all__ = ["ALL", "FEW", "OLDEST", "PLACE", "Assets", "Unusable", "read", "script", "write_extension"]

OLDEST = (8, 8)
"""The first Netron that lays out a graph without a worker, for which there is no address in a page without a server."""

_LOOKING = ("base", "text", "json", "protobuf", "flatbuffers", "flexbuffers", "zip")  # what it is, before it is read
FEW = (*_LOOKING, "dagre", "grapher", "view", "browser", "onnx", "onnx-proto")
"""The modules that a plain .onnx needs."""

ALL = (*FEW, "xml", "tar", "hdf5", "message", "onnx-schema")
"""These also look into archives and open ONNX Runtime's own format."""

PLACE = "<!--model-->"
"""Where in the page a model may stand, before our script looks for it."""

_NAME = "pyopnb-netron"
_POLICY = "default-src 'none'; script-src 'unsafe-inline' blob:; style-src 'unsafe-inline'; img-src data: blob:"


class Unusable(Exception):
    """The installed Netron cannot be used: what was found, and what to type."""


@dataclass(frozen=True)
class Assets:
    """What a view needs of Netron.

    Attributes
    ----------
    version : str
    page : str
        Its index.html with its styles, without its scripts, and with our own script, which waits for a model.
    folder : Path
    """

    version: str
    page: str
    folder: Path

    def modules(self, names: tuple[str, ...]) -> dict[str, str]:
        """The text of JavaScript modules by name; those that this Netron does not have are left out."""
        files = {name: self.folder / f"{name}.js" for name in names}
        return {name: file.read_text("utf-8") for name, file in files.items() if file.is_file()}

    def documentation(self) -> list[dict[str, object]]:
        """What Netron says of ONNX's operators, without the examples, which are most of it; not to be changed."""
        return _documentation(self.folder / "onnx-metadata.json")


def script(name: str) -> str:
    """One of our own scripts; none holds anything that would end it in HTML."""
    return (Path(__file__).parent / f"{name}.js").read_text("utf-8")


def read() -> Assets:
    """The assets of the installed Netron.

    Raises
    ------
    Unusable
        There is none, or it is too old, or its page is not as we know it.
    """
    found = importlib.util.find_spec("netron")
    if found is None or not found.submodule_search_locations:
        raise Unusable("no netron", "pip install netron")
    return _read(Path(next(iter(found.submodule_search_locations))))


@functools.lru_cache(maxsize=1)
def _read(folder: Path) -> Assets:
    files = [folder / name for name in ("index.html", "grapher.css")]
    page, style = (file.read_text("utf-8") if file.is_file() else "" for file in files)
    version = re.search(r'<meta name="version" content="(\d+)\.(\d+)([\w.]*)"', page)
    if version is None:
        raise Unusable(f"a folder netron without Netron's page ({folder})", "pip install --force-reinstall netron")
    text = f"{version[1]}.{version[2]}{version[3]}"
    if (int(version[1]), int(version[2])) < OLDEST:
        raise Unusable(text, "pip install -U netron")
    # Its policy, icons and start are for a server. Ours allows no request at all, whatever a model says.
    page = re.sub(r'<meta http-equiv="Content-Security-Policy"[^>]*>|<link [^>]*>|<script [^>]*></script>', "", page)
    policy = f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">'
    page, heads = re.subn(r'(<meta charset="utf-8">)', lambda at: at[0] + policy, page, count=1)
    page, styles = re.subn("</head>", lambda at: f"<style>{style}</style></head>", page, count=1)
    page, bodies = re.subn("</body>", lambda at: f"{PLACE}<script>{script('frame')}</script></body>", page, count=1)
    if not heads == styles == bodies == 1:
        raise Unusable(f"{text}, whose page is not as we know it", "pip install 'netron<10', and tell us")
    return Assets(text, page, folder)


@functools.lru_cache(maxsize=1)
def _documentation(file: Path) -> list[dict[str, object]]:
    if not file.is_file():  # a view can do without
        return []
    entries = json.loads(file.read_text("utf-8"))
    return [{key: value for key, value in entry.items() if key != "examples"} for entry in entries]


def write_extension(folder: Path, version: str) -> None:
    """Write the prebuilt extension: what ``share/jupyter/labextensions/pyopnb-netron`` holds."""
    assets = read()
    static = folder / "static"
    static.mkdir(parents=True, exist_ok=True)
    _compressed(static / "assets.json.gz", {"version": assets.version, "page": assets.page, "modules": assets.modules(ALL)})
    _compressed(static / "documentation.json.gz", assets.documentation())
    entry = (Path(__file__).parent / "extension.js").read_text("utf-8")
    (static / "remoteEntry.js").write_text(entry, "utf-8")
    build = {"load": "static/remoteEntry.js", "extension": "./extension", "mimeExtension": "./mimeExtension"}
    package = {
        "name": _NAME,
        "version": version,
        "description": "Netron for ONNX models in outputs and files, without port and network, and controls.",
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


def _compressed(file: Path, content: object) -> None:
    file.write_bytes(gzip.compress(json.dumps(content).encode(), 9, mtime=0))


if __name__ == "__main__":
    write_extension(Path(sys.argv[1]), sys.argv[2])
