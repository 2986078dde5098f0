"""Notices: warnings of a session, reported at the user's own line."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING

import onnxruntime
from onnx import ModelProto

from pyopnb.common import messages
from pyopnb.errors import VersionsLowered

if TYPE_CHECKING:
    from pyopnb.engine.models.filled_node import FilledNode

__all__ = ["warn_of_lowered"]


def warn_of_lowered(
    lowered: tuple[str, ...], proto: ModelProto, filled: Sequence[FilledNode]
) -> None:
    """Warn that versions were lowered, once in a process.

    Parameters
    ----------
    lowered : tuple of str
        See `Session.lowered`.
    proto : ModelProto
        The model as it runs.
    """
    if lowered in _said:
        return
    means = "where the model means the same"
    imports = [f'helper.make_opsetid("{e.domain}", {e.version})' for e in proto.opset_import]
    call = f"graph, ir_version={proto.ir_version}, opset_imports=[{', '.join(imports)}]"
    advice = f"To make it so: helper.make_model({call})"
    if filled:
        means = "where nodes mean the same, or are filled"
        advice = "session.filled lists those that run in their own version"
    text = (
        f"lowered for onnxruntime {onnxruntime.__version__}, {means}: "
        f"{', '.join(lowered)}. {advice}"
    )
    warnings.warn(text, VersionsLowered, stacklevel=messages.level_of_user())
    # If warnings are errors, every session raises and not only the first.
    _said.add(lowered)


_said: set[tuple[str, ...]] = set()
"""Versions that were warned of in this process.

Without it, every model that is built with the onnx defaults would warn.
"""
