"""Open the door of a room, and refuse packages that are missing or too old."""

from __future__ import annotations

import importlib
import re
import sys
from collections.abc import Callable
from typing import Any

import lazy_loader

__all__ = ["open_door", "require", "require_native"]


def open_door(
    room: str, file: str
) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """Offer the names of a room's stub, imported when they are first used.

    Parameters
    ----------
    room, file : str
        ``__name__`` and ``__file__`` of the room. The stub is the ``.pyi`` beside the file.

    Returns
    -------
    tuple
        ``__getattr__``, ``__dir__`` and ``__all__`` of the room.
    """
    import_name, list_names, names = lazy_loader.attach_stub(room, file)
    module = sys.modules[room]

    def find_name(name: str) -> Any:
        # A misspelled name gets the Python message, which suggests the nearest one.
        if name not in names:
            text = f"module {room!r} has no attribute {name!r}"
            raise AttributeError(text, name=name, obj=module)
        value = import_name(name)
        # The next access finds the name in the room itself.
        setattr(module, name, value)
        return value

    return find_name, list_names, names


def require(package: str, least: str, install: str) -> None:
    """Import a package, with advice if it is missing or too old.

    Parameters
    ----------
    least : str
        The oldest version that is supported: ``"1.19"``.
    install : str
        The package or extra that pip installs for it.

    Raises
    ------
    ImportError
    """
    # Without this a missing or old package is an AttributeError from somewhere deep inside.
    try:
        module = importlib.import_module(package)
    except ModuleNotFoundError as error:
        if error.name != package:  # the package is there, and something that it needs is not
            raise
        raise ImportError(
            f"pyopnb needs {package}, and none is installed. Type: pip install {install}"
        ) from None
    installed = str(getattr(module, "__version__", "0"))
    if _numbers(installed) < _numbers(least):
        raise ImportError(
            f"pyopnb needs {package} {least} or newer, and {installed[:40]} is installed. "
            f"Type: pip install -U '{package}>={least}'"
        )


def require_native(module: str) -> None:
    """Import a compiled module of pyopnb, with advice if it is missing.

    Python that runs in the root of a checkout finds the sources before the installed package, and
    they are not compiled.

    Raises
    ------
    ImportError
        The module is not there, or cannot be loaded.
    """
    try:
        importlib.import_module(module)
    except ImportError as error:
        raise ImportError(
            "pyopnb's native modules are not built here: the sources of pyopnb are imported, "
            "not an installed pyopnb. "
            "Type: pip install -e .   (in the folder with pyproject.toml; "
            "or leave that folder to use an installed pyopnb)"
        ) from error


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(number) for number in re.findall(r"\d+", version)[:2])
