"""The board's tables, scores and interface."""

import importlib
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import norm

from benchmarks import common_tables, scoringbench_wrapper


@pytest.fixture
def board(monkeypatch):
    """The script, which imports others of its folder."""
    monkeypatch.syspath_prepend(str(Path(__file__).parents[2] / "benchmarks"))
    for threads in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "XLA_FLAGS"):
        monkeypatch.setenv(
            threads, "1" if threads != "XLA_FLAGS" else ""
        )  # the script sets those that aren't
    return importlib.import_module("scoringbench")


def test_scores_of_normal_distributions(board):
    """Scores of many outcomes of a normal distribution are near its closed forms, and sums of parts agree."""
    y = norm.ppf((np.arange(2000) + 0.5) / 2000)
    quantiles = np.repeat(norm.ppf(board.LEVELS)[:, None], len(y), axis=1)
    found = board.figures(y, np.zeros(len(y)), quantiles, 1.0)
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
