"""Give a training its batches: arrays, shuffled repeatably and cut, or feeds as they come."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain, islice
from typing import Any

import numpy as np
from onnx import GraphProto

from pyopnb.common import messages, plural, sanitize
from pyopnb.engine import TensorType, feed_checks, protos
from pyopnb.errors import InputError
from pyopnb.training.graphs import Loss

__all__ = ["TrainingBatches"]

_Types = Mapping[str, TensorType | None]


class TrainingBatches:
    """The batches of a training, epoch by epoch; the same ones whenever an epoch is repeated.

    Parameters
    ----------
    data : mapping of str to ndarray, or iterable of mappings
        Arrays whose first axis is the samples', or the feeds of one batch after the other.
    size : int or None
        Samples of a batch; None for all. It is ignored for feeds.
    seed : int or None
        The seed of the shuffles of arrays; None to keep their order.
    where : str
        The name of the data in messages.
    """

    def __init__(self, data: Any, size: int | None, seed: int | None, where: str = "data") -> None:
        self._where, self._seed = where, seed
        self._arrays: dict[str, np.ndarray] | None = None
        self.samples = 0
        self.is_single = False
        if isinstance(data, Mapping):
            self._arrays = {str(name): np.asarray(value) for name, value in data.items()}
            self.samples = _samples(self._arrays, where)
            if size is None:
                self.size = self.samples
            else:
                # Eight samples make one batch of eight, also where 32 is the default.
                self.size = min(int(size), self.samples)
            if self.size < 1:
                raise InputError(
                    f"{where}, batch_size",
                    expected="a number from 1 on",
                    got=sanitize(repr(size)),
                    next="batch_size=None for all",
                )
            # The data are checked, and the gradient is verified, on the first batch in the order
            # of the data.
            self.first = self._cut(np.arange(self.size))
            return
        if not isinstance(data, Iterable) or isinstance(data, (str, bytes, np.ndarray)):
            raise self._refusal(type(data).__name__)
        self._feeds = data
        iterator = iter(data)
        # The first feed is looked at before the training begins, and a generator must not lose it.
        self.is_single = iterator is data  # a generator, which ends for good
        first: Any = next(iterator, None)
        self._check_feed_type(first)
        self.first = {str(name): np.asarray(value) for name, value in first.items()}
        self._once: Iterable[Any] | None = None
        if self.is_single:
            self._once = chain([first], iterator)

    def __len__(self) -> int:
        """Count the batches of an epoch; 0 for feeds, which cannot be counted beforehand."""
        if self._arrays is None:
            return 0
        return -(-self.samples // self.size)

    def check_size(self, graph: GraphProto) -> None:
        """Refuse a size that the inputs of a model do not take, and warn of samples left out."""
        if self._arrays is None:
            return
        for info in graph.input:
            shape = protos.type_of_proto(info.type).shape
            if info.name not in self._arrays or not shape or not isinstance(shape[0], int):
                continue
            fixed, name = shape[0], sanitize(info.name)
            if fixed != self.size:
                where = f"{self._where}, batch_size"
                expected = f"{fixed}, as the model fixes for input {name}"
                if fixed > self.samples:
                    got = f"{plural(self.samples, 'sample')} in all"
                    advice = "more samples, or a model with a free first dimension"
                    raise InputError(where, expected=expected, got=got, next=advice)
                advice = f"batch_size={fixed}"
                raise InputError(where, expected=expected, got=str(self.size), next=advice)
            left = self.samples % fixed
            if left:
                which = "the last" if self._seed is None else "another"
                warnings.warn(
                    f"{self._where}: each epoch leaves out {which} {left} of {self.samples:,} "
                    f"samples, as the model fixes {fixed} for input {name}",
                    UserWarning,
                    stacklevel=messages.level_of_user(),
                )
            return

    def check(self, types: _Types, loss: Loss) -> None:
        """Refuse data that the model or the loss does not take, before anything runs."""
        feed_checks.check_names(self.first, types)
        self._types, self._loss = types, loss
        self._checked(self.first)
        loss.check(self._arrays if self._arrays is not None else self.first)

    def _checked(self, feeds: Mapping[str, Any]) -> dict[str, np.ndarray]:
        """Check a batch's types against the model's, with one size for each symbol."""
        sizes: dict[str, int] = {}
        checked = {}
        for name, value in feeds.items():
            tensor_type = self._types[name]
            batch = np.asarray(feed_checks.check_feed(name, np.asarray(value), tensor_type))
            checked[name] = batch
            # Two inputs that share a symbol must agree on its size within the batch.
            if tensor_type is None or not tensor_type.shape:
                continue
            if not tensor_type.accepts_shape(batch.shape, sizes):
                expected = f"{tensor_type}, with one size for each symbol"
                got = str(list(batch.shape))
                raise InputError(f"feed {name}", expected=expected, got=got)
        return checked

    def epoch(self, number: int, skip: int) -> Iterator[dict[str, np.ndarray]]:
        """Yield the batches of an epoch, counted from 0, without the first ``skip`` of them."""
        if self._arrays is None:
            yield from self._feeds_of_epoch(skip)
            return
        # A random generator for each epoch, so that a resumed training shuffles as an
        # uninterrupted one.
        order = np.arange(self.samples)
        if self._seed is not None:
            order = np.random.default_rng([self._seed, number]).permutation(self.samples)
        # A model with a fixed number of samples cannot take the smaller batch at the end.
        end = self.samples
        if self._has_fixed_size():
            end -= self.samples % self.size
        for start in range(skip * self.size, end, self.size):
            yield self._cut(order[start : start + self.size])

    def _feeds_of_epoch(self, skip: int) -> Iterator[dict[str, np.ndarray]]:
        # Each epoch iterates over the feeds again; a generator has one epoch, and its first feed
        # was read already.
        feeds, self._once = self._once, None
        if feeds is None:
            feeds = self._feeds
        for feed in islice(feeds, skip, None):
            self._check_feed_type(feed)
            feed_checks.check_names(feed, self._types)
            checked = self._checked(feed)
            self._loss.check(checked)
            yield checked

    def _check_feed_type(self, feed: Any) -> None:
        if not isinstance(feed, Mapping):
            raise self._refusal(f"a feed that is {type(feed).__name__}")

    def _refusal(self, got: str) -> InputError:
        return InputError(
            self._where,
            expected="a dict of arrays, or one dict per batch",
            got=got,
            next='{"x": x, "labels": labels}',
        )

    def _has_fixed_size(self) -> bool:
        """Tell whether an input takes only batches of one size."""
        shapes = [
            tensor_type.shape for tensor_type in self._types.values() if tensor_type is not None
        ]
        return any(shape and isinstance(shape[0], int) for shape in shapes)

    def _cut(self, order: np.ndarray) -> dict[str, np.ndarray]:
        arrays = self._arrays or {}
        return {name: value[order] for name, value in arrays.items()}


def _samples(arrays: Mapping[str, np.ndarray], where: str) -> int:
    """Return the length that all arrays share."""
    # The first axis counts the samples, so a scalar has none.
    lengths = {name: len(array) if array.ndim else 0 for name, array in arrays.items()}
    samples = next(iter(lengths.values()), 0)
    if not samples or set(lengths.values()) != {samples}:
        got = ", ".join(f"{name}: {length:,}" for name, length in lengths.items())
        raise InputError(where, expected="as many samples in each array", got=got or "no array")
    return samples
