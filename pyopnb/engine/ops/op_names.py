"""Names of ops: a domain and an op type, as ``demo::SoftClip``."""

from __future__ import annotations

import re
from collections.abc import Container

from pyopnb.common import sanitize
from pyopnb.engine.ops.argument_checks import describe
from pyopnb.errors import DefinitionError

__all__ = [
    "DEFAULT_DOMAIN",
    "MAX_OUTPUTS",
    "canonical_domain",
    "check_opset",
    "fresh_name",
    "split_name",
]

DEFAULT_DOMAIN = "pyopnb"

MAX_OUTPUTS = 1000
"""The largest number of outputs that a node can be asked for."""

_IDENTIFIER = re.compile(r"[A-Za-z_]\w*", re.ASCII)
_SEPARATOR = re.compile(r"\s*(?:::?|[./])\s*(?=\w+$)")
"""Separators that people type instead of ``::``."""
_DOMAIN = re.compile(r"[\w.\-]*", re.ASCII)


def split_name(name: str) -> tuple[str, str]:
    """Split ``"demo::SoftClip"`` into domain and op type.

    ``"::Relu"`` is in the ONNX domain, and a bare name in the default domain.

    Raises
    ------
    DefinitionError
        The op type is no identifier, or the domain has other characters than letters, digits,
        ``.``, ``-`` and ``_``.
    """
    if not isinstance(name, str):
        raise DefinitionError(
            "op name",
            expected="domain::OpType",
            got=f"an object of {type(name).__name__}",
            next='"demo::SoftClip"',
        )
    domain, separator, op_type = name.rpartition("::")
    if not separator:
        domain = DEFAULT_DOMAIN
    if not _is_name(domain, op_type):
        typed = name.removeprefix(
            "::"
        )  # which `call` and `node` put before a name without a domain
        # Suggest the name with ``::`` instead of the separator that was typed, if that makes it
        # right.
        domain, _, op_type = _SEPARATOR.sub("::", typed).rpartition("::")
        advice = f"{domain}::{op_type}" if _is_name(domain, op_type) else "demo::SoftClip"
        raise DefinitionError(
            "op name", expected="domain::OpType", got=sanitize(repr(typed)), next=f'"{advice}"'
        )
    return canonical_domain(domain), op_type


def _is_name(domain: str, op_type: str) -> bool:
    return bool(_IDENTIFIER.fullmatch(op_type) and _DOMAIN.fullmatch(domain))


def canonical_domain(domain: str) -> str:
    """Write the ONNX domain as models mostly do: ``""`` for ``"ai.onnx"``."""
    return "" if domain == "ai.onnx" else domain


def check_opset(opset: object, where: str) -> None:
    """Refuse a number that is not a version of a domain.

    Parameters
    ----------
    where : str
        The op, for the error.

    Raises
    ------
    DefinitionError
    """
    # A bool is also an int, so the type is compared.
    if type(opset) is not int or not 1 <= opset <= 1000:
        raise DefinitionError(
            f"{where}, opset",
            expected="a number from 1 to 1000",
            got=str(opset) if type(opset) is int else describe(opset),
            next="opset=1",
        )


def fresh_name(stem: str, taken: Container[str], suffix: str = "_") -> str:
    """Return a name that is not taken: the stem, with the suffix as often as needed.

    Examples
    --------
    >>> fresh_name("x", {"x", "x_"})
    'x__'
    """
    name = stem
    while name in taken:
        name += suffix
    return name
