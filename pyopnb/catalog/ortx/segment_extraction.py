"""SegmentExtraction of onnxruntime-extensions, which finds runs of labels.

Defined in microsoft/onnxruntime-extensions v0.15.2, operators/math/segment_extraction.cc. Label 0
is no segment. Tested against onnxruntime-extensions, exactly.
"""

import numpy as np

NAMES = ("ai.onnx.contrib::SegmentExtraction",)


class SegmentExtraction:
    """Return begin and end of each run of one number, and the number."""

    def infer(self, labels):
        return labels.like(shape=(None, 2)), labels.like(shape=(None,))

    def compute(self, labels) -> ("int64[S,2]", "int64[S]"):
        # Files also have a batch of one.
        row = labels.ravel()
        # A run ends where the next label differs.
        changes = np.flatnonzero(row[1:] != row[:-1]) + 1
        starts = np.concatenate([[0], changes])[: len(row)]
        stops = np.concatenate([changes, [len(row)]])[: len(row)]
        is_segment = row[starts] != 0
        positions = np.stack([starts, stops], axis=1)[is_segment]
        return positions.astype(np.int64), row[starts][is_segment]
