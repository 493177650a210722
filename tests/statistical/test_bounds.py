"""No kernel accesses memory outside its arrays, for all moves, families and tree sizes."""

import os
import subprocess
import sys
from functools import cache

import numpy as np
import pytest
from numba import njit

from sampler.bart.chain import Chain
from sampler.kernels import rows
from sampler.posterior.kernels.usage import count_rows
from tests.support.chain_driver import mixes
from tests.support.chain_driver import wide_training as wide
from tests.support.models.covering_models import COVERING, Model
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


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_answers_stay_within_bounds(tmp_path):
    """Kernels that go down stored trees stay within their arrays; a planted fault is detected."""
    assert "found" in checked_run("answer", tmp_path)


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
