"""Ops inside ONNX Runtime: the native bridge, sessions, retired PyOp nodes."""

from pyopnb.common.messages import require_native

require_native("pyopnb.engine.runtime._bridge")
