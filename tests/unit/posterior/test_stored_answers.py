"""Every answer of every kind of model is the same bits before it is saved and after it is read."""

import gc
import pickle
import tracemalloc
import warnings
from dataclasses import replace

import numpy as np
import pytest

from sampler import DataWarning, Posterior, SettingsError, fit_many, load, load_many
from sampler.definitions.data import COLUMN_ROLES
from sampler.families import FAMILIES
from sampler.methods import METHODS
from sampler.noise import AUTO, NOISES
from sampler.posterior.several.stored import read_posterior
from tests.support.models import kinds
from tests.support.models.questions import DEAR, answers

QUICK = (
    *("gaussian+slopes+linear", "gaussian+treatment+weights+linear", "gaussian+dose", "gaussian+subgroups"),
    *("gaussian+yeo-johnson+forest+recalibrated", "gaussian+recalibrated+calibrated"),
    *("probit+treatment+offset", "poisson+exposure+treatment", "zero-inflated-poisson+exposure"),
    *("hurdle+t-forest+linear", "several-with-class", "gaussian+limits", "gaussian+rjhmc-df"),
)
REST = [name for name in kinds.KINDS if name not in QUICK]


def cheap(question: str) -> bool:
    return not question.startswith(DEAR)


def test_kinds_are_of_every_family_method_noise_and_role():
    """The table of kinds has each family, method and kind of noise, each role of a column, and each part."""
    every = [kinds.Kind(name) for name in kinds.KINDS]
    given = [kind.arguments for kind in every]
    assert {kind.family for kind in every} >= {*FAMILIES}
    assert {each.get("method", "bart") for each in given} >= {*METHODS}
    assert {each.get("noise") for each in given} >= {*NOISES} - {AUTO}
    weighted = {"weights"} if any(kind.weights is not None for kind in every) else set()
    assert weighted | {role for each in given for role in each} >= {*COLUMN_ROLES}
    assert {part for kind in every for part in kind.parts} == {*kinds.PARTS}
    assert {*QUICK} <= {*kinds.KINDS}


def check(name: str, read: object, only=cheap) -> None:
    kind, posterior = kinds.Kind(name), kinds.fitted(name)
    before, after = answers(kind, posterior, only), answers(kind, read, only)
    assert before.keys() == after.keys()
    assert {key: (each, after[key]) for key, each in before.items() if each != after[key]} == {}


@pytest.mark.parametrize("name", [*QUICK, *(pytest.param(each, marks=pytest.mark.slow) for each in REST)])
@pytest.mark.sampled(quick=5, slow=10)
def test_answers_are_the_same_after_loading(name, tmp_path):
    """All questions have the same answers of a model and of its file, by default rows and by given ones."""
    kinds.fitted(name).save(tmp_path / "model")
    check(name, load(tmp_path / "model"))


@pytest.mark.parametrize(
    "name", [name if name == QUICK[0] else pytest.param(name, marks=pytest.mark.slow) for name in QUICK]
)
@pytest.mark.sampled(slow=4)
def test_all_ways_to_read_are_one(name):
    """Bytes and pickles are read as files are."""
    posterior = kinds.fitted(name)
    data = posterior.to_bytes()
    for again in (
        type(posterior).from_bytes(data),
        read_posterior(data),
        pickle.loads(pickle.dumps(posterior)),
    ):
        assert type(again) is type(posterior)
        assert again.to_bytes() == data
    check(name, again, lambda question: question.startswith(("effects", "partial", "summary")))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["gaussian+treatment+weights+linear", "poisson+exposure+treatment"])
def test_answers_are_the_same_from_a_folder(name, tmp_path):
    """A model that `fit_many` put into a folder answers as the fit to the rows does."""
    kind = kinds.Kind(name)
    roles = {role: role for role in kind.rows if role in COLUMN_ROLES}
    table = kind.rows | {"y": kind.y, "shop": ["one"] * len(kind.y)}
    if kind.weights is not None:
        table["weights"], roles["weights"] = kind.weights, "weights"
    given = {key: value for key, value in kind.arguments.items() if key not in roles}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DataWarning)
        fit_many(
            table, by="shop", target="y", folder=tmp_path, num_processes=1, progress=False, **given, **roles
        )
    of_files = ("calibrate", "discard", "extend", "header", "schema", "to_bytes")  # this has no column "shop"
    check(name, load_many(tmp_path)["one"], lambda q: cheap(q) and not q.startswith(of_files))


@pytest.mark.long
@pytest.mark.parametrize("family", [*FAMILIES, kinds.SEVERAL, kinds.SEVERAL_WITH_CLASS])
def test_answers_of_every_pair_are_the_same(family):
    """All questions of all families with every two parts have the same answers once read."""
    for name in dict.fromkeys([*kinds.KINDS, *kinds.every_pair()]):
        if name.split("+")[0] == family and kinds.accepted(name):
            check(name, read_posterior(kinds.fitted(name).to_bytes()), lambda _: True)


@pytest.mark.parametrize(
    ("name", "role", "noun"),
    [
        ("poisson+exposure+treatment", "exposure", "exposures"),
        ("probit+treatment+offset", "offset", "offsets"),
    ],
)
def test_files_that_lack_roles_of_their_rows_are_refused(name, role, noun):
    """Questions of default rows are refused by name where an old file has no exposures, and never take 1."""
    kind, posterior = kinds.Kind(name), kinds.fitted(name)
    kept = {key: values for key, values in posterior.header.reference_outcomes.items() if key != role}
    for outcomes in ({}, kept):
        header = replace(posterior.header, reference_outcomes=outcomes)
        old = Posterior.from_blocks(header.to_bytes(), posterior.law.draws.blocks)
        asked = answers(
            kind, old, lambda q: q.startswith(("effects", "partial_d", "contrast", "accumulated"))
        )
        for question, answer in asked.items():
            of_default_rows = "X" not in question and "contrast" not in question
            assert not of_default_rows or f"did not keep the {noun}" in answer, question
        with pytest.raises(SettingsError, match=f"rows with the column {role}, or fit again"):
            old.contrast(None, {"last": 0.2}, {"last": 0.8})
        assert old.effects(kind.rows).average == posterior.effects(kind.rows).average
        assert old.log_likelihood(kind.rows, kind.y).shape == (2, 5, kinds.ROWS)
        assert "log_likelihood" not in old.law.scalars()


def test_default_rows_are_at_their_exposures():
    """An effect along a column, averaged, is the effect: both by default rows, at the rows' exposures."""
    posterior = kinds.fitted("poisson+exposure+treatment")
    dependence = posterior.partial_dependence("kind", of="effect")
    average = posterior.effects().average.mean
    assert np.min(dependence.mean) <= average <= np.max(dependence.mean)


@pytest.mark.parametrize("name", [*QUICK, *(pytest.param(each, marks=pytest.mark.slow) for each in REST)])
@pytest.mark.sampled(quick=5, slow=10)
def test_what_a_model_holds_is_counted(name):
    """`nbytes` is what stands in memory of every kind of model: packed bytes, and what is made of them."""
    kind, data = kinds.Kind(name), kinds.fitted(name).to_bytes()

    def ask(posterior: object) -> None:
        answers(kind, posterior, lambda question: question.startswith(("predict", "effects", "summary")))

    ask(read_posterior(data))  # loads what all models share
    gc.collect()
    tracemalloc.start()
    try:
        posterior = read_posterior(data)
        counted = posterior.nbytes
        ask(posterior)
        gc.collect()
        held = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    assert 0.8 * held - 20_000 < counted < 1.3 * held + 10_000, (counted, held)
    assert counted > len(data)
