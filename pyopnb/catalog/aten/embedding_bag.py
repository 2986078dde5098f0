"""embedding_bag, sums of embeddings of DLRM, as the torch exporter writes it where ONNX lacks it.

Defined by torch 2.13.0, torch.nn.functional.embedding_bag, in the order of aten's arguments.
Differs: the last three of its four outputs, which serve the torch gradient, are empty. Tested
against the NumPy sums, means and maxima of the rows, to 1e-6.
"""

import numpy as np

from pyopnb.catalog.cores.embedding_bags import MAX, MEAN, SUM, embedding_bag_form
from pyopnb.catalog.cores.onnx_text import item_of
from pyopnb.catalog.cores.precision import widen

NAMES = ("org.pytorch.aten::embedding_bag", "::embedding_bag")


class embedding_bag:
    """Sum, average or take the maximum of the rows that each bag of indices names.

    A bag begins at its offset and ends where the next one begins; with
    ``include_last_offset``, the last offset stops the last bag. An empty bag is 0. Indices
    equal to ``padding_idx`` are left out.
    """

    def infer(self, weight, indices, offsets, *options, **by_name):
        shape = (None, weight.shape[1] if weight.shape else None)
        nothing = weight.like(dtype="int64", shape=(0,))
        return weight.like(shape=shape), nothing, nothing, nothing

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
    ) -> ("any[B,D]", "int64[0]", "int64[0]", "int64[0]"):
        starts, count = offsets, len(offsets)
        if len(offsets) and (offsets[0] != 0 or (offsets[1:] < offsets[:-1]).any()):
            raise ValueError(f"offsets: expected 0 first, then no smaller ones, got {offsets}")
        bag_of = np.searchsorted(starts, np.arange(len(indices)), side="right") - 1
        if item_of(include_last_offset, False):
            if not len(offsets) or offsets[-1] != len(indices):
                raise ValueError(f"offsets: expected {len(indices)} last, got {offsets}")
            count -= 1
        is_counted = bag_of < count
        padding = item_of(padding_idx, None)
        if padding is not None:
            # As in all of torch, a negative index counts from the end.
            is_counted &= indices != padding % len(weight)
        bag_of = bag_of[is_counted]
        rows = widen(weight)[indices[is_counted]]
        if per_sample_weights is not None:
            rows = rows * per_sample_weights[is_counted, None]
        how = item_of(mode, SUM)
        if how not in (SUM, MEAN, MAX):
            raise ValueError(f"mode: expected 0, 1 or 2, got {how}")
        sizes = np.bincount(bag_of, minlength=count)[:, None]
        bags = np.full((count, weight.shape[1]), -np.inf if how == MAX else 0, rows.dtype)
        add = np.maximum if how == MAX else np.add
        add.at(bags, bag_of, rows)
        if how == MEAN:
            bags /= np.maximum(sizes, 1)
        bags = np.where(sizes > 0, bags, 0).astype(weight.dtype)
        return bags, *np.zeros((3, 0), np.int64)

    lowered_opset = 18
    lowered_finite = True

    def lowered(
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
        padding = item_of(padding_idx, None)
        # How many rows there are to count from is known at run time only.
        if padding is not None and padding < 0:
            raise NotImplementedError(f"padding_idx={padding}")
        return embedding_bag_form(
            weight,
            mode=item_of(mode, SUM),
            padding=padding,
            has_weights=per_sample_weights is not None,
            has_last_offset=bool(item_of(include_last_offset, False)),
        )
