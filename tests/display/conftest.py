"""What a front end keeps of HTML in an untrusted notebook."""

from __future__ import annotations

import base64
from collections.abc import Callable
from html.parser import HTMLParser
from xml.etree import ElementTree

import pytest

from pyopnb.display.page.markup import MAX_BYTES

# The part of the JupyterLab allow-list (4.6, apputils' sanitizer) that we mean to use.
TAGS = {
    "div",
    "span",
    "b",
    "pre",
    "details",
    "summary",
    "table",
    "thead",
    "tbody",
    "tr",
    "th",
    "td",
    "img",
    "code",
    "br",
}
# What nothing needs without a script.
REMOVED = {"class", "data-at", "data-boxes", "data-pyopnb", "data-maps", "data-values"}
ATTRIBUTES = {"img": {"src", "alt", "width", "height"}, "details": {"open"}}
STYLES = {
    "background", "background-color", "border", "border-bottom", "border-collapse", "border-left", "border-radius", "color",
    "display", "font-family", "font-size", "font-weight", "height", "margin", "max-height", "max-width", "opacity", "overflow",
    "overflow-wrap", "overflow-x", "padding", "text-align", "vertical-align", "white-space", "width", "word-break",
}  # fmt: skip


class _Kept(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.text: list[str] = []
        self.pictures: list[bytes] = []
        self.alts: list[str] = []
        self.in_script = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.in_script = tag == "script"
        if self.in_script:  # removed with its text, and nothing may need it
            return
        assert tag in TAGS, f"<{tag}> is removed"
        held = {name: value for name, value in attrs if name not in REMOVED}
        assert len({name for name, _ in attrs}) == len(attrs)
        assert held.keys() <= {"style"} | ATTRIBUTES.get(tag, set()), held
        for rule in filter(None, (held.get("style") or "").split(";")):
            assert rule.partition(":")[0].strip() in STYLES, f"{rule} is removed"
        if tag == "img":
            kind, _, data = (held["src"] or "").partition(";base64,")
            assert kind in ("data:image/png", "data:image/svg+xml")
            self.pictures.append(base64.b64decode(data, validate=True))
            assert held["alt"], "a picture without words"
            assert not set(held["alt"]) & set("▁▂▃▄▅▆▇█"), "blocks that a screen reader reads out"
            self.alts.append(held["alt"])
        elif tag != "br":
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if self.in_script:
            self.in_script = False
            return
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if not self.in_script:
            self.text.append(data)


@pytest.fixture(scope="session")
def survives() -> Callable[[str], _Kept]:
    """Assert that a page survives; its text, pictures and their words come back."""

    def check(page: str) -> _Kept:
        kept = _Kept()
        kept.feed(page)
        kept.close()
        assert not kept.open
        assert len(page.encode()) <= MAX_BYTES
        for picture in kept.pictures:
            if not picture.startswith(b"\x89PNG"):
                for element in ElementTree.fromstring(
                    picture
                ).iter():  # what is not well-formed is not drawn at all
                    name = element.tag.rpartition("}")[2]
                    assert name not in ("script", "foreignObject", "a"), name
                    assert not any(key.lower().startswith("on") for key in element.attrib)
        return kept

    return check
