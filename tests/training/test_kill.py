"""A process that is killed at any moment leaves a checkpoint that loads, and from which training continues to the bit."""

import json
import random
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import pyopnb

CHILD = """
import sys
import numpy as np
import pyopnb

def told(outputs, feeds):
    return 0.0

class Told:
    def __iter__(self):
        for k in range(8):
            print(k, flush=True)
            yield {name: value[k * 25 : k * 25 + 25] for name, value in data.items()}

data = dict(np.load(sys.argv[2]))
pyopnb.train(sys.argv[1], Told(), epochs=100_000, checkpoint=sys.argv[3], every=1, resume=True, verify=False)
"""


@pytest.mark.one_python
def test_a_killed_training_goes_on_to_the_bit(classifier, flowers, tmp_path):
    model, data, path = tmp_path / "model.onnx", tmp_path / "data.npz", tmp_path / "run.npz"
    model.write_bytes(classifier.SerializeToString())
    np.savez(data, **flowers)
    chance, steps = random.Random(7), [0]
    for _ in range(2):
        child = subprocess.Popen(
            [sys.executable, "-P", "-c", CHILD, str(model), str(data), str(path)],
            stdout=subprocess.PIPE,
        )
        for _ in range(chance.randrange(10, 60)):
            assert child.stdout.readline()
        # Anywhere within a step or the writing of its file.
        with pytest.raises(subprocess.TimeoutExpired):
            child.wait(chance.random() * 0.02)
        child.kill()
        child.stdout.close()
        assert child.wait() != 0
        with np.load(path) as file:
            steps.append(len(json.loads(str(file["facts"]))["losses"]))
    assert steps == sorted(set(steps)), "each went on from where the last was killed"
    feeds = [
        {name: value[k : k + 25] for name, value in flowers.items()} for k in range(0, 200, 25)
    ]
    epochs = steps[-1] // 8 + 1
    resumed = pyopnb.train(classifier, feeds, epochs=epochs, resume=path, verify=False)
    whole = pyopnb.train(classifier, feeds, epochs=epochs, verify=False)
    assert np.array_equal(resumed.losses, whole.losses)
    assert all(
        np.array_equal(resumed.weights[name], value) for name, value in whole.weights.items()
    )
    assert {each.name for each in Path(tmp_path).iterdir() if each.suffix != ".part"} == {
        "model.onnx",
        "data.npz",
        "run.npz",
    }
