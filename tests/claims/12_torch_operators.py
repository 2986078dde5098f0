"""What tutorial 12_torch_operators claims: run after its last cell, among the notebook's own names."""

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

torch.testing.assert_close(
    by_torch, torch.nn.functional.group_norm(X, 2, scale, bias), atol=1e-5, rtol=1e-5
)
torch.testing.assert_close(
    expected, torch.nn.functional.group_norm(larger, 3, scale, bias), atol=1e-5, rtol=1e-5
)
(node,) = (node for node in model.graph.node if node.domain)
assert (node.domain, node.op_type, node.attribute[0].name) == ("mydomain", "mygroupnorm", "epsilon")
assert as_exported.ok
assert otherwise.ok
assert by_today.ok
