"""Import names at their first use, and refuse packages that are missing or too old."""

from __future__ import annotations

import importlib
import re
from collections.abc import Mapping
from typing import Any

__all__ = ["import_at_first_use", "require"]


def import_at_first_use(package: str, name: str, homes: Mapping[str, str]) -> Any:
    """Import a name of a package from the module that has it.

    The next access finds the name in the package itself.

    Parameters
    ----------
    homes : mapping
        The modules, by the names that they have.

    Raises
    ------
    AttributeError
        The name is not one of these.
    """
    module = importlib.import_module(package)
    # A misspelled name gets the Python message, which suggests the nearest one.
    if name not in homes:
        text = f"module {package!r} has no attribute {name!r}"
        raise AttributeError(text, name=name, obj=module)
    value = getattr(importlib.import_module(homes[name]), name)
    setattr(module, name, value)
    return value


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


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(number) for number in re.findall(r"\d+", version)[:2])
