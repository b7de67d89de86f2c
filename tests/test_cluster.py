"""A real cluster of two processes: workers that die, data that do not fit into memory, `kernmend mend --workers`."""

import json
import os
import signal
import subprocess
import sys
import time
import tracemalloc

import numpy as np
import pytest
from test_dask import noisy, recovery

import kernmend as library
from kernmend import KernelRecovery

dask = pytest.importorskip("dask")
da = pytest.importorskip("dask.array")
distributed = pytest.importorskip("distributed")
pd = pytest.importorskip("pandas")
zarr = pytest.importorskip("zarr")
psutil = pytest.importorskip("psutil")

pytestmark = [
    pytest.mark.filterwarnings("ignore"),  # of Dask: that the machine is slow
    pytest.mark.usefixtures("quick_calibration"),
]
MB = 10**6
LIMIT = 500 * MB  # of each worker, of which Python and its libraries take 240


@pytest.fixture(scope="module")
def cluster():
    options = {"n_workers": 2, "threads_per_worker": 1, "memory_limit": LIMIT, "dashboard_address": ":0"}
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
    est = recovery(tol=1e-8).fit(lazy)  # at 1e-6 the rounding of a batch moves a row by 5e-3 on some processors
    known = est.recovered_.compute()
    np.testing.assert_allclose(known, recovery(tol=1e-8).fit(X).recovered_, atol=1e-3)
    pids = client.run(os.getpid)
    futures = client.compute(list(est.recovered_.to_delayed().ravel()))
    while sum(future.done() for future in futures) < 3:
        time.sleep(0.02)
    assert not all(future.done() for future in futures)
    os.kill(next(iter(pids.values())), signal.SIGKILL)
    np.testing.assert_array_equal(np.vstack(client.gather(futures)), known)
    client.wait_for_workers(2)
    assert set(client.run(os.getpid).values()) != set(pids.values())


def test_data_larger_than_the_memory_of_a_worker(client):
    """520 MB pass through workers of 500 MB, and the client sees next to nothing of it.

    What it takes is to learn from 100 rows: some twenty arrays of as many rows, or three times as many with injected
    errors. That grows with their columns, of which there are 1,000.
    """
    angle = np.random.default_rng(0).uniform(0, 2 * np.pi, 1000)
    base = np.tile(np.column_stack([np.cos(angle), np.sin(angle)]), 500).astype(np.float32)
    base[:4] *= 2
    part, turn = dask.delayed(base), dask.delayed(lambda block, k: np.roll(block, k, axis=0))
    X = da.concatenate([da.from_delayed(turn(part, k), base.shape, base.dtype) for k in range(130)])
    assert X.nbytes > LIMIT
    pids = client.run(os.getpid)
    tracemalloc.start()
    est = KernelRecovery(error="rows", gamma=2e-3, landmarks=100).fit(X)
    flags, largest = dask.compute(est.outliers_, est.recovered_.max(axis=1))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 40 * MB
    np.testing.assert_array_equal(
        np.flatnonzero(flags), np.sort([(1000 * k + (k + i) % 1000) for k in range(130) for i in range(4)])
    )
    assert largest.max() < 1.3
    assert client.run(os.getpid) == pids  # none was ended for taking too much
    assert max(client.run(peak_memory).values()) < LIMIT


def peak_memory():
    """Return the most bytes this process has had; not `ru_maxrss`, which begins with that of the parent."""
    from pathlib import Path

    line = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM"))
    return 1024 * int(line.split()[1])


def test_the_model_is_sent_once(client):
    est = recovery().fit(noisy(600))
    X = da.from_array(noisy(600), chunks=(20, 20))
    from distributed.protocol.pickle import dumps

    graph = len(dumps(dict(est.predict(X).__dask_graph__())))
    model = len(dumps(est))
    assert graph < model + 20 * X.nbytes
    assert est.predict(X).compute().shape == (600,)


# --- kernmend mend ----------------------------------------------------------------------------------------------------


@pytest.fixture
def big(tmp_path):
    """A zarr folder with an array in chunks of both axes, and another."""
    group = zarr.open_group(tmp_path / "big.zarr", mode="w")
    X = noisy(640).astype(np.float32)
    X[5, 3] = np.nan
    group.create_array("X", data=X, chunks=(20, 7))
    group.create_array("labels", data=np.arange(640))
    return tmp_path / "big.zarr"


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def test_zarr_by_blocks_as_in_memory(kernmend, cluster, big, tmp_path):
    where = ("--cluster", cluster.scheduler_address)
    kernmend("mend", big, "-o", tmp_path / "known.zarr", "--landmarks", 200, "-q")
    model, page = tmp_path / "model", tmp_path / "page.html"
    files = ("-o", tmp_path / "out.zarr", "--save-model", model, "--report", page)
    done = kernmend("mend", big, *files, "--landmarks", 200, *where, "--json")
    facts = json.loads(done.stdout)
    assert (facts["rows"], facts["columns"], facts["missing"], facts["filled"]) == (640, 20, 1, 1)
    out, known, before = (zarr.open(tmp_path / f"{name}.zarr")["X"] for name in ("out", "known", "big"))
    assert (out.dtype, out.chunks) == (before.dtype, before.chunks)
    np.testing.assert_allclose(out[:], known[:], atol=1e-3)
    assert facts["changed"] == (out[:] != before[:]).sum() == (known[:] != before[:]).sum()
    assert (zarr.open(tmp_path / "out.zarr")["labels"][:] == np.arange(640)).all()
    assert names(tmp_path) == ["big.zarr", "known.zarr", "model", "out.zarr", "page.html"]
    assert library.load(model).transform(before[:50]).shape == (50, 20)
    assert "is there already" in kernmend("mend", big, *files, *where, code=2).stderr
    words = kernmend("mend", big, *files, "--landmarks", 200, *where, "--force", "--progress").stdout
    assert "640 rows, 20 columns of numbers, 1 value missing" in words
    assert "rows flagged" in words


@pytest.mark.parametrize("folder", [False, True], ids=["file", "folder"])
def test_parquet_by_row_groups(kernmend, cluster, folder, tmp_path):
    import pyarrow.parquet as pq

    frame = pd.DataFrame(np.round(100 * noisy(500)), columns=[f"c{j}" for j in range(20)]).astype({"c0": "int16"})
    frame.insert(3, "name", [f"row {i}" for i in range(500)])
    source, target = tmp_path / "data.parquet", tmp_path / "out.parquet"
    if folder:
        (source / "more").mkdir(parents=True)
        frame[:300].to_parquet(source / "a.parquet", row_group_size=120, compression="gzip")
        frame[300:].to_parquet(source / "more" / "b.parquet")
        (source / "notes.txt").write_text("mine")
        (source / "_metadata").write_text("old")
    else:
        frame.to_parquet(source, row_group_size=120, compression="gzip")
    log, where = tmp_path / "log.csv", ("--cluster", cluster.scheduler_address)
    done = kernmend("mend", source, "-o", target, "--changes", log, "--landmarks", 200, *where)
    assert "Passed through untouched: name" in done.stdout
    first = target / "a.parquet" if folder else target
    out = (
        pd.concat([pd.read_parquet(first), pd.read_parquet(target / "more" / "b.parquet")])
        if folder
        else pd.read_parquet(first)
    )
    facts = pq.ParquetFile(first).metadata
    assert facts.row_group(0).num_rows == 120
    assert facts.row_group(0).column(0).compression == "GZIP"
    assert (out.dtypes == frame.dtypes).all()
    assert (out["name"] == frame["name"]).all()
    known = library.mend(frame, landmarks=200).data
    np.testing.assert_allclose(out.drop(columns="name"), known.drop(columns="name"), atol=1.01)
    assert 20 < (out != frame).any(axis=1).sum() < 80
    if folder:
        assert names(target) == ["a.parquet", "more", "notes.txt"]
    # The change log of the blocks makes the same changes, and takes them back.
    changes = library.io.read_log(log)
    assert len(changes) == (out != frame).sum().sum()
    assert all(map(str.strip, changes.reason))
    assert all(changes.low)
    kernmend("patch", source, log, "-o", tmp_path / "patched.parquet")
    kernmend("revert", target, log, "-o", tmp_path / "back.parquet")
    parts = ("a.parquet", "more/b.parquet") if folder else ("",)
    for name, expected in (("patched", out), ("back", frame)):
        tables = [pd.read_parquet(tmp_path / f"{name}.parquet" / part) for part in parts]
        pd.testing.assert_frame_equal(pd.concat(tables), expected)


def test_a_client_that_is_killed_leaves_nothing_that_passes_for_whole(kernmend, cluster, big, tmp_path):
    target = tmp_path / "out.zarr"
    command = [sys.executable, "-m", "kernmend", "mend", big, "-o", target, "--workers", 2, "--landmarks", 200]
    with subprocess.Popen([*map(str, command), "--memory", "1GB"], stderr=subprocess.DEVNULL) as process:
        while not list(tmp_path.glob(".out.zarr.*.part/out")):
            assert process.poll() is None
            time.sleep(0.02)
        workers = psutil.Process(process.pid).children(recursive=True)
        process.kill()
    assert len(workers) >= 2
    assert not target.exists()
    assert len(names(tmp_path)) == 2  # the input, and what is no output by its name
    assert not psutil.wait_procs(workers, timeout=20)[1]
    kernmend("mend", big, "-o", target, "--landmarks", 200, "--cluster", cluster.scheduler_address)
    assert names(tmp_path) == ["big.zarr", "out.zarr"]
    assert not np.isnan(zarr.open(target)["X"][:]).any()


def test_workers_of_its_own(kernmend, big, tmp_path):
    log = tmp_path / "log.csv"
    done = kernmend("mend", big, "--landmarks", 200, "--workers", 1, "--memory", "1GB", "--changes", log)
    assert done.stderr == ""
    assert names(tmp_path) == ["big.mended.zarr", "big.zarr", "log.csv"]
    kernmend("revert", f"{tmp_path / 'big.mended.zarr'}::X", log, "-o", tmp_path / "back.zarr")
    np.testing.assert_array_equal(zarr.open(tmp_path / "back.zarr")["X"][:], zarr.open(big)["X"][:])


def test_what_cannot_be_mended_by_blocks(kernmend, cluster, big, tmp_path):
    where = ("--cluster", cluster.scheduler_address)
    (tmp_path / "a.csv").write_text("x,y\n1,2\n3,4\n")
    assert "zarr and parquet" in kernmend("mend", tmp_path / "a.csv", *where, code=2).stderr
    assert "the method kernel" in kernmend("mend", big, "--method", "robust-pca", *where, code=2).stderr
    assert "not an amount of memory" in kernmend("mend", big, "--workers", 1, "--memory", "much", code=2).stderr
    assert "--memory is that of" in kernmend("mend", big, "--memory", "1GB", code=2).stderr
    assert "one of them" in kernmend("mend", big, "--workers", 1, *where, code=2).stderr
    group = zarr.open_group(big, mode="r+")
    group["X"][77, 2] = np.inf
    assert "X contains inf" in kernmend("mend", big, *where, code=1).stderr
    assert names(tmp_path) == ["a.csv", "big.zarr"]


def test_no_cluster_there(kernmend, big, monkeypatch):
    monkeypatch.setattr("kernmend.cli.cluster.SECONDS", 1)
    done = kernmend("mend", big, "--cluster", "tcp://127.0.0.1:9", code=2)
    assert done.stderr == "kernmend: there is no Dask cluster at tcp://127.0.0.1:9\n"


def test_without_dask(kernmend, big, monkeypatch):
    monkeypatch.setitem(sys.modules, "distributed", None)
    done = kernmend("mend", big, "--workers", 1, code=1)
    assert done.stderr == "kernmend: mending on a cluster needs dask: pip install 'dask[array,dataframe]' distributed\n"


def test_workers_that_die_again_and_again(kernmend, cluster, big, monkeypatch):
    def dead(*arguments, **options):
        raise distributed.KilledWorker("task", None, 3)

    monkeypatch.setattr("kernmend.cli.cluster._mend", dead)
    done = kernmend("mend", big, "--landmarks", 200, "--cluster", cluster.scheduler_address, code=1)
    assert "raise --memory" in done.stderr
    assert names(big.parent) == ["big.zarr"]
