"""Batches on Dask and ipyparallel, whose workers are killed."""

from __future__ import annotations

import functools
import os
import signal
import warnings
from contextlib import contextmanager
from dataclasses import dataclass

import cloudpickle
import numpy as np
import pytest
import remote_work

import pyopnb
from pyopnb.engine.ops.class_texts import class_source

COUNT = 400

# What a worker does that is to be as one without pyopnb, and not any more. As texts, since it has
# no module of the tests.
HIDE = """
import sys
names = [name for name in sys.modules if name.partition(".")[0] == "pyopnb"]
sys.hidden = {name: sys.modules.pop(name) for name in names}
sys.modules["pyopnb"] = None
"""
SHOW = "import sys; del sys.modules['pyopnb']; sys.modules.update(sys.hidden)"


@dataclass
class Engine:
    executor: object
    everywhere: object
    in_one: object
    """Functions that call one in each worker, and in one of them."""


@contextmanager
def dask_engine(_):
    import dask
    from dask.distributed import Client, LocalCluster

    # The profiler is to look at many calls of compute, which take 3 ms.
    with (
        dask.config.set(
            {
                "distributed.worker.profile.interval": "5ms",
                "distributed.worker.profile.enabled": True,
            }
        ),
        LocalCluster(
            n_workers=2, threads_per_worker=1, dashboard_address=":0", silence_logs=50
        ) as cluster,
        Client(cluster) as client,
    ):
        one = next(iter(client.scheduler_info()["workers"]))
        yield Engine(
            client.get_executor(), client.run, functools.partial(client.run, workers=[one])
        )


@contextmanager
def ipyparallel_engine(folder):
    import ipyparallel

    with warnings.catch_warnings(), pytest.MonkeyPatch.context() as patch:
        warnings.simplefilter("ignore")  # of its own start
        patch.chdir(folder)  # they import what is in the folder that they start in
        cluster = ipyparallel.Cluster(
            n=2, log_level=50, controller_args=["--IPController.use_threads=True"]
        )
        client = cluster.start_and_connect_sync(activate=False)
    yield Engine(client.executor(), client[:].apply_sync, client[0].apply_sync)
    client.close()
    cluster.stop_cluster_sync()


# One engine after the other: what workers spend in waiting is much on a loaded machine.
@pytest.fixture(
    params=[dask_engine, ipyparallel_engine], ids=["dask", "ipyparallel"], scope="module"
)
def engine(request, tmp_path_factory):
    with request.param(tmp_path_factory.mktemp("engine")) as started:
        yield started


@pytest.fixture
def executor(engine):
    return engine.executor


@pytest.fixture
def session():
    cloudpickle.register_pickle_by_value(remote_work)  # the workers have no module of the tests
    pyopnb.registry.define(remote_work.Slow, "travel::Slow", source=class_source(remote_work.Slow))
    yield pyopnb.Session(remote_work.session_model("travel::Slow"))
    pyopnb.registry.clear()
    cloudpickle.unregister_pickle_by_value(remote_work)


def killing(pid):
    for n in range(COUNT):
        if n == COUNT // 2:
            os.kill(pid, signal.SIGKILL)
        yield np.float32([n])


def test_an_exception_arrives_as_itself(session, executor):
    batches = [np.float32([n]) for n in range(40)]
    with pytest.raises(ValueError, match="below zero") as raised:
        pyopnb.map(session, [*batches, np.float32([-1])], executor)
    assert type(raised.value) is ValueError and "in batch 40" in raised.value.__notes__
    assert [raised.value.batches[n]["y"].item() for n in (0, 39)] == [0, 78]


def test_a_worker_without_pyopnb_is_an_error_and_serves_again_once_it_has_it(session, engine):
    class Waiting:
        """It takes one chunk at a time: a worker that hangs is to fail the test."""

        def submit(self, *arguments, **named):
            future = engine.executor.submit(*arguments, **named)
            future.exception(timeout=60)
            return future

    engine.everywhere(exec, HIDE, {})
    try:
        with pytest.raises(
            pyopnb.errors.InputError,
            match=r"workers that have pyopnb.*, got .*, process \d+ of .*, which has no pyopnb",
        ):
            pyopnb.map(session, [np.float32([1])], Waiting())
    finally:
        engine.everywhere(exec, SHOW, {})
    assert pyopnb.map(session, [np.float32([1])], Waiting())[0]["y"].item() == 2


def test_a_worker_that_is_killed_is_replaced_or_its_batches_are_named(session, engine, executor):
    """Dask runs them elsewhere, and what an engine loses is submitted once more, perhaps to a worker that is also gone."""
    first = pyopnb.map(session, [np.float32([n]) for n in range(20)], executor)
    pid = int(first.runs[0].worker.removeprefix("process "))
    failure = None
    try:
        results = pyopnb.map(session, killing(pid), executor)
    except Exception as error:
        failure, results = error, error.batches
    if failure is None:
        assert results.unfinished == []
    else:
        assert any(
            "raised by the executor, which had batches" in note for note in failure.__notes__
        )
    assert [run.result["y"].item() for run in results.runs] == [
        2 * run.number for run in results.runs
    ]
    swept = pyopnb.sweep(session, np.float32([1]), by=np.linspace(1, 3, 40), executor=executor)
    np.testing.assert_array_equal(swept.array("y")[:, 0], np.linspace(1, 3, 40).astype(np.float32))
