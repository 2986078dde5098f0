"""Add to Sphinx the directives that read the code, and the checks that fail the build.

``.. rooms::`` the picture of the rooms; ``.. messages:: InputError`` the messages of one class;
``.. benchmarks::`` the newest results; ``.. catalog::`` the operators of the catalog;
``.. operators::`` the ONNX operators in the reference;
``.. public-names::`` a table of all public names. The build fails if rooms import each other in a
circle or upwards, if a public name or method has no entry in the reference, or if a link inside the
pages leads nowhere.
"""

from __future__ import annotations

import base64
import html
import pkgutil
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import benchmarks
import catalog
import executed
import gallery
import internal_links
import messages
import operators
import plain_markdown
import public_names
import rooms
from docutils import nodes
from ipython_pygments_lexers import IPython3Lexer
from pygments.lexer import bygroups, inherit, using
from pygments.lexers.python import Python3Lexer
from pygments.token import Keyword, Operator, Text
from sphinx.addnodes import pending_xref
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment
from sphinx.errors import ExtensionError
from sphinx.util.docutils import SphinxDirective
from sphinx.util.nodes import get_node_source, make_refnode

import pyopnb

__all__ = ["setup"]


class CellLexer(IPython3Lexer):  # type: ignore[misc]  # it has no types
    """Color IPython's cells, and the Python below ``%%pyop``."""

    tokens = {  # noqa: RUF012  # as Pygments has it
        "root": [
            (
                r"(?s)\A(%%)(pyop)([^\n]*\n)(.*)",
                bygroups(Operator, Keyword, Text, using(Python3Lexer)),
            ),
            inherit,
        ],
    }


class Rooms(SphinxDirective):
    """The picture of the rooms, with the number of imports of each arrow."""

    def run(self) -> list[nodes.Node]:
        order, arrows = rooms.floors(), rooms.imports()
        rooms.check(order, arrows)
        data = base64.b64encode(rooms.picture(order, arrows).encode()).decode()
        image = (
            '<img alt="The rooms of pyopnb and what imports what" '
            f'src="data:image/svg+xml;base64,{data}">'
        )
        items = "".join(f"<li>{html.escape(line)}</li>" for line in rooms.listing(order, arrows))
        summary = f"All {len(arrows)} arrows, with the number of import statements"
        details = f"<details><summary>{summary}</summary><ul>{items}</ul></details>"
        return [nodes.raw("", f'<figure class="rooms">{image}</figure>{details}', format="html")]


class Messages(SphinxDirective):
    """The forms of the messages of one class."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        listed = nodes.bullet_list(classes=["messages"])
        for form, module in messages.forms(self.arguments[0]):
            entry = nodes.paragraph(
                "", "", nodes.literal(form, form), nodes.Text(" "), nodes.emphasis("", module)
            )
            listed += nodes.list_item("", entry)
        if not listed.children:
            raise self.error(f"nothing raises {self.arguments[0]}")
        return [listed]


class Benchmarks(SphinxDirective):
    """The newest run of the benchmarks."""

    def run(self) -> list[nodes.Node]:
        self.env.note_dependency(str(benchmarks.RESULTS))
        results, runs = benchmarks.newest(benchmarks.RESULTS)
        if not results:
            return [nodes.paragraph("", "No run has been recorded yet.")]
        first = results[0]
        versions = ", ".join(f"{name} {first[name]}" for name in benchmarks.VERSIONS)
        where = (
            f"{first['date']} UTC, commit {first['commit']}, {first['cores']} cores; {versions}. "
            f"Recorded runs: {runs}."
        )
        body = [[row[column] for column in benchmarks.COLUMNS] for row in results]
        return [nodes.paragraph("", where), _table(benchmarks.COLUMNS, body)]


def _table(head: Sequence[str], body: Sequence[Sequence[str]]) -> nodes.table:
    group = nodes.tgroup("", *(nodes.colspec(colwidth=1) for _ in head), cols=len(head))
    group += nodes.thead("", _row(head))
    group += nodes.tbody("", *map(_row, body))
    return nodes.table("", group, classes=["benchmarks"])


def _row(cells: Sequence[str]) -> nodes.row:
    return nodes.row("", *(nodes.entry("", nodes.paragraph("", cell)) for cell in cells))


class Catalog(SphinxDirective):
    """The operators of the catalog, from its files and what was measured of them."""

    def run(self) -> list[nodes.Node]:
        self.env.note_dependency(str(catalog.RESULTS))
        return [_table(catalog.COLUMNS, catalog.rows()), *self._refused()]

    def _refused(self) -> list[nodes.Node]:
        title = "Those that cannot run, and what to do instead:"
        return [nodes.paragraph("", title), _table(catalog.REFUSED, catalog.refused())]


class Operators(SphinxDirective):
    """The operators of ONNX, and what the reference makes of each version."""

    def run(self) -> list[nodes.Node]:
        self.env.note_dependency(str(operators.RECORD))
        return [_table(operators.COLUMNS, operators.rows())]


class PublicNames(SphinxDirective):
    """A table of the public names, with the first line of each docstring."""

    def run(self) -> list[nodes.Node]:
        lines = [
            ".. autosummary::",
            "   :nosignatures:",
            "",
            *(f"   pyopnb.{name}" for name in pyopnb.__all__),
        ]
        return self.parse_text_to_nodes("\n".join(lines))


def _link_by_last_part(
    app: Sphinx, env: BuildEnvironment, node: pending_xref, content: nodes.Element
) -> nodes.Element | None:
    """Link a short name in a docstring, like `Summary`, to the entry whose full name ends with it.

    A name without an entry stays text if it exists in the described class or module.
    """
    target = node["reftarget"]
    ends = {
        name: entry
        for name, *entry in env.get_domain("py").get_objects()
        if name.endswith(f".{target}")
    }
    if node["refdomain"] != "py":
        return None
    if f"pyopnb.{target}" in ends or len(ends) == 1:
        _, _, page, anchor, _ = ends.get(f"pyopnb.{target}") or next(iter(ends.values()))
        return make_refnode(app.builder, node["refdoc"], page, anchor, content)
    around = getattr(pyopnb, node.get("py:class") or "", None)
    if around is not None and hasattr(around, target):
        return content
    described = re.search(r"docstring of (pyopnb[\w.]*)", get_node_source(node) or "")
    return content if described and _is_there(target, described[1]) else None


def _is_there(target: str, described: str) -> bool:
    """Tell whether a name exists in the module of an object, or as a full name."""
    module = described
    while module not in sys.modules:
        module = module.rpartition(".")[0]
    for name in (f"{module}.{target}", target):
        owner, _, last = name.rpartition(".")
        try:
            value = pkgutil.resolve_name(owner or "builtins")
        except (ImportError, AttributeError, ValueError):
            continue
        if hasattr(value, last) or last in getattr(
            value, "__annotations__", {}
        ):  # a field without a default
            return True
    return False


def _read_page(app: Sphinx, docname: str, source: list[str]) -> None:
    if not docname.startswith("tutorials/"):
        source[0] = plain_markdown.to_myst(source[0], docname)
        return
    root, name = Path(app.srcdir).parent, Path(docname).name
    if executed.needs_torch(source[0]):
        copy = root / "build" / "notebooks" / f"{name}.ipynb"
        source[0] = executed.with_outputs(source[0], copy)
    else:
        source[0] = executed.with_claims(source[0], root / "tests" / "claims" / f"{name}.py")
    source[0] = executed.with_page_links(source[0])


def _link_names(app: Sphinx, doctree: nodes.document, docname: str) -> None:
    """Link each public name in code to its entry in the reference."""
    entries = {name: entry for name, *entry in app.env.get_domain("py").get_objects()}
    for literal in list(doctree.findall(nodes.literal)):
        entry = entries.get(literal.astext())
        is_linked = isinstance(literal.parent, (nodes.reference, nodes.title))
        if entry and not is_linked and entry[2] != docname:
            link = make_refnode(app.builder, docname, entry[2], entry[3], literal.deepcopy())
            literal.replace_self(link)


def _give_captions_a_level(
    app: Sphinx, page: str, template: str, context: dict[str, Any], doctree: nodes.document | None
) -> None:
    """Complete the headings of the navigation, which Sphinx writes without a level."""
    tree = context.get("furo_navigation_tree", "")
    context["furo_navigation_tree"] = tree.replace(
        'role="heading">', 'role="heading" aria-level="2">'
    )


def _refuse_absent_names(app: Sphinx, env: BuildEnvironment) -> None:
    absent = public_names.absent(name for name, *_ in env.get_domain("py").get_objects())
    if absent:
        raise ExtensionError(f"public, and not in docs/reference: {', '.join(absent)}")


def _refuse_broken_links(app: Sphinx, error: Exception | None) -> None:
    if (
        error is None
        and app.builder.name == "html"
        and (broken := internal_links.broken(Path(app.outdir)))
    ):
        raise ExtensionError("links that lead nowhere:\n" + "\n".join(broken))


def setup(app: Sphinx) -> dict[str, Any]:
    """Register the lexer, the directives and the checks."""
    app.add_lexer("ipython3", CellLexer)
    app.add_directive("rooms", Rooms)
    app.add_directive("messages", Messages)
    app.add_directive("benchmarks", Benchmarks)
    app.add_directive("catalog", Catalog)
    app.add_directive("operators", Operators)
    app.add_directive("public-names", PublicNames)
    app.connect("source-read", _read_page)
    app.connect("doctree-resolved", _link_names)
    app.connect("doctree-resolved", gallery.add_pictures)
    app.connect("missing-reference", _link_by_last_part)
    # After furo, which makes the navigation.
    app.connect("html-page-context", _give_captions_a_level, priority=900)
    app.connect("env-check-consistency", _refuse_absent_names)
    app.connect("build-finished", _refuse_broken_links)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
