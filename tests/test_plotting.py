import numpy as np
import pytest

pytest.importorskip("matplotlib")

from kernmend.plotting import MethodRow, figure_methods


def test_one_line_per_method_is_drawn(tmp_path):
    rng = np.random.default_rng(0)
    X, images = rng.uniform(-1, 1, (12, 2)), rng.uniform(-0.5, 1.5, (2, 3, 4, 5))
    bad = np.arange(12) < 3
    rows = [MethodRow("clean", "truth", X, images), MethodRow("method", "1.0 dB", 0.5 * X, images, before=X)]
    figure = figure_methods(rows, bad, X, ("points", "images"))
    axes = np.array(figure.axes).reshape(2, 3)
    assert [text.get_text() for text in axes[1, 0].texts] == ["method", "1.0 dB"]
    assert [ax.get_title() for ax in axes[0, 1:]] == ["points", "images"]
    marked = [sum(len(dots.get_offsets()) for dots in ax.collections) for ax in axes[:, 1]]
    assert marked == [12, 12 + 3]  # the second also shows where the corrupted ones were
    lines = axes[1, 1].lines[1:]
    np.testing.assert_array_equal([line.get_xydata() for line in lines], np.stack([X, 0.5 * X])[:, bad].swapaxes(0, 1))
    mosaic = axes[0, 2].images[0].get_array()
    assert mosaic.shape == (2 * 4 + 2, 3 * 5 + 2 * 2)
    np.testing.assert_array_equal(mosaic[-4:, -5:], np.clip(images[1, 2], 0, 1))
    figure.savefig(tmp_path / "methods.png", dpi=30)
    assert (tmp_path / "methods.png").read_bytes().startswith(b"\x89PNG")
