"""StringToVector of onnxruntime-extensions, a dictionary from strings to rows of numbers.

Defined in microsoft/onnxruntime-extensions v0.15.2, operators/text/string_to_vector.cc. Tested
against onnxruntime-extensions, exactly.
"""

import numpy as np

NAMES = ("ai.onnx.contrib::StringToVector",)


class StringToVector:
    """Look strings up in a map to rows of numbers.

    Each line of the map is a key, a tab, and numbers separated by blanks. Strings that the map
    lacks become the row ``unk``.
    """

    def __init__(self, map: str, unk: str):
        self.rows = {}
        for line in filter(None, map.split("\n")):
            key, _, numbers = line.partition("\t")
            self.rows[key] = [int(number) for number in numbers.split()]
        # All rows have the length of this one.
        self.unknown = [int(number) for number in unk.split()]

    def infer(self, text):
        if text.shape is None:
            return text.like(dtype="int64")
        return text.like(dtype="int64", shape=(*text.shape, len(self.unknown)))

    def compute(self, text):
        shape = (*text.shape, len(self.unknown))
        vectors = np.empty(shape, np.int64)
        for index, string in np.ndenumerate(text):
            vectors[index] = self.rows.get(str(string), self.unknown)
        return vectors
