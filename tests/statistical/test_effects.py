"""Effects of treatments against the exact law of enumerated problems, and Geweke's test."""

from dataclasses import replace

import numpy as np
import pytest

from sampler.training import EffectPrior
from tests.support.chain_driver import check_resuming, draws_of, fits, of_toy
from tests.support.reports.p_values import chi_square, holds, mean_is
from tests.support.toy_problems import golden

TREATED = np.array([1, 0, 1, 0, 1])
Y_A = np.array([0.3, -0.4, 0.1, 0.45, -0.2])
Y_B = Y_A + TREATED * np.array([0.5, 0.2, 0.9, 0.2, 0.4])
THIN, SHORT = 10, 5_000

# by enumeration of both trees: the outcome, alpha and beta of the effect's tree, whether its scale is drawn,
# the posterior mean effect of each row and the probabilities of 1, 2, .. leaves of its tree
EXACT = {
    "shallow": (
        Y_A,
        (0.25, 3.0),
        False,
        (0.01082928, 0.01675185, -0.00618916, -0.02469933, -0.01678073),
        (0.70625197, 0.27980837, 0.01369101, 0.00024711, 0.00000156),
    ),
    "large effect": (
        Y_B,
        (0.25, 3.0),
        False,
        (0.21113833, 0.20788166, 0.21454682, 0.19140611, 0.17249385),
        (0.75176905, 0.23792737, 0.01014351, 0.00015913, 0.00000094),
    ),
    "drawn scale": (
        Y_B,
        (0.25, 3.0),
        True,
        (0.558091, 0.555336, 0.556106, 0.265792, 0.240512),
        None,
    ),
}
LOG_SCALE, SCALE = -0.857387, 0.529077  # of "drawn scale"


def problem(y, splits, num_draws, *, drawn=False, moves="default", **more):
    """Return one tree for the mean and one for the effect, whose leaves have variance .04."""
    data = of_toy(
        replace(golden(leaf_variance=0.0625), y=y), num_trees=1, num_draws=num_draws, num_burnin=500,
        thin=THIN, moves=moves, seed=5, **more,
    )  # fmt: skip
    alpha, beta = splits
    prior = EffectPrior(3, (), 0.5, 0.2, num_trees=1, alpha=alpha, beta=beta, drawn=drawn)
    return replace(data, effect=prior, by_role={"treatment": TREATED.astype(float)})


def effects_of(draws, data):
    """Return the effect of each draw at the rows, [draw, row]."""
    codes, constants = data.codes, replace(data.constants, offset=0.0)
    return 2 * fits(draws.forests["effect"], codes, constants)


@pytest.mark.parametrize("moves", ["default", "growprune"])
@pytest.mark.parametrize("name", EXACT)
def test_exact(name, moves):
    """Draws have the mean effects, sizes of trees and scale that enumeration gives."""
    y, splits, drawn, effects, leaves = EXACT[name]
    data = problem(y, splits, SHORT, drawn=drawn, moves=moves)
    draws = draws_of(data)
    holds(mean_is(effects_of(draws, data), np.array(effects)))
    if leaves is not None:
        counts = np.bincount(draws.forests["effect"].leaf_counts[:, 0], minlength=6)[1:6]
        holds(chi_square(counts, np.array(leaves)).p)
    if drawn:
        scale = draws.scalars["effect_sd"]
        holds(mean_is(np.stack([np.log(scale), scale], axis=1), np.array([LOG_SCALE, SCALE])))


def test_resumes():
    """A chain resumed from any checkpoint is the whole one, bit for bit."""
    check_resuming(problem(Y_B, (0.9, 1.0), 20, drawn=True))
