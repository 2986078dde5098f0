"""The pages of ``docs/``: what they name exists. What they show, ``make docs`` runs."""

import importlib
import importlib.util
import json
import re
import sys
import zipfile
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

import pyopnb

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PACKAGE = ROOT / "pyopnb"
DOORS = {"pyopnb.torch"}  # what is in them is imported where their framework is
README = ROOT / "README.md"
PAGES = sorted([*ROOT.glob("*.md"), ROOT / "binder/README.md", *DOCS.rglob("*.md")])
HOW_TO = sorted(page for page in (DOCS / "how_to").glob("*.md") if page.stem != "index")
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))


def paths_in(text):
    """Paths of the repository that a text names."""
    return set(re.findall(r"\b((?:pyopnb|tests|docs|notebooks|binder)/[\w./-]*\w/?)", text))


def names_in(text):
    """Dotted names of pyopnb that a text names in code or as a directive's argument."""
    return set(re.findall(r"(?<![\w/.-])(pyopnb(?:\.[A-Za-z_]\w*)+)", text))


def is_unknown(name):
    """Whether a dotted name is neither a module's nor an attribute's."""
    module, *rest = name.split(".")
    if rest[:1] == ["sklearn"]:
        return is_unknown_of_sklearn(rest[1:])
    value = importlib.import_module(module)
    for part in rest:
        if getattr(value, "__name__", None) in DOORS and part in value.__all__:
            return False
        if hasattr(value, part):
            value = getattr(value, part)
        elif hasattr(value, "__path__") and importlib.util.find_spec(f"{value.__name__}.{part}"):
            value = importlib.import_module(f"{value.__name__}.{part}")
        else:
            return True
    return False


def is_unknown_of_sklearn(parts):
    """Whether pyopnb.sklearn lacks a name: it is read and not imported, as skl2onnx is only where its own lane is."""
    file = ROOT / "pyopnb" / "sklearn" / f"{parts[0] if parts else '__init__'}.py"
    text = (file if file.exists() else file.with_name("__init__.pyi")).read_text(encoding="utf-8")
    return any(re.search(rf"\b{part}\b", text) is None for part in parts[file.exists() :])


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_paths_and_names_are_there(page):
    text = page.read_text(encoding="utf-8")
    files = {name for name in names_in(text) if name.endswith((".svg", ".css", ".onnx"))}
    assert [path for path in sorted(paths_in(text)) if not (ROOT / path).exists()] == []
    assert [name for name in sorted(names_in(text) - files) if is_unknown(name)] == []


def test_that_a_wrong_path_and_a_wrong_name_are_seen():
    assert not (ROOT / paths_in("see `pyopnb/engine/runtime/brdige/attrs.h`").pop()).exists()
    assert all(map(is_unknown, ["pyopnb.Sesion", "pyopnb.sklearn.konvert"]))
    assert not any(map(is_unknown, ["pyopnb.Session.run", "pyopnb.sklearn.convert"]))


# ---- what a hosting site shows ------------------------------------------------------------------------------------------------

INCLUDED = {DOCS / "changelog.md", DOCS / "contributing.md", DOCS / "security_policy.md"}
FENCED = re.compile(r"^(`{3,}|~{3,}).*?^\1$", re.MULTILINE | re.DOTALL)
HOSTED = [page for page in PAGES if page not in INCLUDED]
"""Pages that are read on a hosting site: the others only make pages of Sphinx of files beside README.md."""


def anchors(text):
    """The anchors of a page's headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.+)$", FENCED.sub("", text), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def broken_links(text, folder):
    """Relative links and pictures of a Markdown text in a folder of the repository that lead nowhere."""
    text = re.sub(r"`[^`\n]+`", "", FENCED.sub("", text))
    targets = re.findall(r"\]\(([^)\s]+)\)", text)
    targets += re.findall(r'\b(?:src|srcset|href)="([^"]+)"', text)
    for target in targets:
        parts = urlsplit(target)
        if parts.scheme or parts.netloc:
            continue
        file = folder / unquote(parts.path)
        if not file.exists():
            yield target
        elif parts.fragment:
            there = file.read_text(encoding="utf-8") if parts.path else text
            if parts.fragment not in anchors(there):
                yield target


@pytest.mark.parametrize("page", HOSTED, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_to_files_of_the_repository(page):
    assert list(broken_links(page.read_text(encoding="utf-8"), page.parent)) == []


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.stem)
def test_links_of_notebooks_lead_to_files_of_the_repository(notebook):
    cells = json.loads(notebook.read_text(encoding="utf-8"))["cells"]
    text = "\n\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "markdown")
    assert list(broken_links(text, notebook.parent)) == []


def test_a_link_that_leads_nowhere_is_seen():
    text = "# A page\n[a](README.md) [b](#a-page) [c](docs/index.md#install) `[d](no.md)`\n"
    assert list(broken_links(text, ROOT)) == []
    text += '[e](no.md) [f](#no) [g](docs/index.md#no) ![h](no.png) <img src="no.gif">'
    assert list(broken_links(text, ROOT)) == [
        "no.md",
        "#no",
        "docs/index.md#no",
        "no.png",
        "no.gif",
    ]


# What only Sphinx understands: roles, and blocks that are directives.
SPHINX = re.compile(r"(?<!`)\{[a-z:]+\}`|^(?:`{3,}|:{3,}) ?\{", re.MULTILINE)


@pytest.mark.parametrize(
    "page",
    [page for page in HOSTED if page.parent.name != "reference"],  # made from docstrings
    ids=lambda page: str(page.relative_to(ROOT)),
)
def test_pages_are_plain_markdown(page):
    assert SPHINX.findall(page.read_text(encoding="utf-8")) == []


def test_that_sphinx_in_a_page_is_seen():
    for text in ("see {doc}`index`", "```{toctree}\n```", "::: {note}\n:::", "{py:func}`x`"):
        assert SPHINX.search(text)
    assert not SPHINX.search("`{name}` means a value, `f'{x}'`\n```python cell\n```")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_a_page_is_short(page):
    lines = page.read_text(encoding="utf-8").splitlines()
    assert len(lines) <= 250, "split it: what is longer is not read to its end"


@pytest.mark.parametrize("page", HOW_TO, ids=lambda page: page.stem)
def test_a_how_to_page_begins_with_a_question(page):
    """The words that people type into a search engine, or the message that they copy."""
    title, question, *_ = page.read_text(encoding="utf-8").split("\n\n")
    assert title.startswith("# ")
    assert question.startswith("> ") and question.endswith("?")


@pytest.mark.parametrize("path", [*HOW_TO, *NOTEBOOKS], ids=lambda path: path.stem)
def test_users_are_told_of_no_lane_of_ours(path):
    assert not re.search(r"\bmake [a-z]+`|\bnox\b", path.read_text(encoding="utf-8"))


def test_pages_have_the_addresses_of_pyproject_toml(ext):
    with_addresses = ext("addresses").with_addresses
    readme, tutorials = (page.read_text(encoding="utf-8") for page in ext("addresses").PAGES)
    assert with_addresses(readme) == readme, "type: python docs/ext/addresses.py"
    assert with_addresses(tutorials) == tutorials, "type: python docs/ext/addresses.py"
    bare = with_addresses(readme, {})
    assert not re.search(r"git clone|mybinder|tutorials\.html", bare)
    urls = {"Repository": "https://host.example/one/two", "Documentation": "https://pages.example"}
    told = with_addresses(readme, urls)
    assert "git clone https://host.example/one/two && cd two && make lab" in told
    assert "(https://mybinder.org/v2/gh/one/two/HEAD?urlpath=lab/tree/notebooks/00_" in told
    assert "(https://pages.example/tutorials.html)" in told
    assert with_addresses(told, {}) == bare
    assert "(https://pages.example/tutorials.html)" in with_addresses(tutorials, urls)
    assert "git clone" not in with_addresses(tutorials, urls)


def test_the_page_of_the_index_links_to_files_of_the_tag(ext):
    source = "https://host.example/one/two"
    readme = ext("addresses").PAGES[0].read_text(encoding="utf-8")
    told = ext("addresses").released(readme, "v9.9.9", source)
    links = re.findall(r"\]\(([^)]+)\)", told) + re.findall(r'<img src="([^"]+)"', told)
    inside = [link for link in links if link.startswith(source)]
    assert len(inside) > 10 and all(link.startswith(("https://", "#")) for link in links)
    for link in inside:
        kind, tag, path = link.removeprefix(f"{source}/").split("/", 2)
        assert tag == "v9.9.9" and kind == ("raw" if path.endswith(".gif") else "blob")
        assert (ROOT / path.partition("#")[0]).exists(), link


def test_pages_of_versions_are_side_by_side(ext, tmp_path):
    pages = tmp_path / "pages"
    pages.mkdir()
    (pages / "index.html").write_text("main", encoding="utf-8")
    with zipfile.ZipFile(tmp_path / "v0.2.0.zip", "w") as files:
        files.writestr("index.html", "released")
    site = tmp_path / "site"
    ext("versions").gather(pages, site, [tmp_path / "v0.2.0.zip"])
    assert (site / "latest/index.html").read_text(encoding="utf-8") == "main"
    assert (site / "0.2.0/index.html").read_text(encoding="utf-8") == "released"
    assert "url=0.2.0/" in (site / "index.html").read_text(encoding="utf-8")
    listed = (site / "versions.html").read_text(encoding="utf-8")
    assert listed.index('href="0.2.0/"') < listed.index('href="latest/"')
    ext("versions").gather(pages, tmp_path / "first", [])
    assert "url=latest/" in (tmp_path / "first/index.html").read_text(encoding="utf-8")


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.stem)
def test_the_gallery_takes_its_picture_from_one_cell(notebook):
    cells = json.loads(notebook.read_text(encoding="utf-8"))["cells"]
    tagged = [cell for cell in cells if "gallery" in cell["metadata"].get("tags", [])]
    assert [cell["cell_type"] for cell in tagged] in ([], ["code"])


def test_every_room_is_in_the_page_on_architecture():
    rooms = {path.name for path in PACKAGE.iterdir() if (path / "__init__.py").exists()}
    text = "".join(
        (DOCS / "architecture" / f"{part}.md").read_text(encoding="utf-8")
        for part in ("engine", "kit", "add_ons")
    )
    assert set(re.findall(r"^\| `pyopnb/(\w+)/` \|", text, re.MULTILINE)) == rooms


def test_every_notebook_and_how_to_page_is_listed_with_a_sentence():
    tutorials = (DOCS / "tutorials.md").read_text(encoding="utf-8")
    notebooks = sorted(path.stem for path in (ROOT / "notebooks").glob("*.ipynb"))
    told = re.findall(
        r"^- \*\*\[.+\]\(\.\./notebooks/(\w+)\.ipynb\)\*\* .+\.$", tutorials, re.MULTILINE
    )
    assert sorted(told) == notebooks
    index = (DOCS / "how_to" / "index.md").read_text(encoding="utf-8")
    pages = [page.stem for page in HOW_TO]
    told = re.findall(r"^- \*\*\[.+\]\((\w+)\.md\)\*\* .+\.$", index, re.MULTILINE)
    assert sorted(told) == pages


def test_every_public_name_is_in_the_reference_once():
    text = "\n".join(path.read_text(encoding="utf-8") for path in (DOCS / "reference").glob("*.md"))
    listed = re.findall(r"^\.\. auto\w+:: pyopnb\.(\w+)$", text, re.MULTILINE)
    assert sorted(listed) == sorted(pyopnb.__all__)
    listed = re.findall(r"^\.\. auto\w+:: pyopnb\.errors\.(\w+)$", text, re.MULTILINE)
    assert sorted(["PyopError", *listed]) == sorted(pyopnb.errors.__all__)
    for door in map(importlib.import_module, DOORS):
        listed = re.findall(
            rf"^\.\. auto\w+:: {re.escape(door.__name__)}\.(\w+)$", text, re.MULTILINE
        )
        assert sorted(listed) == sorted(door.__all__)


# ---- the parts of the build that are code of ours ------------------------------------------------------------------------------


@pytest.fixture
def ext(monkeypatch):
    """Imports a module of docs/ext. Only ``pages`` needs Sphinx."""
    monkeypatch.syspath_prepend(str(DOCS / "ext"))
    before = set(sys.modules)
    yield importlib.import_module
    for name in {path.stem for path in (DOCS / "ext").glob("*.py")} - before:
        sys.modules.pop(name, None)


def test_rooms_that_import_upwards_or_are_too_many_are_refused(ext):
    rooms = ext("rooms")
    check, order = rooms.check, rooms.floors()
    check(order, {("traces", "models"): 3, ("models", "engine"): 1})
    with pytest.raises(ValueError, match=r"do not lead down: models -> traces"):
        check(order, {("traces", "models"): 3, ("models", "traces"): 1})
    with pytest.raises(ValueError, match=rf"{rooms.MOST + 1} rooms, and {rooms.MOST} are the most"):
        check([[str(number)] for number in range(rooms.MOST + 1)], {})


def test_messages_are_read_from_the_code(ext):
    forms = ext("messages").forms
    errors = [
        name
        for name in pyopnb.errors.__all__
        if issubclass(getattr(pyopnb.errors, name), pyopnb.PyopError)
    ]
    listed = re.findall(
        r"^<!-- \{messages\} (\w+) -->$",
        (DOCS / "messages.md").read_text(encoding="utf-8"),
        re.MULTILINE,
    )
    assert sorted(listed) == sorted(errors)
    assert all(forms(name) for name in errors)
    assert any(form.startswith("feed {name}: expected ") for form, _ in forms("InputError"))


def test_every_public_name_has_an_entry(ext):
    absent, names = ext("public_names").absent, ext("public_names").public()
    assert absent(names) == []
    assert absent(set(names) - {"pyopnb.Session.trace"}) == ["pyopnb.Session.trace"]
