"""Soft trees: density, gradient and evidence equal formulas, differences and integrals."""

import numpy as np
import pytest
from scipy import integrate, special

from sampler.soft.kernels.density import densities, density
from sampler.soft.kernels.nuts import HEAD, SIZE, pack_model
from sampler.soft.kernels.vector_math import SATURATED
from tests.reference.soft_trees import (
    GOLDEN_CLASS,
    GOLDEN_X,
    GOLDEN_Y,
    make_room,
    make_rows,
    make_shape,
    memberships,
    slow_density,
)
from tests.support.open_kernels import vector_math

SHAPES = {
    "one": [1, 0, 0],
    "left": [1, 1, 0, 0, 0],
    "right": [1, 0, 1, 0, 0],
    "balanced": [1, 1, 0, 0, 1, 0, 0],
    "deep": [1, 1, 0, 1, 1, 0, 0, 0, 1, 0, 0],
}


def problem(classes, columns, rng, rows=30):
    x = rng.uniform(size=(rows, columns)).round(1)  # ties, some rows equal
    y = rng.integers(0, classes, rows) if classes else rng.normal(1, 2, rows)
    return x, y


@pytest.mark.parametrize("name", SHAPES)
@pytest.mark.parametrize("classes", [0, 2, 3])
@pytest.mark.parametrize("columns", [1, 2, 4])
@pytest.mark.parametrize("by_axis", [False, True])
@pytest.mark.sampled(quick=30)
def test_density_and_gradient(name, classes, columns, by_axis):
    """The kernel equals the plain formula, and its gradient the formula's central differences."""
    rng = np.random.default_rng([len(name), classes, columns])
    x, y = problem(classes, columns, rng)
    splits = sum(SHAPES[name])
    axis = rng.integers(0, columns, splits) if by_axis else None
    shape = make_shape(SHAPES[name], axis)
    law = {"mean": 0.5, "sd": 1.7, "sigma_shape": 2.0, "sigma_scale": 0.8, "concentration": 0.7}
    rows = make_rows(x, y, classes, **law)
    sticks = 0 if by_axis else splits * (columns - 1)
    u = rng.normal(size=splits + sticks + (0 if classes else splits + 2))
    slope, room = np.full(len(u), np.nan), make_room(rows, shape)
    for width in (0.3, 0.05):
        value = density(rows, shape, width, u, slope, room)

        def slow(point, width=width):
            return slow_density(x, y, classes, shape, width, point, **law)

        assert value == pytest.approx(slow(u), abs=1e-9)
        step = 1e-6
        differences = [
            (slow(u + step * unit) - slow(u - step * unit)) / (2 * step) for unit in np.eye(len(u))
        ]
        np.testing.assert_allclose(slope, differences, rtol=1e-5, atol=2e-5)


@pytest.mark.parametrize("classes", [0, 3])
def test_padding_and_values_alone(classes):
    """Rows of weight zero change nothing; the density is equal when no gradient is requested."""
    rng = np.random.default_rng(classes)
    x, y = problem(classes, 3, rng, rows=21)
    shape, rows = make_shape(SHAPES["balanced"]), make_rows(x, y, classes)
    padded = rows._replace(
        x=np.concatenate([rows.x, rows.x[:, -3:]], axis=1),
        count=np.pad(rows.count, ((0, 0), (0, 3))),
        mean=np.pad(rows.mean, (0, 3)),
    )
    points = rng.normal(size=(5, 9 + (0 if classes else 5)))
    alone, slope, other = np.empty(5), np.empty(points.shape[1]), np.empty(points.shape[1])
    densities(padded, shape, 0.1, points, make_room(padded, shape), np.empty(points.shape[1]), alone)
    for u, value in zip(points, alone, strict=True):
        with_padding = density(rows, shape, 0.1, u, slope, make_room(rows, shape))
        assert density(padded, shape, 0.1, u, other, make_room(padded, shape)) == pytest.approx(with_padding)
        np.testing.assert_allclose(other, slope, rtol=1e-9, atol=1e-9)
        assert value == pytest.approx(with_padding)


def test_arrays_of_rows_begin_at_cache_lines():
    """Arrays over rows begin at cache lines, in the workspace and in the library's buffer."""
    x, y = problem(0, 2, np.random.default_rng(1), rows=24)
    x[:, 0] = np.arange(24) / 24  # all rows distinct: whole registers without padding
    shape, rows = make_shape(SHAPES["balanced"]), make_rows(x, y)
    room = make_room(rows, shape)
    assert all(part.ctypes.data % 64 == 0 for part in (room.right, room.left, room.flow, room.below))
    for _ in range(5):
        buffer = pack_model(rows, shape, 0.1)
        assert buffer.ctypes.data % 64 == 0
        np.testing.assert_array_equal(buffer[HEAD : HEAD + 48], rows.x.reshape(-1))
        assert buffer[SIZE] == len(buffer)


@pytest.mark.parametrize("classes", [0, 3])
def test_sharp_splits(classes):
    """With sharp splits and thresholds between rows, the plain formula has an equal density."""
    rng = np.random.default_rng(classes)
    x, y = problem(classes, 2, rng)
    shape, rows = make_shape(SHAPES["deep"]), make_rows(x, y, classes)
    room = make_room(rows, shape)
    for _ in range(20):
        u = rng.normal(size=10 + (0 if classes else 7))
        value = density(rows, shape, 0.004, u, np.empty(len(u)), room)
        assert value == pytest.approx(slow_density(x, y, classes, shape, 0.004, u), rel=1e-12, abs=1e-9)


def test_without_likelihood_it_is_the_prior():
    """Without likelihood the outcomes don't matter and the density integrates to one."""
    x, y = problem(0, 1, np.random.default_rng(3))
    shape = make_shape([1, 0, 0])
    rows = make_rows(x, y, likelihood=False)
    room, slope = make_room(rows, shape), np.zeros(4)

    def part(u0, s):
        return np.exp(density(rows, shape, 0.1, np.array([u0, 0.0, 0.0, s]), slope, room))

    integral = integrate.dblquad(part, -12, 12, -30, 30, epsabs=1e-10)[
        0
    ]  # means at their mode, twice 1/sqrt(2 pi)
    assert integral * 2 * np.pi == pytest.approx(1, rel=1e-5)


def test_digamma():
    """Digamma equals the derivative of the log gamma function for small and large arguments."""
    at = np.concatenate([np.geomspace(1e-3, 10, 50), [50.0, 1e4]])
    np.testing.assert_allclose(
        [vector_math.digamma(x) for x in at], special.digamma(at), rtol=1e-11, atol=1e-11
    )


def test_exp_of_negative():
    """The exponential is within two machine epsilons of the library's and is exactly one at zero."""
    at = -np.concatenate([np.linspace(0, 3, 3001), np.geomspace(1e-300, SATURATED, 3001)])
    values = np.array([vector_math.exp_of_negative(x) for x in at])
    np.testing.assert_allclose(values, np.exp(at), rtol=2.3e-16 * 2, atol=0)
    assert vector_math.exp_of_negative(0.0) == 1


@pytest.mark.parametrize("n", [0, 1, 7, 8, 9, 30])
def test_sums(n):
    """Sums are right for whole registers and remainders."""
    one, other = np.random.default_rng(n).normal(size=(2, n))
    assert vector_math.dot(one, other) == pytest.approx(one @ other, abs=1e-13)
    assert vector_math.total_of(one) == pytest.approx(one.sum(), abs=1e-13)


def test_evidence_of_numbers():
    """One split has the golden evidence and mean threshold of docs/maths.md#tests."""
    shape, x = make_shape([1, 0, 0]), GOLDEN_X[:, None]
    rows = make_rows(x, GOLDEN_Y)
    room, slope = make_room(rows, shape), np.zeros(4)

    def integrand(u0, s):
        # the means are normal given the rest: Laplace's formula is exact
        share = memberships(x, shape, [special.expit(u0)], np.ones((1, 1)), 0.05)
        curvature = share.T @ share * np.exp(-2 * s) + np.eye(2)
        mean = np.linalg.solve(curvature, share.T @ GOLDEN_Y * np.exp(-2 * s))
        log = density(rows, shape, 0.05, np.array([u0, *mean, s]), slope, room)
        return np.exp(log) * 2 * np.pi / np.sqrt(np.linalg.det(curvature))

    grid_u, grid_s = np.linspace(-14, 14, 401), np.linspace(-3.5, 5, 49)
    table = np.array([[integrand(u0, s) for s in grid_s] for u0 in grid_u])
    weight = integrate.trapezoid(table, grid_s, axis=1)
    total = integrate.trapezoid(weight, grid_u)
    assert np.log(total) == pytest.approx(-7.2565562, abs=1e-5)
    mean = integrate.trapezoid(weight * special.expit(grid_u), grid_u) / total
    assert mean == pytest.approx(0.502766, abs=1e-5)


def test_evidence_of_classes():
    """One split over two classes has the golden evidence (docs/maths.md#tests)."""
    shape = make_shape([1, 0, 0])
    rows = make_rows(GOLDEN_X[:, None], GOLDEN_CLASS, classes=2)
    room, slope = make_room(rows, shape), np.zeros(1)

    def integrand(u0):
        return np.exp(density(rows, shape, 0.05, np.array([u0]), slope, room))

    total = integrate.quad(integrand, -30, 30, points=[-3, -1, 0, 1, 3], limit=500, epsabs=1e-12)[0]
    assert np.log(total) == pytest.approx(-4.3394785, abs=1e-6)


def test_hard_limit():
    """The likelihood of classes approaches the hard tree's as splits sharpen."""
    x, y = problem(3, 1, np.random.default_rng(5))
    shape = make_shape([1, 0, 0])
    rows = make_rows(x, y, classes=3)
    value = density(rows, shape, 1e-6, np.array([0.1]), np.zeros(1), make_room(rows, shape))
    right = x[:, 0] > special.expit(0.1)
    expected = np.log(special.expit(0.1) * special.expit(-0.1))
    for side in (right, ~right):
        count = np.bincount(y[side], minlength=3)
        expected += special.gammaln(3) + special.gammaln(count + 1).sum() - special.gammaln(count.sum() + 3)
    assert value == pytest.approx(expected, abs=1e-9)
