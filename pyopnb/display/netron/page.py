"""One piece of HTML that is Netron where scripts may run, and the picture of the model where they may not."""

from __future__ import annotations

import base64
import functools
import gzip
import html
import json
from typing import Any

from pyopnb.display.html import note
from pyopnb.display.netron.assets import FEW, PLACE, Assets, script

__all__ = ["alone", "output", "packed"]

# A notebook that is not trusted loses style, script and frame, and keeps the picture.
_LIVE = """\
<style>.pyopnb-netron > iframe ~ .pyopnb-picture {{ display: none }}</style>\
<div class="pyopnb-netron"><iframe sandbox="allow-scripts allow-downloads" title="{title}" srcdoc="{page}" \
style="width:100%;height:{height}px;border:1px solid rgba(128,128,128,.4);box-sizing:border-box"></iframe>\
<div class="pyopnb-picture">{picture}</div><script>{theme}</script></div>"""


def packed(data: bytes) -> str:
    """Compressed, as text that can stand anywhere."""
    return base64.b64encode(gzip.compress(data, 9, mtime=0)).decode()


@functools.lru_cache(maxsize=1)
def _modules(assets: Assets) -> str:
    return packed(json.dumps(assets.modules(FEW)).encode())


def alone(assets: Assets, model: bytes, documentation: list[dict[str, Any]]) -> str:
    """A whole page that needs nothing else: no file, no server, no network."""
    opened = json.dumps({"model": base64.b64encode(model).decode(), "documentation": documentation}).encode()
    # Nothing of the model stands here as itself: no name in it can end the element, or begin another.
    data = f'<script type="text/plain" id="pyopnb-netron">{_modules(assets)}</script>'
    data += f'<script type="text/plain" id="pyopnb-model">{packed(opened)}</script>'
    return assets.page.replace(PLACE, data, 1)


def output(page: str | None, *, name: str, picture: str, caption: str, height: int) -> str:
    """The page in a frame of its own origin, the picture as its fallback or alone, and the caption."""
    shows = picture
    if page is not None:
        title = html.escape(f"Netron: {name}")
        shows = _LIVE.format(title=title, page=html.escape(page), height=height, picture=picture, theme=script("theme"))
    return shows + note(caption)
