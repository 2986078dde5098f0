"""Complete lines of the magics, ``%%onnx`` cells, and arguments that IPython cannot know.

These arguments are feeds, attrs and names of ops. Keys, as in ``trace["``, and parameters of
functions are completed by IPython itself, which asks the object.
"""

from __future__ import annotations

import glob
import os

from IPython.core.completer import (
    CompletionContext,
    SimpleCompletion,
    SimpleMatcherResult,
    context_matcher,
)
from onnx import ModelProto

from pyopnb.engine import op_names, registry
from pyopnb.errors import UnknownName
from pyopnb.notebook.arguments import CPPOP, ONNX, PYOP
from pyopnb.notebook.call_completion import complete_call, nodes_of
from pyopnb.notebook.commands import COMMANDS, find_model
from pyopnb.notebook.expressions import user_namespace
from pyopnb.notebook.text_completion import complete_text

__all__ = ["complete"]

_CELL_MAGICS = {"%%pyop": PYOP, "%%cppop": CPPOP, "%%onnx": ONNX}


# IPython has no types there.
@context_matcher(identifier="pyopnb")  # type: ignore[untyped-decorator]
def complete(context: CompletionContext) -> SimpleMatcherResult:
    """Offer the completions at the cursor.

    The IPython matchers are suppressed where nothing else is valid.
    """
    lines = context.full_text.split("\n")[: context.cursor_line]
    text = "\n".join([*lines, context.text_until_cursor])
    line = context.text_until_cursor.lstrip()
    magic, *words = line.split() or [""]
    body = text.lstrip().partition("\n")[2]
    if line == magic and magic.startswith("%"):
        # The name of the magic itself is IPython's to complete.
        return _result([], "", only=False)
    fragment = words.pop() if words and not line[-1].isspace() else ""
    candidates: list[str] | None = None
    if text.lstrip().startswith("%%onnx") and "\n" in text.lstrip():
        candidates, fragment = complete_text(body)
        return _result(candidates, fragment, only=True)
    if magic == "%pyop":
        candidates = _for_command(words, fragment)
    elif magic in _CELL_MAGICS and not body and "--run" not in words:
        candidates = _for_cell_magic(magic, words)
    if candidates is not None:
        return _result(candidates, fragment, only=True)
    # Expressions of a magic's line are Python, as everything else is.
    candidates, fragment = complete_call(text)
    is_name = bool(candidates) and not candidates[0].endswith("=")
    return _result(candidates, fragment, only=is_name or (bool(candidates) and not fragment))


def _result(candidates: list[str], fragment: str, *, only: bool) -> SimpleMatcherResult:
    fitting = dict.fromkeys(text for text in candidates if text.startswith(fragment))
    completions = [SimpleCompletion(text, type="pyopnb") for text in fitting]
    return SimpleMatcherResult(
        completions=completions, suppress=only, matched_fragment=fragment, ordered=only
    )


def _for_cell_magic(magic: str, words: list[str]) -> list[str]:
    """List options and ops, or domains after ``-d``."""
    if words and words[-1] in ("-d", "--domain"):
        domains = {op.domain for op in registry if op.domain}
        return sorted(domains | {op_names.DEFAULT_DOMAIN})
    options = [name for name in _CELL_MAGICS[magic]._option_string_actions if name not in words]
    if magic == "%%onnx":
        return options
    return [*options, *_op_names()]


def _for_command(words: list[str], fragment: str) -> list[str] | None:
    """List the arguments of a ``%pyop`` command at the cursor; return None for an expression."""
    if not words:
        return list(COMMANDS)
    command = COMMANDS.get(words[0])
    if command is None:
        return []
    if command.takes_expressions and len(words) > 1:
        return None
    options = list(command.parser._option_string_actions)
    arguments = [action.dest for action in command.parser._get_positional_actions()]
    typed = [word for word in words[1:] if not word.startswith("--")]
    if fragment.startswith("-") or len(typed) >= len(arguments):
        return options
    return _for_argument(arguments[len(typed)], typed, fragment)


def _for_argument(name: str, typed: list[str], fragment: str) -> list[str]:
    """Complete an argument by its name in the form; ``typed`` are the words before it."""
    if name == "OP":
        names = _op_names()
        # The commands also find an op without its domain.
        if fragment:
            names += [op.partition("::")[2] for op in names]
        return names
    if name == "MODEL":
        models = [key for key, value in user_namespace().items() if isinstance(value, ModelProto)]
        return [*models, *_files(fragment, ".onnx")]
    if name == "FILE":
        return _files(fragment, ".py")
    if name == "NODE":
        try:
            return nodes_of(find_model(typed[0]))
        except UnknownName:
            return []
    if typed and typed[0] in registry:
        return [str(version.number) for version in registry.history(typed[0])]
    return []


def _op_names() -> list[str]:
    return [op.name for op in registry if not op.is_generated]


def _files(fragment: str, ending: str) -> list[str]:
    """List folders, and files with that ending, whose path begins with the fragment."""
    # The folder stays as it was typed: IPython drops texts that do not begin with the fragment, and
    # on Windows both slashes can be typed.
    folder = fragment[: len(fragment) - len(os.path.basename(fragment))]
    slash = folder[-1:] or os.sep
    # The same endings that the commands take, and folders on the way to them.
    paths = []
    for path in sorted(glob.glob(glob.escape(fragment) + "*")):
        typed = folder + os.path.basename(path)
        if os.path.isdir(path):
            paths.append(typed + slash)
        elif path.endswith(ending):
            paths.append(typed)
    return paths
