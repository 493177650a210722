"""Selection of features by a permutation null."""

import numpy as np
import pytest

from sampler import DataError, SettingsError, preparation
from sampler.data.rows import Rows
from sampler.studies.selection import NullFits, Selection, select_features
from tests.support.friedman import friedman

SHORT = {"num_permutations": 20, "num_chains": 2, "num_burnin": 50, "num_draws": 50}
LONGER = SHORT | {"num_chains": 4, "num_burnin": 150, "num_draws": 150}


def of(share, null, level=0.05) -> Selection:
    null = np.array(null, float)
    return Selection([f"x{j}" for j in range(null.shape[1])], np.array(share, float), null, level)


def test_thresholds_by_definition():
    """Each rule's threshold is the smallest value that few enough permutations exceed."""
    rng = np.random.default_rng(3)
    null = rng.uniform(size=(40, 3)) * [1, 2, 0.5]
    selection = of([1.9, 1.9, 0.1], null)
    assert np.all(np.mean(null > selection.threshold("local"), axis=0) <= 0.05)
    assert np.all(np.mean(null > selection.threshold("local") - 1e-9, axis=0) > 0.05)
    largest = null.max(axis=1)
    assert (
        np.mean(largest > selection.threshold("max")[0])
        <= 0.05
        < np.mean(largest >= selection.threshold("max")[0])
    )
    above = np.any(null > selection.threshold("se") + 1e-12, axis=1)
    assert above.mean() == pytest.approx(0.05)
    spread = (selection.threshold("se") - null.mean(axis=0)) / null.std(axis=0, ddof=1)
    np.testing.assert_allclose(spread, spread[0])


def test_a_feature_that_is_never_used_is_never_selected():
    """Without any spread in the null a share must still exceed the mean."""
    selection = of([0.5, 0.0, 0.5], [[0.4, 0.0, 0.6], [0.6, 0.0, 0.4]] * 10)
    assert "x1" not in {name for rule in ("local", "max", "se") for name in selection.selected(rule)}


@pytest.mark.slow
def test_the_five_of_friedman_and_none_of_the_noise():
    """Friedman's five columns are selected among 35 of noise; progress counts every fit."""
    X, _, y = friedman(400, 4, 40)
    reports = []
    selection = select_features(
        X, y, seed=1, **LONGER, progress=lambda done, total: reports.append((done, total)), num_threads=2
    )
    assert sorted(selection.selected()) == ["x1", "x2", "x3", "x4", "x5"]
    assert reports == [(count, 21) for count in range(1, 22)]
    assert selection.null.shape == (20, 40)
    np.testing.assert_allclose(selection.null.sum(axis=1), 1)
    assert "selected by" in str(selection)
    *first, more = repr(selection).splitlines()
    assert first == str(selection).splitlines()[:10]
    assert more == "... 31 more lines in print()"
    (row,) = (line for line in selection._repr_html_().split("<tr>") if ">x1<" in line)
    assert f">{selection.share[0]:.1%}<" in row
    assert ">max, se, local<" in row


def test_threads_change_nothing():
    """Fits of the null are the same on one thread and on two."""
    X, _, y = friedman(60, 4, 10)
    one, two = (select_features(X, y, seed=1, **SHORT, num_threads=count) for count in (1, 2))
    np.testing.assert_array_equal(one.null, two.null)


def test_classes_and_tables():
    """A data frame with a category and two classes by name work; the category's indicators are added up."""
    pandas = pytest.importorskip("pandas")
    rng = np.random.default_rng(2)
    x, kind = rng.uniform(size=150), rng.choice(["a", "b", "c"], 150)
    y = pandas.Series(np.where(x + (kind == "b") > 0.8, "yes", "no"), name="outcome")
    X = pandas.DataFrame({"x": x, "kind": kind, "z": rng.uniform(size=150)})
    selection = select_features(X, y, family="probit", seed=1, **SHORT)
    assert selection.names == ["x", "kind", "z"]
    assert "z" not in selection.selected("local")


def test_weights_and_exposures_travel_with_outcomes(monkeypatch):
    """A permutation keeps a row's weight and exposure with its outcome."""
    seen = []

    class SeenError(Exception):
        pass

    def prepare(rows, **_):
        seen.append([column.numbers for column in (rows.outcome, *rows.roles.values())])
        raise SeenError

    monkeypatch.setattr("sampler.studies.selection.prepare_rows", prepare)
    y = np.arange(9.0)
    rows = Rows.read(y[:, None], y, {"weights": y + 100, "exposure": y + 200})
    fits = NullFits(rows, 2, 5, {"transform": "none", "linear": False})
    for permutation in (None, 0, 0, 1):
        with pytest.raises(SeenError):
            fits.shares(permutation)
    orders = [tuple(y) for y, _, _ in seen]
    assert orders[0] == tuple(range(9))
    assert orders[1] == orders[2] != orders[3]
    for outcomes, weights, exposures in seen:
        assert sorted(outcomes) == list(range(9))
        np.testing.assert_array_equal(weights, outcomes + 100)
        np.testing.assert_array_equal(exposures, outcomes + 200)


def test_counts_with_exposures():
    """Exposures permute with the counts; one that is not positive is refused by name."""
    rng = np.random.default_rng(4)
    X, exposure = rng.uniform(size=(120, 3)), rng.uniform(0.5, 4.0, 120)
    y = rng.poisson(exposure * np.exp(2.5 * X[:, 0]))
    selection = select_features(X, y, exposure=exposure, family="poisson", seed=2, **SHORT)
    assert selection.selected() == ["x1"]
    exposure[7] = -1.0
    with pytest.raises(DataError, match="'exposure', row 8"):
        select_features(X, y, exposure=exposure, family="poisson", **SHORT)


def test_a_report_ends_the_fit():
    """An exception raised by the report of progress ends the fit early."""
    X, _, y = friedman(60, 4, 5)
    reports = []

    def report(index, chain):
        reports.append((index, chain.iteration))
        if index == 1:
            raise InterruptedError

    settings = {"num_trees": 5, "num_burnin": 20_000, "num_draws": 1, "thin": 1}
    fits = NullFits(Rows.read(X, y), 4, 1, settings)
    with pytest.raises(InterruptedError):
        fits.shares(report=report)
    assert max(reports) < (3, 20_000)


@pytest.mark.parametrize(
    ("wrong", "error"),
    [
        ({"num_permutations": 19}, SettingsError),
        ({"level": 0.0}, SettingsError),
        ({"num_chains": 0}, SettingsError),
        ({"weights": [1.0]}, DataError),
    ],
)
def test_refused_by_name(wrong, error):
    """Settings out of range and weights of another length are refused, with their name."""
    X, _, y = friedman(30, 4, 5)
    with pytest.raises(error, match=next(iter(wrong))):
        select_features(X, y, **SHORT | wrong)


def test_unknown_rule():
    """A rule that does not exist is refused with those that do."""
    with pytest.raises(SettingsError, match="max, se, local"):
        of([1.0], [[0.5]]).threshold("most")


def test_permuted_outcomes_have_the_transform_of_the_outcomes(monkeypatch):
    """The transform is chosen for the outcomes once, not for every permutation of them."""
    named = []
    choose = preparation.outcomes.choose_transform_and_line

    def noted(name, *rest, **more):
        named.append(name)
        return choose(name, *rest, **more)

    monkeypatch.setattr(preparation.outcomes, "choose_transform_and_line", noted)
    rng = np.random.default_rng(4)
    X = rng.normal(size=(300, 3))
    select_features(X, np.exp(X[:, 0] + rng.normal(size=300)), **SHORT)
    assert named.count("auto") == 1
    assert named.count("log") == 1 + SHORT["num_permutations"]


def test_features_that_a_permutation_left_out_have_no_share():
    """Null shares are those of the features by name, 0 for one that the permuted rows had no use for."""
    found = Selection.of({"a": 0.7, "b": 0.3}, [{"b": 1.0}, {"a": 0.4, "b": 0.6}], 0.1)
    assert (found.names, found.share.tolist()) == (["a", "b"], [0.7, 0.3])
    assert found.null.tolist() == [[0.0, 1.0], [0.4, 0.6]]
