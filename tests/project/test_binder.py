"""The lock of ``binder/`` is one, and has what pyproject.toml asks for. What is made of it, ``nox -s binder`` tests."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[2]
BINDER = ROOT / "binder"
PINNED = re.compile(
    r"(?P<name>[\w.-]+)==(?P<version>[\w.]+)( ; (?P<marker>[^\\]+?))?( \\| --hash=.+)?"
)
PYTHON = (BINDER / "runtime.txt").read_text(encoding="utf-8").strip().removeprefix("python-")


def pins(text: str) -> dict[str, str]:
    """Versions by name; an AssertionError at a line that is neither a pin nor a hash of one."""
    found = {}
    for line in text.splitlines():
        if not line.strip() or line.lstrip().startswith(("#", "--hash=sha256:")):
            continue
        match = PINNED.fullmatch(line.strip())
        assert match, f"not pinned: {line}"
        found[canonicalize_name(match["name"])] = match["version"]
    return found


def test_the_lock_meets_what_is_asked() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    lines = [*project["project"]["dependencies"], *project["build-system"]["requires"]]
    for line in (BINDER / "requirements.in").read_text(encoding="utf-8").splitlines():
        if not line.startswith("#"):
            lines.append(line)
    versions = pins((BINDER / "requirements.txt").read_text(encoding="utf-8"))
    for requirement in map(Requirement, lines):
        version = versions[canonicalize_name(requirement.name)]
        assert requirement.specifier.contains(version), f"{requirement}: type nox -s lock"


def test_every_pin_has_hashes() -> None:
    text = (BINDER / "requirements.txt").read_text(encoding="utf-8")
    assert (
        len(re.findall(r"^\S+==.*\\\n +--hash=sha256:[0-9a-f]{64}", text, re.MULTILINE))
        == len(pins(text))
        > 50
    )


def test_the_python_is_one_that_we_support() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert Requirement(f"python{project['requires-python']}").specifier.contains(PYTHON)
