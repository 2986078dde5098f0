"""BatchPermutation of Caffe2, which brings regions back into the order of the proposals.

Defined in pytorch/pytorch v1.13.1, caffe2/operators/batch_permutation_op.cc. Tested against NumPy's
indexing, exactly.
"""

NAMES = ("org.pytorch._caffe2::BatchPermutation",)


class BatchPermutation:
    """Take rows in the order of the indices."""

    def infer(self, x, indices):
        return x

    def compute(self, x, indices):
        # The gather is the whole operator: indices are the order that DistributeFpnProposals wrote.
        return x[indices]
