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


def test_lanes_of_pages_and_workflows_exist():
    asked = set()
    for path in PAGES:
        asked |= asked_of(path.read_text(encoding="utf-8"), r"nox -s ((?:[a-z][\w.-]*\s?)+)")
    for path in WORKFLOWS:
        workflow = read(path)
        asked |= asked_of(path.read_text(encoding="utf-8"), r"nox -s ([a-z][\w.-]*)")
        for job in workflow["jobs"].values():
            for lane in job.get("strategy", {}).get("matrix", {}).get("lane", []):
                asked |= set(lane.split())
    assert {"lint", "docs", "torch", "sanitizers", "tests-3.13", "repo2docker"} <= asked
    assert asked <= lanes()


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_workflow_is_allowed_little_and_pins_its_actions(path):
    workflow = read(path)
    assert workflow["permissions"] == {"contents": "read"}
    for job in workflow["jobs"].values():
        if "permissions" in job:
            # What publishes the pages may write them, and runs nothing but the action that does.
            assert path.stem == "pages" and set(job["permissions"]) == {"pages", "id-token"}
            assert [step["uses"].split("@")[0] for step in job["steps"]] == ["actions/deploy-pages"]
        assert job["timeout-minutes"] <= 90
        for step in job["steps"]:
            assert ("run" in step) != ("uses" in step)
            if "uses" in step:
                assert re.fullmatch(r"[\w-]+/[\w-]+@v\d+\.\d+\.\d+", step["uses"]), step["uses"]
            if step.get("uses", "").startswith("actions/checkout"):
                assert step["with"]["persist-credentials"] is False
            assert "github.event" not in step.get("run", ""), (
                "text of strangers must not become part of a script"
            )


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
