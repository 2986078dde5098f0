"""Sweeps as tables, sheets of pictures and plots."""

from __future__ import annotations

import base64
import io
import re
from typing import Any

import numpy as np
import pytest
from photographs import photograph
from PIL import Image

import pyopnb

PHOTOGRAPH = (photograph("flower.jpg") / 255).astype(np.float32)[::4, ::4]


class Gain:
    def __init__(self, gain: float = 1.0, offset: float = 0.0) -> None:
        self.gain, self.offset = gain, offset

    def compute(self, x):
        if self.gain > 9:
            raise ValueError("<b>loud</b>")
        return np.clip(x * np.float32(self.gain) + np.float32(self.offset), -1, 1)


def images(svg: str) -> list[Image.Image]:
    found = re.findall(r'href="data:image/png;base64,([^"]*)"', svg)
    return [Image.open(io.BytesIO(base64.b64decode(data))) for data in found]


def session(kind: str) -> Any:
    pyopnb.registry.define(Gain, "sweeps::Gain")
    nodes = [pyopnb.node("sweeps::Gain", "x", "y"), pyopnb.node("ReduceMax", "y", "m", keepdims=0)]
    return pyopnb.Session(pyopnb.model(nodes, {"x": kind}, ["y", "m"]))


def test_pictures_have_the_same_colors(survives: Any) -> None:
    found = pyopnb.sweep(
        session("float32[H,W]"), x=PHOTOGRAPH[..., 0] + np.float32(0.01), gain=[0.25, 0.5, 1.0]
    )
    view = pyopnb.show(found)
    kept = survives(view.body)
    assert (
        len(kept.pictures) == 2
        and "y by gain" in view.svg
        and {">0.25<", ">0.5<", ">1<"} <= set(re.findall(">[0-9.]+<", view.svg))
    )
    means = [
        picture.convert("RGBA").convert("L").resize((1, 1)).getpixel((0, 0))
        for picture in images(view.svg)
    ]
    assert means[0] == pytest.approx(means[1] / 2, rel=0.1), "half as light, not scaled to its own"


def test_every_run_has_its_picture() -> None:
    found = pyopnb.sweep(
        session("float32[H,W]"), x=PHOTOGRAPH[:9, :3, 0], gain=[0.25, 0.5, 1.0, 2.0]
    )
    assert len(images(pyopnb.show(found).svg)) == 4 + 1, "and the strip of the scale"


def test_the_plot_has_the_numbers() -> None:
    found = pyopnb.sweep(session("float32[]"), x=np.linspace(-1, 1, 5), gain=[0.5, 1.0])
    view = pyopnb.show(found)
    assert "y against x" in view.svg and {">gain = 0.5<", ">gain = 1<"} <= set(
        re.findall(r">gain[^<]*<", view.svg)
    )
    slopes = []
    for path in re.findall(r'<path d="M([^"]*)"[^>]*stroke="#(?:0077bb|e47231)"', view.svg):
        points = re.findall(r"([\d.]+) ([\d.]+)", path)
        (x, y), (right, upper) = (map(float, point) for point in points[:2])
        slopes.append((upper - y) / (right - x))
    assert slopes[0] < 0 and slopes[1] == pytest.approx(2 * slopes[0], rel=0.02)
    assert "mean" not in pyopnb.show(found, output="m").svg


def test_errors_gaps_and_hostile_words(survives: Any) -> None:
    found = pyopnb.sweep(session("float32[N]"), x=np.zeros(30, np.float32), gain=[1.0, 10.0, 2.0])
    text = "".join(survives(pyopnb.show(found).body).text)
    assert "ValueError: <b>loud</b>" in text and "3 runs" in text
    with pytest.raises(
        pyopnb.errors.InputError, match="show, output: expected an output of the model, got 'z'"
    ):
        pyopnb.show(found, output="z")


def test_files_and_figures(tmp_path: Any) -> None:
    found = pyopnb.sweep(
        session("float32[H,W]"), x=PHOTOGRAPH[..., 0], gain=[0.5, 1.0], offset=[0.0, 0.1]
    )
    for name in ("a.html", "a.svg", "a.png"):
        found.save(tmp_path / name)
    found.plot().savefig(io.BytesIO(), dpi=20)
