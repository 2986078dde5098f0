"""Completion of the lines of ``%%pyop`` and ``%pyop``, of ``%%onnx`` cells, and of arguments: feeds, attrs and names of ops.

Keys, as in ``trace["``, are completed by IPython itself, which asks the object.
"""

from __future__ import annotations

import os
from argparse import Action, ArgumentParser
from collections.abc import Iterable

from IPython.core.completer import (
    CompletionContext,
    SimpleCompletion,
    SimpleMatcherResult,
    context_matcher,
)
from onnx import ModelProto

from pyopnb.errors import PyopError
from pyopnb.models.io import as_proto
from pyopnb.models.nodes import first_output, walk
from pyopnb.notebook.argument_completion import Completions, complete_arguments, complete_onnx
from pyopnb.notebook.arguments import CPPOP, ONNX, PYOP
from pyopnb.notebook.commands import COMMANDS, find_model, user_namespace
from pyopnb.ops.names import DEFAULT_DOMAIN
from pyopnb.ops.registry import registry

__all__ = ["complete"]

_Candidates = Iterable[tuple[str, str]]
"""Texts, and what IPython shows as the type of each."""


@context_matcher(identifier="pyopnb.magics")  # type: ignore[untyped-decorator]  # IPython has no types there
def complete(context: CompletionContext) -> SimpleMatcherResult:
    """Complete the line of one of our magics, and suppress all other matchers there."""
    before = context.text_until_cursor.lstrip()
    magic, *words = before.split() or [""]
    if magic.startswith("%") and not words and not before.endswith(" "):
        return SimpleMatcherResult(completions=[])
    fragment = words.pop() if words and not before[-1].isspace() else ""
    is_first_line = not "".join(context.full_text.split("\n")[: context.cursor_line]).strip()
    candidates: _Candidates | None = None
    first_line = context.full_text.lstrip().partition("\n")[0].split()
    if first_line[:1] == ["%%onnx"] and not is_first_line:
        return _result(complete_onnx(_text_before(context)))
    if magic == "%pyop":
        candidates = _for_command(words, fragment)
    elif (
        magic == "%%pyop" and is_first_line and "--run" not in words
    ):  # expressions are completed as Python
        candidates = _for_parser(PYOP, words, fragment)
    elif magic == "%%cppop" and is_first_line and "--run" not in words:
        candidates = _for_parser(CPPOP, words, fragment)
    elif magic == "%%onnx" and is_first_line:
        candidates = [(option, "option") for option in ONNX._option_string_actions]
    if candidates is None:
        return _result(complete_arguments(_text_before(context)))
    completions = [
        SimpleCompletion(text, type=kind) for text, kind in candidates if text.startswith(fragment)
    ]
    return SimpleMatcherResult(completions=completions, suppress=True, matched_fragment=fragment)


def _text_before(context: CompletionContext) -> str:
    return "\n".join(
        [*context.full_text.split("\n")[: context.cursor_line], context.text_until_cursor]
    )


def _result(found: Completions | None) -> SimpleMatcherResult:
    if found is None:
        return SimpleMatcherResult(completions=[])
    completions = [SimpleCompletion(text, type=kind) for text, kind in found.candidates]
    return SimpleMatcherResult(
        completions=completions,
        suppress=found.alone,
        matched_fragment=found.fragment,
        ordered=found.alone,
    )


def _for_command(words: list[str], fragment: str) -> _Candidates | None:
    if not words:
        return [(name, "keyword") for name in COMMANDS]
    command = COMMANDS.get(words[0])
    if command is None:
        return []
    candidates = _for_parser(command.parser, words[1:], fragment)
    return None if command.takes_expressions and len(words) > 1 else candidates


def _for_parser(parser: ArgumentParser, words: list[str], fragment: str) -> _Candidates:
    """Options, values of options, and positional arguments."""
    options = [
        (option, "option") for option in parser._option_string_actions if option not in words
    ]
    positional = [action for action in parser._actions if not action.option_strings]
    arguments: list[str] = []
    pending: Action | None = None  # the option whose value comes next
    for word in words:
        if pending is None and not word.startswith("-"):
            arguments.append(word)
        action = parser._option_string_actions.get(word)
        pending = action if action is not None and action.nargs != 0 else None
    if pending is not None:
        return [(value, "value") for value in _values(pending)]
    if positional and positional[-1].nargs == "*":
        positional += positional[-1:] * len(arguments)
    if fragment.startswith("-") or len(arguments) >= len(positional):
        return options
    candidates = _for_argument(
        str(positional[len(arguments)].metavar or positional[len(arguments)].dest),
        arguments,
        fragment,
    )
    return [*candidates, *options] if positional[0].nargs == "?" else candidates


def _values(option: Action) -> Iterable[str]:
    if option.dest == "domain":
        return sorted({DEFAULT_DOMAIN, *(op.domain for op in registry if op.domain)})
    return [] if option.default is None else [str(option.default)]


def _for_argument(name: str, arguments: list[str], fragment: str) -> _Candidates:
    """Complete an argument by its name in the usage line; ``arguments`` are the words before it."""
    if name == "MODEL":
        return _models(fragment)
    if name == "FILE":
        return _files(fragment, ".py")
    if name == "NODE":
        return _nodes(arguments[0])
    if name in ("OP", "NAME"):
        return [(op.name, "class") for op in registry if op.name not in arguments]
    return (
        [(str(version.number), "value") for version in registry.history(arguments[0])]
        if arguments[0] in registry
        else []
    )


def _nodes(model: str) -> _Candidates:
    try:
        sites = list(walk(as_proto(find_model(model))))
    except PyopError:  # no such model, or not yet: no candidates
        return []
    names = [site.node.name or first_output(site.node) for site in sites]
    return [
        (name, "instance")
        for name in names
        if name and not set(name) & set(" '\"\\") and name.isprintable()
    ]


def _models(fragment: str) -> _Candidates:
    """Variables of the notebook that hold a model, folders, and files that end in ``.onnx``."""
    variables = user_namespace().items() if os.sep not in fragment else ()
    names = [
        (name, "instance")
        for name, value in variables
        if isinstance(value, ModelProto) and name[0] != "_"
    ]
    return [*names, *_files(fragment, ".onnx")]


def _files(fragment: str, ending: str) -> _Candidates:
    """Folders, and files with that ending, whose path begins with the fragment."""
    folder, _, start = fragment.rpartition(os.sep)
    if folder or fragment.startswith(os.sep):
        folder = f"{folder}{os.sep}"
    try:
        with os.scandir(folder or os.curdir) as entries:
            paths = [(f"{folder}{e.name}{os.sep if e.is_dir() else ''}", e.name) for e in entries]
    except OSError:  # no such folder, or it cannot be read: no candidates
        paths = []
    return [
        (path, "path")
        for path, name in sorted(paths)
        if path.endswith((os.sep, ending)) and (start or name[0] != ".")
    ]
