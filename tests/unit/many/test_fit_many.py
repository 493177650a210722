"""Models by group: the same bits as single fits, failures, resumption, predictions routed by group."""

import os
import signal
import threading
import time
from multiprocessing import active_children

import numpy as np
import pandas as pd
import pytest

from sampler import DataError, DataWarning, SettingsError, fit, fit_many, load_many
from sampler.many.folder import INDEX
from sampler.many.grouping import group_meant
from tests.support.pickling_executor import PicklingExecutor

SHORT = {"num_trees": 10, "num_chains": 2, "num_burnin": 10, "num_draws": 8, "thin": 1}
OPTIONS = {"by": "shop", "target": "sales", "progress": False, **SHORT}


def shops(seed=0):
    """Return rows of three shops in random order, with a category, weights and dates."""
    rng = np.random.default_rng(seed)
    table = pd.DataFrame(
        {
            "shop": rng.permutation(np.repeat([30, 4, 100], [50, 40, 30])),
            "price": rng.normal(size=120),
            "kind": pd.Categorical(rng.choice(["u", "v"], size=120), categories=["v", "u", "w"]),
            "sure": rng.uniform(1, 2, size=120),
        }
    )
    return table.assign(sales=table.price + table.shop + rng.normal(size=120))


@pytest.fixture(scope="module")
def models():
    """Return the models of the shops, fitted with weights."""
    return fit_many(shops(), executor=PicklingExecutor(), weights="sure", **OPTIONS)


def of_shop(table, shop):
    """Return the rows of a shop, without the column that names it."""
    return table[table.shop == shop].drop(columns="shop")


def test_each_model_is_that_of_a_fit_to_its_rows(models):
    """Its bits are the same; groups are found by any spelling, in the order of the data."""
    table = shops()
    for shop in (30, 4, 100):
        rows = of_shop(table, shop)
        alone = fit(rows, rows.sales, rows.sure, progress=False, **SHORT)
        assert models[shop].to_bytes() == alone.to_bytes()
    assert [*models] == [str(shop) for shop in table.shop.unique()]
    assert 30 in models
    assert "30" in models
    assert 7 not in models
    summary = models.to_pandas()
    assert summary["rows"].tolist() == table.groupby("shop", sort=False).size().tolist()
    assert {*summary.verdict} <= {"converged", "approximate", "not_converged"}
    with pytest.raises(KeyError, match="shop 7 has no model: it is none of the groups"):
        models[7]


def test_rows_are_predicted_by_the_model_of_their_group(models):
    """Predictions are in the order of the rows, with their labels, whatever the groups' order."""
    rows = shops(1).sample(20, random_state=0)
    answer = models.predict(rows, level=[0.5, 0.9], quantiles=0.1)
    assert len(answer) == 20
    for shop in (30, 4):
        here = (rows.shop == shop).to_numpy()
        alone = models[shop].predict(of_shop(rows, shop), level=[0.5, 0.9], quantiles=0.1)
        np.testing.assert_array_equal(answer.mean[here], alone.mean)
        np.testing.assert_array_equal(answer.upper[:, here], alone.upper)
        np.testing.assert_array_equal(answer.quantiles[0][1][here], alone.quantiles[0][1])
    assert answer.to_pandas().index.equals(rows.index)
    assert answer.warnings[0] == "not used by the model: sure, sales"


def test_a_key_means_a_group_as_a_text_means_a_level(models):
    """Blanks around it, another spelling of a number and other codes of its letters don't count."""
    rows = shops(1).head(4)
    asked = [
        models.predict(rows.assign(shop=keys)) for keys in (["30", "4", "30", "4"], [" 30", "4.0", "30 ", 4])
    ]
    np.testing.assert_array_equal(asked[0].mean, asked[1].mean)
    assert "30.0 " in models
    assert models[" 4"].to_bytes() == models[4].to_bytes()
    known = [("caf\u00e9", "1"), ("tea", "2"), ("Tea", "2")]
    assert group_meant(("cafe\u0301 ", "1.0"), known) == known[0]
    for none in (("tea", "1"), ("TEA", "2"), ("caf", "1")):
        assert group_meant(none, known) == none


def test_rows_of_unknown_groups(models):
    """They are refused with their names, or predicted as missing with a flag."""
    rows = shops(1).head(6).assign(shop=[30, 7, 4, 9, 7, 30])
    with pytest.raises(DataError, match=r"row 2: no model for shop '7'; shop '9' \(3 rows\): leave"):
        models.predict(rows)
    answer = models.predict(rows, unknown="flag")
    assert np.isnan(answer.mean).tolist() == [False, True, False, True, True, False]
    assert answer.flags[1] == [("shop", "unknown_group")]
    assert answer.warnings[0] == "no model for shop '7'; shop '9' (3 rows)"
    with pytest.raises(SettingsError, match="unknown must be"):
        models.predict(rows, unknown="skip")
    with pytest.raises(DataError, match=r"column 'price', row 1: .*number belongs \(shop '30'\)"):
        models.predict(rows.assign(price="cheap"), unknown="flag")


def test_a_failure_is_listed_and_the_others_go_on(tmp_path):
    """Models that are there are kept: the next call fits only what failed, what changed, and what is new."""
    table, elsewhere = shops(), PicklingExecutor()
    broken = table.assign(sales=table.sales.where(table.shop != 4))
    with pytest.warns(DataWarning, match="1 group of 3 could not be fitted"):
        some = fit_many(broken, executor=elsewhere, folder=tmp_path, **OPTIONS)
    assert len(some) == 2
    assert "target is missing" in some.failures["4"]
    assert some.to_pandas().failure.ne("").sum() == 1
    with pytest.raises(KeyError, match="target is missing"):
        some[4]
    assert len(elsewhere.tasks) == 3
    mended = fit_many(table, executor=elsewhere, folder=tmp_path, **OPTIONS)
    assert len(elsewhere.tasks) == 4
    assert mended[4].to_bytes() == fit_many(table, executor=PicklingExecutor(), **OPTIONS)[4].to_bytes()
    fit_many(
        table.assign(price=table.price.where(table.shop != 30, 0.0)),
        executor=elsewhere,
        folder=tmp_path,
        **OPTIONS,
    )
    assert len(elsewhere.tasks) == 5
    fit_many(table, executor=elsewhere, folder=tmp_path, **OPTIONS | {"num_draws": 9})
    assert len(elsewhere.tasks) == 8
    with (tmp_path / INDEX).open("a") as lines:
        lines.write('\n{"group": "5", "fi')  # a writer that ended
    fit_many(table.iloc[::-1], executor=elsewhere, folder=tmp_path, **OPTIONS | {"num_draws": 9})
    opened = load_many(tmp_path)
    assert [*opened] == [str(shop) for shop in table.shop[::-1].unique()]  # whichever ended first
    assert opened[4].num_draws == 9
    assert opened.facts["4"].rows == 40


def test_several_columns_tell_a_group():
    """Groups are tuples, with text beside numbers, booleans and dates."""
    table = shops().assign(sunday=lambda rows: rows.price > 0)
    found = fit_many(table, executor=PicklingExecutor(), **OPTIONS | {"by": ["shop", "sunday"]})
    rows = table[(table.shop == 30) & table.sunday].drop(columns=["shop", "sunday"])
    assert found[30, True].to_bytes() == fit(rows, rows.sales, progress=False, **SHORT).to_bytes()
    assert len(found) == 6
    assert found.to_pandas().columns.tolist()[:3] == ["shop", "sunday", "rows"]


def test_what_is_refused(tmp_path):
    """Unknown columns and settings, rows without a group, a fit that fails everywhere, a folder of others."""
    table, there = shops(), {"executor": PicklingExecutor()}
    for changed, message in [
        ({"by": "shops"}, "by: the table has no column 'shops'; did you mean shop"),
        ({"by": []}, "one to 4 different columns"),
        ({"target": "sale"}, "target must be the name of a column.*did you mean sales"),
        ({"weights": "shop"}, "weights must be the name of a column beside those of by"),
        ({"num_trees": 0}, "num_trees"),
    ]:
        with pytest.raises(SettingsError, match=message):
            fit_many(table, **OPTIONS | changed, **there)
    with pytest.raises(TypeError, match="no argument 'ntree'; did you mean num_trees"):
        fit_many(table, ntree=3, **OPTIONS, **there)
    with pytest.raises(DataError, match="column 'shop', row 2: no value here"):
        fit_many(table.assign(shop=table.shop.where(table.index != 1)), **OPTIONS, **there)
    with pytest.raises(SettingsError, match="no folder of models"):
        load_many(tmp_path)
    fit_many(table, folder=tmp_path, **OPTIONS, **there)
    with pytest.raises(SettingsError, match="has models of sales by shop"):
        fit_many(table, folder=tmp_path, **OPTIONS | {"target": "price"}, **there)


@pytest.mark.slow
def test_a_killed_process_costs_nothing_but_time():
    """Others are started, and all models are there."""
    killed = threading.Event()

    def kill_one() -> None:
        while not active_children():
            time.sleep(0.05)
        time.sleep(1.5)  # to have it fit some
        os.kill(active_children()[0].pid, signal.SIGKILL)
        killed.set()

    killer = threading.Thread(target=kill_one)
    killer.start()
    table = pd.concat([shops(seed).assign(shop=lambda rows, s=seed: rows.shop + s) for seed in range(3)])
    found = fit_many(table, num_processes=2, **OPTIONS)
    killer.join()
    assert killed.is_set()
    assert len(found) == table.shop.nunique()
    assert not found.failures
