"""Keep the state that a training is resumed from, in memory or in a file."""

from __future__ import annotations

import json
import os
import zipfile
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path

import numpy as np

from pyopnb.common import file_writes, sanitize
from pyopnb.errors import InputError

__all__ = ["Checkpoint", "checkpoint_path"]

_SUFFIX = ".npz"
_FORMAT = "pyopnb training 1"


@dataclass
class Checkpoint:
    """The state of a training after a step.

    Attributes
    ----------
    state : dict of str to ndarray
        Weights, the optimizer's arrays, and the number of steps.
    optimizer : str
        Its repr.
    epoch, position : int
        The epoch, and how many of its batches were used.
    losses, norms : list of float
        For each step the loss before it, and the length of the gradient of all weights.
    scores : list of (int, float)
        Numbers of steps, and the metric on the validation data after them.
    marks : list of (int, str)
        Steps before which an op was redefined, and its version.
    """

    state: dict[str, np.ndarray]
    optimizer: str
    seed: int | None
    epoch: int = 0
    position: int = 0
    seconds: float = 0.0
    losses: list[float] = field(default_factory=list)
    norms: list[float] = field(default_factory=list)
    scores: list[tuple[int, float]] = field(default_factory=list)
    marks: list[tuple[int, str]] = field(default_factory=list)

    def write(self, path: Path) -> None:
        """Write it to a file, whole or not at all.

        Raises
        ------
        OSError
            As from `pyopnb.common.system.file_writes`.
        """
        # Everything but the arrays is one JSON text. The arrays are numbered, as a name of a
        # weight may have any characters.
        facts = {key: value for key, value in asdict(self).items() if key != "state"}
        facts |= {"format": _FORMAT, "names": list(self.state)}
        arrays = {str(number): value for number, value in enumerate(self.state.values())}
        with file_writes.atomic_write(path) as pending:
            np.savez(pending.stream, facts=np.array(json.dumps(facts)), **arrays)  # type: ignore[arg-type]  # all keys are digits

    @classmethod
    def read(
        cls,
        path: str | os.PathLike[str],
        state: Mapping[str, np.ndarray],
        optimizer: str,
        seed: int | None,
    ) -> Checkpoint:
        """Read one from a file, to resume a training.

        Raises
        ------
        InputError
            There is no file, or it is not a checkpoint of this training: the optimizer, the
            seed, or the names and types of ``state`` differ.
        """
        where = f"checkpoint {sanitize(os.fspath(path))}"
        expected = "a file that train wrote"
        file = Path(path)
        if not file.is_file():
            begin = "resume=True, which starts from the beginning if there is none"
            raise InputError(where, expected=expected, got="none", next=begin)
        try:
            _refuse_compressed(file)
            with np.load(file, allow_pickle=False) as arrays:
                facts = json.loads(str(arrays["facts"]))
                if facts.pop("format") != _FORMAT:
                    raise ValueError("another format")
                # JSON has lists where the training has pairs.
                for key in ("scores", "marks"):
                    facts[key] = [tuple(pair) for pair in facts[key]]
                names = facts.pop("names")
                values = {name: arrays[str(number)] for number, name in enumerate(names)}
            checkpoint = cls(values, **facts)
            checkpoint._check_steps()
        except Exception as error:  # zipfile, json and NumPy raise a dozen kinds for damaged bytes
            advice = "resume=None, to begin anew"
            raise InputError(where, expected=expected, got=sanitize(error), next=advice) from error
        checkpoint._check(state, optimizer, seed)
        return checkpoint

    def _check_steps(self) -> None:
        """Refuse numbers that contradict each other."""
        steps = len(self.losses)
        if len(self.norms) != steps:
            raise ValueError(f"norms of {len(self.norms)} steps and losses of {steps}")
        # An epoch has at least one step, so both together are never more than the steps.
        if min(self.epoch, self.position) < 0 or self.epoch + self.position > steps:
            raise ValueError(f"epoch {self.epoch}, position {self.position} after {steps} steps")
        for name, array in self.state.items():
            # Weights are floats: the one integer is the number of steps, from which rates follow.
            if array.dtype == np.int64 and array != steps:
                raise ValueError(f"{name} {array} after {steps} steps")

    def _check(self, state: Mapping[str, np.ndarray], optimizer: str, seed: int | None) -> None:
        """Refuse to continue another training."""
        pairs = {"optimizer": (self.optimizer, optimizer), "seed": (str(self.seed), str(seed))}
        for name, (expected, got) in pairs.items():
            if expected != got:
                expected, got = sanitize(expected), sanitize(got)
                where = f"train, resume: {name}"
                raise InputError(where, expected=expected, got=got, next=f"{name}={expected}")
        # A state with other names or shapes belongs to another model, and does not run in this one.
        ours, theirs = _types(self.state), _types(state)
        if ours != theirs:
            expected = _listed(ours - theirs)
            got = _listed(theirs - ours)
            advice = "resume=None, to begin anew"
            expected = f"a training of {expected}"
            raise InputError("train, resume", expected=expected, got=got, next=advice)


def _refuse_compressed(file: Path) -> None:
    # np.savez does not compress; a few compressed bytes could fill the memory.
    with zipfile.ZipFile(file) as members:
        for info in members.infolist():
            if info.compress_type != zipfile.ZIP_STORED or info.compress_size != info.file_size:
                raise ValueError(f"{info.filename}, which is compressed")


def _listed(types: set[str]) -> str:
    shown = sorted(types)[:3]
    return sanitize(", ".join(shown) or "nothing more")


def _types(arrays: Mapping[str, np.ndarray]) -> set[str]:
    return {f"{name}: {array.dtype}{list(array.shape)}" for name, array in arrays.items()}


def checkpoint_path(given: str | os.PathLike[str]) -> Path:
    """Prepare a file ``.npz`` for checkpoints.

    The unfinished files that killed trainings left there are removed.
    """
    path = Path(given)
    if path.suffix != _SUFFIX:
        got = sanitize(repr(os.fspath(given)))
        expected = f"the path of a file {_SUFFIX}"
        raise InputError(
            "train, checkpoint", expected=expected, got=got, next='checkpoint="run.npz"'
        )
    file_writes.check_writable(path)
    file_writes.remove_abandoned(path.parent, path.name)
    return path
