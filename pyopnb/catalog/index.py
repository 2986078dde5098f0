"""Find the entries of the catalogue by the names that operators have in model files."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from dataclasses import dataclass
from functools import cache

import pyopnb.catalog

__all__ = ["Entry", "entries", "entries_named", "find_entry"]


@dataclass(frozen=True)
class Entry:
    """An operator of the catalogue.

    Attributes
    ----------
    names : tuple of str
        ``domain::op`` for each name that the operator has in model files.
    op_class : type
        With ``compute`` and perhaps ``infer``, as in a ``%%pyop`` cell.
    """

    names: tuple[str, ...]
    op_class: type

    @property
    def source(self) -> str:
        """Return the text of the entry's file."""
        module = inspect.getmodule(self.op_class)
        assert module is not None  # noqa: S101  # it was imported to make this entry
        return inspect.getsource(module)

    def takes(self, inputs: int) -> bool:
        """Tell whether ``compute`` takes this number of inputs."""
        signature = inspect.signature(vars(self.op_class)["compute"])
        _, *parameters = signature.parameters.values()
        if any(parameter.kind is parameter.VAR_POSITIONAL for parameter in parameters):
            return True
        required = [name for name in parameters if name.default is name.empty]
        return len(required) <= inputs <= len(parameters)


@cache
def entries() -> tuple[Entry, ...]:
    """Import all files of the catalogue.

    Returns
    -------
    tuple of Entry
        In the order of the files' names.
    """
    loaded = []
    prefix = f"{pyopnb.catalog.__name__}."
    for file in pkgutil.walk_packages(pyopnb.catalog.__path__, prefix):
        if file.name in (__name__, f"{prefix}cores") or file.name.startswith(f"{prefix}cores."):
            continue
        module = importlib.import_module(file.name)
        if not hasattr(module, "NAMES"):
            continue
        for value in vars(module).values():
            if inspect.isclass(value) and value.__module__ == file.name:
                loaded.append(Entry(module.NAMES, value))
    return tuple(loaded)


def entries_named(name: str) -> list[Entry]:
    """Return the operators that have a name in model files, whatever inputs they take."""
    return [entry for entry in entries() if name in entry.names]


def find_entry(name: str, inputs: int) -> Entry | None:
    """Find the operator that a node means.

    Parameters
    ----------
    name : str
        ``domain::op``; the domain is empty for ONNX's own.
    inputs : int
        Of the node. Namesakes with different meanings differ in it.

    Returns
    -------
    Entry or None
        None if the catalogue has no such operator.

    Examples
    --------
    >>> find_entry("TRT::EfficientNMS_TRT", 2).op_class.__name__
    'EfficientNMS_TRT'
    >>> find_entry("TRT::EfficientNMS_TRT", 7) is None
    True
    """
    for entry in entries_named(name):
        if entry.takes(inputs):
            return entry
    return None
