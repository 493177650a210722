"""A linear part beside the trees: Geweke's joint-distribution test."""

from dataclasses import replace

import numpy as np
import pytest

from tests.support.joint_law import Law, keeps_joint_law
from tests.support.models.precisions import figures_of_noise
from tests.support.reports.p_values import ALARM, all_above

SCALE = 0.2  # of tau's half-Cauchy prior
GRID = 2.0**-9  # wide enough for its tail


class Line(Law):
    """Three terms: f at the rows, the noise's variance, leaves, tau, the slopes and the line at the rows."""

    def __init__(self, **options):
        super().__init__("line", **options)
        self.linear = self.model.linear_terms(SCALE)

    def training(self, y, seed):
        data = self.model.training(y, **self.lengths, linear=True, seed=seed)
        return replace(data, parts={"line": self.linear}, constants=replace(data.constants, step=GRID))

    def draw(self, rng):
        trees, sigma2, leaves = self.draw_trees(rng)
        tau = SCALE * abs(rng.standard_cauchy())
        slopes = tau * rng.normal(size=len(self.linear.z))
        line = slopes @ self.linear.z
        return trees + line, sigma2, leaves, tau, slopes, line

    def state_of(self, chain):
        tau, *slopes = chain._likelihood.outcome.scalars[1:]
        return *self.trees_of(chain), tau, slopes, np.array(slopes) @ self.linear.z

    def functions(self, state, y):
        """Return functions that are bounded or grow slowly in the line: tau has no mean."""
        f, sigma2, leaves, tau, slopes, line = state
        middle = f[0] - self.model.offset
        slow = np.arcsinh(np.array([slopes[0], slopes[1], line[0], line[5], middle]) / SCALE)
        return {
            "log tau": np.log(tau),
            "log tau squared": np.log(tau / SCALE) ** 2,
            "a slope": slow[0],
            "another slope": slow[1],
            "product of slopes": slow[0] * slow[1],
            "a slope squared": slow[0] ** 2,
            "a slope over tau, squared": min((slopes[1] / tau) ** 2, 20.0),
            "line at a row": slow[2],
            "product of the line at two rows": slow[2] * slow[3],
            "f at a row": slow[4],
            "f at a row squared": slow[4] ** 2,
            "trees at a row squared": (f[0] - line[0] - self.model.offset) ** 2,
            "trees x line": np.tanh(f[0] - line[0] - self.model.offset) * slow[2],
            "log sigma2": np.log(sigma2),
            "log sigma2 x log tau": np.log(sigma2) * np.log(tau / SCALE),
            "leaves": np.mean(leaves),
        }

    def figures(self, state):
        f, sigma2, _, tau, slopes, _ = state
        difference = slopes[0] - slopes[2]
        of_line = {"tau": tau, "a slope": slopes[1], "difference of slopes": difference}
        return figures_of_noise(f, sigma2) | of_line


@pytest.mark.slow
@pytest.mark.parametrize("weighted", [True])
def test_joint(weighted):
    """Outcomes given the state, a sweep, and so on: functions of the state keep their prior law."""
    all_above(keeps_joint_law(Line(weighted=weighted, missing=0.1), 16_000, 6_000), ALARM)


@pytest.mark.long
@pytest.mark.parametrize("weighted", [False, True])
def test_joint_long(weighted):
    """Geweke's test of the linear part with many more draws."""
    all_above(keeps_joint_law(Line(weighted=weighted, missing=0.1), 96_000, 60_000), ALARM)
