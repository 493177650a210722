"""Errors and verdicts are data (field and code) beside a sentence for people."""

import ast
import json
import pickle
from pathlib import Path
from types import SimpleNamespace
from typing import get_args

import numpy as np
import pytest

from app.dashboard.forms.fit_form import field_of
from app.services.errors import Fault, UnusableDataError
from sampler import DataError, Settings, SettingsError, fit, tune
from sampler.errors import SettingsCode, suggestion
from sampler.pairs import TABLE
from sampler.posterior.verdict.agreement import Agreement, judge
from sampler.posterior.verdict.reasons import SENTENCES, ReasonCode
from sampler.posterior.weighting.importance_weights import judge_weighted
from sampler.preparation.plan import checked_prior
from sampler.sklearn import BARTClassifier, BARTRegressor
from tests.support.source import parsed

ROOT = Path(__file__).parents[2]


def refusal(**settings):
    """Return the error of `Settings.resolve` or of the prior's check for an invalid setting."""
    prior = settings.pop("prior", {})
    with pytest.raises(SettingsError) as caught:
        checked_prior(prior, Settings.resolve(**settings))
    return caught.value


@pytest.mark.parametrize(
    ("value", "meant"),
    [
        ({"method": "brat"}, "bart"),
        ({"method": "dcc-tre"}, "dcc-tree"),
        ({"family": "gausian"}, "gaussian"),
        ({"noise": "forrest"}, "forest"),
        ({"moves": "grow-prune"}, "growprune"),
        ({"moves": {"prun": 1.0}}, "prune"),
        ({"method": "dcc-tree", "search": {"delt": 1}}, "delta"),
        ({"prior": {"lamda": 1}}, "lambda"),
        ({"prior": {"sigma_estimat": 1}}, "sigma_estimate"),
        ({"family": "binomial"}, "probit"),  # and not negative-binomial, which resembles it
        ({"family": "Multinomial"}, "categorical"),
        ({"noise": "heteroscedastic"}, "forest"),
        ({"prior": {"power": 1.5}}, "beta"),
    ],
)
def test_a_misspelt_name_is_answered_with_the_meant_one(value, meant):
    """Settings, their words and the entries of mappings; nothing is suggested for what resembles none."""
    assert f"did you mean {meant}?" in str(refusal(**value))


@pytest.mark.parametrize(
    ("call", "given", "meant"),
    [
        (fit, "ndpost", "num_draws"),
        (fit, "nskip", "num_burnin"),
        (fit, "base", "prior.alpha"),
        (fit, "n_jobs", "num_threads"),
        (fit, "feature", "features"),
        (tune, "ntree", "num_trees"),
        (tune, "power", "prior.beta"),
        (BARTRegressor, "n_estimators", "num_trees"),
        (BARTClassifier, "seed", "random_state"),
    ],
)
def test_an_argument_of_another_package_is_answered_with_ours(call, given, meant):
    """Names that settings have elsewhere, and misspelt ones, are told apart from no name at all."""
    rows = () if isinstance(call, type) else (np.eye(20), np.arange(20.0))
    with pytest.raises(TypeError, match=f"did you mean {meant}") as refused:
        call(*rows, **{given: 1})
    assert repr(given) in str(refused.value)
    assert "__init__" not in str(refused.value)
    with pytest.raises(TypeError) as unknown:
        call(*rows, zyx=1)
    assert "did you mean" not in str(unknown.value)


def test_nothing_is_suggested_in_vain():
    """Neither for unlike names nor for endless ones; the words that `family` takes include auto."""
    assert "did you mean" not in str(refusal(method="zzz"))
    assert suggestion("x" * 1000, ["x" * 999]) == ""
    assert "auto, not 'tweedie'" in str(refusal(family="tweedie"))


@pytest.mark.parametrize(
    ("settings", "field", "code"),
    [
        ({"num_trees": 0}, "num_trees", "out_of_range"),
        ({"method": "bcart", "num_trees": 5}, "num_trees", "not_applicable"),
        ({"method": "bartt"}, "method", "unknown"),
        ({"family": "weibull"}, "family", "not_accepted"),
        ({"prior_only": 1}, "prior_only", "not_accepted"),
        ({"moves": {"grow": 0.5, "prune": 0.4}}, "moves", "contradiction"),
        ({"moves": {"fly": 1.0}}, "moves", "unknown"),
        ({"method": "dcc-tree", "search": {"wings": 1}}, "search.wings", "unknown"),
        ({"method": "dcc-tree", "search": {"delta": 2}}, "search.delta", "out_of_range"),
        ({"prior": {"kk": 1}}, "prior.kk", "unknown"),
        ({"prior": {"alpha": 2}}, "prior.alpha", "out_of_range"),
        ({"prior": {"k_scale": 1}}, "prior.k_scale", "not_applicable"),
        ({"prior": {"sigma": 1, "lambda": 1}}, "prior.sigma", "contradiction"),
    ],
)
def test_a_refused_setting_is_a_field_and_a_code(settings, field, code):
    """Field and code survive pickling and reach the service's fault, under the requested column's name."""
    error = refusal(**settings)

    assert (error.field, error.code) == (field, code)
    copied = pickle.loads(pickle.dumps(error))
    assert (str(copied), copied.field, copied.code) == (str(error), field, code)
    fault = Fault.of_setting(error)
    assert (fault.column, fault.field, fault.code) == (field.partition(".")[0], field, code)
    assert fault.to_json()["code"] == code


def test_every_refusal_of_a_setting_names_field_and_code():
    """Every refusal of a setting in the sampler gives field and code explicitly."""
    for path in (ROOT / "sampler").rglob("*.py"):
        for node in ast.walk(parsed(path)):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "SettingsError":
                keywords = {keyword.arg: keyword.value for keyword in node.keywords}
                assert {"field", "code"} <= set(keywords), f"{path}:{node.lineno}"
                if ast.unparse(keywords["code"]) not in ("pair.code", "error.code"):  # of a table, passed on
                    assert ast.literal_eval(keywords["code"]) in get_args(SettingsCode)
    assert {pair.code for pair in TABLE} <= {*get_args(SettingsCode)}
    assert all(pair.field and pair.ways for pair in TABLE)


def test_a_request_calls_a_setting_by_its_own_name():
    """A prediction's error calls the sampler's `num_draws` by its own name `draws`."""
    error = SettingsError("num_draws must be from 1 to 5, not 6", field="num_draws", code="out_of_range")

    fault = Fault.of_setting(error, {"num_draws": "draws"})

    assert (fault.column, fault.detail) == ("draws", "draws must be from 1 to 5, not 6")


@pytest.mark.parametrize(
    ("fault", "name"),
    [
        (Fault("prior", None, "alpha is said elsewhere", "out_of_range", "prior.k"), "prior.k"),
        (Fault("prior", None, "prior k must be a number"), ""),
        (Fault("num_trees", None, ""), "num_trees"),
        (Fault("stop.max_rhat", None, ""), "stop.max_rhat"),
        (Fault("column of the data", None, ""), ""),
    ],
)
def test_a_form_marks_the_field_that_is_named(fault, name):
    """The form marks the field named by the error, whatever its sentence."""
    assert field_of(fault) == name


def test_verdicts_give_reasons_as_codes_with_figures():
    """A verdict's sentence is made from a code and figures that are valid JSON."""
    rows = np.full(50, 1.3)
    bad = Agreement(rows, np.full(50, 0.01), rows, rows)

    verdict, (of_rows, of_sigma) = judge(bad, {"sigma": 1.5}, 4)

    assert verdict == "not_converged"
    assert of_rows.to_json() == {"code": "rows_disagree", "values": {"rhat": 1.1, "error": 0.2, "share": 0.0}}
    assert of_sigma.to_json() == {"code": "sigma_disagrees", "values": {"rhat": 1.5, "limit": 1.2}}
    assert str(of_sigma) == "sigma: R-hat 1.50 is above 1.2"
    assert set(SENTENCES) == set(get_args(ReasonCode))
    assert json.loads(json.dumps(of_rows.to_json())) == of_rows.to_json()
    fine = Agreement(np.ones(50), np.full(50, 0.01), rows, rows)
    _, reasons = judge_weighted(fine, SimpleNamespace(spread=9.0), 4)
    assert [reason.code for reason in reasons] == ["evidence_disagrees"]
    verdict, (modes,) = judge_weighted(fine, SimpleNamespace(spread=0.1), 4, chains_apart=30.0)
    assert verdict == "approximate"
    assert modes.to_json() == {"code": "chains_apart", "values": {"apart": 30.0, "limit": 10.0}}
    verdict, reasons = judge_weighted(fine, SimpleNamespace(spread=9.0), 4, chains_apart=30.0)
    assert verdict == "not_converged"
    assert [reason.code for reason in reasons] == ["evidence_disagrees", "chains_apart"]


def test_a_name_that_only_looks_the_same_is_told_by_its_codes():
    """Letters of several codes (NFC, NFD) and other blanks would make a message that contradicts itself."""
    for name, known in (("gro\u0308\u00dfe", "gr\u00f6\u00dfe"), ("size\u00a0m2", "size m2")):
        assert f"{known} looks the same, but is spelled {known!a}, not {name!a}" in suggestion(
            name, ["x", known]
        )
    assert suggestion("sizes", ["size"]) == "; did you mean size?"


@pytest.mark.parametrize("kind", ["missing weights", "text in new rows", "no group", "no group to count by"])
def test_problems_that_are_not_named_are_counted(kind):
    """All rows at fault are told of, in a message of the library and in one of the service."""
    rng = np.random.default_rng(0)
    X, y = {"a": rng.normal(size=160), "b": rng.normal(size=160)}, rng.normal(size=160)
    short = {"num_trees": 2, "num_chains": 1, "num_burnin": 2, "num_draws": 2, "thin": 1, "progress": False}
    holes = [None] * 150 + ["u", "v"] * 5
    calls = {
        "missing weights": lambda: fit(X, y, np.r_[np.full(150, np.nan), np.ones(10)], **short),
        "text in new rows": lambda: fit(X, y, **short).predict(X | {"a": ["?"] * 150 + [1.0] * 10}),
        "no group": lambda: fit(X | {"g": holes}, y, groups="g", **short),
        "no group to count by": lambda: fit(X, y, **short).score(X | {"g": holes}, y, groups="g"),
    }
    with pytest.raises(DataError, match=r"; and 145 more$") as refused:
        calls[kind]()
    faults = [Fault.of(problem) for problem in refused.value.problems]
    assert "(and 149 more)" in UnusableDataError(errors=faults).detail
    assert set(refused.value.problems[-1].to_json()) == {"column", "row", "detail"}
