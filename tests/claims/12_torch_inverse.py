"""What tutorial 12_torch_inverse claims: run after its last cell, among the notebook's own names."""

import sys

assert "5" in str(sys.last_value)
assert max(worst.values()) < 1e-2
assert same.ok
for made in (by_document, by_ops):
    assert [node.op_type for node in made.graph.node if node.domain == "com.microsoft"] == [
        "Inverse"
    ]
    assert {dim.dim_param for dim in made.graph.input[0].type.tensor_type.shape.dim} == {
        "count",
        "size",
    }
