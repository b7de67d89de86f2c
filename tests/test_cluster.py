"""A real cluster of two processes: workers that die, data that do not fit into memory, `kernmend mend --workers`."""

import os
import signal
import time
import tracemalloc

import numpy as np
import pytest
from test_dask import noisy, recovery

from kernmend import KernelRecovery

dask = pytest.importorskip("dask")
da = pytest.importorskip("dask.array")
distributed = pytest.importorskip("distributed")

pytestmark = pytest.mark.filterwarnings("ignore")  # of Dask: that the machine is slow
MB = 2**20


@pytest.fixture(scope="module")
def cluster():
    options = {"n_workers": 2, "threads_per_worker": 1, "memory_limit": "350MB", "dashboard_address": ":0"}
    with distributed.LocalCluster(**options, host="127.0.0.1", protocol="tcp://", silence_logs=50) as local:
        yield local


@pytest.fixture
def client(cluster):
    with distributed.Client(cluster) as client:
        client.wait_for_workers(2)
        yield client


# --- a cluster --------------------------------------------------------------------------------------------------------


def slow(X, seconds):
    """Return X as a lazy array, each block of which takes some time."""

    def wait(block):
        import time

        time.sleep(seconds)
        return block

    return X.map_blocks(wait, dtype=X.dtype, meta=np.zeros((0, 0)))


def test_a_worker_that_is_killed_changes_nothing(client):
    X = noisy(800)
    lazy = slow(da.from_array(X, chunks=(40, 20)), 0.1)
    est = recovery().fit(lazy)
    known = est.recovered_.compute()
    np.testing.assert_allclose(known, recovery().fit(X).recovered_, atol=1e-3)
    pids = client.run(os.getpid)
    futures = client.compute(list(est.recovered_.to_delayed().ravel()))
    while sum(future.done() for future in futures) < 3:
        time.sleep(0.02)
    assert not all(future.done() for future in futures)
    os.kill(next(iter(pids.values())), signal.SIGKILL)
    np.testing.assert_array_equal(np.vstack(client.gather(futures)), known)
    client.wait_for_workers(2)
    assert set(client.run(os.getpid).values()) != set(pids.values())


def test_data_larger_than_the_memory_of_all_workers(client):
    """800 MB pass through two workers of 350 MB, and the client sees next to nothing of it."""
    base, n_blocks = noisy(500, 1000).astype(np.float32), 400
    pids = client.run(os.getpid)
    part = dask.delayed(base)
    rows = dask.delayed(lambda block, k: np.roll(block, k, axis=0))
    X = da.concatenate([da.from_delayed(rows(part, k), base.shape, base.dtype) for k in range(n_blocks)])
    assert X.nbytes > 2 * 350e6
    tracemalloc.start()
    est = KernelRecovery(landmarks=80, error="rows").fit(X)
    largest = est.recovered_.max(axis=1)
    scores, flags, largest = dask.compute(est.outlier_scores_, est.outliers_, largest)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 40 * MB
    assert scores.shape == flags.shape == largest.shape == (200_000,)
    assert 0.05 < flags.mean() < 0.2
    assert client.run(os.getpid) == pids  # none was ended for taking too much
    assert max(client.run(peak_memory).values()) < 350e6


def peak_memory():
    import resource

    return 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def test_the_model_is_sent_once(client):
    est = recovery().fit(noisy(600))
    X = da.from_array(noisy(600), chunks=(20, 20))
    from distributed.protocol.pickle import dumps

    graph = len(dumps(dict(est.predict(X).__dask_graph__())))
    model = len(dumps(est))
    assert graph < model + 20 * X.nbytes
    assert est.predict(X).compute().shape == (600,)
