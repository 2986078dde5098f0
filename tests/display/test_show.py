"""What is shown, as what, and what is not."""

from __future__ import annotations

import base64
import io
import os
import re
import sys
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
from IPython.core.formatters import DisplayFormatter
from PIL import Image
from systems import WINDOWS

import pyopnb
from pyopnb.common.displayable import Displayable
from pyopnb.display.page.markup import pre
from pyopnb.display.svg import figure as figures
from pyopnb.display.views import View, view

MODEL = "net (float[N,4] x) => (float[N,4] z) { y = demo.Soft<limit = 2.0>(x)\n z = Add(y, x) }"
SOURCE = 'class Soft:\n    """Clip <b>smoothly</b>."""\n\n    def __init__(self, limit: float = 1.0):\n        self.limit = limit\n\n    def compute(self, x):\n        return (self.limit * np.tanh(x / self.limit)).astype(x.dtype)\n'
X = np.random.default_rng(5).standard_normal((3, 4)).astype(np.float32)


def define(source: str = SOURCE, name: str = "demo::Soft") -> Any:
    held: dict[str, Any] = {"np": np}
    exec(source, held)
    return pyopnb.registry.define(held["Soft"], name, source=source)


@pytest.mark.parametrize(
    "thing", [None, 1.5, object(), {1, 2}, lambda: 0, np.array(["2020"], "datetime64[D]")]
)
def test_what_nothing_draws(thing: Any) -> None:
    with pytest.raises(pyopnb.errors.InputError, match="^show: expected an? "):
        pyopnb.show(thing)


class Tensor:
    """A tensor that gives no array while it records, as in torch."""

    requires_grad = True

    def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray:
        if self.requires_grad:
            raise RuntimeError("Can't call numpy() on Tensor that requires grad.")
        return X

    def detach(self) -> Any:
        detached = Tensor()
        detached.requires_grad = False
        return detached


@pytest.mark.parametrize("thing", [Tensor(), Image.fromarray(X, "F")], ids=["tensor", "picture"])
def test_arrays_of_other_libraries(thing: Any) -> None:
    assert str(pyopnb.show(thing)) == str(pyopnb.show(X))
    assert pyopnb.diff(thing, X).verdict == "bit-identical"
    assert pyopnb.diff({"y": X}, {"y": thing}).verdict == "bit-identical"


def test_unknown_options_are_named() -> None:
    for thing, option, says in (
        (X, "nam", "show, ndarray: expected one of "),
        ({"x": X}, "colr", "got colr=. Try: colors"),
        (
            pyopnb.parse("(float[N] x) => (float[N] y) { y = Abs(x) }"),
            "color",
            "got color=. Try: colors",
        ),
        (
            pyopnb.registry,
            "by",
            "show, Registry: expected no options, got by=, an option of Trace.",
        ),
    ):
        with pytest.raises(TypeError, match=re.escape(says)):
            pyopnb.show(thing, **{option: 1})


def test_a_view_is_registered_in_one_place(survives: Any) -> None:
    class Remark(Displayable):
        pass

    @view.register(Remark)
    def view_remark(thing: Remark, *, loud: bool = False) -> View:
        text = "HEAR" if loud else "hear"
        return View(thing, text, text, pre(text))

    assert str(pyopnb.show(Remark(), loud=True)) == "HEAR"
    assert survives(Remark()._repr_html_()).text == ["hear"]
    with pytest.raises(pyopnb.errors.InputError, match="show, Remark: expected one of loud"):
        pyopnb.show(Remark(), quiet=True)


def test_lists_and_dicts_of_arrays(survives: Any) -> None:
    assert pyopnb.show([X, "a"]).text.startswith("0: float32[3,4]  -1.32436 …")
    assert pyopnb.show({"x": X}).text.startswith("x: float32[3,4]  ")
    survives(pyopnb.show([]).body)
    assert pyopnb.show([1, "a", 2.5, True]).text.splitlines() == [
        "0: int64[]  1",
        '1: string[]  "a"',
        "2: float64[]  2.5",
        "3: bool[]  True",
    ]


def test_a_long_list_says_how_much_more_there_is(survives: Any) -> None:
    view = pyopnb.show([np.random.default_rng(1).standard_normal((50, 50))] * 5_000)
    assert view.text.splitlines()[-1] == "and 4,850 more" and len(view.text.splitlines()) == 151
    assert "and 4,850 more" in "".join(survives(view.body).text) and len(view.body) < 200_000


# ---- ops


def test_version(survives: Any) -> None:
    view = pyopnb.show(define())
    assert (
        "demo::Soft, version 1" in view.text
        and "7      def compute(self, x):" in view.text
        and "limit: float = 1.0" in view.text
    )
    text = "".join(survives(view.body).text)
    assert "Clip <b>smoothly</b>." in text and "8          return" in text


def test_diff_of_versions(survives: Any) -> None:
    a, b = (
        define(),
        define(
            SOURCE.replace("tanh", "sin").replace("1.0", "3.0")
            + "        # <script>alert(1)</script>\n"
        ),
    )
    view = pyopnb.show(pyopnb.diff(a, b))
    kept = survives(view.body)
    text = "".join(kept.text)
    assert (
        text.startswith("✗ different")
        and "-        return (self.limit * np.tanh" in text
        and "+        return (self.limit * np.sin" in text
    )
    assert "+        # <script>alert(1)</script>" in text
    assert (
        "rgba(47,143,78" in view.body and "rgba(209,69,59" in view.body and "· attr limit" in text
    )
    assert "".join(survives(pyopnb.show(pyopnb.diff(a, a)).body).text).startswith("✓ identical")


# ---- traces


def test_a_diff_of_runs_names_the_versions() -> None:
    define()
    session = pyopnb.Session(pyopnb.parse(MODEL))
    before = session.trace(x=X)
    define(SOURCE.replace("tanh", "sin"))
    found = pyopnb.diff(before, session.trace(x=X))
    assert ">a: version 1<" in found._repr_html_() and ">b: version 2<" in found._repr_html_()
    unlike = pyopnb.diff(session.trace(x=X), session.trace(x=X * 2))
    assert "a: version" not in unlike._repr_html_()


def traced() -> tuple[Any, Any]:
    define()
    model = pyopnb.parse(MODEL)
    return model, pyopnb.Session(model).trace(x=X)


def test_trace(survives: Any) -> None:
    _, trace = traced()
    kept = survives(trace._repr_html_())
    text = "".join(kept.text)
    assert "in Python" in text and "calling it" in text and "demo::Soft, version 1" in text
    assert "not attributed to a node" in text and "the whole run" in text and "100.0 %" in text
    assert "y" in text and "float32[3,4]  " in text and kept.pictures
    # The axis is in µs, or in ms where the machine was busy with something else.
    assert re.search(r"[\d.]+ [µm]?s<", kept.pictures[0].decode())
    assert "float32[3,4]" in kept.pictures[0].decode(), "types that were seen"
    assert "⚠" not in text
    assert "largest |x|" in pyopnb.show(trace, by="size").svg
    with pytest.raises(
        pyopnb.errors.InputError, match="show, by: expected time, size, std, got speed"
    ):
        pyopnb.show(trace, by="speed")


def test_trace_without_times_and_with_nan(survives: Any) -> None:
    model = pyopnb.parse("net (float[N] x) => (float[N] y) { a = Sqrt(x)\n y = Add(a, x) }")
    trace = pyopnb.Session(model).trace(x=np.float32([-1, 2]), times=False)
    kept = survives(trace._repr_html_())
    assert (
        "⚠ the first NaN or infinity is in a, from Sqrt" in "".join(kept.text)
        and "NaN" in kept.pictures[0].decode()
    )
    with pytest.raises(pyopnb.errors.InputError, match="expected size, std, got time"):
        pyopnb.show(trace, by="time")


def test_diff_of_traces(survives: Any) -> None:
    model, before = traced()
    define(SOURCE.replace("tanh", "sin"))
    found = pyopnb.diff(before, pyopnb.Session(model).trace(x=X))
    view = pyopnb.show(found)
    kept = survives(view.body)
    text = "".join(kept.text)
    assert (
        text.startswith("✗ different")
        and "✗ origin" in text
        and "→ propagates" in text
        and "np.sin" in text
    )
    assert "(Add)" not in view.svg  # it is the title already
    assert (
        "origin" in view.svg
        and "largest |a-b|" in view.svg
        and "types are those that the file declares" not in text
    )
    assert len(kept.pictures) == 1 and "a-b" in kept.text, "few numbers are a table"
    assert "limit=2" in view.svg
    same = "".join(survives(pyopnb.show(pyopnb.diff(before, before)).body).text)
    assert same.startswith("✓ bit-identical") and "origin" not in same


# ---- models


def svg_texts(svg: str) -> list[str | None]:
    return [
        element.text
        for element in ElementTree.fromstring(svg).iter("{http://www.w3.org/2000/svg}text")
    ]


def test_diff_of_models(survives: Any) -> None:
    a = pyopnb.parse(
        "net (float[4] x) => (float[4] y) <float[4] k = {1, 2, 3, 4}> { a = Mul(x, k)\n b = Exp(x)\n c = Add(a, b)\n y = Softmax<axis = 0>(c) }"
    )
    b = pyopnb.parse(
        "net (float[4] x) => (float[4] y) <float[4] k = {1, 2, 3, 5}> { a = Mul(x, k)\n c = Sub(a, x)\n y = Softmax<axis = 0>(c) }"
    )
    found = pyopnb.diff(a, b)
    view = pyopnb.show(found)
    kept = survives(view.body)
    text = "".join(kept.text)
    assert text.startswith("✗ different") and "weight k" in text and "float32[4]" in text
    assert len(kept.pictures) == 1 and {"− fused", "+ fused", "~ changed", "c (a)"} <= set(
        svg_texts(view.svg)
    )
    read = type(found).from_json(found.to_json())
    assert "no picture" in "".join(survives(pyopnb.show(read).body).text) and read == found


# ---- files


def test_each_ending(tmp_path: Path) -> None:
    view = pyopnb.show(np.random.default_rng(6).standard_normal((40, 40)))
    for ending, begins in ((".html", b"<!DOCTYPE html>"), (".svg", b"<svg "), (".PNG", b"\x89PNG")):
        path = tmp_path / f"picture{ending}"
        view.save(path)
        assert path.read_bytes().startswith(begins)
    page = (tmp_path / "picture.html").read_text(encoding="utf-8")
    assert 'name="color-scheme" content="light dark"' in page and "<title>float64[40,40]" in page
    assert "http" not in page.replace("http://www.w3.org", "")
    assert sorted(path.suffix for path in tmp_path.iterdir()) == [".PNG", ".html", ".svg"]


def test_a_graph_in_pixels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model, trace = traced()
    for thing in (trace, pyopnb.show(model), pyopnb.diff(trace, trace), pyopnb.diff(model, model)):
        thing.save(tmp_path / "t.png")
        wide, high = re.findall(r'^<svg .*?width="(\d+)" height="(\d+)"', pyopnb.show(thing).svg)[0]
        with Image.open(tmp_path / "t.png") as image:
            assert image.size == (2 * int(wide), 2 * int(high))
    for limit, number in (("_MOST_PIXELS", 10_000), ("_LONGEST_SIDE", 100)):
        monkeypatch.setattr(figures, limit, number)
        pyopnb.show(model).save(tmp_path / "t.png")
        with Image.open(tmp_path / "t.png") as image:
            assert (
                max(image.size) == 100
                if limit == "_LONGEST_SIDE"
                else 9_000 < image.size[0] * image.size[1] < 11_000
            )


def test_a_file_is_whole_or_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "d.html"
    path.write_text("before", encoding="utf-8")
    path.chmod(0o640)

    def fail(*_: object) -> None:
        raise OSError("disk full")

    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", fail)
        with pytest.raises(OSError, match="disk full"):
            pyopnb.show(X).save(path)
    assert path.read_text(encoding="utf-8") == "before" and list(tmp_path.iterdir()) == [path]
    pyopnb.show(X).save(path)
    assert path.read_text(encoding="utf-8").startswith("<!DOCTYPE") and (
        WINDOWS or path.stat().st_mode & 0o777 == 0o640
    )
    with pytest.raises(
        pyopnb.errors.ModelError,
        match=r"no.d\.html: expected a folder that can be written to, got no such folder",
    ):
        pyopnb.show(X).save(tmp_path / "no" / "d.html")


# ---- figures


def test_figures() -> None:
    had_pyplot = "matplotlib.pyplot" in sys.modules
    _, trace = traced()
    define(SOURCE.replace("tanh", "sin"))
    after = pyopnb.Session(pyopnb.parse(MODEL)).trace(x=X)
    wide = np.float32(X * 1.001)
    wide[0, 0] = np.nan
    result = pyopnb.Result({"y $x^": X, "s": np.array(["a"]), "b": X > 0})
    for thing, title, images in (
        (pyopnb.show(X), "float32[3,4]", 2),  # cells, and the strip of their scale
        (pyopnb.show(pyopnb.parse(MODEL)), "◆ demo::Soft", 0),
        (pyopnb.diff(pyopnb.parse(MODEL), pyopnb.parse(MODEL)), "◆ demo::Soft", 0),
        (result, "y $x^: float32[3,4]", 4),
    ):
        figure = thing.plot()
        # Drawing is when matplotlib finds what it does not like.
        figure.savefig(io.BytesIO(), dpi=20, format="png")
        (axes,) = figure.axes
        assert len(axes.images) == images
        assert title in [text.get_text() for text in axes.texts]
    for found, title in (
        (trace, "◆ demo::Soft"),
        (pyopnb.diff(trace, after), "◆ demo::Soft"),
        (pyopnb.diff(wide, X), "where: largest |a-b|"),
        (pyopnb.diff(np.arange(9), np.arange(9)[::-1]), "where: largest |a-b|"),
    ):
        figure = found.plot()
        figure.savefig(io.BytesIO(), dpi=20, format="png")
        (axes,) = figure.axes
        assert title in {text.get_text() for text in axes.texts}
    # A notebook shows it without pyplot.
    shown, size = DisplayFormatter().format(figure)
    assert shown["image/png"].startswith(b"\x89PNG")
    assert size["image/png"]["width"] == round(figure.get_figwidth() * 72)
    assert ("matplotlib.pyplot" in sys.modules) == had_pyplot


def test_figures_say_what_they_need(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.partition(".")[0] == "matplotlib"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.delitem(sys.modules, figures.__name__)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(
        pyopnb.PyopError, match=r"plot needs matplotlib. Try: pip install pyopnb\[plot\]"
    ):
        pyopnb.show(X).plot()


def test_a_scale_says_its_kind_and_one_node_has_its_color() -> None:
    a = np.random.default_rng(0).random((40, 40))
    wide = 10.0 ** np.random.default_rng(1).uniform(-6, 0, a.shape)
    assert ">log<" in pyopnb.show(pyopnb.diff(a, a + wide)).svg
    assert ">linear<" in pyopnb.show(pyopnb.diff(a, a + 0.1 * wide**0)).svg
    model = pyopnb.parse("(float[N] x) => (float[N] y) { y = Abs(x) }")
    seen = pyopnb.show(model, colors={"y": 3.0}, legend="cost")
    (legend,) = re.findall(r"base64,([^\"]+)", seen.svg)
    with Image.open(io.BytesIO(base64.b64decode(legend))) as strip:
        red, green, blue, opacity = strip.convert("RGBA").getpixel((0, 0))
    color = "".join(
        f"{round(part * opacity / 255 + 255 - opacity):02x}" for part in (red, green, blue)
    )
    assert re.search(f'fill="#{color}"', seen.svg)


@pytest.mark.parametrize("shape", [(300, 10), (10, 300), (300, 40), (2000, 3)])
def test_the_picture_of_a_long_difference_is_no_sliver(shape: tuple[int, int]) -> None:
    a = np.random.default_rng(0).random(shape)
    svg = pyopnb.show(pyopnb.diff(a, a + 0.01)).svg
    sizes = re.findall(r'<image[^>]* width="([\d.]+)" height="([\d.]+)"', svg)
    (width, height) = map(float, sizes[0])
    assert min(width, height) >= 30
    # The axes say which rows and columns there are.
    assert f">row {shape[0] - 1:,}<" in svg and f">column {shape[1] - 1:,}<" in svg


def test_rounding_is_no_trend_of_a_sweep() -> None:
    model = pyopnb.parse("(float[N] x, float k) => (float[N] y) { a = Mul(x, k)  y = Div(a, k) }")
    session = pyopnb.Session(model)
    x, values = np.float32([1, 3]), np.float32(np.linspace(0.3, 7, 9))
    same = pyopnb.show(pyopnb.sweep(session, x=x, k=[np.float32(k) for k in values]), output="y")
    assert "y is the same in all runs" in same.body and "against k" not in same.svg
