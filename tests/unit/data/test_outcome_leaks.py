"""Text encoded by means of the outcome tells rows that are left out nothing of their own outcomes.

Outcomes are chance, and text has four rows a level. Its mean over all rows, which would tell a quarter of
the outcomes' variance, stands for an encoding that leaks.
"""

import warnings
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pandas as pd
import pytest

from sampler import DataWarning, fit, select_features, tune
from sampler.data.level_means import LevelOutcomes, level_means
from sampler.posterior.assessment import recalibrating
from sampler.posterior.core.row_blocks import spaced
from sampler.studies import calibrated_fit

ROWS, LEVELS, SEED = 400, 100, 22
SHORT = {"num_trees": 20, "num_chains": 1, "num_burnin": 40, "num_draws": 40, "thin": 1, "seed": 0}
PLAIN = {"noise": "constant", "transform": "none", "linear": False}


@cache
def table(place: str) -> tuple[pd.DataFrame, pd.Series]:
    """Return features with a column `place` of text, with the leak in its place, or with none; outcomes."""
    rng = np.random.default_rng(SEED)
    level = rng.permutation(np.arange(ROWS) % LEVELS)
    X, y = pd.DataFrame({"x": rng.normal(size=ROWS)}), pd.Series(rng.normal(size=ROWS), name="y")
    X = X.assign(**{f"x{j}": rng.normal(size=ROWS) for j in range(4)})
    means = level_means(level, LEVELS, LevelOutcomes.of(y.to_numpy(), {}))
    assert np.ptp(means) > 0.5
    columns = {"text": np.array([f"p{each}" for each in level], object), "leak": means[level]}
    return X if place == "none" else X.assign(place=columns[place]), y


def asked(place: str) -> dict[str, Any]:
    return SHORT | PLAIN | ({"columns": {"place": "encoded"}} if place == "text" else {})


def narrower(calibrate: str, interval: str) -> Callable[[str], float]:
    held = {"holdout": 0.4} if calibrate == "holdout" else {}

    def gain(place: str) -> float:
        def width(own: str) -> float:
            X, y = table(own)
            made = fit(X, y, calibrate=calibrate, **held, progress=False, **asked(own))
            assert (made.law.recalibration is not None) == bool(held)
            answer = made.predict(X[:60], level=[0.5, 0.7, 0.8, 0.9], interval=interval)
            return float(np.mean([each.upper - each.lower for each in answer.intervals]))

        return float(np.log(width("none") / width(place)))

    return gain


def tuned(place: str) -> float:
    scores = []
    for own in ("none", place):
        found = tune(*table(own), candidates=[{}, {"prior": {"k": 2}}], folds=3, **asked(own))
        scores.append(max(trial.log_score for trial in found.trials))
    return scores[1] - scores[0]


def selected(place: str) -> float:
    lengths = {"num_trees": 5, "num_permutations": 20, "num_burnin": 100, "num_draws": 60, "num_chains": 2}
    found = select_features(*table(place), **asked(place) | lengths)
    own = found.names.index("place")
    return float(np.log(found.share[own] / found.null[:, own].max()))


STUDIES = {
    "rows held out for a calibration": narrower("holdout", "calibrated"),
    "fits to folds of a calibration": narrower("folds", "calibrated"),
    "rows that recalibrate": narrower("holdout", "predictive"),
    "folds of a tuning": tuned,
    "permutations of a selection": selected,
}


@pytest.mark.parametrize("study", STUDIES)
@pytest.mark.sampled(quick=1, slow=len(STUDIES))
def test_text_gains_nothing_where_outcomes_are_chance(study):
    """By no study's figure: narrower intervals, log score, or rules beyond the share that chance gives."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DataWarning)
        text, leak = map(STUDIES[study], ("text", "leak"))
    assert (text < 0.04, leak > 0.09) == (True, True), (text, leak)


@pytest.mark.parametrize("linear", [False, True])
def test_training_rows_that_recalibrate_are_those_of_the_fit(linear, monkeypatch):
    """Encoded text knows nothing of their own outcomes there, as if they were left out in turn."""
    given = []
    monkeypatch.setattr(recalibrating, "recalibration_of", lambda *each: given.append(each))
    monkeypatch.setattr(recalibrating, "MOST_TRAINING", 100)
    X, y = table("text")
    weights = np.random.default_rng(0).uniform(0.5, 2, ROWS)
    problems, run = [], calibrated_fit.run
    monkeypatch.setattr(
        calibrated_fit, "run", lambda each, **more: problems.append(each) or run(each, **more)
    )
    tells = y + X["place"].str[1:].astype(float) / 40
    made = {"calibrate": "holdout", "holdout": 0.4, "progress": False}
    with pytest.warns(DataWarning, match="not given|held out|resemble|encoded|counts"):
        fit(X, tells, weights, **made, **asked("text") | {"linear": linear})
    fitted = problems[0].training
    ((_, _, training, *_),) = given
    own = spaced(len(fitted.y), 100)
    np.testing.assert_array_equal(training.coded.codes, fitted.codes[:, own])
    assert linear == isinstance(vars(training.coded)["values"], np.ndarray)
    assert len(np.unique(training.coded.codes[-1])) > 30
