"""ConvStateReplay of com.microsoft, which moves a convolution's history on by captured inputs.

Defined in microsoft/onnxruntime v1.32.0, onnxruntime/core/graph/contrib_ops/bert_defs.cc, version
1, with its formula. Differs: the destination is returned as a new tensor. Tested against a loop by
its definition, exactly.
"""

import numpy as np

NAMES = ("com.microsoft::ConvStateReplay",)


class ConvStateReplay:
    """Append the first captured inputs to a history, and keep as many elements as it has."""

    def infer(self, source, capture, destination, metadata):
        return destination

    def compute(self, source, capture, destination, metadata):
        *offsets, batch, channels, width, capacity, kept = (int(number) for number in metadata)
        # Offsets are in bytes.
        starts = [offset // source.itemsize for offset in offsets]
        history_size = batch * channels * width
        history = source[starts[0] :][:history_size].reshape(batch, channels, width)
        inputs = capture[starts[2] :][: batch * capacity * channels]
        inputs = inputs.reshape(batch, capacity, channels)[:, :kept].swapaxes(1, 2)
        # As many old elements leave at the front as inputs come in at the end.
        moved = np.concatenate([history, inputs], axis=2)[:, :, kept:]
        # Memory around the destination's view stays as it was.
        replayed = destination.copy()
        replayed[starts[1] : starts[1] + history_size] = moved.ravel()
        return replayed
