"""The inputs of a converted model: its feeds, their types for skl2onnx, and the casts between."""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from numbers import Number
from typing import Any

import numpy as np
from onnx import GraphProto, ModelProto, TensorProto, helper, shape_inference
from skl2onnx.common.data_types import (
    BooleanTensorType,
    DoubleTensorType,
    FloatTensorType,
    Int64TensorType,
    StringTensorType,
)

from pyopnb.common import messages, sanitize
from pyopnb.engine import dtype
from pyopnb.errors import InputError, ModelError
from pyopnb.sklearn.columns import is_table

__all__ = [
    "SKL2ONNX_TYPES",
    "cast_inputs",
    "declare_outputs",
    "feeds",
    "first_rows",
    "has_mixed_numbers",
    "restore_names",
    "skl2onnx_inputs",
]

SKL2ONNX_TYPES = {
    "float32": FloatTensorType,
    "float64": DoubleTensorType,
    # The skl2onnx converters know no other integers.
    "int32": Int64TensorType,
    "int64": Int64TensorType,
    "bool": BooleanTensorType,
    "string": StringTensorType,
}
"""By the names of dtypes."""


@messages.hide_internal_frames
def feeds(X: Any) -> dict[str, np.ndarray]:  # noqa: N803  # sklearn's name
    """Return the feeds of a model that `convert` made, for the rows ``X``.

    Parameters
    ----------
    X : array, table of pandas, sparse matrix or list of str
        With the columns with which the estimator was fitted.

    Returns
    -------
    dict of str to ndarray
        ``X`` as a dense array; for a table, an array with one column for each of its columns.

    Examples
    --------
    >>> {name: array.tolist() for name, array in feeds([[1, 2]]).items()}
    {'X': [[1, 2]]}
    """
    if is_table(X):
        arrays = {}
        for name in X.columns:
            column = _feedable(X[name].to_numpy(), f"X[{str(name)!r}]")
            arrays[str(name)] = column[:, None]
        return arrays
    dense = X.toarray() if hasattr(X, "toarray") else np.asarray(X)
    return {"X": _feedable(dense, "X")}


def first_rows(x: Any, count: int) -> Any:
    """Take the first rows of an example, in its own type.

    Raises
    ------
    InputError
        ``x`` has no rows.
    """
    if hasattr(x, "iloc"):
        return x.iloc[:count]
    if np.ndim(x) == 0 and not hasattr(x, "tocsr"):
        expected = "rows: an array, a table of pandas, a sparse matrix or a list of str"
        advice = "convert(estimator, X[:10])"
        raise InputError("convert, X", expected=expected, got=type(x).__name__, next=advice)
    return x[:count]


def _feedable(array: np.ndarray, where: str) -> np.ndarray:
    """Give an array one of the dtypes that models of skl2onnx take."""
    # These go in as they are, and a Cast inside the model widens the ones that skl2onnx wants
    # wider.
    if array.dtype in (np.int32, np.float32, np.bool_):
        return array
    if array.dtype.kind in "iu":
        return array.astype(np.int64)
    if array.dtype.kind == "f":
        return array.astype(np.float64)
    # The remaining arrays are texts, or objects that must all be texts.
    if array.dtype.kind in "mM":
        array = array.astype(f"{array.dtype.kind}8[us]")  # finer ones become plain integers
    texts = array.astype(object)
    for value in texts.flat:
        if not isinstance(value, str):
            shown = sanitize(where, 80)
            raise ModelError(
                f"convert, {shown}",
                expected="numbers or texts",
                got=f"{type(value).__name__} {sanitize(repr(value), 40)} among them",
                next=f"{_as_column(shown, value, texts)} before fit",
            )
    return texts


def _as_column(column: str, value: Any, values: np.ndarray) -> str:
    """Write the line that makes numbers or texts of a column with such a value among others."""
    # The rows may be a list of lists, and in a table each column is named.
    array = "np.asarray(X)" if column == "X" else column
    if value is None or str(value) in ("nan", "NaT", "<NA>"):
        if column == "X":
            return 'X = pd.DataFrame(X).fillna("").to_numpy()'
        return f'{column} = {column}.fillna("")'
    if isinstance(value, datetime.date):
        return f'{column} = pd.to_datetime({column}).astype("int64")'
    if isinstance(value, datetime.timedelta):
        return f'{column} = pd.to_timedelta({column}).astype("int64")'
    if hasattr(value, "ordinal"):  # a period of pandas, which is not imported here
        return f'{column} = {column}.astype("int64")'
    if isinstance(value, Number):
        try:
            values.astype(float)
        except ValueError:  # there are texts that are no numbers
            return f"{column} = {array}.astype(str)"
        return f"{column} = {array}.astype(float)"
    if isinstance(value, (list, tuple, np.ndarray)) and column != "X":
        name = column[2:-1]
        table = f"pd.DataFrame({column}.tolist(), X.index).add_prefix({name})"
        return f"X = X.drop(columns={name}).join({table})"
    return f"{column} = {array}.astype(str)"


def has_mixed_numbers(arrays: Mapping[str, np.ndarray]) -> bool:
    """Tell whether there are both float64 columns and columns of other numbers."""
    dtypes = {array.dtype for array in arrays.values() if array.dtype.kind in "if"}
    return np.dtype(np.float64) in dtypes and len(dtypes) > 1


def skl2onnx_inputs(
    arrays: Mapping[str, np.ndarray], *, as_doubles: bool = False
) -> list[tuple[str, Any]]:
    """Declare the inputs to skl2onnx.

    Parameters
    ----------
    arrays : mapping
        The result of `feeds`.
    as_doubles : bool
        Declare every number as a double. Where a scaler gets an int64 column beside a float64 one,
        skl2onnx (up to 1.20) writes a model with types that ONNX Runtime refuses.
    """
    declared = []
    for name, array in arrays.items():
        declared_type = SKL2ONNX_TYPES.get(array.dtype.name, StringTensorType)
        if as_doubles and array.dtype.kind in "if":
            declared_type = DoubleTensorType
        declared.append((name, declared_type([None, *array.shape[1:]])))
    return declared


def restore_names(model: ModelProto, names: Sequence[str]) -> None:
    """Name the inputs as the columns again.

    skl2onnx makes identifiers of names such as ``sepal length (cm)``.
    """
    for value, name in zip(model.graph.input, names, strict=True):
        if value.name != name:
            _rename_reads(model.graph, value.name, name)
            value.name = name


def declare_outputs(model: ModelProto) -> None:
    """Declare the outputs with the dtypes that their nodes compute.

    skl2onnx (up to 1.20) declares some probabilities with another one, which ONNX Runtime refuses.
    """
    undeclared = ModelProto()
    undeclared.CopyFrom(model)
    for value in undeclared.graph.output:
        value.ClearField("type")
    inferred = shape_inference.infer_shapes(undeclared)
    for value, computed in zip(model.graph.output, inferred.graph.output, strict=True):
        # A map of a classifier's names to its numbers is no tensor.
        if computed.type.tensor_type.elem_type and value.type.HasField("tensor_type"):
            value.type.tensor_type.elem_type = computed.type.tensor_type.elem_type


def cast_inputs(model: ModelProto, arrays: Mapping[str, np.ndarray]) -> None:
    """Make a model take arrays of these dtypes, by a Cast where it declares another dtype."""
    casts = []
    for value in model.graph.input:
        array = arrays.get(value.name)
        if array is None or array.dtype == object:
            continue
        tensor_type = value.type.tensor_type
        declared, fed = tensor_type.elem_type, dtype(array.dtype).onnx
        if declared == fed:
            continue
        cast = f"{value.name}_as_{TensorProto.DataType.Name(declared).lower()}"
        _rename_reads(model.graph, value.name, cast)
        # All nodes that read the input read its Cast now.
        casts.append(helper.make_node("Cast", [value.name], [cast], to=declared))
        tensor_type.elem_type = fed
    nodes = list(model.graph.node)
    del model.graph.node[:]
    model.graph.node.extend([*casts, *nodes])


def _rename_reads(graph: GraphProto, name: str, new_name: str) -> None:
    for node in graph.node:
        for index, read in enumerate(node.input):
            if read == name:
                node.input[index] = new_name
        for attribute in node.attribute:
            # Bodies of If and Loop may also read it.
            if attribute.HasField("g"):
                _rename_reads(attribute.g, name, new_name)
