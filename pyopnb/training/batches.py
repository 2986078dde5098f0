"""The batches of a training: arrays cut after a shuffle that can be repeated, or feeds as they come."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import chain, islice
from typing import Any

import numpy as np

from pyopnb.errors import InputError
from pyopnb.ops.messages import sanitize
from pyopnb.ops.types import TensorType
from pyopnb.runtime.feeds import check_feed, check_names
from pyopnb.training.graphs import Loss

__all__ = ["Batches"]

_Types = Mapping[str, TensorType | None]


class Batches:
    """What a model is fed, epoch by epoch; the same batches whenever an epoch is asked for again.

    Parameters
    ----------
    data : mapping of str to ndarray, or iterable of such
        Arrays whose first axis is the samples', or feeds of a batch each.
    size : int or None
        Samples of a batch; None for all. Of feeds it is not used.
    seed : int or None
        What the shuffles of arrays begin with; None to leave their order.
    where : str
        How messages call the data.
    """

    def __init__(self, data: Any, size: int | None, seed: int | None, where: str = "data") -> None:
        self._where, self._seed = where, seed
        if isinstance(data, Mapping):
            self._arrays: dict[str, np.ndarray] | None = {
                str(name): np.asarray(value) for name, value in data.items()
            }
            self.samples = _samples(self._arrays, where)
            self.size = self.samples if size is None else int(size)
            if not 1 <= self.size <= self.samples:
                expected = f"1 to {self.samples:,}, the number of samples"
                raise InputError(
                    f"{where}, batch_size",
                    expected=expected,
                    got=sanitize(repr(size)),
                    next="batch_size=None for all",
                )
            self.first = self._cut(np.arange(self.size))
            return
        if not isinstance(data, Iterable) or isinstance(data, (str, bytes, np.ndarray)):
            expected = "a dict of arrays, or feeds to iterate over"
            raise InputError(
                where, expected=expected, got=type(data).__name__, next='{"x": x, "labels": labels}'
            )
        self._arrays, self._feeds, self.samples = None, data, 0
        self.is_single = iter(data) is data  # a generator, which ends for good
        iterator = iter(data)
        first = next(iterator, None)
        if first is None:
            raise InputError(where, expected="at least one feed", got="none")
        if not isinstance(first, Mapping):
            raise InputError(
                f"{where}, feed 0", expected="a dict of arrays", got=type(first).__name__
            )
        self.first = {str(name): np.asarray(value) for name, value in first.items()}
        self._once = chain([first], iterator) if self.is_single else None

    def __len__(self) -> int:
        """Batches of an epoch; 0 where only the end of the first epoch will tell."""
        return -(-self.samples // self.size) if self._arrays is not None else 0

    def check(self, types: _Types, loss: Loss) -> None:
        """Refuse data that the model or the loss does not take, before anything runs."""
        check_names(self.first, types)
        self._types, self._loss = types, loss
        self._checked(self.first)
        loss.check(self._arrays if self._arrays is not None else self.first)

    def _checked(self, feeds: Mapping[str, Any]) -> dict[str, np.ndarray]:
        """A batch whose types are the model's, and whose sizes are the same wherever a symbol is."""
        sizes: dict[str, int] = {}
        checked = {}
        for name, value in feeds.items():
            kind = self._types[name]
            checked[name] = batch = np.asarray(check_feed(name, np.asarray(value), kind))
            if kind is not None and kind.shape and not kind.accepts_shape(batch.shape, sizes):
                shown = ", ".join(f"{sanitize(symbol)} = {size}" for symbol, size in sizes.items())
                raise InputError(
                    f"feed {sanitize(name)}",
                    expected=f"{kind} with {shown}",
                    got=str(list(batch.shape)),
                )
        return checked

    def epoch(self, number: int, skip: int) -> Iterator[dict[str, np.ndarray]]:
        """The batches of an epoch, counted from 0, without so many at its beginning."""
        if self._arrays is not None:
            order = np.arange(self.samples)
            if self._seed is not None:
                order = np.random.default_rng([self._seed, number]).permutation(self.samples)
            fixed = any(
                kind is not None and kind.shape and isinstance(kind.shape[0], int)
                for kind in self._types.values()
            )
            end = self.samples - self.samples % self.size if fixed else self.samples
            for start in range(skip * self.size, end, self.size):
                yield self._cut(order[start : start + self.size])
            return
        feeds, self._once = self._once or iter(self._feeds), None
        for index, feed in enumerate(islice(feeds, skip, None), skip):
            if not isinstance(feed, Mapping):
                raise InputError(
                    f"{self._where}, feed {index}",
                    expected="a dict of arrays",
                    got=type(feed).__name__,
                )
            check_names(feed, self._types)
            checked = self._checked(feed)
            self._loss.check(checked)
            yield checked

    def _cut(self, order: np.ndarray) -> dict[str, np.ndarray]:
        arrays = self._arrays or {}
        return {name: value[order] for name, value in arrays.items()}


def _samples(arrays: Mapping[str, np.ndarray], where: str) -> int:
    lengths = {name: len(value) if value.ndim else -1 for name, value in arrays.items()}
    if not arrays or -1 in lengths.values():
        got = next(
            (f"{sanitize(name)}, a scalar" for name, length in lengths.items() if length < 0),
            "no array",
        )
        raise InputError(where, expected="arrays whose first axis is the samples'", got=got)
    if len(set(lengths.values())) > 1:
        got = ", ".join(f"{sanitize(name)}: {length:,}" for name, length in lengths.items())
        raise InputError(where, expected="as many samples in each array", got=got)
    samples = next(iter(lengths.values()))
    if not samples:
        raise InputError(
            where,
            expected="at least one sample",
            got=f"0 samples in {', '.join(map(sanitize, arrays))}",
        )
    return samples
