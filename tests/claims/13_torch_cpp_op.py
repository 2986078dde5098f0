"""What tutorial 13_torch_cpp_op claims: run after its last cell, among the notebook's own names."""

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
