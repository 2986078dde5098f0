"""StringMapping of onnxruntime-extensions, a dictionary of strings.

Defined in microsoft/onnxruntime-extensions v0.15.2, operators/text/string_mapping.cc. Differs: a
line of the map that is no pair is skipped, where the kernel refuses the map. Tested against
onnxruntime-extensions, exactly.
"""

import numpy as np

NAMES = ("ai.onnx.contrib::StringMapping",)


class StringMapping:
    """Look strings up in a map, and keep strings that it lacks.

    Each line of the map is a key, a tab, and a value.
    """

    def __init__(self, map: str):
        # Lines without a tab have no value.
        pairs = [line.split("\t", 1) for line in map.split("\n") if "\t" in line]
        self.values = dict(pairs)

    def infer(self, text):
        return text

    def compute(self, text):
        mapped = np.empty(text.shape, object)
        for index, string in np.ndenumerate(text):
            # A string that the map lacks stays as it is.
            mapped[index] = self.values.get(str(string), str(string))
        return mapped
