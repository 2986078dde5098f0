"""``python -m pyopnb``: inspect, compare and complete models in files.

Exit codes: 0 if nothing differs or is missing, 1 if something does or is, 2 if that
could not be determined.
"""

from __future__ import annotations

import argparse
import errno
import importlib.metadata
import os
import platform
import re
import sys
import traceback
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pyopnb
from pyopnb.common import file_writes, messages, sanitize
from pyopnb.diffs import array_diffs, trace_diffs
from pyopnb.display import markup
from pyopnb.engine import model_files, opset_versions, to_model
from pyopnb.errors import InputError, ModelError, PyopError, StayedInPython

__all__ = ["main"]

# The exit codes, the same as for diff and cmp.
_SAME = 0
_DIFFERENT = 1
_ERROR = 2
# Arrays have several endings: see `ENDINGS`.
_MODEL = ".onnx"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command.

    Parameters
    ----------
    arguments : sequence of str, optional
        By default, from the command line.

    Returns
    -------
    int
        The exit code.

    Examples
    --------
    >>> main(["missing", "none.onnx"])
    2
    """
    # Tests and pagers replace the streams by ones that cannot be configured.
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            # A terminal's encoding may lack × or …, which must not end the command.
            stream.reconfigure(errors="backslashreplace")
    args = _parser().parse_args(arguments)
    try:
        # The ops must be defined before a model that uses them is read.
        if args.ops:
            _import_ops(args.ops)
        code = int(args.command(args))
        # A full disk or a closed pipe is noticed here, while it can still be reported.
        sys.stdout.flush()
        return code
    except PyopError as error:
        print(f"pyopnb: {error}".replace("\n", " "), file=sys.stderr)
        return _ERROR
    except KeyboardInterrupt:
        # Shells use this code for a command that Ctrl-C ended.
        return 130
    except Exception as error:
        if _reader_has_gone(error):
            # Python would report that once more at exit.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return _ERROR
        # The exit code of Python would be 1, which means here that something differs.
        traceback.print_exc()
        return _ERROR


def _reader_has_gone(error: Exception) -> bool:
    """Tell whether the program that reads the output has ended."""
    if isinstance(error, BrokenPipeError):
        return True
    # Windows says EINVAL of its pipe, without a file's name.
    is_invalid = isinstance(error, OSError) and error.errno == errno.EINVAL and not error.filename
    return os.name == "nt" and is_invalid


class _Versions(argparse.Action):
    """``--version``, which may print several lines, and needs no command."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        python = f"Python {platform.python_version()} ({platform.platform()})"
        print(f"pyopnb {pyopnb.__version__}", python, *_packages(), sep="\n")
        parser.exit()


def _packages() -> list[str]:
    """Return the versions of the packages that pyopnb names, and of others around ONNX."""
    requirements = importlib.metadata.requires("pyopnb") or []
    named = {_plain_name(re.split(r"[^\w.-]", each)[0]) for each in requirements}
    found: dict[str, str] = {}
    for package in importlib.metadata.distributions():
        # The first on the path is what is imported. onnxruntime has several names.
        name = _plain_name(package.name)
        if name in named or "onnx" in name:
            found.setdefault(name, package.version)
    return [f"{name} {version}" for name, version in sorted(found.items())]


def _plain_name(package: str) -> str:
    return re.sub(r"[-_.]+", "-", package).lower()


def _parser() -> argparse.ArgumentParser:
    # Usage lines and errors begin as the user typed: with the installed script or the module.
    if Path(sys.argv[0]).stem == "pyopnb":
        prog = "pyopnb"
    else:
        prog = "python -m pyopnb"
    codes = (
        "Exit codes: 0 if nothing differs or is missing, 1 if something does or is, "
        "2 if that could not be determined."
    )
    parser = argparse.ArgumentParser(prog=prog, description=pyopnb.__doc__, epilog=codes)
    what = "print the versions that a report of a bug needs, and exit"
    parser.add_argument("--version", action=_Versions, nargs=0, help=what)
    commands = parser.add_subparsers(required=True, metavar="{diff,show,missing,fill,catalog}")

    diff = commands.add_parser("diff", help="compare two files", description=_diff.__doc__)
    diff.add_argument("a", help="a model (.onnx), or arrays (.npz, .npy, .pb)")
    diff.add_argument("b", help="the reference")
    diff.add_argument(
        "--feeds",
        metavar="F.npz",
        help="run both models on these arrays, and compare their outputs",
    )
    diff.add_argument(
        "--trace", action="store_true", help="with --feeds: compare every intermediate tensor too"
    )
    diff.add_argument(
        "--fill",
        action="store_true",
        help="with --feeds: let the ONNX reference run nodes that the runtime lacks",
    )
    diff.add_argument(
        "--on",
        metavar="RUNTIME",
        help=(
            "with --feeds: trace both, and b on onnxruntime==1.25.0, another version, "
            "or the path of a Python"
        ),
    )
    diff.add_argument("--rtol", type=float, help="|a - b| <= atol + rtol * |b| passes")
    diff.add_argument("--atol", type=float)
    diff.add_argument("--stol", type=float, help="… + stol * the largest |b| of the array")
    diff.add_argument("--json", action="store_true", help="print JSON, which from_json can read")
    diff.add_argument("--html", metavar="OUT.html", help="also write an HTML page")
    diff.set_defaults(command=_diff)

    show = commands.add_parser("show", help="draw a model", description=_show.__doc__)
    show.add_argument("model")
    show.add_argument(
        "--save",
        metavar="OUT.svg",
        help="write a picture (.svg, .png) or a page (.html), and print nothing",
    )
    show.set_defaults(command=_show)

    missing = commands.add_parser(
        "missing",
        help="list the nodes that the installed ONNX Runtime cannot run",
        description=_missing.__doc__,
    )
    missing.add_argument("model")
    missing.set_defaults(command=_missing)

    fill = commands.add_parser(
        "fill",
        help=(
            "write a copy in which Python, or with --lower plain ONNX operators, "
            "run what is missing"
        ),
        description=_fill.__doc__,
    )
    fill.add_argument("model")
    fill.add_argument("-o", "--output", metavar="OUT.onnx", required=True)
    fill.add_argument(
        "--lower",
        action="store_true",
        help=(
            "write plain ONNX operators, compared with the Python, "
            "so that plain ONNX Runtime runs the copy"
        ),
    )
    fill.add_argument(
        "--feeds", metavar="F.npz", help="with --lower: compare on these arrays, by input name"
    )
    fill.add_argument(
        "--finite", action="store_true", help="with --lower: no array has NaN or infinity"
    )
    fill.set_defaults(command=_fill)

    catalog = commands.add_parser(
        "catalog", help="list the operators that fill knows", description=_catalog.__doc__
    )
    catalog.add_argument("text", nargs="*", metavar="TEXT", help="words that must all occur")
    catalog.set_defaults(command=_catalog)
    # Any of them can meet a model whose ops are defined in a module of the user.
    for command in (diff, show, missing, fill, catalog):
        command.add_argument(
            "--ops",
            metavar="MODULE",
            help="first import this module, which defines ops of the model",
        )
    return parser


# ---- commands ------------------------------------------------------------------------------------


def _diff(args: argparse.Namespace) -> int:
    """Compare two models or two files of arrays.

    Models are compared by their nodes or, with feeds, by their outputs. Outputs that differ are
    followed by the first divergence.
    """
    kinds = [_kind(args.a), _kind(args.b)]
    if args.feeds is not None and kinds != [_MODEL, _MODEL]:
        raise InputError(
            "diff --feeds",
            expected="two .onnx files",
            got=" and ".join(kinds),
            next="leave --feeds out",
        )
    if args.trace and args.feeds is None:
        raise InputError(
            "diff --trace", expected="--feeds with it", got="none", next="--feeds F.npz"
        )
    if args.on and args.feeds is None:
        raise InputError("diff --on", expected="--feeds with it", got="none", next="--feeds F.npz")
    trace_diff = None
    if kinds.count(_MODEL) == 1:
        expected = "two models, or two files of arrays"
        raise InputError(
            "diff", expected=expected, got=" and ".join(kinds), next="diff a.onnx b.onnx"
        )
    # Another runtime gives all tensors anyway, and they say where the difference begins.
    result = _compare(args, args.trace or args.on is not None)
    # Outputs that differ raise the question where the difference begins.
    if args.feeds is not None and not args.trace and args.on is None and not result.ok:
        trace_diff = _compare(args, True)
    if args.html is not None:
        _write_page(args, result, trace_diff)
    # JSON is one document, as --json output is meant for a program: the trace is left out.
    if args.json:
        print(result.to_json())
    elif trace_diff is None:
        print(result)
    else:
        print(f"{result}\n\n{trace_diff}")
    if result.ok:
        return _SAME
    return _DIFFERENT


def _write_page(
    args: argparse.Namespace, result: Any, trace_diff: trace_diffs.TraceDiff | None
) -> None:
    title = f"{args.a} against {args.b}"
    body = f"<h1>{markup.escape(title)}</h1><div>{result._repr_html_()}</div>"
    if trace_diff is not None:
        body += f"<div>{trace_diff._repr_html_()}</div>"
    page = markup.document(title, body)

    def write(path: str) -> None:
        file_writes.check_writable(Path(path))
        with file_writes.atomic_write(Path(path)) as file:
            file.stream.write(page.encode())

    _write(args.html, write)


def _show(args: argparse.Namespace) -> int:
    """Print a model, or save a picture of it."""
    # Weights in files beside the model are not read, as a drawing needs their shapes alone.
    view = pyopnb.show(to_model(model_files.read_model(args.model, data=False)))
    if args.save is None:
        print(view)
    else:
        _write(args.save, view.save)
    return _SAME


def _missing(args: argparse.Namespace) -> int:
    """List the nodes of a model that the installed ONNX Runtime cannot run, and why."""
    table = pyopnb.missing(args.model)
    print(table)
    if table:
        return _DIFFERENT
    return _SAME


def _fill(args: argparse.Namespace) -> int:
    """Copy a model, and let Python run the nodes that ONNX Runtime lacks.

    With --lower they are rewritten as the ONNX operators. If a node has neither, the exit code
    is 1 and nothing is written.
    """
    # This command reports by warnings, so they are printed without the line of
    # code that Python adds.
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model = pyopnb.fill(args.model)
        unfilled = bool(pyopnb.missing(model))
        if args.lower and not unfilled:
            # Without feeds, the two are compared on random arrays.
            inputs = []
            if args.feeds is not None:
                inputs.append(_read_feeds(args.feeds))
            model = pyopnb.lower(model, *inputs, finite=args.finite)
    stayed = [w.message for w in caught if isinstance(w.message, StayedInPython)]
    for warning in caught:
        print(warning.message, file=sys.stderr)
    if unfilled or stayed:
        return _DIFFERENT
    _write(args.output, lambda path: pyopnb.save(model, path))
    # The lines above said what Python would run: of the file that is no longer true.
    if args.lower:
        print(f"{args.output}: every node in plain ONNX operators", file=sys.stderr)
    return _SAME


def _catalog(args: argparse.Namespace) -> int:
    """List the operators that fill runs where neither ONNX Runtime nor the ONNX reference can."""
    print(pyopnb.catalog.search(" ".join(args.text)))
    return _SAME


# ---- files ---------------------------------------------------------------------------------------


def _kind(path: str) -> str:
    endings = (_MODEL, *array_diffs.ENDINGS)
    ending = Path(path).suffix.lower()
    if ending not in endings:
        expected = f"a name that ends in {', '.join(endings)}"
        raise InputError(f"file {path}", expected=expected, got=sanitize(ending) or "no ending")
    return ending


def _compare(args: argparse.Namespace, trace: bool) -> Any:
    """Compare the two files or, with feeds, the two models' outputs or traces."""
    if args.feeds is None:
        a, b = map(_read_side, (args.a, args.b))
    else:
        feeds = _read_feeds(args.feeds)
        a = _run_model(args.a, feeds, trace, args.fill)
        b = _run_model(args.b, feeds, trace, args.fill, args.on)
    return pyopnb.diff(a, b, rtol=args.rtol, atol=args.atol, stol=args.stol)


def _read_side(path: str) -> Any:
    # A text counts as a model only if it ends in .onnx in lower case; a Path always does.
    if _kind(path) == _MODEL:
        return Path(path)
    return array_diffs.arrays_in(path)


def _read_feeds(path: str) -> dict[str, Any]:
    if Path(path).suffix.lower() != ".npz":
        raise InputError(
            f"feeds {path}",
            expected="a .npz file",
            got="another",
            next="np.savez(path, x=x)",
        )
    feeds = array_diffs.arrays_in(path)
    assert isinstance(feeds, dict)  # noqa: S101  # as for every .npz file
    return feeds


def _run_model(
    path: str, feeds: dict[str, Any], trace: bool, fill: bool, on: str | None = None
) -> Any:
    """Run a model, and return its outputs or its trace."""
    where = f"model {sanitize(path)}"
    try:
        if on is not None:
            return pyopnb.trace(path, feeds, on=on)
        session = pyopnb.Session(path, fill=fill)
        if trace:
            return session.trace(feeds, times=False)
        return dict(session(feeds).items())
    except PyopError as error:
        # The message names the file already.
        if where in error.where:
            raise
        # The advice is for a notebook; on the command line the same thing is an option.
        advice = error.next
        if advice == opset_versions.FILL:
            advice = "--fill"
        elif advice and advice.startswith(("%pyop skeleton", "pyopnb.skeleton")):
            advice = "--ops MODULE, with a module that defines it"
        raise messages.moved(error, f"{where}: {error.where}", advice) from None
    except Exception as error:
        # ONNX Runtime or an op raised it, and the line of the op says more than pyopnb's frames.
        reason = sanitize(f"{type(error).__name__}: {error}", 600)
        raise ModelError(f"{where}: {reason}{_origin(error)}") from None


def _origin(error: Exception) -> str:
    """Name the line of the user's code that raised; empty if the runtime raised."""
    internal = (str(Path(pyopnb.__file__).parent), "<frozen ")
    # Only frames of the user's own files say where to look.
    frames = list(traceback.extract_tb(error.__traceback__))
    frames = [
        frame
        for frame in frames
        if not frame.filename.startswith(internal) and "onnxruntime" not in frame.filename
    ]
    if frames:
        return f", at {sanitize(frames[-1].filename)}:{frames[-1].lineno}"
    return ""


def _import_ops(name: str) -> None:
    """Import the module that the user named, also from the current folder."""
    # The installed script, unlike python -m, does not put the current folder on the path.
    if str(Path.cwd()) not in sys.path and "" not in sys.path:
        sys.path.insert(0, str(Path.cwd()))
    try:
        importlib.import_module(name)
    except Exception as error:
        reason = sanitize(f"{type(error).__name__}: {error}")
        raise ModelError(f"--ops {name}: {reason}{_origin(error)}") from None


def _write(path: str, write: Callable[[str], object]) -> None:
    try:
        write(path)
    except (OSError, ValueError) as error:
        # Some of pyopnb's errors are ValueErrors, and say more than that the file could not be
        # written.
        if isinstance(error, PyopError):
            raise
        raise InputError(
            f"file {path}", expected="a writable file", got=sanitize(str(error))
        ) from None


if __name__ == "__main__":
    sys.exit(main())
