"""The values of a model's initializers, read on demand."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cached_property
from pathlib import Path
from weakref import WeakValueDictionary

import numpy as np
from onnx import TensorProto, numpy_helper

from pyopnb.engine import external_files

__all__ = ["Initializers"]


class Initializers(Mapping[str, np.ndarray]):
    """Arrays of a model's initializers by name, read when first used.

    Parameters
    ----------
    load : callable
        Gives the initializers as tensors, and the folder of their external data or None. Called
        once, when first needed.
    paths : iterable of Path
        The files that it reads, which must not change until then.
    """

    def __init__(
        self,
        load: Callable[[], tuple[Iterable[TensorProto], str | None]],
        paths: Iterable[Path] = (),
    ) -> None:
        self._load = load
        self._files = external_files.FileStamps(paths)
        # All weights of a model may be more than there is memory.
        self._arrays: WeakValueDictionary[str, np.ndarray] = WeakValueDictionary()

    @property
    def _source(self) -> tuple[dict[str, TensorProto], str | None]:
        advice = "trace it again, or pyopnb.diff(dict(a), dict(b)) for the tensors alone"
        self._files.check("the weights that the traced run had", advice)
        return self._loaded

    @cached_property
    def _loaded(self) -> tuple[dict[str, TensorProto], str | None]:
        # Once: the file is read at the first access to a weight, and in most traces there is
        # none.
        tensors, folder = self._load()
        by_name = {tensor.name: tensor for tensor in tensors}
        # Memory of the function, such as the bytes of a model, is not needed any more.
        self._load = lambda: (by_name.values(), folder)
        return by_name, folder

    def __reduce__(self) -> tuple[object, ...]:
        tensors, folder = self._source
        return _initializers, (list(tensors.values()), folder)

    def __getitem__(self, name: str) -> np.ndarray:
        array = self._arrays.get(name)
        if array is None:
            tensors, folder = self._source
            array = numpy_helper.to_array(external_files.with_data(tensors[name], folder))
            # All callers share the array.
            array.flags.writeable = False
            self._arrays[name] = array
        return array

    @property
    def folder(self) -> str | None:
        """Return the folder of external data."""
        return self._source[1]

    def stored(self, name: str) -> TensorProto:
        """Return a weight as it is stored: with its data, or with the place of it in a file."""
        return self._source[0][name]

    def mapped(self, name: str) -> np.ndarray:
        """Return an array for a short look, without memory if its data is in a file."""
        tensors, folder = self._source
        return external_files.mapped(tensors[name], folder)

    def __iter__(self) -> Iterator[str]:
        return iter(self._source[0])

    def __len__(self) -> int:
        return len(self._source[0])

    def __contains__(self, name: object) -> bool:
        return name in self._source[0]


def _initializers(tensors: list[TensorProto], folder: str | None) -> Initializers:
    """Unpickle the initializers of a trace, whose external data is in the same folder."""
    return Initializers(lambda: (tensors, folder))
