"""Totals, means and quantiles of sets of rows are those of the rows' joint law over draws."""

from datetime import UTC, datetime, timedelta
from functools import cache

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from scipy.stats import poisson

from sampler import DataError, Posterior, SettingsError, fit
from sampler.posterior.assessment.labelled_rows import LabelledRows
from sampler.posterior.explanations import set_sums
from sampler.posterior.explanations.aggregates import total_scores
from sampler.posterior.explanations.row_sets import AggregateRequest, RowSets
from sampler.posterior.predicting import draw_outcomes
from tests.support import fit_digests

NUMBERS = ["bart", "noise-forest", "groups", "group-slopes", "bcart"]
ROWS = 12
MARGIN = 0.012  # of shares of 5,000 simulated figures, four standard deviations


@cache
def fitted(case: str) -> Posterior:
    """Fit a case with more draws than its digest has: of few, totals are simulated in many repeats."""
    return fit_digests.fitted(case, num_draws=100)


def some(case: str, count: int = ROWS) -> tuple:
    """Return a posterior and rows by a column `part`; of groups some are new, one row has none."""
    posterior = fitted(case)
    X = {
        name: list(values[:count]) for name, values in fit_digests.data(fit_digests.CASES[case][0])[0].items()
    }
    if "site" in X:
        X["site"] = [(None, 900, 900, 901, site)[k % 5] for k, site in enumerate(X["site"])]
    return posterior, X | {"part": [("b", "a", "10", "9")[k % 4] for k in range(count)]}


@pytest.mark.parametrize("case", [*NUMBERS, "bcart-mean-variance"])
@pytest.mark.parametrize("interval", ["predictive", "credible"])
def test_a_set_of_one_row_is_its_prediction(case, interval):
    """The figures are those of `predict`: of noise of one size the same bits, else but for rounding."""
    posterior, X = some(case)
    answer = posterior.aggregate(X | {"part": list(range(ROWS))}, "part", interval=interval)
    X.pop("part")
    predicted = posterior.predict(X, interval=interval)
    (ends,) = predicted.intervals
    tolerance = 0 if case == "bart" else 1e-6
    for own, other in ((answer.mean, predicted.mean), (answer.lower, ends.lower), (answer.upper, ends.upper)):
        np.testing.assert_allclose(own, other, rtol=tolerance)


@pytest.mark.parametrize("library", [pd.Series, pl.Series, pa.array])
def test_sets_by_times_are_named_in_their_own_zone(library):
    """Days in Berlin are not 23 o'clock of the day before; of an hour that comes twice each has its name."""
    posterior, X = some("bart", 5)
    days = [datetime(2024, 10, 27, tzinfo=UTC) + timedelta(hours=k) for k in (-2, 0, 1, -26, -2)]
    local = pd.Series(days).dt.tz_convert("Europe/Berlin")
    times = library(local if library is pd.Series else [*local])
    answer = posterior.aggregate(X | {"part": times}, "part")
    hours = ["2024-10-27T02:00:00+01:00", "2024-10-27T02:00:00+02:00"]
    assert answer.sets["part"] == ["2024-10-26", "2024-10-27", *hours]
    for first, second in (("2024-10-27", "2024-10-26"), tuple(local[[0, 3]])):
        compared = posterior.aggregate(X | {"part": times}, compare={"part": [first, second]})
        assert compared.rows == [3]


@pytest.mark.parametrize("case", [*NUMBERS, "counts", "probit", "classes", "times"])
def test_expected_totals_add_up_the_draws(case):
    """A credible total is that of `sample` in each draw, and sets add up to their union."""
    posterior, X = some(case)
    answer = posterior.aggregate(X, "part", interval="credible")
    features = {name: values for name, values in X.items() if name != "part"}
    drawn = posterior.sample(features)
    drawn = drawn.reshape(-1, *drawn.shape[2:])
    share = posterior.law.weights.shares(posterior.num_draws)
    assert answer.sets == {"part": ["10", "9", "a", "b"]}
    for k, name in enumerate(answer.sets["part"]):
        total = drawn[:, [each == name for each in X["part"]]].sum(axis=1)
        if case == "bcart":  # its draws have weights
            np.testing.assert_allclose(answer.mean[k], share @ total, rtol=0.05)
            continue
        np.testing.assert_allclose(answer.mean[k], total.mean(axis=0), rtol=1e-6)
        ends = np.quantile(total, [0.05, 0.95], axis=0)
        np.testing.assert_allclose([answer.lower[k], answer.upper[k]], ends, rtol=1e-6)
    whole = posterior.aggregate(features, interval="credible")
    np.testing.assert_allclose(whole.mean[0], answer.mean.sum(axis=0), rtol=1e-9)


@pytest.mark.parametrize("case", ["noise-forest", "groups", "group-slopes", "counts"])
def test_bits_do_not_depend_on_order_or_blocks(case, monkeypatch):
    """Figures have the same bits in any order of rows, in blocks of few, and beside other sets."""
    posterior, X = some(case, 24)
    weights = np.linspace(0.3, 2.0, 24)
    answer = posterior.aggregate(X, "part", weights=None if case == "counts" else weights)
    order = np.random.default_rng(1).permutation(24)
    monkeypatch.setattr(set_sums, "ROWS", 3)
    monkeypatch.setattr(set_sums, "MAX_CELLS", 1)
    for rows in (order, [k for k in order if X["part"][k] == "a"]):
        some_rows = {name: [values[k] for k in rows] for name, values in X.items()}
        own = weights[rows] if case != "counts" else None
        again = posterior.aggregate(some_rows, "part", weights=own)
        same = [answer.sets["part"].index(name) for name in again.sets["part"]]
        for figure in ("mean", "lower", "upper", "rows", "new_groups"):
            np.testing.assert_array_equal(getattr(answer, figure)[same], getattr(again, figure))


def simulated(posterior, X, times=25):
    """Simulate outcomes of rows, float64 [outcome, row]."""
    coded, chosen = posterior.encode(X), posterior.law.alike(None)
    drawn = [draw_outcomes(posterior.law, coded, chosen, seed=7 + k) for k in range(times)]
    return np.concatenate(drawn)


@pytest.mark.parametrize(
    ("case", "of"),
    [
        (case, "sum")
        for case in (*NUMBERS[:4], "noise-t-forest", "counts", "counts-dispersed", "times", "probit")
    ]
    + [(case, "mean") for case in ("groups", "group-slopes", "noise-t-forest", "counts")]
    + [(case, "quantile") for case in ("groups", "counts")],
)
@pytest.mark.sampled(quick=5, slow=5)
def test_intervals_hold_for_simulated_outcomes(case, of):
    """Beyond either end is the share of simulated figures that belongs there, with rows of new groups too.

    Means are differences of two sets' weighted means.
    """
    posterior, X = some(case)
    part = np.array(X.pop("part"))
    outcomes, options = simulated(posterior, X), {"of": "sum"}
    figure, weights = outcomes.sum(axis=1), np.linspace(0.5, 2, ROWS)
    if of == "mean":
        a, b = (weights * (part == name) for name in ("a", "b"))
        figure = outcomes @ (a / a.sum() - b / b.sum())
        X |= {"part": list(part)}
        options = {"of": "mean", "compare": {"part": ["a", "b"]}, "weights": weights}
    elif of == "quantile":
        figure, options = np.quantile(outcomes, 0.25, axis=1, method="inverted_cdf"), {"of": of, "q": 0.25}
    answer = posterior.aggregate(X, **options)
    lower, upper = answer.lower[0] - 1e-9, answer.upper[0] + 1e-9
    assert np.mean(figure < lower) < 0.05 + MARGIN
    assert np.mean(figure > upper) < 0.05 + MARGIN
    assert np.mean(figure < lower + 2e-9) > 0.05 - MARGIN
    assert np.mean(figure > upper - 2e-9) > 0.05 - MARGIN
    assert answer.mean[0] == pytest.approx(figure.mean(), abs=0.08 * figure.std())


@pytest.mark.parametrize(
    "options", [{"of": "sum"}, {"of": "quantile", "q": 0.5}, {"compare": {"half": [0, 1]}}]
)
@pytest.mark.sampled(quick=1, slow=2)
def test_sets_may_be_simulated_in_several_runs(options, monkeypatch):
    """Sets one by one, and outcomes a few draws at a time, have about the figures of all together."""
    posterior, X = some("times")
    X |= {"part": [k % 3 for k in range(ROWS)]} | ({"half": [0, 1] * 6} if "compare" in options else {})
    together = posterior.aggregate(X, "part", **options)
    monkeypatch.setattr(set_sums, "SIMULATED", 1)
    monkeypatch.setattr(set_sums, "MAX_CELLS", 24)
    apart = posterior.aggregate(X, "part", **options)
    width = together.upper - together.lower
    for figure in ("mean", "lower", "upper"):
        assert np.all(np.abs(getattr(together, figure) - getattr(apart, figure)) < 0.08 * width)


def variance(posterior, X):
    """Return the variance of the total of rows in each draw, float64 [draw]."""
    request = AggregateRequest.check(None, "sum", None, 0.9, "predictive", None)
    coded = posterior.encode(X)
    sums = set_sums.SetSums(
        posterior.law, coded, RowSets.read(posterior.law, coded, None, request, [3, 3], None), request
    )
    return sums._variance(sums._part(0, 1), 1)[:, 0]


def test_rows_of_one_new_group_share_its_intercept():
    """Two rows, each counted c times, of one new group add (2c)^2 tau^2, of two groups 2 c^2 tau^2."""
    posterior = fit_digests.fitted("groups")
    X = {name: values[:2] for name, values in fit_digests.data("grouped")[0].items()}
    known, one, two, none = (
        variance(posterior, X | {"site": sites}) for sites in ([1, 2], [9, 9], [8, 9], [None] * 2)
    )
    tau = posterior.law.intercepts.sds[0, posterior.law.alike(None)]
    np.testing.assert_allclose(one - known, 36 * tau**2)
    np.testing.assert_allclose(two - known, 18 * tau**2)
    np.testing.assert_array_equal(two, none)


def test_sums_of_poisson_counts_are_enumerated():
    """The ends are the smallest counts at which three Poisson counts, added up, reach the tails."""
    posterior, X = some("counts", 3)
    X.pop("part")
    rates = posterior.sample(X).reshape(-1, 3)
    count = np.arange(400)
    law = np.zeros(400)
    for each in rates:
        first, second, third = (poisson.pmf(count, rate) for rate in each)
        law += np.convolve(np.convolve(first, second)[:400], third)[:400] / len(rates)
    ends = [np.argmax(np.cumsum(law) >= tail) for tail in (0.05, 0.95)]
    answer = posterior.aggregate(X)
    assert [answer.lower[0], answer.upper[0]] == ends
    mean = posterior.aggregate(X, of="mean", observed=[None, 5, None])
    assert mean.observed_rows[0] == 1
    assert mean.mean[0] == pytest.approx((rates[:, [0, 2]].sum(axis=1).mean() + 5) / 3, rel=1e-6)


@pytest.mark.parametrize("case", ["bart", "counts", "times"])
def test_known_outcomes_count_as_they_are(case):
    """With all of them known the total is known; with some, only the others make it uncertain."""
    posterior, X = some(case)
    X.pop("part")
    y = np.arange(float(ROWS))
    answer = posterior.aggregate(X, observed=y)
    assert answer.mean[0] == answer.lower[0] == answer.upper[0] == y.sum()
    some_known = np.where(y < 4, np.nan, y)
    rest = {name: values[:4] for name, values in X.items()}
    ours, theirs = posterior.aggregate(X, observed=some_known), posterior.aggregate(rest)
    for figure in ("mean", "lower", "upper"):
        assert getattr(ours, figure)[0] == pytest.approx(getattr(theirs, figure)[0] + y[4:].sum())
    assert (ours.rows[0], ours.observed_rows[0], ours.new_groups[0]) == (12, 8, 0)


def test_rows_of_classes_are_counted():
    """Totals of classes are numbers of rows, means their shares; those of all classes add up to all rows."""
    posterior, X = some("classes")
    for interval in ("predictive", "credible"):
        answer = posterior.aggregate(X, "part", interval=interval)
        np.testing.assert_allclose(answer.mean.sum(axis=1), 3)
        assert np.all((answer.lower >= 0) & (answer.upper <= 3))
    share = posterior.aggregate(X, "part", of="mean")
    np.testing.assert_allclose(share.mean.sum(axis=1), 1)
    assert "mean_low" in share.columns()
    assert "rows of each class" in str(share)


def test_the_mean_of_copies_of_a_row_is_expected_as_the_row():
    """Copies of a row, weighted or not, have its expected mean and credible interval."""
    posterior, X = some("group-slopes", 1)
    X.pop("part")
    (ends,) = posterior.predict(X, interval="credible").intervals
    copies = {name: values * 7 for name, values in X.items()}
    for weights in (None, np.arange(1, 8)):
        answer = posterior.aggregate(copies, of="mean", weights=weights, interval="credible")
        np.testing.assert_allclose(
            [answer.lower[0], answer.upper[0]], [ends.lower[0], ends.upper[0]], atol=1e-5
        )


def test_means_of_populations_allow_for_the_number_of_rows():
    """Their variance has more, given a draw, by s^2 / (n + 1) (Rubin 1981); copies of a row have no more."""
    posterior, X = some("bart", 60)
    X["part"] = [f"{k // 5:02}" for k in range(60)]
    asked = {"by": "part", "of": "mean", "interval": "credible"}
    rows, answer = (posterior.aggregate(X, **asked, population=whole) for whole in (False, True))
    assert np.array_equal(rows.mean, answer.mean)
    assert "over the population" in answer.figure
    drawn = posterior.sample({name: values for name, values in X.items() if name != "part"})
    drawn = drawn.reshape(-1, 12, 5)
    of_rows, more = drawn.mean(axis=2).var(axis=0).sum(), (drawn.var(axis=2).mean(axis=0) / 6).sum()
    wider = np.sum((answer.upper - answer.lower) ** 2) / np.sum((rows.upper - rows.lower) ** 2)
    assert wider == pytest.approx(1 + more / of_rows, rel=0.3)
    assert wider > 3
    copies = {name: [values[0]] * 7 for name, values in X.items()}
    same, alone = (posterior.aggregate(copies, **asked, population=whole) for whole in (True, False))
    np.testing.assert_allclose([same.lower, same.upper], [alone.lower, alone.upper], rtol=1e-6)
    halves = {name: values[:10] for name, values in X.items()} | {"half": ["a", "b"] * 5}
    compared = {"compare": {"half": ["a", "b"]}, "of": "mean", "interval": "credible", "ignore_extra": True}
    less, more = (posterior.aggregate(halves, **compared, population=whole) for whole in (False, True))
    assert (more.upper - more.lower)[0] > (less.upper - less.lower)[0]


def test_sets_by_two_columns_and_a_table():
    """Sets are of the values that occur, numbers in their order, missing values last."""
    posterior, X = some("bart", 4)
    X |= {"part": ["x", "x", None, "x"], "week": [10, 9, 9, 10]}
    answer = posterior.aggregate(X, ["part", "week"])
    assert answer.sets == {"part": ["x", "x", None], "week": ["9", "10", "9"]}
    assert [each["set"] for each in answer.to_json()["sets"]][2] == {"part": None, "week": "9"}
    assert list(answer.to_pandas()["rows"]) == [1, 2, 1]
    assert "part, week" in repr(answer)
    compared = posterior.aggregate(X, "part", compare={"week": [9, 10]})
    assert compared.sets == {"part": ["x"]}
    assert compared.warnings[-1].startswith("1 of 2 sets")


@pytest.mark.parametrize(
    ("options", "field"),
    [
        ({"by": ["part", "unknown"]}, "by"),
        ({"by": ["part", "part"]}, "by"),
        ({"of": "product"}, "of"),
        ({"q": 0.5}, "q"),
        ({"of": "quantile"}, "q"),
        ({"of": "quantile", "q": 2.0}, "q"),
        ({"of": "quantile", "q": 0.5, "interval": "credible"}, "interval"),
        ({"level": 1.0}, "level"),
        ({"interval": "other"}, "interval"),
        ({"compare": {"part": ["a"]}}, "compare"),
        ({"compare": {"part": ["a", "z"]}}, "compare"),
        ({"by": "part", "compare": {"part": ["a", "b"]}}, "compare"),
        ({"population": True, "of": "mean"}, "population"),
        ({"population": True, "interval": "credible"}, "population"),
        ({"population": "yes", "of": "mean", "interval": "credible"}, "population"),
    ],
)
def test_invalid_wishes_name_their_field(options, field):
    """A request that cannot be answered is refused by the name of its argument."""
    posterior, X = some("bart")
    with pytest.raises(SettingsError) as refused:
        posterior.aggregate(X, **options)
    assert refused.value.field == field


def test_outcomes_that_inform_a_new_group_are_refused():
    """A known outcome of a group that the model has not seen says something of its other rows."""
    posterior, X = some("groups")
    with pytest.raises(DataError, match="fit again with these rows, or leave them out"):
        posterior.aggregate(X, "part", observed=[1.0] + [None] * (ROWS - 1))
    with pytest.raises(SettingsError, match="known classes"):
        some("probit")[0].aggregate(some("probit")[1], "part", observed=["yes"] * ROWS)


@pytest.mark.parametrize("case", ["noise-forest", "groups", "counts", "times"])
def test_totals_of_groups_are_scored_by_their_joint_law(case):
    """A score is the share of simulated totals of the group's rows that are below its outcomes' total."""
    posterior, X = some(case)
    X.pop("part")
    unit, y = np.repeat([2, 0, 1], 4).astype(np.int32), np.repeat([1.0, 3.0, 2.0], 4)
    rows = LabelledRows(posterior.encode(X), y)
    scores = total_scores(posterior.law, rows, unit)
    outcomes = simulated(posterior, X)
    for group, score in enumerate(scores):
        totals, own = outcomes[:, unit == group].sum(axis=1), y[unit == group].sum()
        assert np.mean(totals < own) - 0.03 < score < np.mean(totals <= own) + 0.03
    assert total_scores(some("probit")[0].law, rows, unit) is None


def subjects(rng: np.random.Generator, groups: int) -> tuple:
    """Draw rows of subjects with intercepts: columns, outcomes and the number of the subject."""
    unit = np.repeat(np.arange(groups), rng.integers(4, 12, groups))
    x = rng.uniform(size=len(unit))
    y = 2 * x + 0.7 * rng.normal(size=groups)[unit] + rng.normal(size=len(unit))
    return {"x": x, "subject": [f"s{k}" for k in unit]}, y, unit


def test_calibrated_totals_of_new_groups_are_covered_by_any_model():
    """A model without intercepts covers too few totals of new subjects; calibrated by others', enough."""
    rng = np.random.default_rng(3)
    X, y, _ = subjects(rng, 30)
    short = {"num_chains": 2, "num_burnin": 20, "num_draws": 10, "thin": 1, "num_trees": 10}
    posterior = fit({"x": X["x"]}, y, progress=False, **short)
    runs, inside = 150, {"calibrated": 0, "predictive": 0}
    for _ in range(runs):
        X, y, unit = subjects(rng, 20)
        new = unit == 19
        rows, asked = ({name: np.array(values)[which] for name, values in X.items()} for which in (~new, new))
        calibrated = posterior.calibrate(rows, y[~new], groups="subject")
        for interval in inside:
            answer = calibrated.aggregate(asked, "subject", interval=interval)
            inside[interval] += answer.lower[0] <= y[new].sum() <= answer.upper[0]
    assert 0.87 < inside["calibrated"] / runs < 0.99  # .90 to .95 are promised
    assert inside["predictive"] / runs < 0.75


def test_calibrated_totals_are_saved_and_say_what_they_hold():
    """A fit calibrated for new subjects has intervals of their totals, and of other sets none."""
    X, y, _ = subjects(np.random.default_rng(4), 14)
    short = {"num_chains": 2, "num_burnin": 5, "num_draws": 6, "thin": 1, "num_trees": 3}
    declared = {"new_rows": {"groups": "subject"}, "groups": "subject", "progress": False}
    wrong = [({"level": 0.99}, "level"), ({"by": None}, "interval"), ({"weights": y[:20] ** 2}, "interval")]
    asked = {name: list(values[:20]) for name, values in X.items()}
    for calibrate, text in (("folds", "Estimated: about 0.9"), ("holdout", "at least 0.9")):
        share = {} if calibrate == "folds" else {"holdout": 0.7}
        posterior = fit(X, y, calibrate=calibrate, **declared, **share, **short)
        answer = posterior.aggregate(asked, "subject", interval="calibrated")
        assert text in answer.claim
        assert answer.claim in str(answer)
        again = Posterior.from_bytes(posterior.to_bytes()).aggregate(asked, "subject", interval="calibrated")
        assert again.to_json() == answer.to_json()
        mean = posterior.aggregate(asked, "subject", of="mean", interval="calibrated")
        np.testing.assert_allclose(mean.upper * mean.rows, answer.upper)
        assert "totals" not in posterior.conformal_table.summary()
        for options, field in wrong:
            with pytest.raises(SettingsError) as refused:
                posterior.aggregate(asked, **{"by": "subject", "interval": "calibrated"} | options)
            assert refused.value.field == field
    rows, part = some("bart")
    with pytest.raises(SettingsError, match="no calibrated totals"):
        rows.aggregate(part, "part", interval="calibrated")
