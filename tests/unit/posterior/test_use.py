"""Uses of a fit: three answers, and sentences that say the same."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import beta

from sampler import fit
from sampler.posterior.verdict.intervals import chance_range, judged, made_to_hold
from sampler.posterior.verdict.use import use_of
from tests.support.friedman import friedman

FIGURES = {
    "mean": 0.41,
    "ends": 0.6,
    "noise": 13.0,
    "share": 0.031,
    "error_share": 0.03,
    "reproducibility": 0.31,
    "another_fit": 0.18,
    "unit": "k$",
    "means_usable": True,
}


def summary(verdict="not_converged", **figures):
    return {"verdict": verdict, "precision": FIGURES | figures}


def scores(inside=0.9, rows=412, quarters=(0.9, 0.9, 0.9, 0.9)):
    """Scores of rows of which such a share is inside 90% intervals, and such of each quarter's."""
    each = [share(part, rows // 4) | {"low": None, "high": None} for part in quarters]
    figures = {"rows": rows, "overall": [share(inside, rows)], "by": [{"feature": None, "quarters": each}]}
    return {"rows": rows, "coverage": [share(inside, rows)], "intervals_verdict": judged(figures)}


def share(inside, rows):
    lower, upper = chance_range(0.9, rows)
    return {
        "level": 0.9,
        "rows": rows,
        "coverage": inside,
        "observed": inside,
        "lower": lower,
        "upper": upper,
    }


def test_chains_that_differ_leave_predictions_and_intervals_usable():
    """Held-out rows speak for predictions and intervals, chains for credible ones, each with its unit."""
    use = use_of(summary(), scores())
    assert use.text.replace("\u202f", " ") == (
        "Predictions: usable. 90% intervals: usable. Of 412 held-out rows 90% are inside (chance: 87 to 93), "
        "90% in each quarter of the prediction. The chains' predictions still differ by 0.41 k$ (3% of the "
        "noise): don't read credible intervals finely yet. Fitted again with another seed, predictions would "
        "move by about 0.18 k$."
    )
    assert (use.predictions, use.intervals, use.credible) == ("usable", "usable", "not_yet")
    assert use.chains.mean == FIGURES["mean"]
    assert use.held_out.rows == 412
    assert (use.another_fit.moves, use.another_fit.sds) == (0.18, 0.31)
    assert use["held_out"]["inside"] == 0.9
    assert str(use) == use.text


CALIBRATED = {"kind": "holdout", "rows": 563, "counted": 563}


@pytest.mark.parametrize(
    ("scored", "trusted", "intervals", "said"),
    [
        (None, True, "unchecked", " 90% intervals: unchecked, no held-out row was scored."),
        (scores(rows=23), True, "unchecked", "unchecked, 23 held-out rows are too few (40 are needed)."),
        (
            scores(0.81, quarters=(0.81,) * 4),
            True,
            "not_usable",
            "not usable, too narrow. Of 412 held-out rows 81% are inside (chance: 87 to 93), 81% in each",
        ),
        (None, False, "unchecked", "Predictions and their intervals: not yet usable."),
        (scores(0.81), False, "not_usable", "Predictions and their intervals: not yet usable."),
        (
            scores(0.87, 560, (0.9, 0.9, 0.91, 0.77)),
            False,
            "usable",
            "90% intervals are too narrow in the highest quarter of the prediction (77% of 140 rows inside); "
            "the others hold.",
        ),
        ({"rows": 563, "intervals_verdict": made_to_hold(563)}, True, "made_to_hold", "made to hold by 563"),
        ({"rows": 412, "coverage": [share(0.81, 412)], "intervals_verdict": {"verdict": "not_held"}}, True,
         "not_usable", "90% intervals: not usable, 81% of 412 held-out rows are inside."),
    ],
)  # fmt: skip
def test_each_question_is_answered_by_its_own_evidence(scored, trusted, intervals, said):
    """Without rows intervals are unchecked; large errors of means need rows that say the intervals hold."""
    use = use_of(summary(means_usable=trusted), scored)
    usable = trusted or intervals == "usable"
    assert (use.predictions, use.intervals) == ("usable" if usable else "not_yet", intervals)
    assert said in use.text
    assert "The chains' predictions still differ by" in use.text


def test_rows_that_calibrate_are_no_evidence():
    """A calibration says what new rows do, with the range of its law; predictive intervals are told apart."""
    word = made_to_hold(563)
    assert (word["lower"], word["upper"]) == pytest.approx(beta.interval(0.95, 508, 56))
    use = use_of(summary("converged"), {"rows": 563, "intervals_verdict": word})
    assert (use.held_out.verdict, use.held_out.inside) == ("made_to_hold", None)
    both = use_of(summary("converged"), scores(0.81, quarters=(0.81,) * 4), calibration=CALIBRATED)
    assert both.intervals == "made_to_hold"
    assert "Calibrated intervals are made to hold by 563 held-out rows: of new rows like these" in both.text
    assert "Predictive 90% intervals: not usable, too narrow." in both.text
    folds = use_of(summary("converged"), scores(), calibration=CALIBRATED | {"kind": "folds"})
    assert folds.intervals == "usable"


def test_reported_outcomes_overrule_held_out_rows():
    """Intervals that no longer hold are not usable, whatever held-out rows said, or calibrated."""
    use = use_of(summary("converged"), scores(), no_longer_hold=True, calibration=CALIBRATED)
    assert (use.intervals, use.credible) == ("not_usable", "usable")
    assert "no longer usable, as reported outcomes say" in use.text


def test_models_of_earlier_versions_have_what_they_know():
    """Documents without the newer figures, or without any, still give sentences."""
    old = {name: FIGURES[name] for name in ("mean", "ends", "noise", "share", "reproducibility")}
    use = use_of({"verdict": "approximate", "precision": old | {"means_usable": True}})
    assert "by about 0.31 of their posterior sd" in use.text
    assert "The chains agree on predictions to within about 0.41 (3% of the noise)" in use.text
    bare = use_of({"verdict": "not_converged", "precision": None})
    assert (bare.predictions, bare.another_fit) == ("not_yet", None)
    assert "The chains don't agree: don't read" in bare.text
    assert use_of({"verdict": "converged", "precision": None}).predictions == "usable"


def test_figures_of_classes_are_percentage_points():
    """Errors of probabilities are said in percentage points; accuracy says nothing of intervals."""
    of_classes = summary(noise=None, share=None, error_share=None, unit=None, mean=0.0123, another_fit=0.005)
    use = use_of(of_classes, {"rows": 80, "accuracy": 0.8})
    assert "differ by 1.2 percentage points:" in use.text
    assert "predictions would move by about 0.5 percentage points" in use.text
    assert use.intervals == "unchecked"


SHORT = {"num_trees": 20, "num_chains": 2, "num_burnin": 60, "num_draws": 20, "thin": 2, "progress": False}


def test_a_posterior_says_it_in_the_unit_of_the_outcome():
    """Summary, notebook card and model card have the sentences; figures scale with the outcome."""
    X, y, _ = friedman(150, 1)
    one, other = (fit(X, y * factor, seed=1, **SHORT) for factor in (1.0, 2.0**10))
    a, b = one.summary().precision, other.summary().precision
    assert b.another_fit == pytest.approx(a.another_fit * 2.0**10)
    assert b.error_share == pytest.approx(a.error_share)
    assert 0 < a.error_share < a.share
    text = one.use().text
    assert text in str(one.summary())
    assert text.split(":")[0] in one._repr_html_()
    scored = one.score(X[:60], y[:60], quick=True)
    assert one.use(scored).text in one.model_card(scores=scored).to_markdown()
    assert one.use(scored).held_out.rows == 60
    of_sds = np.sqrt(np.mean(one.sample(X).var(axis=(0, 1))))
    assert a.another_fit == pytest.approx(a.reproducibility * of_sds, rel=0.5)
    assert replace(a, unit="k$").text.count("k$") == 2


def test_errors_of_expected_counts_are_beside_the_counts_own_spread():
    """The noise of counts is the root of their mean variance, so that their means can be judged too."""
    X, _, _ = friedman(150, 1)
    y = np.random.default_rng(0).poisson(9, 150)
    precision = fit(X, y, family="poisson", seed=1, **SHORT).summary().precision
    assert precision.noise == pytest.approx(3, rel=0.1)
    assert precision.share == pytest.approx(precision.mean / 3, rel=0.3)
