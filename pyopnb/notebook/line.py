"""The text behind ``%%pyop`` and ``%pyop``: its parsers, and the completion that reads from them."""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Iterable

from IPython.core.completer import CompletionContext, SimpleCompletion, SimpleMatcherResult, context_matcher
from IPython.core.error import UsageError
from IPython.core.magic_arguments import MagicArgumentParser

from pyopnb.notebook.models import models
from pyopnb.ops.errors import PyopError, shown
from pyopnb.ops.registry import DEFAULT_DOMAIN, check_opset, registry, split_name

__all__ = ["CELL", "SUBCOMMANDS", "complete", "op_name", "read", "read_subcommand"]

SUBCOMMANDS = {
    "history": "%pyop history OP",
    "rollback": "%pyop rollback OP [N]",
    "source": "%pyop source OP [N]",
    "missing": "%pyop missing MODEL",
    "skeleton": "%pyop skeleton MODEL NODE",
}


def _cell_parser() -> MagicArgumentParser:
    parser = MagicArgumentParser("%pyop")  # type: ignore[no-untyped-call]  # IPython has no types there; its formatter adds a %
    parser.add_argument("name", nargs="?", metavar="NAME", help="SoftClip or demo::SoftClip; default: the class's name")
    parser.add_argument("-d", "--domain", metavar="DOMAIN", help=f"domain of the op; default: {DEFAULT_DOMAIN}")
    parser.add_argument(
        "--opset", type=int, default=1, metavar="N", help="version of the domain from which on the op is there; default: 1"
    )
    parser.add_argument("--module", metavar="MODULE", help="also serve the retired PyOp's nodes that ask for this module")
    parser.add_argument("-q", "--quiet", action="store_true", help="print nothing")
    return parser


CELL = _cell_parser()
"""What may stand behind ``%%pyop``."""


def read(line: str) -> argparse.Namespace:
    """The arguments of a ``%%pyop`` line, or UsageError."""
    args: argparse.Namespace = CELL.parse_args(_words(line))
    op_name(args, "OpType")
    try:
        check_opset(args.opset, "%%pyop")
    except PyopError as error:
        raise UsageError(str(error)) from None
    return args


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
        raise UsageError(f"%%pyop: {shown(args.name)} and --domain {shown(args.domain)} name two domains. Try: leave one out")
    return f"{asked}::{op_type}"


def read_subcommand(line: str) -> tuple[str, str, str | None]:
    """Subcommand, op or model, and version or node of a ``%pyop`` line that is not empty, or UsageError."""
    command, *rest = _words(line)
    if command not in SUBCOMMANDS:
        raise _usage("%pyop", f"{', '.join(SUBCOMMANDS)} or nothing", shown(command), " or ".join(SUBCOMMANDS.values()))
    form = SUBCOMMANDS[command]
    most = form.count(" ") - 1
    if not most - form.count("[") <= len(rest) <= most:
        kinds = {"NODE": "a model and a node", "MODEL": "a model's name or path", "[N]": "an op and a version"}
        taken = next((kind for word, kind in kinds.items() if word in form), "an op")
        raise _usage(f"%pyop {command}", taken, shown(" ".join(rest)), form)
    if len(rest) == 2 and "[N]" in form and not rest[1].isdecimal():
        raise _usage(f"%pyop {command}, version", "a number", shown(rest[1]), form)
    return command, rest[0], rest[1] if len(rest) == 2 else None


def _words(line: str) -> list[str]:
    try:
        return shlex.split(line)
    except ValueError as error:  # a quote that is not closed
        raise UsageError(f"{error}: {shown(line)}") from None


def _usage(where: str, expected: str, got: str, next: str) -> UsageError:
    return UsageError(str(PyopError(where, expected=expected, got=got or "nothing", next=next)))


@context_matcher(identifier="pyopnb.pyop")  # type: ignore[untyped-decorator]  # IPython has no types there
def complete(context: CompletionContext) -> SimpleMatcherResult:
    """Complete the line of ``%%pyop`` or ``%pyop``, and let nothing else be mixed in."""
    before = context.text_until_cursor.lstrip()
    magic, *words = before.split() or [""]
    if not words and not before.endswith(" "):
        return SimpleMatcherResult(completions=[])
    fragment = "" if before[-1].isspace() else words.pop()
    if magic == "%%pyop" and not "".join(context.full_text.split("\n")[: context.cursor_line]).strip():
        offered = _for_cell(words, fragment)
    elif magic == "%pyop":
        offered = _for_line(words, fragment)
    else:
        return SimpleMatcherResult(completions=[])
    completions = [SimpleCompletion(text, type=kind) for text, kind in offered if text.startswith(fragment)]
    return SimpleMatcherResult(completions=completions, suppress=True, matched_fragment=fragment)


def _for_cell(words: list[str], fragment: str) -> Iterable[tuple[str, str]]:
    taking = CELL._option_string_actions.get(words[-1]) if words else None
    if taking is not None and taking.nargs != 0:
        return [(choice, "value") for choice in _choices(taking)]
    options = [(option, "option") for action in CELL._actions for option in action.option_strings]
    return options if fragment.startswith("-") else [*_ops(), *options]


def _choices(action: argparse.Action) -> Iterable[str]:
    if action.dest == "domain":
        return sorted({DEFAULT_DOMAIN, *(op.domain for op in registry if op.domain)})
    return map(str, action.choices or ([action.default] if action.default is not None else []))


def _for_line(words: list[str], fragment: str) -> Iterable[tuple[str, str]]:
    if not words:
        return [(command, "keyword") for command in SUBCOMMANDS]
    if words in (["missing"], ["skeleton"]):
        return models(fragment)
    if len(words) == 1:
        return _ops()
    if len(words) == 2 and "[N]" in SUBCOMMANDS.get(words[0], "") and words[1] in registry:
        return [(str(version.number), "value") for version in registry.history(words[1])]
    return []


def _ops() -> list[tuple[str, str]]:
    return [(op.name, "class") for op in registry]
