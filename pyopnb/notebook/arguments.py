"""The words of a magic's line, how they are refused, and the line of ``%%pyop``."""

from __future__ import annotations

import argparse
import re
import shlex

from IPython.core.error import UsageError
from IPython.core.magic_arguments import MagicArgumentParser

from pyopnb.notebook.expressions import Given, given
from pyopnb.ops.errors import PyopError, sanitize
from pyopnb.ops.registry import DEFAULT_DOMAIN, check_opset, split_name

__all__ = ["CELL", "op_name", "read", "usage", "words"]

_RUN = re.compile(r"(?:^|\s)--run(?:\s+|=|$)")


def _cell_parser() -> MagicArgumentParser:
    parser = MagicArgumentParser("%pyop")  # type: ignore[no-untyped-call]  # IPython has no types there; its formatter adds a %
    parser.add_argument("name", nargs="?", metavar="NAME", help="SoftClip or demo::SoftClip; default: the class's name")
    parser.add_argument("-d", "--domain", metavar="DOMAIN", help=f"domain of the op; default: {DEFAULT_DOMAIN}")
    parser.add_argument(
        "--opset", type=int, default=1, metavar="N", help="version of the domain from which on the op is there; default: 1"
    )
    parser.add_argument("--module", metavar="MODULE", help="also serve the retired PyOp's nodes that ask for this module")
    parser.add_argument("-q", "--quiet", action="store_true", help="print nothing")
    parser.add_argument(
        "--run",
        metavar="x=EXPR,...",
        action="append",
        help="then call the op, with inputs and attrs of these values; to the end of the line, or to the next --run",
    )
    return parser


CELL = _cell_parser()
"""What may stand behind ``%%pyop``."""


def read(line: str) -> argparse.Namespace:
    """The arguments of a ``%%pyop`` line, or UsageError; ``run`` is what each ``--run`` says, a list of `Given`."""
    head, *runs = _RUN.split(line)  # expressions are no words of a shell: their quotes and spaces are their own
    args: argparse.Namespace = CELL.parse_args(words(head))
    args.run = [_given(text, "%%pyop --run") for text in runs]
    op_name(args, "OpType")
    try:
        check_opset(args.opset, "%%pyop")
    except PyopError as error:
        raise UsageError(str(error)) from None
    return args


def _given(text: str, where: str) -> Given:
    try:
        return given(text)
    except SyntaxError:
        raise usage(where, "x=EXPR, y=EXPR", sanitize(text), f"{where} x=np.float32([1, 2]), limit=2.0") from None


def op_name(args: argparse.Namespace, class_name: str) -> str:
    """``domain::OpType`` for a class of the cell."""
    try:
        domain, op_type = split_name(args.name or class_name)
        if args.domain is None:
            return f"{domain}::{op_type}"
        asked, _ = split_name(f"{args.domain}::{op_type}")
    except PyopError as error:
        raise UsageError(str(error)) from None
    if "::" in (args.name or "") and asked != domain:
        raise UsageError(
            f"%%pyop: {sanitize(args.name)} and --domain {sanitize(args.domain)} name two domains. Try: leave one out"
        )
    return f"{asked}::{op_type}"


def words(line: str) -> list[str]:
    """The words of a line, as a shell splits them."""
    try:
        return shlex.split(line)
    except ValueError as error:  # a quote that is not closed
        raise UsageError(f"{error}: {sanitize(line.strip())}") from None


def usage(where: str, expected: str, got: str, next: str) -> UsageError:
    """What a wrong line is refused with."""
    return UsageError(str(PyopError(where, expected=expected, got=got or "nothing", next=next)))
