"""VectorToString of onnxruntime-extensions, a dictionary from rows of numbers to strings.

Defined in microsoft/onnxruntime-extensions 0.15, operators/text/vector_to_string.cc.
Tested against onnxruntime-extensions, exactly.
"""

import numpy as np

NAMES = ("ai.onnx.contrib::VectorToString",)


class VectorToString:
    """Look rows of numbers up in a map to strings.

    Each line of the map is a string, a tab, and numbers separated by blanks. Rows that the map
    lacks become ``unk``.
    """

    def __init__(self, map: str, unk: str):
        self.strings = {}
        for line in map.split("\n"):
            string, _, numbers = line.partition("\t")
            self.strings[tuple(int(number) for number in numbers.split())] = string
        self.width = len(next(iter(self.strings)))
        self.unknown = unk

    def infer(self, vectors):
        # Rows of one number have no axis of their own.
        if self.width == 1:
            shape = vectors.shape
        else:
            shape = (vectors.shape or (None,))[:-1]
        return vectors.like(dtype="string", shape=shape)

    def compute(self, vectors):
        if self.width == 1:
            shape = vectors.shape
        else:
            shape = vectors.shape[:-1]
        strings = np.empty(shape, object)
        for index in np.ndindex(shape):
            row = np.atleast_1d(vectors[index]).tolist()
            strings[index] = self.strings.get(tuple(row), self.unknown)
        return strings
