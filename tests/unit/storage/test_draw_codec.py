"""Stored draws are restored bit for bit, and invalid blocks are refused."""

import hashlib
import struct
import zlib
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sampler.errors import PackedError
from sampler.storage.draw_codec import pack, unpack
from sampler.storage.draws import Draws
from tests.support.models.random_forests import random_draws

FIXTURE = Path(__file__).parents[2] / "data" / "formats" / "draws_v1.bin"


def forged(data, offset, form, value):
    """Return the block with one header field changed and a valid checksum."""
    changed = bytearray(data)
    struct.pack_into(form, changed, offset, value)
    struct.pack_into("<I", changed, 8, zlib.crc32(changed[12:], zlib.crc32(changed[:8])))
    return bytes(changed)


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    shape=st.tuples(st.integers(1, 5), st.integers(1, 7)),
    num_features=st.sampled_from([1, 2, 3, 17, 1000, 2**31 - 1]),
    grow=st.floats(0, 0.49),
    leaf_sd=st.sampled_from([0.0, 0.3, 50.0, 3e4, 4e8]),
)
def test_every_draw_comes_back_exactly(seed, shape, num_features, grow, leaf_sd):
    """Trees of any shape, number of features and leaf values are restored exactly."""
    draws = random_draws(seed, *shape, num_features, grow, leaf_sd=min(leaf_sd, 4e8))
    assert unpack(pack(draws)) == draws


@pytest.mark.parametrize("leaf", [2**31 - 1, -(2**31), 0, -1])
def test_extreme_leaves(leaf):
    """Leaf values at the limits of int32 are exact."""
    draws = random_draws(3)
    draws.leaf[draws.feature < 0] = leaf
    assert unpack(pack(draws)) == draws


@pytest.mark.parametrize("leaf_sd", [0.0, 1.0, 40.0, 5e3, 4e8])
def test_leaves_take_the_fewest_bits(leaf_sd):
    """The chosen leaf width is the one of 32 that gives the smallest block, found by trying each."""
    draws = random_draws(11, num_draws=3, leaf_sd=leaf_sd)
    folded = [2 * v if v >= 0 else -2 * v - 1 for v in draws.leaf[draws.feature < 0].tolist()]
    sizes = [sum(bits + 32 * (v >= 2**bits - 1) for v in folded) for bits in range(1, 33)]
    width = pack(draws)[7]
    assert sizes[width - 1] == min(sizes)
    assert width == sizes.index(min(sizes)) + 1


def test_no_draws():
    """A block without draws is valid."""
    assert unpack(pack(random_draws(1)[:0])) == random_draws(1)[:0]


def test_slices_pack_like_the_whole():
    """Draws packed in parts are restored equal."""
    draws = random_draws(5, num_draws=7)
    assert unpack(pack(draws[2:5])) == draws[2:5]


def test_size_of_default_trees():
    """Trees like the prior's take at most 14 bytes each (promise 5)."""
    draws = random_draws(2, 50, 200, 10, grow=0.38, leaf_sd=20_000)
    assert len(pack(draws)) / (50 * 200) < 10


def test_format_1_reads_for_ever():
    """The stored block of format 1 gives its recorded draws."""
    draws = unpack(FIXTURE.read_bytes())
    arrays = (draws.sigma, draws.tree_start, draws.feature, draws.cut, draws.missing_left, draws.leaf)
    assert (draws.num_draws, draws.num_trees) == (4, 6)
    digest = hashlib.sha256(b"".join(array.tobytes() for array in arrays)).hexdigest()
    assert digest == "c843fcacb5a4c3288aa01e46319108dd3a086d515ede0109631e0c07d75f8c95"


@settings(max_examples=200, deadline=None)
@given(position=st.integers(0), bit=st.integers(0, 7))
def test_any_flipped_bit_is_noticed(position, bit):
    """A single flipped bit anywhere is refused."""
    data = bytearray(pack(random_draws(1, 2, 3)))
    data[position % len(data)] ^= 1 << bit
    with pytest.raises(PackedError):
        unpack(bytes(data))


@pytest.mark.parametrize("kept", [0, 3, 35, 36, 50, -8, -1])
def test_truncated(kept):
    """A block truncated anywhere is refused."""
    with pytest.raises(PackedError):
        unpack(pack(random_draws(1))[:kept])


def test_newer_version_says_so():
    """A block of a later format is refused with both versions."""
    with pytest.raises(PackedError, match=r"format 2.*reads up to 1"):
        unpack(forged(pack(random_draws(1)), 4, "<B", 2))


@pytest.mark.parametrize(
    ("offset", "form", "value"),
    [
        (6, "<B", 32),  # feature bits
        (6, "<B", 7),
        (7, "<B", 0),  # leaf bits
        (7, "<B", 33),
        (7, "<B", 31),
        (12, "<I", 2**32 - 1),  # draws
        (12, "<I", 2),
        (16, "<I", 2**32 - 1),  # trees
        (16, "<I", 3),
        (20, "<Q", 2**63),  # nodes
        (20, "<Q", 5),
        (28, "<Q", 2**63),  # bits
        (28, "<Q", 65),
    ],
)
def test_made_up_heads_are_refused(offset, form, value):
    """Header sizes that contradict the content are refused despite a valid checksum."""
    with pytest.raises(PackedError):
        unpack(forged(pack(random_draws(1)), offset, form, value))


@settings(max_examples=100, deadline=None)
@given(noise=st.binary(min_size=8, max_size=400), nodes=st.integers(0, 300))
def test_random_streams_are_refused_or_read(noise, nodes):
    """Random bytes under a valid checksum are refused or read, without reading out of bounds."""
    noise = noise[: len(noise) // 8 * 8]
    head = struct.pack("<4sBBBBIIIQQ", b"BDRW", 1, 1, 3, 5, 0, 1, 4, nodes, len(noise) * 8)
    data = forged(head + struct.pack("<d", 1.0) + noise, 20, "<Q", nodes)
    try:
        draws = unpack(data)
    except PackedError:
        return
    assert isinstance(draws, Draws)
    assert draws.num_nodes == nodes


def test_read_only_arrays_can_be_packed():
    """Read-only views of stored bytes can be packed."""
    draws = random_draws(4)
    for name in ("feature", "cut", "missing_left", "leaf"):
        getattr(draws, name).flags.writeable = False
    assert unpack(pack(draws)) == draws
    assert np.all(draws.leaf_counts >= 1)


@pytest.mark.parametrize("count", [1, 254, 255, 256, 700])
def test_scalars_may_be_more_than_a_byte_counts(count):
    """Lines of several outcomes have a slope for each column and outcome; all come back, by name."""
    draws = random_draws(3, num_draws=4)
    values = np.random.default_rng(1).normal(size=(count, 4))
    scalars = {f"slope {k}": row for k, row in enumerate(values)}
    block = pack(replace(draws, scalars=scalars, forests={"other": draws}))
    back = unpack(block)
    assert [*back.scalars] == [*scalars]
    np.testing.assert_array_equal(np.array([*back.scalars.values()]), values)
    assert [*back.forests] == ["other"]
    assert pack(back) == block
