"""`python -m benchmarks growth`: its data, what it leaves out, how it goes on, and its page; nothing large is run."""

import numpy as np
import pytest

from benchmarks import growth, growth_work
from benchmarks.growth import Task, expected_seconds, left_out, measure_all, run_one, tasks
from benchmarks.growth_page import exponent, page
from benchmarks.growth_work import DEFAULT, DIGITS, FULL, METHODS, UNTOUCHED, corrupt, make_files, many_digits
from kernmend.paper.store import Store

SLOW, KPCA = "the paper's algorithm", "kernel PCA (scikit-learn)"
PAST = DIGITS + 20  # rows: twenty of them turned and moved


def task(method=SLOW, n=1000, threads=1):
    return Task(method, n, threads, 0, 300)


def measured(method, n, seconds, *, threads=1, **metrics):
    """Return a record as a measurement would leave it."""
    found = {"snr_corrupted": 9.0, "snr_subset": 9.0, "snr_clean": np.inf, "f1": 1.0}
    found |= {"clean_flagged": 0.0, "clean_changed": 0.0}
    facts = {
        "key": task(method, n, threads).key,
        "method": method,
        "n": n,
        "threads": threads,
        "seed": 0,
        "subset": 300,
    }
    place = {"machine": {"processor": "made up", "cores": 2, "system": "Linux"}, "versions": {"python": "3"}}
    cost = {"seconds": seconds, "cpu_seconds": seconds, "peak_mb": 512.0, "shape": [n, 784], "load": 0.5}
    return facts | place | cost | {"metrics": found | metrics, "command": "the run", "finished": "2030-01-02T03:04:05Z"}


# --- the data -------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def digits():
    return many_digits(PAST, 3)


def test_digits_are_the_same_every_time(digits):
    assert digits.shape == (PAST, 784)
    assert digits.dtype == np.float32
    assert digits.min() == 0.0
    assert digits.max() == 1.0
    np.testing.assert_array_equal(digits, many_digits(PAST, 3))
    np.testing.assert_array_equal(digits[:50], many_digits(50, 3))
    assert not np.array_equal(digits[:50], many_digits(50, 4))


def test_further_rows_are_digits_turned_and_moved_a_little(digits):
    plain, further = digits[:DIGITS], digits[DIGITS:]
    assert len(np.unique(plain[:500], axis=0)) == 500
    assert not any((plain == row).all(axis=1).any() for row in further)
    nearest = [np.linalg.norm(plain - row, axis=1).min() / np.linalg.norm(row) for row in further]
    assert np.median(nearest) < 0.9  # they are still digits
    shares = further.sum(axis=1) / plain.sum(axis=1).mean()
    assert shares.min() > 0.2  # none has left the picture


def test_an_image_is_turned_about_its_centre_then_moved():
    image = np.zeros((28, 28), dtype=np.float32)
    image[10, 4] = 1.0
    moved = growth_work._moved(image.ravel(), np.pi / 2, np.array([2.0, -1.0])).reshape(28, 28)
    assert np.argwhere(moved > 0.5).tolist() == [[4 + 2, 17 - 1]]


def test_a_tenth_of_the_rows_is_noisy(digits):
    X, rows = corrupt(digits[:400], 3)
    assert X.dtype == np.float32
    assert rows.sum() == 40
    np.testing.assert_array_equal(X[~rows], digits[:400][~rows])
    energy = np.square(X - digits[:400])[rows].sum() / np.square(digits[:400])[rows].sum()
    assert energy == pytest.approx(0.5, rel=0.1)


# --- what is left out -----------------------------------------------------------------------------------------------


def test_what_would_take_too_long_is_left_out():
    one, two = measured(SLOW, 100, 1.0), measured(SLOW, 1000, 100.0)
    other = measured(KPCA, 1000, 9.0)
    assert expected_seconds(task(n=400), []) is None
    assert expected_seconds(task(n=400), [one, other]) == pytest.approx(4**2.5)
    assert expected_seconds(task(n=3000), [one, two, other]) == pytest.approx(900.0)
    steep = [measured("Outlier Pursuit", 100, 1.0), measured("Outlier Pursuit", 1000, 1000.0)]
    assert expected_seconds(task("Outlier Pursuit", 4000), steep) == pytest.approx(8000.0)
    assert left_out(task(n=3000), [one, two], 1000.0, 16.0) is None
    assert left_out(task(n=3000), [one, two], 300.0, 16.0) == "would take about 15 min"


def test_what_does_not_fit_is_left_out():
    known = [measured(KPCA, 1000, 1.0)]
    assert left_out(task(KPCA, 60_000), [], 300.0, 16.0) == "n×n: would need about 80 GB"
    both = "n×n: would need about 80 GB, and take about 2 days"
    assert left_out(task(KPCA, 60_000), known, 300.0, 16.0) == both


def test_the_default_is_never_left_out():
    known = [measured(DEFAULT, 1000, 1.0), measured(DEFAULT, 2000, 1e4)]
    for name, n in ((DEFAULT, 60_000), (UNTOUCHED, 60_000), (FULL, 60_000)):
        assert left_out(task(name, n), known, 300.0, 16.0) is None


# --- the store ------------------------------------------------------------------------------------------------------


@pytest.fixture
def calls(monkeypatch):
    """Return the list of what is measured; only the slow one takes long."""
    made = []

    def fake(one, folder, limit):
        if len(made) == 4:
            made.append("interrupted")
            raise KeyboardInterrupt
        made.append((one.method, one.n, one.threads))
        seconds = (one.n / 100) ** 2 if one.method == SLOW else 0.01
        return {"cpu_seconds": seconds, "seconds": seconds, "peak_mb": 1.0, "metrics": {"snr_corrupted": 1.0}}

    monkeypatch.setattr(growth, "run_one", fake)
    return made


def test_a_run_goes_on_where_it_was(tmp_path, calls):
    store, todo = Store(tmp_path, "growth.jsonl"), tasks((100, 1000), 100, 0, 50)
    with pytest.raises(KeyboardInterrupt):
        measure_all(todo, store, 50.0, "a")
    assert len(store.read()) == 4
    measure_all(todo, store, 50.0, "b")
    lines = (tmp_path / "growth.jsonl").read_text()
    measure_all(todo, store, 50.0, "c")
    assert (tmp_path / "growth.jsonl").read_text() == lines
    calls.remove("interrupted")
    assert len(calls) == len(set(calls)) == len(todo) - 1
    skipped = [record for record in store.read().values() if "left_out" in record]
    assert [(record["method"], record["n"]) for record in skipped] == [(SLOW, 1000)]
    measure_all(todo, store, 5000.0, "d")
    assert calls[-1] == (SLOW, 1000, 1)
    assert "left_out" not in store.read()[Task(SLOW, 1000, 1, 0, 50).key]


def test_tasks_are_each_there_once():
    todo = tasks((1000, 100), 100, 0, 50)
    assert len(todo) == len(set(todo)) == 2 * len(METHODS) + 2
    assert [one.n for one in todo[: len(METHODS)]] == [100] * len(METHODS)
    assert [(one.method, one.n, one.threads) for one in todo[-2:]] == [(FULL, 1000, 1), (DEFAULT, 100, 2)]


def test_each_measurement_is_a_process_of_its_own(tmp_path, digits, monkeypatch):
    monkeypatch.setattr(growth_work, "many_digits", lambda n, seed: digits[:n])
    make_files(tmp_path, 80, 3)
    found = run_one(Task(KPCA, 80, 2, 3, 40), tmp_path, 60.0)
    assert found["shape"] == [80, 784]
    assert found["machine"]["threads"] == "2"
    assert found["metrics"]["clean_changed"] == 1.0
    assert found["peak_mb"] > 30
    assert found["versions"]["numpy"] == np.__version__


def test_a_measurement_that_ends_badly_says_so(tmp_path, capfd):
    (tmp_path / "X-80.npy").write_bytes(b"no array")
    assert run_one(Task(UNTOUCHED, 80, 1, 0, 40), tmp_path, 60.0) == {"left_out": "ended with code 1"}
    assert "no array" not in capfd.readouterr().out
    stopped = run_one(Task(SLOW, 80, 1, 0, 40), tmp_path, 0.01)
    assert stopped["left_out"].startswith("stopped after")
    assert growth.is_finished(stopped, 0.01)
    assert not growth.is_finished(stopped, 10.0)


# --- the page -------------------------------------------------------------------------------------------------------


@pytest.fixture
def records():
    out = []
    for n, seconds in ((400, 4.0), (10_000, 60.0), (60_000, 480.0)):
        out += [measured(UNTOUCHED, n, 0.0, snr_corrupted=3.0), measured(DEFAULT, n, seconds)]
    facts = {"key": task(SLOW, 10_000).key, "method": SLOW, "n": 10_000, "threads": 1, "seed": 0, "subset": 300}
    out += [measured(SLOW, 400, 40.0, snr_clean=50.0), facts | {"left_out": "would take about 7 h"}]
    full = measured(FULL, 60_000, 30.0, snr_subset=9.4) | {"shape": [3000, 784]}
    return [*out, measured(DEFAULT, 400, 2.5, threads=2), full]


def test_the_page(records):
    text = page(records, "the page's command", "images/growth.png")
    lines = text.splitlines()
    assert "`the page's command`" in text
    assert "`the run`" in text
    assert "made up, 2 cores" in text
    assert "](images/growth.png)" in text
    for n in ("400", "10,000", "60,000"):
        assert any(line.startswith(f"| {n} | untouched |") and "| 3.00 |" in line for line in lines)
    assert any(line.startswith(f"| 10,000 | {SLOW} | *left out: would take about 7 h*") for line in lines)
    assert any(line.startswith(f"| 60,000 | {SLOW} | *not run yet*") for line in lines)
    assert any(line.startswith(f"| 400 | {SLOW} | 40.00 | 40.00 | 10 |") for line in lines)
    assert "| 400 | 2 | 2.50 | 2.50 | 1.6 |" in lines
    assert "| dB that landmarks lose on these 3,000 rows | 0.40 | 1 | yes |" in lines
    assert "| exponent of time from 10,000 to 60,000 | 1.16 | 1.2 | yes |" in lines
    assert np.isnan(exponent(records, SLOW, 400, 10_000))  # left out
    assert "not to be trusted" not in text
    rows = [line.count("|") for line in lines if line.startswith(("| 400 | ", "| 10,000 | ")) and line.count("|") > 8]
    assert set(rows) == {13}


def test_the_page_warns_of_what_spoils_ratios(records):
    records[1]["load"] = 3.0
    records[2]["versions"] = {"python": "4"}
    text = page(records, "x")
    assert "Others used the machine (load up to 3.0)" in text
    assert "not to be trusted" in text
    assert "**no**" in page([r | {"cpu_seconds": 1e4} if r["n"] == 60_000 else r for r in records], "x")


def test_page_and_picture_are_made_from_the_store_alone(tmp_path, records, monkeypatch):
    pytest.importorskip("matplotlib")
    monkeypatch.setattr(growth, "measure_all", None)
    store = Store(tmp_path, "some.jsonl")
    for record in records:
        store.append(record)
    (tmp_path / "images").mkdir()
    source, to, picture = tmp_path / "some.jsonl", tmp_path / "page.md", tmp_path / "images" / "growth.png"
    growth.main(["--from", str(source), "--page", str(to), "--picture", str(picture)])
    assert "](images/growth.png)" in to.read_text()
    assert f"--from {source}" in to.read_text()
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_an_empty_store_has_no_page(tmp_path):
    with pytest.raises(SystemExit, match="nothing in"):
        growth.main(["--from", str(tmp_path / "none.jsonl")])
