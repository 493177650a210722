"""Bitwise invariance: scale of y, monotone features, row order, interrupted runs, other processes."""

import hashlib
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest

from sampler.bart.chain import Chain
from sampler.preparation import prepare
from sampler.storage.draw_codec import pack
from sampler.storage.draws import concatenate
from tests.support.chain_driver import check_resuming, draws_of, fits, move_sets, tree_keys
from tests.support.chain_driver import wide_training as wide

MIXED = {"pg": 0.02, "grow": 0.49, "prune": 0.49}  # particles copy their rows: slow on wide trees
RESTRUCTURED = {"grow": 0.4, "prune": 0.3, "restructure": 0.3, "rule": 0.2}
SETTINGS = {"num_trees": 12, "num_chains": 2, "num_burnin": 60, "num_draws": 25, "thin": 4, "seed": 3}


def mixed_table(num_rows=230, missing=0.1, seed=5):
    """Return a table with missing values, an indicator and five levels; its rows fill no whole registers."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(size=(num_rows, 6))
    y = (
        10 * np.sin(np.pi * X[:, 0] * X[:, 1])
        + 20 * (X[:, 2] - 0.5) ** 2
        + 5 * X[:, 3]
        + rng.normal(size=num_rows)
    )
    X[:, 4] = rng.integers(0, 2, num_rows)
    X[:, 5] = rng.integers(0, 5, num_rows)
    X[rng.uniform(size=X.shape) < missing] = np.nan
    return X, y


def prepared(moves="default", X=None, y=None, **changes):
    """Return training data prepared as by a fit."""
    table, outcome = mixed_table()
    X, y = (table if X is None else X), (outcome if y is None else y)
    return prepare(X, y, moves=moves, **{**SETTINGS, **changes}).training


@pytest.mark.parametrize("moves", move_sets())
@pytest.mark.parametrize("power", [-20, -3, 1, 30])
@pytest.mark.sampled(quick=1, slow=5)
def test_scale_of_y(moves, power):
    """y times a power of two gives the same trees and grid values; offset, step and sigma scale exactly."""
    X, y = mixed_table()
    scale = 2.0**power
    one, other = prepared(moves), prepared(moves, X, y * scale)
    a, b = draws_of(one), draws_of(other)
    assert replace(b, sigma=a.sigma) == a
    np.testing.assert_array_equal(b.sigma, a.sigma * scale)
    assert other.constants.step == one.constants.step * scale
    assert other.constants.offset == one.constants.offset * scale


@pytest.mark.parametrize("power", [-60, 0, 60])
@pytest.mark.parametrize("weight_power", [-60, -59, 59, 60])
@pytest.mark.sampled(quick=1, slow=4)
def test_scale_of_weights(power, weight_power):
    """y and weights times powers of two give the same trees and grid values.

    Sigma, of a row of weight 1, is scaled by the one and the square root of the other: exactly, but for the
    last bits where that root is no power of two.
    """
    _, y = mixed_table()
    w = np.random.default_rng(2).uniform(0.3, 4.0, len(y))
    one, other = (prepared(y=y * 2.0**k, weights=w * 2.0**j) for k, j in [(0, 0), (power, weight_power)])
    a, b = draws_of(one), draws_of(other)
    assert replace(b, sigma=a.sigma) == a
    tolerance = 1e-13 if weight_power % 2 else 0
    np.testing.assert_allclose(b.sigma, a.sigma * 2.0**power * 2.0 ** (weight_power / 2), rtol=tolerance)
    assert other.constants.step == one.constants.step * 2.0**power


def test_scale_of_weights_beside_a_line():
    """With a linear part too, y and weights times powers of two give the same trees and scaled slopes."""
    _, y = mixed_table()
    w = np.random.default_rng(2).uniform(0.3, 4.0, len(y))
    one, other = (
        draws_of(prepared(y=y * 2.0**k, weights=w * 2.0**j, linear=True)) for k, j in [(0, 0), (-60, 60)]
    )
    assert replace(other, sigma=one.sigma, scalars=one.scalars) == one
    assert {"slope_sd", "slope_0"} <= set(one.scalars)
    for name, values in one.scalars.items():
        np.testing.assert_array_equal(other.scalars[name], values * 2.0**-60)


def test_shift_of_y():
    """y plus a constant on the grid gives the same trees; only the offset changes."""
    X, y = mixed_table()
    y = np.round(y * 2**10) / 2**10
    one, other = prepared("default", X, y), prepared("default", X, y + 64.0)
    assert other.constants.offset == one.constants.offset + 64.0
    assert draws_of(one) == draws_of(other)


@pytest.mark.parametrize("moves", move_sets())
def test_monotone_features(moves):
    """Increasing functions of features with quantile cuts give equal draws."""
    X, _ = mixed_table()
    transformed = X.copy()
    transformed[:, 0] = np.exp(5 * X[:, 0])
    transformed[:, 1] = 1e6 + 3 * X[:, 1]
    transformed[:, 2] = np.sign(X[:, 2] - 0.4) * np.abs(X[:, 2] - 0.4) ** 3
    transformed[:, 3] = -1e-9 / (0.01 + X[:, 3])
    prior = {"sigma_estimate": "naive"}  # the linear estimate depends on the scale of the features
    one, other = prepared(moves, prior=prior), prepared(moves, transformed, prior=prior)
    np.testing.assert_array_equal(one.codes, other.codes)
    assert draws_of(one) == draws_of(other)


def test_constant_column():
    """A constant column is never split on and changes no law: f agrees between the two fits."""
    X, y = mixed_table()
    with_constant = np.column_stack([X, np.full(len(y), 7.0)])
    data = prepared(X=with_constant)
    draws = draws_of(data)
    assert not np.any(draws.feature == data.codes.shape[0] - 1) or data.num_codes[-1] > 1


@pytest.mark.parametrize("moves", move_sets())
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.sampled(quick=1, slow=4)
def test_permuted_rows(moves, weighted):
    """Reordered rows give equal draws, since sums are exact."""
    one = prepared(moves)
    if weighted:
        one = replace(one, weights=np.random.default_rng(2).uniform(0.3, 4.0, len(one.y)))
    order = np.random.default_rng(0).permutation(len(one.y))
    weights = one.weights[order] if weighted else None
    other = replace(one, codes=np.ascontiguousarray(one.codes[:, order]), y=one.y[order], weights=weights)
    assert draws_of(one) == draws_of(other)


@pytest.mark.parametrize("moves", move_sets())
def test_stopped_anywhere(moves):
    """Runs stopped anywhere, saved, loaded and continued have the bytes of one run."""
    data = prepared(moves)
    whole = Chain.start(data, 1)
    whole.run(whole.iterations)
    end = whole.checkpoint()
    rng, parts = np.random.default_rng(1), []
    chain = Chain.start(data, 1)
    while not chain.done:
        chain.run(int(rng.integers(1, 12)))
        if rng.random() < 0.5:
            parts.append(chain.take())
        if rng.random() < 0.5:
            draws = chain.take()
            parts.append(draws)
            chain = Chain.resume(data, chain.checkpoint())
    parts.append(chain.take())
    assert concatenate([part for part in parts if part is not None]) == whole.take()
    assert chain.checkpoint() == end
    assert chain.statistics() == whole.statistics()


def test_stopped_anywhere_wide():
    """Interrupted runs are equal for trees whose leaf numbers exceed a byte."""
    draws = check_resuming(wide(), run=lambda chain: chain.run(777))
    assert draws[draws.num_draws - 1 :].leaf_counts.max() > 256, "the problem no longer grows wide trees"


@pytest.mark.parametrize("moves", [*move_sets(), RESTRUCTURED], ids=str)
def test_residual_is_exact(moves):
    """The running residual equals y minus recomputed trees; row slots and counts equal a fresh routing."""
    check_residual(prepared(moves), 20)


@pytest.mark.parametrize(
    "moves",
    [
        *(name for name in move_sets() if name != "pg"),
        pytest.param(MIXED, marks=pytest.mark.long),
        pytest.param(RESTRUCTURED, marks=pytest.mark.long),  # hundreds of leaves: half a minute
    ],
    ids=str,
)
def test_residual_is_exact_wide(moves):
    """The residual is exact for trees beyond 256 leaves, grown and shrunk by every move."""
    assert check_residual(wide(moves), 5) > 256, "the problem no longer grows wide trees"


def check_residual(data, looks):
    """Compare the running state with a resumed chain's and plain Python; return the most leaves."""
    chain = Chain.start(data, 0)
    for _ in range(looks):
        chain.run(chain.iterations // looks)
        fresh = Chain.resume(data, chain.checkpoint())
        np.testing.assert_array_equal(chain.residual(), fresh.residual())
        np.testing.assert_array_equal(chain._forests[0].slots, fresh._forests[0].slots)
        for tree, leaves in enumerate(chain._forests[0].num_leaves):
            np.testing.assert_array_equal(
                chain._forests[0].count[tree, :leaves], fresh._forests[0].count[tree, :leaves]
            )
    draws = chain.take()
    f = fits(draws[draws.num_draws - 1 :], data.codes, data.constants)[0]
    running = data.constants.offset + data.constants.step * (data.grid_y - chain.residual())
    np.testing.assert_allclose(f, running, rtol=0, atol=1e-9 * data.constants.step)
    return chain._forests[0].num_leaves.max()


def test_chains_do_not_depend_on_their_number():
    """Chain c of 2 equals chain c of 8; different chains and seeds differ."""
    two, eight = prepared(), prepared(num_chains=8)
    assert draws_of(two, 1) == draws_of(eight, 1)
    assert draws_of(two, 0) != draws_of(two, 1)
    assert draws_of(two, 0) != draws_of(prepared(seed=4), 0)


def digest(every=None):
    """Return a hash of the packed draws of every move set; resume chains after that many iterations."""
    check = hashlib.sha256()
    for moves in move_sets():
        data, parts = prepared(moves), []
        chain = Chain.start(data, 1)
        while not chain.done:
            chain.run(every or chain.iterations)
            parts.append(chain.take())
            chain = Chain.resume(data, chain.checkpoint())
        check.update(pack(concatenate([part for part in parts if part is not None])))
    return check.hexdigest()


@pytest.mark.slow
def test_other_process():
    """A seed gives equal bytes in another process, stopped and resumed after every iteration."""
    code = "from tests.statistical.test_invariance import digest; print(digest(1))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == digest()


def test_move_order_of_dictionaries():
    """The order of a dict of moves doesn't change the chain."""
    one = prepared({"grow": 0.4, "prune": 0.6})
    other = prepared({"prune": 0.6, "grow": 0.4})
    assert draws_of(one) == draws_of(other)


def test_draws_do_not_repeat():
    """Consecutive kept draws differ in trees and noise."""
    draws = draws_of(prepared())
    assert len(set(map(tuple, tree_keys(draws)))) == draws.num_draws
    assert len(np.unique(draws.sigma)) == draws.num_draws


@pytest.mark.parametrize("moves", move_sets())
@pytest.mark.parametrize("weight", [1.0, 4.0])
@pytest.mark.sampled(quick=1, slow=4)
def test_equal_weights(moves, weight):
    """Weights of one equal no weights; weights of four only double sigma, prior included."""
    plain = prepared(moves)
    constants = plain.constants
    scaled = replace(
        constants, lambda_=constants.lambda_ * weight, sigma_start=constants.sigma_start * weight**0.5
    )
    weighted = replace(plain, weights=np.full(len(plain.y), weight), constants=scaled)
    a, b = draws_of(plain), draws_of(weighted)
    np.testing.assert_allclose(b.sigma, a.sigma * weight**0.5, rtol=1e-12)
    assert replace(b, sigma=a.sigma) == a


@pytest.mark.parametrize("moves", move_sets())
def test_integer_weights_are_copies(moves):
    """A row of weight 3 equals three rows, bit for bit, with sigma known."""
    data = prepared(moves, prior={"sigma": 1.0})
    times = np.random.default_rng(3).integers(1, 4, len(data.y))
    copies = replace(data, codes=np.repeat(data.codes, times, axis=1), y=np.repeat(data.y, times))
    weighted = replace(data, weights=times.astype(float))
    a, b = draws_of(copies), draws_of(weighted)
    assert a == b
