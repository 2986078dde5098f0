"""``%%onnx``: assigns the model written in a cell, in the ONNX text form, to a variable."""

from __future__ import annotations

from typing import Any, cast

from IPython.core.magic import Magics, cell_magic, magics_class, no_var_expand

from pyopnb.engine import protos
from pyopnb.models import parse
from pyopnb.notebook.arguments import ONNX, parse_onnx_line, usage_error
from pyopnb.notebook.tracebacks import one_line_errors

__all__ = ["OnnxMagics"]

ONNX.description = """\
Build a model from the graph in this cell, written in the ONNX text form.

    %%onnx clipper
    (float[N,3] x) => (float[N,3] y) {
        a = Abs(x)
        y = demo.SoftClip<limit = 2.0>(a)
    }

The graph may be preceded by a name, and that by a header <ir_version: 10, opset_import: ["" : 21]>.
What they leave out is added, as pyopnb.parse does. A cell that fails leaves NAME unchanged.
"""


def _onnx(self: OnnxMagics, line: str, cell: str) -> None:
    __tracebackhide__ = True
    args = parse_onnx_line(line)
    if not cell.strip():
        raise usage_error(f"%%onnx {args.name}", "a graph", "an empty cell", "%%onnx?")
    with one_line_errors():
        # The line break makes messages count lines as the cell does.
        model = parse(
            "\n" + cell,
            name=args.name,
        )
    cast(Any, self.shell).push({args.name: model})
    if not args.quiet:
        from pyopnb.models import missing

        print(f"{args.name}: {protos.summary(model)}")
        # This is where a typo in an op's name is noticed first.
        for row in missing(model)[:3]:
            print(f"cannot run yet: {row.op}: {row.reason}")


_onnx.__name__ = "onnx"
_onnx.__doc__ = ONNX.format_help()


@magics_class
class OnnxMagics(Magics):
    """The magic that builds models."""

    onnx = no_var_expand(cell_magic(_onnx))
