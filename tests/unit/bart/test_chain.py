"""Chains: valid states, identical results after any interruption, helpful errors."""

import numpy as np
import pytest

from sampler.bart.chain import Chain
from sampler.bart.kernels.leaf_models.normal import LIKELIHOOD
from sampler.bart.prior import calibrate
from sampler.bart.state import make_kept
from sampler.errors import PackedError, SettingsError
from sampler.moves import MOVE_SETS
from sampler.prior import Constants
from sampler.settings import Settings
from sampler.training import Training
from tests.support.chain_driver import check_resuming
from tests.support.tree_checks import check_all

KINDS = {
    "plain": {},
    "weighted": {"weighted": True},
    "probit": {"family": "probit"},
    "deep": {"prior": {"alpha": 0.999, "beta": 0.02, "k": 0.02}, "num_trees": 2},
    "prior only": {"prior_only": True},
    "annealed": {"start": "annealed"},
}


def training(
    *, num_rows=130, moves="default", weighted=False, prior=None, family="gaussian", seed=3, **settings
):
    """Return a problem with gaps among codes, an indicator, a constant column, missing values and ties."""
    rng = np.random.default_rng(11)
    codes = np.stack([
        rng.integers(0, 60, num_rows), 4 * rng.integers(0, 4, num_rows), rng.integers(0, 2, num_rows),
        np.zeros(num_rows, int), np.full(num_rows, 255),
    ])  # fmt: skip
    codes[0, rng.random(num_rows) < 0.1] = 255
    codes[2, rng.random(num_rows) < 0.3] = 255
    y = np.sin(codes[0] / 9.0) + codes[2] % 3 + 0.3 * rng.normal(size=num_rows)
    if family == "probit":
        y = (y > np.median(y)).astype(float)
    weights = rng.choice([0.0, 0.5, 1.0, 3.0], num_rows) if weighted else None
    resolved = Settings.resolve(
        family=family, moves=moves, seed=seed,
        **({"num_trees": 12, "num_burnin": 7, "num_draws": 12, "thin": 3} | settings),
    )  # fmt: skip
    constants = calibrate(y, np.where(codes == 255, np.nan, codes), weights, resolved, prior or {})
    codes = codes.astype(np.uint8)
    return Training(codes, codes.max(1).astype(np.int64) + 1, y, weights, constants, resolved)


def cases():
    """Return every move set with every kind of problem."""
    return [pytest.param(m, k, id=f"{m}-{k}") for m in MOVE_SETS for k in KINDS]


@pytest.mark.parametrize(("moves", "kind"), cases())
@pytest.mark.sampled(quick=10, slow=20)
def test_every_state_is_valid(moves, kind):
    """Every registered check holds at every iteration, and the residual is exact."""
    data = training(moves=moves, **KINDS[kind])
    chain = Chain.start(data, 0)
    check_all(chain)
    while not chain.done:
        chain.run(1)
        check_all(chain)
    accepted = chain.statistics()["moves"]
    assert all(accepted[name]["proposed"] > 0 for name in data.settings.moves)
    assert sum(counts["accepted"] for counts in accepted.values()) > 0


@pytest.mark.parametrize(("moves", "kind"), cases())
@pytest.mark.sampled(quick=10, slow=20)
def test_resuming_is_exact(moves, kind):
    """A chain saved and resumed after any iteration has the draws and final state of one run."""
    data = training(moves=moves, **KINDS[kind])
    check_resuming(data, chain=1, run=lambda chain: chain.run(1 + chain.iteration % 3))


def test_annealing_ends_with_half_the_burn_in():
    """The likelihood's exponent grows each iteration and reaches one at half the burn-in."""
    chain = Chain.start(training(start="annealed", num_burnin=8), 0)
    powers = []
    for _ in range(8):
        chain.run(1)
        powers.append(chain._noise[LIKELIHOOD])
    assert powers[0] == pytest.approx(0.02)
    assert powers == sorted(powers)
    assert powers[3] < 1
    assert powers[4:] == [1.0] * 4
    plain = Chain.start(training(num_burnin=8), 0)
    plain.run(1)
    assert plain._noise[LIKELIHOOD] == 1.0


def test_the_buffer_of_draws_never_shrinks():
    """The buffer for draws never shrinks when trees do: no kept draw is lost."""
    data = training(num_trees=1, moves="growprune")
    whole, chain = Chain.start(data, 0), Chain.start(data, 0)
    whole.run(whole.iterations)
    chain.run(10)
    (before,) = chain._kept
    draws, nodes = before.fill
    chain._kept = [kept := make_kept(draws, 5000, 1)]  # full, with more room than the next draw needs
    kept.fill[:] = draws, nodes
    for name, count in {"scalars": draws, "tree_start": draws + 1, "feature": nodes, "leaf": nodes}.items():
        getattr(kept, name)[:count] = getattr(before, name)[:count]
    for name in ("cut", "missing_left"):
        getattr(kept, name)[:nodes] = getattr(before, name)[:nodes]
    chain.run(chain.iterations)
    assert chain.take() == whole.take()


def test_more_leaves_than_a_byte_numbers():
    """A tree with more than 256 leaves stays valid and resumes exactly."""
    data = training(
        num_rows=900, num_trees=1, num_burnin=0, num_draws=300, thin=4,
        prior={"alpha": 0.9999, "beta": 0.001, "leaf_sd": 5.0, "sigma": 0.01},
    )  # fmt: skip
    chain = Chain.start(data, 0)
    chain.run(900)
    assert chain.leaf_counts.max() > 256, "the problem no longer grows a wide tree"
    check_all(chain)
    again = Chain.resume(data, chain.checkpoint())
    chain.run(50)
    again.run(50)
    check_all(again)
    assert again.checkpoint() == chain.checkpoint()


@pytest.mark.parametrize("kind", KINDS)
def test_counting_rows_is_looking_at_them(kind):
    """More rows than are ever equal differ, so that draws are those of chains that look at the rows."""
    data, looking = (training(num_rows=400, **KINDS[kind]) for _ in range(2))
    largest = np.unique(data.codes.T, axis=0, return_counts=True)[1].max()
    assert 1 < data.most_equal == largest < 40
    looking.__dict__["most_equal"] = 400
    chains = [Chain.start(each, 0) for each in (data, looking)]
    assert [chain.run(10**6) for chain in chains] == [data.settings.iterations] * 2
    assert chains[0].checkpoint() == chains[1].checkpoint()


def test_seed_and_chain_decide_the_bytes():
    """Equal seed and chain number give equal draws, however many chains; others differ."""

    def draws(seed, chain, num_chains):
        running = Chain.start(training(seed=seed, num_chains=num_chains), chain)
        running.run(10**6)
        return running.take()

    first = draws(3, 0, 1)
    assert draws(3, 0, 4) == first
    assert draws(4, 0, 1) != first
    assert draws(3, 1, 1) != first


def test_progress_is_reported():
    """Reported phase, iteration, kept draws and done follow the iterations."""
    chain = Chain.start(training(), 0)
    assert (chain.phase, chain.done, chain.num_kept, chain.take()) == ("burn_in", False, 0, None)
    assert chain.run(7) == 7
    assert (chain.phase, chain.iteration, chain.num_kept) == ("sampling", 7, 0)
    assert chain.run(8) == 8
    assert chain.num_kept == 2
    assert chain.take().num_draws == 2
    assert chain.run(1000) == chain.iterations - 15
    assert chain.done
    assert chain.run(5) == 0
    assert chain.num_kept == 12


def test_damaged_checkpoints_are_refused():
    """A checkpoint that is damaged, truncated or of other data is refused."""
    data = training()
    saved = Chain.start(data, 0).checkpoint()
    for broken in (b"", saved[:10], saved[:-1], saved[:60] + bytes([saved[60] ^ 1]) + saved[61:]):
        with pytest.raises(PackedError):
            Chain.resume(data, broken)
    with pytest.raises(PackedError, match="other data"):
        Chain.resume(training(num_rows=131), saved)


@pytest.mark.parametrize(
    "other",
    [
        {"moves": "cgm"}, {"moves": {"grow": 0.6, "prune": 0.4, "rule": 1.0}}, {"prior_only": True},
        {"num_burnin": 8}, {"thin": 4}, {"seed": 4}, {"num_trees": 13}, {"prior": {"k": 3.0}},
    ],
)  # fmt: skip
def test_checkpoints_of_other_settings_are_refused(other):
    """A checkpoint resumes only under the settings it was taken with."""
    chain = Chain.start(training(), 0)
    chain.run(11)
    with pytest.raises(PackedError, match="other data or settings"):
        Chain.resume(training(**other), chain.checkpoint())


def test_more_draws_and_chains_are_the_same_training():
    """Checkpoints also fit settings with more draws or chains, or with moves listed in another order."""
    chain = Chain.start(training(moves={"grow": 0.5, "prune": 0.5, "rule": 1.0}), 0)
    chain.run(11)
    same = {"rule": 1.0, "prune": 0.5, "grow": 0.5}
    longer = Chain.resume(training(moves=same, num_draws=40, num_chains=2), chain.checkpoint())
    longer.run(3)
    chain.run(3)
    np.testing.assert_array_equal(chain.residual(), longer.residual())


def test_constants_and_settings_survive_json():
    """Constants and settings are restored from JSON exactly."""
    data = training()
    assert Constants.from_json(data.constants.to_json()) == data.constants
    assert Settings.from_json(data.settings.to_json()) == data.settings


@pytest.mark.parametrize(
    ("prior", "says"),
    [
        ({"kk": 1}, "accepted are k, alpha"),
        ({"k": 0}, "prior k must be a number"),
        ({"alpha": 1.0}, "between 0 and 1"),
        ({"beta": -1}, "from 0 up"),
        ({"sigma_estimate": "robust"}, "linear, naive"),
    ],
)
def test_wrong_priors_say_what_is_accepted(prior, says):
    """The error of an invalid prior entry names it and the accepted values."""
    with pytest.raises(SettingsError, match=says):
        training(prior=prior)
