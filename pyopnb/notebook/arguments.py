"""The arguments of magics, and how a wrong line is refused."""

from __future__ import annotations

import argparse
import keyword
import os
import re
import shlex
from typing import Any, NoReturn

from IPython.core.error import UsageError
from IPython.core.magic_arguments import MagicArgumentParser

from pyopnb.common import sanitize
from pyopnb.engine import op_names, registry
from pyopnb.errors import PyopError
from pyopnb.notebook.expressions import check_expressions

__all__ = [
    "CPPOP",
    "ONNX",
    "PYOP",
    "MagicParser",
    "full_op_name",
    "parse_onnx_line",
    "parse_pyop_line",
    "refuse_domain",
    "split_words",
    "usage_error",
]

_RUN = re.compile(r"(?:^|\s)--run(?:\s+|=|$)")


class MagicParser(MagicArgumentParser):
    """The parser of a magic's line, with error messages in the form of all pyopnb's messages.

    Parameters
    ----------
    magic : str
        As it is typed.
    next : str
        The line to type after an error.
    """

    def __init__(self, magic: str, next: str) -> None:
        # IPython has no types there, and its formatter adds a % itself.
        super().__init__(magic[1:])  # type: ignore[no-untyped-call]
        self.magic, self.next = magic, next

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Parse the words, and refuse a long option that has a single dash."""
        for word in args or ():
            # argparse takes -domain for -d omain.
            option = f"-{word.partition('=')[0]}"
            if option in self._option_string_actions:
                raise usage_error(self.magic, option, sanitize(word), option)
        return super().parse_known_args(args, namespace)

    def error(self, message: str) -> NoReturn:
        raise UsageError(str(PyopError(f"{self.magic}: {message}", next=self.next)))


def _op_parser(magic: str, what: str, option: str, metavar: str, help: str) -> MagicParser:
    parser = MagicParser(magic, next=f"{magic}?")
    parser.add_argument(
        "name",
        nargs="?",
        metavar="NAME",
        help=f"SoftClip or demo::SoftClip; default: the {what}'s name",
    )
    parser.add_argument(
        "-d",
        "--domain",
        metavar="DOMAIN",
        help=f"domain of the op; default: {op_names.DEFAULT_DOMAIN}",
    )
    parser.add_argument(
        "--opset",
        type=int,
        default=1,
        metavar="N",
        help="domain version that introduces the op; default: 1",
    )
    parser.add_argument(option, metavar=metavar, help=help)
    parser.add_argument("-q", "--quiet", action="store_true", help="print nothing")
    parser.add_argument(
        "--run",
        metavar="x=EXPR,...",
        action="append",
        help="then call the op with these inputs and attrs; "
        "extends to the end of the line or to the next --run",
    )
    return parser


def _pyop_parser() -> MagicParser:
    help_ = "also serve nodes of the retired PyOp that name this module"
    return _op_parser("%%pyop", "class", "--module", "MODULE", help_)


def _cppop_parser() -> MagicParser:
    return _op_parser(
        "%%cppop", "function", "--flags", "FLAGS", "for the compiler: --flags=-I/usr/include/eigen3"
    )


def _onnx_parser() -> MagicParser:
    parser = MagicParser("%%onnx", next="%%onnx model")
    parser.add_argument(
        "name", metavar="NAME", help="the variable to assign the model to, an onnx.ModelProto"
    )
    parser.add_argument("-q", "--quiet", action="store_true", help="print nothing")
    return parser


PYOP, CPPOP, ONNX = _pyop_parser(), _cppop_parser(), _onnx_parser()
"""The parsers of the arguments of ``%%pyop``, ``%%cppop`` and ``%%onnx``."""


def parse_pyop_line(line: str, parser: MagicParser = PYOP) -> argparse.Namespace:
    """Parse a ``%%pyop`` line, or raise UsageError.

    ``run`` of the result lists the expressions of each ``--run``.
    """
    # Expressions are not split as a shell would: their quotes and spaces are Python's.
    head, *runs = _RUN.split(line)
    args: argparse.Namespace = parser.parse_args(split_words(head))
    args.magic = parser.magic
    args.run = [_run_expressions(text, parser.magic) for text in runs]
    refuse_domain(args)
    full_op_name(args, "OpType")
    try:
        op_names.check_opset(args.opset, args.magic)
    except PyopError as error:
        raise UsageError(str(error)) from None
    return args


def _run_expressions(text: str, magic: str) -> str:
    where = f"{magic} --run"
    try:
        return check_expressions(text)
    except SyntaxError:
        next_ = f"{where} x=np.float32([1, 2]), limit=2.0"
        raise usage_error(where, "x=EXPR, y=EXPR", sanitize(text), next_) from None


def full_op_name(args: argparse.Namespace, class_name: str) -> str:
    """Return ``domain::OpType`` for a class of the cell."""
    name = args.name or class_name
    domain, colons, op_type = map(sanitize, (args.domain or "").partition("::"))
    if colons:
        where, got = f"{args.magic}, --domain", sanitize(args.domain)
        raise usage_error(where, "a domain", got, f"-d {domain} {op_type}")
    try:
        if args.domain is None:
            return "::".join(op_names.split_name(name))
        if "::" in name:
            text = f"{name} and --domain {args.domain} name two domains"
            raise PyopError(f"{args.magic}: {text}", next="leave one out")
        return "::".join(op_names.split_name(f"{args.domain}::{name}"))
    except PyopError as error:
        raise UsageError(str(error)) from None


def refuse_domain(args: argparse.Namespace, class_name: str = "") -> None:
    """Raise UsageError for a NAME that is most likely a domain without its ``-d``.

    The name of the class is empty if it is not known yet.
    """
    name = args.name or ""
    # No -d is missing where there is a domain, or the name is the class's own.
    if args.domain is not None or "::" in name or name in ("", class_name):
        return
    is_lower = name[0].islower() and class_name[:1].isupper()
    if "." in name or is_lower or name in {op.domain for op in registry}:
        where = f"{args.magic} {sanitize(name)}"
        got = "what looks like a domain"
        if "." not in name:
            got += f"; an op of that name is pyopnb::{sanitize(name)}"
        raise usage_error(where, "the op's type", got, f"{args.magic} -d {sanitize(name)}")


def parse_onnx_line(line: str) -> argparse.Namespace:
    """Parse an ``%%onnx`` line, or raise UsageError."""
    args: argparse.Namespace = ONNX.parse_args(split_words(line))
    if not args.name.isidentifier() or keyword.iskeyword(args.name):
        raise usage_error(
            "%%onnx, NAME", "a valid variable name", sanitize(args.name), "%%onnx clipper"
        )
    return args


# On Windows a backslash is a part of a path.
_ESCAPE = "" if os.name == "nt" else "\\"


def split_words(line: str) -> list[str]:
    """Split a line into words as a shell of this system would."""
    lexer = shlex.shlex(line, posix=True)
    lexer.whitespace_split = True
    lexer.commenters = ""
    lexer.escape = _ESCAPE
    try:
        return list(lexer)
    except ValueError as error:
        # shlex raises for a quote that is not closed.
        raise UsageError(f"{error}: {sanitize(line.strip())}") from None


def usage_error(where: str, expected: str, got: str, next: str) -> UsageError:
    """Make the error for a wrong line, in the form of all messages."""
    return UsageError(str(PyopError(where, expected=expected, got=got or "nothing", next=next)))
