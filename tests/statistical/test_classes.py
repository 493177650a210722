"""Classes by log-linear forests: Geweke's joint-distribution test, and simulation-based calibration."""

from dataclasses import replace

import numpy as np
import pytest

from sampler.bart.chain import Chain
from sampler.bart.families.categorical import STEP
from sampler.bart.log_linear import gamma_prior
from sampler.data.linear_terms import LinearTerms
from sampler.training import LinearTraining
from tests.support.chain_driver import training
from tests.support.joint_law import ENDLESS, keeps_joint_law
from tests.support.models.covering_models import Model, draw_leaf_sd
from tests.support.reports.p_values import ALARM, all_above, rank_of, uniform_ranks

CLASSES, TREES, LEAF_SD = 3, 3, 0.5
TERMS, SLOPE_SD = 2, 0.3  # of linear parts
SHARES = (0.5, 0.3, 0.2)


def functions_of(log_f, leaves, y):
    """Return the functions that are compared, of log f [class, row] and the leaves of all trees."""
    log_p = log_f + np.log(SHARES)[:, None]
    log_p -= np.logaddexp.reduce(log_p)
    return {
        "log odds at a row": log_p[1, 0] - log_p[0, 0],
        "log odds at a row squared": (log_p[1, 0] - log_p[0, 0]) ** 2,
        "product of log odds at two rows": (log_p[2, 0] - log_p[0, 0]) * (log_p[2, 5] - log_p[0, 5]),
        "probability at a row": np.exp(log_p[2, 7]),
        "entropy": -np.mean(np.exp(log_p) * log_p),
        "leaves of the first class": leaves[0].mean(),
        "leaves of the last class": leaves[-1].mean(),
        "share of the first class": np.mean(y == 0),
        "log likelihood": log_p[y.astype(int), np.arange(len(y))].mean(),
        "log f": log_f[0, 0],
        "log f squared": log_f[0, 0] ** 2,
    }


def squashed(values, lines):
    """The functions' values; with lines, whose spread has heavy tails, their inverse hyperbolic sines."""
    return values if lines is None else {name: np.arcsinh(value) for name, value in values.items()}


def outcome(log_f, rng):
    """Draw classes at the rows."""
    p = np.array(SHARES)[:, None] * np.exp(log_f - log_f.max(axis=0))
    below = np.cumsum(p / p.sum(axis=0), axis=0)
    return (rng.uniform(size=log_f.shape[1]) > below).sum(axis=0).astype(float)


def lines_of(model):
    """Terms of a linear part: two numbers at each row."""
    z = np.random.default_rng(6).normal(size=(TERMS, model.num_rows))
    flat = (0.0,) * TERMS
    terms = LinearTerms((0,) * TERMS, (False,) * TERMS, flat, (1.0,) * TERMS, flat, flat, SLOPE_SD)
    return LinearTraining(terms, z)


def draw_log_f(model, rng, drawn, lines):
    """Draw log f [class, row] and the leaves of all trees from the prior; `drawn`: k = 3 chi(4), first 2."""
    shape, rate = gamma_prior(draw_leaf_sd(LEAF_SD, TREES, rng) if drawn else LEAF_SD, 1)
    forests = [
        model.draw_tree_sum(TREES, lambda leaves: np.log(rng.gamma(shape, 1 / rate, leaves)), rng)
        for _ in range(CLASSES)
    ]
    log_f, leaves = (np.array(part) for part in zip(*forests, strict=True))
    if lines is not None:
        spread = SLOPE_SD * abs(rng.standard_cauchy())
        log_f += spread * rng.normal(size=(CLASSES, TERMS)) @ lines.z
    return log_f, leaves


def prior_draw(model, rng, drawn, lines):
    """Return the functions at an independent draw from the prior, made by the plain twins."""
    log_f, leaves = draw_log_f(model, rng, drawn, lines)
    return squashed(functions_of(log_f, leaves, outcome(log_f, rng)), lines)


def start(model, y, drawn, lines, seed):
    """Start a chain."""
    settings = {"num_trees": TREES, "seed": seed, "moves": model.moves, **ENDLESS}
    entries = {"leaf_sd": LEAF_SD, "k": 2.0, "alpha": model.alpha, "beta": model.beta}
    entries |= {"k_df": 4.0, "k_scale": 3.0} if drawn else {}
    data = training(model.codes[:, : model.num_rows], y, prior=entries, family="categorical", **settings)
    parts = {} if lines is None else {"line": lines}
    return Chain.start(replace(data, constants=replace(data.constants, shares=SHARES), parts=parts), 0)


def log_f_of(chain, model):
    """Return log f of the chain's state, [class, row]."""
    return STEP * np.array([each.log_value[: model.num_rows] for each in chain._models])


def joint(rounds, draws, *, drawn=False, lined=False, moves="default"):
    """Return the p-values of Geweke's test by function."""
    model = Model("classes", num_rows=24, num_trees=TREES, missing=0.1, moves=moves)
    rng = np.random.default_rng(7)
    lines = lines_of(model) if lined else None
    prior = [prior_draw(model, rng, drawn, lines) for _ in range(draws)]
    chain = start(model, np.arange(model.num_rows) % CLASSES, drawn, lines, 3)

    def observe(chain):
        log_f = log_f_of(chain, model)
        y = outcome(log_f, rng)
        values = functions_of(log_f, np.array([forest.num_leaves for forest in chain._forests]), y)
        return squashed(values, lines), y

    return keeps_joint_law(chain, prior, observe, rounds, left_out=6, batches=32)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("drawn", "lined", "moves"),
    [(False, False, "default"), (True, True, "default"), (True, False, "pg")],
)
def test_joint(drawn, lined, moves):
    """Outcomes given the state, a sweep, and so on: functions of the state keep their prior law."""
    all_above(joint(2400, 1500, drawn=drawn, lined=lined, moves=moves), ALARM)


@pytest.mark.long
@pytest.mark.parametrize("moves", ["default", "pg"])
@pytest.mark.parametrize(("drawn", "lined"), [(False, False), (True, False), (True, True)])
def test_joint_long(drawn, lined, moves):
    """Geweke's test of classes with many more draws."""
    all_above(joint(40_000, 20_000, drawn=drawn, lined=lined, moves=moves), ALARM)


def figures(log_f):
    """Figures whose ranks are taken: log odds at two rows, and a class's mean log probability."""
    log_p = log_f + np.log(SHARES)[:, None]
    log_p -= np.logaddexp.reduce(log_p)
    return log_p[1, 0] - log_p[0, 0], log_p[2, 5] - log_p[0, 5], log_p[2].mean()


def calibrated(count, bins, *, lined):
    """Return p-values of the truth's ranks among 63 draws being uniform over replications."""
    model = Model("classes", num_rows=40, num_trees=TREES, missing=0.1)
    rng, lines, ranks = np.random.default_rng(13), lines_of(model) if lined else None, []
    for seed in range(count):
        truth, _ = draw_log_f(model, rng, True, lines)
        chain, drawn = start(model, outcome(truth, rng), True, lines, seed), []
        chain.run(200)
        for _ in range(63):
            chain.run(12)
            drawn.append(figures(log_f_of(chain, model)))
        ranks.append([rank_of(*pair, rng) for pair in zip(figures(truth), np.transpose(drawn), strict=True)])
    names = ("log odds", "log odds of the last class", "log probability of the last class")
    return {name: uniform_ranks(own, 63, bins) for name, own in zip(names, np.transpose(ranks), strict=True)}


@pytest.mark.slow
@pytest.mark.parametrize("lined", [True])
def test_calibrated(lined):
    """The rank of the truth among its posterior draws is uniform."""
    all_above(calibrated(48, 8, lined=lined), ALARM)


@pytest.mark.long
@pytest.mark.parametrize("lined", [False, True])
def test_calibrated_long(lined):
    """Ranks of the truth are uniform over many more replications."""
    all_above(calibrated(768, 16, lined=lined), ALARM)
