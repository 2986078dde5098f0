"""Disjoint sets, which are joined step by step."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterable
from typing import Generic, TypeVar

__all__ = ["DisjointSets"]

_Member = TypeVar("_Member", bound=Hashable)


class DisjointSets(Generic[_Member]):
    """A disjoint-set forest, or union-find, with path halving (Tarjan and van Leeuwen, 1984).

    Examples
    --------
    >>> sets = DisjointSets(range(4))
    >>> sets.join(0, 2)
    >>> sets.members()
    [[0, 2], [1], [3]]
    """

    def __init__(self, members: Iterable[_Member] = ()) -> None:
        self.parents = {member: member for member in members}

    def root(self, member: _Member) -> _Member:
        """Return the member that represents the set; a new member starts a set."""
        parents = self.parents
        while parents.setdefault(member, member) != member:
            parents[member] = member = parents[parents[member]]
        return member

    def join(self, one: _Member, other: _Member) -> None:
        """Make one set of two."""
        self.parents[self.root(one)] = self.root(other)

    def members(self) -> list[list[_Member]]:
        """Return the members of each set, in the order in which they were given."""
        sets: dict[_Member, list[_Member]] = defaultdict(list)
        for member in self.parents:
            sets[self.root(member)].append(member)
        return list(sets.values())
