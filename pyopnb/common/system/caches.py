"""Find the user's cache folder, and refuse one where others could leave code for us to load."""

from __future__ import annotations

import os
import shlex
import stat
from pathlib import Path

from pyopnb.common.told.messages import one_line, sanitize
from pyopnb.errors import DefinitionError

__all__ = ["bad_cache", "cache_folder"]


def cache_folder(name: str, purpose: str) -> Path:
    """Return a folder in the user's cache, making it for its owner alone if need be.

    It is in ``$PYOPNB_CACHE``, or in ``pyopnb`` in ``$XDG_CACHE_HOME`` or ``~/.cache``.

    Parameters
    ----------
    purpose : str
        The feature that needs it, for messages: ``"op in C++"``.

    Raises
    ------
    DefinitionError
        Another user can write there, and could replace a file that is loaded.
    """
    base = os.environ.get("PYOPNB_CACHE")
    if not base:
        # Where caches belong by the XDG specification; ~ is expanded below.
        base = os.path.join(os.environ.get("XDG_CACHE_HOME") or "~/.cache", "pyopnb")
    folder = Path(base).expanduser() / name
    if not folder.is_absolute():
        # It would be another folder after each os.chdir, such as one in a
        # repository that was cloned.
        advice = f"PYOPNB_CACHE={shlex.quote(os.path.abspath(base))}"
        raise bad_cache(purpose, folder, "an absolute path", sanitize(base), advice)
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        folder = folder.parent.resolve() / folder.name
        _check_owner(purpose, folder, folder.lstat())
        for parent in folder.parents:
            _check_parent(purpose, parent, parent.stat())
    except OSError as error:
        expected, got = "a folder that can be written to", one_line(str(error))
        raise bad_cache(purpose, folder, expected, got, "PYOPNB_CACHE=…") from None
    return folder


def _check_owner(purpose: str, folder: Path, facts: os.stat_result) -> None:
    """Refuse a folder that another user owns or can write to."""
    # Windows has no owners in this sense; its user folders are closed to others.
    if not hasattr(os, "getuid"):
        return
    if facts.st_uid != os.getuid() or facts.st_mode & 0o022 or not stat.S_ISDIR(facts.st_mode):
        got = f"{stat.filemode(facts.st_mode)} of user {facts.st_uid}"
        advice = f"chmod 700 {shlex.quote(str(folder))}, or PYOPNB_CACHE=…"
        raise bad_cache(purpose, folder, "a folder that only you can write to", got, advice)


def _check_parent(purpose: str, parent: Path, facts: os.stat_result) -> None:
    """Refuse a folder above the cache in which another user could rename it away."""
    if not hasattr(os, "getuid"):
        return
    # In /tmp everybody can write, but the sticky bit lets only owners rename.
    open_to_all = facts.st_mode & 0o022 and not facts.st_mode & stat.S_ISVTX
    if open_to_all or facts.st_uid not in (0, os.getuid()):
        got = f"{sanitize(parent)}, {stat.filemode(facts.st_mode)} of user {facts.st_uid}"
        expected = "folders above it that only you or root can write to"
        raise bad_cache(purpose, parent, expected, got, "PYOPNB_CACHE=…")


def bad_cache(purpose: str, folder: Path, expected: str, got: str, advice: str) -> DefinitionError:
    """Make the error of a cache that cannot be used."""
    where = f"{purpose}, the cache {folder}"
    return DefinitionError(where, expected=expected, got=got, next=advice)
