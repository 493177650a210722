"""No kernel accesses memory outside its arrays, for all moves, families and tree sizes."""

import os
import subprocess
import sys
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from numba import njit

from sampler.bart.chain import Chain
from sampler.kernels import rows
from sampler.kernels.rows import find_examples
from sampler.posterior.assessment.diagnostics import depths
from sampler.posterior.core.intervals import AlikeNoise, IntervalFigures, Lines, Request
from sampler.posterior.kernels.moments import add_lines
from sampler.posterior.kernels.usage import count_rows
from sampler.posterior.laws.count_law import CountLaw
from sampler.posterior.weighting.mixture_noise import Mixture
from sampler.posterior.weighting.student_noise import GRID, Student
from sampler.preparation.quick_regression import held_out_residuals
from sampler.storage.draw_codec import pack, unpack
from sampler.trees.soft.draws import SoftDraws
from sampler.trees.soft.law import SoftEnsemble
from tests.support import fit_digests
from tests.support.chain_driver import mixes
from tests.support.chain_driver import wide_training as wide
from tests.support.models.covering_models import COVERING, Model
from tests.support.models.random_forests import random_draws
from tests.support.models.random_posteriors import make_posterior

DEEP = {
    "name": "deep trees",
    "num_rows": 130,
    "num_trees": 3,
    "alpha": 0.99,
    "beta": 0.1,
    "levels": (40, 3, 250, 9),
}


def exercise():
    """Run chains of every kind, resumed on the way; print the largest number of leaves of a tree."""
    most = 0
    for moves in mixes():
        for options in [
            *COVERING,
            DEEP,
            DEEP | {"weighted": True},
            DEEP | {"family": "probit", "missing": 0.2},
        ]:
            model, rng = Model(**options, moves=moves), np.random.default_rng(6)
            forest, sigma2 = model.draw(rng)
            data = model.training(model.outcome(forest.f, sigma2, rng), num_draws=100, thin=8, seed=2)
            most = max(most, go(data, 4))
        most = max(most, go(wide(moves), 2))
    print(f"most leaves {most}")


def answer():
    """Ask a posterior of random trees what goes down them; then show that a fault would be found."""
    posterior, X, chains = make_posterior()
    for size in (1, 5, 80):
        rows = {name: values[:size] for name, values in X.items()}
        posterior.predict(rows, level=[0.5, 0.9], quantiles=[0.1])
        for game in ("interventional", "path-dependent"):
            posterior.shap(rows, X, game=game)
    posterior.inclusion(by="rows", X=X)
    posterior.interactions(["x1", "c"], X)
    draws, codes = chains[0], posterior.encode(X).codes
    count, scratch = np.zeros((draws.num_draws, 1), np.int64), np.zeros((2, draws.num_nodes), np.int64)
    arrays = (draws.feature, draws.cut, draws.missing_left, np.zeros(1, np.int64))
    with pytest.raises(IndexError):
        count_rows(draws.tree_start, draws.num_trees, *arrays, codes, scratch, count)
    print("a planted fault was found")


def answer_by_parts():
    """Call the other kernels of answers, of files and of a fit's preparation, each with little."""
    rng, levels = np.random.default_rng(1), np.array([0.01, 0.5, 0.99])
    mean, structural = np.exp(rng.normal(2, 3, (6, 5))), rng.uniform(size=(6, 5))
    y = np.array([0.0, 1.0, 40.0, 3000.0, 2.0, 7.0])
    for dispersion in (None, rng.uniform(0.1, 20, 5)):
        for zeros in (None, structural):
            law = CountLaw(mean, dispersion, zeros)
            law.quantiles(levels)
            law.crps(y)
    z = np.array([[-np.inf, -40.0, 0.1, np.nan, 37.999, 38.0, 1e300, np.inf]]).T
    shares, ends = rng.dirichlet(np.ones(3), 4).T, rng.uniform(0.5, 2, (3, 4))
    for shape in (
        Mixture.of(np.array([shares, rng.normal(size=(3, 4)), ends])),
        Student(GRID[[0, 3, 5, -1]]),
    ):
        shape.below(z + np.zeros(4))
        shape.scaled_density(z + np.zeros(4))
    for size, grow in ((1, 0.45), (30, 0.45), (5, 0.7)):
        draws = random_draws(size, size, grow=grow, leaf_sd=3e8)
        assert unpack(pack(draws)) == draws
        assert depths(draws).max() > 0 or size == 1
        values = rng.normal(size=(size, 2))
        sums = rng.integers(-90, 90, (size, 70), dtype=np.int32)
        terms = rng.normal(size=(2, 70))
        request = Request.check([0.5, 0.99], "predictive", None)
        noise = AlikeNoise(rng.uniform(0.5, 2, size), 0.0, 0.1)
        IntervalFigures((70,), request).fill_lines(slice(None), sums, Lines(values, terms), noise)
        add_lines(sums.astype(float), values, terms)
        soft_draws(rng, size)
    codes = rng.integers(0, 256, (2, 33), dtype=np.uint8)
    for outcomes in (rng.normal(size=33), np.full(33, np.nan)):
        held_out_residuals(codes, None, outcomes, np.ones(33))
    find_examples(codes[0], 33, np.empty((256, 8), np.int32))
    print("all answered")


def soft_draws(rng, size):
    """Predict with random soft trees, one in each draw, of up to five splits."""
    shapes = [[False], [True, False, False], [True, True, False, True, False, False, False]]
    trees = [shapes[number % 3] for number in range(size)]
    is_split = np.array([node for tree in trees for node in tree])
    splits, leaves = int(is_split.sum()), int((~is_split).sum())
    draws = SoftDraws.from_parts(
        num_trees=1, sharpness=0.1, sigma=np.ones(size), log_weight=np.zeros(size), is_split=is_split,
        threshold=rng.uniform(size=splits), direction=rng.dirichlet(np.ones(3), splits),
        value=rng.normal(size=(leaves, 2)),
    )  # fmt: skip
    SoftEnsemble(draws, 3).values(rng.uniform(size=(4, 3)), np.arange(size))


def fits():
    """Fit every kind of model shortly, by every method, and predict."""
    for case in fit_digests.CASES:
        with TemporaryDirectory() as folder:
            fit_digests.digests(case, Path(folder))
    print("all fitted")


def go(data, pieces):
    """Run one chain in pieces, each resumed from a checkpoint."""
    chain = Chain.start(data, 0)
    for _ in range(pieces):
        chain.run(chain.iterations // pieces)
        chain.take()
        chain = Chain.resume(data, chain.checkpoint())
    return int(chain._forests[0].num_leaves.max())


def checked_run(function, folder):
    """Run a function of this module with bounds checks in every kernel; return what it prints."""
    code = f"from tests.statistical.test_bounds import {function} as run; run()"
    environment = os.environ | {"NUMBA_BOUNDSCHECK": "1", "XDG_CACHE_HOME": str(folder)}
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    # one in a move called by address is only printed
    assert "IndexError" not in done.stderr, done.stderr[-2000:]
    return done.stdout


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_bounds(tmp_path):
    """numba's bounds checks find no fault, also in trees of more than 256 leaves."""
    assert int(checked_run("exercise", tmp_path).split()[-1]) > 256


@pytest.mark.long
@pytest.mark.timeout(3600)
def test_fits_stay_within_bounds(tmp_path):
    """Kernels of every method and family stay within their arrays."""
    assert "all fitted" in checked_run("fits", tmp_path)


@pytest.mark.long
@pytest.mark.timeout(900)
def test_answers_stay_within_bounds(tmp_path):
    """Kernels of answers stay within their arrays, whatever reaches them; a planted fault is detected."""
    assert "found" in checked_run("answer", tmp_path)
    assert "all answered" in checked_run("answer_by_parts", tmp_path)


def test_passes_stay_within_bounds():
    """Passes over rows stay within their arrays under numba's checks, which detect a planted fault."""
    rng = np.random.default_rng(3)
    for n in (1, 2, 63, 64, 65, 500):
        slots, column = rng.integers(0, 4, n).astype(np.uint8), rng.integers(0, 256, n).astype(np.uint8)
        for leaf in range(5):
            checked("code_range")(slots, column, np.uint8(leaf))
            checked("splittable")(
                column[None], slots, np.uint8(leaf), n, column, np.uint8(9), np.uint8(1), True
            )
        grown = slots.copy()
        checked("relabel_grown")(grown, column, np.uint8(2), np.uint8(10), np.uint8(1), np.uint8(4))
        checked("relabel_pruned")(grown, np.uint8(1), np.uint8(3), np.uint8(4))
        with pytest.raises(IndexError):
            checked("code_range")(slots, column[:-1], np.uint8(0))


@cache
def checked(name):
    """Return a kernel compiled with bounds checks."""
    return njit(boundscheck=True)(getattr(rows, name).py_func)
