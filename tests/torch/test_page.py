"""The code of the page on torch runs from top to bottom, and gives what the page says."""

import re
import warnings
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "how_to" / "torch.md"


@pytest.fixture
def blocks():
    return re.findall(
        r"^```python\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL
    )


def test_the_page_runs(blocks, tmp_path, monkeypatch):
    names = {"__name__": "page"}
    for number, block in enumerate(blocks):
        file = tmp_path / f"block_{number}.py"  # torch reads the source of a module
        file.write_text(block)
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            exec(compile(block, str(file), "exec"), names)
        names[f"said_{number}"] = [
            str(each.message) for each in said if type(each.message).__name__ == "StandIns"
        ]
    assert names["session"](p=names["p"])["gain"].shape == (3, 4, 2)
    (said,) = names["said_0"]
    assert "return p @ self.see.T @ torch.inverse(" in said
    cell = names["report"].cells["torch.aten::inverse"]
    assert "class inverse:" in cell
    assert [node.op_type for node in names["direct"].graph.node if node.domain] == ["Inverse"]
    assert names["said_3"] == []
    assert names["found"].origin.changes == ("attr epsilon: 1e-05 → 0.1",)
    assert names["found"].origin.source.endswith("in norm (LayerNorm)")
    assert (names["clipped"].graph.node[-1].domain, names["clipped"].graph.node[-1].op_type) == (
        "demo",
        "SoftClip",
    )
