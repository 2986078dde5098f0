"""The values of a model's initializers, read on demand."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping

import numpy as np
from onnx import TensorProto, numpy_helper

from pyopnb.models.external_data import with_data
from pyopnb.ops.locks import locked

__all__ = ["Initializers"]


class Initializers(Mapping[str, np.ndarray]):
    """Arrays of a model's initializers by name, read when first used.

    Parameters
    ----------
    load : callable
        Gives the initializers as tensors, and the folder of their external data or None. Called once, when first needed.
    """

    def __init__(self, load: Callable[[], tuple[Iterable[TensorProto], str | None]]) -> None:
        self._load: Callable[[], tuple[Iterable[TensorProto], str | None]] | None = load
        self._tensors: dict[str, TensorProto] = {}
        self._folder: str | None = None
        self._arrays: dict[str, np.ndarray] = {}
        self._lock = threading.Lock()

    def __reduce__(self) -> tuple[object, ...]:
        return _initializers, (list(self._known().values()), self._folder)

    def _known(self) -> dict[str, TensorProto]:
        locked(self._lock, self._load_once)
        return self._tensors

    def _load_once(self) -> None:
        # Once: the file is read when somebody first asks for a weight, and most traces are never asked.
        if self._load is not None:
            tensors, self._folder = self._load()
            self._tensors = {tensor.name: tensor for tensor in tensors}
            self._load = None

    def __getitem__(self, name: str) -> np.ndarray:
        if name not in self._arrays:
            tensor = self._known()[name]
            array = numpy_helper.to_array(with_data(tensor, self._folder))
            # The array is shared by all who ask for it.
            array.flags.writeable = False
            self._arrays[name] = array
        return self._arrays[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._known())

    def __len__(self) -> int:
        return len(self._known())

    def __contains__(self, name: object) -> bool:
        return name in self._known()

    def __repr__(self) -> str:
        return f"{len(self)} initializers"


def _initializers(tensors: list[TensorProto], folder: str | None) -> Initializers:
    """Unpickle the initializers of a trace, whose external data is in the same folder."""
    return Initializers(lambda: (tensors, folder))
