"""`benchmarks constants`: every number that decides can be switched off, and is on the page."""

from benchmarks import constants
from benchmarks.real_cases import Case
from benchmarks.real_sample import Sample
from kernmend.detect import columns, scores


def test_every_constant_of_detection_is_known():
    """A new constant has to be switched off too, or be one of precision."""
    assert constants.constants() == set(constants.INSTEAD) | constants.PRECISION
    assert not set(constants.INSTEAD) & constants.PRECISION


def test_a_constant_is_replaced_everywhere_and_put_back():
    before = columns.CLIP
    with constants.instead("CLIP", 7.0):
        assert scores.CLIP == columns.CLIP == 7.0
    assert scores.CLIP == columns.CLIP == before


def test_harm_is_a_loss_of_f1_or_more_good_rows_flagged():
    before = {"a": [0.9, 0.0], "b": [None, 0.01], "c": [0.5, 0.0], "d": [0.5, 0.0]}
    after = {"a": [0.8, 0.0], "b": [None, 0.06], "c": [0.6, 0.001], "d": [0.5, 0.0]}
    assert constants.harm(before, after) == ["b: good rows flagged 1.0 → 6.0 %", "a: F1 0.90 → 0.80"]


def test_the_page_shows_what_a_run_has_found(tmp_path, monkeypatch, capsys):
    def make(rng):
        truth = rng.standard_normal((80, 3)) @ rng.standard_normal((3, 6))
        X = truth.copy()
        X[:4] += rng.choice([-6.0, 6.0], (4, 6))
        return Sample.of(truth, X)

    monkeypatch.setattr(constants, "chosen_cases", lambda: [Case("tables", "mine", "shift", 0, make)])
    arguments = ["--only", "SHARES", "--out", str(tmp_path / "store.jsonl"), "--page", str(tmp_path / "page.md")]
    constants.main(arguments)
    assert "SHARES" in capsys.readouterr().out
    assert "| `SHARES` | 0.004, " in (tmp_path / "page.md").read_text()
    assert '"tables, shift, entries"' in (tmp_path / "store.jsonl").read_text()
    constants.main(arguments)
    assert capsys.readouterr().out == ""  # nothing is run again
