"""What the lines of ``%%pyop`` and ``%pyop`` are completed with."""

from __future__ import annotations

import argparse
from collections.abc import Iterable

from IPython.core.completer import CompletionContext, SimpleCompletion, SimpleMatcherResult, context_matcher

from pyopnb.models.io import as_proto
from pyopnb.models.nodes import first_output, walk
from pyopnb.notebook.arguments import CELL
from pyopnb.notebook.commands import COMMANDS
from pyopnb.notebook.names import files, model_of, models
from pyopnb.ops.errors import PyopError
from pyopnb.ops.registry import DEFAULT_DOMAIN, registry

__all__ = ["complete"]

_Offered = Iterable[tuple[str, str]]


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
        offered = None
    if offered is None:
        return SimpleMatcherResult(completions=[])
    completions = [SimpleCompletion(text, type=kind) for text, kind in offered if text.startswith(fragment)]
    return SimpleMatcherResult(completions=completions, suppress=True, matched_fragment=fragment)


def _for_cell(words: list[str], fragment: str) -> _Offered | None:
    if "--run" in words:
        return None  # expressions are completed as Python is
    taking = CELL._option_string_actions.get(words[-1]) if words else None
    if taking is not None and taking.nargs != 0:
        return [(choice, "value") for choice in _choices(taking)]
    options = [(option, "option") for action in CELL._actions for option in action.option_strings]
    return options if fragment.startswith("-") else [*_ops(), *options]


def _choices(action: argparse.Action) -> Iterable[str]:
    if action.dest == "domain":
        return sorted({DEFAULT_DOMAIN, *(op.domain for op in registry if op.domain)})
    return map(str, action.choices or ([action.default] if action.default is not None else []))


def _for_line(words: list[str], fragment: str) -> _Offered | None:
    if not words:
        return [(name, "keyword") for name in COMMANDS]
    command = COMMANDS.get(words[0])
    if command is None:
        return []
    places = [word for word in words[1:] if not word.startswith("--")]
    options = [(option, "option") for option in command.options if option not in words]
    if fragment.startswith("-"):
        return options
    if len(places) < len(command.takes):
        kind = command.takes[len(places)]
    elif command.most is None:
        kind = command.takes[-1]
    else:
        return None if "x=EXPR" in command.form else options
    return _of_kind(kind, places, fragment)


def _of_kind(kind: str, places: list[str], fragment: str) -> _Offered:
    """What may stand where the form has this word."""
    if kind == "MODEL":
        return models(fragment)
    if kind == "FILE.py":
        return files(fragment, ".py")
    if kind == "NODE":
        return _nodes(places[0])
    if kind == "OP":
        return [(name, text) for name, text in _ops() if name not in places]
    return [(str(version.number), "value") for version in registry.history(places[0])] if places[0] in registry else []


def _nodes(model: str) -> _Offered:
    try:
        sites = list(walk(as_proto(model_of(model))))
    except PyopError:  # no such model, or not yet: nothing to offer from it
        return []
    names = [site.node.name or first_output(site.node) for site in sites]
    return [(name, "instance") for name in names if name and not set(name) & set(" '\"\\") and name.isprintable()]


def _ops() -> list[tuple[str, str]]:
    return [(op.name, "class") for op in registry]
