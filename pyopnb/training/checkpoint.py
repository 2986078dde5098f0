"""What a training is continued from: arrays and where it stood, in memory or in a file."""

from __future__ import annotations

import json
import os
import zipfile
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from pyopnb.ops.atomic_write import atomic_write, check_writable, remove_abandoned
from pyopnb.ops.dtypes import dtype
from pyopnb.ops.errors import FeedError, sanitize
from pyopnb.ops.types import TensorType

__all__ = ["Checkpoint", "checkpoint_path", "newest"]

_SUFFIX = ".npz"
_FORMAT = "pyopnb training 1"


@dataclass
class Checkpoint:
    """Where a training stands after a step.

    Attributes
    ----------
    state : dict of str to ndarray
        Weights, what the optimizer keeps, and the number of steps.
    optimizer : str
        Its repr.
    seed : int or None
    epoch, position : int
        The epoch, and how many of its batches were used.
    seconds : float
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
        """Write it to a file, or into a folder under the number of its step; whole, or not at all.

        Raises
        ------
        OSError
            As from `pyopnb.ops.atomic_write`.
        """
        target = path / f"step-{len(self.losses):08}{_SUFFIX}" if path.is_dir() else path
        facts = {key: value for key, value in asdict(self).items() if key != "state"}
        facts |= {"format": _FORMAT, "names": list(self.state)}
        arrays = {str(number): value for number, value in enumerate(self.state.values())}
        with atomic_write(target) as pending:
            np.savez(pending.stream, facts=np.array(json.dumps(facts)), **arrays)  # type: ignore[arg-type]  # all keys are digits

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> Checkpoint:
        """Read one from a file, or the newest of a folder.

        Raises
        ------
        FeedError
            It is not there, or no checkpoint.
        """
        where = f"checkpoint {sanitize(os.fspath(path))}"
        found = newest(Path(path))
        if found is None:
            raise FeedError(
                where, expected="a file that train wrote", got="none", next="resume=True to begin where there is none"
            )
        try:
            with open(found, "rb") as stream, np.load(stream, allow_pickle=False) as file:
                facts = json.loads(str(file["facts"]))
                if facts.pop("format") != _FORMAT:
                    raise ValueError("another format")
                state = {name: file[str(number)] for number, name in enumerate(facts.pop("names"))}
            facts |= {key: [(int(step), value) for step, value in facts[key]] for key in ("scores", "marks")}
            return cls(state=state, **facts)
        except (OSError, ValueError, KeyError, TypeError, zipfile.BadZipFile) as error:
            raise FeedError(where, expected="a file that train wrote", got=sanitize(error)) from error

    def check(self, state: Mapping[str, np.ndarray], optimizer: str, seed: int | None) -> None:
        """Refuse to continue another training."""
        for what, wanted, given in (("optimizer", self.optimizer, optimizer), ("seed", str(self.seed), str(seed))):
            if wanted != given:
                raise FeedError(
                    f"train, resume: {what}", expected=sanitize(wanted), got=sanitize(given), next=f"{what}={wanted}"
                )
        mine, others = _types(self.state), _types(state)
        if set(mine) != set(others):
            raise FeedError("train, resume", expected=f"a training of {_only(mine, others)}", got=_only(others, mine))


def _types(state: Mapping[str, Any]) -> list[str]:
    return [f"{name}: {TensorType(dtype(value.dtype), value.shape)}" for name, value in state.items()]


def _only(some: list[str], others: list[str]) -> str:
    return sanitize(", ".join([each for each in some if each not in others][:3]) or "no other")


def newest(path: Path) -> Path | None:
    """The file of a checkpoint: the path itself, or the last step's of a folder; None where there is none."""
    if path.is_dir():
        return max(path.glob(f"step-*{_SUFFIX}"), default=None)
    return path if path.is_file() else None


def checkpoint_path(given: str | os.PathLike[str]) -> Path:
    """Where checkpoints go: a file ``.npz``, or a folder that is there or is made. What killed trainings left there goes."""
    path = Path(given)
    if path.suffix == _SUFFIX:
        check_writable(path)
        remove_abandoned(path.parent, path.name)
    else:
        path.mkdir(parents=True, exist_ok=True)
        remove_abandoned(path, "step-")
    return path
