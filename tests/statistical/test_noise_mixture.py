"""Noise that is a mixture: Geweke's joint-distribution test."""

import numpy as np
import pytest

from sampler.bart.chain import Chain
from tests.support.chain_driver import f_of
from tests.support.joint_law import ENDLESS, keeps_joint_law
from tests.support.models.covering_models import Model
from tests.support.models.mixtures import draw_mixture, mixture_of, noise_of
from tests.support.reports.p_values import ALARM, all_above


def functions_of(model, f, parts, leaves):
    """Return the functions that are compared, at the training rows."""
    share, mean, sd = parts
    order = np.argsort(-share)
    middle = np.sum(share * mean)
    return {
        "largest share": share.max(),
        "shares squared": np.sum(share**2),
        "log sd of the largest": np.log(sd[order[0]]),
        "mean of the largest over its sd": mean[order[0]] / sd[order[0]],
        "that squared": (mean[order[0]] / sd[order[0]]) ** 2,
        "log sd of the second": np.log(sd[order[1]]),
        "log variance": np.log(np.sum(share * (sd**2 + (mean - middle) ** 2))),
        "mean": middle,
        "f at a row": f[0],
        "f at a row squared": (f[0] - model.offset) ** 2,
        "f x mean": (f[1] - model.offset) * mean[order[0]],
        "leaves": np.mean(leaves),
    }


def joint(rounds, draws):
    """Return the p-values of Geweke's test by function."""
    model = Model("mixture", num_rows=24, num_trees=3, missing=0.1)
    rng = np.random.default_rng(7)
    prior = []
    for _ in range(draws):
        trees, _ = model.draw(rng)
        leaves = [tree.num_leaves for tree in trees.trees]
        prior.append(functions_of(model, trees.f, draw_mixture(model, rng), leaves))
    y = model.outcome(np.zeros(model.num_rows), 1.0, rng)
    chain = Chain.start(model.training(y, **ENDLESS, noise="mixture", seed=3), 0)

    def observe(chain):
        f, parts = f_of(chain), mixture_of(chain)
        values = functions_of(model, f, parts, chain._forests[0].num_leaves)
        return values, f[: model.num_rows] + noise_of(parts, model.num_rows, rng)

    return keeps_joint_law(chain, prior, observe, rounds, left_out=12)


@pytest.mark.slow
def test_joint():
    """Outcomes given the state, a sweep, and so on: functions of the state keep their prior law."""
    all_above(joint(12_000, 5_000), ALARM)


@pytest.mark.long
def test_joint_long():
    """Geweke's test of a mixture with many more draws."""
    all_above(joint(96_000, 50_000), ALARM)
