"""Pictures of arrays that tell the numbers under the mouse where scripts run."""

from __future__ import annotations

import json
from collections.abc import Sequence

import numpy as np

from pyopnb.display.page.markup import escape, pack
from pyopnb.display.svg.chart import STRIP
from pyopnb.display.svg.shapes import Cells, Drawing, Group

__all__ = ["with_values"]

# The numbers of one picture take at most this many bytes.
_MOST = 40_000


def with_values(
    element: str, drawing: Drawing, shape: Sequence[int], origin: str, room: int
) -> str:
    """Let an image of heat maps tell their numbers.

    A script is needed beside all such images, ``array_pointer.js``. A front end that does not trust
    the notebook removes it and the attributes.

    Parameters
    ----------
    shape : sequence of int
        The rows and columns of the array.
    origin : str
        As for `ArrayLook`.
    room : int
        Bytes for the numbers.
    """
    maps = []
    values = []
    for group in drawing.shapes:
        if not isinstance(group, Group):
            continue
        for cells in group.shapes:
            if isinstance(cells, Cells) and cells.values is not None:
                box = (group.x + cells.x, group.y + cells.y, cells.width, cells.height)
                maps.append((*box, cells.name, *cells.values.shape))
                values.append(cells.values.ravel())
    if not maps or maps[-1][4] != STRIP:
        return element
    most = min(room, _MOST)
    packed = ""
    if sum(map(len, values)) <= most:
        packed = _packed(values)
    if not 0 < len(packed) <= most:
        # Numbers are then read off the colors.
        packed = _packed(values[-1:])
    facts = escape(json.dumps({"shape": shape, "lower": origin == "lower", "maps": maps}), 9_999)
    return f'<div class="pyopnb-array" data-maps="{facts}" data-values="{packed}">{element}</div>'


def _packed(values: Sequence[np.ndarray]) -> str:
    with np.errstate(over="ignore"):
        return pack(np.concatenate(values).astype("<f4").tobytes())
