"""Every ONNX operator in every version, with all attributes, inputs and outputs."""

from __future__ import annotations

import zlib

import pytest
from audit.calls import cases_of
from audit.cases import schemas
from audit.outcomes import judge

_GOOD = {"right", "refused", "refused both", "not judged"}


def _key(schema):
    return f"{schema.domain}::{schema.name}-{schema.since_version}"


def _faults(cases):
    outcomes = [judge(case) for case in cases]
    return [f"{o.case}: {o.verdict}: {o.detail}" for o in outcomes if o.verdict not in _GOOD]


def _some(cases, key, count=2):
    """A few cases, which are the same in each run."""
    return (
        [cases[zlib.crc32(f"{key} {n}".encode()) % len(cases)] for n in range(count)]
        if cases
        else []
    )


def test_every_version_has_calls():
    assert [_key(schema) for schema in schemas() if not cases_of(schema)] == []


def test_every_attribute_input_and_output_is_given_and_left_out():
    absent = []
    for schema in schemas():
        cases, key = cases_of(schema), _key(schema)
        given = set().union(*[case.attrs for case in cases])
        absent += [f"{key}, attribute {name}" for name in schema.attributes if name not in given]
        for place, port in enumerate(schema.inputs):
            states = {len(case.inputs) > place and case.inputs[place] is not None for case in cases}
            if port.option.name == "Optional" and len(states) < 2:
                absent.append(f"{key}, input {port.name}")
        is_variadic = schema.outputs[-1].option.name == "Variadic"
        if not is_variadic and max(case.outputs for case in cases) < len(schema.outputs):
            absent.append(f"{key}, output {schema.outputs[-1].name}")
    assert absent == []


def test_two_calls_of_every_operator_in_every_version_are_right():
    faults = []
    for schema in schemas():
        faults += _faults(_some(cases_of(schema), _key(schema)))
    assert not faults, "\n".join(faults)


@pytest.mark.everywhere
@pytest.mark.parametrize("schema", schemas(), ids=_key)
def test_every_call_is_right(schema):
    assert not _faults(cases_of(schema))
