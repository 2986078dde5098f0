"""Write what pages say of addresses from one place: `[project.urls]` in pyproject.toml.

Type ``python docs/ext/addresses.py`` after a change there. As long as no address is set, README.md
has no command to clone and no Binder badge, and no page has a link to the published pages.

``python docs/ext/addresses.py v0.1.0`` makes README.md the page of an index: its links into the
repository become absolute, at that tag. The release does that before it packs the sources.
"""

from __future__ import annotations

import re
import sys
import tomllib
from pathlib import Path

__all__ = ["PAGES", "released", "repository", "with_addresses"]

_ROOT = Path(__file__).parents[2]
PAGES = (_ROOT / "README.md", _ROOT / "docs" / "tutorials.md")
_BLOCK = re.compile(
    r"(<!-- addresses of (.*?):[^\n]*-->\n).*?(<!-- end of addresses -->)", re.DOTALL
)
_FIRST = "notebooks/00_first_op.ipynb"


def _urls() -> dict[str, str]:
    project = tomllib.loads((_ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return {name: url.rstrip("/") for name, url in project.get("urls", {}).items()}


def repository() -> str:
    """Return the address of the repository, or nothing as long as none is set."""
    return _urls().get("Repository", "")


def with_addresses(text: str, urls: dict[str, str] | None = None) -> str:
    """Return a page with the lines that the addresses allow."""
    lines = _lines(_urls() if urls is None else urls)
    return _BLOCK.sub(lambda found: found[1] + _block(found[2], lines) + found[3], text)


def _lines(urls: dict[str, str]) -> dict[str, str]:
    """Write the line for each thing whose address is known."""
    lines = {}
    if source := urls.get("Repository"):
        owner, name = source.split("/")[-2:]
        lines["clone"] = f"```sh\ngit clone {source} && cd {name} && make lab\n```"
        binder = f"https://mybinder.org/v2/gh/{owner}/{name}/HEAD?urlpath=lab/tree/{_FIRST}"
        badge = "![Binder](https://mybinder.org/badge_logo.svg)"
        lines["Binder"] = f"Or without installing anything: [{badge}]({binder})"
    if pages := urls.get("Documentation"):
        lines["tutorials"] = f"[All tutorials with their outputs]({pages}/tutorials.html)"
    return lines


def _block(things: str, lines: dict[str, str]) -> str:
    found = [lines[thing] for thing in things.split(", ") if thing in lines]
    return "".join(f"{line}\n\n" for line in found)


def released(readme: str, tag: str, source: str) -> str:
    """Return README.md with absolute links into the repository at a tag."""

    def absolute(kind: str) -> str:
        return rf"\g<1>{source}/{kind}/{tag}/\g<2>"

    outside = r"(?!https?:|#)"
    readme = re.sub(rf"(\]\(){outside}([^)]+\))", absolute("blob"), readme)
    return re.sub(rf'(<img src="){outside}([^"]+")', absolute("raw"), readme)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        if not repository():
            sys.exit("pyproject.toml: [project.urls] has no Repository. Type its address there")
        readme = PAGES[0].read_text(encoding="utf-8")
        PAGES[0].write_text(released(readme, sys.argv[1], repository()), encoding="utf-8")
        sys.exit()
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        page.write_text(with_addresses(text), encoding="utf-8")
