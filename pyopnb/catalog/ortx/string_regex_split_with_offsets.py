"""StringRegexSplitWithOffsets of onnxruntime-extensions, which splits strings at matches.

Defined in microsoft/onnxruntime-extensions v0.15.2,
operators/text/re2_strings/string_regex_split.cc. A delimiter is the first group of the pattern;
without a group, nothing is split. Offsets are in bytes of UTF-8. Differs: the expressions are
Python ones, not the RE2 ones. Tested against onnxruntime-extensions, exactly.
"""

import re

import numpy as np

NAMES = ("ai.onnx.contrib::StringRegexSplitWithOffsets",)


class StringRegexSplitWithOffsets:
    """Split strings at delimiters.

    Delimiters that match the second pattern are also pieces. The outputs are the pieces, where each
    begins and ends in its string, and the number of the first piece of each string.
    """

    def infer(self, text, delimiter, kept_delimiter):
        offsets = text.like(dtype="int64", shape=(None,))
        return text.like(shape=(None,)), offsets, offsets, offsets

    def compute(
        self, text, delimiter, kept_delimiter
    ) -> ("string[P]", "int64[P]", "int64[P]", "int64[?]"):
        splitter = re.compile(str(delimiter.item()))
        keeper = re.compile(str(kept_delimiter.item()))
        pieces: list[tuple[str, int, int]] = []
        rows = [0]
        # Each string starts at 0 again, and its offsets too.
        for string in text.ravel():
            pieces += self._split(str(string), splitter, keeper)
            rows.append(len(pieces))
        words = np.empty(len(pieces), object)
        words[:] = [piece[0] for piece in pieces]
        spans = [piece[1:] for piece in pieces]
        spans = np.array(spans, np.int64)
        spans = spans.reshape(-1, 2)
        return words, spans[:, 0].copy(), spans[:, 1].copy(), np.array(rows, np.int64)

    def _split(self, string, splitter, keeper):
        """Return pieces with their begins and ends in bytes."""
        spans = []
        begin = 0
        if splitter.groups:
            matches = splitter.finditer(string)
        else:
            matches = ()
        for match in matches:
            spans.append((begin, match.start(1)))
            if keeper.fullmatch(match[1]):
                spans.append(match.span(1))
            begin = match.end()
        spans.append((begin, len(string)))
        pieces = []
        for start, end in spans:
            # Two delimiters side by side have nothing between them.
            if start < end:
                offset = len(string[:start].encode())
                piece = string[start:end]
                pieces.append((piece, offset, offset + len(piece.encode())))
        return pieces
