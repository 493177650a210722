"""New rows come in many shapes; what is misspelt is answered with what was meant."""

import numpy as np
import pandas as pd
import pytest

from sampler import DataError, fit
from tests.support.models.random_posteriors import make_posterior

FEW = {"num_trees": 3, "num_chains": 2, "num_burnin": 5, "num_draws": 5, "thin": 1}
Y = np.arange(30.0) % 7


def test_single_rows_are_predicted_as_a_table_is():
    """A dict, a series and a list of dicts; an array has no names, which is said once."""
    posterior, X, _ = make_posterior()
    table = pd.DataFrame(X)
    expected = posterior.predict(X).mean
    np.testing.assert_array_equal(posterior.predict(table.to_dict("records")).mean, expected)
    for row in (table.iloc[3], table.iloc[3].to_dict()):
        np.testing.assert_array_equal(posterior.predict(row).mean, expected[3:4])
        np.testing.assert_array_equal(posterior.shap(row).values, posterior.shap(table[3:4]).values)
    named = fit({"age": np.arange(30.0)}, Y, progress=False, **FEW)
    with pytest.raises(DataError) as refused:
        named.predict(np.zeros((2, 1)))
    assert len(refused.value.problems) == 1
    assert "columns with names, and an array has none" in str(refused.value)
    array = fit(np.arange(30.0)[:, None], Y, progress=False, **FEW)
    assert len(array.predict(np.zeros((2, 1)))) == 2


def test_a_misspelt_column_is_answered_with_the_meant_one():
    """In new rows, features, kinds and effects; one feature needs no list."""
    posterior, X, _ = make_posterior()
    wrong = {("weight" if name == "x1" else name): values for name, values in X.items()}
    with pytest.raises(DataError, match="'x1': the model needs this column"):
        posterior.predict(wrong)
    table = {"weight": np.arange(30.0), "age": np.arange(30.0)}
    named = fit(table, Y, progress=False, **FEW)
    for ask in (
        lambda: named.predict({"wieght": [1.0], "age": [1.0]}),
        lambda: named.partial_dependence("wieght"),
        lambda: named.accumulated_effects("wieght"),
        lambda: named.interactions(["wieght", "age"]),
        lambda: named.contrast(table, {"wieght": 1}, {"wieght": 2}),
        lambda: fit(table, Y, features=["wieght"], progress=False, **FEW),
        lambda: fit(table, Y, columns={"wieght": "number"}, progress=False, **FEW),
    ):
        with pytest.raises(ValueError, match=r"did you mean weight\?"):
            ask()
    assert named.partial_dependence("weight").features == ["weight"]


def test_extra_columns_are_left_out_on_request():
    """They are refused unless asked for; absent columns always are."""
    posterior, X, _ = make_posterior()
    with pytest.raises(DataError, match="'note': there was no such column"):
        posterior.predict(X | {"note": ["a"] * 80})
    prediction = posterior.predict(X | {"note": ["a"] * 80}, ignore_extra=True)
    np.testing.assert_array_equal(prediction.mean, posterior.predict(X).mean)
    assert "not used by the model: note" in " ".join(prediction.warnings)
    with pytest.raises(DataError, match="the model needs this column"):
        posterior.predict({"note": ["a"]}, ignore_extra=True)


def test_a_seed_can_be_drawn():
    """`seed=None` draws one, with which the fit can be repeated."""
    x = np.arange(30.0)
    first = fit({"x": x}, Y, seed=None, progress=False, **FEW)
    again = fit({"x": x}, Y, seed=first.settings["seed"], progress=False, **FEW)
    np.testing.assert_array_equal(first.sigma, again.sigma)
