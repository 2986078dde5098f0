"""The parts of a foreign file that `train(resume=…)` refuses, and the state after a full disk."""

import errno
import json
import subprocess
import sys
from functools import partial

import numpy as np
import pytest
from systems import needs_memory_limits

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


@pytest.mark.parametrize(
    "change",
    [
        {"position": -1},
        {"position": 10**18},
        {"position": None},
        {"epoch": 10**30},
        {"seed": -1},
        {"losses": [1.0] * 3},
        {"norms": [1.0] * 5},
        {"names": [["w"]]},
        {"optimizer": 1},
        {"format": "another"},
        {"extra": 1},
    ],
    ids=str,
)
def test_facts_that_no_training_has(line, samples, path, change):
    rewrite(path, lambda facts, arrays: facts.update(change))
    with pytest.raises(InputError):
        resume(line, samples, path)


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
        replace(0, np.array(10**6)),
        replace(0, np.array([4])),
        replace(1, np.zeros(2, np.float32)),
        replace(1, np.zeros(1, np.float64)),
        replace(1, np.array([{}], dtype=object)),
        swap_bytes,
        lambda facts, arrays: arrays.pop("0"),
        lambda facts, arrays: facts["names"].reverse(),
    ],
)
def test_arrays_that_are_not_the_models(line, samples, path, change):
    rewrite(path, change)
    with pytest.raises(InputError):
        resume(line, samples, path)


def test_every_cut_of_the_file_is_refused(line, samples, path):
    whole = path.read_bytes()
    assert resume(line, samples, path).steps == 6
    for size in range(0, len(whole), len(whole) // 8):
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


MEMORY = """
import io, json, resource, sys, zipfile
import numpy as np, pyopnb
resource.setrlimit(resource.RLIMIT_AS, (4 << 30, 4 << 30))
path = sys.argv[1]
model = pyopnb.model([pyopnb.node("Mul", "x w", "y")], {"x": "float32[N]"}, "y",
                     initializers={"w": np.zeros(1, np.float32)})
data = {"x": np.ones(4, np.float32), "target": np.ones(4, np.float32)}
options = dict(loss="mse", batch_size=4, progress=False, verify=False)
pyopnb.train(model, data, checkpoint=path, **options)
with zipfile.ZipFile(path) as members:
    contents = {name: members.read(name) for name in members.namelist()}

def header(descr, shape):
    stream = io.BytesIO()
    facts = {"descr": descr, "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(stream, facts)
    return stream.getvalue()

def attempt(name, head, size, compression):
    with zipfile.ZipFile(path, "w", compression, compresslevel=1) as members:
        for other, content in contents.items():
            if other != name:
                members.writestr(other, content)
        with members.open(name, "w", force_zip64=True) as stream:
            stream.write(head)
            for _ in range(size >> 20):
                stream.write(bytes(1 << 20))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    try:
        pyopnb.train(model, data, resume=path, epochs=2, **options)
    except pyopnb.errors.InputError:
        pass
    else:
        raise AssertionError(name)
    more = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert more < 50 << 10, (name, size, more)

many = 96 << 20
for name, descr in (("0.npy", "<f4"), ("facts.npy", f"<U{many >> 2}")):
    shape = (many >> 2,) if descr == "<f4" else ()
    attempt(name, header(descr, shape), many, zipfile.ZIP_DEFLATED)
# Headers of more than there is, each of which numpy would make room for.
attempt("0.npy", header("<f4", (10**12,)), 0, zipfile.ZIP_STORED)
attempt("0.npy", header("<f4", (-1,)), 0, zipfile.ZIP_STORED)
attempt("facts.npy", header("<U500000000", ()), 0, zipfile.ZIP_STORED)
print("fine")
"""


@needs_memory_limits
def test_a_small_file_that_would_take_all_memory(tmp_path):
    command = [sys.executable, "-P", "-c", MEMORY, str(tmp_path / "run.npz")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "fine\n"), done.stderr


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
