"""VectorToString of onnxruntime-extensions, a dictionary from rows of numbers to strings.

Defined in microsoft/onnxruntime-extensions v0.15.2, operators/text/vector_to_string.cc. Tested
against onnxruntime-extensions, exactly.
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
        for line in filter(None, map.split("\n")):
            string, _, numbers = line.partition("\t")
            self.strings[tuple(int(number) for number in numbers.split())] = string
        self.width = len(next(iter(self.strings)))
        self.unknown = unk

    def infer(self, vectors):
        # Rows of one number have no axis of their own.
        if vectors.shape is None or self._is_flat(vectors.shape):
            return vectors.like(dtype="string")
        return vectors.like(dtype="string", shape=vectors.shape[:-1])

    def _is_flat(self, shape):
        return self.width == 1 and len(shape) <= 1

    def compute(self, vectors):
        if self._is_flat(vectors.shape):
            shape = vectors.shape
        elif vectors.shape[-1:] == (self.width,):
            shape = vectors.shape[:-1]
        else:
            raise ValueError(f"vectors: expected rows of {self.width}, got {list(vectors.shape)}")
        strings = np.empty(shape, object)
        for index in np.ndindex(shape):
            row = np.atleast_1d(vectors[index]).tolist()
            strings[index] = self.strings.get(tuple(row), self.unknown)
        return strings
