"""Completion of the lines of ``%%pyop``, ``%pyop`` and ``%%onnx``."""

from __future__ import annotations

import os
from argparse import Action, ArgumentParser
from collections.abc import Iterable

from IPython.core.completer import CompletionContext, SimpleCompletion, SimpleMatcherResult, context_matcher
from onnx import ModelProto

from pyopnb.models.io import as_proto
from pyopnb.models.nodes import first_output, walk
from pyopnb.notebook.arguments import ONNX, PYOP
from pyopnb.notebook.commands import COMMANDS, find_model, user_namespace
from pyopnb.ops.errors import PyopError
from pyopnb.ops.registry import DEFAULT_DOMAIN, registry

__all__ = ["complete"]

_Candidates = Iterable[tuple[str, str]]
"""Texts, and what IPython shows as the type of each."""


@context_matcher(identifier="pyopnb.magics")  # type: ignore[untyped-decorator]  # IPython has no types there
def complete(context: CompletionContext) -> SimpleMatcherResult:
    """Complete the line of one of our magics, and suppress all other matchers there."""
    before = context.text_until_cursor.lstrip()
    magic, *words = before.split() or [""]
    if not words and not before.endswith(" "):
        return SimpleMatcherResult(completions=[])
    fragment = "" if before[-1].isspace() else words.pop()
    is_first_line = not "".join(context.full_text.split("\n")[: context.cursor_line]).strip()
    candidates: _Candidates | None = None
    if magic == "%pyop":
        candidates = _for_command(words, fragment)
    elif magic == "%%pyop" and is_first_line:
        candidates = _for_pyop_cell(words, fragment)
    elif magic == "%%onnx" and is_first_line:
        candidates = _options(ONNX)
    if candidates is None:
        return SimpleMatcherResult(completions=[])
    completions = [SimpleCompletion(text, type=kind) for text, kind in candidates if text.startswith(fragment)]
    return SimpleMatcherResult(completions=completions, suppress=True, matched_fragment=fragment)


def _options(parser: ArgumentParser) -> list[tuple[str, str]]:
    return [(option, "option") for action in parser._actions for option in action.option_strings]


def _for_pyop_cell(words: list[str], fragment: str) -> _Candidates | None:
    if "--run" in words:
        return None  # expressions are completed as Python
    option = PYOP._option_string_actions.get(words[-1]) if words else None
    if option is not None and option.nargs != 0:
        return [(value, "value") for value in _values(option)]
    return _options(PYOP) if fragment.startswith("-") else [*_ops(), *_options(PYOP)]


def _values(option: Action) -> Iterable[str]:
    if option.dest == "domain":
        return sorted({DEFAULT_DOMAIN, *(op.domain for op in registry if op.domain)})
    return map(str, option.choices or ([option.default] if option.default is not None else []))


def _for_command(words: list[str], fragment: str) -> _Candidates | None:
    if not words:
        return [(name, "keyword") for name in COMMANDS]
    command = COMMANDS.get(words[0])
    if command is None:
        return []
    arguments = [word for word in words[1:] if not word.startswith("--")]
    options = [(option, "option") for option in command.options if option not in words]
    if fragment.startswith("-"):
        return options
    if len(arguments) < len(command.placeholders):
        placeholder = command.placeholders[len(arguments)]
    elif command.most is None:
        placeholder = command.placeholders[-1]
    else:
        return None if command.takes_expressions else options
    return _for_placeholder(placeholder, arguments, fragment)


def _for_placeholder(placeholder: str, arguments: list[str], fragment: str) -> _Candidates:
    if placeholder == "MODEL":
        return _models(fragment)
    if placeholder == "FILE.py":
        return _files(fragment, ".py")
    if placeholder == "NODE":
        return _nodes(arguments[0])
    if placeholder == "OP":
        return [(name, kind) for name, kind in _ops() if name not in arguments]
    return [(str(version.number), "value") for version in registry.history(arguments[0])] if arguments[0] in registry else []


def _nodes(model: str) -> _Candidates:
    try:
        sites = list(walk(as_proto(find_model(model))))
    except PyopError:  # no such model, or not yet: no candidates
        return []
    names = [site.node.name or first_output(site.node) for site in sites]
    return [(name, "instance") for name in names if name and not set(name) & set(" '\"\\") and name.isprintable()]


def _ops() -> list[tuple[str, str]]:
    return [(op.name, "class") for op in registry]


def _models(fragment: str) -> _Candidates:
    """Variables of the notebook that hold a model, folders, and files that end in ``.onnx``."""
    variables = user_namespace().items() if os.sep not in fragment else ()
    names = [(name, "instance") for name, value in variables if isinstance(value, ModelProto) and name[0] != "_"]
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
    return [(path, "path") for path, name in sorted(paths) if path.endswith((os.sep, ending)) and (start or name[0] != ".")]
