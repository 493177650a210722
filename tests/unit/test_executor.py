"""Fits, tuning and selection in an executor: the same bits, tasks of its own, and what is refused."""

import os
import signal
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

import numpy as np
import pytest

from sampler import DataError, SettingsError, fit, select_features, tune
from tests.support.pickling_executor import PicklingExecutor

pytestmark = pytest.mark.usefixtures("all_kernels")

SHORT = {"num_trees": 10, "num_chains": 3, "num_burnin": 10, "num_draws": 8, "thin": 1, "progress": False}


def rows(count=60, seed=0):
    """Return rows with a category, and outcomes."""
    rng = np.random.default_rng(seed)
    table = {"a": rng.normal(size=count), "kind": rng.choice(["u", "v"], size=count).tolist()}
    return table, table["a"] + rng.normal(size=count)


@pytest.mark.parametrize(
    "settings",
    [
        {"noise": "forest", "linear": True},
        {"method": "bcart", "num_trees": None},
        {"method": "smc", "num_trees": None, "num_burnin": None, "thin": None},
        {"calibrate": "folds"},
    ],
    ids=["forest", "bcart", "smc", "folds"],
)
def test_chains_in_an_executor_give_the_same_model(settings):
    """Its file is the same to the last bit, the states from which it continues too; a chain is a task."""
    X, y = rows()
    settings = {name: value for name, value in (SHORT | settings).items() if value is not None}
    elsewhere = PicklingExecutor()
    model = fit(X, y, executor=elsewhere, **settings)
    assert model.to_bytes() == fit(X, y, **settings).to_bytes()
    assert elsewhere.tasks == ["run_chain"] * 3 * (6 if "calibrate" in settings else 1)


def test_such_a_fit_is_continued_as_any_other():
    """Further draws equal those of the fit in threads."""
    X, y = rows()
    model = fit(X, y, executor=PicklingExecutor(), **SHORT)
    assert model.extend(4, progress=False).to_bytes() == fit(X, y, **SHORT).extend(4).to_bytes()


def test_tuning_and_selection_in_an_executor():
    """Candidates' folds and permutations are its tasks, with the same figures."""
    X, y = rows()
    short = {name: SHORT[name] for name in ("num_trees", "num_burnin", "num_draws")} | {"num_chains": 1}
    elsewhere = PicklingExecutor()
    options = {"candidates": [{}, {"transform": "log"}], "folds": 2, **short}
    there, here = (tune(X, y, executor=each, **options) for each in (elsewhere, None))
    assert [trial.log_score for trial in there.trials] == [trial.log_score for trial in here.trials]
    assert "positive outcomes" in there.trials[1].refused
    assert elsewhere.tasks == ["score_fold"] * 4
    options = {"num_permutations": 20, **short}
    there, here = (select_features(X, y, executor=each, **options) for each in (elsewhere, None))
    np.testing.assert_array_equal(there.null, here.null)


def test_what_is_no_executor_is_refused():
    """So are threads beside one; and an error of a chain is the fit's."""
    X, y = rows()
    with pytest.raises(SettingsError, match=r"concurrent.futures.*not int") as caught:
        fit(X, y, executor=4, **SHORT)
    assert caught.value.field == "executor"
    with pytest.raises(SettingsError, match="leave it out"):
        fit(X, y, executor=PicklingExecutor(), num_threads=2, **SHORT)
    with pytest.raises(DataError, match="missing"):
        fit(X, [None, *y[1:]], executor=PicklingExecutor(), **SHORT)


@pytest.mark.slow
def test_real_processes_give_the_same_model():
    """A fit in started processes equals that in threads; one that is killed ends the fit with an error."""
    X, y = rows()
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as pool:
        assert fit(X, y, executor=pool, **SHORT).to_bytes() == fit(X, y, **SHORT).to_bytes()
        pool.submit(os.kill, next(iter(pool._processes)), signal.SIGKILL)
        with pytest.raises(RuntimeError, match="terminated abruptly"):
            fit(X, y, executor=pool, **SHORT | {"num_draws": 4000, "num_chains": 8})
