"""Conversion of draws to ArviZ."""

import sys

import numpy as np
import pytest

from sampler.posterior.charts import arviz as export
from sampler.posterior.charts.arviz import draws_of
from tests.support.models.random_posteriors import make_posterior


def test_shapes_are_chain_draw_row():
    """Arrays have the shapes of `arviz_base.from_dict`: chains first, then draws."""
    posterior, X, _ = make_posterior()
    shapes = draws_of(posterior)
    assert shapes["sigma"].shape == (2, 12)
    np.testing.assert_array_equal(shapes["f"], posterior.sample(X))  # all 80 rows are reference rows


def test_without_arviz_the_package_is_named(monkeypatch):
    """Without ArviZ the error says which package to install."""
    monkeypatch.setitem(sys.modules, "arviz_base", None)
    monkeypatch.setattr(export, "_version_of", lambda _package: "")
    with pytest.raises(ImportError, match="arviz-base"):
        make_posterior()[0].to_arviz()


def test_arviz_reads_the_draws():
    """ArviZ has the draws as `sigma` (chain, draw) and `f` (chain, draw, row)."""
    pytest.importorskip("arviz_base")
    posterior = make_posterior()[0]
    tree = posterior.to_arviz()
    assert tree["posterior"]["sigma"].dims[:2] == ("chain", "draw")
    np.testing.assert_array_equal(tree["posterior"]["f"].to_numpy(), draws_of(posterior)["f"])


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # ArviZ's own
def test_arviz_summarises_and_draws():
    """The pinned ArviZ summarises and plots the exported draws."""
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    arviz = pytest.importorskip("arviz")
    plots = pytest.importorskip("arviz_plots")
    exported = make_posterior()[0].to_arviz()

    assert list(arviz.summary(exported, var_names=["sigma"]).index) == ["sigma"]
    arviz.plot_trace(exported, var_names=["sigma"])
    plots.plot_trace_dist(exported, var_names=["sigma"])
