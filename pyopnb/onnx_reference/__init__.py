"""The ONNX reference implementation as a stand-in for operators that the runtime lacks."""
