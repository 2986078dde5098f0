"""Every ONNX operator in every version, with all attributes, inputs and outputs."""

from __future__ import annotations

import zlib

import onnx
import onnxruntime
import pytest
from audit.calls import cases_of
from audit.cases import schemas
from audit.outcomes import judge
from audit.record import read, row_of
from node_tests import WRITTEN_FOR

_GOOD = {"right", "refused", "refused both", "not judged"}
if onnx.__version__ != WRITTEN_FOR[0]:
    # An older onnx raises where a newer one computes, and the message says what.
    _GOOD.add("raw")


def _key(schema):
    return f"{schema.domain}::{schema.name}-{schema.since_version}"


def _faults(outcomes):
    return [f"{o.case}: {o.verdict}: {o.detail}" for o in outcomes if o.verdict not in _GOOD]


def _is_worse(row, outcomes):
    """Whether these calls show what the record of their version does not tell."""
    _, _, _, outcome, _ = row_of(*outcomes)
    allowed = {"right": {"right", "not judged"}, "mended": {"right", "not judged", "mended"}}
    return outcome not in allowed.get(
        row["outcome"], {"right", "mended", "refused", "refused in part", "not judged"}
    )


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


def test_two_calls_of_every_operator_in_every_version_are_right_and_as_recorded():
    faults, record = [], read()
    for schema in schemas():
        outcomes = [judge(case) for case in _some(cases_of(schema), _key(schema))]
        faults += _faults(outcomes)
        row = record.get((schema.domain, schema.name, schema.since_version))
        # The record is of the newest onnx.
        is_same = (onnx.__version__, onnxruntime.__version__) == WRITTEN_FOR
        if row and is_same and _is_worse(row, (schema, outcomes)):
            faults.append(f"{_key(schema)}: recorded as {row['outcome']}")
    assert not faults, "\n".join(faults)


def test_the_record_has_every_version():
    names = [(schema.domain, schema.name, schema.since_version) for schema in schemas()]
    assert set(names) <= set(read()) or onnx.__version__ > WRITTEN_FOR[0]


@pytest.mark.everywhere
@pytest.mark.parametrize("schema", schemas(), ids=_key)
def test_every_call_is_right(schema):
    assert not _faults([judge(case) for case in cases_of(schema)])
