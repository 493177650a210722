"""R-hat and ESS equal arviz-stats; the verdict is the documented one."""

import json
from dataclasses import replace

import numpy as np
import pytest

from sampler.posterior.verdict import rhat_ess
from sampler.posterior.verdict.agreement import Agreement, judge, times_to_converge
from sampler.posterior.verdict.effects import EffectsUse, farthest
from sampler.posterior.verdict.summary import summarise
from sampler.posterior.verdict.use import use_of
from sampler.posterior.weighting.draw_weights import EqualWeights

SHAPES = [(4, 250), (2, 101), (3, 7), (4, 4), (1, 60)]


def chains(shape, seed=0):
    """Return quantities [30, chain, draw]: slow, independent, tied, drifting, one chain elsewhere."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(30, *shape))
    for t in range(1, shape[1]):
        x[:10, :, t] += 0.9 * x[:10, :, t - 1]
    x[20:] = np.round(x[20:])
    x[5] += np.arange(shape[0])[:, None]
    x[6] += np.linspace(0, 2, shape[1])
    return x


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize(
    ("ours", "theirs", "options"),
    [
        (rhat_ess.rhat, "rhat", {"method": "rank"}),
        (rhat_ess.ess_bulk, "ess", {"method": "bulk"}),
        (rhat_ess.ess_tail, "ess", {"method": "tail", "prob": (0.05, 0.95)}),
        (rhat_ess.ess_mean, "ess", {"method": "mean"}),
        (rhat_ess.mcse_mean, "mcse", {"method": "mean"}),
        (lambda x: rhat_ess.mcse_quantile(x, 0.05), "mcse", {"method": "quantile", "prob": 0.05}),
    ],
    ids=["rhat", "ess_bulk", "ess_tail", "ess_mean", "mcse_mean", "mcse_quantile"],
)
def test_equals_arviz(shape, ours, theirs, options):
    """Figures equal those of arviz-stats for every kind of chain; R-hat needs two chains there."""
    from arviz_stats.base import array_stats  # half a second in every test process

    x = chains(shape)
    expected = np.array([getattr(array_stats, theirs)(quantity, **options) for quantity in x])
    finite = np.isfinite(expected)
    assert finite.any() or shape[0] == 1
    np.testing.assert_allclose(ours(x)[finite], expected[finite], rtol=1e-10)


def test_constant_quantities_have_converged():
    """A constant quantity, as of a stump or a fixed sigma, has R-hat 1 and full effective sample size."""
    still = np.full((2, 4, 50), 3.7)
    np.testing.assert_array_equal(rhat_ess.rhat(still), 1)
    np.testing.assert_array_equal(rhat_ess.ess_bulk(still), 200)
    np.testing.assert_allclose(rhat_ess.mcse_mean(still), 0, atol=1e-15)


def test_constant_chains_that_differ_have_a_large_rhat():
    """Chains that are constant at different values have an R-hat far above any limit."""
    apart = np.tile(np.arange(4.0)[None, :, None], (1, 1, 50))
    assert rhat_ess.rhat(apart)[0] > 5


def agreement(rhat, error, rows=200):
    """Return figures of these rows, each given once for all or by row."""
    return Agreement(*(np.broadcast_to(v, rows).astype(float) for v in (rhat, error, 400, 400)))


def of_sigma(rhat):
    """Return R-hat of the scalars of numbers; None for classes, which have no sigma."""
    return {} if rhat is None else {"sigma": rhat}


@pytest.mark.parametrize(
    ("rhat", "error", "sigma_rhat", "num_chains", "expected"),
    [
        (1.05, 0.099, 1.05, 4, "converged"),
        (1.051, 0.099, 1.05, 4, "approximate"),
        (1.05, 0.1, 1.05, 4, "approximate"),
        (1.05, 0.099, 1.051, 4, "approximate"),
        (1.10, 0.199, 1.20, 4, "approximate"),
        (1.101, 0.199, 1.20, 4, "not_converged"),
        (1.10, 0.2, 1.20, 4, "not_converged"),
        (1.10, 0.199, 1.201, 4, "not_converged"),
        (1.0, 0.01, None, 4, "converged"),
        (1.0, 0.01, 1.0, 1, "approximate"),
    ],
)
def test_verdict_limits(rhat, error, sigma_rhat, num_chains, expected):
    """The three verdicts change at their thresholds; a single chain is never converged."""
    verdict, reasons = judge(agreement(rhat, error), of_sigma(sigma_rhat), num_chains)
    assert verdict == expected
    assert reasons


@pytest.mark.parametrize(
    ("rhat", "expected"),
    [(1.10, "converged"), (1.101, "approximate"), (1.2, "approximate"), (1.201, "not_converged")],
)
@pytest.mark.parametrize("beside", [{}, {"sigma": 1.0}], ids=["classes", "numbers"])
def test_the_log_likelihood_has_limits_of_its_own(beside, rhat, expected):
    """Beside sigma, and alone of classes; the reason says which of them disagrees."""
    verdict, reasons = judge(agreement(1.0, 0.01), beside | {"log_likelihood": rhat}, 4)
    assert verdict == expected
    assert [reason.code for reason in reasons] == [
        "limits_met" if expected == "converged" else "likelihood_disagrees"
    ]
    asked = replace(reasons[0], rows="rows asked")  # of which the verdict may be, not the likelihood
    assert expected == "converged" or "log-likelihood of the reference rows" in str(asked)


@pytest.mark.parametrize(
    ("chains", "settled", "passing"),
    [(2, True, 1.05), (4, True, 1.05), (8, True, 1.10), (8, False, 1.05), (16, True, 1.19), (64, True, 1.19)],
)
def test_limits_of_r_hat_are_those_of_four_groups_of_chains(chains, settled, passing):
    """With more chains than four R-hat of single ones may be larger, once all have settled together."""
    shift = np.full(200, 0.039 if settled else 0.041)
    for rhat, expected in ((passing, "converged"), (passing + 0.01, "approximate")):
        rows = replace(agreement(rhat, 0.05), shift=shift)
        assert judge(rows, of_sigma(1.05), chains)[0] == expected
        assert judge(replace(rows, rhat=np.ones(200)), of_sigma(rhat), chains)[0] == expected


def test_shift_is_the_common_move_beyond_chance():
    """The shift is about 0 for chains that stay, and the square of the fall for chains that fall together."""
    draws = np.random.default_rng(0).normal(size=(150, 8, 125))
    falling = draws - 0.5 * (np.arange(125) < 62)
    assert np.mean(Agreement.of(draws).shift) == pytest.approx(0, abs=0.01)
    assert np.mean(Agreement.of(falling).shift) == pytest.approx(0.25, rel=0.1)
    assert Agreement.of(draws).settled
    assert not Agreement.of(falling).settled
    assert not Agreement.of(draws[:, :1]).settled


@pytest.mark.parametrize(("bad", "expected"), [(10, "converged"), (11, "approximate")])
def test_one_row_in_twenty_may_fail(bad, expected):
    """95% converged reference rows suffice; one row fewer does not."""
    rhat = np.where(np.arange(200) < bad, 1.09, 1.0)
    assert judge(agreement(rhat, 0.05), of_sigma(1.0), 4)[0] == expected


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        ({}, "approximate"),
        ({"apart": 0.151}, "not_converged"),
        ({"rhat": 1.251}, "not_converged"),
        ({"shift": 0.041}, "not_converged"),
        ({"sigma_rhat": 1.67}, "not_converged"),
        ({"sigma_rhat": None}, "not_converged"),  # classes
        ({"rows": 19}, "not_converged"),
        ({"apart": None}, "not_converged"),
    ],
    ids=str,
)
def test_chains_that_do_not_quite_meet_are_pooled(changed, expected):
    """They are approximate where another fit would say the same and f has settled; never converged."""
    figures = {"rhat": 1.25, "apart": 0.149, "sigma_rhat": 1.66, "rows": 20, "shift": 0.039} | changed
    shift = np.full(figures["rows"], figures["shift"])
    rows = replace(agreement(figures["rhat"], 0.25, figures["rows"]), shift=shift)
    if figures["apart"] is not None:
        rows = replace(rows, reproducibility=np.full(figures["rows"], figures["apart"]))
    verdict, reasons = judge(rows, of_sigma(figures["sigma_rhat"]), 16)
    assert verdict == expected
    assert ("reproducible" in {reason.code for reason in reasons}) == (expected == "approximate")
    assert all(map(str, reasons))


def test_drift_is_the_common_move_of_all_chains():
    """Chains that fall together drift, wherever each is; chains in place don't."""
    draws = np.random.default_rng(0).normal(size=(100, 8, 60)) + 3 * np.arange(8)[:, None]
    still, falling = rhat_ess.drift(draws), rhat_ess.drift(draws - np.linspace(0, 2, 60))
    assert np.mean(np.abs(still) > 2.36) == pytest.approx(0.05, abs=0.05)  # of Student's t with 7 degrees
    assert np.mean(falling < -3) > 0.9
    assert np.isnan(rhat_ess.drift(draws[:, :1])).all()
    assert np.isnan(rhat_ess.drift(np.ones((2, 4, 10)))).all()


def summary_of(f, num_chains=4, draws=250, trees=5, has_noise=True):
    sigma = np.random.default_rng(1).normal(1, 0.1, (num_chains, draws)) if has_noise else None
    leaves = np.full((num_chains, draws, trees), 2)
    moves = {"moves": {"grow": {"proposed": 10, "accepted": 3}}}
    noise = None if sigma is None else np.full(len(f), sigma.mean())
    scalars = {} if sigma is None else {"sigma": sigma}
    return summarise(f, scalars, leaves, [moves] * num_chains, noise)


def test_summary_of_good_chains():
    """Independent draws converge; the summary says so and has the documented fields."""
    summary = summary_of(np.random.default_rng(0).normal(size=(50, 4, 250)))
    assert summary.verdict == "converged"
    data = summary.to_json()
    assert {"verdict", "reasons", "advice", "sigma", "log_likelihood", "f", "moves", "leaves"} <= set(data)
    assert set(data["sigma"]) == {"rhat", "ess_bulk", "ess_tail", "drift"}
    assert data["f"]["rows"] == 50
    assert data["moves"]["grow"] == {"proposed": 40, "accepted": 12, "acceptance": 0.3}
    assert data["leaves"]["mean"] == 2
    assert "converged: 4 chains of 250 draws" in str(summary)


def test_summary_of_bad_chains_says_what_to_do():
    """Chains that disagree are not converged; the summary gives figures and advice."""
    f = np.random.default_rng(0).normal(size=(50, 4, 250)) + 2 * np.arange(4)[:, None]
    summary = summary_of(f)
    assert summary.verdict == "not_converged"
    assert "0%" in str(summary.reasons[0])
    assert "num_draws" in summary.advice


@pytest.mark.parametrize(
    ("apart", "trees", "has_noise", "advised"),
    [
        (2, 200, True, True),
        (2, 800, True, False),
        (2, 1, True, False),
        (2, 200, False, False),
        (0, 200, True, False),
    ],
)
def test_more_trees_are_advised_for_sums_of_few_that_disagree(apart, trees, has_noise, advised):
    """More trees are advised where chains disagree on numbers, unless there are as many or it is one tree."""
    f = np.random.default_rng(0).normal(size=(50, 4, 250)) + apart * np.arange(4)[:, None]
    assert ("num_trees=800" in summary_of(f, trees=trees, has_noise=has_noise).advice) == advised


def test_summary_says_what_is_usable_and_how_far_off():
    """Means are usable while their error is small beside the noise; the error is in units of the target."""
    draws = np.random.default_rng(0).normal(size=(50, 4, 250))
    apart = np.arange(4)[:, None]
    good = summary_of(draws).precision
    slight = summary_of(0.05 * (draws + 2 * apart))
    far = summary_of(draws + 2 * apart)

    assert good.mean == pytest.approx(2 / np.sqrt(1000), rel=0.3)
    assert good.noise == pytest.approx(1, abs=0.01)
    assert slight.verdict == far.verdict == "not_converged"
    assert slight.precision.mean == pytest.approx(far.precision.mean / 20, rel=0.1)
    assert (slight.precision.means_usable, far.precision.means_usable) == (True, False)
    assert "Predictions: usable" in str(slight)
    assert "not yet usable" in str(far)
    assert "posterior.extend(250) goes on" in str(far)


def test_effects_are_judged_by_their_own_draws():
    """Two chains with equal m + h and h of opposite sign agree on f, and are not converged all the same."""
    rng = np.random.default_rng(0)
    f, h = (
        rng.normal(size=(50, 2, 1000)),
        np.array([1.0, -1.0])[:, None] + 0.1 * rng.normal(size=(50, 2, 1000)),
    )
    scalars = {"sigma": rng.normal(1, 0.1, (2, 1000))}
    leaves, opposite = np.full((2, 1000, 5), 2), EffectsUse.of(2 * h.mean(axis=0, keepdims=True), 2 * h)
    alone, summary = (
        summarise(f, scalars, leaves, [{}] * 2, np.ones(50), each) for each in ((), (opposite,))
    )
    assert (alone.verdict, summary.verdict) == ("converged", "not_converged")
    assert [reason.code for reason in summary.reasons] == ["limits_met"] + ["effect_disagrees"] * 2
    use = summary.use()
    assert (use.credible, use.predictions, use.chains.verdict) == ("usable", "usable", "converged")
    assert (use.effects.average, use.effects.rows) == ("not_yet", "not_yet")
    assert "Average effect: not yet usable (R-hat" in use.text
    assert use_of(json.loads(json.dumps(summary.to_json()))) == use


@pytest.mark.parametrize(
    ("apart", "by_row", "average", "rows"),
    [
        (0, 0, "usable", "usable"),
        (0.6, 0, "roughly", "usable"),
        (0, 1, "usable", "not_yet"),
        (3, 0, "not_yet", "usable"),
    ],
)
def test_averages_and_rows_of_effects_are_judged_apart(apart, by_row, average, rows):
    """Chains may agree on one and not on the other; few draws, and one chain, tell less."""
    rng, places = np.random.default_rng(0), np.arange(4)[:, None]
    of_average, of_rows = rng.normal(size=(1, 4, 500)), rng.normal(size=(40, 4, 500))
    use = EffectsUse.of(of_average + apart * places / 2, of_rows + by_row * places)
    assert (use.average, use.rows) == (average, rows)
    assert {reason.of.split()[0] for reason in use.reasons} == {
        name for name, own in (("average", average), ("effects", rows)) if own != "usable"
    }
    few = EffectsUse.of(of_average[..., :5], of_rows[..., :5])
    assert (few.average, few.rows, few.reasons) == ("not_yet", "not_yet", [])
    assert EffectsUse.of(of_average[:, :1], of_rows[:, :1]).average == "roughly"


def test_reproducibility_is_the_spread_over_fits():
    """The disagreement of four chains is that of fits of four other chains, in all figures that tell it."""
    rng = np.random.default_rng(1)
    f = rng.normal(size=(100, 64, 250)) + 0.7 * rng.normal(size=(100, 64, 1))  # each chain at its own place
    fits = f.reshape(100, 16, 4, 250)
    spread = np.sqrt(fits.mean(axis=(2, 3)).var(axis=1, ddof=1).mean())
    ends = np.quantile(fits, 0.95, axis=(2, 3)).T.std(axis=1, ddof=1)
    one = np.ascontiguousarray(fits[:, 0])
    summary = summary_of(one)
    figure = summary.precision.reproducibility
    weights = EqualWeights(4)

    assert figure * one.std(axis=(1, 2)).mean() == pytest.approx(spread, rel=0.15)
    assert f"Another fit would move means by about {figure:.2g} of their posterior sd." in str(summary)
    assert summary_of(one[:, :1]).precision.reproducibility is None
    assert np.isnan(rhat_ess.reproducibility(one[:, :1])).all()
    assert np.sqrt(np.mean(weights.mean_error(one, 250) ** 2)) == pytest.approx(spread, rel=0.2)
    error = np.sqrt(np.mean(weights.quantile_error(one, 0.95, 250) ** 2))
    assert error == pytest.approx(np.sqrt(np.mean(ends**2)), rel=0.25)
    assert np.isfinite(EqualWeights(1).quantile_error(one[:, :1], 0.95, 250)).all()


def test_needed_draws_are_estimated_from_stored_figures():
    """Errors fall with the root of the draws; undefined figures give the maximum."""
    assert times_to_converge(0.2, 1.0, {}) == pytest.approx(4)
    assert times_to_converge(0.05, 1.15, {"sigma": 1.2, "log_likelihood": None}) == pytest.approx(4)
    assert times_to_converge(0.05, 1.0, {"sigma": 1.0, "log_likelihood": 1.3}) == pytest.approx(3)
    assert times_to_converge(0.01, 1.0, {"sigma": 1.0}) == 1.5
    apart = {"average_rhat": 1.3, "average_error": 0.05, "rows_rhat": 1.1, "rows_error": 0.4}
    assert farthest(0.2, 1.2, apart) == (0.4, 1.3)
    assert farthest(0.2, 1.2, None) == (0.2, 1.2)
    assert farthest(0.2, 1.2, {"rows_rhat": 1.1}) == farthest(None, None, apart) == (None, None)
    assert times_to_converge(None, None, {}) == times_to_converge(9, 9, {"sigma": 9}) == 20


def test_summary_of_too_few_draws():
    """With a handful of draws the summary has no figures and remains readable."""
    summary = summary_of(np.zeros((5, 4, 3)), draws=3)
    assert summary.verdict == "not_converged"
    assert summary.f["rhat_median"] is None
    assert str(summary)
