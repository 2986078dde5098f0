"""``%%cppop``: a function in C++ becomes an op."""

from __future__ import annotations

from typing import Any, cast

from IPython.core.magic import Magics, cell_magic, magics_class, no_var_expand

from pyopnb.compile import cpp_class
from pyopnb.engine import registry
from pyopnb.notebook.arguments import (
    CPPOP,
    full_op_name,
    parse_pyop_line,
    refuse_domain,
    split_words,
)
from pyopnb.notebook.expressions import try_op
from pyopnb.notebook.tracebacks import one_line_errors

__all__ = ["CppopMagics"]

CPPOP.description = """\
Compile the C++ function in this cell into an ONNX op. Running the cell again replaces the op in
every live session.

    %%cppop -d demo
    // Clip x smoothly to ±limit.
    void SoftClip(Input<float> x, Output<float> y, float limit = 1.0f) {
      float* out = y.allocate(x.shape());
      for (int64_t i = 0; i < x.size(); ++i) out[i] = limit * std::tanh(x[i] / limit);
    }

Its Input and Output parameters are the inputs and outputs of the op, and the others its attrs.
Sessions call it without Python and without the GIL. The top of the header pyopnb.h, which is
included, lists the other types. A wrong address in the function ends the process, and with it the
kernel. If a cell does not compile, the previous version stays in use.
"""


def _cppop(self: CppopMagics, line: str, cell: str) -> object:
    __tracebackhide__ = True
    args = parse_pyop_line(line, CPPOP)
    shell = cast(Any, self.shell)
    with one_line_errors():
        # The line of the magic is the first.
        cls = cpp_class(
            cell,
            first=2,
            flags=split_words(args.flags or ""),
        )
        refuse_domain(args, cls.__name__)
        version = registry.define(
            cls, full_op_name(args, cls.__name__), opset=args.opset, source=cell
        )
    # The class is a variable of the notebook, as a class of a %%pyop cell is.
    shell.push({cls.__name__: cls})
    if not args.quiet:
        print(repr(version))
    trials = [try_op(version, expressions, shell.user_ns) for expressions in args.run]
    for trial in trials[:-1]:
        print(trial)
    return trials[-1] if trials else None


_cppop.__name__ = "cppop"
_cppop.__doc__ = CPPOP.format_help()


@magics_class
class CppopMagics(Magics):
    """The magic that compiles ops."""

    cppop = no_var_expand(cell_magic(_cppop))
