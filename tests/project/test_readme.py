"""README.md is one notebook of Python blocks, and the first page and the page of features are another: both run here as cells."""

import re
from pathlib import Path

import pytest
from IPython.core.interactiveshell import InteractiveShell
from traitlets.config import Config

ROOT = Path(__file__).parents[2]
README = [ROOT / "README.md"]
PAGES = [ROOT / "docs/index.md", ROOT / "docs/features.md"]


def story(pages):
    return "\n".join(page.read_text(encoding="utf-8") for page in pages)


def blocks(text):
    """``(line number, source)`` of every Python block."""
    fence = r"^```python(?: cell[\w -]*)?\n(.*?)^```$"
    found = re.finditer(fence, text, re.MULTILINE | re.DOTALL)
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


def tell(text, shell):
    for line, source in blocks(text):
        result = shell.run_cell(source)
        try:
            result.raise_error()
        except BaseException as error:
            error.add_note(f"in the block at line {line} of the story")
            raise
        if "watch(" in source or "interact(" in source:
            assert result.result is not None, "whoever copies a live block sees its output"


@pytest.mark.parametrize("pages", [README, PAGES], ids=["readme", "pages"])
def test_readme_and_pages_run(pages, shell):
    for page in pages:
        assert blocks(page.read_text(encoding="utf-8")), f"{page.name} has no Python block"
    tell(story(pages), shell)


def quoted_texts(source):
    """``(call, lines)`` of every call of a block below which its text is quoted, up to a line that is only an ellipsis."""
    for quote in re.finditer(r"^(pyopnb\.\w+\(.*\))\n((?:# .*\n)+)", source, re.MULTILINE):
        yield quote[1], [line[2:] for line in quote[2].splitlines()]


def test_texts_that_are_quoted_are_true(shell):
    checked = 0
    for _, source in blocks(story(PAGES)):
        if "watch(" in source:
            break
        for call, lines in quoted_texts(source):
            before = source[: source.index(call)]
            shell.run_cell(before).raise_error()
            printed = str(shell.ev(call)).splitlines()
            kept = lines[: lines.index("…")] if "…" in lines else lines
            assert printed[: len(kept)] == kept and ("…" in lines or len(printed) == len(kept)), (
                call
            )
            checked += 1
        shell.run_cell(source).raise_error()
    assert checked == 3
