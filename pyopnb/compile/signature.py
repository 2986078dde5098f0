"""The signature of an op's C++ function: its ports, dtypes and attrs, read from the text."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from pyopnb.common import sanitize
from pyopnb.engine import op_schema
from pyopnb.errors import DefinitionError

__all__ = [
    "ELEMENTS",
    "CppAttr",
    "CppPort",
    "Signature",
    "check_int32",
    "lines_with_includes",
    "read_signature",
]

ELEMENTS = {
    "bool": "bool",
    "float": "float32",
    "double": "float64",
    **{f"{sign}int{bits}_t": f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)},
}
"""The dtype of each element type of C++."""

_ATTRS: dict[str, object] = {
    "bool": bool,
    "int": int,
    "int32_t": int,
    "int64_t": int,
    "float": float,
    "double": float,
    "string": str,
    "vector<int>": list[int],
    "vector<int32_t>": list[int],
    "vector<int64_t>": list[int],
    "vector<float>": list[float],
    "vector<double>": list[float],
}

_INT32 = {"int", "int32_t", "vector<int>", "vector<int32_t>"}

# A parameter is a type and a name, and the type of a port may be wrapped in optional or vector.
_PARAMETER = re.compile(r"(?P<type>.*[\s>&])(?P<name>[A-Za-z_]\w*)\s*", re.DOTALL)
_INPUT = re.compile(r"(optional<|vector<)?Input<(.*?)>>?")
_PORTS = "Input<T>, std::optional<Input<T>>, std::vector<Input<T>>, Output<T>"

_NEXT = "void SoftClip(Input<float> x, Output<float> y, float limit = 1.0f) { … }"


@dataclass(frozen=True)
class CppPort:
    """An input or output.

    Attributes
    ----------
    element : str or None
        Name of its dtype; None for the template's parameter.
    """

    name: str
    element: str | None
    optional: bool = False
    variadic: bool = False


@dataclass(frozen=True)
class CppAttr:
    """An attr.

    Attributes
    ----------
    type : type
        The Python type of its values.
    default : object
        `REQUIRED` for an attr without a default.
    is_int32 : bool
        Whether its ints have 32 bits.
    """

    name: str
    type: object
    default: object
    is_int32: bool = False


def check_int32(attr: CppAttr, value: Any) -> None:
    """Refuse a value that the C++ parameter would cut off.

    Raises
    ------
    OverflowError
    """
    if not attr.is_int32 or value is op_schema.REQUIRED:
        return
    if isinstance(value, (list, tuple)):
        numbers = value
    else:
        numbers = [value]
    for number in numbers:
        if not -(2**31) <= int(number) < 2**31:
            raise OverflowError(
                f"attr {attr.name}: {number} does not fit into an int of C++. Try: int64_t"
            )


@dataclass(frozen=True)
class Signature:
    """The name, ports and attrs in the head of a function.

    Attributes
    ----------
    name : str
        Of the function.
    line : int
        Of its head.
    elements : tuple of str
        C++ element types that the template's parameter takes; empty where the
        function is no template.
    doc : str
        The comment before the function.
    """

    name: str
    line: int
    inputs: tuple[CppPort, ...]
    outputs: tuple[CppPort, ...]
    attrs: tuple[CppAttr, ...]
    elements: tuple[str, ...]
    doc: str


def read_signature(source: str, first: int = 1) -> Signature:
    """Find the function of a source that has an ``Output`` among its parameters, and read its head.

    Parameters
    ----------
    first : int
        The number of its first line, for messages.

    Raises
    ------
    DefinitionError
        There is no such function, or there are several, or a parameter is of a type that no op has.

    Examples
    --------
    >>> found = read_signature("void Twice(Input<float> x, Output<float> y, float by = 2.0f) {}")
    >>> found.name, [port.name for port in found.inputs], found.attrs[0].default
    ('Twice', ['x'], 2.0)
    """
    heads = []
    for head in _heads(source, first):
        if "Output<" in head.parameters.replace(" ", ""):
            heads.append(head)
    if len(heads) != 1:
        got = "none"
        if heads:
            got = f"{len(heads)} ({', '.join(head.name for head in heads)})"
        raise DefinitionError(
            "op in C++",
            expected="one function with an Output among its parameters",
            got=got,
            next=_NEXT,
        )
    return _Reader(heads[0]).read()


def lines_with_includes(source: str) -> int:
    """Count the lines through the last ``#include`` and the directives right after it.

    A directive such as ``#endif`` has to stay with its ``#include``.
    """
    lines = _COMMENT.sub(lambda match: re.sub(r"[^\n]", " ", match[0]), source).splitlines()
    count = 0
    for number, line in enumerate(lines, 1):
        is_directive = line.lstrip().startswith("#")
        if re.match(r"\s*#\s*include\b", line) or (is_directive and count == number - 1 and count):
            count = number
    return count


# ---- the text ------------------------------------------------------------------------------------

_QUIET = re.compile(
    r"""//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])+'|^[ \t]*#(?:\\\n|[^\n])*""",
    re.DOTALL | re.MULTILINE,
)
_COMMENT = re.compile(r'//[^\n]*|/\*.*?\*/|R"\(.*?\)"', re.DOTALL)
_HEAD = re.compile(
    r"(?:\btemplate\s*<(?P<template>[^{};()]*)>\s*)?(?:\b(?:static|inline)\s+)*"
    r"\bvoid\s+(?P<name>[A-Za-z_]\w*)\s*\("
)


@dataclass(frozen=True)
class _Head:
    """The head of a function definition."""

    name: str
    template: str
    parameters: str
    line: int
    doc: str


def _blanked(source: str) -> str:
    """Blank out comments, literals and directives, so that the text can be read by its brackets."""
    return _QUIET.sub(lambda found: re.sub(r"[^\n]", " ", found[0]), source)


def _heads(source: str, first: int) -> Iterator[_Head]:
    """Find the heads of the functions that are in no namespace, class or other function."""
    # Brackets in comments and literals would be counted otherwise.
    text = _blanked(source)
    for match in _HEAD.finditer(text):
        before = text[: match.start()]
        closed = _closing(text, match.end() - 1)
        is_definition = text[closed + 1 :].lstrip().startswith("{")
        if before.count("{") != before.count("}") or not is_definition:
            continue
        template = ""
        if match["template"] is not None:
            template = source[slice(*match.span("template"))]
        line = first + text.count("\n", 0, match.start("name"))
        parameters = source[match.end() : closed]
        doc = _comment(source[: match.start()])
        yield _Head(match["name"], template, parameters, line, doc)


def _closing(text: str, opened: int) -> int:
    """Find where the bracket that opens there is closed."""
    depth = 0
    for position in range(opened, len(text)):
        depth += (text[position] == "(") - (text[position] == ")")
        if depth == 0:
            return position
    raise DefinitionError("op in C++", expected="a ) for each (", got="the end of the text")


def _comment(before: str) -> str:
    """Return the text of the comment at the end."""
    # Line comments without a gap, or one block comment, right before the function.
    block = re.search(r"((?:[ \t]*//[^\n]*\n)+|/\*((?:(?!\*/).)*)\*/\s*)\s*\Z", before, re.DOTALL)
    if block is None:
        return ""
    lines = (block[2] or block[1]).strip().splitlines()
    return "\n".join(re.sub(r"^\s*(//+|\*)?\s?", "", line).rstrip() for line in lines).strip()


def _split(text: str) -> list[str]:
    """Split at the commas that are in no bracket and no literal."""
    parts, depth, begin = [], 0, 0
    for position, character in enumerate(
        re.sub(r'"(?:\\.|[^"\\])*"', lambda found: "x" * len(found[0]), text)
    ):
        # Default values can hold commas: std::vector<int> axes = {0, 1}.
        depth += (character in "(<{[") - (character in ")>}]")
        if character == "," and depth == 0:
            parts.append(text[begin:position])
            begin = position + 1
    return [part.strip() for part in [*parts, text[begin:]] if part.strip()]


# ---- the parts -----------------------------------------------------------------------------------


class _Reader:
    """Reads the head of a function parameter by parameter."""

    def __init__(self, head: _Head) -> None:
        self.head = head
        self.where = f"op in C++, line {head.line}, {head.name}"
        self.letter, self.elements = _template(head.template, self.where)
        self.inputs: list[CppPort] = []
        self.outputs: list[CppPort] = []
        self.attrs: list[CppAttr] = []

    def read(self) -> Signature:
        """Read all parameters, and check that a node's types would be known."""
        head = self.head
        for parameter in _split(_without_comments(head.parameters)):
            self._add(parameter)
        if any(port.variadic for port in self.inputs[:-1]):
            expected = "std::vector<Input<T>> as the last input"
            advice = "move it to the end of the inputs"
            raise DefinitionError(
                self.where, expected=expected, got="another one after it", next=advice
            )
        # The dtype of a template comes from an input that every node has.
        certain = [port for port in self.inputs if not (port.optional or port.variadic)]
        if self.letter and all(port.element is not None for port in certain):
            expected = f"an Input<{self.letter}>, which says what {self.letter} is"
            advice = f"const Input<{self.letter}>& x"
            raise DefinitionError(self.where, expected=expected, got="none", next=advice)
        inputs, outputs, attrs = tuple(self.inputs), tuple(self.outputs), tuple(self.attrs)
        return Signature(head.name, head.line, inputs, outputs, attrs, self.elements, head.doc)

    def _add(self, parameter: str) -> None:
        """Add a parameter to the inputs, the outputs or the attrs."""
        declared, equals, default = parameter.partition("=")
        match = _PARAMETER.fullmatch(declared.strip())
        if match is None:
            expected = "a type and a name for each parameter"
            advice = "float alpha"
            raise DefinitionError(self.where, expected=expected, got=parameter, next=advice)
        cpp_type, name = _bare_type(match["type"]), match["name"]
        port = _INPUT.fullmatch(cpp_type)
        if port is not None:
            wrapper = port[1] or ""
            element = self._element(port[2], name)
            optional, variadic = wrapper == "optional<", wrapper == "vector<"
            self.inputs.append(CppPort(name, element, optional, variadic))
        elif cpp_type.startswith("Output<"):
            element = self._element(cpp_type.removeprefix("Output<")[:-1], name)
            self.outputs.append(CppPort(name, element))
        elif cpp_type in _ATTRS:
            value: object = op_schema.REQUIRED
            if equals:
                value = _literal(default, _ATTRS[cpp_type], self.where, name)
            self._add_attr(CppAttr(name, _ATTRS[cpp_type], value, cpp_type in _INT32))
        else:
            raise DefinitionError(
                f"{self.where}, parameter {name}",
                expected=f"{_PORTS}, or an attr of {', '.join(_ATTRS)}",
                got=sanitize(cpp_type),
                next="int64_t, or an op in Python",
            )

    def _add_attr(self, attr: CppAttr) -> None:
        try:
            check_int32(attr, attr.default)
        except OverflowError as error:
            raise DefinitionError(f"{self.where}: {error}") from None
        self.attrs.append(attr)

    def _element(self, text: str, name: str) -> str | None:
        """Return the dtype of a port's elements; None for the template's parameter."""
        if text == self.letter and self.letter:
            return None
        if text in ELEMENTS:
            return ELEMENTS[text]
        accepted = list(ELEMENTS)
        if self.letter:
            accepted.append(self.letter)
        expected = f"elements of {', '.join(accepted)}"
        where = f"{self.where}, parameter {name}"
        raise DefinitionError(where, expected=expected, got=text, next="an op in Python")


def _without_comments(text: str) -> str:
    return _COMMENT.sub(" ", text)


def _bare_type(text: str) -> str:
    """Strip const, references, blanks and namespaces from a type."""
    return re.sub(r"\bconst\b|&|\s|\b(std|pyopnb)::", "", text)


def _template(text: str, where: str) -> tuple[str, tuple[str, ...]]:
    """Return the template's parameter, and the element types that it takes."""
    if not text:
        return "", ()
    match = re.fullmatch(
        r"(?:typename|class)([A-Za-z_]\w*)=AnyOf<(.*)>", re.sub(r"\s|\bpyopnb::", "", text)
    )
    if match:
        elements = tuple(match[2].split(","))
    else:
        elements = ()
    if match is None or not set(elements) <= set(ELEMENTS):
        next_ = "template <typename T = AnyOf<float, double>>"
        raise DefinitionError(
            where,
            expected="one template parameter with its element types",
            got=text,
            next=next_,
        )
    return match[1], elements


_NUMBER = re.compile(r"(?P<value>0[xX][0-9a-fA-F]+|\.?\d[\d'.]*(?:[eE][+-]?\d+)?)(?:[fFlLuU]*)")


def _literal(text: str, python_type: object, where: str, name: str) -> object:
    """Evaluate a default."""
    try:
        return _value(text.strip(), python_type)
    except (ValueError, SyntaxError, TypeError):
        raise DefinitionError(
            f"{where}, attr {name}",
            expected="a literal as its default",
            got=sanitize(text.strip()),
            next=f"{name} = 1.0f",
        ) from None


_WORDS = {"{": "[", "}": "]", "true": "True", "false": "False"}


def _value(text: str, python_type: object) -> object:
    """Evaluate a literal of C++ as a value of a Python type.

    ValueError, SyntaxError or TypeError is raised if the text is no such literal.
    """
    if python_type is str:
        value = ast.literal_eval(text)
        if not isinstance(value, str):
            raise TypeError(text)
        return value
    # Suffixes such as f, and quotes between digits, are C++'s alone. A leading 0, which makes a
    # number octal there, Python does not take.
    plain = _NUMBER.sub(lambda number: number["value"].replace("'", ""), text)
    value = ast.literal_eval(
        re.sub(r"[{}]|\btrue\b|\bfalse\b", lambda word: _WORDS[word[0]], plain)
    )
    if isinstance(value, list) != (python_type in (list[int], list[float])):
        raise TypeError(text)
    if isinstance(value, list):
        element = int if python_type == list[int] else float
        return [element(item) for item in value]
    return _CONVERSIONS[python_type](value)


_CONVERSIONS: dict[object, Callable[[Any], object]] = {bool: bool, int: int, float: float}
