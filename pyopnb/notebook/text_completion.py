"""Complete the ONNX text form in a ``%%onnx`` cell: attrs, op types, dtypes, and earlier names."""

from __future__ import annotations

import re

import onnx

from pyopnb.engine import registry
from pyopnb.notebook.call_completion import attrs_of, onnx_ops

__all__ = ["complete_text"]

# Attributes come before the inputs or after them.
_ATTRIBUTES = re.compile(r"([\w.]+)\s*(?:\([^()]*\)\s*)?<[^<>]*\Z")
_NAME = re.compile(r"[A-Za-z_]\w*")
_DTYPES = [name.lower() for name, number in onnx.TensorProto.DataType.items() if number]


def complete_text(body: str) -> tuple[list[str], str]:
    """Return the completions at the end of the text, and the fragment that they replace."""
    fragment = re.split(r"[^\w.]", body)[-1]
    before = body[: len(body) - len(fragment)].rstrip()
    node = _ATTRIBUTES.search(before)
    if node is not None:
        if before.endswith("="):
            # After the equals sign comes a value.
            return [], fragment
        domain, _, op_type = node[1].rpartition(".")
        return [f"{name} = " for name in attrs_of(domain, op_type)], fragment
    if before.endswith("="):
        ours = [f"{op.domain}.{op.op_type}" for op in registry if op.domain]
        return [*ours, *onnx_ops()], fragment
    if before.rfind("{") <= before.rfind("}"):
        return _DTYPES, fragment
    if before[-1:] not in ("(", ","):
        # A name typed here is a new one.
        return [], fragment
    words = {*onnx_ops(), *_DTYPES}
    for op in registry:
        words |= {op.op_type, op.domain}
    return [name for name in _NAME.findall(before) if name not in words], fragment
