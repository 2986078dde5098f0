"""Ops under their names, and their versions."""

from __future__ import annotations

import gc
import linecache
import threading
import time
import weakref

import pytest
from limits import LIMIT

import pyopnb
from pyopnb import pyop
from pyopnb.engine.ops.op import MAX_VERSIONS
from pyopnb.engine.ops.registry import Registry
from pyopnb.errors import DefinitionError, UnknownName


def made(body="pass"):
    namespace = {}
    exec(f"class Twice:\n    {body}\n    def compute(self, x): return x", namespace)
    return namespace["Twice"]


@pytest.fixture
def registry():
    return Registry()


def test_versions(registry):
    before = time.time()
    classes = [made() for _ in range(3)]
    versions = [
        registry.define(cls, "demo::Twice", source=f"text {n}") for n, cls in enumerate(classes)
    ]
    assert [v.number for v in versions] == [1, 2, 3]
    assert [v.epoch for v in versions] == [1, 2, 3]
    assert registry.epoch == 3
    assert registry.history("demo::Twice") == tuple(versions)
    op = registry["demo::Twice"]
    assert op.current is versions[-1]
    assert [v.cls for v in op.versions] == classes
    assert (op.name, op.domain, op.op_type) == ("demo::Twice", "demo", "Twice")
    assert str(op.current) == "demo::Twice, version 3"
    assert versions[1].source == "text 1"
    assert before <= versions[0].defined <= versions[2].defined <= time.time()


def test_at_gives_what_was_current(registry):
    first = registry.define(made())
    registry.define(made(), "Other")
    second = registry.define(made())
    op = registry["Twice"]
    assert [op.at(epoch) for epoch in (1, 2, 3, 99)] == [first, first, second, second]


def test_a_thousand_redefinitions_let_go_of_the_old_classes(registry):
    alive = []
    for _ in range(1000):
        cls = made()
        alive.append(weakref.ref(cls))
        registry.define(cls, module="old")
    del cls
    gc.collect()
    assert sum(ref() is not None for ref in alive) == MAX_VERSIONS
    assert len(registry) == 1


def test_finding(registry):
    registry.define(made(), "a::Twice")
    assert registry["a::Twice"] is registry["Twice"]  # by its type, as long as one domain has it
    registry.define(made(), "b::Twice")
    assert registry.find("a", "Twice") is registry["a::Twice"]
    assert registry.find("c", "Twice") is None
    assert [op.name for op in registry] == ["a::Twice", "b::Twice"]
    assert "a::Twice" in registry
    assert "Twice" not in registry
    assert "no name" not in registry
    assert 3 not in registry


class Wrong:
    def compute(self, x=3): ...


@pytest.mark.parametrize("cls", [Wrong, type("Empty", (), {}), 3, None])
def test_a_definition_that_fails_leaves_the_last_good_one(registry, cls):
    told = []
    good = registry.define(made(), "demo::X", module="old")
    registry.subscribe(told.append)
    with pytest.raises(DefinitionError):
        registry.define(cls, "demo::X", module="other")
    assert registry["demo::X"].versions == (good,)
    assert registry.epoch == 1
    assert registry.find_class("other", "Wrong") is None
    assert told == []


def test_modules_of_the_retired_op(registry):
    registry.define(made(), "demo::X", module="old")
    registry.define(made(), "demo::X")
    assert registry.find_class("old", "Twice") is registry["demo::X"]
    assert registry.find_class("old", "X") is None
    registry.remove("demo::X")
    assert registry.find_class("old", "Twice") is None


def test_rollback(registry):
    first, second = (registry.define(made(), opset=n, source=f"text {n}") for n in (1, 2))
    third = registry.rollback("Twice")
    assert (third.number, third.restored, third.cls, third.source, third.opset) == (
        3,
        1,
        first.cls,
        "text 1",
        1,
    )
    assert registry["Twice"].current is third
    assert registry.rollback("Twice", 2).cls is second.cls
    assert registry.epoch == 4


def test_a_withdrawn_version_leaves_the_one_before_it(registry):
    told, removed = [], []
    registry.subscribe(told.append, removed=removed.append)
    first = registry.define(made())
    op = registry["Twice"]
    second = registry.define(made(), module="old")
    registry.withdraw(second)
    assert op.current is first
    assert registry.history("Twice") == (first,)
    assert told == [first, second, first]
    assert [op.at(epoch) for epoch in range(1, 5)] == [
        first,
        second,
        first,
        first,
    ]  # a run in flight keeps its version
    assert registry.epoch == 3
    assert registry.find_class("old", "Twice") is None
    registry.withdraw(second)  # nothing happens
    assert registry.epoch == 3
    third = registry.define(made())
    assert third.number == 3  # it was printed that there is a version 2
    assert registry.rollback("Twice").cls is first.cls
    assert not removed


def test_a_withdrawn_first_version_removes_the_op(registry):
    removed = []
    registry.subscribe(lambda version: None, removed=removed.append)
    version = registry.define(made(), module="old")
    op = registry["Twice"]
    registry.withdraw(version)
    assert (removed, len(registry), registry.find_class("old", "Twice")) == (
        ["pyopnb::Twice"],
        0,
        None,
    )
    assert op.current is version  # for the sessions that use it
    again = registry.define(made())
    assert registry["Twice"] is op
    assert (again.number, op.current, registry.history("Twice")) == (2, again, (again,))


def test_a_version_that_is_not_the_newest_is_withdrawn_from_the_history_alone(registry):
    first, second, third = (registry.define(made()) for _ in range(3))
    registry.withdraw(second, modules=registry.modules_of("Twice"))
    assert registry.history("Twice") == (first, third)
    assert registry["Twice"].current is third
    assert registry["Twice"].at(2) is second


def test_remove_and_clear(registry):
    op = registry.define(made()).op
    held = registry[op]
    registry.define(made(), "Other", module="old")
    registry.remove("Twice")
    assert "Twice" not in registry
    assert held.current.number == 1
    registry.clear()
    assert len(registry) == 0
    assert list(registry) == []
    assert registry.find_class("old", "Twice") is None
    assert registry.define(made()).number == 1
    with pytest.raises(UnknownName):
        registry.remove("Other")


# Listeners


def test_listeners_are_told_of_the_version_that_is_in_place(registry):
    told = []
    registry.subscribe(lambda version: told.append(registry["Twice"].current is version))
    registry.define(made())
    registry.rollback("Twice", 1)
    assert told == [True, True]


def test_a_listener_that_raises_keeps_no_other_from_being_told(registry):
    told = []

    def broken(version):
        raise RuntimeError(f"broken {version.number}")

    registry.subscribe(broken)
    registry.subscribe(told.append)
    with pytest.raises(RuntimeError, match="broken 1"):
        registry.define(made())
    assert told == [registry["Twice"].current]


@pytest.mark.parametrize("act", ["define", "rollback"])
def test_a_listener_may_wait_for_another_thread_that_defines(registry, act):
    registry.define(made())

    def waits(version):
        if version.op == "pyopnb::Twice":
            other = threading.Thread(target=registry.define, args=(made(), "Other"), daemon=True)
            other.start()
            other.join(LIMIT)
            done.append(not other.is_alive())

    done = []
    registry.subscribe(waits)
    registry.rollback("Twice", 1) if act == "rollback" else registry.define(made())
    assert done == [True]


# Threads


def test_definitions_from_many_threads(registry):
    cls = made()
    epochs = []
    registry.subscribe(lambda version: epochs.append(version.epoch))
    gate = threading.Barrier(4)

    def define():
        gate.wait()
        for _ in range(100):
            registry.define(cls)

    threads = [threading.Thread(target=define) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert registry.epoch == registry["Twice"].current.number == 400
    assert sorted(epochs) == list(range(1, 401))
    assert [v.number for v in registry.history("Twice")] == list(range(301, 401))


# @pyop


def test_pyop_returns_the_class():
    registry = pyopnb.registry

    @pyop("demo::X", opset=2, module="old")
    class Twice:
        def compute(self, x): ...

    version = registry["demo::X"].current
    assert version.cls is Twice
    assert version.opset == 2
    assert version.source.lstrip().startswith('@pyop("demo::X"')
    assert registry.find_class("old", "Twice") is registry["demo::X"]


# What is held back until a file has run


def test_the_source_of_what_no_file_has_is_none_of_a_file():
    """Since Python 3.13 `inspect.getsource` takes lines of the module's file, of the numbers that the class has elsewhere."""
    text = "class Cell:\n    def compute(self, x):\n        return x\n"
    held = {"__name__": __name__}
    exec(compile(text, "<cell of a test>", "exec"), held)
    assert version_of(held["Cell"]).source is None
    linecache.cache["<cell of a test>"] = (
        len(text),
        None,
        text.splitlines(keepends=True),
        "<cell of a test>",
    )
    try:
        assert version_of(held["Cell"]).source == text
    finally:
        del linecache.cache["<cell of a test>"]


def test_the_source_of_each_of_two_classes_of_one_name_in_a_file():
    class Both:
        def compute(self, x):
            return x + 1

    first = version_of(Both)

    class Both:
        def compute(self, x):
            return x + 2

    second = version_of(Both)
    assert "x + 1" in first.source and "x + 2" not in first.source
    assert "x + 2" in second.source and "x + 1" not in second.source
    assert first.source.lstrip().startswith("class Both")


def version_of(cls):
    pyop("demo::Cell")(cls)
    return pyopnb.registry["demo::Cell"].current
