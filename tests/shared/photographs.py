"""The photographs that come with scikit-learn, without its import, which takes longer than most files of tests."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import numpy as np
from PIL import Image

__all__ = ["photograph"]


def photograph(name: str) -> np.ndarray:
    """Read ``china.jpg`` or ``flower.jpg`` as bytes of red, green and blue."""
    found = find_spec("sklearn")
    assert found is not None and found.submodule_search_locations
    path = Path(found.submodule_search_locations[0], "datasets", "images", name)
    with Image.open(path) as picture:
        return np.asarray(picture.convert("RGB"))
