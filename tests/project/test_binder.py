"""The lock of ``binder/`` is one, and has what pyproject.toml asks for. What is made of it, ``make test-binder`` tests."""

from __future__ import annotations

import os
import re
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[2]
BINDER = ROOT / "binder"
PINNED = re.compile(
    r"(?P<name>[\w.-]+)==(?P<version>[\w.]+)( ; (?P<marker>[^\\]+?))?( \\| --hash=.+)?"
)
PYTHON = (BINDER / "runtime.txt").read_text().strip().removeprefix("python-")


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


def asked() -> list[Requirement]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    more = [
        line
        for line in (BINDER / "requirements.in").read_text().splitlines()
        if not line.startswith("#")
    ]
    return [
        Requirement(line)
        for line in (
            *project["project"]["dependencies"],
            *project["build-system"]["requires"],
            *more,
        )
    ]


def unmet(wanted: list[Requirement], held: dict[str, str]) -> list[str]:
    found = ((one, held.get(canonicalize_name(one.name))) for one in wanted)
    return [
        str(one) for one, version in found if version is None or not one.specifier.contains(version)
    ]


def test_the_lock_meets_what_is_asked() -> None:
    held = pins((BINDER / "requirements.txt").read_text())
    assert not unmet(asked(), held), "type: make lock"
    assert {"numpy", "onnxruntime", "jupyterlab", "nbclient", "scikit-build-core"} <= held.keys()


def test_every_pin_has_hashes() -> None:
    text = (BINDER / "requirements.txt").read_text()
    assert (
        len(re.findall(r"^\S+==.*\\\n +--hash=sha256:[0-9a-f]{64}", text, re.MULTILINE))
        == len(pins(text))
        > 50
    )


def test_what_is_not_met_is_seen() -> None:
    assert unmet([Requirement("numpy>=2.1"), Requirement("absent")], {"numpy": "2.0.9"}) == [
        "numpy>=2.1",
        "absent",
    ]


@pytest.mark.parametrize(
    "line", ["numpy", "numpy>=2.1", "numpy==2.*", "-e .", "https://example.org/numpy.whl"]
)
def test_what_is_not_pinned_is_seen(line: str) -> None:
    with pytest.raises(AssertionError, match="not pinned"):
        pins(f"onnx==1.0 \\\n    --hash=sha256:00\n{line}\n")


def test_the_python_is_one_that_we_support() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert Requirement(f"python{project['requires-python']}").specifier.contains(PYTHON)


def test_the_script_stops_at_the_first_failure() -> None:
    script = BINDER / "postBuild"
    assert os.access(script, os.X_OK)
    commands = [
        line for line in script.read_text().splitlines() if line and not line.startswith("#")
    ]
    assert commands[0] == "set -euo pipefail"
