"""Classes by log-linear forests: Geweke's joint-distribution test, and simulation-based calibration."""

from dataclasses import replace

import numpy as np
import pytest

from sampler.bart.families.categorical import STEP
from sampler.bart.log_linear import gamma_prior
from sampler.data.linear_terms import LinearTerms
from sampler.training import LinearTraining
from tests.support.chain_driver import training
from tests.support.joint_law import Law, calibrated, keeps_joint_law
from tests.support.models.covering_models import draw_leaf_sd
from tests.support.reports.p_values import ALARM, all_above

CLASSES, TREES, LEAF_SD = 3, 3, 0.5
TERMS, SLOPE_SD = 2, 0.3  # of linear parts
SHARES = (0.5, 0.3, 0.2)


def log_probabilities(log_f):
    """Return log probabilities of classes, [class, row]."""
    log_p = log_f + np.log(SHARES)[:, None]
    return log_p - np.logaddexp.reduce(log_p)


class Classes(Law):
    """States: log f [class, row], and the leaves of all trees [class, tree].

    `drawn`: with k' drawn, k = 3 chi(4), first 2. `lined`: with linear parts of two numbers at each row.
    """

    left_out, batches, seed, of_outcomes = 6, 32, 13, True

    def __init__(self, num_rows=24, *, drawn=False, lined=False, moves="default"):
        super().__init__("classes", num_rows, TREES, missing=0.1, moves=moves)
        self.drawn, flat = drawn, (0.0,) * TERMS
        terms = LinearTerms((0,) * TERMS, (False,) * TERMS, flat, (1.0,) * TERMS, flat, flat, SLOPE_SD)
        z = np.random.default_rng(6).normal(size=(TERMS, num_rows))
        self.lines = LinearTraining(terms, z) if lined else None

    def training(self, y, seed):
        model = self.model
        settings = {"num_trees": TREES, "seed": seed, "moves": model.moves, **self.lengths}
        entries = {"leaf_sd": LEAF_SD, "k": 2.0, "alpha": model.alpha, "beta": model.beta}
        entries |= {"k_df": 4.0, "k_scale": 3.0} if self.drawn else {}
        codes = model.codes[:, : model.num_rows]
        data = training(codes, y, prior=entries, family="categorical", **settings)
        parts = {} if self.lines is None else {"line": self.lines}
        return replace(data, constants=replace(data.constants, shares=SHARES), parts=parts)

    def first(self, rng):
        return np.arange(self.model.num_rows) % CLASSES

    def draw(self, rng):
        shape, rate = gamma_prior(draw_leaf_sd(LEAF_SD, TREES, rng) if self.drawn else LEAF_SD, 1)
        forests = [
            self.model.draw_tree_sum(TREES, lambda leaves: np.log(rng.gamma(shape, 1 / rate, leaves)), rng)
            for _ in range(CLASSES)
        ]
        log_f, leaves = (np.array(part) for part in zip(*forests, strict=True))
        if self.lines is not None:
            spread = SLOPE_SD * abs(rng.standard_cauchy())
            log_f += spread * rng.normal(size=(CLASSES, TERMS)) @ self.lines.z
        return log_f, leaves

    def state_of(self, chain):
        log_f = STEP * np.array([each.log_value[: self.model.num_rows] for each in chain._models])
        return log_f, np.array([forest.num_leaves for forest in chain._forests])

    def outcome(self, state, rng):
        log_f, _ = state
        p = np.array(SHARES)[:, None] * np.exp(log_f - log_f.max(axis=0))
        below = np.cumsum(p / p.sum(axis=0), axis=0)
        return (rng.uniform(size=log_f.shape[1]) > below).sum(axis=0).astype(float)

    def functions(self, state, y):
        """Return the functions; with lines, whose spread has heavy tails, their inverse hyperbolic sines."""
        log_f, leaves = state
        log_p = log_probabilities(log_f)
        values = {
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
        return values if self.lines is None else {name: np.arcsinh(each) for name, each in values.items()}

    def figures(self, state):
        log_p = log_probabilities(state[0])
        return {
            "log odds": log_p[1, 0] - log_p[0, 0],
            "log odds of the last class": log_p[2, 5] - log_p[0, 5],
            "log probability of the last class": log_p[2].mean(),
        }


@pytest.mark.slow
@pytest.mark.parametrize(
    ("drawn", "lined", "moves"),
    [(False, False, "default"), (True, True, "default"), (True, False, "pg")],
)
def test_joint(drawn, lined, moves):
    """Outcomes given the state, a sweep, and so on: functions of the state keep their prior law."""
    law = Classes(drawn=drawn, lined=lined, moves=moves)
    all_above(keeps_joint_law(law, 2400, 1500), ALARM)


@pytest.mark.long
@pytest.mark.parametrize("moves", ["default", "pg"])
@pytest.mark.parametrize(("drawn", "lined"), [(False, False), (True, False), (True, True)])
def test_joint_long(drawn, lined, moves):
    """Geweke's test of classes with many more draws."""
    law = Classes(drawn=drawn, lined=lined, moves=moves)
    all_above(keeps_joint_law(law, 40_000, 20_000), ALARM)


def ranks(lined, count, bins):
    """Return the p-values of calibration."""
    return calibrated(Classes(40, drawn=True, lined=lined), count, bins, burnin=200, thin=12)


@pytest.mark.slow
@pytest.mark.parametrize("lined", [True])
def test_calibrated(lined):
    """The rank of the truth among its posterior draws is uniform."""
    all_above(ranks(lined, 48, 8), ALARM)


@pytest.mark.long
@pytest.mark.parametrize("lined", [False, True])
def test_calibrated_long(lined):
    """Ranks of the truth are uniform over many more replications."""
    all_above(ranks(lined, 768, 16), ALARM)
