"""A surface beside trees: Geweke's joint-distribution test, and simulation-based calibration."""

from dataclasses import replace

import numpy as np
import pytest

from sampler.bart.chain import Chain
from sampler.bart.kernels.steps.spatial import LARGEST, LONGEST, SHORTEST, SMALLEST, SPREAD, TYPICAL
from sampler.data.spatial import Surface, shares, wave_names
from sampler.training import SpatialTraining
from tests.support.chain_driver import f_of
from tests.support.joint_law import ENDLESS, keeps_joint_law
from tests.support.models.covering_models import Model
from tests.support.reports.p_values import ALARM, all_above, rank_of, uniform_by_name

SCALE = 0.6  # of the standard deviation's half-Cauchy prior
DRAWS = 63


def surface_of(model):
    """Put the training rows at places, of which two share one and one has none."""
    points = np.random.default_rng(5).uniform(0, [[3.0], [2.0]], (2, model.num_rows))
    points[:, 1] = points[:, 0]
    surface = Surface.over(("a", "b"), (0, 1), points, SCALE)
    points[0, 2] = np.nan
    return SpatialTraining(surface, surface.of(points), np.arange(model.num_rows))


def draw_surface(own, rng):
    """Draw figures and terms from the prior: of waves, and of rows without a place."""
    low, high = np.arctan([SMALLEST, LARGEST])
    sd, reach = SCALE * np.tan(rng.uniform(low, high)), 0.0
    while not SHORTEST < reach < LONGEST:
        reach = TYPICAL * np.exp(SPREAD * rng.normal())
    roots = np.append(np.sqrt(shares(own.surface.squares, [reach])[0]), 1.0)
    return sd, reach, sd * roots * rng.normal(size=len(roots))


def at_rows(own, terms):
    """Return the surface at the rows."""
    return own.surface.waves(own.placed).T @ terms[:-1] + own.placed.missing * terms[-1]


def functions_of(model, trees, sigma2, sd, reach, surface, leaves):
    """Return the functions that are compared; those of the surface grow slowly, since sd has a heavy tail."""
    middle, height = trees - model.offset, np.arcsinh(surface / SCALE)
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


def prior_draw(model, own, rng):
    """Return the functions at an independent draw from the prior, made by the plain twins."""
    forest, sigma2 = model.draw(rng)
    sd, reach, terms = draw_surface(own, rng)
    leaves = [tree.num_leaves for tree in forest.trees]
    return functions_of(model, forest.f[: model.num_rows], sigma2, sd, reach, at_rows(own, terms), leaves)


def joint(rounds, draws, options):
    """Return the p-values of Geweke's test by function."""
    model = Model("spatial", num_rows=24, num_trees=3, missing=0.1, **options)
    rng = np.random.default_rng(7)
    own = surface_of(model)
    prior = [prior_draw(model, own, rng) for _ in range(draws)]
    y = model.outcome(np.zeros(model.num_rows), 1.0, rng)
    data = model.training(y, **ENDLESS, seed=3)
    chain = Chain.start(replace(data, parts={"spatial": own}), 0)

    def observe(chain):
        f, sigma2, scalars = f_of(chain), chain.sigma**2, chain._likelihood.outcome.scalars
        first = chain._likelihood.scalar_names.index("spatial_sd")
        sd, reach, *terms = scalars[first:-1]
        surface = at_rows(own, np.array(terms))
        sigma2 = 1.0 if model.family == "probit" else sigma2
        leaves = chain._forests[0].num_leaves
        values = functions_of(model, f - surface, sigma2, sd, reach, surface, leaves)
        return values, model.outcome(f, sigma2, rng)

    return keeps_joint_law(chain, prior, observe, rounds)


@pytest.mark.slow
@pytest.mark.parametrize("options", [{"weighted": True}], ids=str)
def test_joint(options):
    """Outcomes given the state, a sweep, and so on: functions of the state keep their prior law."""
    all_above(joint(9_000, 6_000, options), ALARM)


@pytest.mark.long
@pytest.mark.parametrize("options", [{}, {"weighted": True}, {"family": "probit"}], ids=str)
def test_joint_long(options):
    """Geweke's test of surfaces with many more draws."""
    all_above(joint(64_000, 60_000, options), ALARM)


def ranks_of(model, own, seed, rng):
    """Return the ranks of the truth among the draws of one replication, by name."""
    forest, sigma2 = model.draw(rng)
    sd, reach, terms = draw_surface(own, rng)
    surface = at_rows(own, terms)
    y = model.outcome(forest.f[: model.num_rows] + surface, sigma2, rng)
    data = model.training(y, num_draws=DRAWS, thin=12, num_burnin=300, seed=seed)
    chain = Chain.start(replace(data, parts={"spatial": own}), 0)
    chain.run(chain.iterations)
    scalars = chain.take().scalars
    each = np.stack([scalars[name] for name in wave_names()[:-1]], axis=1)
    drawn = np.array([at_rows(own, terms) for terms in each])
    return {
        "sd": rank_of(sd, scalars["spatial_sd"], rng),
        "range": rank_of(reach, scalars["spatial_range"], rng),
        "surface at a row": rank_of(surface[0], drawn[:, 0], rng),
        "difference of two": rank_of(surface[3] - surface[4], drawn[:, 3] - drawn[:, 4], rng),
    }


def calibrated(count, bins):
    """Return p-values of the ranks being uniform over replications."""
    model = Model("spatial", num_rows=60, num_trees=5)
    own, rng = surface_of(model), np.random.default_rng(11)
    ranks = [ranks_of(model, own, seed, rng) for seed in range(count)]
    return uniform_by_name(ranks, DRAWS, bins)


@pytest.mark.long
def test_calibrated_long():
    """Ranks of the truth are uniform over many replications."""
    all_above(calibrated(512, 16), ALARM)
