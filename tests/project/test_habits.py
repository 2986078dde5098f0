"""The files by which others work with the repository: hooks, workflows, templates. They name only what is there."""

import re
import subprocess
import tomllib
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[2]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
PAGES = sorted(
    [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / ".github").rglob("*.md")]
)
PYTHON_LANE = re.compile(r"test-3\.1[123]")  # a machine has those of its own Pythons


def read(path):
    return yaml.safe_load(path.read_text(encoding="utf-8"))


def targets():
    """The targets of the Makefile, as make itself expands them."""
    database = subprocess.run(
        ["make", "-pnrR", "machine"], cwd=ROOT, capture_output=True, text=True
    ).stdout
    return set(re.findall(r"^([\w.-]+):(?!=)", database, re.MULTILINE))


def asked_of_make(text, everything=False):
    """The targets that a text tells its reader, or a shell, to make."""
    pattern = (
        r"^\s*(?:- run: )?make ((?:[a-z][\w.-]*\s?)+)$"
        if everything
        else r"`make ((?:[a-z][\w.-]*\s?)+)`"
    )
    return {word for words in re.findall(pattern, text, re.MULTILINE) for word in words.split()}


def unknown(names):
    return sorted(name for name in names - targets() if not PYTHON_LANE.fullmatch(name))


def test_what_pages_and_workflows_make_can_be_made():
    asked = set().union(*(asked_of_make(path.read_text(encoding="utf-8")) for path in PAGES))
    asked |= set().union(
        *(asked_of_make(path.read_text(encoding="utf-8"), everything=True) for path in WORKFLOWS)
    )
    assert {"test", "docs", "bench", "lint"} <= asked
    assert not unknown(asked)


def test_that_an_unknown_target_is_seen():
    assert unknown(asked_of_make("Type `make test`, `make asan tsan` or `make coffee`.")) == [
        "coffee"
    ]
    assert asked_of_make("    steps:\n      - run: make tea\n", everything=True) == {"tea"}


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


def test_one_workflow_runs_make_test_and_one_builds_wheels():
    text = {path.stem: path.read_text(encoding="utf-8") for path in WORKFLOWS}
    assert "- run: make test\n" in text["test"]
    assert "pypa/cibuildwheel@" in text["wheels"]
    assert "python -m build --sdist" in text["wheels"]


def test_hooks_are_the_commands_of_make_lint():
    hooks = [
        hook for repo in read(ROOT / ".pre-commit-config.yaml")["repos"] for hook in repo["hooks"]
    ]
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    recipe = re.search(r"^lint:.*\n((?:\t.*\n)+)", makefile, re.MULTILINE)[1]
    linted = {
        " ".join(words.split())
        for words in re.findall(r"\.venv/bin/([\w-]+(?: check| format)?)", recipe)
    }
    hooked = {
        re.match(r"\.venv/bin/([\w-]+(?: check| format)?)", hook["entry"])[1] for hook in hooks
    }
    assert hooked == linted
    assert all(hook["language"] == "system" for hook in hooks)


def test_conda_recipe_asks_for_what_the_package_asks_for():
    recipe, project = (
        read(ROOT / "recipe" / "recipe.yaml"),
        tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8")),
    )
    asked = {"".join(line.split()) for line in recipe["requirements"]["run"]}
    assert asked == {"python", *project["project"]["dependencies"]}
    assert {"".join(line.split()) for line in recipe["requirements"]["host"]} == {
        "python",
        "pip",
        *project["build-system"]["requires"],
    }
    assert recipe["context"]["version"] == project["project"]["version"]
    assert (ROOT / recipe["tests"][1]["files"]["source"][0]).is_file()
    assert (
        recipe["build"]["skip"][-1]
        == f'match(python, "{project["project"]["requires-python"].replace(">=", "<")}")'
    )


def test_wheels_are_tried_with_a_script_that_is_there():
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"][
        "cibuildwheel"
    ]
    assert (ROOT / settings["test-command"].removeprefix("python {project}/")).is_file()
