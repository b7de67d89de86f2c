import numpy as np
import pytest

pytest.importorskip("matplotlib")

from matplotlib.figure import Figure

from benchmarks.methods_picture import MethodRow, figure_methods
from kernmend import OutlierPursuit
from kernmend.datasets import make_circle
from kernmend.report.plotting import (
    plot_convergence,
    plot_gallery,
    plot_map,
    plot_scores,
)


@pytest.fixture(scope="module")
def est():
    """Rank 2, rows 3, 40 and 41 random."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((60, 2)) @ rng.standard_normal((2, 20))
    X[[3, 40, 41]] = 2.0 * rng.standard_normal((3, 20))
    return OutlierPursuit().fit(X)


@pytest.fixture
def ax():
    return Figure().subplots()


def test_scores_are_drawn_in_two_colours_around_the_threshold(est, ax):
    assert plot_scores(est, ax) is ax
    heights = [(bar.get_height(), bar.get_x(), bar.get_facecolor()) for bar in ax.patches]
    assert sum(height for height, _, _ in heights) == 60
    good = heights[0][2]
    assert sum(height for height, _, colour in heights if colour != good) == 3
    assert min(x + 1e-9 for height, x, colour in heights if colour != good and height) > est.threshold_
    assert ax.lines[0].get_xdata()[0] == pytest.approx(est.threshold_)
    ax.figure.canvas.draw()


def test_scores_with_nothing_above_the_threshold(ax):
    circle = OutlierPursuit(contamination=0.0).fit(make_circle(60, random_state=0).X)
    plot_scores(circle, ax)
    assert circle.threshold_ == circle.outlier_scores_.max()  # finite, and nothing is above
    assert sum(bar.get_height() for bar in ax.patches) == 60


def test_the_map_has_lines_from_where_flagged_rows_were(est, ax):
    facts = est.report_data()
    assert plot_map(facts, ax) is ax
    rows = facts["map"]["rows"]
    expected = [[facts["map"][when][rows.index(row)] for when in ("before", "after")] for row in (3, 40, 41)]
    drawn = sorted(line.get_xydata().tolist() for line in ax.lines)
    np.testing.assert_allclose(drawn, sorted(expected))
    assert sum(len(dots.get_offsets()) for dots in ax.collections) == 60


@pytest.mark.parametrize(("shape", "d"), [((4, 5), 20), ((2, 3, 3), 18)])
def test_the_gallery_shows_the_worst_rows(shape, d, ax):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((60, 2)) @ rng.standard_normal((2, d))
    X[[3, 40, 41]] = 2.0 * rng.standard_normal((3, d))
    est = OutlierPursuit().fit(X)
    assert plot_gallery(est, shape, ax, n_rows=2) is ax
    picture = ax.images[0].get_array()
    assert picture.shape == (2 * (shape[0] + 2) - 2, 3 * (shape[1] + 2) - 2, 3)
    worst = np.argsort(-est.outlier_scores_)[:2]
    assert [label.get_text() for label in ax.get_yticklabels()] == [f"row {row}" for row in worst]
    low, high = est.recovered_.min(), est.recovered_.max()
    first = np.clip((X[worst[0]].reshape(*shape[:2], -1) - low) / (high - low), 0, 1)
    np.testing.assert_allclose(picture[: shape[0], : shape[1]], np.broadcast_to(first, (*shape[:2], 3)), atol=1e-4)
    after = np.clip((est.recovered_[worst[0]].reshape(*shape[:2], -1) - low) / (high - low), 0, 1)
    beside = picture[: shape[0], shape[1] + 2 : 2 * shape[1] + 2]
    np.testing.assert_allclose(beside, np.broadcast_to(after, (*shape[:2], 3)), atol=1e-4)


def test_a_gallery_needs_images_and_may_be_empty(est, ax):
    with pytest.raises(ValueError, match="image_shape"):
        plot_gallery(est, ax=ax)
    clean = OutlierPursuit(contamination=0.0).fit(est.recovered_ + 0.0)
    plot_gallery(clean, (4, 5), ax)
    assert [text.get_text() for text in ax.texts] == ["no row is flagged"]


def test_the_objective_is_drawn(est, ax):
    assert plot_convergence(est, ax) is ax
    np.testing.assert_allclose(ax.lines[0].get_ydata(), est.objective_, rtol=1e-8)
    assert ax.get_title() == "converged"


def test_an_axes_is_made_where_none_is_given(est):
    pyplot = pytest.importorskip("matplotlib.pyplot")
    facts = est.report_data(image_shape=(4, 5))
    made = [plot(facts) for plot in (plot_scores, plot_map, plot_gallery, plot_convergence)]
    assert len({ax.figure.number for ax in made}) == 4
    pyplot.close("all")


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
