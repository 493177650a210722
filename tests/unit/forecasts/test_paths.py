"""Paths are draws of the joint law: equal to a plain loop, exact for an AR(1), blind for what comes later."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from sampler.forecasts.calibration import rehearse
from sampler.forecasts.fitting import DEFAULTS, fit_members
from sampler.forecasts.members import Member
from sampler.forecasts.paths import Fitted, Start, sample_paths
from sampler.preparation import prepare
from sampler.running import run
from tests.support.forecasts import SHORT, history_of

SMALL = {name: each for name, each in SHORT.items() if name != "progress"}


def autoregression(seed=0, steps=200):
    """Simulate an AR(1), with two values far out, so that no path leaves the training range."""
    rng = np.random.default_rng(seed)
    y = np.zeros(steps)
    for t in range(1, steps):
        y[t] = 1 + 0.6 * y[t - 1] + rng.normal()
    y[[50, 100]] = 40, -40
    return y


@pytest.fixture(scope="module")
def of_lag_one():
    """Fit a line of the value before, with trees that never split; every other draw falls with it."""
    y = autoregression()
    member = Member("none", "identity", 1, 1)
    history = history_of(y)
    columns, z = member.training(history, np.ones(1))
    settings = DEFAULTS | {"num_trees": 1, "num_burnin": 50, "num_draws": 100, "seed": 1, "linear": True}
    problem = prepare(columns, z, **settings, noise="constant", transform="none", prior={"alpha": 1e-12})
    posterior = run(problem)
    posterior.law.slopes.values *= np.where(np.arange(200) % 2, 4, -4)[:, None]
    return Fitted(member, posterior, {(): 1.0}, 0.0), history


def test_an_autoregression_has_its_exact_law(of_lag_one):
    """Given its draw, steps and sums of an AR(1) are normal by theory, and its shocks independent.

    So no other law agrees, such as that of another draw at each step.
    """
    fitted, history = of_lag_one
    law = fitted.posterior.law
    horizon, repeats, start = 4, 10, Start(np.array([0]), np.array([199]))
    paths = sample_paths([[0]], [fitted], history, {}, start, horizon, 5, repeats=repeats)[:, 0]
    names = [column.name for column in fitted.posterior.schema.columns]
    at_zero, at_one = law.f(law.draws.encode({name: [0.0, 1.0] for name in names})).reshape(-1, 2).T
    slope, sigma = at_one - at_zero, law.draws.sigma.reshape(-1)
    assert np.ptp(slope) > 1
    mean, loading = np.full(len(slope), history.y[0, -1]), np.zeros((len(slope), 0))
    means, sum_loading = np.zeros(len(slope)), np.zeros((len(slope), 0))
    for h in range(horizon):
        mean = at_zero + slope * mean
        loading = np.concatenate([slope[:, None] * loading, np.ones((len(slope), 1))], axis=1)
        means = means + mean
        sum_loading = np.concatenate([sum_loading, np.zeros((len(slope), 1))], axis=1) + loading
        for y, centre, shocks in (
            (paths[:, h], mean, loading),
            (paths[:, : h + 1].sum(axis=1), means, sum_loading),
        ):
            sd = sigma * np.sqrt((shocks**2).sum(axis=1))
            z = (y.reshape(repeats, -1) - centre) / sd
            assert stats.kstest(z.reshape(-1), "norm").pvalue > 0.001
    before = np.insert(paths, 0, history.y[0, -1], axis=1)[:, :-1]
    shocks = (paths - np.tile(at_zero, repeats)[:, None] - np.tile(slope, repeats)[:, None] * before).T
    assert stats.kstest((shocks / np.tile(sigma, repeats)).reshape(-1), "norm").pvalue > 0.001
    assert np.abs(np.corrcoef(shocks) - np.eye(horizon)).max() < 4 / np.sqrt(len(paths))


def test_noise_in_common_makes_totals_wider(of_lag_one):
    """Two series whose noise is correlated by .5 have sums with the variance of theory."""
    fitted, history = of_lag_one
    both = history_of(history.y[0], history.y[0])
    shared = replace(fitted, scales={("0",): 1.0, ("1",): 1.0}, common=0.5)
    start = Start(np.array([0, 1]), np.array([199, 199]))
    paths = sample_paths([[0], [0]], [shared], both, {}, start, 1, 5, repeats=20)[:, :, 0]
    law = shared.posterior.law
    names = [column.name for column in shared.posterior.schema.columns]
    f = law.f(law.draws.encode({name: history.y[0, -1:].tolist() for name in names})).reshape(-1)
    z = (paths.reshape(20, -1, 2) - f[:, None]) / law.draws.sigma.reshape(-1)[:, None]
    one, other = z.reshape(-1, 2).T
    assert stats.kstest(one, "norm").pvalue > 0.001
    assert stats.kstest((one + other) / np.sqrt(3), "norm").pvalue > 0.001  # 1 + 1 + 2 * .5


def test_paths_equal_a_plain_loop():
    """Each step of a path is f of its own draw at the path's own values, and noise, by the posterior's f."""
    rng = np.random.default_rng(3)
    history = history_of(np.exp(rng.normal(size=60).cumsum() / 9), horizon=3, season=(4,))
    start, horizon = Start(np.array([0]), np.array([59])), 3
    for fitted in fit_members(history, {**DEFAULTS, **SMALL, "seed": 0, "family": "gaussian"}):
        member, law = fitted.member, fitted.posterior.law
        paths = sample_paths([[0]], [fitted], history, {}, start, horizon, 9, every=10)[:, 0]
        scale = fitted.scales[()]
        sigma = law.draws.sigma.reshape(-1)
        used = range(0, len(sigma), 10)
        noise = np.random.default_rng([9, 0, 0, 0, 59]).standard_normal((horizon, len(used)))
        for number, draw in enumerate(used):
            values = [*(member.learnt(history.y[0]) / scale)]
            for h in range(horizon):
                past = np.array(values[-member.reach :])
                columns = dict(zip(member.columns("y"), member.features(past)[:, None], strict=True))
                columns |= member.fixed(history, {}, np.array([0]), np.array([60 + h]))
                row = law.draws.encode({each.name: columns[each.name] for each in law.schema.columns})
                f = law.f_of(row, np.array([draw]))[0, 0]
                anchor = 0.0 if member.difference == "none" else values[-member.back]
                values.append(anchor + f + sigma[draw] * noise[h, number])
            assert np.allclose(paths[number], member.outcome(np.array(values[-horizon:]) * scale), rtol=1e-9)


@pytest.mark.parametrize("value", [1e9, pytest.param(np.nan, marks=pytest.mark.slow)])
def test_no_rehearsal_sees_what_comes_later(value):
    """Values after an origin, changed to other ones, change no bit of the rehearsals up to it."""
    rng = np.random.default_rng(1)
    history = history_of(*np.exp(0.1 * rng.normal(size=(2, 60)).cumsum(axis=1)), season=(4,))

    def rehearsed(of):
        settings = {**DEFAULTS, **SMALL, "num_trees": 5, "seed": 0, "family": "gaussian"}
        return rehearse(of, lambda before: fit_members(before, settings), 0, None)

    plain = rehearsed(history)
    origin = plain.origins[4]
    y = history.y.copy()
    y[:, origin + 1 : -1] = value
    changed = rehearsed(replace(history, y=y))
    assert changed.origins == plain.origins
    for name in ("steps", "totals", "together"):
        before, after = getattr(plain, name).quantiles, getattr(changed, name).quantiles
        assert np.array_equal(before[:, :5], after[:, :5])
        assert np.isnan(value) or not np.array_equal(before[:, 5:], after[:, 5:])
