"""Fitted estimators as text in a model file: by skops where it can hold one, else pickled.

Nothing here runs because of a file: `load` is called for the op that the caller of
`pyopnb.load` has named.
"""

from __future__ import annotations

import base64
import importlib
import pickle
import zlib
from typing import Any

import joblib

from pyopnb.common import sanitize
from pyopnb.engine import pickling
from pyopnb.errors import DefinitionError, ModelError

__all__ = ["digest", "dump", "load", "module_text"]

# Half of the characters that a saved op may have: line breaks and quotes take two each.
_MOST_CHARACTERS = 2**23

_SKOPS_TEXT = (
    "# The fitted estimator is below, as skops wrote it. "
    "skops makes objects of scikit-learn, NumPy and these types only:"
)
_PICKLE_TEXT = (
    "# The fitted estimator is below, as a pickle. UNPICKLING RUNS CODE: "
    "the code that the author of the file put into it runs with this\n"
    "# op, and reading these lines does not show it. "
    "Name this op only if you trust the author of the file."
)


def digest(parts: Any) -> str | None:
    """Digest parts to a text that is equal for equal parts; None where they cannot be pickled."""
    try:
        return str(joblib.hash(parts))
    except Exception:
        # A lambda, or the results of a search: pickle refuses by many exceptions.
        return None


def dump(where: str, estimator: Any) -> tuple[str, str, tuple[str, ...]]:
    """Write an estimator as text.

    Parameters
    ----------
    where : str
        The op, for the error.

    Returns
    -------
    tuple
        The text, its format (``skops`` or ``pickle``), and the types that skops
        must be told to trust.

    Raises
    ------
    DefinitionError
        It cannot be pickled.
    """
    written = _by_skops(estimator)
    if written is None:
        try:
            # A lambda, a function or a class of the notebook goes by value.
            written = pickling.dumps(estimator), "pickle", ()
        except Exception as error:
            # __reduce__ of any class may raise anything.
            got = f"{type(estimator).__name__}, of which pickle says: {sanitize(error, 80)}"
            expected = "an estimator that can be pickled"
            raise DefinitionError(where, expected=expected, got=got) from error
    data, format_, trusted = written
    return base64.b85encode(zlib.compress(data, 9)).decode(), format_, trusted


def _skops() -> Any:
    try:
        return importlib.import_module("skops.io")
    except ModuleNotFoundError:
        return None


def _by_skops(estimator: Any) -> tuple[bytes, str, tuple[str, ...]] | None:
    """Write an estimator by skops; None if skops cannot read it back or is not installed."""
    skops = _skops()
    if skops is None:
        return None
    # Reading it back finds parts that skops writes and cannot read, before the file is used.
    try:
        data = skops.dumps(estimator)
        trusted = tuple(skops.get_untrusted_types(data=data))
        skops.loads(data, trusted=list(trusted))
    except Exception:
        # skops refuses by many exceptions.
        return None
    # skops names classes of the notebook, which another process does not find.
    if any(name.startswith("__main__.") for name in trusted):
        return None
    return data, "skops", trusted


def load(where: str, text: str, format_: str | None, trusted: tuple[str, ...]) -> Any:
    """Read an estimator from text that `dump` wrote; a pickle can run anything.

    Raises
    ------
    ModelError
        The text is damaged, or skops is not installed here.
    """
    try:
        data = zlib.decompress(base64.b85decode(text))
    except (ValueError, zlib.error) as error:
        raise ModelError(
            f"op {where}",
            expected="a fitted estimator",
            got="damaged text",
            next="get the file again",
        ) from error
    if format_ == "pickle":
        return pickle.loads(data)  # noqa: S301  # the caller has named this very text
    skops = _skops()
    if skops is None:
        got = "an environment without it"
        raise ModelError(f"op {where}", expected="skops", got=got, next="pip install skops")
    return skops.loads(data, trusted=list(trusted))


_MODULE = '''\
import pyopnb
from pyopnb.sklearn.columns import Columns
from pyopnb.sklearn.fitted import FittedEstimator

{head}
@pyopnb.pyop("{op}")
class {cls.__name__}(FittedEstimator):
    """{cls.__doc__}"""

    methods = {cls.methods!r}
    outputs = {cls.outputs!r}
    columns = {cls.columns!r}
    reason = {cls.reason!r}
    format = {cls.format!r}
    trusted = {cls.trusted!r}
    stored = (
{blob}
    )
'''


def module_text(cls: Any, op: str) -> str:
    """Write the text of a module that defines an op from the contents of its class."""
    head = _PICKLE_TEXT
    if cls.format != "pickle":
        head = "\n#     ".join([_SKOPS_TEXT, *(cls.trusted or ["(none)"])])
    # Short lines, so that editors and diffs can show the file.
    pieces = []
    for start in range(0, len(cls.stored), 100):
        pieces.append(f"        {cls.stored[start : start + 100]!r}")
    blob = "\n".join(pieces)
    text = _MODULE.format(head=head, op=op, cls=cls, blob=blob)
    if len(text) > _MOST_CHARACTERS:
        raise DefinitionError(
            f"op {op}",
            expected=f"a fitted estimator of at most {_MOST_CHARACTERS:,} characters",
            got=f"{len(text):,}",
            next="keep it beside the model: joblib.dump",
        )
    return text
