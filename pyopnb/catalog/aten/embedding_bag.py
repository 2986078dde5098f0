"""embedding_bag, the sums of embeddings of DLRM, as torch's exporter writes it where ONNX lacks it.

Defined by torch 2.13, torch.nn.functional.embedding_bag, in the order of aten's arguments. Of its
four outputs only the first is used for inference, and only it is here.
Tested against NumPy's sums, means and maxima of the rows, to 1e-6.
"""

import numpy as np

NAMES = ("org.pytorch.aten::embedding_bag", "::embedding_bag")

SUM, MEAN, MAX = 0, 1, 2


class embedding_bag:
    """Sum, average or take the maximum of the rows that each bag of indices names.

    A bag begins at its offset and ends where the next one begins; with ``include_last_offset``, the last offset
    stops the last bag. An empty bag is 0. Indices equal to ``padding_idx`` are left out.
    """

    def infer(
        self,
        weight,
        indices,
        offsets,
        scale_grad_by_freq=None,
        mode=None,
        sparse=None,
        per_sample_weights=None,
        include_last_offset=None,
        padding_idx=None,
    ):
        shape = (None, weight.shape[1] if weight.shape else None)
        return weight.like(shape=shape)

    def compute(
        self,
        weight,
        indices,
        offsets,
        scale_grad_by_freq=None,
        mode=None,
        sparse=None,
        per_sample_weights=None,
        include_last_offset=None,
        padding_idx=None,
    ):
        if mode is None:
            mode = SUM
        else:
            mode = int(mode.item())
        # A bag ends where the next one begins, and the last one with the indices.
        stops = np.append(offsets[1:], len(indices))
        if include_last_offset is not None and include_last_offset.item():
            offsets, stops = offsets[:-1], offsets[1:]
        shape = (len(offsets), weight.shape[1])
        bags = np.zeros(shape, weight.dtype)
        for number, (start, end) in enumerate(zip(offsets, stops, strict=True)):
            bag = np.arange(start, end)
            if padding_idx is not None and padding_idx.item() >= 0:
                bag = bag[indices[bag] != padding_idx.item()]
            # torch leaves the row of an empty bag at 0, for maxima too.
            if not len(bag):
                continue
            rows = np.float32 if weight.dtype == np.float16 else weight.dtype
            rows = weight[indices[bag]].astype(rows)
            if per_sample_weights is not None:
                rows = rows * per_sample_weights[bag, None]
            reduce = {SUM: np.sum, MEAN: np.mean, MAX: np.max}[mode]
            bags[number] = reduce(rows, axis=0)
        return bags
