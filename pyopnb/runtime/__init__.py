"""Ops inside ONNX Runtime: the native bridge, sessions, retired PyOp nodes."""

from pyopnb.ops.messages import require_native

require_native("pyopnb.runtime._bridge")
