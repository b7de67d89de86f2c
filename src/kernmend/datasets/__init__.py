"""Data to try things on: surfaces and tables that are generated, and images that come with other packages."""

from kernmend.datasets._coil import Coil20, MissingDataError, find_coil20, load_coil20
from kernmend.datasets._images import load_mnist, rotate_images
from kernmend.datasets._surfaces import (
    SURFACES,
    Surface,
    make_circle,
    make_cubic_surface,
    make_random_walk,
    make_surface,
)
from kernmend.datasets._tables import Columns, make_raman_spectra, make_weather_station

__all__ = [
    "SURFACES",
    "Coil20",
    "Columns",
    "MissingDataError",
    "Surface",
    "find_coil20",
    "load_coil20",
    "load_mnist",
    "make_circle",
    "make_cubic_surface",
    "make_raman_spectra",
    "make_random_walk",
    "make_surface",
    "make_weather_station",
    "rotate_images",
]
