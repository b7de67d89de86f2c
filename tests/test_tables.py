"""Generated tables and the errors that are put into them."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernmend.datasets import make_raman_spectra, make_weather_station
from kernmend.datasets.corruption import cosmic_rays, stuck_channel, wrong_cells


@pytest.mark.parametrize("make", [make_weather_station, make_raman_spectra])
def test_tables_are_the_same_for_the_same_seed_and_differ_for_another(make):
    one, again, other = make(30, random_state=1), make(30, random_state=1), make(30, random_state=2)
    assert (one.X == again.X).all()
    assert (one.X != other.X).any()
    assert len(one.columns) == one.X.shape[1]
    assert np.isfinite(one.X).all()


def test_each_sensor_follows_from_the_others():
    """Two things drive six sensors: the nearest hours by the other five tell each one to a tenth of its spread."""
    X = make_weather_station(2000, random_state=0).X
    Z = (X - X.mean(axis=0)) / X.std(axis=0)
    for column in range(Z.shape[1]):
        rest = np.delete(Z, column, axis=1)
        near = np.argsort(((rest[:200, np.newaxis] - rest[np.newaxis]) ** 2).sum(axis=2), axis=1)[:, 1:4]
        assert np.median(np.abs(Z[near, column].mean(axis=1) - Z[:200, column])) < 0.1


@given(n=st.integers(2, 60), d=st.integers(2, 12), share=st.floats(0, 1), seed=st.integers(0, 99))
def test_wrong_cells_are_those_of_the_mask(n, d, share, seed):
    X = np.random.default_rng(seed).standard_normal((n, d))
    Y, cells = wrong_cells(X, share, size=5.0, random_state=seed)
    assert cells.any(axis=1).sum() == cells.sum() == round(share * n)
    assert (Y[~cells] == X[~cells]).all()
    away = np.abs(Y - X) / X.std(axis=0)
    assert np.allclose(away[cells], 5.0)


@given(n=st.integers(2, 40), d=st.integers(3, 30), share=st.floats(0, 1), seed=st.integers(0, 99))
def test_cosmic_rays_are_spikes_of_two_channels(n, d, share, seed):
    X = np.random.default_rng(seed).standard_normal((n, d))
    Y, cells = cosmic_rays(X, share, random_state=seed)
    assert set(cells.sum(axis=1)) <= {0, 2}
    assert cells.any(axis=1).sum() == round(share * n)
    assert (Y[~cells] == X[~cells]).all()
    assert (Y[cells] - X[cells] >= 0.29 * np.ptp(X)).all()


@given(start=st.integers(0, 10), length=st.integers(1, 20), column=st.integers(0, 2))
def test_a_stuck_channel_repeats_its_value(start, length, column):
    X = np.random.default_rng(0).standard_normal((40, 3))
    Y, cells = stuck_channel(X, column, start, length)
    assert (Y[start : start + length, column] == X[start, column]).all()
    assert cells.sum() == length - 1
    assert (Y[~cells] == X[~cells]).all()
