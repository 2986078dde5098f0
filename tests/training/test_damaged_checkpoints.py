"""What `train(resume=…)` refuses of a damaged file, and what a full disk leaves."""

import errno
import json
from functools import partial

import numpy as np
import pytest

import pyopnb
from pyopnb.errors import InputError, NotFinite

# Gradients are judged in tests/grad.
train = partial(pyopnb.train, verify=False)


@pytest.fixture
def path(line, samples, tmp_path):
    """A checkpoint of two epochs of two batches each."""
    path = tmp_path / "run.npz"
    train(line, samples, loss="mse", checkpoint=path, epochs=2)
    return path


def rewrite(path, change):
    """Write a checkpoint again with changed facts and arrays."""
    with np.load(path) as file:
        arrays = {name: file[name] for name in file.files}
    facts = json.loads(str(arrays.pop("facts")))
    change(facts, arrays)
    np.savez(path, facts=np.array(json.dumps(facts)), **arrays)


def resume(line, samples, path, **changes):
    return train(line, samples, loss="mse", epochs=3, resume=path, **changes)


def test_a_rewritten_checkpoint_goes_on(line, samples, path):
    rewrite(path, lambda facts, arrays: None)
    whole = train(line, samples, loss="mse", epochs=3)
    assert np.array_equal(resume(line, samples, path).losses, whole.losses)


def replace(position, array):
    def change(facts, arrays):
        number = next(key for key, value in arrays.items() if value.ndim == position)
        arrays[number] = array

    return change


def swap_bytes(facts, arrays):
    arrays["0"] = arrays["0"].astype(">f4")


@pytest.mark.parametrize(
    "change",
    [
        replace(0, np.array([4])),
        replace(1, np.zeros(2, np.float32)),
        replace(1, np.zeros((), np.float32)),
        replace(1, np.zeros(1, np.float64)),
        replace(1, np.zeros(1, np.int32)),
        replace(1, np.array(["x"])),
        replace(1, np.array([{}], dtype=object)),
        replace(1, np.zeros(1, [("a", np.float32)])),
        swap_bytes,
        lambda facts, arrays: arrays.pop("0"),
        lambda facts, arrays: facts["names"].reverse(),
        lambda facts, arrays: facts["names"].pop(),
        lambda facts, arrays: facts.update(format="another"),
        lambda facts, arrays: facts.update(extra=1),
    ],
)
def test_arrays_that_are_not_the_models(line, samples, path, change):
    rewrite(path, change)
    with pytest.raises(InputError):
        resume(line, samples, path)


def test_every_cut_of_the_file_is_refused(line, samples, path):
    whole = path.read_bytes()
    assert resume(line, samples, path).steps == 6
    for size in range(0, len(whole), len(whole) // 20):
        path.write_bytes(whole[:size])
        with pytest.raises(InputError):
            resume(line, samples, path)


def test_data_of_fewer_batches_than_were_used(line, samples, tmp_path):
    path = tmp_path / "run.npz"

    def stop(outputs, feeds):
        raise ZeroDivisionError

    # It ends after the two batches of an epoch, which is not counted yet.
    with pytest.raises(ZeroDivisionError):
        train(line, samples, loss="mse", checkpoint=path, validation=samples, metric=stop)
    with pytest.raises(InputError, match="2 batches"):
        resume(line, samples, path, batch_size=None)
    assert resume(line, samples, path).steps == 6


# ---- a full disk


@pytest.fixture
def fill_disk(monkeypatch):
    """Let so many more checkpoints be written before the disk is full."""

    def fill(after):
        calls = iter(range(10**6))
        write = np.savez

        def savez(stream, **arrays):
            if next(calls) >= after:
                stream.write(b"PK")
                raise OSError(errno.ENOSPC, "No space left on device")
            write(stream, **arrays)

        monkeypatch.setattr(np, "savez", savez)

    return fill


def test_a_full_disk_raises_with_the_training(
    classifier, flowers, tmp_path, fill_disk, monkeypatch
):
    whole = train(classifier, flowers, epochs=2, batch_size=20)
    fill_disk(after=1)
    path = tmp_path / "run.npz"
    with pytest.raises(OSError, match="No space left") as caught:
        train(classifier, flowers, epochs=2, batch_size=20, checkpoint=path, every=6)
    training = caught.value.training
    assert (caught.value.errno, training.steps) == (errno.ENOSPC, 12)
    assert np.array_equal(training.losses, whole.losses[:12])
    (text,) = caught.value.__notes__
    assert "error.training" in text
    assert [file.name for file in tmp_path.iterdir()] == ["run.npz"]
    monkeypatch.undo()
    # Both what is in memory and the file before go on to the bit.
    assert np.array_equal(
        train(classifier, flowers, epochs=2, batch_size=20, resume=path).losses, whole.losses
    )
    assert np.array_equal(training.resume().losses, whole.losses)
    assert all(
        np.array_equal(training.weights[name], value) for name, value in whole.weights.items()
    )


def test_a_disk_that_is_full_at_the_end_raises_with_all_steps(line, samples, tmp_path, fill_disk):
    fill_disk(after=0)
    with pytest.raises(OSError, match="No space left") as caught:
        train(line, samples, loss="mse", epochs=2, checkpoint=tmp_path / "run.npz")
    assert (caught.value.training.steps, caught.value.training.epoch) == (4, 2)


def test_a_full_disk_does_not_hide_what_ended_the_training(line, samples, tmp_path, fill_disk):
    samples["target"][7] = np.nan
    fill_disk(after=0)
    with pytest.raises(NotFinite) as caught:
        train(line, samples, loss="mse", checkpoint=tmp_path / "run.npz")
    assert caught.value.training is not None
    assert "No space left" in "".join(caught.value.__notes__)


def test_a_metric_of_float32_is_kept_in_a_checkpoint(line, samples, tmp_path):
    path = tmp_path / "run.npz"
    options = {"validation": samples, "metric": lambda outputs, feeds: np.float32(0.5)}
    train(line, samples, loss="mse", checkpoint=path, **options)
    assert resume(line, samples, path, **options).scores == [(2, 0.5), (4, 0.5), (6, 0.5)]
