"""HTML that survives: escaped, folded, and never too large."""

import base64
import csv
import io
from html.parser import HTMLParser

import pytest

from pyopnb.common import Table
from pyopnb.display.page.markup import MAX_BYTES, details, escape, image, join, note, pre

HOSTILE = "<script>alert(1)</script>\"'&\x00\x1b[31m\u202e" + "A" * 10_000


class Read(HTMLParser):
    def __init__(self, text):
        super().__init__()
        self.tags, self.text, self.open = [], "", []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag != "img":
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text += data


def test_hostile_text_is_only_text():
    for made in (
        f"<p>{escape(HOSTILE)}</p>",
        details(HOSTILE, "x"),
        note(HOSTILE),
        pre(HOSTILE),
        image("<svg/>", HOSTILE),
    ):
        read = Read(made)
        assert {tag for tag, _ in read.tags} <= {"p", "details", "summary", "div", "pre", "img"}
        assert read.open == []
        assert not any(c in made for c in "\x00\x1b\u202e")
        assert len(made) < 4_000


def test_a_picture_is_in_the_page_itself():
    (tag, attrs), *_ = Read(image("<svg>é</svg>", 'a "sentence"')).tags
    kind, data = attrs["src"].split(",")
    assert (tag, kind, attrs["alt"]) == (
        "img",
        "data:image/svg+xml;base64",
        'a "sentence"',
    )
    assert base64.b64decode(data).decode() == "<svg>é</svg>"
    assert "max-width:100%" in attrs["style"]
    assert "image/png" in image(b"\x89PNG\r\n", "dots")


def test_an_output_is_never_too_large():
    made = join(["x" * 90_000, "é" * 60_000, "y" * 90_000, "z"])
    assert len(made.encode()) <= MAX_BYTES
    assert "x" in made and "é" not in made and "z" in made and "1 more part is left out" in made
    assert "left out" not in join(["a", "b"])


def test_tables_are_written_as_csv_and_become_frames(tmp_path) -> None:
    table = Table(
        ("op", "share", "median", "nodes"),
        [("None", "1.5", "3 µs", "2"), ('a "b", c', "", "1.2 ms", "3")],
    )
    assert list(csv.reader(io.StringIO(table.to_csv()))) == [
        list(table.head),
        *map(list, table.rows),
    ]
    assert table.to_csv(tmp_path / "table.csv") is None
    assert (tmp_path / "table.csv").read_bytes().decode() == table.to_csv()
    frame = table.to_pandas()
    assert list(frame) == ["op", "share", "median (s)", "nodes"]
    assert frame["op"].tolist() == ["None", 'a "b", c']
    assert frame["median (s)"].tolist() == pytest.approx([3e-6, 1.2e-3])
    shares = Table(("part", "of"), [("74.1 %", "1 ms"), ("-1,000 %", "1 apple")]).to_pandas()
    assert shares["part (%)"].tolist() == [74.1, -1000] and shares["of"].tolist()[0] == "1 ms"
    assert frame["share"].sum() == 1.5 and frame["nodes"].tolist() == [2, 3]
    assert Table(("op",), []).to_pandas().empty
    assert 'class="pyopnb-table"' in table._repr_html_()
