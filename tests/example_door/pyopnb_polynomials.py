"""A door to numpy.polynomial: fitted series become ONNX models.

A power series becomes Mul and Add nodes, which every runtime has. Chebyshev, Legendre and the other
series have no form in ONNX: each becomes a node that NumPy computes, in the same model.
"""

from __future__ import annotations

import numpy as np
from numpy.polynomial import Chebyshev, Hermite, HermiteE, Laguerre, Legendre, Polynomial
from onnx import ModelProto, NodeProto

import pyopnb
from pyopnb.engine import ANY, Session, TensorType, check_arguments, protos

__all__ = ["SeriesValue", "convert", "kept_in_python"]

_KINDS = {kind.__name__: kind for kind in (Chebyshev, Hermite, HermiteE, Laguerre, Legendre)}


@pyopnb.pyop("numpy.polynomial::SeriesValue")
class SeriesValue:
    """Evaluate a series at each element of ``x``.

    Parameters
    ----------
    kind : str
        A class of numpy.polynomial, such as ``"Chebyshev"``.
    """

    def __init__(self, kind: str):
        self.series = _KINDS[kind]

    def infer(self, x: TensorType, coefficients: TensorType) -> TensorType:
        """Return the type of ``x``."""
        return x or ANY

    def compute(self, x: np.ndarray, coefficients: np.ndarray) -> np.ndarray:
        """Evaluate by Clenshaw's rule, as NumPy does."""
        return self.series(coefficients)(x).astype(x.dtype)


@check_arguments
def convert(series: object, dtype: str = "float64") -> ModelProto:
    """Convert a fitted series to a model from ``x`` to ``y``, of any number of elements.

    Parameters
    ----------
    series : numpy.polynomial series
        As ``Polynomial.fit`` returns it: its domain is mapped to its window first.
    dtype : str
        Dtype of ``x`` and ``y``.

    Raises
    ------
    pyopnb.errors.ModelError
        It is no series of numpy.polynomial, or the result differs from NumPy.
    """
    name = type(series).__name__
    if not isinstance(series, (Polynomial, *_KINDS.values())):
        raise pyopnb.errors.ModelError(
            "convert",
            expected="a series of numpy.polynomial",
            got=name,
            next="convert(Polynomial.fit(x, y, 3))",
        )
    # The series itself is one of t = offset + scale * x.
    offset, scale = series.mapparms()
    constants = {"offset": np.asarray(offset, dtype), "scale": np.asarray(scale, dtype)}
    nodes = [
        pyopnb.node("Mul", ["x", "scale"], "scaled"),
        pyopnb.node("Add", ["scaled", "offset"], "t"),
    ]
    if isinstance(series, Polynomial):
        nodes += _horner(series.coef.astype(dtype), constants)
    else:
        constants["coefficients"] = series.coef.astype(dtype)
        nodes.append(pyopnb.node(SeriesValue, ["t", "coefficients"], "y", kind=name))
    model = pyopnb.model(nodes, {"x": f"{dtype}[N]"}, {"y": f"{dtype}[N]"}, initializers=constants)
    _compare(model, series, dtype)
    return model


def _horner(coefficients: np.ndarray, constants: dict[str, np.ndarray]) -> list[NodeProto]:
    """Write c0 + t * (c1 + t * (c2 + ...)) from the inside out."""
    if len(coefficients) == 1:  # a constant has the shape of its input, too
        coefficients = np.append(coefficients, coefficients.dtype.type(0))
    for power, coefficient in enumerate(coefficients):
        constants[f"c{power}"] = coefficient
    nodes = []
    value = f"c{len(coefficients) - 1}"
    for power in reversed(range(len(coefficients) - 1)):
        nodes.append(pyopnb.node("Mul", ["t", value], f"product{power}"))
        value = f"sum{power}" if power else "y"
        nodes.append(pyopnb.node("Add", [f"product{power}", f"c{power}"], value))
    return nodes


def _compare(model: ModelProto, series: Polynomial, dtype: str) -> None:
    """Run both at a hundred places of the domain."""
    x = np.linspace(*series.domain, 101).astype(dtype)
    expected = series(x.astype("float64")).astype(dtype)
    diff = pyopnb.diff(expected, Session(model)(x)["y"])
    if not diff.ok:
        raise pyopnb.errors.ModelError("convert", expected="the results of NumPy", got=str(diff))


def kept_in_python(model: ModelProto) -> list[str]:
    """List the outputs of the nodes that NumPy computes."""
    nodes = [site.node for site in protos.walk(model)]
    return [protos.first_output(node) for node in nodes if node.domain == "numpy.polynomial"]
