"""Pages are plain Markdown, which a hosting site renders; here they become pages of Sphinx.

- A block that is run begins with three backticks and ``python cell``, and tags of the cell follow.
- ``<!-- {rooms} -->`` has the place of a directive.
- The lists of links in `CONTENTS` are the tables of contents.
- A link may lead to a notebook, or to a file of the repository outside of docs/.
"""

from __future__ import annotations

import posixpath
import re
from pathlib import Path

from addresses import repository

__all__ = ["CONTENTS", "listed", "to_myst"]

CONTENTS = (
    "index",
    "tutorials",
    "upstream",
    "how_to/index",
    "architecture/index",
    "architecture/engine",
    "architecture/kit",
    "architecture/add_ons",
)
"""Pages whose list items begin with links to the pages below them."""

_FRONT = """---
file_format: mystnb
kernelspec:
  name: python3
  display_name: Python 3
---

"""
_CELL = re.compile(r"^```python cell ?([\w -]*)\n", re.MULTILINE)
_DIRECTIVE = re.compile(r"^<!-- (\{[\w-]+\}[^\n]*) -->$", re.MULTILINE)
_ITEM = re.compile(r"^- (?:\*\*)?\[[^\]]+\]\(([^)#]+\.(?:md|ipynb))\)", re.MULTILINE)
_OUTSIDE = re.compile(r"(?<!!)\[([^\[\]]+)\]\(((?:\.\./)+[^)\s]+)\)")
_PICTURE = re.compile(r'"(?:\.\./)+notebooks/pictures/')
_INCLUDED = {
    "CHANGELOG.md": "/changelog",
    "CONTRIBUTING.md": "/contributing",
    "SECURITY.md": "/security_policy",
}


def to_myst(text: str, docname: str) -> str:
    """Write a page in the Markdown of Sphinx."""
    folder = posixpath.join("docs", posixpath.dirname(docname))
    contents = _tables_of_contents(text, folder) if docname in CONTENTS else ""
    text = _OUTSIDE.sub(lambda link: _link(link[1], link[2], folder), text)
    text = _DIRECTIVE.sub(r"```\1\n```", text)
    if _CELL.search(text):
        text = _FRONT + _CELL.sub(_cell, text)
    up = "../" * docname.count("/")
    text = _PICTURE.sub(f'"{up}_static/', text)  # conf.py copies that folder
    return text + contents


def _tables_of_contents(text: str, folder: str) -> str:
    """Write a table of contents for each section that lists pages, with the section's heading."""
    tables = []
    for section in text.split("\n## "):
        if pages := listed(section, folder):
            caption = section.partition("\n")[0].removeprefix("# ")
            tables += ["\n```{toctree}", ":hidden:", f":caption: {caption}", *pages, "```"]
    return "\n".join([*tables, ""])


def listed(text: str, folder: str) -> list[str]:
    """List the pages to which the list items of a page lead, without suffix."""
    pages = []
    for target in _ITEM.findall(text):
        path = posixpath.normpath(posixpath.join(folder, target))
        pages.append(_page(path) or f"/{path.removeprefix('docs/').removesuffix('.md')}")
    return pages


def _page(path: str) -> str:
    """Return the page that shows a file from outside of docs/, or nothing."""
    if path.startswith("notebooks/") and path.endswith(".ipynb"):
        return f"/tutorials/{Path(path).stem}"
    return _INCLUDED.get(path, "")


def _link(title: str, target: str, folder: str) -> str:
    path, _, anchor = target.partition("#")
    path = posixpath.normpath(posixpath.join(folder, path))
    if path.startswith("docs/"):
        return f"[{title}](/{path.removeprefix('docs/')}{'#' if anchor else ''}{anchor})"
    if page := _page(path):
        return f"{{doc}}`{title} <{page}>`"
    return f"[{title}]({repository()}/blob/HEAD/{path})" if repository() else title


def _cell(match: re.Match[str]) -> str:
    tags = match[1].split()
    options = f":tags: [{', '.join(tags)}]\n" if tags else ""
    return f"```{{code-cell}} ipython3\n{options}"
