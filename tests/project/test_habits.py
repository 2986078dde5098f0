"""The files by which others work with the repository: hooks, workflows, templates. They name only what is there."""

import ast
import re
import subprocess
import tomllib
from pathlib import Path

import pytest
import yaml

import pyopnb

ROOT = Path(__file__).parents[2]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
PAGES = sorted(
    [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / ".github").rglob("*.md")]
)


def read(path):
    return yaml.safe_load(path.read_text(encoding="utf-8"))


def targets():
    """The targets of the Makefile, as make itself expands them."""
    database = subprocess.run(
        ["make", "-pnrR", "clean"], cwd=ROOT, capture_output=True, text=True
    ).stdout
    lines = re.findall(r"^([\w. -]+):(?!=)", database, re.MULTILINE)
    return {name for line in lines for name in line.split()}


def lanes():
    """The sessions of noxfile.py, with one for each Python where there are several."""
    tree = ast.parse((ROOT / "noxfile.py").read_text(encoding="utf-8"))
    found = set()
    for function in tree.body:
        if isinstance(function, ast.FunctionDef) and function.decorator_list:
            found.add(function.name)
            found |= {f"{function.name}-3.{minor}" for minor in (11, 12, 13)}
    return found


def asked_of(text, pattern):
    """The targets or lanes that a text tells its reader, or a shell, to run."""
    found = re.findall(pattern, text, re.MULTILINE)
    return {word for words in found for word in words.split()}


def test_what_pages_make_can_be_made():
    asked = set()
    for path in PAGES:
        asked |= asked_of(path.read_text(encoding="utf-8"), r"`make ((?:[a-z][\w.-]*\s?)+)`")
    assert {"test", "docs", "bench", "lab", "demo"} <= asked <= targets()
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert {"lab", "demo", "test"} <= asked_of(readme, r"`make ([a-z]+)`")


def test_lanes_of_pages_and_workflows_exist():
    asked = set()
    for path in PAGES:
        asked |= asked_of(path.read_text(encoding="utf-8"), r"nox -s ((?:[a-z][\w.-]*\s?)+)")
    for path in WORKFLOWS:
        workflow = read(path)
        asked |= asked_of(path.read_text(encoding="utf-8"), r"nox -s ([a-z][\w.-]*)")
        for job in workflow["jobs"].values():
            for lane in job.get("strategy", {}).get("matrix", {}).get("lane", []):
                asked |= set(lane.partition(" -- ")[0].split())
    assert {"lint", "docs", "torch", "sanitizers", "tests-3.13", "repo2docker"} <= asked
    assert asked <= lanes()


# What a job may do beyond reading, and all that it uses then: no code of the repository.
ALLOWED = {
    ("pages", "publish"): ({"pages", "id-token"}, ["actions/deploy-pages"]),
    ("release", "pypi"): (
        {"id-token"},
        ["actions/download-artifact", "pypa/gh-action-pypi-publish"],
    ),
    ("release", "github"): ({"contents"}, ["actions/download-artifact", "gh release create"]),
    # It calls pages.yml.
    ("release", "pages"): ({"pages", "id-token"}, []),
    # It compiles the repository, and can only add alerts.
    ("codeql", "analyze"): ({"security-events"}, None),
}


def test_the_index_gets_the_distributions_alone():
    """The artifacts of a run also are the pages, and what the tests have built."""
    jobs = read(ROOT / ".github/workflows/release.yml")["jobs"]
    for name in ("checks", "pypi"):
        [download] = [step for step in jobs[name]["steps"] if "download" in step.get("uses", "")]
        assert download["with"]["pattern"] == "dist-*"
    uploaded = {
        job: step["with"]["name"].startswith("dist-")
        for job, content in jobs.items()
        for step in content.get("steps", [])
        if "upload-artifact" in step.get("uses", "")
    }
    assert uploaded == {"sdist": True, "wheels": True, "docs": False}


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_workflow_is_allowed_little_and_pins_its_actions(path):
    workflow = read(path)
    assert workflow["permissions"] == {"contents": "read"}
    for name, job in workflow["jobs"].items():
        steps = job.get("steps", [])
        written = {key for key, value in job.get("permissions", {}).items() if value == "write"}
        allowed, used = ALLOWED.get((path.stem, name), (set(), None))
        assert written == allowed
        if used is not None:
            done = [step.get("uses", step.get("run", "")).split("@")[0] for step in steps]
            assert len(done) == len(used)
            assert all(one.startswith(two) for one, two in zip(done, used, strict=True))
        if "uses" in job:
            assert (ROOT / job["uses"]).is_file()
            continue
        assert job["timeout-minutes"] <= 90
        for step in steps:
            assert ("run" in step) != ("uses" in step)
            if step.get("uses", "").startswith("actions/checkout"):
                assert step["with"]["persist-credentials"] is False
            assert "github.event" not in step.get("run", ""), (
                "text of strangers must not become part of a script"
            )
    for action in re.findall(r"^ *- uses: (.*)$", path.read_text(encoding="utf-8"), re.MULTILINE):
        assert re.fullmatch(r"[\w-]+(/[\w-]+)+@[0-9a-f]{40} # v\d+\.\d+\.\d+", action), action


def test_an_action_has_one_version_everywhere():
    found: dict[str, set[str]] = {}
    for path in WORKFLOWS:
        for name, version in re.findall(r"uses: ([\w/-]+)@(\w+)", path.read_text("utf-8")):
            found.setdefault(name, set()).add(version)
    assert {name for name, versions in found.items() if len(versions) > 1} == set()


def test_conda_recipe_asks_for_what_the_package_asks_for():
    recipe = read(ROOT / "recipe" / "recipe.yaml")
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    needed = {
        "run": {"python", *project["project"]["dependencies"]},
        "host": {"python", "pip", *project["build-system"]["requires"]},
    }
    for key, packages in needed.items():
        assert {"".join(line.split()) for line in recipe["requirements"][key]} == packages
    assert recipe["context"]["version"] == pyopnb.__version__


def refusals(path):
    """The calls in a file that make an error of pyopnb with what it expected."""
    errors = set(pyopnb.errors.__all__)
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        name = node.func.id if isinstance(node, ast.Call) and hasattr(node.func, "id") else ""
        keywords = {keyword.arg for keyword in node.keywords} if name in errors else set()
        if "expected" in keywords:
            yield keywords


def test_refusals_without_advice_do_not_become_more():
    # A damaged file, and a module that cannot be exported, leave nothing to type.
    found = [keywords for path in (ROOT / "pyopnb").rglob("*.py") for keywords in refusals(path)]
    assert len(found) > 400
    assert sum("next" not in keywords for keywords in found) <= 94
