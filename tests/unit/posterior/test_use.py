"""Uses of a fit: three answers, and sentences that say the same."""

from dataclasses import replace

import numpy as np
import pytest

from sampler import fit
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


def scores(verdict="held", inside=0.9, rows=412):
    share = {"level": 0.9, "coverage": inside, "lower": inside - 0.03, "upper": inside + 0.03}
    return {"rows": rows, "coverage": [share], "intervals_verdict": {"verdict": verdict}}


def test_chains_that_differ_leave_predictions_and_intervals_usable():
    """Held-out rows speak for predictions and intervals, chains for credible ones, each with its unit."""
    use = use_of(summary(), scores())
    assert use.text.replace("\u202f", " ") == (
        "Predictions and their 90% intervals: usable, 412 held-out rows say so (90% inside). The chains "
        "still differ by 0.41 k$ (3% of the noise): don't read credible intervals or effects finely yet. "
        "Another fit would move predictions by about 0.18 k$."
    )
    assert (use.predictions, use.intervals, use.credible) == ("usable", "usable", "not_yet")
    assert use.chains.mean == FIGURES["mean"]
    assert use.held_out.rows == 412
    assert (use.another_fit.moves, use.another_fit.sds) == (0.18, 0.31)
    assert use.to_json()["held_out"]["inside"] == 0.9
    assert str(use) == use.text


@pytest.mark.parametrize(
    ("scored", "usable", "intervals", "said"),
    [
        (None, True, "unchecked", "Their 90% intervals: unchecked, no held-out row was scored."),
        (scores("unknown", rows=23), True, "unchecked", "unchecked, 23 held-out rows are too few."),
        (
            scores("not_held", 0.81),
            True,
            "not_usable",
            "not as they are, 81% of 412 held-out rows are inside",
        ),
        (None, False, "unchecked", "Predictions and their intervals: not yet usable."),
        (scores("not_held", 0.81), False, "not_usable", "Predictions and their intervals: not yet usable."),
    ],
)
def test_each_question_is_answered_by_its_own_evidence(scored, usable, intervals, said):
    """Without rows intervals are unchecked; large errors of means need rows that say the intervals hold."""
    use = use_of(summary(means_usable=usable), scored)
    assert (use.predictions, use.intervals) == ("usable" if usable else "not_yet", intervals)
    assert said in use.text
    assert "The chains still differ by" in use.text


def test_reported_outcomes_overrule_held_out_rows():
    """Intervals that no longer hold are not usable, whatever held-out rows said."""
    use = use_of(summary("converged"), scores(), no_longer_hold=True)
    assert (use.intervals, use.credible) == ("not_usable", "usable")
    assert "no longer, as reported outcomes say" in use.text


def test_models_of_earlier_versions_have_what_they_know():
    """Documents without the newer figures, or without any, still give sentences."""
    old = {name: FIGURES[name] for name in ("mean", "ends", "noise", "share", "reproducibility")}
    use = use_of({"verdict": "approximate", "precision": old | {"means_usable": True}})
    assert "by about 0.31 of their posterior sd" in use.text
    assert "The chains agree to about 0.41 (3% of the noise)" in use.text
    bare = use_of({"verdict": "not_converged", "precision": None})
    assert (bare.predictions, bare.another_fit) == ("not_yet", None)
    assert "The chains don't agree: don't read" in bare.text
    assert use_of({"verdict": "converged", "precision": None}).predictions == "usable"


def test_figures_of_classes_are_percentage_points():
    """Errors of probabilities are said in percentage points; accuracy says nothing of intervals."""
    of_classes = summary(noise=None, share=None, error_share=None, unit=None, mean=0.0123, another_fit=0.005)
    use = use_of(of_classes, {"rows": 80, "accuracy": 0.8})
    assert "differ by 1.2 percentage points:" in use.text
    assert "move predictions by about 0.5 percentage points" in use.text
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
    assert replace(a, unit="k$").sentence().count("k$") == 2


def test_errors_of_expected_counts_are_beside_the_counts_own_spread():
    """The noise of counts is the root of their mean variance, so that their means can be judged too."""
    X, _, _ = friedman(150, 1)
    y = np.random.default_rng(0).poisson(9, 150)
    precision = fit(X, y, family="poisson", seed=1, **SHORT).summary().precision
    assert precision.noise == pytest.approx(3, rel=0.1)
    assert precision.share == pytest.approx(precision.mean / 3, rel=0.3)
