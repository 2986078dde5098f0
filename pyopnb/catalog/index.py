"""Find entries of the catalog and of installed packs by the operator names in model files."""

from __future__ import annotations

import importlib
import importlib.metadata
import inspect
import pkgutil
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from types import ModuleType

from pyopnb.common import messages

__all__ = [
    "OWN_PACK",
    "Entry",
    "EntryRefusal",
    "entries",
    "entries_named",
    "find_entry",
    "find_refusal",
    "prefer",
    "refusals",
]

_GROUP = "pyopnb.catalog"
"""The entry point group in which an installed package names the folder of its operators."""
OWN_PACK = "pyopnb"
_preferred: list[str] = []
_told: set[str] = set()
"""Names in several packs of which the user has been warned."""


@dataclass(frozen=True)
class Entry:
    """An operator of the catalog.

    Attributes
    ----------
    names : tuple of str
        ``domain::op`` for each name that the operator has in model files.
    op_class : type
        A class with ``compute`` and perhaps ``infer``, as in a ``%%pyop`` cell.
    versions : tuple of int
        For an operator of ONNX, the versions that it runs; empty if the version does not matter.
    pack : str
        The installed pack that it comes from, ``"pyopnb"`` for the catalog's own.
    """

    names: tuple[str, ...]
    op_class: type
    versions: tuple[int, ...] = ()
    pack: str = OWN_PACK

    @property
    def source(self) -> str:
        """Return the text of the entry's file."""
        module = inspect.getmodule(self.op_class)
        assert module is not None  # noqa: S101  # it was imported to make this entry
        return inspect.getsource(module)

    def takes(self, inputs: int) -> bool:
        """Tell whether ``compute`` takes this number of inputs."""
        # Every entry's class has compute.
        signature = inspect.signature(self.op_class.compute)  # type: ignore[attr-defined]
        _, *parameters = signature.parameters.values()
        if any(parameter.kind is parameter.VAR_POSITIONAL for parameter in parameters):
            return True
        required = [name for name in parameters if name.default is name.empty]
        return len(required) <= inputs <= len(parameters)


@dataclass(frozen=True)
class EntryRefusal:
    """An operator that the catalog cannot run.

    Attributes
    ----------
    names : tuple of str
        As for `Entry`.
    reason : str
        Why it cannot run.
    instead : str
        The advice.
    """

    names: tuple[str, ...]
    reason: str
    instead: str

    def __str__(self) -> str:
        return f"pyopnb's catalog cannot run it, because {self.reason}. Try: {self.instead}"


@cache
def entries() -> tuple[Entry, ...]:
    """Import all files of the catalog.

    Returns
    -------
    tuple of Entry
        The catalog's own operators in the order of their file names, then operators of installed
        packs.
    """
    loaded = []
    for pack, module in _files():
        versions = getattr(module, "VERSIONS", ())
        for value in vars(module).values():
            if inspect.isclass(value) and value.__module__ == module.__name__:
                loaded.append(Entry(tuple(module.NAMES), value, versions, pack))
    return tuple(loaded)


@cache
def _files() -> tuple[tuple[str, ModuleType], ...]:
    """Import each file that defines an operator, and return it with the name of its pack."""
    files = list(_files_of(OWN_PACK, importlib.import_module(__name__.rpartition(".")[0])))
    for point in sorted(importlib.metadata.entry_points(group=_GROUP), key=lambda one: one.name):
        try:
            files += _files_of(point.name, importlib.import_module(point.value))
        except Exception as error:  # a pack is others' code, and can raise anything
            text = (
                f"the pack {point.name} of pyopnb's catalog does not load: "
                f"{type(error).__name__}: {error}"
            )
            warnings.warn(text, stacklevel=messages.level_of_user())
    return tuple(files)


def _files_of(pack: str, package: ModuleType) -> Iterator[tuple[str, ModuleType]]:
    prefix = f"{package.__name__}."
    for file in pkgutil.walk_packages(package.__path__, prefix):
        if f"{file.name}.".startswith((f"{__name__}.", f"{prefix}cores.")):
            continue
        module = importlib.import_module(file.name)
        if hasattr(module, "NAMES"):
            yield pack, module


@cache
def refusals() -> tuple[EntryRefusal, ...]:
    """Import all files of the catalog that say why an operator cannot run."""
    modules = [module for _, module in _files() if hasattr(module, "REFUSAL")]
    return tuple(EntryRefusal(module.NAMES, module.REFUSAL, module.INSTEAD) for module in modules)


def find_refusal(name: str) -> EntryRefusal | None:
    """Return why the catalog cannot run an operator; None if it can or does not know the name."""
    for refusal in refusals():
        if name in refusal.names:
            return refusal
    return None


def entries_named(name: str) -> list[Entry]:
    """Return the operators that have this name in model files, for all numbers of inputs."""
    return [entry for entry in entries() if name in entry.names]


def find_entry(name: str, inputs: int, version: int | None = None) -> Entry | None:
    """Find the operator for a node.

    Parameters
    ----------
    name : str
        ``domain::op``; the domain is empty for ONNX's own.
    inputs : int
        The node's number of inputs, which distinguishes operators of the same name.
    version : int, optional
        The version of the operator's domain that the model imports.

    Returns
    -------
    Entry or None
        None if the catalog has no such operator.

    Examples
    --------
    >>> find_entry("TRT::EfficientNMS_TRT", 2).op_class.__name__
    'EfficientNMS_TRT'
    >>> find_entry("TRT::EfficientNMS_TRT", 7) is None
    True
    """
    matches = []
    for entry in entries_named(name):
        # An entry for old versions has another meaning than the operator has today.
        is_of_version = not entry.versions or version in entry.versions
        if is_of_version and entry.takes(inputs):
            matches.append(entry)
    if not matches:
        return None
    for pack in _preferred:
        for entry in matches:
            if entry.pack == pack:
                return entry
    # A model asks for each node several times.
    if len(matches) > 1 and name not in _told:
        _told.add(name)
        packs = ", ".join(entry.pack for entry in matches)
        warnings.warn(
            f"{name} is in several packs of pyopnb's catalog: {packs}. "
            f"The one in {matches[0].pack} is used. "
            f'Try: pyopnb.catalog.prefer("{matches[1].pack}")',
            stacklevel=messages.level_of_user(),
        )
    return matches[0]


def prefer(*packs: str) -> None:
    """Choose which packs come first if several have an operator of the same name.

    Parameters
    ----------
    *packs : str
        Names of packs, the preferred one first; ``"pyopnb"`` is the catalog itself. Without
        names, the default order is restored. Nodes that are already filled keep their op.

    Raises
    ------
    ValueError
        No pack with this name is installed.

    Examples
    --------
    >>> prefer("pyopnb")
    >>> prefer()
    """
    known = dict.fromkeys(entry.pack for entry in entries())
    for pack in packs:
        if pack not in known:
            raise ValueError(f"pack: expected one of {', '.join(known)}, got {pack}")
    _preferred[:] = packs
    _told.clear()
