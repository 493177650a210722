"""Model files from untrusted sources: every length and count is checked before use."""

import copy
import json
import struct
from dataclasses import replace

import numpy as np
import pytest

from sampler import PackedError, Posterior, pack, unpack
from sampler.definitions.several import correlation_name
from sampler.posterior.untrusted import MAX_DEPTH, MAX_HEADER_TEXT, MAX_INDEX, read_contents
from sampler.posterior.verdict.reasons import VERDICTS
from sampler.storage.block_format import HEAD, SOFT_TREES
from sampler.storage.model_file import write_model
from sampler.storage.model_header import REFERENCE_ROWS
from tests.support.fuzzing.model_files import File, sealed, sealed_block, seeds, taken_apart
from tests.support.models.kinds import fitted
from tests.support.models.random_posteriors import make_posterior


@pytest.fixture
def file() -> File:
    return taken_apart(make_posterior()[0].to_bytes())


def refused(file: File | bytes, word: str) -> None:
    with pytest.raises(PackedError, match=word):
        read_contents(file if isinstance(file, bytes) else file.to_bytes())


def test_a_valid_file_is_read(file):
    """A valid file's parts are restored, with the verdict on the draws."""
    posterior = make_posterior()[0]
    contents = read_contents(file.to_bytes())
    assert [[block.data for block in chain] for chain in contents.chains] == file.chains
    assert contents.summary.to_json() == posterior.summary().to_json()


@pytest.mark.parametrize("rows", [0, REFERENCE_ROWS + 1, 50_000])
def test_reference_rows_are_as_many_as_a_fit_keeps(file, rows):
    """More reference rows than a fit keeps are refused: a summary evaluates every draw at each of them."""
    coded = len(file.text["num_cuts"])
    cuts = 8 * sum(file.text["num_cuts"])
    del file.text["reference_outcomes"]
    file.arrays = file.arrays[:cuts] + bytes(coded * rows)
    file.text["num_reference"] = rows
    refused(file, "reference rows")
    file.text["num_reference"], file.arrays = (
        REFERENCE_ROWS,
        file.arrays[:cuts] + bytes(coded * REFERENCE_ROWS),
    )
    if rows > REFERENCE_ROWS:
        assert read_contents(file.to_bytes())


def test_a_long_index_is_not_decoded(file, monkeypatch):
    """An index with millions of empty lists, gigabytes once decoded, is refused before decoding."""
    file.index["chains"] = [[]] * (MAX_INDEX // 3)
    data = file.to_bytes()
    monkeypatch.setattr(json, "loads", lambda _: pytest.fail("it was decoded"))
    refused(data, "index is longer")


def test_a_long_header_is_not_decoded(file, monkeypatch):
    """Oversized headers and indices are refused; those of thousands of columns are accepted."""
    file.text["new"] = "x" * MAX_HEADER_TEXT
    data, loads = file.to_bytes(), json.loads
    monkeypatch.setattr(
        json,
        "loads",
        lambda text: loads(text) if len(text) < MAX_HEADER_TEXT else pytest.fail("it was decoded"),
    )
    refused(data, "text of the model's header is longer")


def test_sizes_are_judged_before_draws_are_unpacked(file, monkeypatch):
    """Chains, draws and nodes are counted from the blocks' headers, before draws are unpacked."""
    monkeypatch.setattr(Posterior, "from_blocks", lambda *_: pytest.fail("it was unpacked"))
    many = File(file.index | {"statistics": []}, file.text, file.arrays, [[]] * 257 + file.chains)
    refused(many, "259 chains")
    monkeypatch.setattr("sampler.posterior.untrusted.MAX_NODES", 100)
    refused(file, "too large")


def test_trees_of_the_header_are_counted_too(monkeypatch):
    """Nodes of the trees of a propensity, which stand in the header, count as those of the chains do."""
    data = fitted("gaussian+arms").to_bytes()
    assert read_contents(data)
    monkeypatch.setattr("sampler.posterior.untrusted.MAX_NODES", 1000)
    refused(data, "too large")


@pytest.mark.parametrize(
    "moves", [{"grow": 5}, {"grow": None}, {"grow": [1]}, [1], 5, {"grow": {"proposed": 1}}]
)
def test_counts_of_moves_are_counts(file, moves):
    """Anything other than counts of moves in their place is refused."""
    file.index["statistics"] = [{"moves": moves}] * 2
    refused(file, "counts of moves")


@pytest.mark.parametrize("length", range(HEAD.size, HEAD.size + 8))
def test_a_short_block_of_another_kind(file, length):
    """A block of soft trees shorter than its header is refused."""
    block = file.chains[0][0][:length]
    file.chains[0][0] = sealed_block(block[:5] + bytes([SOFT_TREES]) + block[6:])
    refused(file, "cut short")


@pytest.mark.parametrize("depth", [MAX_DEPTH, 300, 900])
@pytest.mark.parametrize("where", ["statistics", "constants"])
def test_what_is_stored_is_not_nested_deeply(file, where, depth):
    """Deep nesting is refused, since JSON writers fail at depths that readers accept."""
    value: object = 1
    for _ in range(depth):
        value = [value]
    if where == "statistics":
        file.index["statistics"] = [{"divide": value}] * 2
    else:
        file.text["constants"]["new"] = value
    refused(file, "nested too deeply")


def test_a_file_ends_with_its_parts(file):
    """Extra bytes at the end of a file are refused."""
    data = file.to_bytes()
    (length,) = struct.unpack_from("<I", data, 14)
    refused(
        sealed(b"BARTMODL", data[18 : 18 + length], data[18 + length :] + b"more"), "longer than its parts"
    )


@pytest.mark.parametrize(
    "index",
    [
        {"chains": {}},
        {"chains": ["1"]},
        {"chains": [[True]]},
        {"statistics": [[["moves", 1]]]},
        {"checkpoints": {}},
    ],
)
def test_an_index_lists_what_it_holds(file, index):
    """An index holds lists of lengths and one object per chain."""
    file.index |= index
    refused(file, "can't be read")


def test_any_exception_of_a_reader_is_a_refusal(file, monkeypatch):
    """Any other exception while reading a file is reported as a refusal of the file."""
    for error in (
        struct.error("x"),
        KeyError("x"),
        AttributeError("x"),
        OverflowError("x"),
        RecursionError("x"),
    ):

        def fail(*_, error=error):
            raise error

        monkeypatch.setattr(Posterior, "from_blocks", fail)
        refused(file, "don't fit each other")


@pytest.mark.parametrize(
    ("field", "value", "word"),
    [
        ("exposure", "days", "exposure doesn't fit"),
        ("exposure", "a\0", "can't be stored"),
        ("exposure", "\ud800", "can't be stored"),
        ("transform", {"kind": "log", "centre": 0, "scale": 1, "power": 0}, "transform doesn't fit"),
    ],
)
def test_parts_that_the_settings_do_not_name(file, field, value, word):
    """A part that the model's settings have no place for is refused."""
    file.text[field] = value
    refused(file, word)


def test_files_of_every_kind_are_read():
    """The corpus of the fuzzer is of valid files, of each kind of noise, outcome and transform."""
    assert {read_contents(data).posterior.family for data in seeds()} == {
        "gaussian", "probit", "categorical", "poisson", "zero-inflated-negative-binomial",
    }  # fmt: skip


@pytest.mark.parametrize("rate", [0, -1, 1e300, None])
def test_rates_of_counts_are_positive(rate):
    """A rate that is not positive, or whose multiples are too large for a float, is refused."""
    file = next(each for each in map(taken_apart, seeds()) if each.text["settings"]["family"] == "poisson")
    file.text["constants"]["rate"] = rate
    refused(file, "rate|fit each other")


@pytest.fixture(scope="module")
def of_several() -> bytes:
    return next(data for data in seeds() if read_contents(data).posterior.several)


def test_models_of_several_outcomes_are_read(of_several):
    """All outcomes of a file are judged; the verdict is that of the least settled."""
    contents = read_contents(of_several)
    several = contents.posterior.several
    assert several.outcomes == ("y", "z", "k")
    order = [*VERDICTS]
    verdicts = [summary.verdict for summary in several.summary().values()]
    assert contents.summary.verdict == max(verdicts, key=order.index)


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"outcome": "y"}, "can't be those of one model"),
        ({"family": "categorical"}, "fit"),
        ({"num_trees": 4}, "not the same"),
    ],
)
def test_outcomes_of_one_model_belong_together(of_several, change, word):
    """Outcomes of the same name, of other families or trees are no outcomes of one model."""
    contents = read_contents(of_several)
    first, *others = contents.posterior.several._headers  # of each outcome
    second = others[0]
    if "outcome" in change:
        schema = replace(second.schema, target=replace(second.schema.target, name=change["outcome"]))
        second = replace(second, schema=schema)
    else:
        second = replace(second, settings=second.settings | change)
    header = replace(first, others=(second.to_bytes(), others[1].to_bytes())).to_bytes()
    blocks = [[block.data for block in chain] for chain in contents.chains]
    refused(write_model(header, blocks, contents.statistics), word)


@pytest.mark.parametrize("correlation", [1.5, -1.0, 1.0])
def test_correlations_of_outcomes_are_possible(of_several, correlation):
    """Correlations beyond 1, or of which there are no normal errors, are refused."""
    contents = read_contents(of_several)
    blocks = []
    for chain in contents.chains:
        draws = unpack(chain[0].data)
        scalars = draws.scalars | {correlation_name(0, 1): np.full(draws.num_draws, correlation)}
        blocks.append([pack(replace(draws, scalars=scalars))])
    refused(write_model(contents.header, blocks, contents.statistics), "correlations")


NAMES = {
    "a\nb": "unprintable",
    "a\u202eb": "unprintable",
    "": "empty",
    " ": "empty",
    "x" * 10_000: "200 characters",
}


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("kind", ["poisson+exposure", "gaussian+slopes+linear", "gaussian+calibrated-groups"])
def test_names_are_those_that_datasets_may_have(kind, name):
    """Names of features, outcomes, groups and columns with a role are refused that no dataset has."""
    good = taken_apart(fitted(kind).to_bytes())
    assert read_contents(good.to_bytes())
    places = [("schema", "columns", 0, "name"), ("schema", "target", "name")]
    places += [("schema", "groups", 0, "name")] * ("groups" in good.text["schema"])
    places += [("exposure",)] * ("exposure" in good.text)
    places += [("calibration", "new_rows", "groups")] * ("new_rows" in good.text.get("calibration", {}))
    if name.strip():
        good.text["schema"]["ignored"] = ["other"]
        places.append(("schema", "ignored", 0))
    for *path, last in places:
        inner, file = (forged := copy.deepcopy(good.text)), replace(good, text=None)
        for step in path:
            inner = inner[step]
        inner[last] = name
        refused(replace(file, text=forged), NAMES[name])


@pytest.mark.parametrize("kind", ["gaussian+t", "gaussian+forest", "several", "gaussian+groups", "ordinal"])
def test_chains_have_the_same_parts(kind):
    """Chains, and blocks of one, whose scalars or forests have other names are refused."""
    contents = read_contents(fitted(kind).to_bytes())
    blocks = [[block.data for block in chain] for chain in contents.chains]
    draws = unpack(blocks[1][0])
    more = replace(draws, scalars=draws.scalars | {"further": np.ones(draws.num_draws)})
    another = replace(draws, forests=draws.forests | {"further": replace(draws, scalars={}, forests={})})
    for changed in (more, another):
        for chains in ([blocks[0], [pack(changed)]], [blocks[0], [blocks[1][0], pack(changed)]]):
            refused(
                write_model(contents.header, chains, contents.statistics), "differ in their|fit each other"
            )


def test_numbers_have_values_to_be_shown_at(file):
    """An empty list in place of a number's values by default is refused, one of a category's is not."""
    file.text["default_grid"] = [[], [], [], []]
    refused(file, "no values at which to show column 'x1'")
