"""Effects of treatments against the exact law of enumerated problems, and Geweke's test."""

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from scipy import stats

from sampler.bart.chain import Chain
from sampler.bart.families import count_arms, counts
from sampler.bart.kernels.state import VALUE
from sampler.training import EffectPrior
from tests.reference.enumerator import membership
from tests.reference.prior import draw_tree
from tests.support.chain_driver import check_resuming, draws_of, f_of, fits, of_toy, training
from tests.support.joint_law import ENDLESS, keeps_joint_law
from tests.support.models.covering_models import Model
from tests.support.reports.p_values import ALARM, all_above, chi_square, holds, mean_is
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
MEAN_OF_DEEP = -0.00153407  # the average effect for Y_A, where alpha is .95 and beta 1
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


def test_a_deep_tree_of_effects_is_exact():
    """An effect's tree as deep as the mean's has the average effect that enumeration gives."""
    data = problem(Y_A, (0.95, 1.0), SHORT)
    average = effects_of(draws_of(data), data).mean(axis=1)[:, None]
    holds(mean_is(average, np.array([MEAN_OF_DEEP])))


def test_resumes():
    """A chain resumed from any checkpoint is the whole one, bit for bit."""
    data = problem(Y_B, (0.9, 1.0), 20, drawn=True)
    check_resuming(replace(data, effect=replace(data.effect, mean_sd=0.5)))
    check_resuming(of_arms(20, drawn=True, mean_sd=0.5))


ARMS, OF_THREE = np.array([0, 1, 2, 1, 0]), -6.1090936731  # the log evidence of three arms, for Y_B


def exact_of_arms():
    """Enumerate the trees of the mean and of three arms; return log evidence and mean effects, [arm, row].

    An arm's tree matters to the outcomes only by how it divides the rows of the arm.
    """
    mean, arm = golden(leaf_variance=0.0625), golden(alpha=0.25, beta=3.0)
    of_arms = []
    for number in range(3):
        own, parts = number == ARMS, {}
        for tree, log_prior in zip(arm.trees, arm.log_prior, strict=True):
            gram = 0.04 * membership(arm, tree)[:, own]
            weight, total = parts.setdefault(gram[own].tobytes(), [0.0, np.zeros_like(gram)])
            parts[gram[own].tobytes()] = [weight + np.exp(log_prior), total + np.exp(log_prior) * gram]
        of_arms.append([(weight, total / weight, own) for weight, total in parts.values()])
    evidence, effects = 0.0, np.zeros((3, 5))
    for tree, log_prior in zip(mean.trees, mean.log_prior, strict=True):
        of_mean = 0.0625 * membership(mean, tree) + 0.05 * np.eye(5)
        for parts in product(*of_arms):
            law = of_mean.copy()
            for _, gram, own in parts:
                law[np.ix_(own, own)] += gram[own]
            here = np.exp(log_prior + stats.multivariate_normal(np.zeros(5), law).logpdf(Y_B))
            here *= np.prod([weight for weight, _, _ in parts])
            evidence += here
            solved = np.linalg.solve(law, Y_B)
            effects += here * np.array([gram @ solved[own] for _, gram, own in parts])
    return np.log(evidence), effects / evidence


def of_arms(num_draws, **prior):
    """Return one tree for the mean and one for each of three arms, whose leaves have variance .04."""
    data = problem(Y_B, (0.25, 3.0), num_draws)
    effect = replace(data.effect, parts=3, start=0.4, **prior)
    return replace(data, effect=effect, by_role={"treatment": ARMS.astype(float)})


def test_arms():
    """Draws of three arms have the mean differences between arms at all rows that enumeration gives."""
    evidence, exact = exact_of_arms()
    assert evidence == pytest.approx(OF_THREE, abs=1e-9)
    data = of_arms(SHORT)
    draws, constants = draws_of(data), replace(data.constants, offset=0.0)
    parts = [fits(draws.forests[f"effect {arm}"], data.codes, constants) for arm in range(3)]
    holds(mean_is(parts[1] - parts[0], exact[1] - exact[0]))
    holds(mean_is(parts[2] - parts[0], exact[2] - exact[0]))


def test_two_classes():
    """Effects on a probability have the tree and the mean risk difference that enumeration gives."""
    treated, labels = np.array([1.0, 0.0, 0.0]), np.array([1, 0, 1])
    data = training(
        np.array([[0, 1, 2]]), labels, family="probit", num_trees=1, num_draws=SHORT, num_burnin=500,
        thin=THIN, seed=3, prior={"offset": 0.2, "leaf_sd": 0.8**0.5, "alpha": 0.95, "beta": 1.0},
    )  # fmt: skip
    prior = EffectPrior(1, (), 1.0, 0.5**0.5, num_trees=1, alpha=0.25, beta=3.0, drawn=False)
    data = replace(data, effect=prior, by_role={"treatment": treated})
    draws = draws_of(data)
    counts = np.bincount(draws.forests["effect"].leaf_counts[:, 0], minlength=4)[1:4]
    holds(chi_square(counts, np.array([0.742228, 0.249714, 0.008058])).p)
    half = 0.5 * effects_of(draws, data)
    mean = fits(draws, data.codes, data.constants)
    risk = stats.norm.cdf(mean + half) - stats.norm.cdf(mean - half)
    holds(mean_is(risk.mean(axis=1)[:, None], np.array([0.0460])))


def test_counts(monkeypatch):
    """Effects on counts have the mean log ratios at rows that quadrature gives."""
    monkeypatch.setattr(counts, "gamma_prior", lambda _log_sd, _trees: (2.0, 1.5))
    monkeypatch.setattr(count_arms, "gamma_prior", lambda _log_sd, _trees: (8.0, 7.5))
    data = training(
        np.array([[0, 1, 2]]), np.array([3, 0, 4]), family="poisson", num_trees=1, num_draws=SHORT,
        num_burnin=500, thin=THIN, seed=3, prior={"alpha": 0.95, "beta": 1.0},
    )  # fmt: skip
    prior = EffectPrior(1, (), 1.0, 1.0, num_trees=1, alpha=0.25, beta=3.0, drawn=False, parts=2)
    by_role = {"treatment": np.array([1.0, 0.0, 1.0]), "exposure": np.array([1.0, 2.0, 1.0])}
    data = replace(data, effect=prior, by_role=by_role, constants=replace(data.constants, rate=1.0))
    draws = draws_of(data)
    logs = [fits(draws.forests[f"effect {arm}"], data.codes, data.constants) for arm in (0, 1)]
    holds(mean_is(logs[1] - logs[0], np.array([0.396, 0.426, 0.409])))
    short = replace(data.settings, num_draws=15, num_burnin=5, thin=1)
    check_resuming(replace(data, settings=short, effect=replace(prior, drawn=True)))


def half_effect(chain):
    """Return half the effect at the rows of a chain's state, by its trees."""
    forest, rows = chain._forests[1], len(chain.training.y)
    total = sum(
        leaf[slots[:rows].astype(int), VALUE] for leaf, slots in zip(forest.leaf, forest.slots, strict=True)
    )
    names = chain._likelihood.scalar_names
    return chain.training.constants.step * total + chain._likelihood.scalars[names.index("half_mean_effect")]


def functions_of(f, half, sd, sigma2, leaves):
    """Return the functions compared, at the training rows."""
    return {
        "effect at a row": 2 * half[0],
        "effect at a row squared": (2 * half[0]) ** 2,
        "product of effects at two rows": 4 * half[0] * half[5],
        "mean effect": 2 * half.mean(),
        "mean effect squared": (2 * half.mean()) ** 2,
        "log sd of effects": np.log(sd),
        "log sd of effects squared": np.log(sd) ** 2,
        "log sd x leaves": np.log(sd) * np.mean(leaves),
        "leaves of the effect": np.mean(leaves),
        "log sigma2": np.log(sigma2),
        "f at a row squared": f[0] ** 2,
        "effect x f": half[0] * f[0],
    }


def joint(rounds, draws, *, weighted):
    """Return the p-values of Geweke's test by function; the effect's trees may not split on a column."""
    model = Model("effects", num_rows=24, num_trees=3, weighted=weighted, missing=0.1)
    trees = {"num_trees": 3, "alpha": model.alpha, "beta": model.beta}
    prior = EffectPrior(3, (2,), 1.0, 0.6, **trees, mean_sd=0.8)
    rng = np.random.default_rng(7)
    treated = rng.integers(0, 2, model.num_rows)
    signs = 2 * treated - 1
    codes = model.codes[:, : model.num_rows].copy()
    codes[2] = 0

    def prior_draw():
        forest, sigma2 = model.draw(rng)
        sd, half, leaves = abs(rng.normal()), np.full(model.num_rows, rng.normal(0, 0.4)), []
        for _ in range(3):
            tree = draw_tree(codes, model.alpha, model.beta, rng)
            half += rng.normal(0, sd / (2 * np.sqrt(3)), tree.num_leaves)[tree.leaf]
            leaves.append(tree.num_leaves)
        f = forest.f[: model.num_rows] + signs * half
        return functions_of(f, half, sd, sigma2, leaves)

    def observe(chain):
        f, sigma2 = f_of(chain), chain.sigma**2
        sd = chain._likelihood.scalars[chain._likelihood.scalar_names.index("effect_sd")]
        values = functions_of(f, half_effect(chain), sd, sigma2, chain._forests[1].num_leaves)
        return values, model.outcome(f, sigma2, rng)

    y = model.outcome(np.zeros(model.num_rows), 1.0, rng)
    data = model.training(y, **ENDLESS, seed=3)
    data = replace(data, effect=prior, by_role={"treatment": treated.astype(float)})
    chain = Chain.start(data, 0)
    return keeps_joint_law(chain, [prior_draw() for _ in range(draws)], observe, rounds, left_out=6)


@pytest.mark.slow
@pytest.mark.parametrize("weighted", [False, True])
def test_joint(weighted):
    """Alternating outcomes given the state and a sweep keeps the prior law of functions of the state."""
    all_above(joint(12_000, 4_000, weighted=weighted), ALARM)


@pytest.mark.long
@pytest.mark.parametrize("weighted", [False, True])
def test_joint_long(weighted):
    """Geweke's test of effects with many more draws."""
    all_above(joint(96_000, 40_000, weighted=weighted), ALARM)
