"""Intercepts of crossed groups: Geweke's joint-distribution test, and simulation-based calibration."""

from dataclasses import replace

import numpy as np
import pytest

from sampler.training import GroupTraining
from tests.support.joint_law import Law, calibrated, keeps_joint_law
from tests.support.reports.p_values import ALARM, all_above

SCALE = 0.3  # of tau's half-Cauchy prior
CUT = 10.0  # where that ends
SIZES = (4, 3)


class Groups(Law):
    """Two crossed groupings: f at the rows, the noise's variance, leaves, standard deviations, intercepts."""

    def __init__(self, **options):
        super().__init__("groups", **options)
        rng = np.random.default_rng(5)
        index = np.array([rng.integers(0, size, self.model.num_rows) for size in SIZES], np.int32)
        self.groups = GroupTraining(index, SIZES, (SCALE,) * len(SIZES))

    def training(self, y, seed):
        return replace(super().training(y, seed), parts={"groups": self.groups})

    def at_rows(self, effects):
        """Add the intercepts of each row's groups."""
        return sum(own[places] for own, places in zip(effects, self.groups.index, strict=True))

    def draw(self, rng):
        trees, sigma2, leaves = self.draw_trees(rng)
        tau = SCALE * np.tan(rng.uniform(size=len(SIZES)) * np.arctan(CUT))
        effects = [sd * rng.normal(size=size) for sd, size in zip(tau, SIZES, strict=True)]
        return trees + self.at_rows(effects), sigma2, leaves, tau, effects

    def state_of(self, chain):
        likelihood = chain._likelihood
        effects = chain.training.constants.step * likelihood.parts["groups"].effects
        tau = likelihood.outcome.scalars[1:3].copy()
        return *self.trees_of(chain), tau, np.split(effects, SIZES[:1])

    def functions(self, state, y):
        """Return functions that grow slowly in the intercepts, since tau has a heavy tail."""
        f, sigma2, leaves, tau, effects = state
        a, b = (np.arcsinh(own / SCALE) for own in effects)
        middle = f - self.at_rows(effects) - self.model.offset
        return {
            "log tau": np.log(tau[0]),
            "log tau squared": np.log(tau[0] / SCALE) ** 2,
            "log of the other tau": np.log(tau[1]),
            "product of log taus": np.log(tau[0] / SCALE) * np.log(tau[1] / SCALE),
            "an intercept": a[0],
            "an intercept squared": a[1] ** 2,
            "product of intercepts": a[0] * a[1],
            "product across": a[0] * b[0],
            "mean of squares over tau^2": min(np.mean(effects[0] ** 2) / tau[0] ** 2, 20.0),
            "trees at a row": middle[0],
            "trees at a row squared": middle[0] ** 2,
            "trees x intercepts' mean": np.tanh(middle.mean()) * a.mean(),
            "log sigma2": np.log(sigma2) if sigma2 != 1 else 0.0,
            "log sigma2 x log tau": np.log(sigma2) * np.log(tau[0] / SCALE),
            "leaves": np.mean(leaves),
        }

    def figures(self, state):
        _, sigma2, _, tau, effects = state
        return {
            "tau": tau[0],
            "the other tau": tau[1],
            "an intercept": effects[0][1],
            "difference of intercepts": effects[1][0] - effects[1][1],
            "intercepts of a row": self.at_rows(effects)[0],
            "sigma": np.sqrt(sigma2),
        }


@pytest.mark.slow
@pytest.mark.parametrize("options", [{"weighted": True}, {"number": "poisson"}], ids=str)
def test_joint(options):
    """Outcomes given the state, a sweep, and so on: functions of the state keep their prior law."""
    all_above(keeps_joint_law(Groups(missing=0.1, **options), 16_000, 6_000), ALARM)


@pytest.mark.long
@pytest.mark.parametrize(
    "options",
    [
        *({}, {"weighted": True}, {"family": "probit"}, {"weighted": True, "moves": "pg"}),
        *({"number": "uniform"}, {"family": "probit", "number": "geometric"}),
    ],
    ids=str,
)
def test_joint_long(options):
    """Geweke's test of groups with many more draws."""
    all_above(keeps_joint_law(Groups(missing=0.1, **options), 96_000, 60_000), ALARM)


def ranks(count, bins):
    """Return the p-values of calibration."""
    return calibrated(Groups(num_rows=60, num_trees=5), count, bins, burnin=600, thin=20)


@pytest.mark.slow
def test_calibrated():
    """The rank of the truth among its posterior draws is uniform."""
    all_above(ranks(64, 8), ALARM)


@pytest.mark.long
def test_calibrated_long():
    """Ranks of the truth are uniform over many more replications."""
    all_above(ranks(512, 16), ALARM)
