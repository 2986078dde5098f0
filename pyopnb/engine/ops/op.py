"""An op: a name, and all versions of its definition."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from typing import Any

from pyopnb.common import Displayable, sanitize
from pyopnb.engine.ops.op_names import split_name
from pyopnb.engine.ops.op_schema import Schema
from pyopnb.errors import UnknownName

__all__ = ["MAX_VERSIONS", "Op", "Version"]

MAX_VERSIONS = 100
"""Versions of an op that history and rollback can reach.

Older ones are dropped, so that redefining an op all day costs nothing.
"""


@dataclass(frozen=True, repr=False)
class Version(Displayable):
    """The n-th definition of an op under one name.

    Attributes
    ----------
    op : str
        ``domain::OpType``.
    number : int
        1 for the first.
    cls : type
        The class, unchanged.
    schema : Schema
        The ports and attrs that the class declares.
    opset : int
        First version of the domain that has the op (the ONNX since_version).
    source : str or None
        The text of the cell or class; None if it is not known.
    defined : float
        Seconds since the epoch, as `time.time` gives them.
    epoch : int
        The epoch of the registry that this version began.
    restored : int or None
        Number of the version that a rollback restored as this one.
    gradient : Version or None
        The version of the gradient op, where the class has ``backward``: both are defined, restored
        and withdrawn together.
    gradient_of : str or None
        Of a gradient op's version, the name of the op that it is the gradient of.
    """

    op: str
    number: int
    cls: type
    schema: Schema
    opset: int
    source: str | None
    defined: float
    epoch: int
    restored: int | None = None
    gradient: Version | None = None
    gradient_of: str | None = None

    def __str__(self) -> str:
        return f"{self.op}, version {self.number}"

    def __repr__(self) -> str:
        return f"{self}: {self.schema}"

    # A version never changes, and sessions compare versions by identity.

    def __copy__(self) -> Version:
        return self

    def __deepcopy__(self, memo: Any) -> Version:
        return self

    @property
    def with_gradient(self) -> tuple[Version, ...]:
        """Return the version, and the gradient op's version if there is one."""
        return (self,) if self.gradient is None else (self, self.gradient)


@dataclass(repr=False)
class Op(Displayable):
    """A name and all its versions, the newest last.

    Attributes
    ----------
    name : str
        ``domain::OpType``.
    versions : tuple of Version
        Each definition replaces the tuple, so that a run on another thread can go on
        reading the old one.
    lock : threading.RLock
        Held around ``compute`` if the class has ``serial = True``. Reentrant, because
        ``compute`` may run a session.
    base : Op or None
        Of a gradient op, the op whose class has ``backward``: it has the versions of both, and
        changes them together.
    last_number : int
        The highest number that a version had, withdrawn ones included.
    """

    name: str
    versions: tuple[Version, ...] = ()
    lock: Any = field(default_factory=threading.RLock)
    base: Op | None = field(default=None, compare=False)
    last_number: int = field(default=0, init=False)
    # Each version with the epoch from which on it served, withdrawn ones included: a run in flight
    # may still ask for one.
    _served: tuple[tuple[int, Version], ...] = field(default=(), init=False)
    _gradient: Op | None = field(default=None, init=False, compare=False)

    def __post_init__(self) -> None:
        versions, self.versions = self.versions, ()
        for version in versions:
            self.add(version)

    def __repr__(self) -> str:
        return f"{self.current!r}" if self._served else f"{self.name}, no version"

    @property
    def is_generated(self) -> bool:
        """Tell whether `fill`, `wrap` or another function of pyopnb made this op for a node."""
        return self.name.startswith(("pyopnb.", "onnx.reference::"))

    def add(self, version: Version) -> None:
        """Make a new version the current one."""
        self._serve(version, version.epoch)
        self.versions = (*self.versions, version)[-MAX_VERSIONS:]
        if version.gradient is not None:
            self._gradient_of(version.gradient).add(version.gradient)

    def drop(self, version: Version) -> None:
        """Take a version out of the history; it stays in use until another one replaces it."""
        self.versions = tuple(entry for entry in self.versions if entry is not version)
        if version.gradient is not None:
            self._gradient_of(version.gradient).drop(version.gradient)

    def restore(self, version: Version, epoch: int) -> None:
        """Use an earlier version again from an epoch on, without a new number."""
        self.versions = self.versions or (version,)
        self._serve(version, epoch)
        if version.gradient is not None:
            self._gradient_of(version.gradient).restore(version.gradient, epoch)

    def _serve(self, version: Version, epoch: int) -> None:
        # One assignment, because other threads read without a lock.
        self._served = (*self._served, (epoch, version))[-MAX_VERSIONS:]
        self.last_number = max(self.last_number, version.number)

    def _gradient_of(self, version: Version) -> Op:
        # One op for all versions, so that the sessions that run it can keep it.
        if self._gradient is None:
            self._gradient = Op(version.op, base=self)
        return self._gradient

    @property
    def gradient(self) -> Op | None:
        """Return the gradient op, where the current version has one."""
        return self._gradient if self._served and self.current.gradient is not None else None

    @property
    def definer(self) -> Op:
        """Return the op whose class defines this one: a gradient op's base, or the op itself."""
        return self.base or self

    @property
    def current(self) -> Version:
        """Return the version in use."""
        return self._served[-1][1]

    @property
    def is_registered(self) -> bool:
        """Tell whether a registry has or had this op.

        Classes of allowed modules are ops without a registry.
        """
        return self._served[0][1].epoch > 0

    @property
    def domain(self) -> str:
        """Return the domain, which is empty for the ONNX ops."""
        return split_name(self.name)[0]

    @property
    def op_type(self) -> str:
        """Return the name without the domain."""
        return split_name(self.name)[1]

    def at(self, epoch: int) -> Version:
        """Return the version that served in an epoch of the registry.

        If that one was dropped, it is the oldest one that is kept.

        Parameters
        ----------
        epoch : int
            As in `Version.epoch`.

        Returns
        -------
        Version
            The version of this op.
        """
        for since, version in reversed(self._served):
            if since <= epoch:
                return version
        return self._served[0][1]

    def numbers_since(self, epoch: int) -> set[int]:
        """Return the numbers of the versions that served in an epoch of the registry and later.

        Parameters
        ----------
        epoch : int
            As in `Version.epoch`.

        Returns
        -------
        set of int
            At least one.
        """
        numbers = set()
        for since, version in reversed(self._served):
            numbers.add(version.number)
            if since <= epoch:
                break
        return numbers

    def find_version(self, number: int, action: str = "") -> Version:
        """Find a version by its number.

        Parameters
        ----------
        action : str
            The purpose, for the message.

        Raises
        ------
        UnknownName
            There is no such version.
        """
        for version in self.versions:
            if version.number == number:
                return version
        numbers = [str(version.number) for version in self.versions]
        expected = f"version {numbers[0]}"
        if len(numbers) > 1:
            expected = f"one of versions {', '.join(numbers)}"
        raise UnknownName(
            f"op {self.name}{action}",
            expected=expected,
            got=sanitize(repr(number)),
            next=numbers[-1],
        )
