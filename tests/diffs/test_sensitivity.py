"""Which nodes of a quantized model cost most: bad scales are found, and leaving the nodes out helps."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from quantizing import FORMS, STATIC, float_model, quantized, sample, scaled

import pyopnb
from pyopnb.diffs.node_sensitivity import SensitiveNode, Sensitivity


def feeds(form: str) -> list[dict[str, np.ndarray]]:
    return [{"x": sample(form, seed)} for seed in (9, 10, 11)]


@pytest.mark.parametrize("form", FORMS)
def test_a_bad_weight_is_that_of_the_first_node(form: str, tmp_path: Path) -> None:
    model = float_model(form)
    weight, node = ("w2", "node p") if form in STATIC else ("w1", "node m1")
    scale = f"{weight}_scales" if form == "4 bits" else f"{weight}_scale"
    bad = scaled(quantized(model, form, tmp_path), scale, 1.5)
    found = pyopnb.sensitivity(model, bad, feeds(form))
    first = found.nodes[0]
    assert first.name == node and weight in first.tensors and first.gain > 5
    assert found.nodes_to_exclude[0] == node
    assert str(found).endswith(f"nodes_to_exclude={found.nodes_to_exclude!r}")
    assert found.simulated == pytest.approx(found.measured, abs=1)


def test_the_table_has_each_node(tmp_path: Path) -> None:
    model = float_model("dynamic")
    found = pyopnb.sensitivity(model, quantized(model, "dynamic", tmp_path), feeds("dynamic"))
    page = pyopnb.show(found).body
    for node in found.nodes:
        assert node.name in page and f"{node.gain:+.2f}" in page
    with pytest.raises(pyopnb.errors.InputError, match="something with a picture"):
        pyopnb.show(found).plot()


@pytest.mark.parametrize("form", STATIC)
def test_a_bad_activation_is_beside_the_first_nodes(form: str, tmp_path: Path) -> None:
    model = float_model(form)
    bad = scaled(quantized(model, form, tmp_path), "c1_scale", 1 / 16)
    found = pyopnb.sensitivity(model, bad, feeds(form))
    assert {node.name for node in found.nodes[:2]} == {"node c1", "node s"}
    assert sorted(found.nodes_to_exclude) == ["node c1", "node s"]
    assert all("c1" in node.tensors for node in found.nodes[:2])


def test_leaving_the_nodes_out_gives_back_what_was_promised(tmp_path: Path) -> None:
    model = float_model("dynamic")
    every = pyopnb.sensitivity(model, quantized(model, "dynamic", tmp_path), feeds("dynamic"))
    excluded = every.nodes_to_exclude
    other = quantized(model, "dynamic", tmp_path, nodes_to_exclude=excluded)
    some = pyopnb.sensitivity(model, other, feeds("dynamic"))
    assert some.measured == pytest.approx(every.nodes[0].sqnr, abs=0.1) or len(excluded) > 1
    assert some.measured > every.measured + 0.9 * every.nodes[0].gain
    assert not {node.name for node in some.nodes} & set(excluded)


def test_models_that_are_no_pair_are_refused(tmp_path: Path) -> None:
    model = float_model("QDQ")
    other = quantized(model, "QDQ", tmp_path)
    with pytest.raises(pyopnb.errors.InputError, match="expected the float model, got a quantized"):
        pyopnb.sensitivity(other, other, feeds("QDQ"))
    with pytest.raises(pyopnb.errors.InputError, match="without quantized tensors"):
        pyopnb.sensitivity(model, model, feeds("QDQ"))
    with pytest.raises(pyopnb.errors.InputError, match="expected a dict with names as keys"):
        pyopnb.sensitivity(model, other, feeds("QDQ")[0]["x"])
    with pytest.raises(pyopnb.errors.InputError, match="at least one mapping"):
        pyopnb.sensitivity(model, other, [])
    stranger = pyopnb.parse("(float[N,3,8,8] x) => (float[N,3,8,8] z) { z = Neg(x) }")
    with pytest.raises(pyopnb.errors.InputError, match="outputs of shape"):
        pyopnb.sensitivity(stranger, other, feeds("QDQ"))
    model.opset_import[0].version = 10
    with pytest.raises(pyopnb.errors.InputError, match=r"got opset 10. .*\(float_model, 11\)"):
        pyopnb.sensitivity(model, other, feeds("QDQ"))


@pytest.mark.parametrize(
    ("gains", "excluded", "last"),
    [
        ([9, 8, 0.1, 0], ["n0", "n1"], "nodes_to_exclude=['n0', 'n1']"),
        ([9, 8, 0.1], ["n0", "n1"], "nodes_to_exclude=['n0', 'n1']"),
        ([2, 1.9, 1.8, 1.5, 0.2], [], "nodes_to_exclude=[]: no node alone is at fault; 4 of 5 nodes regain 1.5 to 2 dB each"),
        ([2, 2], [], "nodes_to_exclude=[]: no node alone is at fault; 2 of 2 nodes regain 2 to 2 dB each"),
        ([0.9, 0.8], [], "nodes_to_exclude=[]: no node in float regains 1 dB"),
    ],
)  # fmt: skip
def test_only_a_few_nodes_are_to_be_excluded(
    gains: list[float], excluded: list[str], last: str
) -> None:
    nodes = [SensitiveNode(f"n{k}", "::Conv", (), 30 + gain, gain) for k, gain in enumerate(gains)]
    found = Sensitivity(tuple(nodes), 30, 30)
    assert found.nodes_to_exclude == excluded
    assert str(found).splitlines()[-1] == last
    assert "n1" in found._repr_html_()
