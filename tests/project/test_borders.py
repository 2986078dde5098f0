"""What engine objects keep to themselves, no other room touches."""

import ast
import tomllib
from pathlib import Path

import pyopnb

PACKAGE = Path(pyopnb.__file__).parent
ENGINE = PACKAGE / "engine"


def is_private(name):
    """Tell private names from public ones and from names of protocols, such as ``_repr_html_``."""
    return name.startswith("_") and not name.endswith("_")


def trees(folder):
    for path in sorted(folder.rglob("*.py")):
        yield path, ast.parse(path.read_text(encoding="utf-8"))


def private_attributes(tree):
    """Name the private attributes and methods that a file gives to objects."""
    names = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef):
            for statement in node.body:
                if isinstance(statement, ast.FunctionDef):
                    names.add(statement.name)
                elif isinstance(statement, ast.AnnAssign):
                    names.add(statement.target.id)
                elif isinstance(statement, ast.Assign):
                    names.update(n.id for n in statement.targets if isinstance(n, ast.Name))
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            names.add(node.attr)
    return {name for name in names if is_private(name)}


def owners(tree):
    """Name what a file's private names may be asked of: an object's own self, and imported modules."""
    names = {"self", "cls"}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names.update(alias.asname or alias.name for alias in node.names)
    return names


def names_of_the_engine(tree):
    """Name what a file takes from the engine: its classes, objects and modules."""
    names = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("pyopnb.engine"):
            names.update(alias.asname or alias.name for alias in node.names)
    return names


def uses(tree, hidden):
    """Find where a file touches such an attribute that it does not itself give to its objects.

    Of what it takes from the engine by name, no private attribute is its business.
    """
    foreign, known, taken = (
        hidden - private_attributes(tree),
        owners(tree),
        names_of_the_engine(tree),
    )
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and is_private(node.attr):
            owner = node.value.id if isinstance(node.value, ast.Name) else ""
            if owner in taken or (node.attr in foreign and owner not in known):
                yield node


def engine_attributes():
    hidden = set()
    for _, tree in trees(ENGINE):
        hidden |= private_attributes(tree)
    return hidden


def test_no_room_touches_private_attributes_of_the_engine():
    hidden = engine_attributes()
    found = []
    for path, tree in trees(PACKAGE):
        if not path.is_relative_to(ENGINE):
            for node in uses(tree, hidden):
                found.append(f"{path.relative_to(PACKAGE)}:{node.lineno} {ast.unparse(node)}")
    assert found == []


def test_a_private_attribute_of_the_engine_is_noticed():
    lines = (
        "from pyopnb.engine import protos",
        "session._state.run(None, feeds)",
        "table._repr_html_()",
        "protos._array(tensor)",
    )
    found = uses(ast.parse("\n".join(lines)), engine_attributes())
    assert sorted(map(ast.unparse, found)) == ["protos._array", "session._state"]


def names_of_door(stub):
    """List what a door offers: its ``from .module import name as name``."""
    imports = [
        node
        for node in ast.parse(stub.read_text(encoding="utf-8")).body
        if isinstance(node, ast.ImportFrom) and node.level
    ]
    return [alias.name for node in imports for alias in node.names]


def test_each_room_has_a_small_door_and_a_contract():
    contracts = tomllib.loads(
        (Path(__file__).parents[2] / "pyproject.toml").read_text(encoding="utf-8")
    )
    contracts = contracts["tool"]["importlinter"]["contracts"]
    protected = {name for each in contracts for name in each.get("protected_modules", ())}
    doors = sorted(PACKAGE.glob("*/__init__.pyi"))
    assert len(doors) > 15
    for stub in doors:
        room = stub.parent.name
        most = 60 if room == "engine" else 15
        assert len(names_of_door(stub)) <= most, f"{room}: replace two names by their module"
        assert f"pyopnb.{room}.*" in protected, room
