"""Keep the result of torch attention where every key is masked: 0, and no average or NaN."""

from __future__ import annotations

from typing import Any

import torch

from pyopnb.torch.calls import insert_call
from pyopnb.torch.program import calls_in

__all__ = ["zero_masked_rows"]

_ATTENTION = torch.ops.aten.scaled_dot_product_attention.default


def zero_masked_rows(program: Any) -> None:
    """Write out that a row of attention whose keys are all masked is 0.

    The exporter's softmax divides 0 by 0 there, or takes a mask of bools for the lowest finite
    number and gives the average of all values (torch 2.13, onnxscript 0.7).

    Parameters
    ----------
    program : torch.export.ExportedProgram
        It is changed.
    """
    for node in list(calls_in(program)):
        if node.target is not _ATTENTION:
            continue
        mask = node.kwargs.get("attn_mask")
        if len(node.args) > 3:
            mask = node.args[3]
        if mask is not None:
            _zero_rows(node, mask)


def _zero_rows(node: Any, mask: Any) -> None:
    """Follow a call of attention by a choice between its result and 0."""
    aten = torch.ops.aten
    if mask.meta["val"].dtype == torch.bool:
        has_key = insert_call(node, aten.any.dim, mask, -1, True)
        is_masked = insert_call(node, aten.logical_not.default, has_key)
        # Beside a mask of bools, the exporter writes 0 for every NaN.
        is_key = insert_call(node, aten.to.dtype, mask, node.meta["val"].dtype)
        node.replace_input_with(mask, insert_call(node, aten.log.default, is_key))
    else:
        largest = insert_call(node, aten.amax.default, mask, [-1], True)
        is_masked = insert_call(node, aten.eq.Scalar, largest, float("-inf"))
    chosen = insert_call(node, aten.masked_fill.Scalar, node, is_masked, 0.0, after=True)
    chosen.meta["val"] = node.meta["val"]
    node.replace_all_uses_with(chosen, delete_user_cb=lambda user: user is not chosen)
