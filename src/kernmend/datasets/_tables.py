"""Generated tables that look like those people have: a weather station, Raman spectra."""

from typing import NamedTuple

import numpy as np

from kernmend._typing import Array


class Columns(NamedTuple):
    """Rows of numbers and what each column is: names of sensors, or positions along a spectrum.

    Parameters
    ----------
    columns : tuple of str
        What each column is.
    X : ndarray of shape (n_samples, n_columns)
        The rows.

    Examples
    --------
    >>> from kernmend.datasets import make_weather_station
    >>> station = make_weather_station(24)
    >>> len(station.columns) == station.X.shape[1]
    True
    """

    columns: tuple[str, ...]
    X: Array


def make_weather_station(n_samples: int = 240, *, random_state: int = 0) -> Columns:
    """Return hourly readings of six sensors that see two things: the hour of the day and how sunny the day is.

    Six columns that two causes drive lie on a curved surface, so each reading can be foretold from the other five.

    Parameters
    ----------
    n_samples : int, default=240
        Number of hours.
    random_state : int, default=0
        Seed of the weather and of the small noise of each sensor.

    Returns
    -------
    Columns
        The names of the sensors with their units, and an array of shape (n_samples, 6).

    Examples
    --------
    >>> from kernmend.datasets import make_weather_station
    >>> make_weather_station(48).columns[0]
    'temperature C'
    """
    rng = np.random.default_rng(random_state)
    hour = 2.0 * np.pi * np.arange(n_samples) / 24.0
    days = rng.uniform(0.5, 1.0, n_samples // 24 + 2)
    sun = np.interp(np.arange(n_samples) / 24.0, np.arange(days.size), days)
    clean = {
        "temperature C": 18.0 - 7.0 * sun * np.cos(hour - 0.8),
        "humidity %": 58.0 + 22.0 * sun * np.cos(hour - 0.5),
        "pressure hPa": 1008.0 + 12.0 * sun + 1.5 * sun * np.cos(2.0 * hour),
        "wind m/s": 4.0 - 2.0 * sun * np.sin(hour),
        "light klx": 90.0 * sun * np.exp(-1.5 * (1.0 + np.cos(hour))),
        "soil C": 15.0 - 4.0 * sun * np.cos(hour - 1.6),
    }
    X: Array = np.column_stack(list(clean.values()))
    X += 0.01 * X.std(axis=0) * rng.standard_normal(X.shape)
    return Columns(tuple(clean), X)


# Centre in cm^-1, width in cm^-1 and height of the bands of two substances whose mixtures `make_raman_spectra` shows.
BANDS = (
    ((620.0, 14.0, 0.6), (1003.0, 9.0, 1.0), (1210.0, 22.0, 0.4), (1450.0, 25.0, 0.8)),
    ((760.0, 18.0, 0.7), (1080.0, 20.0, 0.9), (1340.0, 28.0, 0.5), (1655.0, 24.0, 1.0)),
)


def make_raman_spectra(n_samples: int = 150, n_channels: int = 300, *, random_state: int = 0) -> Columns:
    """Return Raman spectra of mixtures of two substances on a fluorescent background.

    The bands shift a little with the mixture, as they do in nature, so that the spectra lie on a curved surface.

    Parameters
    ----------
    n_samples : int, default=150
        Number of spectra.
    n_channels : int, default=300
        Number of positions along each, evenly spaced from 500 to 1800 cm^-1.
    random_state : int, default=0
        Seed of the mixtures, the background and the noise of the detector.

    Returns
    -------
    Columns
        The Raman shifts in cm^-1, as text, and an array of shape (n_samples, n_channels).

    Examples
    --------
    >>> from kernmend.datasets import make_raman_spectra
    >>> make_raman_spectra(5, 40).X.shape
    (5, 40)
    """
    rng = np.random.default_rng(random_state)
    shift = np.linspace(500.0, 1800.0, n_channels)
    share, glow = rng.uniform(0.0, 1.0, (2, n_samples, 1))
    X: Array = (0.3 + 0.7 * glow) * np.exp(-(shift - 500.0) / 900.0)
    for amount, bands in zip((share, 1.0 - share), BANDS, strict=True):
        for centre, width, height in bands:
            X = X + amount * height * np.exp(-0.5 * ((shift - centre - 8.0 * share) / width) ** 2)
    X += 0.01 * rng.standard_normal(X.shape)
    return Columns(tuple(f"{position:.0f}" for position in shift), X)
