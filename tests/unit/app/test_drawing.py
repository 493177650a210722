"""Charts as SVG documents: valid content for any names and figures."""

import re
import subprocess
import sys
import threading
from dataclasses import replace

import numpy as np
import pytest

from app.dashboard import charts
from app.dashboard.drawing import chains, effects, held_out, shapes
from app.dashboard.drawing.canvas import COLOURS, ChartStyle
from app.dashboard.pages import model_tabs, models, predict_row
from app.services.explanations.importance import FeatureShare, LossGrowth
from app.services.explanations.partial_dependence import CurveBounds, Dependence, FeatureRows
from sampler.data.scalars import GAP
from sampler.posterior.assessment.convergence import FEWEST_RANKED, independent_every
from tests.support.html_page import checked_svg as checked

SVG = "{http://www.w3.org/2000/svg}"


HOSTILE = '$x_{<script>"&\u202e\n'


@pytest.mark.parametrize("theme", ["light", pytest.param("dark", marks=pytest.mark.slow)])
def test_charts_of_hostile_names_and_of_few_points_are_valid(theme):
    """Markup and mathematics in names appear as plain text; charts of one point or none are valid."""
    look = ChartStyle(theme, "narrow", half=True)
    feature = FeatureShare(HOSTILE * 20, 0.5, 0.0, 1.0)
    checked(effects.permutation([LossGrowth(HOSTILE, -0.5, -1.0, 1.0)], "rmse", look))
    root = checked(effects.importance([feature], look))
    assert any("<script>" in (element.text or "") for element in root.iter())
    interval = [CurveBounds(0.9, [1.0], [2.0])]
    one = Dependence("mdl_1", 1, None, [HOSTILE], [[3.0]], 1, [1.5], [0.5], interval, None)
    checked(effects.dependence(one, HOSTILE, look))
    checked(effects.dependence(replace(one, grid=[[None]]), HOSTILE, look))
    flat = [CurveBounds(0.9, [[1.0]], [[2.0]])]
    two = replace(
        one, features=["a", HOSTILE], grid=[[3.0], [None]], mean=[[1.5]], sd=[[0.5]], intervals=flat
    )
    checked(effects.dependence(two, HOSTILE, look))
    names = [HOSTILE, *"abcdefghi"]
    share = [CurveBounds(0.9, [[0.0] * 10], [[0.2] * 10])]
    of_classes = replace(one, classes=names, mean=[[0.1] * 10], intervals=share)
    for grid in ([[3.0]], [[None]]):
        checked(effects.dependence(replace(of_classes, grid=grid), HOSTILE, look))
    kinds = {"actual": [1.0, 4.0], "predicted": [1, 2], "mean": [0.9, 0.1]}
    checked(held_out.several(kinds, names, look))
    checked(held_out.several({key: [0] for key in kinds}, names, look))
    rows = {"actual": [1.0], "mean": [None], "lower": [None], "upper": [2.0]}
    checked(held_out.predicted(rows, HOSTILE, look))


def test_themes_differ_in_colours_alone():
    """Both themes have the same words at the same places."""
    feature = [FeatureShare("a", 0.5, 0.4, 0.6)]
    light, dark = (effects.importance(feature, ChartStyle(theme)).decode() for theme in ("light", "dark"))
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
    """Matplotlib and ArviZ's plots, which take seconds to import, are not imported before the first chart."""
    code = (
        "import sys, app.application; "
        "slow = ('matplotlib', 'arviz_plots', 'xarray', 'scipy.stats'); "
        "print([name for name in slow if name in sys.modules])"
    )
    run = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=120
    )
    assert run.stdout.strip() == "[]"


def test_pages_of_models_prepare_the_first_chart(monkeypatch):
    """The libraries are imported, and fonts found, while the page is read: once, in the background."""
    drawn = []
    monkeypatch.setattr(charts, "draw_figure", lambda paint, look: drawn.append(paint))
    studio = charts.Studio()
    for _ in range(2):
        studio.prepare()
    for thread in threading.enumerate():
        if thread.daemon and thread.name.startswith("draw"):
            thread.join()
    assert len(drawn) == 1
    for router in (models.router, model_tabs.router, predict_row.router):
        assert charts.prepare_to_draw in [each.dependency for each in router.dependencies]


def test_shapes_of_a_tree():
    """Leaves are evenly spaced, each split is centred above its subtrees, probabilities are labelled."""
    nodes, edges = shapes.lay_out("((..).)")
    assert nodes == [(1 / 6, 2), (0.5, 2), (1 / 3, 1), (5 / 6, 1), (7 / 12, 0)]
    assert edges == [(2, 0), (2, 1), (4, 2), (4, 3)]
    assert shapes.lay_out(".") == ([(0.5, 0)], [])
    deep = "(." * 70 + "." + ")" * 70
    entries = [
        {"topology": text, "probability": share}
        for text, share in [("((..).)", 0.625), (".", 0.25), (deep, 0.125)]
    ]
    root = checked(shapes.topologies(entries, ChartStyle("dark", "narrow", height=shapes.height(entries))))
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
    (at, above), (_, below) = chains.rank_curves(np.array([[1.0, 2.0], [3.0, 4.0]]))
    assert np.allclose(at, [0, 0.25, 0.25, 0.5, 0.5, 1])
    assert np.allclose(above, [0, -0.25, 0.25, 0, 0.5, 0])
    assert np.allclose(below, [0, -0.75, -0.25, -0.5, 0, 0])
    for _, level in chains.rank_curves(np.ones((4, 50))):  # a known sigma distinguishes no chain
        assert abs(level).max() <= 0.021  # one draw in 50
    agreeing, apart = _slow(4, 2000), _slow(4, 2000, levels=2.0)
    every = independent_every(agreeing)
    assert 10 <= every <= 40  # 19 draws of such a chain are worth one
    assert independent_every(apart) == every
    assert independent_every(np.random.default_rng(1).normal(size=(4, 250))) == 1
    assert independent_every(_slow(4, 30)) == 1
    assert 60 // independent_every(_slow(4, 60)) >= FEWEST_RANKED
    far = [max(abs(y).max() for _, y in chains.rank_curves(x[:, ::every])) for x in (agreeing, apart)]
    assert far[0] < 0.2 < 0.5 < far[1]
    for look in (ChartStyle("dark", "narrow"), ChartStyle("light")):
        root = checked(chains.ranks(apart[:, ::every], every, look))
        words = {element.text for element in root.iter()}
        assert {f"rank among all chains, as a share; one draw in {every}", "chain 4"} <= words


def texts(svg: bytes) -> list[str]:
    """Return the texts of a chart in the order of the document."""
    return [element.text for element in checked(svg).iter() if element.tag.endswith("text") and element.text]


def curve(grid: list, mean: list, **more) -> Dependence:
    ends = CurveBounds(0.9, (np.array(mean) - 0.1).tolist(), (np.array(mean) + 0.1).tolist())
    return Dependence("mdl_1", 1, None, ["when"], [grid], 1, mean, [], [ends], None, **more)


def test_effects_of_dates_have_a_time_axis():
    """Dates at uneven distances are placed by time, with years as labels, above a rug of the data."""
    grid = ["2019-03-31T05:00:00", "2019-04-01", "2022-01-01", "2023-06-30"]
    rows = FeatureRows(values=["2020-01-01", "2021-01-01"])
    plain = effects.dependence(curve(grid, [1.0, 2.0, 3.0, 4.0]), "y", ChartStyle())
    drawn = effects.dependence(curve(grid, [1.0, 2.0, 3.0, 4.0]), "y", ChartStyle(), [rows])

    assert {"2020", "2021", "2022", "2023"} <= set(texts(drawn))
    assert not any("T05" in text for text in texts(drawn))
    assert drawn.count(b"<use") == plain.count(b"<use") + 2


def test_curves_use_their_axis_and_ticks_are_written_as_on_pages():
    """The axis ends with the curve, though rows lie far beyond; thousands are apart, years are whole."""
    bounds = [CurveBounds(0.9, [20_000.0, 30_000.0], [40_000.0, 60_000.0])]
    curve = Dependence(
        "mdl_1", 1, None, ["year"], [[1990.0, 2010.0]], 1, [30_000.0, 50_000.0], [1.0, 1.0], bounds, None
    )
    rows = FeatureRows([1800.0, 1990.0, 2000.0, 2400.0])
    root = checked(effects.dependence(curve, "price", ChartStyle(), [rows]))
    texts = {element.text for element in root.iter(f"{SVG}text")}
    assert {"1990", "2010", f"30{GAP}000"} <= texts
    assert not {"1800", "2400"} & texts


def test_effects_of_levels_are_ordered_and_all_labelled():
    """The level with the largest effect is on top, each has its rows, and the chart is as tall as needed."""
    grid = [f"level {i}" for i in range(45)]
    mean = [float((7 * i) % 45) for i in range(45)]
    rows = FeatureRows(counts={level: 10 + i for i, level in enumerate(grid)})
    tall = effects.height([grid])
    labels = [
        text
        for text in texts(effects.dependence(curve(grid, mean), "y", ChartStyle(height=tall), [rows]))
        if text.startswith("level")
    ]

    by_effect = sorted(range(45), key=mean.__getitem__)
    assert labels == [f"level {i} ({10 + i})" for i in by_effect]
    assert tall > 10 > 4 > effects.height([[1.0, 2.0]])


def test_lines_of_classes_are_named_at_their_ends():
    """Names stand beside the lines where these are apart, and in a legend where they meet."""
    ends = [[0.1, 0.8, 0.1], [0.1, 0.3, 0.6]]
    drawn = {}
    for name, last in (("apart", [0.1, 0.3, 0.6]), ("together", [0.3, 0.31, 0.39])):
        result = replace(curve([1.0, 2.0], [ends[0], last]), classes=["red", "green", "blue"])
        drawn[name] = effects.dependence(result, "y", ChartStyle())
    for svg in drawn.values():
        assert {"red", "green", "blue"} <= set(texts(svg))
    assert b"legend" in drawn["together"]
    assert b"legend" not in drawn["apart"]
