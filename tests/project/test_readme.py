"""README.md tells a story in Python blocks; here it is run from the first to the last, as the cells of one notebook."""

import re
from pathlib import Path

import pytest
from IPython.core.interactiveshell import InteractiveShell
from traitlets.config import Config

README = Path(__file__).parents[2] / "README.md"


def blocks(text):
    """``(line number, source)`` of every Python block."""
    found = re.finditer(r"^```python\n(.*?)^```$", text, re.M | re.S)
    return [(text.count("\n", 0, block.start(1)) + 1, block[1]) for block in found]


@pytest.fixture
def shell(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    InteractiveShell.clear_instance()
    shell = InteractiveShell.instance(config=Config({"HistoryManager": {"enabled": False}}))
    yield shell
    shell.extension_manager.unload_extension("pyopnb")
    shell.reset()
    InteractiveShell.clear_instance()


def tell(story, shell):
    for line, source in blocks(story):
        result = shell.run_cell(source)
        try:
            result.raise_error()
        except BaseException as error:
            error.add_note(f"in the block at line {line} of the story")
            raise


def test_readme_runs(shell):
    story = README.read_text(encoding="utf-8")
    assert blocks(story), "README.md has no Python block"
    tell(story, shell)


def test_that_a_false_story_fails(shell):
    with pytest.raises(ZeroDivisionError) as caught:
        tell("```python\nx = 0\n```\nand then\n```python\n1 / x\n```\n", shell)
    assert caught.value.__notes__ == ["in the block at line 6 of the story"]
