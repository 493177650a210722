"""Chains of several forests, leaf models chosen at compile time, weights that change."""

from functools import partial
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import pytest
from numba import njit

from sampler.bart.chain import Chain
from sampler.bart.checkpoint import read_checkpoint, write_checkpoint
from sampler.bart.families import gaussian
from sampler.bart.kernels.leaf_models.normal import Normal
from sampler.bart.kernels.leaf_models.operations import log_evidence as evidence_of_a_leaf
from sampler.bart.state import ForestPlan
from sampler.errors import PackedError
from sampler.kernels.arrays import Float, Floats, Model, signature_of
from sampler.kernels.jit import Kernel
from sampler.storage.draw_codec import pack, sizes, unpack
from sampler.storage.draws import concatenate
from tests.support.chain_driver import check_resuming
from tests.unit.bart.test_chain import training

KINDS = [{}, {"weighted": True}, {"family": "probit"}, {"moves": "cgm"}]


def split(data, first, leaf_sd=1.0):
    """Split a problem's forest in two, the first with `first` trees; scale the second's leaves."""
    constants, settings = data.constants, data.settings
    shared = constants.alpha, constants.beta
    return (
        ForestPlan("mean", first, *shared, constants.leaf_sd, settings.moves),
        ForestPlan("more", settings.num_trees - first, *shared, leaf_sd * constants.leaf_sd, settings.moves),
    )


@pytest.fixture
def two_forests(monkeypatch):
    """Make all further chains have two forests."""

    def use(**options):
        monkeypatch.setattr(gaussian, "plan_forests", partial(split, **options))

    return use


def trees_of(draws):
    """Return every tree's nodes, [draw][tree]."""
    nodes = np.stack([draws.feature, draws.cut, draws.missing_left, draws.leaf], axis=1).tolist()
    ends = draws.tree_start.tolist()
    flat = [nodes[a:b] for a, b in pairwise(ends)]
    return [flat[k * draws.num_trees :][: draws.num_trees] for k in range(draws.num_draws)]


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_two_forests_of_one_prior_are_one_forest(two_forests, kind):
    """Two forests of one prior on one residual equal one forest of all their trees, bit for bit."""
    data = training(**kind, prior={"k": 2.0})
    one = Chain.start(data, 0)
    one.run(10**6)
    two_forests(first=5)
    two = Chain.start(data, 0)
    two.run(10**6)
    expected, draws = one.take(), two.take()
    assert list(draws.forests) == ["more"]
    np.testing.assert_array_equal(draws.sigma, expected.sigma)
    both = [a + b for a, b in zip(trees_of(draws), trees_of(draws.forests["more"]), strict=True)]
    assert both == trees_of(expected)
    np.testing.assert_array_equal(two.residual(), one.residual())
    assert two.statistics() == one.statistics()
    assert two.leaf_counts.tolist() == one.leaf_counts.tolist()


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_two_forests_resume_exactly(two_forests, kind):
    """Forests of different priors resume exactly, and their blocks restore every part."""
    data = training(**kind)
    two_forests(first=3, leaf_sd=0.2)
    expected = check_resuming(data, chain=1, run=lambda chain: chain.run(1 + chain.iteration % 4))
    joined = concatenate([unpack(pack(part)) for part in (expected[:1], expected[1:7], expected[7:])])
    assert joined == expected
    assert joined[2:5].forests["more"] == expected.forests["more"][2:5]
    assert joined != concatenate([expected[:1]] * expected.num_draws)
    if data.settings.family == "gaussian":
        leaves = [np.abs(d.leaf).mean() for d in (expected, expected.forests["more"])]
        assert leaves[1] < 0.5 * leaves[0]


def test_scalars_are_kept_and_resumed(monkeypatch):
    """A scalar that a family adds is kept beside sigma in draws, blocks and checkpoints."""
    data = training()
    monkeypatch.setattr(gaussian, "name_scalars", lambda _training: ("sigma", "nu"))
    chain = Chain.start(data, 0)
    chain._likelihood.scalars[1] = 4.5
    chain.run(12)
    again = Chain.resume(data, chain.checkpoint())
    assert again._likelihood.scalars[1] == 4.5
    again.run(10)
    draws = again.take()
    assert draws.scalars["nu"].tolist() == [4.5] * draws.num_draws
    assert unpack(pack(draws)) == draws
    assert sizes(pack(draws)) == (draws.num_draws, draws.num_trees, draws.num_nodes)


def test_damaged_blocks_of_forests_are_refused(two_forests):
    """A block truncated or with a flipped bit at any place is refused."""
    two_forests(first=5)
    chain = Chain.start(training(num_trees=7), 0)
    chain.run(10**6)
    block = pack(chain.take())
    assert sizes(block)[1] == 7
    for at in range(0, len(block), 97):
        with pytest.raises(PackedError):
            unpack(block[:at])
        with pytest.raises(PackedError):
            unpack(block[:at] + bytes([block[at] ^ 4]) + block[at + 1 :])


def test_weights_may_change_between_sweeps():
    """A chain whose weights are replaced continues like one that had the new weights from the start."""
    shared = {"offset": 0.0, "leaf_sd": 0.3, "lambda": 0.1, "sigma_start": 0.5, "step": 2.0**-18}
    data, other = training(weighted=True, prior=shared), training(weighted=True, prior=shared)
    other.weights[:] = np.where(data.weights > 0, 4.0 - data.weights, 0.0)
    chain = Chain.start(data, 0)
    chain.run(9)
    numbers, body = read_checkpoint(chain.checkpoint(), data)
    expected = Chain.resume(other, write_checkpoint(other, numbers, body))
    chain.take()
    chain.reweigh(other.grid_weights, other.weight_unit)
    assert chain.run(20) == expected.run(20) == 20
    assert chain.take() == expected.take()
    assert np.any(chain._models[0].weights != data.grid_weights)


class Doubled(NamedTuple):
    """A leaf model defined by the test."""

    scale: Floats


def log_evidence(model, size, total):
    """Return a value that differs from the normal leaf model's."""
    return 2.0 * model.scale[0] * size + total


def ask(model: Model, size: Float, total: Float) -> Float:
    """Return the evidence of the leaf model given at compile time."""
    return evidence_of_a_leaf(model, size, total)


def test_a_kernel_is_compiled_for_each_leaf_model():
    """One kernel source gives the evidence of whichever leaf model it is compiled for."""
    entry = Kernel("ask", njit(ask), partial(signature_of, ask), pointer=False)
    entry.build(Doubled)
    entry.build(Normal)
    assert len(entry.function.signatures) == 2
    assert entry.function(Doubled(np.array([5.0])), 3.0, 1.0) == 31.0
    none = np.zeros(0, np.int32)
    noise = np.array([900.0, 1.0, 1.0])
    normal = Normal(np.array([250.0]), noise, none, none, np.zeros(2, np.int64), np.zeros(0, np.int64))
    spread = 900.0 + 3.0 * 250.0
    expected = 0.5 * np.log(900.0 / spread) + 250.0 / (2 * 900.0 * spread)
    assert entry.function(normal, 3.0, 1.0) == pytest.approx(expected, rel=1e-14)
