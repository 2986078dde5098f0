"""Links between the built pages that lead to a page, file or heading that is not there.

Sphinx checks what it resolves itself; this looks at the HTML as a reader gets it, raw HTML and
pictures included. Nothing is fetched: links to other sites are for ``nox -s docs -- linkcheck``.
"""

from __future__ import annotations

from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

__all__ = ["broken"]


class _Page(HTMLParser):
    """The targets of a page's links, and the anchors in it that links can lead to."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.targets: list[str] = []
        self.anchors: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if value is None:
                continue
            if name == "id" or (tag == "a" and name == "name"):
                self.anchors.add(value)
            elif name in ("href", "src"):
                self.targets.append(value)


def broken(folder: Path) -> list[str]:
    """List ``page: target`` for each link in a folder of HTML pages that leads nowhere."""
    pages = {
        path.resolve(): _Page(path.read_text(encoding="utf-8")) for path in folder.rglob("*.html")
    }
    return sorted(
        {f"{path.relative_to(folder.resolve())}: {target}" for path, target in _lost(pages)}
    )


def _lost(pages: dict[Path, _Page]) -> Iterator[tuple[Path, str]]:
    for path, page in pages.items():
        for target in page.targets:
            parts = urlsplit(target)
            if parts.scheme or parts.netloc:
                continue
            file = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            anchor = unquote(parts.fragment)
            if not file.exists() or (
                anchor and file in pages and anchor not in pages[file].anchors
            ):
                yield path, target
