"""What each file of the catalog is."""

import inspect
import re
import sys

import pytest

import pyopnb
from pyopnb.catalog.index import entries, entries_named, find_entry, find_refusal, refusals


@pytest.mark.parametrize("entry", entries(), ids=lambda entry: entry.op_class.__name__)
def test_a_file_is_one_operator_that_says_where_it_is_defined(entry):
    module = sys.modules[entry.op_class.__module__]
    classes = [
        value
        for value in vars(module).values()
        if inspect.isclass(value) and value.__module__ == module.__name__
    ]
    assert classes == [entry.op_class]
    assert entry.op_class.__doc__
    # The page of the catalog lists which version or commit of which file each follows, where it
    # knowingly differs, the reference of its tests, and how well it agrees.
    story, _, tested = module.__doc__.replace("\n", " ").partition("Tested against ")
    _, _, story = story.partition("Defined ")
    defined, *differs = story.split("Differs: ")
    revision = r"(v?\d+\.\d[\d.]*|[0-9a-f]{7})"
    assert re.match(rf"(in|by) [\w./-]+ {revision}, [\w./-]+", defined)
    assert len(differs) <= 1 and all(text.strip().endswith(".") for text in differs)
    assert re.fullmatch(r".+, (exactly|to [^,]+)\.", tested.strip())
    assert entry.names and all("::" in name for name in entry.names)
    assert len(entry.source.splitlines()) <= 120
    assert {"infer", "compute"} <= set(dir(entry.op_class))


def test_no_two_operators_of_one_name_take_the_same_inputs():
    names = [name for entry in entries() for name in entry.names]
    for name in set(names):
        for inputs in range(10):
            takers = [entry for entry in entries_named(name) if entry.takes(inputs)]
            versions = [version for entry in takers for version in entry.versions or [None]]
            assert len(versions) == len(set(versions)), name
        assert find_refusal(name) is None, name
    assert find_entry("TRT::Nobody", 1) is None


@pytest.mark.parametrize("refusal", refusals(), ids=lambda refusal: refusal.names[0])
def test_an_operator_that_cannot_run_says_why_and_what_to_do(refusal):
    node = pyopnb.node(refusal.names[0], "x", "y")
    model = pyopnb.model(node, {"x": "float32[2]"}, {"y": "float32[2]"})
    with pytest.warns(pyopnb.errors.Filled) as warned:
        pyopnb.fill(model)
    assert refusal.reason in str(warned[0].message) and refusal.instead in str(warned[0].message)


@pytest.mark.parametrize(
    "name", ["com.microsoft::EPContext", "com.microsoft::Recv", "TRT::YoloLayer_TRT"]
)
def test_a_session_names_what_to_do_instead(name):
    model = pyopnb.model(pyopnb.node(name, "x", "y"), {"x": "float32[2]"}, {"y": "float32[2]"})
    with pytest.raises(pyopnb.PyopError) as raised:
        pyopnb.Session(model)
    assert find_refusal(name).instead in str(raised.value)
