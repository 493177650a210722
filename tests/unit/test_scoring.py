"""Predictions by column for engines: the posterior's figures, in tables of every kind, also when pickled."""

import pickle

import narwhals as nw
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from bartserve import scoring
from bartserve.scoring import Scorer
from sampler import DataError, SettingsError, fit, fit_many
from tests.support.pickling_executor import PicklingExecutor

pytestmark = pytest.mark.usefixtures("all_kernels")

SHORT = {"num_trees": 10, "num_chains": 2, "num_burnin": 10, "num_draws": 8, "thin": 1, "progress": False}


def make_rows(count=30, seed=0):
    """Return rows with an id that is no feature, a number, and a category."""
    rng = np.random.default_rng(seed)
    town = rng.choice(["u", "v"], size=count)
    return pd.DataFrame({"id": np.arange(count), "age": rng.normal(size=count), "town": town})


@pytest.fixture(scope="module")
def posterior():
    """Return a posterior of numbers."""
    rows = make_rows()
    return fit(rows[["age", "town"]], (rows.age**2).rename("y"), **SHORT)


@pytest.fixture(autouse=True)
def _another_process():
    """Hold no model yet, as in a process that was sent a function."""
    scoring._held.clear()


def sent(scorer):
    """Send a scorer to a process that holds no model."""
    packed = pickle.dumps(scorer)
    scoring._held.clear()
    return pickle.loads(packed)


@pytest.mark.parametrize(
    "made",
    [
        lambda rows: rows,
        pl.from_pandas,
        pa.table,
        lambda rows: {name: rows[name].to_numpy() for name in rows},
    ],
    ids=["pandas", "polars", "pyarrow", "mapping"],
)
def test_a_table_gives_a_table_of_its_kind(posterior, made):
    """Figures are the posterior's, with kept columns and flags; a part without rows has the same columns."""
    rows = make_rows(20, 1)
    rows.loc[3, "town"] = "w"
    scorer = sent(Scorer(posterior, level=[0.5, 0.9], quantiles=0.1, keep=["id"]))
    table = made(rows)
    answer = scorer(table)
    assert type(answer) is type(table)
    frame = answer if isinstance(table, dict) else nw.from_native(answer)
    expected = posterior.predict(rows.drop(columns="id"), level=[0.5, 0.9], quantiles=0.1)
    np.testing.assert_array_equal(frame["mean"], expected.mean)
    np.testing.assert_array_equal(frame["upper_90"], expected.upper[1])
    np.testing.assert_array_equal(frame["id"], rows.id)
    assert list(frame["flags"])[3] == "unseen_level: town"
    names = ["mean", "sd", "lower_50", "upper_50", "lower_90", "upper_90", "quantile_10", "flags"]
    assert list(scorer.schema) == names
    assert list(frame if isinstance(table, dict) else frame.columns) == ["id", *names]
    nothing = scorer(made(rows.head(0)))
    if not isinstance(table, dict):
        assert dict(nw.from_native(nothing).schema) == dict(frame.schema)


def test_rows_of_pandas_keep_their_labels(posterior):
    """The index is that of the rows, and one table comes after another."""
    scorer = Scorer(posterior, keep=["id"])
    parts = [make_rows().iloc[[4, 9]], make_rows().iloc[[2]]]
    answers = list(scorer.batches(parts))
    assert [answer.index.tolist() for answer in answers] == [[4, 9], [2]]


def test_sparks_schema(posterior):
    """Added columns have Spark's types, and kept ones their own."""
    scorer = Scorer(posterior, keep=["id"])
    types = [("id", "bigint"), ("age", "double")]
    assert scorer.spark_schema(types) == (
        "`id` bigint, `mean` double, `sd` double, `lower_90` double, `upper_90` double, `flags` string"
    )
    with pytest.raises(DataError, match="no column 'id'"):
        scorer.spark_schema()


def test_sets_of_classes_are_columns_of_booleans():
    """Calibrated classes have prediction sets; each class has its columns."""
    rows = make_rows(90)
    classes = pd.Series(np.resize(["a", "b", "c"], 90), name="y")
    model = fit(rows[["age", "town"]], classes, family="categorical", calibrate="holdout", **SHORT)
    scorer = Scorer(model, interval="calibrated", level=0.6)
    assert scorer.schema["set_60_b"] == "bool"
    assert "`set_60_b` boolean" in scorer.spark_schema()
    assert scorer(rows)["mean_a"].between(0, 1).all()


def test_a_file_may_be_shared_and_a_folder_routes_rows(posterior, tmp_path):
    """A shared file is not sent along; rows of groups without a model are flagged."""
    posterior.save(tmp_path / "model.bart")
    there = Scorer(tmp_path / "model.bart", shared=True)
    assert len(pickle.dumps(there)) < 2000 < len(pickle.dumps(Scorer(tmp_path / "model.bart")))
    pd.testing.assert_frame_equal(sent(there)(make_rows()), Scorer(posterior)(make_rows()))
    table = make_rows().assign(y=lambda rows: rows.age**2)
    models = fit_many(
        table.drop(columns="id"),
        by="town",
        target="y",
        folder=tmp_path / "towns",
        executor=PicklingExecutor(),
        **SHORT,
    )
    rows = make_rows(5, 2).assign(town=["u", "x", "v", "v", "u"])
    answer = sent(Scorer(tmp_path / "towns", keep=["id"]))(rows)
    np.testing.assert_array_equal(answer["mean"][[0]], models["u"].predict({"age": rows.age[:1]}).mean)
    assert answer["flags"][1] == "unknown_group: town"
    assert np.isnan(answer["mean"][1])


def test_what_is_no_model_and_what_a_table_lacks(posterior, tmp_path):
    """They are refused by name."""
    with pytest.raises(SettingsError, match=r"nothing\.bart is none"):
        Scorer(tmp_path / "nothing.bart")
    with pytest.raises(SettingsError, match="calibrat"):
        Scorer(posterior, interval="calibrated")
    with pytest.raises(DataError, match="no column 'key'"):
        Scorer(posterior, keep=["key"])(make_rows())
    with pytest.raises(DataError, match="town"):
        Scorer(posterior)(make_rows().drop(columns="town"))


def test_a_process_holds_few_models(posterior):
    """The one that was not used for the longest goes first."""
    for trees in range(2, 8):
        rows = make_rows()
        Scorer(fit(rows[["age"]], (rows.age**2).rename("y"), **SHORT | {"num_trees": trees}))
    assert len(scoring._held) == scoring.MODELS_HELD


def test_sql_gives_the_figures_of_predict(posterior):
    """DuckDB predicts rows by the models that they name, in any batch, and NULL where there is no row."""
    duckdb = pytest.importorskip("duckdb")
    from bartserve.duckdb import register

    rows = make_rows(5000, 1)
    rows.loc[::7, ["age", "town"]] = None
    other = fit(rows[["age", "town"]][1:40], rows.age[1:40].abs().fillna(0).rename("y"), seed=2, **SHORT)
    columns = rows.drop(columns="id")
    expected = posterior.predict(columns), other.predict(columns)
    with duckdb.connect() as connection:
        connection.register("sent", rows)
        connection.execute("CREATE TYPE town AS ENUM ('u', 'v')")
        connection.execute("CREATE TABLE t AS SELECT * REPLACE (town::town AS town) FROM sent")
        register(connection, {"ours": posterior, "theirs": other})
        asked = "SELECT id, unnest(bart_predict('ours', t)) FROM t ORDER BY id"
        answer = connection.sql(asked).fetchnumpy()
        assert list(answer) == ["id", "mean", "sd", "lower_90", "upper_90", "flags"]
        np.testing.assert_array_equal(answer["mean"], expected[0].mean)
        np.testing.assert_array_equal(answer["upper_90"], expected[0].upper)
        named = "CASE id % 3 WHEN 0 THEN 'theirs' ELSE 'ours' END"
        mixed = connection.sql(f"SELECT bart_predict({named}, t).mean AS m FROM t ORDER BY id").fetchnumpy()
        chosen = np.where(rows.id % 3 == 0, expected[1].mean, expected[0].mean)
        np.testing.assert_array_equal(mixed["m"], chosen)
        some = "CASE id % 3 WHEN 0 THEN 'theirs' WHEN 1 THEN 'ours' END, CASE WHEN id % 5 > 0 THEN t END"
        there = (rows.id % 3 < 2) & (rows.id % 5 > 0)
        given = connection.sql(f"SELECT bart_predict({some}).mean AS m FROM t ORDER BY id").fetchnumpy()["m"]
        np.testing.assert_array_equal(given.mask, ~there)
        np.testing.assert_array_equal(given[there], chosen[there])
        for sql, message in {
            "bart_predict('hers', t)": "no model 'hers': it has ours, theirs",
            "bart_predict('ours', id)": "a table's name or a struct",
            "bart_predict('ours', {'age': age})": "town",
            "bart_predict('ours', {'age': 'old', 'town': town})": "age",
        }.items():
            with pytest.raises(duckdb.Error, match=message):
                connection.sql(f"SELECT {sql} FROM t").fetchall()
        for models, message in ({}, "name a model"), ({"a": posterior, "b": Scorer(other, level=0.5)}, "'b'"):
            with pytest.raises(SettingsError, match=message):
                register(connection, models)
