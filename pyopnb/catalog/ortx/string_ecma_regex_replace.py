"""StringECMARegexReplace of onnxruntime-extensions, a replacement by JavaScript's expressions.

Defined in microsoft/onnxruntime-extensions 0.15, operators/text/string_ecmaregex_replace.cc.
Python's expressions are nearly those: only references to groups are written otherwise. Tested
against onnxruntime-extensions, exactly.
"""

import re

import numpy as np

NAMES = ("ai.onnx.contrib::StringECMARegexReplace",)


class StringECMARegexReplace:
    """Replace the matches of a pattern in each string.

    With ``global_replace`` 0, only the first match of a string is replaced.
    """

    def __init__(self, global_replace: int = 1, ignore_case: int = 0):
        if global_replace:
            self.count = 0
        else:
            self.count = 1
        if ignore_case:
            self.flags = re.IGNORECASE
        else:
            self.flags = re.NOFLAG

    def infer(self, text, pattern, rewrite):
        return text

    def compute(self, text, pattern, rewrite):
        expression = re.compile(str(pattern.item()), self.flags)
        # A backslash is a letter in a JavaScript replacement, $1 is a group and $& the match.
        replacement = str(rewrite.item()).replace("\\", r"\\")
        replacement = re.sub(r"\$(\d{1,2})", r"\\g<\1>", replacement).replace("$&", r"\g<0>")
        replaced = np.empty(text.shape, object)
        for index, string in np.ndenumerate(text):
            replaced[index] = expression.sub(replacement, str(string), count=self.count)
        return replaced
