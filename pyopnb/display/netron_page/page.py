"""HTML that shows Netron where scripts may run, and the picture of the model where they may not."""

from __future__ import annotations

import base64
import functools
import html
import json
from typing import Any

from pyopnb.display.netron_page.assets import MINIMAL, MODEL_MARKER, Assets, read_script
from pyopnb.display.page.markup import note, pack

__all__ = ["netron_output", "netron_page"]

# An untrusted notebook loses the style, the script and the frame, and keeps the picture.
_TRUSTED = """\
<style>.pyopnb-netron > iframe ~ .pyopnb-picture {{ display: none }}</style>\
<div class="pyopnb-netron">\
<iframe sandbox="allow-scripts allow-downloads" title="{title}" srcdoc="{page}" \
style="width:100%;height:{height}px;border:1px solid rgba(128,128,128,.4);box-sizing:border-box">\
</iframe>\
<div class="pyopnb-picture">{picture}</div><script>{theme}</script></div>"""


@functools.lru_cache(maxsize=1)
def _modules(assets: Assets) -> str:
    return pack(json.dumps(assets.modules(MINIMAL)).encode())


def netron_page(
    assets: Assets, model: bytes, documentation: list[dict[str, Any]], colors: dict[str, Any]
) -> str:
    """Write a page with Netron and a model, which needs no other file, no server and no network."""
    encoded = base64.b64encode(model).decode()
    content = json.dumps(
        {"model": encoded, "documentation": documentation, "colors": colors}
    ).encode()
    # The model is packed, so no name in it can end the element or start another one.
    data = f'<script type="text/plain" id="pyopnb-netron">{_modules(assets)}</script>'
    data += f'<script type="text/plain" id="pyopnb-model">{pack(content)}</script>'
    return assets.page.replace(MODEL_MARKER, data, 1)


def netron_output(page: str, *, name: str, picture: str, caption: str, height: int) -> str:
    """Put a page into a frame of its own origin, with a picture as its fallback, and a caption."""
    content = _TRUSTED.format(
        title=html.escape(f"Netron: {name}"),
        page=html.escape(page),
        height=height,
        picture=picture,
        theme=read_script("theme"),
    )
    return content + note(caption)
