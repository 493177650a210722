"""Fits that are interrupted, extended, or have their first draws discarded."""

import _thread
import signal
import threading
import time

import numpy as np
import pytest

import sampler
from sampler import DataError, DataWarning, SettingsError, fit
from sampler.posterior.untrusted import read_contents
from tests.support import fit_digests
from tests.support.friedman import friedman

pytestmark = pytest.mark.usefixtures("all_kernels")

SHORT = {"num_trees": 20, "num_chains": 2, "num_burnin": 50, "num_draws": 25, "thin": 1, "progress": False}


def interrupt_when(ready):
    """Send SIGINT to the main thread once `ready` returns true."""
    signal.signal(signal.SIGINT, signal.default_int_handler)  # the parent process may have ignored it

    def press():
        while not ready():
            time.sleep(0.02)
        _thread.interrupt_main()

    thread = threading.Thread(target=press)
    thread.start()
    return thread


@pytest.mark.slow
def test_interrupted_fit_keeps_what_was_drawn():
    """Ctrl-C returns a posterior with the draws made so far."""
    X, _, y = friedman(200, 1)
    start = time.monotonic()
    settings = SHORT | {"num_chains": 2, "num_burnin": 0, "num_draws": 1_000_000}
    thread = interrupt_when(lambda: time.monotonic() - start > 1.5)
    with pytest.warns(DataWarning, match="interrupted"):
        posterior = fit(X, y, **settings)
    thread.join()
    assert 10 < posterior.num_draws < 1_000_000
    assert f"2 chains of {posterior.num_draws} draws kept" in posterior.warnings[-1]
    assert len(posterior.predict(X).mean) == 200


def test_interrupted_before_the_first_draw():
    """Ctrl-C during burn-in raises KeyboardInterrupt."""
    X, _, y = friedman(200, 1)
    start = time.monotonic()
    thread = interrupt_when(lambda: time.monotonic() - start > 1)
    with pytest.raises(KeyboardInterrupt):
        fit(X, y, **SHORT | {"num_burnin": 1_000_000})
    thread.join()


def test_extended_is_a_longer_fit():
    """Extended chains give the file of one longer fit, bit for bit, however often they stopped."""
    X, _, y = friedman(80, 1)
    for more in ({}, {"family": "probit"}):
        outcome = y > np.median(y) if more else y
        first = fit(X, outcome, **SHORT | more)
        longer = fit(X, outcome, **SHORT | more | {"num_draws": 60})
        extended = first.extend(10, progress=False).extend(25, progress=False)
        assert extended.to_bytes() == longer.to_bytes()
        assert first.num_draws == 25


QUICK = (
    *("bart", "bart-weights", "bart-pg", "bart-trees-pinball", "probit", "times", "noise-forest"),
    *("noise-t-forest", "noise-mixture", "hurdle", "groups", "group-slopes", "classes-with-lines", "ordered"),
    *("treatment", "arms-counts", "dose", "level-sets", "monotone", "counts-dispersed", "bcart", "rjhmc-df"),
    *("several-noise", "several-own-columns", "several-mixed"),
)
REST = [name for name in fit_digests.GOING_ON if name not in QUICK]


@pytest.mark.parametrize("case", [*QUICK, *(pytest.param(each, marks=pytest.mark.slow) for each in REST)])
@pytest.mark.sampled(quick=len(QUICK), slow=20)
def test_every_kind_goes_on_as_one_longer_fit(case, tmp_path):
    """It has that fit's bytes, extended in memory or loaded with its rows given again."""
    outcome, weighted, settings = fit_digests.CASES[case]
    X, y, weights = fit_digests.data(outcome)
    X |= {role: settings[role] for role in ("treatment", "exposure") if role in settings}
    X |= {"event": np.arange(len(weights)) % 3 > 0} if outcome == "time" else {}
    posterior = fit_digests.fitted(case)
    longer = fit_digests.fitted(case, num_draws=settings["num_draws"] + 3).to_bytes()
    assert posterior.extend(3, progress=False).to_bytes() == longer
    loaded = fit_digests.loaded(case, posterior, tmp_path)
    assert loaded.extend(3, X, y, weights if weighted else None, progress=False).to_bytes() == longer
    contents = read_contents(posterior.to_bytes())
    assert contents.posterior.settings == posterior.settings


@pytest.mark.parametrize("more", [{}, {"family": "probit"}, {"method": "bcart"}], ids=str)
def test_without_its_first_draws(tmp_path, more):
    """A posterior without its first draws answers by the others, and its chains go on where they were."""
    X, _, y = friedman(80, 1)
    y = y > np.median(y) if "family" in more else y
    posterior = fit(X, y, **SHORT | more | ({"num_trees": 1} if "method" in more else {}))
    later = posterior.discard(10)
    assert (later.num_draws, later.settings["num_draws"], later.settings["discarded"]) == (15, 15, 10)
    assert "discarded" not in posterior.settings
    assert np.array_equal(later.sample(X), posterior.sample(X)[:, 10:])
    assert later.chains() == [chain[10:] for chain in posterior.chains()]
    assert later.discard(3).to_bytes() == posterior.discard(13).to_bytes()
    assert posterior.discard(0).to_bytes() == posterior.to_bytes()

    longer = posterior.extend(10, progress=False).discard(10)
    assert later.extend(10, progress=False).to_bytes() == longer.to_bytes()
    later.save(tmp_path / "model")
    loaded = sampler.load(tmp_path / "model")
    assert loaded.extend(10, X, y, progress=False).to_bytes() == longer.to_bytes()
    assert read_contents(later.to_bytes()).posterior.settings == later.settings


def test_which_draws_cannot_be_discarded():
    """At least one draw is left, and those of a particle filter have no order."""
    X, _, y = friedman(60, 1)
    posterior = fit(X, y, **SHORT)
    for number in (-1, 25, 2.5, "all"):
        with pytest.raises(SettingsError, match="from 0 to 24, since one draw has to be left"):
            posterior.discard(number)
    particles = fit(X, y, method="smc", num_chains=1, num_draws=50, progress=False)
    with pytest.raises(SettingsError, match="method smc makes all its draws at once"):
        particles.discard(5)


def test_what_cannot_be_extended(tmp_path):
    """Extension without the rows or weights of the fit, or by an invalid number, is refused with advice."""
    X, _, y = friedman(60, 1)
    posterior = fit(X, y, **SHORT)
    posterior.save(tmp_path / "model")
    loaded = sampler.load(tmp_path / "model")
    with pytest.raises(SettingsError, match=r"give them again, as in load\(path\).extend\(500, X, y\)"):
        loaded.extend(10)
    for rows in ((X[::-1], y[::-1]), (X, y + 1), (X[:50], y[:50])):
        with pytest.raises(DataError, match="the rows of the fit, in the same order"):
            loaded.extend(10, *rows, progress=False)
    with pytest.raises(DataError, match="without weights: leave them out"):
        loaded.extend(10, X, y, np.ones(60))
    served = sampler.Posterior.from_blocks(posterior.header.to_bytes(), posterior.law.draws.blocks)
    with pytest.raises(SettingsError, match="fit again with more draws"):
        served.extend(10, X, y)
    for number in (0, -1, 2.5, "many", 10**7):
        with pytest.raises(SettingsError):
            posterior.extend(number)


@pytest.mark.slow
def test_interrupted_and_extended():
    """Chains interrupted by Ctrl-C are extended to the draws of an uninterrupted fit."""
    X, _, y = friedman(200, 1)
    start = time.monotonic()
    settings = SHORT | {"num_burnin": 0}
    thread = interrupt_when(lambda: time.monotonic() - start > 1)
    with pytest.warns(DataWarning, match="interrupted"):
        posterior = fit(X, y, **settings | {"num_draws": 1_000_000})
    thread.join()
    extended = posterior.extend(7, progress=False)
    assert extended.num_draws == posterior.num_draws + 7
    whole = fit(X, y, **settings | {"num_draws": extended.num_draws})
    np.testing.assert_array_equal(extended.sigma, whole.sigma)
    np.testing.assert_array_equal(extended.sample(X[:5]), whole.sample(X[:5]))
