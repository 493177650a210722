"""Slopes of crossed groups: Geweke's joint-distribution test, and simulation-based calibration."""

from dataclasses import replace

import numpy as np
import pytest

from sampler.training import GroupTraining
from tests.support.joint_law import Law, calibrated, keeps_joint_law
from tests.support.reports.p_values import ALARM, all_above

SCALE = 0.3  # of the standard deviations' half-Cauchy prior
CUT = 10.0  # where that ends
SIZES = (4, 3)
SLOPES = 2
TERMS = 1 + SLOPES


def draw_correlations(rng):
    """Draw a correlation matrix from all with equal density, by rejection."""
    below = np.tril_indices(TERMS, -1)
    while True:
        correlations = np.eye(TERMS)
        correlations[below] = rng.uniform(-1, 1, len(below[0]))
        correlations += np.tril(correlations, -1).T
        if np.linalg.eigvalsh(correlations)[0] > 0:
            return correlations


def correlations_of(partial):
    """Return the correlation matrix of partial correlations, in the order of a chain's scalars."""
    factor, at = np.zeros((TERMS, TERMS)), 0
    for i in range(TERMS):
        for j in range(i):
            factor[i, j] = partial[at] * np.sqrt(1 - np.sum(factor[i, :j] ** 2))
            at += 1
        factor[i, i] = np.sqrt(1 - np.sum(factor[i, :i] ** 2))
    return factor @ factor.T


class Slopes(Law):
    """Two crossed groupings, with slopes of two numbers.

    States: f at the rows, the noise's variance, leaves; standard deviations, correlations and effects
    [term, group] of each grouping.
    """

    def __init__(self, **options):
        super().__init__("group slopes", **options)
        rng, rows = np.random.default_rng(5), self.model.num_rows
        index = np.array([rng.integers(0, size, rows) for size in SIZES], np.int32)
        z = rng.normal(size=(SLOPES, rows))
        self.groups = GroupTraining(index, SIZES, (SCALE,) * len(SIZES), z, (None,) * SLOPES)

    def training(self, y, seed):
        return replace(super().training(y, seed), parts={"groups": self.groups})

    def at_rows(self, effects):
        """Add the intercepts of each row's groups, and their slopes times its numbers."""
        terms = np.concatenate([np.ones((1, self.model.num_rows)), self.groups.z])
        pairs = zip(effects, self.groups.index, strict=True)
        return sum((own[:, places] * terms).sum(axis=0) for own, places in pairs)

    def draw(self, rng):
        trees, sigma2, leaves = self.draw_trees(rng)
        tau = SCALE * np.tan(rng.uniform(size=(len(SIZES), TERMS)) * np.arctan(CUT))
        correlations = [draw_correlations(rng) for _ in SIZES]
        effects = [
            sd[:, None] * np.linalg.cholesky(own) @ rng.normal(size=(TERMS, size))
            for sd, own, size in zip(tau, correlations, SIZES, strict=True)
        ]
        return trees + self.at_rows(effects), sigma2, leaves, tau, correlations, effects

    def state_of(self, chain):
        likelihood, count = chain._likelihood, TERMS + TERMS * (TERMS - 1) // 2
        parts = likelihood.parts["groups"]._parts
        scalars = [likelihood.outcome.scalars[part.place : part.place + count] for part in parts]
        effects = [chain.training.constants.step * part.effect for part in parts]
        tau, correlations = zip(
            *((own[:TERMS], correlations_of(own[TERMS:])) for own in scalars), strict=True
        )
        return *self.trees_of(chain), np.array(tau), correlations, effects

    def functions(self, state, y):
        """Return functions that grow slowly in the effects: standard deviations have heavy tails."""
        f, sigma2, leaves, tau, correlations, effects = state
        a, b = (np.arcsinh(own / SCALE) for own in effects)
        middle = f - self.at_rows(effects) - self.model.offset
        logs = np.log(tau / SCALE)
        return {
            "log sd of intercepts": logs[0, 0],
            "log sd of slopes": logs[0, 1],
            "log sd of slopes squared": logs[0, 2] ** 2,
            "log sd of the other slopes": logs[1, 1],
            "correlation with the intercept": correlations[0][1, 0],
            "that squared": correlations[0][1, 0] ** 2,
            "correlation of slopes": correlations[0][2, 1],
            "that of slopes squared": correlations[0][2, 1] ** 2,
            "product of correlations": correlations[0][2, 1] * correlations[0][2, 0] * correlations[0][1, 0],
            "correlation of the other slopes": correlations[1][2, 0],
            "an intercept squared": a[0, 0] ** 2,
            "a slope": a[1, 0],
            "a slope squared": b[2, 1] ** 2,
            "slope x intercept x correlation": a[1, 0] * a[0, 0] * correlations[0][1, 0],
            "product across": a[1, 0] * b[1, 0],
            "trees at a row squared": middle[0] ** 2,
            "trees x slopes' mean": np.tanh(middle.mean()) * a[1].mean(),
            "log sigma2": np.log(sigma2) if sigma2 != 1 else 0.0,
            "log sigma2 x log sd": np.log(sigma2) * logs[0, 1],
            "leaves": np.mean(leaves),
        }

    def figures(self, state):
        _, sigma2, _, tau, correlations, (first, _) = state
        return {
            "sd of slopes": tau[0][1],
            "sd of the other intercepts": tau[1][0],
            "correlation": correlations[0][1, 0],
            "a slope": first[1, 1],
            "difference of slopes": first[2, 0] - first[2, 1],
            "sigma": np.sqrt(sigma2),
        }


@pytest.mark.slow
@pytest.mark.parametrize("options", [{"family": "probit"}], ids=str)
def test_joint(options):
    """Outcomes given the state, a sweep, and so on: functions of the state keep their prior law."""
    all_above(keeps_joint_law(Slopes(missing=0.1, **options), 9_000, 4_000), ALARM)


@pytest.mark.long
@pytest.mark.parametrize(
    "options", [{}, {"weighted": True}, {"family": "probit"}, {"number": "poisson"}], ids=str
)
def test_joint_long(options):
    """Geweke's test of slopes by group with many more draws."""
    all_above(keeps_joint_law(Slopes(missing=0.1, **options), 90_000, 40_000), ALARM)


def ranks(count, bins):
    """Return the p-values of calibration."""
    return calibrated(Slopes(num_rows=60, num_trees=5), count, bins, burnin=600, thin=20)


@pytest.mark.slow
def test_calibrated():
    """The rank of the truth among its posterior draws is uniform."""
    all_above(ranks(48, 8), ALARM)


@pytest.mark.long
def test_calibrated_long():
    """Ranks of the truth are uniform over many more replications."""
    all_above(ranks(512, 16), ALARM)
