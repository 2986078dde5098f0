"""List the public names, and those that the reference lacks."""

from __future__ import annotations

import inspect
from collections.abc import Iterable

import pyopnb

__all__ = ["absent", "public"]


def public() -> list[str]:
    """List public names as they are typed, and the public methods and properties of our classes."""
    names = [f"pyopnb.{name}" for name in pyopnb.__all__]
    names.append("pyopnb.testing.assert_close")  # its other names are for rooms of pyopnb
    names += [f"pyopnb.errors.{name}" for name in pyopnb.errors.__all__ if name != "PyopError"]
    for name in pyopnb.__all__:
        value = getattr(pyopnb, name)
        if inspect.isclass(value):
            ours = {
                key
                for cls in value.__mro__
                if cls.__module__.startswith("pyopnb.")
                for key in vars(cls)
            }
            described = sorted(
                key for key in ours if not key.startswith("_") and _is_described(value, key)
            )
            names += [f"pyopnb.{name}.{key}" for key in described]
    return names


def _is_described(cls: type, name: str) -> bool:
    value = inspect.getattr_static(cls, name)
    return isinstance(value, property | classmethod | staticmethod) or inspect.isfunction(value)


def absent(entries: Iterable[str]) -> list[str]:
    """List the public names without an entry."""
    return sorted(set(public()) - set(entries))
