"""The pictures of the report in the README: digits partly covered, and a weather station with failing sensors."""

import subprocess
import warnings
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pandas as pd

from kernmend import KernelRecovery
from kernmend.datasets import load_mnist
from kernmend.datasets.corruption import occlusion

ROOT = Path(__file__).parents[1]
IMAGES = ROOT / "docs" / "images"
SCREENSHOT = ROOT / "tests" / "report" / "browser" / "screenshot.mjs"
WIDTH, HEIGHT = 1280, 1900
HOURS = 260


def run() -> None:
    warnings.simplefilter("ignore")
    with TemporaryDirectory() as folder:
        light = digits(Path(folder) / "digits.html")
        dark = sensors(Path(folder) / "sensors.html")
        for page, theme in ((light, "light"), (dark, "dark")):
            picture = IMAGES / f"report-{theme}.png"
            size = [str(WIDTH), str(HEIGHT)]
            subprocess.run(["node", SCREENSHOT, page, picture, *size, theme, "#list [data-row]"], check=True)
            shrink(picture)
            print(
                f"{picture}, {picture.stat().st_size / 1000:.0f} KB, of a page of {page.stat().st_size / 1000:.0f} KB"
            )


def digits(path: Path) -> Path:
    X, _ = occlusion(load_mnist(400), (28, 28), random_state=1)
    return KernelRecovery(bounds=(0, 1)).fit(X).report(path, image_shape=(28, 28), title="Handwritten digits")


def sensors(path: Path) -> Path:
    """Two things that vary, the time of day and the weather, seen by six sensors, of which some fail at times."""
    rng = np.random.default_rng(1)
    day, sun = rng.uniform(0, 2 * np.pi, HOURS), rng.uniform(0.5, 1, HOURS)
    X = pd.DataFrame(
        {
            "temperature, °C": 20 + 8 * np.cos(day) * sun + 0.1 * rng.standard_normal(HOURS),
            "humidity, %": 55 + 20 * np.sin(day) * sun + 0.3 * rng.standard_normal(HOURS),
            "pressure, hPa": 1013 + 9 * sun * np.cos(day - 1) + 0.1 * rng.standard_normal(HOURS),
            "wind, m/s": 3 + 2 * sun * np.sin(2 * day) + 0.03 * rng.standard_normal(HOURS),
            "light, klx": 100 * sun + rng.standard_normal(HOURS),
            "soil moisture, %": 40 * sun * np.cos(day) ** 2 + 0.4 * rng.standard_normal(HOURS),
        }
    )
    wrong = [(5, 0, -40.0), (17, 1, 99.9), (40, 2, 0.0), (99, 4, 0.0), (150, 0, 85.0), (201, 5, -90.0)]
    for hour, sensor, value in [*wrong, (33, 1, np.nan), (40, 3, np.nan), (121, 2, np.nan)]:
        X.iloc[hour, sensor] = value
    hours = [f"July {1 + hour // 24}, {hour % 24:02d}:00" for hour in range(HOURS)]
    return KernelRecovery().fit(X).report(path, row_labels=hours, title="Weather station, July")


def shrink(picture: Path) -> None:
    """Write the picture with 256 colours: a third of the size, and the eye sees no difference."""
    from PIL import Image

    with Image.open(picture) as image:
        small = image.convert("RGB").quantize(256, method=Image.Quantize.MEDIANCUT)
    small.save(picture, optimize=True)
