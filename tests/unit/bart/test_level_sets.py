"""Rules "x in A" of categories: the sets, files, new and missing levels, questions, resuming, refusals."""

import hashlib
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from sampler import PackedError, fit, load
from sampler.bart.chain import Chain
from sampler.data.level_sets import COMPLETE, MOST_SETS, NAME, LevelSets, ways_to_part
from sampler.families import FAMILIES
from sampler.posterior.core.ensemble import columns_of_codes
from sampler.posterior.untrusted import read_contents
from sampler.preparation import prepare
from sampler.stepwise.sampler import Sampler
from sampler.storage.draws import concatenate
from sampler.storage.model_file import write_model
from sampler.storage.model_header import Header
from tests.support.chain_driver import check_resuming, fits

SETS = {"categories": "sets"}
FAST = SETS | {"linear": False, "num_trees": 10, "num_chains": 2, "num_burnin": 60, "num_draws": 20}
FAST |= {"thin": 1, "seed": 1}
PLAIN = FAST | {"noise": "constant", "transform": "none"}


def rows(levels=10, number=160, seed=0):
    """A category, some of it missing, one of two levels, a number, and an outcome by sets of levels."""
    rng = np.random.default_rng(seed)
    site, pair = rng.integers(0, levels, number), rng.integers(0, 2, number)
    x = rng.uniform(size=number)
    names = np.array([f"s{k}" for k in range(levels)] + [None], dtype=object)
    y = 2.0 * (site % 3 == 0) + (site < 4) * x + 0.5 * pair + 0.2 * rng.normal(size=number)
    site[::20] = levels
    return {"x": x, "site": names[site], "pair": np.array(["n", "y"])[pair]}, y


@pytest.fixture(scope="module")
def posterior():
    """A fit by sets, shared by tests that only ask."""
    return fit(*rows(), **PLAIN, progress=False)


@pytest.mark.parametrize("levels", range(3, COMPLETE + 1))
def test_a_category_of_few_levels_has_every_set_once(levels):
    """None is the complement of another, and no level is in the same sets as another."""
    sides = ways_to_part(levels)
    assert len(np.unique(sides, axis=0)) == len(sides) == 2 ** (levels - 1) - 1
    assert sides.any(axis=1).all()
    assert not sides[:, 0].any()
    assert len(np.unique(sides.T, axis=0)) == levels


@pytest.mark.parametrize("levels", [9, 50, 1000])
def test_a_category_of_many_levels_has_sets_drawn(levels):
    """They are half of the levels, on average, and part each two of them."""
    sides = ways_to_part(levels)
    assert len(np.unique(sides, axis=0)) == len(sides) == MOST_SETS
    assert sides.any(axis=1).all()
    assert not sides[:, 0].any()
    assert len(np.unique(sides.T, axis=0)) == levels
    assert abs(sides[:, 1:].mean() - 0.5) < 4 * 0.5 / sides.size**0.5


def test_the_sets_are_the_same_everywhere_and_always():
    """A refit, an extension and another machine choose the same ones."""
    digest = hashlib.sha256(b"".join(ways_to_part(levels).tobytes() for levels in range(3, 60))).hexdigest()
    assert digest == "32f3ed3b5b8e9fa288841eb334e891b8fe7271e7e7d00cdeb22af1ada7643f8b"


def test_features_have_equal_shares_and_sets_equal_ones_of_their_category():
    prepared = prepare(*rows(), **PLAIN)
    sets, shares = prepared.parts[NAME], prepared.training.shares
    column_of = np.append([column for column, _ in prepared.schema.coded], sets.coded_columns(0))
    assert np.allclose(np.bincount(column_of, shares[0]), 1 / 3)
    of_sets = shares[0, sets.num_coded :]
    assert len(of_sets) == MOST_SETS
    assert np.ptp(of_sets) == 0
    assert not shares[0, 1:12].any()  # indicators of ten levels and of missing ones
    assert shares[1, -1] == pytest.approx(1)
    assert np.array_equal(shares[1], np.cumsum(shares[0]))


def codes_by_hand(posterior, X):
    """Compute the trees' columns of rows cell by cell, from the names of the levels in the sets."""
    header = posterior.header
    coded, sets = posterior.encode(X).codes, header.parts[NAME]
    (own,) = sets.columns
    names = header.schema.columns[own.column].indicators
    added = [[side[names.index(cell)] if cell in names else 255 for cell in X["site"]] for side in own.sides]
    return np.concatenate([coded, np.array(added, np.uint8)])


def test_predictions_are_those_of_the_trees_walked_in_plain_python(posterior):
    """New levels and missing ones too: a rule's coin says where a new level goes, missing is a level here."""
    X, _ = rows(seed=3)
    X["site"][:6] = ["elsewhere", None, "new", "s1", None, "s9"]
    draws, codes = posterior.law.draws.chains(), codes_by_hand(posterior, X)
    constants = prepare(*rows(), **PLAIN).training.constants
    plain = np.stack([fits(chain, codes, constants) for chain in draws])
    np.testing.assert_allclose(posterior.sample(X), plain, atol=1e-9)
    some = {name: cells[:5] for name, cells in X.items()}  # few rows have a kernel of their own
    np.testing.assert_allclose(posterior.sample(some), plain[:, :, :5], atol=1e-9)
    np.testing.assert_allclose(posterior.predict(X).mean, plain.mean(axis=(0, 1)), atol=1e-9)
    used = np.concatenate([chain.feature for chain in draws])
    assert (used >= 13).sum() > 50, "trees have rules by sets"
    assert not np.isin(used, range(1, 12)).any(), "no rule is by an indicator of such a category"


def test_a_new_level_is_named_and_less_sure(posterior):
    """It may go with any of the levels, so its interval of f is wider than theirs."""
    X = {"x": [0.5, 0.5], "site": ["elsewhere", "s1"], "pair": ["n", "n"]}
    answer = posterior.predict(X, interval="credible")
    assert any("elsewhere" in text for text in answer.warnings)
    width = answer.upper - answer.lower
    assert width[0] > width[1]


def test_data_choose_noise_transform_and_line_beside_sets():
    """Short fits to parts of the rows predict the others by the columns that all have."""
    X, y = rows(number=400)
    prepared = prepare(X, np.exp(y), **SETS, num_trees=2)
    assert {"constant", "forest"} <= prepared.noise_choice.losses.keys()
    assert prepared.parts[NAME]


def test_training_rows_have_f_of_the_chain():
    """The columns that chains see are those of predictions."""
    X, y = rows()
    training = prepare(X, y, **PLAIN).training
    chain = Chain.start(training, 0)
    chain.run(chain.iterations)
    last = concatenate([chain.take()])
    own = fit(X, y, progress=False, **PLAIN | {"num_chains": 1})
    assert np.array_equal(training.codes, codes_by_hand(own, X))
    f = fits(last, training.codes, training.constants)
    np.testing.assert_allclose(own.sample(X)[0], f, atol=1e-9)


def test_files_keep_the_sets(posterior, tmp_path):
    posterior.save(tmp_path / "model.bart")
    data = (tmp_path / "model.bart").read_bytes()
    read = load(tmp_path / "model.bart")
    X, _ = rows(seed=5)
    assert np.array_equal(read.sample(X), posterior.sample(X))
    assert read_contents(data).posterior.settings["categories"] == "sets"
    header = posterior.header
    again = Header.from_bytes(header.to_bytes())
    assert again.to_bytes() == header.to_bytes()


@pytest.mark.parametrize(
    "sets",
    [
        [],
        [["ff"]],
        [["zz" * 2]],
        [["0000"] * 3],
        [["ffe0"] * 3],
        [["aaaa"] * (MOST_SETS + 1)],
        [["aaaa"], ["aaaa"]],
        "aaaa",
        [[7]],
        None,
    ],
)
def test_sets_that_fit_no_category_are_refused(posterior, sets):
    header = posterior.header
    with pytest.raises((ValueError, TypeError)):
        LevelSets.from_json(sets, header.schema, header.reference.shape)


def test_a_file_whose_settings_have_no_sets_is_refused(posterior):
    header = posterior.header
    forged = dict(header.settings)
    del forged["categories"]
    blocks, statistics = posterior.law.draws.blocks, posterior.law.draws.statistics
    data = write_model(replace(header, settings=forged).to_bytes(), blocks, statistics)
    with pytest.raises(PackedError, match="sets of levels"):
        read_contents(data)


@pytest.mark.parametrize("more", [{}, {"noise": "forest"}, {"moves": "cgm"}, {"moves": "pg"}], ids=str)
def test_a_chain_resumes_bit_for_bit(more):
    check_resuming(prepare(*rows(number=60), **PLAIN | {"num_chains": 1, "num_draws": 10} | more).training)


def test_shap_values_are_those_of_the_game(posterior):
    """Shapley's formula over three features, by predictions of rows put together from two."""
    X, _ = rows(seed=7)
    X["site"][:2] = ["elsewhere", None]
    some = {name: cells[:3] for name, cells in X.items()}
    background = {name: cells[10:16] for name, cells in X.items()}
    answer = posterior.shap(some, background=background)
    names = list(X)

    def value(row, coalition):
        mixed = {n: [some[n][row]] * 6 if n in coalition else list(background[n]) for n in names}
        return posterior.sample(mixed).mean()

    for row in range(3):
        expected = []
        for name in names:
            a, b = (other for other in names if other != name)
            gains = [
                (value(row, {name}) - value(row, set())) / 3,
                (value(row, {name, a}) - value(row, {a})) / 6,
                (value(row, {name, b}) - value(row, {b})) / 6,
                (value(row, {name, a, b}) - value(row, {a, b})) / 3,
            ]
            expected.append(sum(gains))
        np.testing.assert_allclose(np.ravel(answer.values[row]), expected, atol=1e-9)


def test_effects_of_a_category_are_of_its_sets_too(posterior):
    """Copies of rows that differ by a category differ in the columns of its sets."""
    X, _ = rows()
    many = {name: np.tile(cells, 8) for name, cells in X.items()}  # enough for copies to be evaluated apart
    of_sites = posterior.partial_dependence("site", X=many)
    assert len(of_sites.grid[0]) == 11
    for at, site in enumerate(of_sites.grid[0]):
        changed = many | {"site": np.full(len(many["x"]), site, dtype=object)}
        assert of_sites.mean[at] == pytest.approx(posterior.sample(changed).mean(), abs=1e-9)
    shares = posterior.inclusion()
    assert shares.mean.sum() == pytest.approx(1)
    column_of = columns_of_codes(posterior.header)
    feature = np.concatenate([chain.feature for chain in posterior.law.draws.chains()])
    assert np.count_nonzero(column_of[feature[feature >= 0]] == 1) > 50
    assert posterior.interactions().pairs


@pytest.mark.parametrize("family", FAMILIES)
def test_every_family_learns_by_sets(family):
    X, y = rows()
    counts = np.rint(np.exp(y)).astype(int)
    outcomes = {
        "numbers": y,
        "two": y > 1,
        "classes": np.array(["a", "b", "c"])[np.minimum(counts // 3, 2)],
        "ordered": np.minimum(counts, 4),
        "counts": counts,
    }
    chosen = FAMILIES[family]
    y = np.where(y < 0.6, 0.0, y) if chosen.point else outcomes[chosen.target]
    noise = {"noise": "t-forest", "transform": "none"} if chosen.noise else {}
    made = fit(X, y, progress=False, family=family, **FAST | noise)
    assert made.header.parts[NAME]
    before = made.predict(X)
    assert np.isfinite(before.mean).all()
    assert made.inclusion().mean[1] > 0.1
    half = {name: cells[:50] for name, cells in X.items()}
    np.testing.assert_allclose(made.predict(half).mean, before.mean[:50], atol=1e-12)


def test_several_outcomes_learn_by_sets():
    """Each has trees of its own by the sets, walked by hand here, and the whole is extended and scored."""
    X, y = rows()
    other = np.random.default_rng(4).normal(-y, 0.3)
    both = {"a": y, "b": np.where(np.arange(160) % 7 == 0, np.nan, other)}
    made = fit(X, both, progress=False, **FAST)
    new, _ = rows(seed=3)
    new["site"][:2] = ["elsewhere", None]
    mean = made.predict(new).mean
    for number, outcome in enumerate([made["a"], made["b"]]):
        draws, codes = outcome.law.draws.chains(), codes_by_hand(outcome, new)
        used = np.concatenate([chain.feature for chain in draws])
        assert (used >= 13).sum() > 50
        assert not np.isin(used, range(1, 12)).any()
        law = SimpleNamespace(offset=outcome.law.offset, step=outcome.law.step)
        plain = np.stack([fits(chain, codes, law) for chain in draws])
        np.testing.assert_allclose(mean[:, number], plain.mean(axis=(0, 1)), atol=1e-9)
    longer = fit(X, both, progress=False, **FAST | {"num_draws": 12}).extend(8, X, both)
    np.testing.assert_array_equal(longer.predict(new).mean, mean)
    assert made.score(new, {"a": y, "b": other}).rows == 160


def test_without_a_category_of_three_levels_the_fit_is_that_of_indicators():
    X, y = rows()
    few = {"x": X["x"], "pair": X["pair"]}
    made, other = (
        fit(few, y, progress=False, **PLAIN),
        fit(few, y, progress=False, **PLAIN | {"categories": "indicators"}),
    )
    assert np.array_equal(made.sample(few), other.sample(few))
    assert NAME not in made.header.parts


def test_trees_tell_the_levels_of_a_rule():
    """Rows of the levels named go right."""
    X, y = rows()
    sampler = Sampler(X, y, **SETS, num_trees=5, seed=2, noise="constant", linear=False, transform="none")
    for _ in range(30):
        sampler.step()
    table = sampler.trees()
    sets = [at for name, at in zip(table.feature, table.at, strict=True) if name == "site"]
    assert sets
    known = {*X["site"]}
    assert all(isinstance(at, tuple) and 0 < len({*at} & known) < len(known) for at in sets)


def test_a_table_too_wide_for_its_sets_is_refused(monkeypatch):
    monkeypatch.setattr("sampler.preparation.encode.MAX_COLUMNS", 60)
    with pytest.raises(ValueError, match="coded columns"):
        prepare(*rows(), **PLAIN)
