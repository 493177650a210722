"""The kind of noise chosen by the data: the choice, its evidence, and fits that can't choose."""

import json
from dataclasses import replace

import numpy as np
import pytest

from sampler import DataWarning, PackedError, fit, load
from sampler.noise import NoiseChoice
from sampler.posterior.untrusted import read_contents
from sampler.preparation import prepare, prepare_again
from sampler.preparation.quick_choice import hits
from sampler.storage.model_header import Header

FAST = {"num_trees": 10, "num_chains": 2, "num_burnin": 20, "num_draws": 10, "thin": 1, "progress": False}
LENGTHS = {name: value for name, value in FAST.items() if name != "progress"}


def curve(noise, rows=300, seed=0):
    """A curve of the first of two columns, with noise normal, t, uneven by column 2, or of two kinds."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(size=(rows, 2))
    size = np.where(X[:, 1] > 0.5, 1.0, 0.05) if noise == "uneven" else 0.3
    e = rng.standard_t(1.5, size=rows) if noise == "t" else rng.normal(size=rows)
    if noise == "two":
        e = np.where(rng.uniform(size=rows) < 0.15, 10 + 3 * e, 0.3 * e)
    return X, 4 * X[:, 0] ** 2 + size * e


KINDS = [("t", {"t"}), ("uneven", {"forest", "t-forest"}), ("two", {"mixture"})]


@pytest.mark.parametrize(("noise", "kinds"), KINDS)
@pytest.mark.sampled(quick=1)
def test_the_fit_has_the_noise_that_the_data_ask_for(tmp_path, noise, kinds):
    """Its draws are those of the same noise asked for; evidence is kept with the model, and shown."""
    X, y = curve(noise)
    posterior = fit(X, y, **FAST)
    found = {name: posterior.settings.get(name, False) for name in ("noise", "linear")}
    assert found["noise"] in kinds
    asked = fit(X, y, transform=posterior.settings.get("transform", "none"), **found, **FAST)
    np.testing.assert_array_equal(asked.sigma, posterior.sigma)
    assert (asked.header.noise_choice, asked.settings) == (None, posterior.settings)
    choice = posterior.header.noise_choice
    assert choice.losses[found["noise"]] < 0.97 * choice.losses["constant"]
    assert choice.rows == 300
    assert choice.gain > 2.5 * choice.gain_error
    posterior.save(tmp_path / "model")
    again = load(tmp_path / "model")
    assert again.header.noise_choice == choice
    assert f"{found['noise']}: by the loss of 300 rows left out of short fits" in again._repr_html_()
    assert choice.in_words(found["noise"]) in again.model_card().to_markdown()
    assert again.extend(5, X, y).settings["noise"] == found["noise"]


def test_noise_differs_by_row_where_nothing_speaks_against_it():
    """From 400 rows on, in short fits of it and constant noise alone; gross outliers get heavy tails."""
    X, y = curve("normal", 400)
    problem = prepare(X, y, **LENGTHS)
    choice = problem.noise_choice
    assert (problem.training.settings.noise, {*choice.losses}) == ("forest", {"constant", "forest"})
    assert choice.gain <= 2.5 * choice.gain_error
    share = f"{choice.losses['forest'] / choice.losses['constant']:.2f} of constant's"
    assert choice.in_words("forest") == (
        f"forest: nothing speaks against it: its loss on 400 rows left out of short fits is {share}"
    )
    gross = y + np.where(np.arange(400) % 50 == 7, 30 * np.random.default_rng(1).normal(size=400), 0)
    assert prepare(X, gross, **LENGTHS).training.settings.noise in {"t", "t-forest"}
    zeros = prepare(X, np.where(np.arange(400) % 5 < 2, 0, y + 9), **LENGTHS)
    assert (zeros.training.settings.noise, zeros.noise_choice.mass) == ("constant", 0.4)
    assert "40% of the outcomes are one value at an end" in zeros.noise_choice.in_words("constant")


def test_what_speaks_against_noise_by_row():
    """Few rows, a mean that misses, a loss above constant noise's by an error, or an RMSE by a twentieth."""
    both = {"constant": 1.0, "forest": 1.0}
    fine = NoiseChoice(400, 0.0, 1.0, both, {"constant": 0.0, "forest": 0.01}, both, both)
    assert fine.against_forest() is None
    for change, said in {
        "takes 400 rows": {"rows": 399},
        "mean of forest misses": {"missed": ("forest",)},
        "loss of forest is 1.02": {"losses": both | {"forest": 1.02}},
        "RMSE of forest is 1.06": {"rmse": both | {"forest": 1.06}},
        "no short fit": {"losses": {"constant": 1.0}},
    }.items():
        against = replace(fine, **said)
        assert change in against.against_forest()
        assert against.in_words("constant").endswith(against.against_forest())
        assert NoiseChoice.from_json(json.loads(json.dumps(against.to_json()))) == against


def test_normal_noise_of_few_rows_is_constant_without_short_fits():
    """The quick regressions suffice, and the draws are those of constant noise."""
    X, y = curve("normal")
    posterior = fit(X, y, noise="auto", **FAST)
    choice = posterior.header.noise_choice
    assert (posterior.settings.get("noise", "constant"), choice.losses, choice.rows) == (
        "constant",
        None,
        300,
    )
    assert "ask for no other" in choice.in_words("constant")
    np.testing.assert_array_equal(fit(X, y, noise="constant", **FAST).sigma, posterior.sigma)


@pytest.mark.parametrize(
    "more",
    [
        {"rows": 99},
        {"prior": {"sigma": 0.3}},
        {"groups": "site"},
        {"event": np.ones(300)},
    ],
    ids=lambda more: next(iter(more)),
)
def test_noise_is_constant_where_nothing_can_be_chosen(more):
    """Too few rows; constants in units of the outcome; groups; censored outcomes."""
    X, y = curve("t", more.pop("rows", 300))
    table = {"a": X[:, 0], "b": X[:, 1]} | ({"site": np.arange(300) % 4} if "groups" in more else {})
    problem = prepare(table, np.abs(y), noise="auto", **LENGTHS, **more)
    assert (problem.training.settings.noise, problem.noise_choice) == ("constant", None)


def test_what_was_asked_for_stands():
    """A transform that is asked for leaves no heavy tails; it is prepared again without choices."""
    X, y = curve("t")
    problem = prepare(X, np.exp(y / 8), noise="auto", transform="log", **LENGTHS)
    assert {*problem.noise_choice.losses} == {"constant", "forest"}
    again = prepare_again(Header.from_bytes(problem.header()), X, np.exp(y / 8))
    assert (again.header(), again.training.settings) == (problem.header(), problem.training.settings)


def test_rows_with_weights_have_no_mixture():
    """It isn't among the kinds that compete."""
    X, y = curve("two")
    assert "mixture" not in prepare(X, y, weights=np.ones(300), noise="auto", **LENGTHS).noise_choice.losses


def test_the_choice_does_not_depend_on_lengths_and_seeds():
    """So that a longer fit, and more chains, begin with the same draws."""
    X, y = curve("uneven")
    one, other = (
        prepare(X, y, noise="auto", **LENGTHS | more)
        for more in ({}, {"num_chains": 3, "num_draws": 20, "seed": 7})
    )
    assert one.noise_choice == other.noise_choice


def test_odd_evidence_is_refused():
    """A file's evidence has known kinds and finite numbers; its noise is chosen."""
    right = {"rows": 9, "gain": 0.5, "gain_error": 0.1}
    odd = [{"rows": "9"}, {"losses": {"cauchy": 1.0}}, {"missed": ["cauchy"]}, {"gain": float("nan")}]
    for wrong in (*odd, {"losses": {"t": 1.0}}):
        with pytest.raises(ValueError, match="choice of its noise"):
            NoiseChoice.from_json(right | wrong)
    X, y = curve("normal", 60)
    posterior = fit(X, y, **FAST)
    posterior.law.draws.header = replace(posterior.header, settings=posterior.settings | {"noise": "auto"})
    with pytest.raises(PackedError, match="noise"):
        read_contents(posterior.to_bytes())


def test_outcomes_without_noise_have_constant_noise():
    """A kind whose chain leaves the grid there is none to choose."""
    X = np.random.default_rng(0).uniform(size=(1000, 10))
    with pytest.warns(DataWarning, match="has exactly the values of the target"):
        assert "noise" not in fit(X, X[:, 0], **FAST).settings  # as constant noise is stored


def test_a_mean_that_misses_is_out_where_another_misses_less():
    """Two and a half standard errors, by the smallest residuals; of those that all miss, the best stays."""
    errors = np.random.default_rng(0).normal(size=400)
    errors -= errors.mean()
    wild = np.where(np.arange(400) == 7, 1e9, 0.0)
    missed = {"true": errors + 0.1, "off": errors + 0.2, "wild": wild, "lost": np.full(400, np.inf)}
    assert hits(missed) == ["true"]
    assert hits({"off": errors + 0.2, "far": errors - 0.3}) == ["off"]
    assert hits({"high": errors + 0.12, "low": errors - 0.1}) == ["high", "low"]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::sampler.errors.DataWarning")
@pytest.mark.parametrize("seed", [0, 1])
def test_means_of_mostly_zeros_are_not_given_up(seed):
    """By default 90% zeros have a mean near theirs: heavy tails about zero would score better."""
    rng = np.random.default_rng(seed)
    X = {"a": rng.normal(size=400), "b": rng.normal(size=400)}
    y = np.where(rng.uniform(size=400) < 0.9, 0, np.exp(X["a"] + 2))
    posterior = fit(
        X, y, num_trees=50, num_chains=2, num_burnin=100, num_draws=100, thin=1, seed=1, progress=False
    )
    assert abs(posterior.predict(X).mean.mean() / y.mean() - 1) < 0.35
