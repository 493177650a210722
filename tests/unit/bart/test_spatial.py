"""A surface over two coordinates: its prior and exact law, resuming, files, places elsewhere, refusals."""

import numpy as np
import pytest

from sampler import fit, load
from sampler.bart.chain import Chain
from sampler.bart.kernels.steps import spatial as kernels
from sampler.data.spatial import PlacedRows, Surface, cosines, shares, sines, wave_names
from sampler.preparation import prepare
from sampler.training import SpatialTraining
from tests.reference.enumerator import log_sum
from tests.support.chain_driver import check_resuming, draws_of

BY = {"parts": {"spatial": ["east", "north"]}}
FAST = {"linear": False, "num_trees": 20, "num_chains": 2, "num_burnin": 60, "num_draws": 30, "thin": 1}
FAST |= {"progress": False, "seed": 1}


def rows(number=80, seed=0):
    """Two coordinates, a number and a category, and an outcome with a smooth surface."""
    rng = np.random.default_rng(seed)
    east, north = rng.uniform(200, 260, number), rng.uniform(-20, 20, number)
    x, e = rng.normal(size=(2, number))
    c = np.array(["low", "high"])[rng.integers(0, 2, number)]
    y = np.sin(x) + 3 * np.sin(east / 9) * np.cos(north / 12) + 0.3 * e
    return {"east": east, "north": north, "x": x, "c": c}, y


def surface_of(points, sd=1.0):
    """Lay a surface over points [2, row]."""
    return Surface.over(("a", "b"), (0, 1), points, sd)


def matern(points, sd, reach, unit):
    """Matérn's covariance of smoothness 5/2 between points [2, row]."""
    distance = np.sqrt(((points[:, :, None] - points[:, None]) ** 2).sum(axis=0)) / unit
    scaled = np.sqrt(5) * distance / reach
    return sd**2 * (1 + scaled + scaled**2 / 3) * np.exp(-scaled)


def test_sines_and_cosines_are_those_of_multiples():
    """They are right to the last digits of a double, at the ends too."""
    angle = np.linspace(0, np.pi, 300)
    k = np.arange(25)
    np.testing.assert_allclose(sines(angle, 24), np.sin(np.outer(angle, k[1:])), atol=2e-13)
    np.testing.assert_allclose(cosines(angle, 24), np.cos(np.outer(angle, k)), atol=2e-13)


@pytest.mark.parametrize(("reach", "most", "mean"), [(0.2, 0.2, 0.02), (0.4, 0.04, 0.002), (0.8, 0.25, 0.1)])
def test_the_prior_is_a_process_with_a_covariance_of_matern(reach, most, mean):
    """Amplitudes with the variances of the spectral density give the covariance between the rows, nearly."""
    points = np.random.default_rng(1).uniform(0, [[100], [70]], (2, 150))
    surface = surface_of(points)
    waves = surface.waves(surface.of(points))
    covariance = waves.T @ (shares(surface.squares, [reach])[0][:, None] * waves)
    exact = matern(points, 1.0, reach, surface.unit)
    assert np.abs(covariance - exact).max() < most
    assert np.abs(covariance - exact).mean() < mean


@pytest.fixture
def chain_part():
    """A chain's part of rows some of which lack a coordinate, with the dense terms of its rows."""
    X, y = rows(60)
    X["north"][[3, 17]] = np.nan
    data = prepare(X, y, **BY, linear=False, num_trees=1, num_chains=1).training
    own = data.part(SpatialTraining)
    waves = own.surface.waves(own.placed)[:, own.place]
    return data, np.concatenate([waves, own.placed.missing[own.place][None].astype(float)])


def test_products_of_waves_are_summed_by_their_cosines(chain_part):
    """The matrix of the transform is that of the terms, with weights."""
    data, terms = chain_part
    part = Chain.start(data, 0)._likelihood.parts["spatial"]._part
    weight = np.random.default_rng(2).uniform(1, 3, terms.shape[1])
    part.weight[:] = np.bincount(part.place, weight, len(part.weight))
    kernels.add_products(part)
    exact = (terms * weight) @ terms.T
    np.testing.assert_allclose(np.tril(part.gram), np.tril(exact), atol=1e-11)


def test_surfaces_have_their_conjugate_law():
    """Without trees, with weights and known noise: both figures and the surface, by integration on a grid."""
    rng = np.random.default_rng(3)
    points = rng.uniform(0, 1, (2, 40))
    weights = 1.0 + np.arange(40) % 3
    y = np.sin(4 * points[0]) + points[1] + 0.5 * rng.normal(size=40) / np.sqrt(weights)
    prior = {"sigma": 0.5, "leaf_sd": 1e-6, "step": 2.0**-18, "offset": 0.0}
    settings = {"num_trees": 1, "num_chains": 1, "num_burnin": 200, "num_draws": 1_500, "thin": 2}
    X = {"east": points[0], "north": points[1]}
    data = prepare(X, y, weights=weights, prior=prior, linear=False, **BY, **settings).training
    own = data.part(SpatialTraining)
    draws, surface = draws_of(data), own.surface
    waves = surface.waves(surface.of(points))
    log_sd = np.log(surface.sd) + np.linspace(np.log(kernels.SMALLEST), np.log(kernels.LARGEST), 61)[25:]
    log_reach = np.linspace(np.log(kernels.SHORTEST), np.log(kernels.LONGEST), 16)
    noise, law, means = np.diag(0.25 / weights), [], []
    for reach in np.exp(log_reach):
        unit = waves.T @ (shares(surface.squares, [reach])[0][:, None] * waves)
        for sd in np.exp(log_sd):
            covariance = sd**2 * unit + noise
            solved = np.linalg.solve(covariance, y)
            share, away = sd / surface.sd, np.log(reach / kernels.TYPICAL) / kernels.SPREAD
            log_prior = np.log(share) - np.log1p(share**2) - away**2 / 2
            law.append(log_prior - (np.linalg.slogdet(covariance)[1] + y @ solved) / 2)
            means.append(sd**2 * unit @ solved)
    law = np.exp(np.array(law) - log_sum(np.array(law)))
    by_reach = law.reshape(len(log_reach), -1)
    assert np.log(draws.scalars["spatial_range"]).mean() == pytest.approx(
        by_reach.sum(1) @ log_reach, abs=0.06
    )
    assert np.log(draws.scalars["spatial_sd"]).mean() == pytest.approx(by_reach.sum(0) @ log_sd, abs=0.06)
    drawn = np.stack([draws.scalars[name] for name in wave_names()[:-2]], axis=1) @ waves
    np.testing.assert_allclose(drawn.mean(axis=0), law @ np.array(means), atol=0.03)


@pytest.mark.parametrize(
    "settings",
    [{}, {"noise": "forest", "linear": True}, {"family": "probit"}, {"groups": "c"}, {"event": True}],
    ids=str,
)
def test_a_chain_resumes_bit_for_bit(settings):
    """From a checkpoint after any iteration, beside whatever else is drawn, with rows without a place."""
    X, y = rows()
    X["east"][5] = np.nan
    short = {"num_trees": 7, "num_chains": 1, "num_burnin": 8, "num_draws": 6, "thin": 1} | settings
    weights = None if {"family", "event"} & settings.keys() else 1.0 + np.arange(80) % 2
    outcome = (y > 0).astype(float) if "family" in settings else np.exp(y)
    if "event" in settings:
        short["event"] = np.arange(80) % 3 > 0
    check_resuming(prepare(X, outcome, weights=weights, **BY, **short).training)


@pytest.fixture(scope="module")
def fitted():
    """A model with a surface."""
    X, y = rows(300)
    return fit(X, y, **BY, **FAST)


def test_the_surface_is_learnt_and_kept(fitted, tmp_path):
    """New rows between the old are near the truth, nearer than trees come; the same from a file."""
    X, y = rows(300)
    new, truth = rows(100, seed=9)
    error = np.std(fitted.predict(new).mean - truth)
    assert error < 0.7 * np.std(fit(X, y, **FAST).predict(new).mean - truth)
    fitted.save(tmp_path / "model.bart")
    again = load(tmp_path / "model.bart")
    np.testing.assert_array_equal(again.sample(new), fitted.sample(new))
    one = {name: values[7:8] for name, values in new.items()}
    np.testing.assert_array_equal(again.sample(one)[..., 0], fitted.sample(new)[..., 7])
    assert "smooth surface over east and north" in again.model_card().to_markdown()


def test_of_places_elsewhere_the_prior_is_known(fitted):
    """Far away, and without a coordinate, the surface's variance is that of the prior, draw by draw."""
    at = {"x": [0.0] * 4, "c": ["low"] * 4, "north": [0.0] * 4}
    f = fitted.sample({**at, "east": [230.0, 259.0, 500.0, None]}).reshape(-1, 4)
    part = fitted.law.parts[0]
    sd = part.figures[:, 0]
    assert f[:, 0].std() < 0.5 < 1 < f[:, 2].std()
    edges = fitted.sample({**at, "east": [260.0, 500.0, 900.0, -900.0]}).reshape(-1, 4)
    far = part.amplitudes[:, -1]
    assert np.corrcoef(edges[:, 1] - edges[:, 0], far)[0, 1] > 0.3
    np.testing.assert_allclose(edges[:, 1], edges[:, 2], atol=1e-9)
    missing = part.amplitudes[:, -2]
    assert abs(np.mean((missing / sd) ** 2) - 1) < 0.7
    assert np.corrcoef(f[:, 3], missing)[0, 1] > 0.9


def test_a_feature_beside_coordinates_may_be_monotone():
    """Only along a coordinate would the surface break the order."""
    X, y = rows()
    assert prepare(X, y, monotone={"x": "increasing"}, **BY).schema


def test_a_header_with_an_impossible_surface_is_no_model():
    """A surface of columns that don't exist, without extent, or out of range is refused."""
    points = np.random.default_rng(1).uniform(size=(2, 30))
    prepared = prepare({"east": points[0], "north": points[1]}, points[0], **BY)
    schema, stored = prepared.schema, surface_of(points).to_json() | {"columns": ["east", "north"]}
    assert Surface.from_json(stored, schema, (2, 5)).numbers.shape == (2, 100)
    for wrong in (
        {"places": [0, 2]}, {"places": [1, 0]}, {"half": [0.0, 1.0]}, {"centre": [np.nan, 0.0]}, {"sd": 0.0},
        {"half": [1.0]},
    ):  # fmt: skip
        with pytest.raises((ValueError, KeyError, TypeError)):
            Surface.from_json(stored | wrong, schema, (2, 5))


def test_rows_are_placed_alone():
    """A row's place doesn't depend on the others."""
    points = np.random.default_rng(1).uniform(size=(2, 30))
    surface = surface_of(points)
    whole, one = surface.of(points), surface.of(points[:, 4:5])
    for a, b in zip(PlacedRows(*whole).take(np.array([4])), one, strict=True):
        np.testing.assert_array_equal(a, b)
