"""What each file of the catalogue is."""

import inspect
import sys

import pytest

from pyopnb.catalog.index import entries, entries_named, find_entry


@pytest.mark.parametrize("entry", entries(), ids=lambda entry: entry.op_class.__name__)
def test_a_file_is_one_operator_that_says_where_it_is_defined(entry):
    module = sys.modules[entry.op_class.__module__]
    classes = [
        value
        for value in vars(module).values()
        if inspect.isclass(value) and value.__module__ == module.__name__
    ]
    assert classes == [entry.op_class]
    assert "Defined" in module.__doc__ and entry.op_class.__doc__
    assert entry.names and all("::" in name for name in entry.names)
    assert len(entry.source.splitlines()) <= 120
    assert {"infer", "compute"} <= set(dir(entry.op_class))


def test_no_two_operators_of_one_name_take_the_same_inputs():
    names = [name for entry in entries() for name in entry.names]
    for name in set(names):
        for inputs in range(10):
            takers = [entry for entry in entries_named(name) if entry.takes(inputs)]
            assert len(takers) <= 1, name
    assert find_entry("TRT::Nobody", 1) is None
