"""Fitted estimators as text in a model file: by skops where it can hold one, else pickled.

Nothing here runs because of a file: `load` is called for the op that the caller of `pyopnb.load` has named.
"""

from __future__ import annotations

import base64
import hashlib
import importlib
import pickle
import types
import zlib
from typing import Any

import numpy as np
from joblib.hashing import NumpyHasher

from pyopnb.models.op_metadata import MAX_SOURCE
from pyopnb.ops.errors import DefinitionError, ModelError, sanitize

__all__ = ["digest", "dump", "load", "module_text"]

_SKOPS_TEXT = (
    "# The fitted estimator is below, as skops wrote it. skops makes objects of scikit-learn's, NumPy's and these types only:"
)
_PICKLE_TEXT = """\
# The fitted estimator is below, as a pickle. UNPICKLING RUNS CODE: whatever the file's author wrote into it is run when this
# op is, and reading these lines does not tell what that is. Name this op only if you trust whoever gave you the file."""


class _Hasher(NumpyHasher):  # type: ignore[misc]  # mypy reads no joblib
    """As `joblib.hash`, but arrays of records by their fields: the bytes between the fields of a tree's nodes are any."""

    def save(self, obj: Any) -> None:
        if isinstance(obj, np.ndarray) and obj.dtype.names:
            obj = {name: np.ascontiguousarray(obj[name]) for name in obj.dtype.names}
        super().save(obj)


def digest(parts: Any) -> str | None:
    """A text that is the same for equal parts; None where they cannot be pickled.

    Parameters
    ----------
    parts : object

    Returns
    -------
    str or None
    """
    try:
        return str(_Hasher("md5").hash(parts))
    except Exception:  # noqa: S110  # of masked arrays of objects, which the results of a search have, and of lambdas
        pass
    try:
        return hashlib.sha1(pickle.dumps(parts), usedforsecurity=False).hexdigest()
    except Exception:  # pickle says it in many ways
        return None


def dump(where: str, estimator: Any) -> tuple[str, str, tuple[str, ...]]:
    """An estimator as text.

    Parameters
    ----------
    where : str
        The op, for the error.
    estimator : object

    Returns
    -------
    tuple
        The text, its format (``skops`` or ``pickle``), and the types that skops must be told to trust.

    Raises
    ------
    DefinitionError
        It holds a function that another process would not find.
    """
    _refuse_functions(where, estimator)
    made = _by_skops(estimator)
    if made is None:
        try:
            made = pickle.dumps(estimator), "pickle", ()
        except Exception as error:
            got = f"{type(estimator).__name__}, of which pickle says: {sanitize(error, 80)}"
            raise DefinitionError(where, expected="an estimator that can be pickled", got=got) from error
    data, format_, trusted = made
    return base64.b85encode(zlib.compress(data, 9)).decode(), format_, trusted


def _skops() -> Any:
    try:
        return importlib.import_module("skops.io")
    except ModuleNotFoundError:
        return None


def _by_skops(estimator: Any) -> tuple[bytes, str, tuple[str, ...]] | None:
    """What skops wrote, if it can read that back; None where it cannot, or is not installed."""
    skops = _skops()
    if skops is None:
        return None
    try:
        data = skops.dumps(estimator)
        trusted = tuple(skops.get_untrusted_types(data=data))
        skops.loads(data, trusted=list(trusted))
    except Exception:  # whatever it cannot hold, it says in its own way
        return None
    return data, "skops", trusted


def load(where: str, text: str, format_: str | None, trusted: tuple[str, ...]) -> Any:
    """An estimator from what `dump` made. Pickles can run anything.

    Parameters
    ----------
    where : str
    text : str
    format_ : str
    trusted : tuple of str

    Returns
    -------
    object

    Raises
    ------
    ModelError
        The text is damaged, or skops is not installed here.
    """
    try:
        data = zlib.decompress(base64.b85decode(text))
    except (ValueError, zlib.error) as error:
        raise ModelError(f"op {where}", expected="a fitted estimator", got="damaged text", next="get the file anew") from error
    if format_ == "pickle":
        return pickle.loads(data)  # noqa: S301  # the caller has named this very text
    skops = _skops()
    if skops is None:
        raise ModelError(f"op {where}", expected="skops", got="an environment without it", next="pip install skops")
    return skops.loads(data, trusted=list(trusted))


def module_text(cls: Any, op: str) -> str:
    """The text of a module that defines an op from what its class has."""
    columns = cls.columns
    if cls.format == "pickle":
        head = _PICKLE_TEXT
    else:
        head = "\n".join([_SKOPS_TEXT, *(f"#     {name}" for name in cls.trusted or ["(none)"])])
    blob = "\n".join(f"        {cls.stored[at : at + 100]!r}" for at in range(0, len(cls.stored), 100))
    lines = [
        "import pyopnb",
        "from pyopnb.sklearn.columns import Columns",
        "from pyopnb.sklearn.fitted import FittedEstimator",
        "",
        head,
        f'@pyopnb.pyop("{op}")',
        f"class {cls.__name__}(FittedEstimator):",
        f'    """{cls.__doc__}"""',
        "",
        f"    methods = {cls.methods!r}",
        f"    outputs = {cls.outputs!r}",
        f"    columns = {columns!r}",
        f"    reason = {cls.reason!r}",
        f"    format = {cls.format!r}",
        f"    trusted = {tuple(cls.trusted)!r}",
        "    stored = (",
        blob,
        "    )",
    ]
    text = "\n".join(lines) + "\n"
    if len(text) > MAX_SOURCE // 2:  # its line breaks and quotes take two characters in a model file
        expected, got = f"a fitted estimator of at most {MAX_SOURCE // 2:,} characters", f"{len(text):,}"
        raise DefinitionError(f"op {op}", expected=expected, got=got, next="keep it beside the model: joblib.dump")
    return text


def _refuse_functions(where: str, estimator: Any) -> None:
    """Name the first function inside that only this process has."""
    seen: set[int] = set()
    waiting: list[tuple[str, Any]] = [(type(estimator).__name__, estimator)]
    while waiting:
        path, value = waiting.pop(0)
        if id(value) in seen:
            continue
        seen.add(id(value))
        if isinstance(value, types.FunctionType):
            if value.__name__ == "<lambda>" or "<locals>" in value.__qualname__ or value.__module__ == "__main__":
                raise DefinitionError(
                    f"{where}, {path}",
                    expected="a function that a module has under its name, as the file does not hold it",
                    got="a lambda" if value.__name__ == "<lambda>" else f"{sanitize(value.__qualname__)}, defined here",
                    next="write it as def … in a file, and import it from there",
                )
        elif isinstance(value, dict):
            waiting += [(f"{path}[{sanitize(repr(key), 40)}]", item) for key, item in value.items()]
        elif isinstance(value, (list, tuple)):
            waiting += [(f"{path}[{place}]", item) for place, item in enumerate(value)]
        elif hasattr(value, "__dict__") and not isinstance(value, type):
            waiting += [(f"{path}.{key}", item) for key, item in vars(value).items()]
