"""Results as the user's own function shows them."""

import base64
import io
import wave

import numpy as np
import pytest
from PIL import Image

VIEWS = {
    "figure": "def view(r):\n    from matplotlib.figure import Figure\n    f = Figure()\n    f.subplots().plot(r['y'])\n    f.axes[0].set_title('curve')\n    return f",
    "axes": "def view(r):\n    from matplotlib.figure import Figure\n    return Figure().subplots().imshow(r['y'][None])",
    "PIL": "def view(r):\n    from PIL import Image\n    return Image.fromarray(np.uint8(100 * abs(r['y'][None]).repeat(30, 0)))",
    "HTML": "def view(r):\n    from IPython.display import HTML\n    return HTML(f'<b>{r[\"y\"][1]}</b>')",
    "own": "class Own:\n    def _repr_html_(self):\n        return '<i>mine</i>'\ndef view(r):\n    return Own()",
    "array": "def view(r):\n    return r['y'].repeat(10).reshape(-1, 1) * r['y']",
    "text": "def view(r):\n    return f'largest <{r[\"y\"].max():.3f}>'",
    "number": "def view(r):\n    return r['y'].max()",
}  # fmt: skip
EXPECTED = {
    **dict.fromkeys(("figure", "axes", "PIL"), "data:image/png;base64,"),
    "array": "data:image/svg+xml",
    "HTML": "<b>0.0</b>",
    "own": "<i>mine</i>",
    "text": "largest &lt;",
    "number": "1.99",
}


@pytest.mark.parametrize("name", VIEWS)
@pytest.mark.parametrize("kind", ["watch", "interact"])
def test_what_it_returns_is_shown(clip, name, kind):
    clip.run(VIEWS[name])
    clip.run(f"o = pyopnb.{kind}(session, x=x, view=view)\no")
    assert EXPECTED[name] in clip.html and "y: float32[4]" not in clip.html + clip.text
    if "png" in EXPECTED[name]:
        data = clip.html.partition("data:image/png;base64,")[2].partition('"')[0]
        with Image.open(io.BytesIO(base64.b64decode(data))) as picture:
            assert np.ptp(np.asarray(picture.convert("L"))) > 50


def test_an_error_of_the_function_is_shown_above_the_last_good(clip, redefine):
    watched = clip.run(
        'w = pyopnb.watch(session, x=x, view=lambda r: f\'size {len(r["y"][:4]) // (4 if r["y"][3] else 0)}\')\nw'
    )
    assert "size 1" in clip.html
    redefine("x * 0")
    assert isinstance(watched.error, ZeroDivisionError)
    assert (
        "ZeroDivisionError" in clip.html
        and "size 1" in clip.html
        and "pyopnb/notebook" not in clip.html
    )


def test_a_large_view_is_shown_whole(clip):
    clip.run(
        "w = pyopnb.watch(session, x=x, view=lambda r: 'word ' * 400 + '\\n' + 'a\\n' * 200_000)\nw"
    )
    assert clip.html.count("a\n") > 190_000 and "left out" not in clip.html


DETECT = """%%pyop -d demo
class Detect:
    def compute(self, image, k):
        return np.float32([[2, 2, 9 * k, 9]]), np.sin(np.arange(400) * k, dtype=np.float32)"""
MODEL = "(uint8[H,W,3] image, float k) => (float[N,4] boxes, float[M] wave) { boxes, wave = demo.Detect(image, k) }"


@pytest.mark.parametrize("kind", ["watch", "interact"])
def test_boxes_and_audio_have_names(clip, kind):
    clip.run(DETECT)
    clip.run(f"found = pyopnb.Session(pyopnb.parse('{MODEL}'))")
    clip.run("feeds = dict(image=np.zeros((20, 30, 3), np.uint8), k=np.float32(1))")
    shown = clip.run(f"o = pyopnb.{kind}(found, view='boxes', **feeds)\no")
    assert shown.error is None and "left, top, right, bottom in pixels" in clip.html
    shown = clip.run(f"o = pyopnb.{kind}(found, view='audio', **feeds)\no")
    assert shown.error is None and clip.html.count("<audio") == 1
    data = base64.b64decode(clip.html.partition("data:audio/wav;base64,")[2].partition('"')[0])
    with wave.open(io.BytesIO(data)) as file:
        assert (file.getframerate(), file.getnframes()) == (16_000, 400)


def test_boxes_need_a_picture_and_boxes(clip):
    clip.run("o = pyopnb.watch(session, x=x, view='boxes')\no")
    assert "expected a fed picture with 3 or 4 channels, and an output [N,4]" in clip.text


@pytest.mark.parametrize("kind", ["watch", "interact"])
@pytest.mark.parametrize(("view", "next_"), [("box", "boxes"), (["audio"], "audio"), (3, "audio")])
def test_an_unknown_way_is_refused_in_the_cell(clip, kind, view, next_):
    clip.run("import pytest")
    message = f'or a function of a result, got {view!r}. Try: view="{next_}"'
    clip.run(
        f"""
        with pytest.raises(pyopnb.errors.InputError) as caught:
            pyopnb.{kind}(session, x=x, view={view!r})
        assert str(caught.value).startswith("{kind}, view: expected boxes, ")
        assert {message!r} in str(caught.value)
        """
    )


def test_curves_are_drawn_over_their_feed(clip):
    clip.run("long = np.linspace(-4, 4, 64, dtype=np.float32)")
    for kind in ("watch", "interact"):
        clip.run(f"pyopnb.{kind}(session, x=long)")
        data = clip.html.partition("data:image/svg+xml;base64,")[2].partition('"')[0]
        assert b">x<" in base64.b64decode(data)
