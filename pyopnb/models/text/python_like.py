"""A node that was written as Python would have it, ``y = Relu(x, axis=1) + 1``, in ONNX's text form."""

from __future__ import annotations

import ast
import json
from collections.abc import Callable, Iterator
from itertools import count

from pyopnb.models.onnx_schemas import find_schema

__all__ = ["translate"]

_OPERATORS: dict[type[ast.AST], str] = {
    ast.Add: "Add", ast.Sub: "Sub", ast.Mult: "Mul", ast.Div: "Div", ast.MatMult: "MatMul", ast.Pow: "Pow", ast.Mod: "Mod",
    ast.Lt: "Less", ast.Gt: "Greater", ast.LtE: "LessOrEqual", ast.GtE: "GreaterOrEqual", ast.Eq: "Equal",
}  # fmt: skip


def translate(statement: str, dtype_of: Callable[[str], str | None], taken: set[str]) -> str | None:
    """Translate an assignment of Python into nodes.

    Parameters
    ----------
    statement : str
    dtype_of : callable
        The dtype of a value, as the text form names it; None where it is not known.
    taken : set of str
        Names that new values must not have.

    Returns
    -------
    str or None
        The nodes on one line; None for what is no assignment of Python, or has no nodes to go with.

    Examples
    --------
    >>> translate("y = LeakyRelu(x, alpha=0.1) + 1", {}.get, {"x", "y"})
    'a = LeakyRelu<alpha = 0.1>(x)  b = Constant<value = float {1}>()  y = Add(a, b)'
    """
    try:
        (assignment,) = ast.parse(statement.strip(" ,;")).body
        return "  ".join(_Translation(dtype_of, taken).assign(assignment))
    except (SyntaxError, ValueError, TypeError):  # TypeError: what JSON does not have
        return None


class _Translation:
    """The nodes of one assignment; a ValueError where there are none."""

    def __init__(self, dtype_of: Callable[[str], str | None], taken: set[str]) -> None:
        self._nodes: list[str] = []
        self._dtype_of = dtype_of
        self._names = (name for name in _new_names() if name not in taken)

    def assign(self, assignment: ast.stmt) -> list[str]:
        match assignment:
            case ast.Assign(targets=[ast.Name() as target]):
                targets: list[ast.expr] = [target]
            case ast.Assign(targets=[ast.Tuple(elts=targets)]) if all(isinstance(each, ast.Name) for each in targets):
                pass
            case _:
                raise ValueError
        node = self._node(assignment.value)
        return [*self._nodes, f"{', '.join(map(ast.unparse, targets))} = {node}"]

    def _value(self, expression: ast.expr, beside: ast.expr | None = None) -> str:
        """The name of a value; that of a new node where the expression has none."""
        if isinstance(expression, ast.Name):
            return expression.id
        node = self._node(expression, beside)
        name = next(self._names)
        self._nodes.append(f"{name} = {node}")
        return name

    def _node(self, expression: ast.expr, beside: ast.expr | None = None) -> str:
        match expression:
            case ast.Name(id=name):
                return f"Identity({name})"
            case (
                ast.Constant(value=int() | float() as number)
                | ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int() | float() as number))
            ):
                names = (each.id for each in ast.walk(beside or expression) if isinstance(each, ast.Name))
                dtype = next(filter(None, map(self._dtype_of, names)), None)
                sign = "-" if isinstance(expression, ast.UnaryOp) else ""
                return f"Constant<value = {dtype or 'float'} {{{sign}{_literal(number)}}}>()"
            case ast.UnaryOp(op=ast.USub(), operand=inner):
                return f"Neg({self._value(inner)})"
            case ast.BinOp(left=left, op=op, right=right) | ast.Compare(left=left, ops=[op], comparators=[right]) if (
                type(op) in _OPERATORS
            ):
                return f"{_OPERATORS[type(op)]}({self._value(left, right)}, {self._value(right, left)})"
            case ast.Call(func=ast.Name() | ast.Attribute() as function, args=inputs, keywords=keywords):
                attrs = ", ".join(f"{keyword.arg} = {_literal(ast.literal_eval(keyword.value))}" for keyword in keywords)
                name = ast.unparse(function)
                values = ", ".join(self._value(each, inputs[0]) for each in self._checked(name, inputs))
                return f"{name}{f'<{attrs}>' if attrs else ''}({values})"
        raise ValueError

    @staticmethod
    def _checked(op: str, inputs: list[ast.expr]) -> list[ast.expr]:
        """The inputs of a call, if numbers among them have the dtype of the first."""
        domain, _, op_type = op.rpartition(".")
        schema = find_schema(domain, op_type)
        ports = [port.type_str for port in schema.inputs] if schema else []
        if any(isinstance(each, ast.Constant) and ports[place : place + 1] != ports[:1] for place, each in enumerate(inputs)):
            raise ValueError
        return inputs


def _literal(value: object) -> str:
    """A number, a text or a list of these, as the text form has it."""
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(map(_literal, value))}]"
    return str(int(value)) if isinstance(value, bool) else json.dumps(value)


def _new_names() -> Iterator[str]:
    yield from "abcd"
    for number in count(1):
        yield f"t{number}"
