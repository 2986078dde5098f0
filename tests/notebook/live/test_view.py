"""Results as the user's own function shows them."""

import base64
import io
import sys

import numpy as np
import pytest
from PIL import Image

import pyopnb

X = np.float32([-4, 0, 1, 8])

VIEWS = {
    "figure": "def view(r):\n    from matplotlib.figure import Figure\n    f = Figure()\n    f.subplots().plot(r['y'])\n    f.axes[0].set_title('curve')\n    return f",
    "pyplot": "def view(r):\n    from matplotlib import pyplot as plt\n    plt.figure()\n    plt.plot(r['y'])",
    "axes": "def view(r):\n    from matplotlib import pyplot as plt\n    return plt.subplots()[1].imshow(r['y'][None])",
    "lines": "def view(r):\n    from matplotlib import pyplot as plt\n    return plt.plot(r['y'])",
    "PIL": "def view(r):\n    from PIL import Image\n    return Image.fromarray(np.uint8(100 * abs(r['y'][None]).repeat(30, 0)))",
    "HTML": "def view(r):\n    from IPython.display import HTML\n    return HTML(f'<b>{r[\"y\"][1]}</b>')",
    "own": "class Own:\n    def _repr_html_(self):\n        return '<i>mine</i>'\ndef view(r):\n    return Own()",
    "array": "def view(r):\n    return r['y'].repeat(10).reshape(-1, 1) * r['y']",
    "show": "def view(r):\n    return pyopnb.show(r['y'].repeat(10).reshape(-1, 1) * r['y'], size=50)",
    "text": "def view(r):\n    return f'largest <{r[\"y\"].max():.3f}>'",
    "number": "def view(r):\n    return r['y'].max()",
}  # fmt: skip
EXPECTED = {
    **dict.fromkeys(("figure", "pyplot", "axes", "lines", "PIL"), "data:image/png;base64,"),
    **dict.fromkeys(("array", "show"), "data:image/svg+xml"),
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
    if "matplotlib.pyplot" in sys.modules:
        assert not sys.modules["matplotlib.pyplot"].get_fignums(), (
            "a later cell would show them again"
        )


def test_it_follows(clip, redefine):
    clip.run("w = pyopnb.watch(session, x=x, view=lambda r: f'sum {r[\"y\"].sum():.1f}')\nw")
    redefine("x * 0")
    assert (
        "sum 0.0" in clip.html
        and "sum 0.0" in clip.text
        and "changes in demo::SoftClip" in clip.html
    )


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


def test_what_it_displays_itself(clip, monkeypatch):
    """As ipykernel's publisher lets a thread see what it displays."""

    class Publisher(type(clip.shell.display_pub)):
        def register_hook(self, hook):
            self.hook = hook

        def unregister_hook(self, hook):
            self.hook = None

        def publish(self, data, metadata=None, **kwargs):
            hook = getattr(self, "hook", None)
            if (
                hook is None
                or hook({"header": {"msg_type": "display_data"}, "content": {"data": data}})
                is not None
            ):
                super().publish(data, metadata, **kwargs)

    monkeypatch.setattr(clip.shell, "display_pub", Publisher(parent=clip.shell))
    clip.run("from IPython.display import display, HTML")
    watched = pyopnb.watch(
        clip.run("session"),
        x=X,
        view=lambda r: (
            clip.run and clip.shell.user_ns["display"](clip.shell.user_ns["HTML"]("<u>own</u>"))
        ),
    )
    watched.wait()
    assert "<u>own</u>" in watched._report().html()


def test_pyplot_is_not_interactive_meanwhile(clip):
    """IPython would show the figure below whichever cell ends meanwhile, and close it before it is drawn here."""
    import matplotlib
    from matplotlib import pyplot

    with pyplot.ion():
        clip.run(
            "import matplotlib\nw = pyopnb.watch(session, x=x, view=lambda r: f'interactive: {matplotlib.is_interactive()}')\nw"
        )
        assert "interactive: False" in clip.html and matplotlib.is_interactive()


def test_outputs_of_several_sessions_side_by_side(clip, redefine):
    clip.run("import ipywidgets\nother = session.with_attrs(limit=0.5)")
    clip.run(
        "a, b = (pyopnb.watch(s, x=x, view=lambda r: f'largest {r[\"y\"].max():.1f}') for s in (session, other))"
    )
    box = clip.run("box = ipywidgets.HBox([a.widget, b.widget])\nbox")
    shown = lambda: [one.children[-1].outputs[0]["data"]["text/html"] for one in box.children]  # noqa: E731
    assert "largest 2.0" in shown()[0] and "largest 0.5" in shown()[1]
    redefine("x * np.float32(self.limit)")
    assert "largest 16.0" in shown()[0] and "largest 4.0" in shown()[1]
