"""No file imports itself through others, imports inside functions included."""

import ast
from pathlib import Path

import pyopnb

PACKAGE = Path(pyopnb.__file__).parent


def statements(tree):
    """Walk over the statements of a file, but for those below ``if TYPE_CHECKING``, which never run."""
    waiting = [tree]
    while waiting:
        node = waiting.pop()
        yield node
        for name in ("body", "orelse", "finalbody", "handlers", "cases"):
            is_typing = isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test)
            if name != "body" or not is_typing:
                waiting += getattr(node, name, [])


def imported(tree, modules):
    """List the modules of the package that a file imports."""
    targets = set()
    for node in statements(tree):
        if isinstance(node, ast.Import):
            targets.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                submodule = f"{node.module}.{alias.name}"
                targets.add(submodule if submodule in modules else node.module)
    return {target for target in targets if target in modules}


def import_graph():
    """Map each file of the package to the files that it imports."""
    modules = {}
    for path in PACKAGE.rglob("*.py"):
        name = ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts).removesuffix(
            ".__init__"
        )
        modules[name] = ast.parse(path.read_text(encoding="utf-8"))
    # The top level imports everything at first use, so that a module that imports it closes
    # a circle on purpose.
    modules.pop("pyopnb")
    return {name: imported(tree, modules) - {name} for name, tree in modules.items()}


def circles(graph):
    """Return the groups of files that reach each other."""
    reachable = {}
    for start in graph:
        seen = set()
        ahead = list(graph[start])
        while ahead:
            name = ahead.pop()
            if name not in seen:
                seen.add(name)
                ahead.extend(graph[name])
        reachable[start] = seen
    groups = set()
    for name, seen in reachable.items():
        if name in seen:
            groups.add(frozenset(target for target in seen if name in reachable[target]))
    return groups


def test_files_do_not_import_each_other_in_a_circle():
    assert [sorted(group) for group in circles(import_graph())] == []


def test_a_circle_through_an_import_in_a_function_is_seen():
    modules = {
        "a": ast.parse("def run():\n    from b import x"),
        "b": ast.parse("import c"),
        "c": ast.parse("from a import y"),
        "d": ast.parse("from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import e"),
        "e": ast.parse("import d"),
    }
    graph = {name: imported(tree, modules) for name, tree in modules.items()}
    assert circles(graph) == {frozenset("abc")}
