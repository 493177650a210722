"""Charts as SVG documents: valid content for any names and figures."""

import re
import subprocess
import sys
import threading
from dataclasses import replace

import numpy as np
import pytest

from app.dashboard import studio
from app.dashboard.pages import model_tabs, models, predict_row
from sampler.data.scalars import GAP
from sampler.posterior.assessment.convergence import FEWEST_RANKED, independent_every, rank_curves
from sampler.posterior.charts import chains, checks, effects, rankings, topologies
from sampler.posterior.charts.style import COLOURS, ChartStyle, to_svg
from sampler.posterior.core.intervals import Interval
from sampler.posterior.results.effects import FeatureRows, PartialDependence
from tests.support.html_page import checked_svg as checked
from tests.support.models.random_posteriors import make_posterior

HOSTILE = '$x_{<script>"&\u202e\n'


@pytest.mark.parametrize("theme", ["light", pytest.param("dark", marks=pytest.mark.slow)])
def test_charts_of_hostile_names_and_of_few_points_are_valid(theme):
    """Markup and mathematics in names appear as plain text; charts of one point or none are valid."""

    def drawn(draw, *results):
        return checked(to_svg(ChartStyle(theme, 4.3, narrow=True), draw, *results))

    drawn(rankings.importance, [(HOSTILE, -0.5, -1.0, 1.0)], "rmse")
    drawn(rankings.inclusion, [])
    root = drawn(rankings.inclusion, [(HOSTILE * 20, 0.5, 0.0, 1.0)])
    assert any("<script>" in (element.text or "") for element in root.iter())
    one = effect([3.0], [1.5], HOSTILE)
    drawn(effects.dependence, one, HOSTILE)
    drawn(effects.dependence, replace(one, grid=[[None]]), HOSTILE)
    flat = [Interval(0.9, np.array([[1.0]]), np.array([[2.0]]))]
    grids = [[3.0], [None]]
    two = replace(one, features=["a", HOSTILE], grid=grids, mean=np.array([[1.5]]), intervals=flat)
    drawn(effects.dependence, replace(two, sd=two.mean), HOSTILE)
    names = (HOSTILE, *"abcdefghi")
    of_classes = replace(effect([3.0], [[0.1] * 10]), classes=names)
    for grid in ([[3.0]], [[None]]):
        drawn(effects.dependence, replace(of_classes, grid=grid), HOSTILE)
    drawn(checks.own_class, [1.0, 4.0], [1, 2], [0.9, 0.1], names)
    drawn(checks.own_class, [0], [0], [0], names)
    drawn(checks.predicted, [1.0], [None], [None], [2.0], HOSTILE)


def test_themes_differ_in_colours_alone():
    """All themes have the same words at the same places."""
    feature = [("a", 0.5, 0.4, 0.6)]
    light, dark = (
        to_svg(ChartStyle(theme), rankings.inclusion, feature).decode() for theme in ("light", "dark")
    )
    assert light != dark
    for colour, other in (
        (getattr(COLOURS["light"], c), getattr(COLOURS["dark"], c)) for c in vars(COLOURS["light"])
    ):
        for a, b in [(colour, other)] if isinstance(colour, str) else zip(colour, other, strict=True):
            light = light.replace(a, b)
    names = r"m[0-9a-f]{10}"  # of shapes, by their appearance
    assert re.sub(names, "", light) == re.sub(names, "", dark)


@pytest.mark.slow
def test_the_service_starts_without_the_drawing_libraries():
    """Matplotlib, which takes seconds to import, is not imported before the first chart."""
    code = (
        "import sys, app.application; "
        "slow = ('matplotlib', 'scipy.stats'); "
        "print([name for name in slow if name in sys.modules])"
    )
    run = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=120
    )
    assert run.stdout.strip() == "[]"


def test_pages_of_models_prepare_the_first_chart(monkeypatch):
    """The libraries are imported, and fonts found, while the page is read: once, in the background."""
    drawn = []
    monkeypatch.setattr(studio, "prepare", lambda: drawn.append(1))
    drawer = studio.Studio()
    for _ in range(2):
        drawer.prepare()
    for thread in threading.enumerate():
        if thread.daemon and thread.name.startswith("draw"):
            thread.join()
    assert len(drawn) == 1
    for router in (models.router, model_tabs.router, predict_row.router):
        assert studio.prepare_to_draw in [each.dependency for each in router.dependencies]


def test_shapes_of_a_tree():
    """Leaves are evenly spaced, each split is centred above its subtrees, probabilities are labelled."""
    nodes, edges = topologies.lay_out("((..).)")
    assert nodes == [(1 / 6, 2), (0.5, 2), (1 / 3, 1), (5 / 6, 1), (7 / 12, 0)]
    assert edges == [(2, 0), (2, 1), (4, 2), (4, 3)]
    assert topologies.lay_out(".") == ([(0.5, 0)], [])
    deep = "(." * 70 + "." + ")" * 70
    entries = [
        {"topology": text, "probability": share}
        for text, share in [("((..).)", 0.625), (".", 0.25), (deep, 0.125)]
    ]
    root = checked(to_svg(ChartStyle("dark", 4.3, narrow=True), topologies.topologies, entries))
    words = {element.text for element in root.iter()}
    assert {"62.5%", "25%", "12.5%", "71 leaves"} <= words


def _slow(chains: int, draws: int, levels: float = 0.0) -> np.ndarray:
    """Autocorrelated chains (lag-1 correlation .9), each shifted `levels` sd above the one before."""
    steps = np.random.default_rng(0).normal(size=(chains, draws))
    for i in range(1, draws):
        steps[:, i] = 0.9 * steps[:, i - 1] + np.sqrt(1 - 0.9**2) * steps[:, i]
    return steps + levels * np.arange(chains)[:, None]


def test_ranks_of_chains_that_agree_stay_near_zero():
    """A rank curve runs from 0 to 1 over the chain's own draws; autocorrelated chains are thinned first."""
    (at, above), (_, below) = rank_curves(np.array([[1.0, 2.0], [3.0, 4.0]]))
    assert np.allclose(at, [0, 0.25, 0.25, 0.5, 0.5, 1])
    assert np.allclose(above, [0, -0.25, 0.25, 0, 0.5, 0])
    assert np.allclose(below, [0, -0.75, -0.25, -0.5, 0, 0])
    for _, level in rank_curves(np.ones((4, 50))):  # a known sigma distinguishes no chain
        assert abs(level).max() <= 0.021  # one draw in 50
    agreeing, apart = _slow(4, 2000), _slow(4, 2000, levels=2.0)
    every = independent_every(agreeing)
    assert 10 <= every <= 40  # 19 draws of such a chain are worth one
    assert independent_every(apart) == every
    assert independent_every(np.random.default_rng(1).normal(size=(4, 250))) == 1
    assert independent_every(_slow(4, 30)) == 1
    assert 60 // independent_every(_slow(4, 60)) >= FEWEST_RANKED
    far = [max(abs(y).max() for _, y in rank_curves(x[:, ::every])) for x in (agreeing, apart)]
    assert far[0] < 0.2 < 0.5 < far[1]
    for style in (ChartStyle("dark", 4.3, narrow=True), ChartStyle("light")):
        words = set(texts(to_svg(style, chains.ranks, apart[:, ::every], every, "sigma")))
        assert {f"rank of sigma among all chains, as a share; one draw in {every}", "chain 4"} <= words


def texts(svg: bytes) -> list[str]:
    """Return the texts of a chart in the order of the document."""
    return [element.text for element in checked(svg).iter() if element.tag.endswith("text") and element.text]


def effect(grid, mean, name="when"):
    mean = np.array(mean)
    return PartialDependence([name], [grid], mean, mean, [Interval(0.9, mean - 0.1, mean + 0.1)], 1)


def test_effects_of_dates_have_a_time_axis():
    """Dates at uneven distances are placed by time, with years as labels, above a rug of the data."""
    curve = effect(["2019-03-31T05:00:00", "2019-04-01", "2022-01-01", "2023-06-30"], [1.0, 2.0, 3.0, 4.0])
    rows = FeatureRows(values=["2020-01-01", "2021-01-01"])
    plain = to_svg(ChartStyle(width=11.2), effects.dependence, curve, "y")
    drawn = to_svg(ChartStyle(width=11.2), effects.dependence, curve, "y", [rows])

    assert {"2020", "2021", "2022", "2023"} <= set(texts(drawn))
    assert not any("T05" in text for text in texts(drawn))
    assert drawn.count(b"<use") == plain.count(b"<use") + 2


def test_curves_use_their_axis_and_ticks_are_written_as_on_pages():
    """The axis ends with the curve, though rows lie far beyond; thousands are apart, years are whole."""
    rows = FeatureRows([1800.0, 1990.0, 2000.0, 2400.0], unit="AD")
    curve = effect([1990.0, 2010.0], [30_000.0, 50_000.0], "year")
    words = set(texts(to_svg(ChartStyle(width=11.2), effects.dependence, curve, "price", [rows])))
    assert {"1990", "2010", f"30{GAP}000", "year (AD)"} <= words
    assert not {"1800", "2400"} & words


def test_effects_of_levels_are_ordered_and_all_labelled():
    """The level with the largest effect is on top, each has its rows, and the chart is as tall as needed."""
    grid = [f"level {i}" for i in range(45)]
    mean = [float((7 * i) % 45) for i in range(45)]
    rows = FeatureRows(counts={level: 10 + i for i, level in enumerate(grid)})
    drawn = to_svg(ChartStyle(), effects.dependence, effect(grid, mean), "y", [rows])
    labels = [text for text in texts(drawn) if text.startswith("level")]

    by_effect = sorted(range(45), key=mean.__getitem__)
    assert labels == [f"level {i} ({10 + i})" for i in by_effect]
    tall, flat = (float(checked(svg).get("height").removesuffix("pt")) for svg in (
        drawn, to_svg(ChartStyle(), effects.dependence, effect([1.0, 2.0], [0, 1]), "y"),
    ))  # fmt: skip
    assert tall > 10 * 72 > 4 * 72 > flat


def test_lines_of_classes_are_named_at_their_ends():
    """Names stand beside the lines where these are apart, and in a legend where they meet."""
    ends = [[0.1, 0.8, 0.1], [0.1, 0.3, 0.6]]
    drawn = {}
    for name, last in (("apart", [0.1, 0.3, 0.6]), ("together", [0.3, 0.31, 0.39])):
        result = replace(effect([1.0, 2.0], [ends[0], last]), classes=("red", "green", "blue"))
        drawn[name] = to_svg(ChartStyle(), effects.dependence, result, "y")
    for svg in drawn.values():
        assert {"red", "green", "blue"} <= set(texts(svg))
    assert b"legend" in drawn["together"]
    assert b"legend" not in drawn["apart"]


def test_a_notebook_s_chart_is_that_of_the_page_in_the_theme_asked_for():
    """Charts of a posterior have the words of a page's chart, in the colours and of the size asked for."""
    from matplotlib import pyplot as plt

    plt.switch_backend("agg")
    posterior, X, _ = make_posterior(num_draws=(40, 40))
    axes = posterior.plot.styled("print", width=5.0).effects("x1", X)
    assert axes.lines[0].get_color() == COLOURS["print"].accent
    assert axes.figure.get_figwidth() == 5
    page = to_svg(ChartStyle("dark"), effects.dependence, posterior.partial_dependence(["x1"], X), "y")
    assert {axes.get_xlabel(), axes.get_ylabel()} <= set(texts(page))
    plt.close("all")
