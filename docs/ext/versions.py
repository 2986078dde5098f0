"""Gather the pages of all versions in one folder: ``versions.py PAGES SITE v0.2.0.zip v0.1.0.zip``.

PAGES, which were built from main, come into latest/, and the pages of each release, which come the
newest first, into a folder of its version. The first page is the newest release.
"""

from __future__ import annotations

import html
import shutil
import sys
import zipfile
from collections.abc import Sequence
from pathlib import Path

__all__ = ["gather"]


def gather(pages: Path, site: Path, archives: Sequence[Path]) -> None:
    """Write the site."""
    shutil.copytree(pages, site / "latest")
    versions = [archive.stem.removeprefix("v") for archive in archives]
    for version, archive in zip(versions, archives, strict=True):
        with zipfile.ZipFile(archive) as files:
            files.extractall(site / version)
    addresses = [html.escape(version) for version in (*versions, "latest")]
    first = f'<meta http-equiv="refresh" content="0; url={addresses[0]}/">\n'
    (site / "index.html").write_text(first, encoding="utf-8")
    title = "<!doctype html>\n<title>pyopnb: versions of the pages</title>\n"
    links = "".join(f'<li><a href="{each}/">{each}</a></li>\n' for each in addresses)
    (site / "versions.html").write_text(f"{title}<ul>\n{links}</ul>\n", encoding="utf-8")


if __name__ == "__main__":
    built, out, *zipped = map(Path, sys.argv[1:])
    gather(built, out, zipped)
