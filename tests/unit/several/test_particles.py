"""Particle Gibbs beside several outcomes: an iteration done again for room, resuming, all the way."""

import numpy as np
import pytest

from sampler import fit, load, prepare
from sampler.bart import particle_gibbs
from sampler.bart.several.chain import SeveralChain

SHORT = {"num_trees": 4, "num_chains": 1, "num_burnin": 6, "num_draws": 6, "thin": 1}
ROWS = 60


def made(classes):
    """Return columns and two outcomes with holes, the second of two classes or a number."""
    rng = np.random.default_rng(4)
    X = {"u": rng.uniform(size=ROWS), "v": rng.uniform(size=ROWS)}
    errors = rng.multivariate_normal([0, 0], [[1, 0.9], [0.9, 1]], ROWS) * 0.1
    other = 3 * (X["v"] > 0.5) + errors[:, 1]
    Y = {"a": np.sin(12 * X["u"]) + errors[:, 0], "b": (other > 1.5).astype(float) if classes else other}
    Y["b"][:9] = np.nan
    return X, Y


@pytest.mark.parametrize("settings", [{"family": "auto"}, {"noise": "forest"}], ids=str)
def test_iterations_done_again_for_room_are_the_same(monkeypatch, settings):
    """A chain that finds no room for its particles, and one resumed in between, have the same draws."""
    data = prepare(
        *made("family" in settings), moves={"pg": 0.7, "grow": 0.2, "prune": 0.1}, **SHORT, **settings
    )
    data = data.training
    whole = SeveralChain.start(data, 0)
    whole.run(whole.iterations)
    monkeypatch.setattr(particle_gibbs, "FIRST_NODES", 2)
    chain = SeveralChain.start(data, 0)
    chain.run(4)
    assert chain.chains[0]._particles._swarm.node.shape[1] > 2  # it had no room
    chain = SeveralChain.resume(data, chain.checkpoint())
    chain.run(chain.iterations)
    assert chain.checkpoint() == whole.checkpoint()
    assert chain.take() == whole.take()


def test_all_the_way(tmp_path):
    """A fit by particles answers, is stored and goes on as one by other moves."""
    X, Y = made(classes=False)
    told = {"moves": "pg", "noise": "forest", "progress": False} | SHORT
    posterior = fit(X, Y, **told)
    assert np.corrcoef(posterior.predict(X).mean[9:, 1], Y["b"][9:])[0, 1] > 0.8
    assert posterior.statistics[0]["moves"]["pg"]["proposed"] > 0
    posterior.save(tmp_path / "fit.model")
    longer = fit(X, Y, **told | {"num_draws": 8})
    assert load(tmp_path / "fit.model").extend(2, X, Y, progress=False).to_bytes() == longer.to_bytes()
    assert fit(X, Y, recipe="pg-bart", progress=False, **SHORT).num_draws == 6
