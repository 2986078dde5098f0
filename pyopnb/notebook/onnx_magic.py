"""``%%onnx``: a cell in ONNX's text form becomes a model under a name."""

from __future__ import annotations

import argparse
import keyword
import shlex
from typing import Any, cast

from IPython.core.completer import CompletionContext, SimpleCompletion, SimpleMatcherResult, context_matcher
from IPython.core.error import UsageError
from IPython.core.magic import Magics, cell_magic, magics_class, no_var_expand
from IPython.core.magic_arguments import MagicArgumentParser

from pyopnb.models.nodes import summary
from pyopnb.models.text.parse import parse
from pyopnb.notebook.pyop_cell import briefly
from pyopnb.ops.errors import PyopError, sanitize

__all__ = ["OnnxMagics", "complete"]


def _parser() -> MagicArgumentParser:
    parser = MagicArgumentParser("%onnx")  # type: ignore[no-untyped-call]  # IPython has no types there; its formatter adds a %
    parser.add_argument("name", metavar="NAME", help="the variable that holds the model, an onnx.ModelProto")
    parser.add_argument("-q", "--quiet", action="store_true", help="print nothing")
    parser.description = """\
Make a model of the graph in this cell, which is written in ONNX's text form.

    %%onnx clipper
    (float[N,3] x) => (float[N,3] y) {
        a = Abs(x)
        y = demo.SoftClip<limit = 2.0>(a)
    }

A name before the graph, and a header <ir_version: 10, opset_import: ["" : 21]> before that, may be there; what they
do not say is added, as pyopnb.parse does it. A cell that fails leaves NAME as it was.
"""
    return parser


_PARSER = _parser()


def _read(line: str) -> argparse.Namespace:
    try:
        args: argparse.Namespace = _PARSER.parse_args(shlex.split(line))
    except ValueError as error:  # a quote that is not closed
        raise UsageError(f"{error}: {sanitize(line)}") from None
    if not args.name.isidentifier() or keyword.iskeyword(args.name):
        raise _usage("%%onnx, NAME", "a name that a variable can have", sanitize(args.name), "%%onnx clipper")
    return args


def _usage(where: str, expected: str, got: str, next: str) -> UsageError:
    return UsageError(str(PyopError(where, expected=expected, got=got, next=next)))


def _onnx(self: OnnxMagics, line: str, cell: str) -> None:
    __tracebackhide__ = True
    args = _read(line)
    if not cell.strip():
        raise _usage(f"%%onnx {args.name}", "a graph", "an empty cell", "%%onnx?")
    with briefly():
        model = parse("\n" + cell, name=args.name)  # the lines of messages are those of the cell
    cast(Any, self.shell).push({args.name: model})
    if not args.quiet:
        from pyopnb.models.support.missing import missing

        print(f"{args.name}: {summary(model)}")
        for row in missing(model)[:3]:  # a typo in an op's name is best seen here
            print(f"not to be run yet: {row.op}: {row.reason}")


_onnx.__name__ = "onnx"
_onnx.__doc__ = _PARSER.format_help()


@magics_class
class OnnxMagics(Magics):
    """The magic that makes models."""

    onnx = no_var_expand(cell_magic(_onnx))


@context_matcher(identifier="pyopnb.onnx")  # type: ignore[untyped-decorator]  # IPython has no types there
def complete(context: CompletionContext) -> SimpleMatcherResult:
    """Complete the line of ``%%onnx``, and let nothing else be mixed in."""
    before = context.text_until_cursor.lstrip()
    magic, *words = before.split() or [""]
    first = not "".join(context.full_text.split("\n")[: context.cursor_line]).strip()
    if magic != "%%onnx" or not first or (not words and not before.endswith(" ")):
        return SimpleMatcherResult(completions=[])
    fragment = "" if before[-1].isspace() else words.pop()
    options = [option for action in _PARSER._actions for option in action.option_strings]
    completions = [SimpleCompletion(option, type="option") for option in options if option.startswith(fragment)]
    return SimpleMatcherResult(completions=completions, suppress=True, matched_fragment=fragment)
