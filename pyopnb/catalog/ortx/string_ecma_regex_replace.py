"""StringECMARegexReplace of onnxruntime-extensions, a replacement by JavaScript's expressions.

Defined in microsoft/onnxruntime-extensions v0.15.2, operators/text/string_ecmaregex_replace.cc.
Differs: the Python expressions are nearly the ECMAScript ones: a dollar sign also matches before a
last line break, and a dot matches a carriage return. Tested against onnxruntime-extensions,
exactly.
"""

import re

import numpy as np

NAMES = ("ai.onnx.contrib::StringECMARegexReplace",)


class StringECMARegexReplace:
    """Replace the matches of a pattern in each string.

    With ``global_replace`` 0, only the first match of a string is replaced. Patterns see the bytes
    of UTF-8, so that a dot is not a whole letter beyond ASCII.
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
        expression = re.compile(str(pattern.item()).encode(), self.flags)
        replacement = str(rewrite.item()).encode()

        def replace(match):
            return _REFERENCE.sub(lambda reference: _expand(reference, match), replacement)

        replaced = np.empty(text.shape, object)
        for index, string in np.ndenumerate(text):
            changed = expression.sub(replace, str(string).encode(), count=self.count)
            replaced[index] = changed.decode()
        return replaced


_REFERENCE = re.compile(rb"\$(?:(\d{1,2})|[$&`'])")


def _expand(reference, match):
    """Return the bytes that a reference such as ``$1`` is replaced by at a match."""
    if reference[1] is not None:
        number = int(reference[1])
        if number > match.re.groups:
            return b""
        return match[number] or b""
    before, after = match.string[: match.start()], match.string[match.end() :]
    return {b"$$": b"$", b"$&": match[0], b"$`": before, b"$'": after}[reference[0]]
