"""Write what README.md says of addresses from one place: `[project.urls]` in pyproject.toml.

Type ``python docs/ext/addresses.py`` after a change there. As long as no address is set, README.md
has no command to clone, no Binder badge and no link to the pages.
"""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

__all__ = ["repository", "with_addresses"]

_ROOT = Path(__file__).parents[2]
_BLOCK = re.compile(r"(<!-- addresses[^\n]*-->\n).*?(<!-- end of addresses -->)", re.DOTALL)
_FIRST = "notebooks/00_first_op.ipynb"


def _urls() -> dict[str, str]:
    project = tomllib.loads((_ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return {name: url.rstrip("/") for name, url in project.get("urls", {}).items()}


def repository() -> str:
    """Return the address of the repository, or nothing as long as none is set."""
    return _urls().get("Repository", "")


def with_addresses(text: str, urls: dict[str, str] | None = None) -> str:
    """Return README.md with the lines that the addresses allow."""
    urls = _urls() if urls is None else urls
    lines = []
    if source := urls.get("Repository"):
        owner, name = source.split("/")[-2:]
        lines += ["```sh", f"git clone {source} && cd {name} && make lab", "```", ""]
        binder = f"https://mybinder.org/v2/gh/{owner}/{name}/HEAD?urlpath=lab/tree/{_FIRST}"
        badge = "![Binder](https://mybinder.org/badge_logo.svg)"
        lines += [f"Or without installing anything: [{badge}]({binder})", ""]
    if pages := urls.get("Documentation"):
        tutorials = f"{pages}/tutorials.html"
        lines += [f"[All tutorials with their outputs]({tutorials})", ""]
    block = "".join(f"{line}\n" for line in lines)
    return _BLOCK.sub(lambda found: found[1] + block + found[2], text)


if __name__ == "__main__":
    readme = _ROOT / "README.md"
    readme.write_text(with_addresses(readme.read_text(encoding="utf-8")), encoding="utf-8")
