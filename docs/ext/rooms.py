"""The rooms of pyopnb and what they import, read from the package when the pages are built."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path

import pyopnb
from pyopnb.display.svg.boxes import Box, BoxGraph, Line
from pyopnb.display.svg.graph import draw
from pyopnb.display.svg.to_svg import to_svg

__all__ = ["MOST", "check", "floors", "imports", "listing", "picture"]

MOST = 12
"""The rooms that DESIGN names; a reader keeps no more of them apart."""
_ROOT = Path(__file__).parents[2]
_PACKAGE = Path(pyopnb.__file__).parent
# What is no room: the command line; what is built on onnx-ad; and the packages that
# `pyopnb` offers by name, all but one of which are doors, a shelf of operators, or the
# errors that everything imports.
_DOORS = {"__main__", "gradients", *pyopnb._PACKAGES} - {"testing"}


def floors() -> list[list[str]]:
    """Read the rooms, floor by floor from the top, from the layer contract in pyproject.toml."""
    contracts = tomllib.loads((_ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"][
        "importlinter"
    ]["contracts"]
    (rooms,) = (contract for contract in contracts if contract["name"] == "rooms")
    listed = [[room.strip() for room in layer.split("|")] for layer in rooms["layers"]]
    return [floor for layer in listed if (floor := [room for room in layer if room not in _DOORS])]


def imports() -> dict[tuple[str, str], int]:
    """Count the import statements that lead from one room into another, by the two rooms."""
    import grimp  # which only the environment of the pages has

    graph = grimp.build_graph("pyopnb")
    counts: dict[tuple[str, str], int] = {}
    for importer in graph.modules:
        for imported in graph.find_modules_directly_imported_by(importer):
            pair = _room(importer), _room(imported)
            if all(pair) and pair[0] != pair[1]:
                counts[pair] = counts.get(pair, 0) + len(
                    graph.get_import_details(importer=importer, imported=imported)
                )
    return counts


def _room(module: str) -> str:
    """Return the room of a module; an empty text for ``pyopnb`` itself and for doors."""
    _, _, inside = module.partition(".")
    room = inside.partition(".")[0]
    return "" if room in _DOORS else room


def check(order: list[list[str]], arrows: Mapping[tuple[str, str], int]) -> None:
    """Fail unless there are at most `MOST` rooms and every import leads to a lower floor.

    Rooms whose imports all lead down cannot import each other in a circle.

    Raises
    ------
    ValueError
        It names the rooms.
    """
    floor = {room: number for number, layer in enumerate(order) for room in layer}
    if len(floor) > MOST:
        raise ValueError(f"{len(floor)} rooms, and {MOST} are the most: {', '.join(floor)}")
    strangers = {room for pair in arrows for room in pair} - floor.keys()
    if strangers:
        raise ValueError(f"rooms without a floor in pyproject.toml: {', '.join(sorted(strangers))}")
    upward = [f"{a} -> {b}" for a, b in sorted(arrows) if floor[a] >= floor[b]]
    if upward:
        raise ValueError(f"imports that do not lead down: {', '.join(upward)}")


def picture(order: list[list[str]], arrows: Mapping[tuple[str, str], int]) -> str:
    """Draw the rooms as an SVG, with an arrow from each room to the rooms that it imports.

    An arrow is left out where a path of other arrows leads to the same room.
    """
    rooms = [room for layer in order for room in layer]
    counts = [sum(1 for _ in (_PACKAGE / room).rglob("*.py")) for room in rooms]
    boxes = [Box(room, (f"{count} modules",)) for room, count in zip(rooms, counts, strict=True)]
    shown = [pair for pair in sorted(arrows) if not _detour(*pair, arrows)]
    lines = [Line(rooms.index(a), rooms.index(b)) for a, b in shown]
    return to_svg(draw(BoxGraph(boxes, lines)), titles=False)


def _detour(source: str, target: str, arrows: Mapping[tuple[str, str], int]) -> bool:
    """Tell whether a room also reaches another one through a third."""
    ahead, seen = [b for a, b in arrows if a == source and b != target], set()
    while ahead:
        room = ahead.pop()
        if room == target:
            return True
        if room not in seen:
            seen.add(room)
            ahead += [b for a, b in arrows if a == room]
    return False


def listing(order: list[list[str]], arrows: Mapping[tuple[str, str], int]) -> list[str]:
    """Write a line for each room: what it imports, with the number of import statements."""
    below = {
        room: [f"{b} ({count})" for (a, b), count in sorted(arrows.items()) if a == room]
        for layer in order
        for room in layer
    }
    return [f"{room} → {', '.join(rooms)}" for room, rooms in below.items() if rooms]
