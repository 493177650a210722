"""The verdict on a forecaster's chains is that of its answers, and can say no."""

from dataclasses import replace

import numpy as np
import pytest

from sampler import Forecaster, fit
from sampler.forecasts.agreement import agreement_of
from sampler.posterior.verdict import rhat_ess
from sampler.posterior.verdict.agreement import judge
from tests.support.forecasts import shops


def test_one_member_is_judged_as_any_posterior():
    """With one member R-hat and the error of the mean are those of its draws."""
    x = np.random.default_rng(0).normal(size=(5, 3, 40)).cumsum(axis=2)
    agreed = agreement_of(x[:, None])
    assert np.allclose(agreed.rhat, rhat_ess.rhat(x))
    by_draws = rhat_ess.mcse_mean(x) / x.std(axis=(1, 2), ddof=1)
    assert np.ptp(agreed.mean_error / by_draws) < 1e-9
    assert agreed.mean_error[0] >= by_draws[0], "chains may differ by more than their draws tell"


@pytest.mark.parametrize(
    ("apart", "verdict"), [(0.0, "converged"), (0.5, "not_converged"), (2.0, "not_converged")]
)
def test_errors_of_a_mixture_are_those_of_its_pooled_draws(apart, verdict):
    """Chains of six members that differ move the pooled mean as far as the error says, and the verdict."""
    rng = np.random.default_rng(1)
    moved = rng.normal(size=(200, 6, 2, 1)) * apart / 2
    x = rng.normal(size=(200, 6, 2, 85)) + moved + np.arange(6)[:, None, None]
    agreed = agreement_of(x)
    pooled = (x.mean(axis=(1, 2, 3)) - 2.5).std() / x.std(axis=(1, 2, 3)).mean()
    assert np.sqrt(np.mean(agreed.mean_error**2)) == pytest.approx(pooled, rel=0.2)
    assert judge(agreed, {}, 2)[0] == verdict


def test_a_short_fit_is_refused_and_a_usual_one_is_not():
    """Ten draws or one chain don't tell enough; the defaults do."""
    table, y = shops(1, 80)
    rows = {name: table[name] for name in ("month", "promo")}
    asked = {
        "time": "month",
        "horizon": 4,
        "seed": 1,
        "difference": "last",
        "known": ["promo"],
        "progress": False,
    }

    def summary(**settings):
        return fit(rows, y, **asked, **settings).summary()

    usual = summary()
    assert usual.verdict in {"converged", "approximate"}
    assert f"(at {usual.figures} steps and totals in rehearsals" in usual.text
    few = summary(num_draws=10, num_burnin=10, thin=1)
    assert few.verdict == "not_converged"
    assert summary(num_draws=5).text == "5 draws per chain are too few to tell."
    alone = summary(num_chains=1)
    assert alone.verdict != "converged"
    assert "One chain alone" in alone.text


def test_counts_are_judged_as_values_are():
    """Ends of intervals of counts lie in point masses, which no fit moves; ten draws are too few here too."""
    rng = np.random.default_rng(0)
    y = rng.poisson(2, size=120) * (rng.uniform(size=120) > 0.5)
    asked = {"time": "t", "horizon": 3, "season": 1, "seed": 1, "progress": False}
    usual = fit({"t": np.arange(120)}, y, **asked)
    assert usual.members == ["counts"]
    assert usual.summary().verdict in {"converged", "approximate"}
    few = fit({"t": np.arange(120)}, y, **asked, num_draws=10, num_burnin=10, thin=1)
    assert few.summary().verdict == "not_converged"


def test_noise_that_still_falls_is_not_settled(forecaster):
    """The halves of the draws tell of a burn-in too short by the noise, which sets how wide intervals are."""
    settled, own = forecaster.summary(), Forecaster.from_bytes(forecaster.to_bytes())
    for each in own.fitted:
        sigma = each.posterior.law.draws.sigma
        sigma *= np.linspace(1.3, 0.7, sigma.shape[1])
    falling = own.summary()
    assert falling.verdict == "not_converged"
    assert "The noise's sd moves by" in falling.text
    assert falling.text.startswith(settled.text[:50])


def test_the_card_has_the_facts(forecaster):
    """History, members, rehearsals by step and in totals, the verdict and the limits are on one page."""
    card = forecaster.model_card({"Name": "shops"})
    text = card.to_markdown()
    facts = dict(card.sections[0].tables[0].rows)
    assert facts["Series"] == "3, by shop"
    assert facts["Horizon"] == "4 steps"
    assert facts["Known ahead"] == "promo"
    assert facts["Members"].split("; ") == forecaster.members
    assert forecaster.claim() in card.sections[1].sentences
    found = forecaster.rehearsals()
    rows = card.sections[1].tables[0].rows
    assert [row[0] for row in rows] == ["1", "2", "3", "4"]
    first = found.step == 1
    share = (found.inside * found.number)[first].sum() / found.number[first].sum()
    assert rows[0][2] == f"{share:.0%}"
    assert forecaster.summary().text in card.sections[2].sentences
    assert "After 8 steps without an outcome" in text
    assert "<svg" in card.to_html()
    none = replace(forecaster.calibration, origins=())
    assert (
        "No rehearsal was made"
        in type(forecaster)(forecaster.history, forecaster.fitted, none, forecaster.settings)
        .model_card()
        .to_markdown()
    )
