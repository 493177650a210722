"""The board's tables, scores and interface."""

import numpy as np
import pandas as pd
import pytest
from scipy.stats import norm

from lab import common_tables, scoringbench, scoringbench_wrapper


def test_scores_of_normal_distributions():
    """Scores of many outcomes of a normal distribution are near its closed forms, and sums of parts agree."""
    y = norm.ppf((np.arange(2000) + 0.5) / 2000)
    quantiles = np.repeat(norm.ppf(scoringbench.LEVELS)[:, None], len(y), axis=1)
    found = scoringbench.figures(y, np.zeros(len(y)), quantiles, 1.0)
    assert found["crps"] == pytest.approx(1 / np.sqrt(np.pi), abs=0.01)
    assert found["log"] == pytest.approx(0.5 * np.log(2 * np.pi * np.e), abs=0.01)
    assert found["cde"] == pytest.approx(-1 / (2 * np.sqrt(np.pi)), abs=0.01)
    assert found["sharpness"] == pytest.approx(1, abs=0.02)
    assert found["dispersion"] == pytest.approx(0, abs=1e-9)
    assert found["coverage_90"] == pytest.approx(0.9, abs=0.001)
    # Its ends lie between levels, where quantiles are interpolated by lines.
    assert found["width_95"] == pytest.approx(2 * norm.ppf(0.975), abs=0.02)
    parts = found["crps_left"] + 2 * found["crps_center"] + found["crps_right"]
    assert parts == pytest.approx(found["crps"])  # (1 - a)^2 + 2 a (1 - a) + a^2 = 1


@pytest.mark.parametrize(
    ("name", "text", "columns"),
    [
        (
            "keel.dat",
            "@relation t\n@attribute a real [0,1]\n@attribute b real [0,9]\n@data\n.5, 3\n.1, ?\n",
            "ab",
        ),
        ("titled.csv", '"a";"b"\n.5;3\n.1;?\n', "ab"),
        ("bare.data", ".5,3\n.1,?\n", "01"),
        ("tabs.txt", ".5\t3\n.1\t?\n", "01"),
    ],
)
def test_formats_of_tables(tmp_path, name, text, columns):
    """Files of KEEL, with and without titles, give their cells; a question mark is a missing one."""
    (tmp_path / name).write_text(text)
    table = common_tables.read(tmp_path / name)
    assert "".join(map(str, table.columns)) == columns
    assert table.iloc[0].tolist() == [0.5, 3]
    assert table.iloc[1].isna().tolist() == [False, True]


def test_a_method_without_its_environment_is_left_out(monkeypatch, tmp_path, capsys):
    """A sentence says that the environment isn't there, and the others are scored."""
    monkeypatch.setattr(scoringbench.other_environments, "FOLDER", tmp_path)
    given = dict.fromkeys((*scoringbench.LOSSES, "coverage_90", "coverage_95", "seconds"), 1.0)
    monkeypatch.setattr(scoringbench, "fold_scores", lambda *_: given)
    arguments = "--folds 1 --tables Boston --methods ours treeffuser autogluon --keep"
    monkeypatch.setattr("sys.argv", ["scoringbench.py", *arguments.split(), str(tmp_path / "scores.json")])
    scoringbench.main()
    printed = capsys.readouterr().out
    for name in ("treeffuser", "autogluon"):
        assert f"{name}: left out, its environment {tmp_path / name} is not there" in printed
        assert printed.count(name) == 2  # in that sentence alone
    assert "Boston               ours" in printed


def test_cells_sent_to_another_environment(tmp_path):
    """Numbers arrive as floats and categories as words, missing ones included, without pickles."""
    numbers = {"a": [1, 2, 3], "b": [True, False, True], "d": [0.5, None, 2]}
    table = pd.DataFrame(numbers | {"c": ["01", None, "u"]})
    columns = scoringbench.other_environments.cells(table.assign(e=table.c.astype("category")))
    np.savez(tmp_path / "task.npz", *columns)
    with np.load(tmp_path / "task.npz") as found:
        a, b, d, c, e = (found[name] for name in found.files)
    np.testing.assert_array_equal([a, b, d], [[1, 2, 3], [1, 0, 1], [0.5, np.nan, 2]])
    assert c.tolist() == e.tolist() == ["01", "missing", "u"]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["treeffuser", "autogluon"])
def test_a_method_in_its_own_environment(name):
    """It gives each new row quantiles in order, which follow the outcome."""
    if reason := scoringbench.lacking(name):
        pytest.skip(reason + ": make scoringbench")
    rng = np.random.default_rng(1)
    X = pd.DataFrame({"a": rng.normal(size=120), "b": rng.choice(["u", "v"], 120)})
    y = 3 * X.a + (X.b == "u") + 0.1 * rng.normal(size=120)
    mean, quantiles = scoringbench.METHODS[name][1](X[:100], y[:100].to_numpy(), X[100:], 42)
    assert quantiles.shape == (len(scoringbench.LEVELS), 20)
    assert (np.diff(quantiles, axis=0) >= 0).all()
    assert np.corrcoef(mean, y[100:])[0, 1] > 0.8


def test_masses_of_quantiles():
    """Bins of a normal distribution have its masses between their edges, its mean, and tails at both ends."""
    levels = scoringbench_wrapper.LEVELS
    masses, edges = scoringbench_wrapper.masses(norm.ppf(levels)[:, None] * [1.0, 2.0] + [0.0, 5.0])
    assert masses.shape == (2, len(levels) + 1)
    assert edges.shape == (2, len(levels) + 2)
    np.testing.assert_allclose(masses.sum(axis=1), 1)
    np.testing.assert_allclose(np.diff(norm.cdf(edges[0, 1:-1])), masses[0, 1:-1])
    np.testing.assert_allclose((masses * (edges[:, 1:] + edges[:, :-1]) / 2).sum(axis=1), [0, 5], atol=1e-9)
    assert (np.diff(edges) > 0).all()
