"""The notebook interface: one call fits, intervals cover, equal seeds give equal bytes."""

import pkgutil
import subprocess
import sys
from types import ModuleType, SimpleNamespace

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import sampler
from sampler import DataError, DataWarning, Posterior, SettingsError, fit
from sampler.data.table import read_column
from sampler.data.target import family_warnings
from sampler.posterior.posterior import INTERNAL
from sampler.preparation import prepare
from tests.support.friedman import friedman

pytestmark = pytest.mark.usefixtures("all_kernels")

SHORT = {"num_trees": 20, "num_chains": 2, "num_burnin": 50, "num_draws": 25, "thin": 1, "progress": False}


@pytest.fixture(scope="module")
def fitted():
    """Return a fit of 500 rows of Friedman's function with default settings and short chains."""
    X, _, y = friedman(500, 1)
    return fit(X, y, num_burnin=150, num_draws=50, thin=1, progress=False)


def test_friedman_is_recovered(fitted):
    """At new rows the mean is far nearer to f than the best linear fit (2.4), and sigma is near 1."""
    X, f, _ = friedman(1000, 2)
    assert np.sqrt(np.mean((fitted.predict(X).mean - f) ** 2)) < 1.1
    assert 0.7 < np.median(fitted.sigma) < 1.3


@pytest.mark.parametrize("kind", ["pandas", "polars", "pyarrow", "numpy", "lists"])
def test_rows_without_an_outcome_are_left_out_on_request(kind):
    """The fit is that of the other rows, with their roles, by whatever library; labels are still compared."""
    rng = np.random.default_rng(3)
    X, y, weights = rng.uniform(size=(40, 2)), rng.normal(size=40), rng.uniform(1, 2, 40)
    gone = np.arange(40) % 7 == 2
    holes = [None if out else float(value) for out, value in zip(gone, y, strict=True)]
    table = {"a": X[:, 0], "b": X[:, 1]}
    make = {
        "pandas": lambda: (pd.DataFrame(table), pd.Series(holes, name="z"), pd.Series(weights)),
        "polars": lambda: (pl.DataFrame(table), pl.Series("z", holes), pl.Series(weights)),
        "pyarrow": lambda: (pa.table(table), pa.chunked_array([holes]), pa.array(weights)),
        "numpy": lambda: (X, np.array(holes, float), weights),
        "lists": lambda: (table, holes, weights.tolist()),
    }[kind]
    posterior = fit(*make(), missing_target="leave_out", **SHORT)
    whole = fit(X[~gone], y[~gone], weights[~gone], **SHORT)
    np.testing.assert_array_equal(posterior.sigma, whole.sigma)
    assert posterior.header.num_rows == np.count_nonzero(~gone)
    assert posterior.schema.target.name == ("z" if kind in ("pandas", "polars") else "y")
    if kind == "pandas":
        shuffled = pd.Series(holes, name="z", index=np.arange(40)[::-1])
        with pytest.raises(DataError, match="row labels"):
            fit(pd.DataFrame(table), shuffled, missing_target="leave_out", **SHORT)


def test_rows_with_a_limit_stay():
    """A row without an outcome that has a limit is censored, and no row to leave out."""
    x = np.linspace(0, 1, 30)
    y, upper = np.where(x > 0.2, x, np.nan), np.where(x < 0.1, 0.2, np.nan)
    posterior = fit({"x": x}, y, upper=upper, missing_target="leave_out", **SHORT)
    assert posterior.header.num_rows == np.count_nonzero((x > 0.2) | (x < 0.1))
    with pytest.raises(SettingsError, match="did you mean leave_out"):
        fit({"x": x}, y, missing_target="leaveout")


def test_completion_offers_no_internals(fitted):
    """Members for services are there, but a notebook doesn't propose them."""
    offered = set(dir(fitted))
    assert {"predict", "summary", "score", "plot", "sigma"} <= offered
    assert not INTERNAL & offered
    assert all(hasattr(fitted, name) for name in INTERNAL)


def test_intervals_cover(fitted):
    """90% intervals at new rows contain f and new outcomes about that often."""
    X, f, y = friedman(1000, 2)
    for interval, truth in (("credible", f), ("predictive", y)):
        prediction = fitted.predict(X, interval=interval)
        assert 0.80 < np.mean((prediction.lower <= truth) & (truth <= prediction.upper)) < 0.99


def test_relevant_columns_are_used_more(fitted):
    """The function's five columns have the highest inclusion proportions."""
    mean = fitted.inclusion().mean
    assert mean[:5].mean() > 1.2 * mean[5:].mean()


def test_shapes_of_the_contract(fitted):
    """sample, sigma, leaf_counts and weights have the documented shapes."""
    assert fitted.sample(friedman(7, 3)[0]).shape == (8, 50, 7)
    assert fitted.sigma.shape == (8, 50)
    assert fitted.leaf_counts.shape == (8, 50, 200)
    assert fitted.weights is None


def test_size_of_the_file(fitted):
    """A file at default settings takes at most 14 bytes per tree, header included."""
    assert len(fitted.to_bytes()) / fitted.leaf_counts.size < 14


def test_same_seed_same_bytes():
    """Equal seeds give equal files, different seeds different ones."""
    X, _, y = friedman(80, 1)
    ours, again, other = (fit(X, y, seed=seed, **SHORT).to_bytes() for seed in (3, 3, 4))
    assert ours == again
    assert ours != other


def test_chains_do_not_depend_on_how_many_there_are():
    """The first two of four chains equal the chains of a fit with two."""
    X, _, y = friedman(80, 1)
    two, four = (fit(X, y, **SHORT | {"num_chains": k}) for k in (2, 4))
    np.testing.assert_array_equal(four.sigma[:2], two.sigma)


def test_tables_of_any_library_fit_alike():
    """Tables of numpy, pandas, polars and pyarrow give equal draws."""
    X, _, y = friedman(60, 1)
    columns = {f"x{j + 1}": X[:, j] for j in range(10)}
    sigma = fit(X, y, **SHORT).sigma
    for table, outcome in (
        (pd.DataFrame(columns), pd.Series(y)),
        (pl.DataFrame(columns), pl.Series(y)),
        (pa.table(columns), pa.array(y)),
        (columns, y.tolist()),
    ):
        np.testing.assert_array_equal(fit(table, outcome, **SHORT).sigma, sigma)


def test_missing_values_are_learnt():
    """Rows with a missing value are predicted differently where missingness matters."""
    rng = np.random.default_rng(0)
    x = rng.uniform(size=300)
    x[:150] = np.nan
    y = np.where(np.isnan(x), 5.0, 0.0) + rng.normal(0, 0.1, 300)
    posterior = fit({"x": x}, y, **SHORT | {"num_draws": 100})
    mean = posterior.predict({"x": [None, 0.5]}).mean
    np.testing.assert_allclose(mean, [5, 0], atol=0.3)


def test_weights_count():
    """A row of large weight pulls f towards its outcome."""
    x = np.zeros(100)
    x[0] = 1.0
    y = np.tile([0.5, 1.5, 0.5, 1.51], 25)
    weights = np.where(y > 1, 9.0, 1.0)
    prior = {"sigma": 0.5, "leaf_sd": 1.0}
    even, pulled = (fit({"x": x}, y, w, prior=prior, **SHORT | {"num_draws": 100}) for w in (None, weights))
    rows = {"x": [0.0]}
    assert abs(even.predict(rows).mean[0] - 1.0) < 0.2
    assert abs(pulled.predict(rows).mean[0] - 1.4) < 0.1


@pytest.mark.parametrize(
    ("labels", "classes"),
    [
        (("no", "yes"), ("no", "yes")),
        ((False, True), ("false", "true")),
        ((0, 1), ("0", "1")),
        ((2.0, 10.0), ("2", "10")),
    ],
)
def test_two_classes(labels, classes):
    """For two classes of any type, predictions are the probability of the second, with the user's labels."""
    rng = np.random.default_rng(0)
    x = rng.uniform(-1, 1, 300)
    y = [labels[int(value)] for value in rng.random(300) < np.where(x > 0, 0.9, 0.1)]
    posterior = fit({"x": x}, y, family="probit", **SHORT | {"num_burnin": 100, "num_draws": 100})
    assert posterior.classes == classes
    assert posterior.sigma is None
    prediction = posterior.predict({"x": [-0.5, 0.5]})
    np.testing.assert_allclose(prediction.mean, [0.1, 0.9], atol=0.1)
    f = posterior.sample({"x": [-0.5, 0.5]})
    np.testing.assert_allclose(prediction.mean, f.mean(axis=(0, 1)))
    np.testing.assert_allclose(prediction.lower, np.quantile(f, 0.05, axis=(0, 1)))
    assert np.all((f > 0) & (f < 1))
    assert posterior.summary().sigma["rhat"] is None
    assert str(posterior.summary())
    with pytest.raises(SettingsError, match="no predictive interval"):
        posterior.predict({"x": [0.5]}, interval="predictive")


@pytest.mark.parametrize(
    ("y", "family"),
    [
        ([0, 1] * 20, "probit"),
        ([True, False] * 20, "probit"),
        (["a", "b"] * 20, "probit"),
        ([1.5, 2.5] * 12 + [7.25] * 16, "gaussian"),
        (np.arange(40), "gaussian"),
    ],
    ids=str,
)
def test_auto_family_looks_at_the_outcome(y, family):
    """Booleans, two text levels, zeros and ones are classes by default; other numbers are numbers."""
    posterior = fit({"x": np.sin(np.arange(40.0))}, y, family="auto", **SHORT)
    assert posterior.settings["family"] == family


@pytest.mark.parametrize("pair", [(1, 2), (-1.0, 1.0), (30, 10)])
def test_two_whole_numbers_are_classes_by_default(pair):
    """A note says so, and where they, or zeros and ones, are learnt as numbers; few rows are numbers."""
    X, y = {"x": np.sin(np.arange(20.0))}, [*pair] * 10
    with pytest.warns(DataWarning, match=r'alone: family="auto" takes them as classes'):
        assert fit(X, y, family="auto", **SHORT).classes == tuple(str(int(each)) for each in sorted(pair))
    for whole in (y, [0, 1] * 10):
        with pytest.warns(DataWarning, match="alone, and is learnt as a number"):
            assert fit(X, whole, **SHORT).classes is None
    assert prepare({"x": X["x"][:8]}, y[:8], family="auto").schema.target.levels == ()
    (note,) = prepare(X, np.array(y) + 0.5, family="auto").warnings
    assert note.endswith('is learnt as a number: if they are classes, make them text and set family="auto"')


@pytest.mark.parametrize(
    ("texts", "told"),
    [
        (["$1,000.00", "$20.00", "none"], "'$1,000.00'"),
        (["12", "13", "k.A."], "'k.A.'"),
        (["5 EUR", "6 EUR", "(7)"], "'5 EUR'"),
        (["12 kg", "9.5 kg", "1 kg"], "'12 kg'"),
        (["1st", "2nd", "3rd"], None),
        (["18-25", "26-40", "<18"], None),
        (["1", "2", "3"], None),
        (["low", "5%", "high"], None),
    ],
)
def test_classes_that_look_like_numbers_are_warned_of(texts, told):
    """Text of which most looks like numbers is taken as classes with a warning, unless classes are asked."""
    raw = read_column(texts * 4, "y")

    (warning,) = family_warnings(raw, "categorical", guessed=True) or [""]
    assert warning.startswith(f"y has text such as {told}") if told else not warning
    assert family_warnings(raw, "categorical", guessed=False) == []


@pytest.mark.parametrize("calibrate", ["none", "folds"])
def test_a_share_held_out_needs_its_calibration(calibrate):
    """`holdout` without calibrate="holdout" would do nothing, where a service's same word holds rows out."""
    X, y = {"x": np.sin(np.arange(20.0))}, np.cos(np.arange(20.0))
    with pytest.raises(SettingsError, match="choose them with `holdout_rows`") as refused:
        fit(X, y, holdout=0.3, calibrate=calibrate, **SHORT)
    assert refused.value.field == "holdout"


def test_warnings_about_the_data_are_shown():
    """Dropped columns are reported by the fit and stored with it."""
    X = {"x": np.arange(60.0), "name": [f"n{i}" for i in range(60)]}
    with pytest.warns(DataWarning, match="name is left out"):
        posterior = fit(X, np.sin(np.arange(60.0)), **SHORT)
    assert "name is left out" in posterior.warnings[0]


def test_bad_input_is_refused_before_any_work():
    """Invalid data and settings raise ValueError."""
    X, _, y = friedman(20, 1)
    with pytest.raises(DataError):
        fit(X, np.zeros(20), progress=False)
    with pytest.raises(SettingsError):
        fit(X, y, num_trees=0, progress=False)
    with pytest.raises(ValueError, match="moves"):
        fit(X, y, moves="fast", progress=False)


def test_summary_reads_well():
    """A summary displays as text: verdict, advice, figures."""
    X, _, y = friedman(60, 1)
    summary = fit(X, y, **SHORT).summary()
    assert repr(summary) == str(summary)
    assert str(summary).startswith(summary.verdict.replace("_", " "))
    assert summary.advice in str(summary)


def test_progress_bar(capsys):
    """Progress bars name every chain and are written to stderr."""
    X, _, y = friedman(50, 1)
    fit(X, y, **SHORT | {"progress": True})
    captured = capsys.readouterr()
    assert "chain 2" in captured.err
    assert captured.out == ""


def test_blocks_may_fall_anywhere():
    """A posterior joined from many small blocks equals one from a whole fit."""
    X, _, y = friedman(80, 1)
    settings = {name: value for name, value in SHORT.items() if name != "progress"}
    problem = prepare(X, y, **settings)
    blocks = []
    for c in range(2):
        chain = sampler.Chain.start(problem.training, c)
        blocks.append([])
        while not chain.done:
            chain.run(7)
            draws = chain.take()
            blocks[-1] += [sampler.pack(draws)] if draws is not None else []
    assert len(blocks[0]) > 2
    posterior = Posterior.from_blocks(problem.header(), blocks)
    np.testing.assert_array_equal(posterior.sample(X), fit(X, y, **SHORT).sample(X))


def test_importing_the_package_is_light():
    """`from sampler import fit, load` imports no heavy library; every exported name resolves."""
    code = (
        "import sys, sampler; from sampler import fit, load, Settings; "
        "heavy = {'numba', 'scipy', 'narwhals', 'pandas', 'rich', 'arviz_stats'} & set(sys.modules); "
        "assert not heavy, heavy; [getattr(sampler, name) for name in sampler.__all__]"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
    with pytest.raises(AttributeError, match="nothing"):
        sampler.nothing  # noqa: B018


def test_no_public_name_is_a_module_s():
    """No exported name is a submodule's, which once imported would replace it."""
    names = {module.name for module in pkgutil.iter_modules(sampler.__path__)}

    assert not names & set(sampler.__all__)


class ZMQInteractiveShell:
    """The class name by which rich recognises a notebook."""


def test_bars_in_a_notebook_without_widgets(monkeypatch):
    """Without ipywidgets progress bars are text in one output, without warnings."""
    displayed = []

    class Place:
        def update(self, data, *, raw):
            assert raw
            displayed.append(data["text/plain"])

    def display(data, *, raw, display_id):
        assert raw
        assert display_id
        displayed.append(data["text/plain"])
        return Place()

    monkeypatch.setattr("builtins.get_ipython", ZMQInteractiveShell, raising=False)
    monkeypatch.setitem(sys.modules, "IPython", ModuleType("IPython"))
    monkeypatch.setitem(sys.modules, "IPython.display", SimpleNamespace(display=display))
    monkeypatch.setattr("sampler.posterior.core.progress.find_spec", lambda _name: None)
    fit(np.arange(20.0)[:, None], np.arange(20.0) ** 2, **(SHORT | {"progress": True}))

    assert len(displayed) >= 2
    assert "chain 2, sampling" in displayed[-1]
    assert "75/75" in displayed[-1]
