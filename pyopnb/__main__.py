"""``python -m pyopnb``: models and arrays in files, looked at and held against each other.

Exit codes: 0 where nothing differs and nothing is missing, 1 where something does or is, 2 where that cannot be said.
"""

from __future__ import annotations

import argparse
import html
import importlib
import json
import os
import sys
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pyopnb
from pyopnb.diffs.arrays.diff import Diff
from pyopnb.diffs.arrays.files import ENDINGS, arrays_in
from pyopnb.diffs.models.diff import ModelDiff
from pyopnb.diffs.traces.diff import TraceDiff
from pyopnb.models.io import read_model, to_model
from pyopnb.ops.errors import FeedError, ModelError, PyopError, sanitize

__all__ = ["main"]

_FINE, _UNLIKE, _WRONG = 0, 1, 2
_MODEL, _SAVED = ".onnx", ".json"
_FORMATS: dict[str, Any] = {"pyopnb.diff": Diff, "pyopnb.model-diff": ModelDiff, "pyopnb.trace-diff": TraceDiff}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; what it returns is the exit code.

    Parameters
    ----------
    arguments : sequence of str, optional
        Those of the command line.

    Examples
    --------
    >>> main(["missing", "none.onnx"])
    2
    """
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")  # where the encoding lacks × or …
    given = _parser().parse_args(arguments)
    try:
        if given.ops:
            _imported(given.ops)
        code = int(given.command(given))
        sys.stdout.flush()
        return code
    except PyopError as error:
        return _refused(str(error))
    except BrokenPipeError:
        # Who reads has gone. Python would complain of it once more while it exits.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return _WRONG
    except KeyboardInterrupt:
        return 130  # as a shell has it
    except Exception:
        traceback.print_exc()  # nothing that we know of; Python's own code would be 1, which says something else here
        return _WRONG


def _refused(text: str) -> int:
    print(f"pyopnb: {text}".replace("\n", " "), file=sys.stderr)
    return _WRONG


def _parser() -> argparse.ArgumentParser:
    prog = "pyopnb" if Path(sys.argv[0]).stem == "pyopnb" else "python -m pyopnb"
    codes = "Exit codes: 0 nothing differs or is missing, 1 something does or is, 2 that could not be found out."
    parser = argparse.ArgumentParser(prog=prog, description=pyopnb.__doc__, epilog=codes)
    parser.add_argument("--version", action="version", version=f"pyopnb {pyopnb.__version__}")
    commands = parser.add_subparsers(required=True, metavar="{diff,show,missing}")

    diff = commands.add_parser("diff", help="hold two files against each other", description=_diff.__doc__)
    diff.add_argument("a", help="a model (.onnx), arrays (.npz, .npy, .pb), or a diff that was saved (.json)")
    diff.add_argument("b", nargs="?", help="the reference; none beside a saved diff")
    diff.add_argument("--feeds", metavar="F.npz", help="run both models on these arrays, and compare what they give")
    diff.add_argument("--trace", action="store_true", help="with --feeds, compare every tensor on the way")
    diff.add_argument("--rtol", type=float, help="|a - b| <= atol + rtol * |b| passes")
    diff.add_argument("--atol", type=float)
    diff.add_argument("--json", action="store_true", help="print JSON, which this command and from_json read")
    diff.add_argument("--html", metavar="OUT.html", help="write a page as well")
    diff.set_defaults(command=_diff)

    show = commands.add_parser("show", help="draw a model", description=_show.__doc__)
    show.add_argument("model")
    show.add_argument("--save", metavar="OUT.svg", help="write a picture (.svg, .png) or a page (.html), and print nothing")
    show.set_defaults(command=_show)

    missing = commands.add_parser("missing", help="list what the installed ONNX Runtime lacks", description=_missing.__doc__)
    missing.add_argument("model")
    missing.set_defaults(command=_missing)
    for command in (diff, show, missing):
        command.add_argument("--ops", metavar="MODULE", help="import this module first: it defines ops of the model")
    return parser


# ---- commands ----------------------------------------------------------------------------------------------------------------


def _diff(given: argparse.Namespace) -> int:
    """Say what sets two models apart: their nodes, or, with feeds, where what they give parts; or two files of arrays."""
    kinds = [_kind(path) for path in (given.a, given.b) if path is not None]
    if given.feeds is not None and kinds != [_MODEL, _MODEL]:
        raise FeedError("diff --feeds", expected="two .onnx files beside it", got=" and ".join(kinds))
    if given.trace and given.feeds is None:
        raise FeedError("diff --trace", expected="--feeds beside it", got="none", next="--feeds F.npz")
    why = None
    if kinds == [_SAVED]:
        found = _saved(given.a)
        if given.rtol is not None or given.atol is not None:
            found = found.judged(rtol=given.rtol, atol=given.atol)
    elif len(kinds) == 1 or _SAVED in kinds or kinds.count(_MODEL) == 1:
        expected = "two models, two files of arrays, or one saved diff"
        raise FeedError("diff", expected=expected, got=" and ".join(kinds))
    else:
        found = _apart(given, given.trace)
        if given.feeds is not None and not given.trace and not found.ok:
            why = _apart(given, True)
    if given.html is not None:
        body = "".join(f"<div>{one._repr_html_()}</div>" for one in (found, why) if one is not None)
        page = _page(f"{given.a} against {given.b}" if given.b else given.a, body)
        _written(given.html, lambda path: Path(path).write_text(page, encoding="utf-8"))
    print(found.to_json() if given.json else found if why is None else f"{found}\n\n{why}")
    return _FINE if found.ok else _UNLIKE


def _show(given: argparse.Namespace) -> int:
    """Print a model, or save a picture of it."""
    view = pyopnb.show(to_model(read_model(given.model, data=False)))
    if given.save is None:
        print(view)
    else:
        _written(given.save, view.save)
    return _FINE


def _missing(given: argparse.Namespace) -> int:
    """List the nodes of a model that the installed ONNX Runtime cannot run, and why."""
    found = pyopnb.missing(given.model)
    print(found)
    return _UNLIKE if found else _FINE


# ---- what commands work with -------------------------------------------------------------------------------------------------


def _kind(path: str) -> str:
    known = (_MODEL, *ENDINGS, _SAVED)
    ending = Path(path).suffix.lower()
    if ending not in known:
        expected = f"a name that ends in {', '.join(known)}"
        raise FeedError(f"file {sanitize(path)}", expected=expected, got=sanitize(ending) or "no ending")
    return ending


def _apart(given: argparse.Namespace, trace: bool) -> Any:
    """What sets the two files apart, or, with feeds, what they give: all of it where it is traced."""
    if given.feeds is None:
        one, two = _held(given.a), _held(given.b)
    else:
        feeds = _feeds(given.feeds)
        one, two = _ran(given.a, feeds, trace), _ran(given.b, feeds, trace)
    return pyopnb.diff(one, two, rtol=given.rtol, atol=given.atol)


def _held(path: str) -> Any:
    return Path(path) if _kind(path) == _MODEL else arrays_in(path)


def _feeds(path: str) -> dict[str, Any]:
    if Path(path).suffix.lower() != ".npz":
        raise FeedError(f"feeds {sanitize(path)}", expected="a .npz file", got="another", next="np.savez(path, x=x)")
    found = arrays_in(path)
    assert isinstance(found, dict)  # noqa: S101  # of an .npz file it is
    return found


def _ran(path: str, feeds: dict[str, Any], trace: bool) -> Any:
    """What a model gives for the feeds, or all that is there on the way."""
    where = f"model {sanitize(path)}"
    try:
        session = pyopnb.Session(path)
        if trace:
            return session.trace(feeds, times=False)
        return dict(zip([one.name for one in session.get_outputs()], session.run(None, feeds), strict=True))
    except PyopError as error:
        if where in error.where:
            raise
        raise ModelError(f"{where}: {error}".rstrip(".")) from None
    except Exception as error:  # ONNX Runtime's, or what an op raised: the command cannot go on, and its code is not 1
        raise ModelError(f"{where}: {sanitize(f'{type(error).__name__}: {error}', 600)}{_place(error)}") from None


def _place(error: Exception) -> str:
    """Where an op raised; nothing where the runtime did."""
    frames = traceback.extract_tb(error.__traceback__)
    home = str(Path(pyopnb.__file__).parent)
    others = (home, "<frozen ")
    outside = [frame for frame in frames if not frame.filename.startswith(others) and "onnxruntime" not in frame.filename]
    return f", at {sanitize(outside[-1].filename)}:{outside[-1].lineno}" if outside else ""


def _saved(path: str) -> Any:
    where = f"file {sanitize(path)}"
    try:
        text = Path(path).read_text(encoding="utf-8")
        held = json.loads(text)
    except (OSError, ValueError, RecursionError) as error:
        raise FeedError(where, expected="a saved diff", got=sanitize(str(error))) from None
    kind = held.get("format") if isinstance(held, dict) else None
    if not isinstance(kind, str) or kind not in _FORMATS:
        raise FeedError(where, expected=f"JSON with format {' or '.join(_FORMATS)}", got=sanitize(text, 80).replace("\n", " "))
    try:
        return _FORMATS[kind].from_json(text)
    except PyopError as error:
        raise FeedError(f"{where}: {error}".rstrip(".")) from None


def _imported(name: str) -> None:
    """Import the module that the user names, also from the current folder."""
    if str(Path.cwd()) not in sys.path and "" not in sys.path:
        sys.path.insert(0, str(Path.cwd()))
    try:
        importlib.import_module(name)
    except Exception as error:
        raise ModelError(f"--ops {sanitize(name)}: {sanitize(f'{type(error).__name__}: {error}')}{_place(error)}") from None


def _written(path: str, write: Callable[[str], object]) -> None:
    try:
        write(path)
    except (OSError, ValueError) as error:
        if isinstance(error, PyopError):
            raise
        raise FeedError(f"file {sanitize(path)}", expected="a file that can be written", got=sanitize(str(error))) from None


def _page(title: str, body: str) -> str:
    said = html.escape(sanitize(title))
    head = f'<meta charset="utf-8"><meta name="color-scheme" content="light dark"><title>{said}</title>'
    style = "font-family:sans-serif;max-width:60em;margin:2em auto;padding:0 1em"
    return f'<!doctype html>\n<html lang="en"><head>{head}</head><body style="{style}"><h1>{said}</h1>{body}</body></html>\n'


if __name__ == "__main__":
    sys.exit(main())
