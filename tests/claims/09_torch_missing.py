"""What tutorial 09_torch_missing claims: run after its last cell, among the notebook's own names."""


def accuracy(layers, pictures):
    return (layers(pictures[1000:]).argmax(1) == kinds[1000:]).float().mean()


assert ((cleaned - clean) ** 2).mean() < 0.2 * ((noisy - clean) ** 2).mean()
assert accuracy(reader.layers, cleaned) > accuracy(without_filter, noisy) + 0.02
assert from_torch.ok
assert without_torch.ok
np.testing.assert_array_equal(replaced["cleaned"], filled["cleaned"])
