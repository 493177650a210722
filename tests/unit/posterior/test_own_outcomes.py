"""Answers of a model are those of outcomes drawn from it: of any family, noise, transform and part."""

import warnings

import numpy as np
import pytest

from sampler import DataWarning, fit
from sampler.data.row_flags import as_text
from sampler.data.transform import Transform
from sampler.posterior.core.intervals import decided_by_few, middle_of
from sampler.posterior.laws.law import Law
from sampler.posterior.laws.normal import NormalLaw
from tests.support.models.recalibrations import recalibrated

ROWS, DRAWN = 80, 8
# As many draws as short chains give for little: of few, totals are simulated in many repeats.
SHORT = {"num_trees": 5, "num_chains": 2, "num_burnin": 20, "num_draws": 200, "thin": 1, "seed": 1}
TRANSFORMS = {"constant": ("none", "log", "yeo-johnson"), "forest": ("none", "log", "yeo-johnson")}
NOISES = ("constant", "forest", "t", "t-forest", "mixture")
NUMBERS = [
    (family, noise, transform)
    for family in ("gaussian", "hurdle")
    for noise in NOISES
    for transform in TRANSFORMS.get(noise, ("none",))
]
COUNTS = ("poisson", "negative-binomial", "zero-inflated-poisson", "zero-inflated-negative-binomial")
# What is fitted: the outcome, arguments of `fit`, and the columns beside the features.
CASES = {
    "-".join(case): (case[0], dict(zip(("family", "noise", "transform"), case, strict=True)), ())
    for case in NUMBERS
}
CASES |= {family: ("count", {"family": family}, ()) for family in COUNTS}
CASES |= {
    "poisson-treatment": ("count", {"family": "poisson"}, ("treatment",)),
    "gaussian-treatment": ("gaussian", {}, ("treatment",)),
    "gaussian-forest-treatment": ("gaussian", {"noise": "forest"}, ("treatment",)),
    "gaussian-groups": ("gaussian", {"groups": "site"}, ()),
    "gaussian-weights": ("gaussian", {}, ("weights",)),
    "gaussian-event": ("gaussian", {"transform": "log"}, ("event",)),
    "probit": ("two", {"family": "probit"}, ()),
    "ordinal": ("three", {"family": "ordinal", "levels": ["0", "1", "2"]}, ()),
    "categorical": ("three", {"family": "categorical"}, ()),
    "bcart": ("gaussian", {"method": "bcart"}, ()),
    "recalibrated": ("gaussian", {"recalibrated": True}, ()),
    "recalibrated-weights": ("gaussian", {"recalibrated": True}, ("weights",)),
    "recalibrated-log": ("gaussian", {"recalibrated": True, "transform": "log"}, ()),
    "recalibrated-t-forest": ("gaussian", {"recalibrated": True, "noise": "t-forest"}, ()),
    "recalibrated-mixture": ("gaussian", {"recalibrated": True, "noise": "mixture"}, ()),
    "bcart-mean-variance": ("gaussian", {"method": "bcart-mean-variance"}, ()),
}
QUICK = (
    "hurdle-constant-none",
    "hurdle-forest-log",
    "gaussian-t-forest-none",
    "negative-binomial",
    "recalibrated-t-forest",
)
SLOW = (
    "hurdle-t-none", "gaussian-forest-none", "gaussian-constant-log", "gaussian-mixture-none", "poisson",
    "gaussian-groups", "gaussian-event", "ordinal", "bcart-mean-variance", "poisson-treatment",
    "recalibrated", "recalibrated-log", "recalibrated-t-forest",
)  # fmt: skip
TIERS = [
    pytest.param(case, marks=() if case in QUICK else pytest.mark.slow if case in SLOW else pytest.mark.long)
    for case in CASES
]


def made(case):
    """Return a posterior, rows, their outcomes, and outcomes drawn for these, float64 [drawn, row]."""
    kind, settings, beside = CASES[case]
    rng = np.random.default_rng(3)
    X = {name: rng.uniform(size=ROWS).round(3).tolist() for name in ("first", "last")}
    number = np.exp(np.array(X["first"]) + 0.3 * rng.normal(size=ROWS))
    y = {
        "gaussian": number,
        "hurdle": np.where(rng.uniform(size=ROWS) < 0.4, 0.5, number),
        "count": rng.poisson(number),
        "two": np.array(["no", "yes"])[(number > 1.6).astype(int)],
        "three": np.array(["0", "1", "2"])[np.searchsorted([1.3, 2.0], number)],
    }[kind].tolist()
    options = settings if "method" in settings else SHORT | {"linear": False} | settings
    if "method" in settings:
        options = settings | {"num_chains": 2, "num_burnin": 60, "num_draws": 200, "thin": 3, "seed": 1}
    if "groups" in settings:
        X["site"] = [row % 4 for row in range(ROWS)]
    more = {
        "treatment": [row % 2 for row in range(ROWS)],
        "weights": rng.uniform(0.5, 2, ROWS).tolist(),
        "event": [row % 3 > 0 for row in range(ROWS)],
    }
    by_role = {name: more[name] for name in beside}
    changed = options.get("recalibrated")
    options = {name: value for name, value in options.items() if name != "recalibrated"}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DataWarning)
        posterior = fit(X, y, progress=False, **options, **by_role)
    posterior = recalibrated(posterior) if changed else posterior
    if "treatment" in beside:
        X |= {"treatment": more["treatment"]}
    new = {name: values[:DRAWN] for name, values in X.items()}
    if "site" in X:
        new["site"] = [90, 91, 91, *new["site"][3:]]
    times = range(12_000 // (posterior.num_chains * posterior.num_draws))
    drawn = np.concatenate([posterior.sample_predictive(new, seed=time) for time in times])
    return posterior, new, (X, y, by_role), drawn.reshape(-1, DRAWN)


def agrees(mean, drawn):
    """Check means of drawn figures [drawn, ..] by their Monte Carlo error."""
    error = drawn.std(axis=0) / np.sqrt(len(drawn))
    assert np.all(np.abs(mean - drawn.mean(axis=0)) <= 5 * error + 1e-9), (mean, drawn.mean(axis=0), error)


def is_quantile(value, drawn, q):
    """Check quantiles of drawn figures [drawn, ..]: shares below and up to them."""
    margin = 6 * np.sqrt(q * (1 - q) / len(drawn)) + 1e-3  # ends of totals are simulated too
    assert np.all((drawn < value - 1e-9).mean(axis=0) <= q + margin), (value, q)
    assert np.all((drawn <= value + 1e-9).mean(axis=0) >= q - margin), (value, q)


@pytest.mark.parametrize("case", TIERS)
@pytest.mark.sampled(quick=2, slow=5)
def test_every_figure_is_that_of_drawn_outcomes(case):
    """Means, sds, quantiles, totals, means of rows, weighted and compared ones, and coverage are theirs."""
    posterior, new, (X, y, by_role), drawn = made(case)
    of_classes = posterior.schema.target.levels
    if not of_classes:
        draws = posterior.num_chains * posterior.num_draws
        answer = posterior.predict(new, level=0.8, quantiles=[0.25, 0.5])
        squares = (drawn - drawn.mean(axis=0)) ** 2
        agrees(answer.mean, drawn)
        spread = squares.std(axis=0) / np.sqrt(len(drawn)) + squares.mean(axis=0) / draws
        assert np.all(np.abs(answer.sd**2 - squares.mean(axis=0)) <= 5 * spread)
        for value, q in (
            (answer.lower, 0.1),
            (answer.upper, 0.9),
            *((each[1], each[0]) for each in answer.quantiles),
        ):
            is_quantile(value, drawn, q)
    part = np.array(["a", "b"])[np.arange(DRAWN) % 2]
    parts = {"part": part.tolist()}
    weights = np.linspace(0.5, 2, DRAWN)
    classes = (
        [drawn] if not of_classes or len(of_classes) == 2 else [drawn == k for k in range(len(of_classes))]
    )
    plain, each = np.ones(DRAWN), {name: (part == name) * 1.0 for name in ("a", "b")}
    shares = {name: own * weights / (own @ weights) for name, own in each.items()}
    asked = {
        "sum": ({}, [plain]),
        "sum by": ({"by": "part"}, list(each.values())),
        "mean": ({"of": "mean"}, [plain / DRAWN]),
        "weighted": ({"weights": weights.tolist()}, [weights]),
        "weighted mean": ({"of": "mean", "by": "part", "weights": weights.tolist()}, list(shares.values())),
        "compared": ({"of": "mean", "compare": {"part": ["a", "b"]}, "weights": weights.tolist()},
                     [shares["a"] - shares["b"]]),
    }  # fmt: skip
    for options, factors in asked.values():
        rows = new | parts if options.keys() & {"by", "compare"} else new
        answer = posterior.aggregate(rows, level=0.8, **options)
        for place, own in enumerate(classes):
            figures = own @ np.array(factors).T
            mean, lower, upper = (
                figure if figure.ndim == 1 else figure[:, place]
                for figure in (answer.mean, answer.lower, answer.upper)
            )
            agrees(mean, figures)
            is_quantile(lower, figures, 0.1)
            is_quantile(upper, figures, 0.9)
    if of_classes or "event" in by_role:
        return
    known = {name: values for name, values in by_role.items() if name == "weights"}
    own = posterior.predict(X, level=[0.5, 0.8, 0.9, 0.95])
    if not known:
        for share, lower, upper in zip(posterior.score(X, y)["coverage"], own.lower, own.upper, strict=True):
            assert share["coverage"] == np.mean((lower <= y) & (y <= upper))


def test_a_law_of_its_own_claims_no_sums():
    """A law that draws outcomes its own way has no known sums until it says so."""
    law = type("Other", (NormalLaw,), {"sample_outcomes": lambda *_: None})
    assert all(
        getattr(law, name) is getattr(Law, name) for name in ("exact_sums", "mean_grid", "adds_effect")
    )


def test_few_draws_decide_where_few_are_nearly_all():
    """Fewer than ten of many count, or one of 25; infinite parts do, and nothing at all does not."""
    even, one = np.ones((1, 400)), np.where(np.arange(400) == 3, 1e3, 1.0)[None]
    assert decided_by_few(np.concatenate([even, one, one * np.inf, 0 * even])).tolist() == [0, 1, 1, 0]
    assert not decided_by_few(np.array([1e9, 1.0, 1.0])).any()  # three draws tell of no tail


def wild_above(monkeypatch):
    """Return a posterior whose draws are wild at the last of these rows, and the rows."""
    monkeypatch.setattr(Transform, "within", lambda transform, _: transform)  # as of older models
    rng = np.random.default_rng(0)
    first = rng.uniform(size=ROWS)
    y = np.exp(rng.normal(size=ROWS) * np.where(first < 0.7, 0.1, 9.0))
    posterior = fit({"first": first}, y, noise="forest", transform="log", **SHORT | {"num_draws": 60})
    return posterior, {"first": np.linspace(0.1, 0.95, 12)}


@pytest.mark.filterwarnings("ignore::sampler.errors.DataWarning")  # of an outlier
@pytest.mark.parametrize("interval", ["predictive", "credible"])
def test_moments_that_a_few_draws_decide_are_not_given(interval, monkeypatch):
    """Median and middle 68% stand for mean and sd, with a flag and a sentence; other rows stay."""
    posterior, X = wild_above(monkeypatch)
    answer = posterior.predict(X, level=0.6827, quantiles=0.5, interval=interval)
    few = np.array([any(flag == ("y", "few_draws") for flag in row) for row in answer.flags])
    assert 0 < few.sum() < 12
    np.testing.assert_array_equal(answer.mean[few], answer.quantiles[0].values[few])
    np.testing.assert_array_equal(answer.sd[few], (answer.upper - answer.lower)[few] / 2)
    np.testing.assert_allclose(answer.mean[~few], posterior.sample(X).mean(axis=(0, 1))[~few])
    (said,) = answer.warnings
    assert said.startswith(f"of {few.sum()} rows a few draws decide")
    assert "few_draws: y" in as_text(answer.flags[np.argmax(few)])
    total = posterior.aggregate(X, interval=interval)
    assert total.lower[0] <= total.mean[0] <= total.upper[0]
    assert any("of 1 figure a few draws decide the mean" in each for each in total.warnings)


@pytest.mark.filterwarnings("ignore::sampler.errors.DataWarning")  # of an outlier
def test_explanations_give_no_mean_that_a_few_draws_decide(monkeypatch):
    """Contrasts and effects of a feature give the median there, which their intervals hold."""
    posterior, X = wild_above(monkeypatch)
    contrast = posterior.contrast(X, {"first": 0.9}, {"first": 0.2})
    assert any("a few draws decide the mean" in each for each in contrast.warnings)
    answers = [contrast, contrast.average, posterior.partial_dependence(["first"], X)]
    for answer in [*answers, posterior.accumulated_effects("first", X)]:
        assert np.all((np.asarray(answer.lower) <= answer.mean) & (answer.mean <= answer.upper))
    draws = np.random.default_rng(1).normal(size=(400, 2))
    draws[7, 1] = 1e9
    mean, few = middle_of(draws, *np.quantile(draws, [0.05, 0.95], axis=0))
    assert few.tolist() == [False, True]
    assert not middle_of(draws, *np.quantile(draws, [0.05, 0.95], axis=0), bounded=True)[1].any()
    assert mean.tolist() == [draws.mean(axis=0)[0], np.median(draws[:, 1])]
