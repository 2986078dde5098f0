"""Record how a watch follows an edit, as the looping picture of the README and of the first page.

    .nox/browser/bin/python tests/browser/record_watch.py notebooks/pictures/watch.gif

Beside the GIF it writes the last picture as a PNG, for readers who have asked their system for less
motion. Pages are light, and no wider than a column of text, so that the letters can be read there.
"""

from __future__ import annotations

import sys
import tempfile
from io import BytesIO
from pathlib import Path

from lab import Tab, browser, lab, new_context, tab, write_notebook
from PIL import Image
from playwright.sync_api import expect

SETUP = """\
%load_ext pyopnb
import numpy as np
import pyopnb"""
OP = """\
%%pyop -d demo
class SoftClip:
    def __init__(self, limit: float = 1.0):
        self.limit = limit

    def compute(self, x):
        return """
TANH = "self.limit * np.tanh(x / self.limit)"
CLIP = "np.clip(x, -self.limit, self.limit)"
WATCH = """\
model = pyopnb.parse("(float[N] x) => (float[N] y) { y = demo.SoftClip<limit = 2.0>(x) }")
session = pyopnb.Session(model)
pyopnb.watch(session, x=np.linspace(-6, 6, 121, dtype=np.float32))"""
OPS, WATCHED = 1, 2
WIDTH, HEIGHT = 900, 656
STATUS = 30  # the height of the line at the bottom of JupyterLab
COLORS = 64
# Milliseconds: of a letter, of a picture that is read, and of the last one before
# the loop begins again.
LETTER, READ, LAST = 60, 1600, 4500


class Recording:
    """The pictures of a page, and how long each stays."""

    def __init__(self, page: Tab, left: float, top: float, width: float) -> None:
        self.page = page
        self.clip = {"x": left, "y": top, "width": width, "height": HEIGHT - STATUS - top}
        self.pictures: list[Image.Image] = []
        self.times: list[int] = []

    def take(self, milliseconds: int) -> None:
        shot = self.page.page.screenshot(clip=self.clip, caret="initial")
        self.pictures.append(Image.open(BytesIO(shot)).convert("RGB"))
        self.times.append(milliseconds)

    def save(self, path: Path) -> None:
        """Write the GIF, and its last picture as a PNG."""
        # One palette for all pictures, of the first and the last: colors would flicker otherwise.
        width, height = self.pictures[0].size
        both = Image.new("RGB", (width, 2 * height))
        both.paste(self.pictures[0], (0, 0))
        both.paste(self.pictures[-1], (0, height))
        palette = both.quantize(COLORS)
        still = [
            picture.quantize(palette=palette, dither=Image.Dither.NONE) for picture in self.pictures
        ]
        still[0].save(
            path,
            save_all=True,
            append_images=still[1:],
            duration=self.times,
            loop=0,
            optimize=True,
        )
        still[-1].save(path.with_suffix(".png"), optimize=True)


def record(page):
    """Run the notebook, rewrite the line of the op as one who types, and run its cell again."""
    page.open_notebook("watch.ipynb")
    page.command("application:toggle-left-area")
    page.page.add_style_tag(content="*, ::before, ::after { transition: none !important }")
    page.run_all()
    watched = page.output(WATCHED)
    expect(watched).to_contain_text("SoftClip version 1")
    page.choose(OPS)
    page.command("notebook:enter-edit-mode")
    page.page.keyboard.press("Control+End")
    page.cell(OPS).evaluate("cell => cell.scrollIntoView({block: 'start'})")
    page.page.wait_for_timeout(1000)
    box = page.cell(OPS).bounding_box()
    assert box is not None

    recording = Recording(page, box["x"], box["y"], box["width"])
    recording.take(READ)
    page.page.keyboard.press("Shift+Home")
    for _ in "return ":
        page.page.keyboard.press("Shift+ArrowRight")
    recording.take(10 * LETTER)
    page.page.keyboard.press("Backspace")
    for letter in CLIP:
        page.page.keyboard.insert_text(letter)
        recording.take(LETTER)
    recording.times[-1] = 12 * LETTER

    page.page.keyboard.press("Control+Enter")
    expect(watched).to_contain_text("SoftClip version 2")
    page.wait_idle()
    page.page.wait_for_timeout(1000)
    recording.take(LAST)
    return recording


def main(path):
    with tempfile.TemporaryDirectory() as folder:
        write_notebook(Path(folder) / "watch.ipynb", SETUP, OP + TANH, WATCH)
        with (
            lab(Path(folder)) as server,
            browser() as chromium,
            tab(new_context(chromium), server) as page,
        ):
            page.page.set_viewport_size({"width": WIDTH, "height": HEIGHT})
            recording = record(page)
    recording.save(path)
    print(f"{path}: {path.stat().st_size:,} bytes, {len(recording.pictures)} pictures")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
