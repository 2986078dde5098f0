"""``%%cppop``: what a cell defines, what a failing one leaves, and its line."""

import numpy as np
import pytest
from systems import needs_compiler

import pyopnb

# A compiler runs for each cell.
pytestmark = [pytest.mark.one_python, needs_compiler]

CELL = """\
%%cppop{line}
// Clip x smoothly to ±limit.
void SoftClip(Input<float> x, Output<float> y, float limit = 1.0f) {{
  y.allocate(x.shape());
  for (int64_t i = 0; i < x.size(); ++i) y[i] = limit * std::tanh(x[i] / limit);
}}
"""


@pytest.fixture(scope="module", autouse=True)
def cache(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYOPNB_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield


def test_the_story(define, shell):
    shell.user_ns["np"] = np
    ran = define(CELL.format(line=" -d demo --run x=np.float32([0, 9]), limit=2.0"))
    assert ran.out.startswith(
        "demo::SoftClip, version 1: (x: float32[...])<limit: float = 1.0> -> float32[...]\n"
    )
    assert ran.value[1] == pytest.approx(2 * np.tanh(4.5))
    assert shell.user_ns["SoftClip"]().compute(np.zeros(2, np.float32)).tolist() == [0, 0]
    assert pyopnb.registry["demo::SoftClip"].current.source in CELL.format(line="")


def test_a_cell_that_does_not_compile_leaves_the_last_version(define, run):
    define(CELL.format(line=" -q -d demo"))
    for right, wrong, line in [("y[i] =", "y[i] := ", 5), ("float limit", "char limit", 3)]:
        ran = run(CELL.format(line=" -d demo").replace(right, wrong))
        assert isinstance(ran.error, pyopnb.errors.DefinitionError)
        assert f"line {line}" in ran.out + ran.err
    assert pyopnb.registry["demo::SoftClip"].current.number == 1


def test_wrong_lines(run):
    assert (
        "%%cppop: unrecognized arguments: --nonsense. Try: %%cppop?"
        in run(CELL.format(line=" --nonsense")).err
    )
    assert "%%cppop my.domain: expected the op's type" in run(CELL.format(line=" my.domain")).err
    assert (
        "expected one function with an Output among its parameters, got none"
        in run("%%cppop\nint x;").out
    )
