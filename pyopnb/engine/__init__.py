"""The engine, which runs Python classes in ONNX Runtime: ops, session models, the runtime."""

from pyopnb.common import open_door

# From here on, onnx.defs follows the registry; ops can be pickled; and runs end before the
# interpreter does, the ones of bare sessions included.
from pyopnb.engine.models import op_inference as _op_inference  # noqa: F401
from pyopnb.engine.ops import pickling as _pickling  # noqa: F401
from pyopnb.engine.runtime import exceptions as _exceptions  # noqa: F401

__getattr__, __dir__, __all__ = open_door(__name__, __file__)
