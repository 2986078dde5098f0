"""The torch functions, which its exporter writes as nodes where ONNX lacks them."""
