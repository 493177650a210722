"""Every question that a recalibrated model answers is of one law: F', or that of f, which stays.

Questions are those of the table (`tests.support.models.questions`). F' is computed here from the law before,
by its formula (docs/maths.md#recalibrated-laws). `OF_OUTCOMES` compares each question of outcomes with it;
those in `OF_F` have the answers of the model before. A question that is in neither fails.
"""

import warnings
from collections.abc import Callable
from copy import copy
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any

import numpy as np
import pytest
from scipy.special import ndtr, ndtri
from scipy.stats import kstest

from sampler import DataWarning
from tests.support.models import kinds
from tests.support.models.questions import answer, questions

QUICK = "gaussian+yeo-johnson+forest+recalibrated"
DRAWS = 16  # of two chains: moments of a recalibrated law are by 32 draws, evenly spaced

# Answers of f, of the draws, of the fit, or of what the model is.
OF_F = {
    *("accumulated_effects", "contrast", "effects", "importance", "inclusion", "interactions", "linear_part"),
    *("partial_dependence", "shap", "sample", "sample_learnt", "sample_sigma", "log_likelihood"),
    *("calibrate", "calibrated_levels", "conformal_table", "convergence", "diagnostics", "evidence", "match"),
    *("beside", "censoring", "chains", "classes", "constants", "degrees", "dispersion", "discard", "drawn"),
    *("encode", "exposure", "extend", "family", "grid", "group_sds", "group_slope_sds", "groups", "header"),
    *("keep_support", "leaf_counts", "noise_differs", "noise_spread", "num_chains", "num_draws", "num_trees"),
    *("inputs", "reference", "schema", "settings", "sigma", "slopes_of_groups", "to_bytes", "topologies"),
    *("training_rows", "transform", "tree_numbers", "typical_sigma", "unit", "usual_interval", "warnings"),
    "weights",
    *("pmf", "survival"),  # of counts and of times, which are not recalibrated
}


@dataclass(frozen=True)
class Law:
    """F' at the rows of a kind, from F."""

    kind: kinds.Kind
    posterior: Any

    @cached_property
    def before(self) -> Any:
        plain = copy(self.posterior)
        plain.law = self.posterior.law.before_recalibration
        return plain

    def cdf(self, y: Any, rows: Any = None) -> np.ndarray:
        """Compute F' at outcomes y, [.., row]."""
        rows, by = self.kind.rows if rows is None else rows, self.posterior.law.recalibration
        coded = self.posterior.encode(rows)
        mean, sd = self.before.law.moments(coded)
        scale = np.exp(by.factor * (by.trees.of(np.vstack([coded.codes, mean, sd])) - by.middle))
        scale = np.exp(np.rint(24 * np.log(scale)) / 24)
        z = ndtri(self.before.distribution(rows).cdf(np.asarray(y, float) - by.shift))
        return ndtr(np.interp(z / scale, *(_extended(each) for each in (by.source, by.target))))

    @cached_property
    def sums(self) -> tuple[np.ndarray, np.ndarray]:
        """Mean and sd of each row by integrals of F'."""
        by = self.posterior.law.recalibration
        at = np.linspace(by.low, by.high, 3_001)
        above = 1 - self.cdf(np.repeat(at[:, None], kinds.ROWS, axis=1))
        mean = by.low + np.trapezoid(above, at, axis=0)
        square = by.low**2 + np.trapezoid(2 * at[:, None] * above, at, axis=0)
        return mean, np.sqrt(square - mean**2)


def _extended(knots: np.ndarray) -> np.ndarray:
    return np.concatenate([50 * knots[:1], knots, 50 * knots[-1:]])


def has(law: Law, values: np.ndarray, q: float, rows: Any = None) -> None:
    """Check quantiles of rows, but for those held at an end."""
    by = law.posterior.law.recalibration
    free = (by.low < values) & (values < by.high)
    assert np.count_nonzero(free) > 0.8 * values.size
    np.testing.assert_allclose(law.cdf(values, rows)[free], q, atol=1e-6)


def check_means(law: Law, means: np.ndarray) -> None:
    """Check means, of quantiles linear between eleven nodes, which are coarse where tails are heavy."""
    mean, sd = law.sums
    assert np.abs((means - mean) / sd).mean() < 0.08
    assert np.abs((means - law.before.predict(law.kind.rows, level=None).mean) / sd).mean() > 0.15


def predicted(law: Law, told: Any) -> None:
    check_means(law, told.mean)
    assert np.abs(np.log(told.sd / law.sums[1])).mean() < 0.08
    asked = law.posterior.predict(law.kind.rows, level=[0.5, 0.9], quantiles=[0.3])
    (half, most), (third,) = asked.intervals, asked.quantiles
    for values, q in ((half.lower, 0.25), (most.upper, 0.95), (third.values, 0.3)):
        has(law, values, q)


def distribution(law: Law, told: Any) -> None:
    for q in (0.01, 0.5, 0.9):
        has(law, told.quantile(q), q)
        np.testing.assert_allclose(told.cdf(told.quantile(q)), law.cdf(told.quantile(q)), atol=1e-9)
    at = told.quantile(0.4)
    np.testing.assert_array_equal(told.interval(0.8)[0], told.quantile(0.1))
    rise = (law.cdf(at + 1e-5) - law.cdf(at - 1e-5)) / 2e-5
    np.testing.assert_allclose(told.prob(at), rise, rtol=2e-2)  # T has knots
    np.testing.assert_allclose(told.log_prob(at), np.log(told.prob(at)))
    check_means(law, told.mean)
    by = law.posterior.law.recalibration
    points = np.linspace(by.low, by.high, 3_001)
    below = law.cdf(np.repeat(points[:, None], kinds.ROWS, axis=1))
    crps = np.trapezoid((below - (points[:, None] >= at)) ** 2, points, axis=0)
    np.testing.assert_allclose(told.crps(at), crps, rtol=0.15)  # by the eleven nodes
    assert told.crps(at).mean() == pytest.approx(crps.mean(), rel=0.03)


def drawn(law: Law, told: np.ndarray) -> None:
    """Draws of each row have the law's probabilities, within what chance allows."""
    told = told.reshape(-1, kinds.ROWS)
    u = law.cdf(told)
    assert kstest(u.ravel(), "uniform").statistic < 0.04
    assert kstest(law.before.distribution(law.kind.rows).cdf(told).ravel(), "uniform").statistic > 0.04
    by_row = [kstest(own, "uniform").statistic for own in u.T]
    assert np.mean(np.array(by_row) * np.sqrt(len(told)) < 1.36) > 0.85  # 95% of right ones


def totals(law: Law, told: Any) -> None:
    """A set of one row is the row; the mean of a total is the sum of means, its interval that of draws."""
    one = {name: cells[:1] for name, cells in law.kind.rows.items()}
    alone = law.posterior.aggregate(one, level=0.8)
    for end, q in ((alone.lower, 0.1), (alone.upper, 0.9)):
        assert abs(law.cdf(np.repeat(end, kinds.ROWS))[0] - q) < 0.02
    sums = law.posterior.sample_predictive(law.kind.rows).reshape(-1, kinds.ROWS).sum(axis=1)
    whole = law.posterior.aggregate(law.kind.rows)
    assert whole.mean[0] == pytest.approx(law.posterior.predict(law.kind.rows, level=None).mean.sum())
    for end, q in ((whole.lower[0], 0.05), (whole.upper[0], 0.95)):
        assert abs(np.mean(sums <= end) - q) < 0.15  # of 32 sums
    assert np.isfinite(told.mean).all()


def scored(law: Law, _: Any) -> None:
    rows, y = law.kind.rows, law.kind.y
    if law.kind.weights is not None:  # of other laws: `distribution` is of weight 1
        return
    told = law.posterior.score(rows, y)
    one = law.posterior.distribution(rows)
    figures = {
        "rmse": np.sqrt(np.mean((one.mean - y) ** 2)),
        "crps": one.crps(y).mean(),
        "log_score": one.log_prob(y).mean(),
    }
    for name, value in figures.items():
        assert told[name] == pytest.approx(value, rel=1e-9), name
    for each in told["coverage"]:
        inside = np.abs(2 * law.cdf(y) - 1) <= each["level"]
        assert each["coverage"] == pytest.approx(inside.mean()), each


def calibration(law: Law, _: Any) -> None:
    if law.kind.weights is not None:
        return
    told = law.posterior.calibration(law.kind.rows, law.kind.y)
    away = np.abs(2 * law.cdf(law.kind.y) - 1)
    for each in told:
        assert each["observed"] == pytest.approx(np.mean(away <= each["level"])), each


def compared(law: Law, _: Any) -> None:
    rows, y = law.kind.rows, law.kind.y
    if law.kind.weights is not None:
        return
    told = law.posterior.compare(law.before, rows, y)
    apart = [each.score(rows, y) for each in (law.posterior, law.before)]
    for each in told.differences:
        if each.score in ("log_score", "crps"):
            assert (each.first, each.second) == pytest.approx(tuple(own[each.score] for own in apart))


def shown(law: Law, _: Any) -> None:
    row = {name: cells[1:2] for name, cells in law.kind.rows.items()}
    told = law.posterior.density(row)
    np.testing.assert_allclose(
        told["outcome"], law.posterior.distribution(row).prob(told["x"][:, None])[:, 0]
    )
    lower, upper = told["intervals"]["outcome"]
    for end, q in ((lower, 0.05), (upper, 0.95)):
        assert law.cdf(np.repeat(end, kinds.ROWS))[1] == pytest.approx(q, abs=1e-6)


def said(law: Law, _: Any) -> None:
    """Verdicts say by which rows it is made to hold; a card has the scores of F'."""
    assert law.posterior.use().intervals == law.posterior.summary().use().intervals == "made_to_hold"
    given = (law.kind.rows, law.kind.y, law.kind.weights)
    scores = law.posterior.score(*given)
    cards = law.posterior.model_card(*given), law.posterior.model_card(scores=scores)
    own, other = (each.to_markdown().partition("## Scores")[2].partition("\n## ")[0] for each in cards)
    assert own == other != ""


OF_OUTCOMES: dict[str, Callable[[Law, Any], None]] = {
    "predict": predicted, "distribution": distribution, "sample_predictive": drawn, "aggregate": totals,
    "score": scored, "calibration": calibration, "compare": compared, "density": shown, "summary": said,
    "use": said, "model_card": said,
}  # fmt: skip
OF_F_IF = ("credible", "calibrated")  # kinds of intervals that stay


@cache
def longer(name: str) -> Law:
    """Return the law of a kind, by more draws."""
    kind = kinds.Kind(name)
    kind.arguments |= {"num_draws": DRAWS, "num_burnin": 100, "num_trees": 10}
    return Law(kind, kind.fit())


def accepted() -> list[str]:
    """Name all kinds with one part beside the trees that may be recalibrated."""
    others = {"method", "holdout", "calibrate", "treatment", "adoption", "groups", "event", "lower"}
    others |= {"recalibrated", "exposure", "offset"}
    parts = [part for part, given in kinds.PARTS.items() if part != "mixture" and not {*given} & others]
    return [f"gaussian+{part}+recalibrated" for part in parts]


def test_no_question_is_left_out():
    asked = {label.partition("(")[0] for label in questions(kinds.Kind(QUICK), kinds.fitted(QUICK))}
    assert asked == OF_F | {*OF_OUTCOMES}


@pytest.mark.parametrize("name", [QUICK, *accepted()])
@pytest.mark.sampled(slow=4)
@pytest.mark.slow
def test_every_question_is_of_one_law(name):
    """Those of outcomes are of F', those of f are as before; no question is left out."""
    law = longer(name)
    every = questions(law.kind, law.posterior)
    done = set()
    for label, ask in every.items():
        method, _, given = label.partition("(")
        if method == "aggregate" and "credible" in given:  # sums are exact before
            np.testing.assert_allclose(ask(law.posterior).lower, ask(law.before).lower, rtol=1e-6)
        elif method in OF_F or any(each in given for each in OF_F_IF):
            assert answer(ask, law.posterior) == answer(ask, law.before), label
        elif method not in done and ("X" in given or method in ("use", "summary", "density")):
            done.add(method)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", DataWarning)
                OF_OUTCOMES[method](law, ask(law.posterior))
    assert done == {*OF_OUTCOMES}
