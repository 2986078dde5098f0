"""The calls by which each version of an operator is judged."""

from __future__ import annotations

from typing import Any

from audit import elementwise, learning, networks, shapes
from audit.cases import ABSENT, GENERATORS, Case

__all__ = ["cases_of"]

# Each registers its generators.
_FILES = (elementwise, learning, networks, shapes)


def cases_of(schema: Any) -> list[Case]:
    """Return the calls by which one version of an operator is judged."""
    generator = GENERATORS.get((schema.domain, schema.name))
    if generator is None:
        return []
    made = []
    for inputs, attrs, *outputs in generator(schema):
        attrs = {name: value for name, value in attrs.items() if value is not ABSENT}
        place = (schema.domain, schema.name, schema.since_version)
        made.append(Case(*place, tuple(inputs), attrs, *outputs))
    return made
