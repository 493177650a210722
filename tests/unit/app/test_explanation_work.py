"""The estimated work of answers, which bounds requests: of every question, by few draws and many."""

import pkgutil
import time
import tracemalloc
from functools import partial
from importlib import import_module

import numpy as np
import pytest

import app.services.explanations
from app.services.explanations.guard import Question
from app.services.predictions.options import PredictionOptions
from app.services.predictions.predict_rows import work_of_row
from sampler import fit
from sampler.posterior.explanations import work
from sampler.posterior.explanations.row_sets import AggregateRequest
from tests.support.models.recalibrations import recalibrated

pytestmark = pytest.mark.usefixtures("all_kernels")
UNIT = 1e-10  # seconds of a core
SHORTEST = 2e-3  # seconds that can be told from others
MOST_ROWS = 20_000
RNG = np.random.default_rng(2)
COLUMNS = [f"x{j + 1}" for j in range(7)]
X = {name: RNG.random(240) for name in COLUMNS}
F = 3 * X["x1"] + 4 * X["x2"] * X["x3"] - X["x4"]
ARMS = np.arange(240) * 7 % 10 % 8
SHORT = {"num_chains": 2, "num_draws": 150, "num_burnin": 150, "thin": 1, "seed": 5, "progress": False}
MANY = {name: RNG.random(MOST_ROWS) for name in COLUMNS}

# What is fitted, whether the quick tests ask it, and arguments of `fit`.
MODELS = {
    "few trees": (False, F, {"num_trees": 3, "noise": "constant", "linear": False}),
    "deep tree": (False, F, {"num_trees": 1, "prior": {"alpha": 0.999, "beta": 0.1}, "noise": "constant"}),
    "many trees": (False, F, {"num_trees": 100, "noise": "constant"}),
    "transformed": (True, np.sinh(F), {"num_trees": 30, "transform": "yeo-johnson"}),
    "noise by row": (False, F, {"num_trees": 20, "noise": "forest"}),
    "heavy tails": (False, F, {"num_trees": 20, "noise": "t"}),
    "mixture": (False, F, {"num_trees": 20, "noise": "mixture"}),
    "recalibrated": (False, F, {"num_trees": 20, "noise": "forest", "recalibrated": True}),
    "classes": (True, np.digitize(F, [1.5, 3]), {"num_trees": 10, "family": "categorical"}),
    "counts": (False, np.floor(np.exp(F / 3)), {"num_trees": 20, "family": "poisson"}),
    "hurdle": (False, np.maximum(F, 2), {"num_trees": 20, "family": "hurdle"}),
    "one tree": (False, F, {"method": "bcart"}),
    "times": (True, np.exp(F / 3), {"num_trees": 20, "event": ARMS % 3 > 0}),
    "treatment": (True, F, {"num_trees": 20, "treatment": ARMS % 2, "noise": "constant"}),
    "arms": (False, F, {"num_trees": 20, "treatment": [f"arm {arm}" for arm in ARMS], "noise": "constant"}),
    "treatment as a column": (False, F, {"num_trees": 20, "treatment": ARMS % 2, "effects": "ps-bart"}),
    "treated times": (
        False,
        np.exp(F / 3),
        {"num_trees": 20, "treatment": ARMS % 2, "event": ARMS % 3 > 0},
    ),
    "treated classes": (False, F > 2, {"num_trees": 20, "treatment": ARMS % 2, "family": "probit"}),
    "outcomes": (True, {"a": F, "b": F[::-1], "c": np.cos(F)}, {"num_trees": 10}),
}
# Questions by the class that asks them; those of reference rows alone, or of what is stored, are not bounded.
ASKED = {
    "AccumulationBody": {"accumulated effects"},
    "AggregateBody": {"total", "totals by row", "median", "population"},
    "ContrastBody": {"contrast"},
    "DependenceBody": {"partial dependence"},
    "DistributionBody": {"quantiles", "probabilities", "crps"},
    "EffectsBody": {"effects", "effects by group"},
    "ImportanceQuery": {"usage by rows"},
    "InteractionsQuery": {"interactions"},
    "JointBody": {"joint", "joint given another", "joint given some"},
    "ShapBody": {"SHAP values", "path-dependent SHAP values"},
    "SurvivalBody": {"survival"},
}
UNBOUNDED = {"DiagnosticsQuery", "GroupsQuery", "GrowthQuery"}


def rows(count, arms=None):
    """Return so many rows, with treatments where there are arms."""
    treated = {} if arms is None else {"treatment": np.resize(TREATED[arms], count)}
    return {name: values[:count] for name, values in MANY.items()} | treated


def questions(posterior, draws):
    """Return by name the estimate of a question by rows, and what answers it; by so many draws per chain."""
    part = posterior["a"] if hasattr(posterior, "outcomes") else posterior
    law, all_draws = part.law, draws * posterior.num_chains
    options = {"num_draws": draws}
    if posterior is not part:
        return _of_outcomes(posterior, law, all_draws, options)
    numbers, treated = part.classes is None, law.effects is not None
    totals = {
        "total": (None, "sum", None, 0.9, "predictive", None),
        "totals by row": ("row", "sum", None, 0.9, "credible", None),
        "population": (None, "mean", None, 0.9, "credible", None, True),
    } | ({"median": (None, "quantile", 0.5, 0.9, "predictive", None)} if numbers else {})
    found = {
        "predict": (
            lambda r: CALL + r * work_of_row(part, PredictionOptions(draws=draws)),
            lambda d, _: part.predict(d, **options),
        ),
        "contrast": (
            partial(work.contrast_work, law, all_draws),
            lambda d, _: part.contrast(d, {"x1": 0.2}, {"x1": 0.7}, by="x2", **options),
        ),
        "accumulated effects": (
            partial(work.accumulation_work, law, all_draws),
            lambda d, _: part.accumulated_effects("x2", d, **options),
        ),
        "partial dependence": (
            lambda r: _of_surface(law, all_draws, r),
            lambda d, _: part.partial_dependence(["x1", "x2"], d, GRID, **options),
        ),
    }
    for name, request in totals.items():
        asked = AggregateRequest.check(*request)
        found[name] = (
            lambda r, asked=asked: work.aggregate_work(law, all_draws, asked, r, weighted=False),
            partial(_total, part, request, options),
        )
    if part.num_draws == draws:
        if not treated:
            found["usage by rows"] = (
                lambda _: work.usage_work(law, all_draws, part.reference.num_rows),
                lambda *_: part.inclusion(by="rows"),
            )
        if numbers:
            for name, figures in FIGURES.items():
                if name == "crps" and part.censoring:
                    continue
                found[name] = (
                    lambda r, figures=figures: work.distribution_work(law, all_draws, r, *figures),
                    partial(_distribution, part, name),
                )
    if not treated:
        for name, game in GAMES.items():
            found[name] = (
                partial(work.shap_work, law, all_draws),
                lambda d, _, game=game: part.shap(d, game=game, max_draws=all_draws),
            )
        if work.num_figures(law) == 1:
            found["interactions"] = (
                lambda _: work.interactions_work(law, all_draws, 3, work.H_ROWS),
                lambda *_: part.interactions(["x1", "x2", "x3"], max_draws=all_draws),
            )
    if treated:
        asked = {"effects": {}, "effects by group": {"by": "x2"}}
        if part.censoring:
            asked |= {
                "effects on survival": {"measure": "survival"},
                "effects as ratios": {"measure": "ratio"},
            }
        for name, more in asked.items():
            found[name] = (
                partial(work.effects_work, law, all_draws, by=more.get("by")),
                lambda d, _, more=more: part.effects(d, **more, **options),
            )
    if part.censoring:
        found["survival"] = (
            partial(work.survival_work, law, all_draws, times=30),
            lambda d, _: part.survival(d, np.linspace(1, 3, 30), **options),
        )
    return found


CALL = work.CALL
GAMES = {"SHAP values": "interventional", "path-dependent SHAP values": "path-dependent"}
FIGURES = {"quantiles": (0, 3, 0), "probabilities": (20, 0, 0), "crps": (0, 0, 1)}
GRID = {name: np.linspace(0.05, 0.95, 10).tolist() for name in ("x1", "x2")}
TREATED = {("0", "1"): [0.0, 1.0]} | {
    tuple(f"arm {k}" for k in range(8)): [f"arm {k}" for k in range(8)],
}


def _of_surface(law, draws, count):
    """Turn the number of rows that are affordable into the work of so many."""
    low, high = (work.rows_to_average(law, draws, 100, 0, most) for most in (1e9, 2e9))
    return 1e9 + (count - low) * 1e9 / (high - low)


def _total(posterior, request, options, d, count):
    by, of, q, level, interval, _, *population = request
    posterior.aggregate(
        d | {"row": np.arange(count)} if by else d, by, of, q, level, interval,
        population=bool(population), **options,
    )  # fmt: skip


def _distribution(posterior, figure, d, _):
    law = posterior.distribution(d)
    if figure == "quantiles":
        law.quantile([0.1, 0.5, 0.9])
    elif figure == "probabilities":
        law.cdf(np.linspace(0, 3, 20)[:, None])
    else:
        law.crps(1.0)


def _of_outcomes(posterior, law, all_draws, options):
    def given(d, count, names, share):
        known = {name: np.where(np.arange(count) % 10 < 10 * share, 1.0, np.nan) for name in names}
        return posterior.predict(d, given=known, **options)

    size = len(posterior.outcomes)
    estimate = partial(work.joint_work, law, all_draws, outcomes=size)
    return {
        "joint": (partial(estimate, given=False), lambda d, _: posterior.predict(d, **options)),
        "joint given another": (
            partial(estimate, given=True, unknown=size - 1, patterns=1),
            lambda d, count: given(d, count, ["b"], 1.0),
        ),
        "joint given some": (
            partial(estimate, given=True, unknown=size - 1, patterns=2),
            lambda d, count: given(d, count, ["b", "c"], 0.5),
        ),
    }


def ratios(posterior, few, most, repeats):
    """Measure by question, for few draws and all, how many times its estimate it takes."""
    arms = posterior.header.arms if posterior.header.effects else None
    found = {}
    for draws in (few, posterior.num_draws):
        for name, (estimate, answer) in questions(posterior, draws).items():
            count = next((r for r in 2 ** np.arange(14, 1, -1) if estimate(int(r)) <= most), 4)
            answer(rows(2, arms), 2)  # loads what is loaded once
            taken = []
            for _ in range(repeats):
                began = time.process_time()
                answer(rows(count, arms), count)
                taken.append(time.process_time() - began)
            found[name, draws] = (min(taken) + SHORTEST) / (UNIT * estimate(int(count)) + SHORTEST)
    return found


def fitted(model):
    """Fit a model of the table."""
    _, y, settings = MODELS[model]
    lengths = {"num_draws": 300} if settings.get("method") else {}
    asked = {name: value for name, value in settings.items() if name != "recalibrated"}
    posterior = fit(X, y, **SHORT | lengths | asked)
    return recalibrated(posterior) if "recalibrated" in settings else posterior


def test_every_question_has_an_estimate():
    """Each class of a question, but for those of what is stored, has estimates that are measured."""
    for module in pkgutil.iter_modules(app.services.explanations.__path__):
        import_module(f"app.services.explanations.{module.name}")
    asking, waiting = set(), [Question]
    while waiting:
        found = waiting.pop().__subclasses__()
        asking |= {each.__name__ for each in found if each.__module__.startswith("app.services.explanations")}
        waiting += found
    assert asking - {"OutcomeQuestion", "SwarmOfRows"} == ASKED.keys() | UNBOUNDED


@pytest.mark.parametrize("model", [model for model, (quick, *_) in MODELS.items() if quick])
def test_answers_take_the_work_that_is_estimated(model):
    """Estimates count all that is done, for few draws and for many: none is far too high or too low."""
    found = ratios(fitted(model), 10, 5e7, 1)
    speed = np.median([*found.values()])  # of this machine
    assert {name: ratio / speed for name, ratio in found.items() if not 1 / 15 < ratio / speed < 15} == {}


@pytest.mark.long
@pytest.mark.parametrize("model", MODELS)
def test_answers_take_a_third_to_three_times_their_estimate(model):
    """Estimates of larger questions are exact to a factor of three."""
    found = ratios(fitted(model), 1, 1e9, 3)
    speed = np.median([*found.values()])
    assert {name: ratio / speed for name, ratio in found.items() if not 1 / 3 < ratio / speed < 3} == {}


def test_groups_of_effects_are_counted():
    """The groups of a request are the parts between cut points, levels and quarters; any number of others."""
    posterior = fit(
        {**X, "site": ["a", "b", "c"] * 80}, F, treatment=ARMS % 2, num_trees=2, num_chains=1, num_draws=2,
        num_burnin=1, progress=False,
    )  # fmt: skip
    alone = work.effects_work(posterior.law, 2, 240)
    known = {"site": 3, "x1": 4, "of the table": 50}
    for by, groups in [*known.items(), (["site", "x1"], 12), ({"x1": [0.2, 0.4], "site": None}, 9)]:
        counted = work.effects_work(posterior.law, 2, 240, by=by)
        assert counted - alone == pytest.approx(work.TWO_GROUPS * groups**2)


def test_effects_of_many_draws_fit_in_memory():
    """A surface by many draws holds its averages once, with blocks beside it."""
    some = {name: values[:60] for name, values in X.items()}
    posterior = fit(
        some, F[:60], num_trees=1, num_chains=2, num_draws=4000, num_burnin=50, thin=1, progress=False
    )
    tracemalloc.start()
    surface = posterior.partial_dependence(["x1", "x2"], rows(5))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    averages = surface.mean.size * 8000 * 8
    assert averages > 20e6
    assert peak < 3 * averages + 100e6
