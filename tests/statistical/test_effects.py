"""Effects of treatments: exact laws of enumerated problems, Geweke's test, simulation-based calibration."""

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from scipy import stats

from sampler.bart.families import count_arms, counts
from sampler.bart.kernels.state import VALUE
from sampler.bart.log_linear import gamma_prior
from sampler.data.treatment.design import of_parts
from sampler.data.treatment.dose import Dose
from sampler.training import EffectPrior
from tests.reference.enumerator import membership
from tests.reference.prior import draw_tree
from tests.support.chain_driver import check_resuming, draws_of, f_of, fits, of_toy, training
from tests.support.joint_law import Law, calibrated, keeps_joint_law
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
    return replace(data, parts={"treatment": prior}, by_role={"treatment": TREATED.astype(float)})


def effects_of(draws, data):
    """Return the effect of each draw at the rows, [draw, row]."""
    codes, constants = data.codes, replace(data.constants, offset=0.0)
    return 2 * fits(draws.forests["effect"], codes, constants)


@pytest.mark.parametrize("moves", ["default", "growprune", pytest.param("pg", marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", EXACT)
@pytest.mark.sampled(quick=1, slow=3)
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


@pytest.mark.slow
def test_resumes():
    """A chain resumed from any checkpoint is the whole one, bit for bit."""
    data = problem(Y_B, (0.9, 1.0), 20, drawn=True)
    check_resuming(replace(data, parts={"treatment": replace(data.part(EffectPrior), mean_sd=0.5)}))
    check_resuming(of_arms(20, drawn=True, mean_sd=0.5))
    check_resuming(of_dose(20, drawn=True, mean_sd=0.5))


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
    effect = replace(data.part(EffectPrior), parts=3, start=0.4, **prior)
    return replace(data, parts={"treatment": effect}, by_role={"treatment": ARMS.astype(float)})


@pytest.mark.slow
def test_arms():
    """Draws of three arms have the mean differences between arms at all rows that enumeration gives."""
    evidence, exact = exact_of_arms()
    assert evidence == pytest.approx(OF_THREE, abs=1e-9)
    data = of_arms(SHORT)
    draws, constants = draws_of(data), replace(data.constants, offset=0.0)
    parts = [fits(draws.forests[f"effect {arm}"], data.codes, constants) for arm in range(3)]
    holds(mean_is(parts[1] - parts[0], exact[1] - exact[0]))
    holds(mean_is(parts[2] - parts[0], exact[2] - exact[0]))


DOSES, OF_DOSE = np.array([0.5, -1.0, 0.0, 1.5, -0.5]), -6.8866237796  # the log evidence of a dose, for Y_B
UNITS = Dose(0.0, 0.5, 1.0, (-1.0, -0.5, 0.5, 1.5), np.zeros(0))


def exact_of_a_dose():
    """Enumerate the trees of the mean and of a dose; return log evidence and mean effects of the rows."""
    mean, effect = golden(leaf_variance=0.0625), golden(alpha=0.25, beta=3.0)
    parts = {}  # the trees of the effect by how they divide the rows
    for tree, log_prior in zip(effect.trees, effect.log_prior, strict=True):
        gram = 0.04 * membership(effect, tree)
        weight, _ = parts.get(gram.tobytes(), (0.0, gram))
        parts[gram.tobytes()] = (weight + np.exp(log_prior), gram)
    evidence, effects = 0.0, np.zeros(5)
    for tree, log_prior in zip(mean.trees, mean.log_prior, strict=True):
        of_mean = 0.0625 * membership(mean, tree) + 0.05 * np.eye(5)
        for weight, gram in parts.values():
            law = of_mean + gram * np.outer(DOSES, DOSES)
            here = weight * np.exp(log_prior + stats.multivariate_normal(np.zeros(5), law).logpdf(Y_B))
            evidence += here
            effects += here * gram @ (DOSES * np.linalg.solve(law, Y_B))
    return np.log(evidence), effects / evidence


def of_dose(num_draws, **prior):
    """Return one tree for the mean and one for the effect of a dose, whose leaves have variance .04."""
    data = problem(Y_B, (0.25, 3.0), num_draws)
    effect = replace(data.part(EffectPrior), dose=UNITS, **prior)
    return replace(data, parts={"treatment": effect}, by_role={"treatment": DOSES})


@pytest.mark.slow
def test_dose():
    """Draws of a dose have the mean effects at all rows that enumeration gives."""
    evidence, exact = exact_of_a_dose()
    assert evidence == pytest.approx(OF_DOSE, abs=1e-9)
    given = (0.12296546, 0.12542573, 0.10479599, 0.09696023, 0.11031853)
    assert exact == pytest.approx(np.array(given), abs=1e-7)
    data = of_dose(SHORT)
    holds(mean_is(effects_of(draws_of(data), data), exact))


@pytest.mark.slow
def test_two_classes():
    """Effects on a probability have the tree and the mean risk difference that enumeration gives."""
    treated, labels = np.array([1.0, 0.0, 0.0]), np.array([1, 0, 1])
    data = training(
        np.array([[0, 1, 2]]), labels, family="probit", num_trees=1, num_draws=SHORT, num_burnin=500,
        thin=THIN, seed=3, prior={"offset": 0.2, "leaf_sd": 0.8**0.5, "alpha": 0.95, "beta": 1.0},
    )  # fmt: skip
    prior = EffectPrior(1, (), 1.0, 0.5**0.5, num_trees=1, alpha=0.25, beta=3.0, drawn=False)
    data = replace(data, parts={"treatment": prior}, by_role={"treatment": treated})
    draws = draws_of(data)
    counts = np.bincount(draws.forests["effect"].leaf_counts[:, 0], minlength=4)[1:4]
    holds(chi_square(counts, np.array([0.742228, 0.249714, 0.008058])).p)
    half = 0.5 * effects_of(draws, data)
    mean = fits(draws, data.codes, data.constants)
    risk = stats.norm.cdf(mean + half) - stats.norm.cdf(mean - half)
    holds(mean_is(risk.mean(axis=1)[:, None], np.array([0.0460])))


@pytest.mark.slow
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
    data = replace(
        data, parts={"treatment": prior}, by_role=by_role, constants=replace(data.constants, rate=1.0)
    )
    draws = draws_of(data)
    logs = [fits(draws.forests[f"effect {arm}"], data.codes, data.constants) for arm in (0, 1)]
    holds(mean_is(logs[1] - logs[0], np.array([0.396, 0.426, 0.409])))
    short = replace(data.settings, num_draws=15, num_burnin=5, thin=1)
    check_resuming(replace(data, settings=short, parts={"treatment": replace(prior, drawn=True)}))


class Effects(Law):
    """A small model whose effect's trees may not split on the last column.

    `parts` is 1 for half the effect of two arms, or the number of arms, each with a forest. Of a dose it is
    the effect of half a unit, and B any whole number of these. States: f at the rows' own arms, the noise's
    variance, the effect of arm 1 beside arm 0 at the rows, its sd and its trees' mean number of leaves.
    """

    left_out, seed = 6, 13

    def __init__(self, *, parts=1, weighted=False, num_rows=24, dose=False):
        super().__init__("effects", num_rows, weighted=weighted, missing=0.1)
        trees = {"num_trees": 3, "alpha": self.model.alpha, "beta": self.model.beta}
        self.prior = EffectPrior(3, (2,), 1.0, 0.6, **trees, mean_sd=0.8, parts=parts)
        self.arms = np.random.default_rng(7).integers(0, max(parts, 2), num_rows)
        self.signs = 2 * self.arms - 1
        self.treated = self.arms.astype(float)
        if dose:
            self.prior = replace(self.prior, dose=UNITS)
            self.signs = np.random.default_rng(8).integers(-3, 4, num_rows)
            self.treated = 0.5 * self.signs
        self.codes = self.model.codes[:, :num_rows].copy()
        self.codes[2] = 0

    def effect(self, parts):
        """Return what the parts add at the rows' own arms, and the effect of arm 1 beside arm 0."""
        if len(parts) == 1:
            return self.signs * parts[0], 2 * parts[0]
        return np.choose(self.arms, parts), parts[1] - parts[0]

    def draw(self, rng):
        f, sigma2, _ = self.draw_trees(rng)
        parts, sds, leaves = [], [], []
        for _ in range(self.prior.parts):
            sd, half = abs(rng.normal()), np.full(self.model.num_rows, rng.normal(0, 0.4))
            for _ in range(3):
                tree = draw_tree(self.codes, self.model.alpha, self.model.beta, rng)
                half += rng.normal(0, sd / (2 * np.sqrt(3)), tree.num_leaves)[tree.leaf]
                leaves.append(tree.num_leaves)
            parts.append(half)
            sds.append(sd)
        own, effect = self.effect(parts)
        return f + own, sigma2, effect, sds[0], np.mean(leaves[:3])

    def state_of(self, chain):
        names, scalars = chain._likelihood.scalar_names, chain._likelihood.scalars
        parts = []
        for name, forest in zip(
            of_parts("half_mean_effect", self.prior.parts), chain._forests[1:], strict=True
        ):
            sums = sum(
                leaf[slots[: self.model.num_rows].astype(int), VALUE]
                for leaf, slots in zip(forest.leaf, forest.slots, strict=True)
            )
            parts.append(chain.training.constants.step * sums + scalars[names.index(name)])
        sd = scalars[names.index(of_parts("effect_sd", self.prior.parts)[0])]
        _, effect = self.effect(parts)
        return f_of(chain), chain.sigma**2, effect, sd, np.mean(chain._forests[1].num_leaves)

    def training(self, y, seed):
        data = super().training(y, seed)
        return replace(data, parts={"treatment": self.prior}, by_role={"treatment": self.treated})

    def functions(self, state, y):
        f, sigma2, effect, sd, leaves = state
        return {
            "effect at a row": effect[0],
            "effect at a row squared": effect[0] ** 2,
            "product of effects at two rows": effect[0] * effect[5],
            "mean effect": effect.mean(),
            "mean effect squared": effect.mean() ** 2,
            "log sd of effects": np.log(sd),
            "log sd of effects squared": np.log(sd) ** 2,
            "log sd x leaves": np.log(sd) * leaves,
            "leaves of the effect": leaves,
            "log sigma2": np.log(sigma2),
            "f at a row squared": f[0] ** 2,
            "effect x f": effect[0] * f[0],
        }

    def figures(self, state):
        _, sigma2, effect, sd, _ = state
        return {"average": effect.mean(), "effect at a row": effect[0], "sd": sd, "sigma": np.sqrt(sigma2)}


KINDS = [{"weighted": False}, {"weighted": True}, {"parts": 3}, {"dose": True, "weighted": True}]


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS[1:3])
def test_joint(kind):
    """Alternating outcomes given the state and a sweep keeps the prior law of functions of the state."""
    all_above(keeps_joint_law(Effects(**kind), 12_000, 4_000), ALARM)


@pytest.mark.long
@pytest.mark.parametrize("kind", KINDS)
def test_joint_long(kind):
    """Geweke's test of effects with many more draws."""
    all_above(keeps_joint_law(Effects(**kind), 96_000, 40_000), ALARM)


RATE, LEAF_SD, LOG_SD = 0.4, 0.4, np.geomspace(*count_arms.SPAN, count_arms.GRID)


class CountArms(Effects):
    """Counts in two arms; states: logarithms of rates, at the rows and of arms, an arm's sd, dispersion."""

    batches, of_outcomes = 32, True

    def __init__(self):
        super().__init__(parts=2)  # large counts tell so much that a chain hardly moves
        self.prior = replace(self.prior, scale=0.5, start=0.3)

    def log_sum(self, codes, log_sd, trees, rng):
        """Draw the logarithm of a product of trees at rows of codes."""
        shape, rate = gamma_prior(log_sd, trees)
        drawn = [draw_tree(codes, self.model.alpha, self.model.beta, rng) for _ in range(3)]
        return sum(np.log(rng.gamma(shape, 1 / rate, tree.num_leaves))[tree.leaf] for tree in drawn)

    def draw(self, rng):
        mass = LOG_SD * np.exp(-0.5 * (2.0 * LOG_SD / self.prior.scale) ** 2)
        sds = rng.choice(LOG_SD, 2, p=mass / mass.sum())
        log_f = self.log_sum(self.model.codes[:, : self.model.num_rows], LEAF_SD, 1, rng)
        arms = [self.log_sum(self.codes, sd, 3, rng) for sd in sds]
        return log_f, arms, sds[0], rng.normal() ** -2.0

    def state_of(self, chain):
        likelihood, rows = chain._likelihood, slice(self.model.num_rows)
        log_f, *arms = (counts.STEP * model.log_value[rows] for model in likelihood.models)
        return log_f, arms, LOG_SD[likelihood._arms.scales[0].place[0]], likelihood.scalars[1]

    def outcome(self, state, rng):
        log_f, arms, _, dispersion = state
        mean = RATE * np.exp(log_f + np.choose(self.arms, arms))
        mean = mean * rng.gamma(dispersion, 1 / dispersion, len(mean))
        return rng.poisson(np.minimum(mean, 1e6)).astype(float)

    def first(self, rng):
        return np.arange(self.model.num_rows) % 3

    def training(self, y, seed):
        entries = {"leaf_sd": LEAF_SD, "k": 2.0, "alpha": self.model.alpha, "beta": self.model.beta}
        settings = {"family": "negative-binomial", "num_trees": 3, "seed": seed, **self.lengths}
        data = training(self.model.codes[:, : self.model.num_rows], y, prior=entries, **settings)
        parts, by_role = {"treatment": self.prior}, {"treatment": self.treated}
        return replace(data, constants=replace(data.constants, rate=RATE), parts=parts, by_role=by_role)

    def functions(self, state, y):
        log_f, arms, sd, dispersion = state
        effect = arms[1] - arms[0]
        return {
            "log ratio at a row": effect[0],
            "log ratio at a row squared": effect[0] ** 2,
            "mean log ratio": effect.mean(),
            "log f": log_f[0],
            "log f x log ratio": log_f[0] * effect[0],
            "log sd of an arm": np.log(sd),
            "log sd x spread": np.log(sd) * arms[0].std(),
            "root of 1/dispersion": 1 / np.sqrt(dispersion),
            "log of counts": np.mean(np.log1p(y)),
            "log of counts x log ratio": np.mean(np.log1p(y)) * effect.mean(),
        }


@pytest.mark.slow
def test_joint_of_counts():
    """Alternating counts given the state and a sweep keeps the prior law of functions of both."""
    all_above(keeps_joint_law(CountArms(), 2400, 1500), ALARM)


@pytest.mark.long
def test_joint_of_counts_long():
    """Geweke's test of counts in two arms with many more draws."""
    all_above(keeps_joint_law(CountArms(), 40_000, 20_000), ALARM)


def ranks(count, bins, **kind):
    """Return the p-values of calibration."""
    return calibrated(Effects(num_rows=40, **kind), count, bins, burnin=300, thin=15)


@pytest.mark.slow
@pytest.mark.parametrize("kind", [{"parts": 1}, {"dose": True}])
def test_calibrated(kind):
    """The rank of the true effects among their posterior draws is uniform."""
    all_above(ranks(64, 8, **kind), ALARM)


@pytest.mark.long
@pytest.mark.parametrize("kind", [{"parts": 1}, {"parts": 3}, {"dose": True}])
def test_calibrated_long(kind):
    """Ranks of the true effects are uniform over many more replications."""
    all_above(ranks(512, 16, **kind), ALARM)
