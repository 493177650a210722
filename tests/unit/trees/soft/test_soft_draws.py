"""Stored soft trees: exact, checked, stable in format."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sampler.errors import PackedError
from sampler.storage import draw_codec
from sampler.storage.draws import concatenate
from sampler.trees.soft.codec import pack, unpack
from sampler.trees.soft.draws import SoftDraws

FIXTURE = Path(__file__).parents[3] / "data" / "formats" / "soft_v1.bin"
FIELDS = ("sigma", "log_weight", "is_split", "threshold", "direction", "value")


def random_shape(rng, depth=0):
    """Return the split bits of a random tree in pre-order."""
    if rng.random() > 0.8 / (1 + depth):
        return [False]
    return [True, *random_shape(rng, depth + 1), *random_shape(rng, depth + 1)]


def random_draws(seed, num_draws=5, num_trees=2, features=3, values=1):
    rng = np.random.default_rng(seed)
    shape = np.array([bit for _ in range(num_draws * num_trees) for bit in random_shape(rng)], bool)
    splits = int(shape.sum())
    return SoftDraws.from_parts(
        num_trees=num_trees,
        sharpness=0.025,
        sigma=rng.gamma(2.0, size=num_draws),
        log_weight=rng.normal(size=num_draws),
        is_split=shape,
        threshold=rng.random(splits),
        direction=rng.dirichlet(np.ones(features), splits).reshape(splits, features),
        value=rng.normal(size=(len(shape) - splits, values)),
    )


def same(one, other):
    return (
        one.num_trees == other.num_trees
        and one.sharpness == other.sharpness
        and all(np.array_equal(getattr(one, name), getattr(other, name)) for name in FIELDS)
    )


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    num_draws=st.integers(0, 6),
    num_trees=st.integers(1, 3),
    features=st.integers(1, 5),
    values=st.integers(1, 4),
)
def test_soft_draws_come_back_bit_for_bit(seed, num_draws, num_trees, features, values):
    """Draws of any topologies are restored exactly; equal draws have equal bytes."""
    draws = random_draws(seed, num_draws, num_trees, features, values)

    data = pack(draws)

    assert same(draws, unpack(data))
    assert data == pack(unpack(data))


def test_slices_and_joins():
    """Blocks split anywhere and joined again give equal draws."""
    draws = random_draws(9, num_draws=7, num_trees=2, values=3)

    assert concatenate([draws[:2], draws[2:3], draws[3:]]) == draws
    assert draw_codec.unpack(draw_codec.pack(draws[2:6])) == draws[2:6]
    assert draws[2:6] != draws[1:5]
    other = SoftDraws.from_parts(
        **{name: getattr(draws, name) for name in (*FIELDS, "num_trees")}, sharpness=0.5
    )
    with pytest.raises(PackedError, match="sharpness"):
        concatenate([draws, other])


def test_every_altered_byte_is_noticed():
    """A flipped bit anywhere is refused."""
    data = pack(random_draws(1))
    for at in range(len(data)):
        altered = bytearray(data)
        altered[at] ^= 4
        with pytest.raises(PackedError):
            unpack(bytes(altered))


def test_every_truncation_is_noticed():
    """A block truncated anywhere is refused."""
    data = pack(random_draws(2))
    for end in range(len(data)):
        with pytest.raises(PackedError):
            unpack(data[:end])


def test_the_two_kinds_are_told_apart():
    """The generic reader restores soft draws as such; the soft reader refuses other draws."""
    sharp, draws = (FIXTURE.parent / "draws_v1.bin").read_bytes(), random_draws(3)

    assert draw_codec.pack(draws) == pack(draws)
    assert draw_codec.unpack(pack(draws)) == draws
    assert draw_codec.sizes(pack(draws)) == (draws.num_draws, 2, draws.num_nodes)
    with pytest.raises(PackedError, match="kind 1"):
        unpack(sharp)


def test_parts_that_contradict_each_other_are_refused():
    """Draws whose trees don't end, or whose arrays don't fit, are refused."""
    draws = random_draws(4)
    parts = {name: getattr(draws, name) for name in (*FIELDS, "num_trees", "sharpness")}
    changes = {"is_split": draws.is_split[:-1], "threshold": draws.threshold[:-1], "num_trees": 3}
    for name, value in changes.items():
        with pytest.raises(PackedError):
            SoftDraws.from_parts(**{**parts, name: value})


def test_the_fixture_of_format_1_still_reads():
    """The stored block of format 1 gives equal draws, and packs to equal bytes."""
    assert same(random_draws(20), unpack(FIXTURE.read_bytes()))
    assert pack(random_draws(20)) == FIXTURE.read_bytes()
