"""A surface beside trees: Geweke's joint-distribution test, and simulation-based calibration."""

from dataclasses import replace

import numpy as np
import pytest

from sampler.bart.kernels.steps.spatial import LARGEST, LONGEST, SHORTEST, SMALLEST, SPREAD, TYPICAL
from sampler.data.spatial import Surface, shares
from sampler.training import SpatialTraining
from tests.support.joint_law import Law, calibrated, keeps_joint_law
from tests.support.reports.p_values import ALARM, all_above

SCALE = 0.6  # of the standard deviation's half-Cauchy prior


class Spatial(Law):
    """Rows at places, of which two share one and one has none.

    States: f at the rows, the noise's variance, leaves, the surface's sd and range, and it at the rows.
    """

    def __init__(self, **options):
        super().__init__("spatial", **options)
        rows = self.model.num_rows
        points = np.random.default_rng(5).uniform(0, [[3.0], [2.0]], (2, rows))
        points[:, 1] = points[:, 0]
        surface = Surface.over(("a", "b"), (0, 1), points, SCALE)
        points[0, 2] = np.nan
        self.own = SpatialTraining(surface, surface.of(points), np.arange(rows))

    def training(self, y, seed):
        return replace(super().training(y, seed), parts={"spatial": self.own})

    def at_rows(self, terms):
        """Return the surface at the rows."""
        return self.own.surface.waves(self.own.placed).T @ terms[:-1] + self.own.placed.missing * terms[-1]

    def draw(self, rng):
        trees, sigma2, leaves = self.draw_trees(rng)
        low, high = np.arctan([SMALLEST, LARGEST])
        sd, reach = SCALE * np.tan(rng.uniform(low, high)), 0.0
        while not SHORTEST < reach < LONGEST:
            reach = TYPICAL * np.exp(SPREAD * rng.normal())
        roots = np.append(np.sqrt(shares(self.own.surface.squares, [reach])[0]), 1.0)
        surface = self.at_rows(sd * roots * rng.normal(size=len(roots)))
        return trees + surface, sigma2, leaves, sd, reach, surface

    def state_of(self, chain):
        first = chain._likelihood.scalar_names.index("spatial_sd")
        sd, reach, *terms = chain._likelihood.outcome.scalars[first:-1]
        return *self.trees_of(chain), sd, reach, self.at_rows(np.array(terms))

    def functions(self, state, y):
        """Return functions that grow slowly in the surface, since sd has a heavy tail."""
        f, sigma2, leaves, sd, reach, surface = state
        middle, height = f - surface - self.model.offset, np.arcsinh(surface / SCALE)
        return {
            "log sd": np.log(sd / SCALE),
            "log sd squared": np.log(sd / SCALE) ** 2,
            "log range": np.log(reach),
            "log range squared": np.log(reach / TYPICAL) ** 2,
            "log sd x log range": np.log(sd / SCALE) * np.log(reach / TYPICAL),
            "surface at a row": height[0],
            "its square": height[0] ** 2,
            "elsewhere": height[2],
            "elsewhere squared": height[2] ** 2,
            "two places": height[0] * height[3],
            "neighbours over sd^2": min((surface[0] - surface[4]) ** 2 / sd**2, 20.0),
            "trees at a row": middle[0],
            "trees at a row squared": middle[0] ** 2,
            "trees x surface": np.tanh(middle.mean()) * height.mean(),
            "log sigma2": np.log(sigma2) if sigma2 != 1 else 0.0,
            "log sigma2 x log sd": np.log(sigma2) * np.log(sd / SCALE),
            "leaves": np.mean(leaves),
        }

    def figures(self, state):
        *_, sd, reach, surface = state
        return {
            "sd": sd,
            "range": reach,
            "surface at a row": surface[0],
            "difference of two": surface[3] - surface[4],
        }


@pytest.mark.slow
@pytest.mark.parametrize("options", [{"weighted": True}], ids=str)
def test_joint(options):
    """Outcomes given the state, a sweep, and so on: functions of the state keep their prior law."""
    all_above(keeps_joint_law(Spatial(missing=0.1, **options), 9_000, 6_000), ALARM)


@pytest.mark.long
@pytest.mark.parametrize("options", [{}, {"weighted": True}, {"family": "probit"}], ids=str)
def test_joint_long(options):
    """Geweke's test of surfaces with many more draws."""
    all_above(keeps_joint_law(Spatial(missing=0.1, **options), 64_000, 60_000), ALARM)


@pytest.mark.long
def test_calibrated_long():
    """Ranks of the truth are uniform over many replications."""
    law = Spatial(num_rows=60, num_trees=5)
    all_above(calibrated(law, 512, 16, burnin=300, thin=12), ALARM)
