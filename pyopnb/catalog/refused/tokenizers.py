"""The tokenizers of onnxruntime-extensions.

Defined in microsoft/onnxruntime-extensions, operators/tokenizer, in C++. They are a
library of their own, whose results change with its releases; a second one in Python would
disagree with it some day.
"""

NAMES = (
    "ai.onnx.contrib::BasicTokenizer",
    "ai.onnx.contrib::BertTokenizer",
    "ai.onnx.contrib::BertTokenizerDecoder",
    "ai.onnx.contrib::BlingFireSentenceBreaker",
    "ai.onnx.contrib::BpeDecoder",
    "ai.onnx.contrib::CLIPTokenizer",
    "ai.onnx.contrib::GPT2Tokenizer",
    "ai.onnx.contrib::HfBertTokenizer",
    "ai.onnx.contrib::HfJsonTokenizer",
    "ai.onnx.contrib::RobertaTokenizer",
    "ai.onnx.contrib::SentencepieceDecoder",
    "ai.onnx.contrib::SentencepieceTokenizer",
    "ai.onnx.contrib::SpmTokenizer",
    "ai.onnx.contrib::TrieDetokenizer",
    "ai.onnx.contrib::TrieTokenizer",
    "ai.onnx.contrib::WordpieceTokenizer",
)

REFUSAL = "tokenizers are a library of their own, in C++"
INSTEAD = (
    "pip install onnxruntime-extensions, then in the session's options "
    "register_custom_ops_library(onnxruntime_extensions.get_library_path())"
)
