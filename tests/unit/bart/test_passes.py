"""Passes over rows equal their plain NumPy twins, for any number of leaves and rows."""

import contextlib
import ctypes
from itertools import product

import numpy as np
import pytest
from numba import types

from sampler.bart.kernels.leaf_models.parts_pass import PARTS, make_parts
from sampler.bart.kernels.leaf_models.weighted_pass import (
    BEFORE,
    BEFORE_BUCKET,
    NOW,
    NOW_BUCKET,
    WEIGHTED,
    make_weighted,
)
from sampler.bart.kernels.state import Slots, Trial
from sampler.kernels.arrays import NO_LEAF
from sampler.kernels.jit import address
from tests.support.kernel_cases import codes_of, goes_left, padded
from tests.support.open_kernels import (
    residual_pass,
    rows,
)

ROWS = [1, 63, 64, 200, 1000]
C_TYPES = {types.uint8: ctypes.c_uint8, types.int64: ctypes.c_int64, types.float64: ctypes.c_double}


@contextlib.contextmanager
def naming_the_case(n, before, now):
    """Name the failing case of a loop."""
    try:
        yield
    except AssertionError as error:
        error.add_note(f"with {n} rows, {before} leaves before and {now} now")
        raise


def case(rng, n, before, now):
    """Return two trees' slots, a residual, a change of leaf values and a trial rule."""
    return {
        "residual": rng.integers(-(2**18), 2**18, n).astype(np.int32),
        "previous": rng.integers(0, before, n).astype(np.uint8),
        "current": rng.integers(0, now, n).astype(np.uint8),
        "delta": np.append(rng.integers(-1000, 1000, before), np.zeros(16)).astype(np.int32),
        "column": codes_of(rng, n),
        "leaf": int(rng.integers(0, now)),
        "cut": int(rng.integers(0, 20)),
        "side": int(rng.integers(0, 2)),
    }


def twin(residual, previous, current, delta, column, leaf, cut, side, now, weights=None):
    """Compute the pass in three plain lines: new residual, leaf sums, the trial's left sum and count."""
    w = np.ones(len(residual), np.int64) if weights is None else weights.astype(np.int64)
    after = residual + delta[previous]
    left = (current == leaf) & goes_left(column, cut, side)
    sums = [int((w * after)[current == k].sum()) for k in range(now)]
    return after, sums, int((w * after)[left].sum()), int(w[left].sum())


def check_cases(check, rng):
    """Check each number of rows, and pair of leaf counts."""
    for n, before, now in product(ROWS, range(1, 9), range(1, 9)):
        with naming_the_case(n, before, now):
            check(rng, n, before, now)


def test_fused_pass(rng):
    """Residual and sums equal the twin's for each pair of leaf counts, any row block and padding.

    With an odd number of rows the pass has no trial.
    """
    check_cases(check_fused_pass, rng)


def slots_of(slots, leaves):
    """Return one-byte slots in the layout of the passes."""
    return Slots(padded(slots, 255), padded(slots, 255), False, leaves, np.zeros(32, np.int64))


def check_fused_pass(rng, n, before, now):
    c = without_trial(case(rng, n, before, now))
    addresses = np.array([address(residual_pass.FUSED)], np.int64)
    for block in (64, 8192):
        residual, sums = padded(c["residual"], 0), np.zeros(32, np.int64)
        cut, side = rows.shifted(c["cut"], c["side"])
        residual_pass.fused_pass(
            addresses, residual, slots_of(c["previous"], before), c["delta"], slots_of(c["current"], now),
            Trial(padded(c["column"], 0), int(c["leaf"]), np.uint8(cut), np.uint8(side)), n, block, sums,
        )  # fmt: skip
        after, expected, left, count = twin(**c, now=now)
        np.testing.assert_array_equal(residual[:n], after)
        assert not residual[n:].any()
        assert (sums[0], sums[1]) == (left, count)
        assert list(sums[2 : 2 + now]) == expected


def test_weighted_pass(rng):
    """The weighted pass equals its twin, also at the largest weights and residuals, and counts every leaf.

    With an odd number of rows it has no trial.
    """
    check_cases(check_weighted_pass, rng)


def check_weighted_pass(rng, n, before, now):
    c = without_trial(case(rng, n, before, now))
    c["residual"][0], weights = 2**25 - 1001, rng.integers(0, 2**26, n).astype(np.int32)
    which = kernel_for(WEIGHTED, make_weighted, before, now, tries=c["leaf"] != NO_LEAF)
    residual, sums, counts = c["residual"].copy(), np.zeros(32, np.int64), np.full(32, 7, np.int64)
    cut, side = rows.shifted(c["cut"], c["side"])
    which(
        residual, c["previous"], c["delta"], c["current"], c["column"], np.uint8(c["leaf"]), np.uint8(cut),
        np.uint8(side), n, weights, sums, counts,
    )  # fmt: skip
    after, expected, left, count = twin(**c, now=now, weights=weights)
    np.testing.assert_array_equal(residual, after)
    assert (sums[0], sums[1]) == (left, count)
    assert list(sums[2 : 2 + now]) == expected
    assert list(counts[:now]) == counted(c["current"], weights, now)


def without_trial(c):
    """Return a case without a trial rule, where its number of rows is odd."""
    return c | ({"leaf": NO_LEAF} if len(c["column"]) % 2 else {})


def counted(slots, weights, leaves):
    """Return the weight of each leaf."""
    return [int(weights[slots == k].sum(dtype=np.int64)) for k in range(leaves)]


def test_parts_pass(rng):
    """The pass of log-linear forests multiplies rows and sums their whole parts as its twin.

    With an odd number of rows it has no trial.
    """
    check_cases(check_parts_pass, rng)


def check_parts_pass(rng, n, before, now):
    c = without_trial(case(rng, n, before, now))
    c.pop("residual")
    part, factors, scale = rng.uniform(size=n), rng.uniform(0.5, 2.0, 32), 2.0**30
    log_value, sums = rng.integers(-(2**20), 2**20, n).astype(np.int32), np.zeros(32, np.int64)
    after, expected_log = part * factors[c["previous"]], log_value - c["delta"][c["previous"]]
    _, expected, left, _ = twin(
        np.rint(after * scale).astype(np.int64), **c | {"delta": np.zeros(32, np.int64)}, now=now
    )
    weights = rng.integers(0, 2**20, n).astype(np.int32)
    goes = (c["current"] == c["leaf"]) & goes_left(c["column"], c["cut"], c["side"])
    cut, side = rows.shifted(c["cut"], c["side"])
    kernel_for(PARTS, make_parts, before, now, tries=c["leaf"] != NO_LEAF)(
        part, log_value, c["previous"], factors, c["delta"], c["current"], c["column"], np.uint8(c["leaf"]),
        np.uint8(cut), np.uint8(side), n, weights, scale, sums,
    )  # fmt: skip
    np.testing.assert_array_equal(part, after)
    np.testing.assert_array_equal(log_value, expected_log)
    assert (sums[0], sums[1]) == (left, weights[goes[:n]].sum())
    assert list(sums[2 : 2 + now]) == expected


def kernel_for(passes, make, before, now, *, tries):
    """Return the pass for these leaf counts, callable from Python, as the leaf models pick it."""
    row, column = BEFORE_BUCKET[before], NOW_BUCKET[now]
    entry = passes[(tries * len(BEFORE) + row) * len(NOW) + column]
    assert entry.name == make(BEFORE[row], NOW[column], tries=tries).__qualname__
    kinds = [
        ctypes.c_void_p if isinstance(kind, types.CPointer) else C_TYPES[kind]
        for kind in entry.signature(None).args
    ]
    function = ctypes.CFUNCTYPE(None, *kinds)(address(entry))
    return lambda *given: function(*(a.ctypes.data if hasattr(a, "ctypes") and a.ndim else a for a in given))


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("now", [1, 3, 9, 200, 700])
def test_scatter_pass(rng, now, weighted):
    """The pass for any number of leaves, two-byte slots and weights equals its twin."""
    n, before = 500, 300
    c = case(rng, n, 200, min(now, 200))
    slots, leaf = rng.integers(0, now, n), int(rng.integers(0, now))
    before_slots = rng.integers(0, before, n)
    delta = rng.integers(-1000, 1000, before).astype(np.int32)
    weights = rng.integers(0, 1000, n).astype(np.int32) if weighted else np.zeros(0, np.int32)
    residual, sums, counts = c["residual"].copy(), np.zeros(now + 2, np.int64), np.full(now, 7, np.int64)
    cut, side = rows.shifted(c["cut"], c["side"])
    low, high = (
        [(x & 255).astype(np.uint8) for x in (before_slots, slots)],
        [(x >> 8).astype(np.uint8) for x in (before_slots, slots)],
    )
    residual_pass.scatter_pass(
        residual, Slots(low[0], high[0], True, before, counts), delta,
        Slots(low[1], high[1], True, now, counts),
        Trial(c["column"], leaf, np.uint8(cut), np.uint8(side)), weights, n, sums,
        np.zeros((4, now), np.int64),
    )  # fmt: skip
    after, expected, left, count = twin(
        c["residual"], before_slots, slots, delta, c["column"], leaf, c["cut"], c["side"], now,
        weights if weighted else None,
    )  # fmt: skip
    np.testing.assert_array_equal(residual, after)
    assert (sums[0], sums[1]) == (left, count)
    assert list(sums[2:]) == expected
    assert list(counts) == (counted(slots, weights, now) if weighted else [7] * now)


@pytest.mark.parametrize("n", ROWS)
def test_code_range(rng, n):
    """Lowest, highest and missing codes are those of the leaf, without other leaves or padding."""
    slots = rng.integers(0, 3, n).astype(np.uint8)
    column = codes_of(rng, n, highest=254)
    for leaf in range(4):
        inside = column[slots == leaf]
        present = inside[inside != 255]
        expected = (
            int(present.min()) if len(present) else 255,
            int(present.max()) if len(present) else -1,
            int((inside == 255).any()),
        )
        assert rows.code_range(padded(slots, 255), padded(column, 7), np.uint8(leaf)) == expected


@pytest.mark.parametrize("cut", [0, 10, 253, 254])
@pytest.mark.parametrize("side", [0, 1])
def test_one_comparison_is_the_rule(cut, side):
    """uint8(code + side) <= uint8(cut + side) sends every code, missing included, to the rule's side."""
    if cut == 254 and side == 1:
        return  # no such rule: present | missing sends missing right
    codes = np.arange(256).astype(np.uint8)
    key, shift = rows.shifted(cut, side)
    np.testing.assert_array_equal((codes + np.uint8(shift)) <= key, goes_left(codes, cut, side))


def test_splittable(rng):
    """A part is splittable exactly when two of its rows differ in some column."""
    answers = set()
    for trial in range(300):
        n, inside = (
            (int(rng.integers(1, 12)), 0.5) if trial % 2 else (200, 0.02)
        )  # rows are looked at in blocks
        codes = codes_of(rng, (2, n), highest=1, missing=0.2)
        slots = (rng.random(n) < inside).astype(np.uint8)
        cut, side, left = int(rng.integers(0, 2)), int(rng.integers(0, 2)), bool(rng.integers(0, 2))
        part = codes[:, (slots == 1) & (goes_left(codes[0], cut, side) == left)]
        expected = bool((part != part[:, :1]).any()) if part.shape[1] else False
        key, shift = rows.shifted(cut, side)
        splittable = rows.splittable(
            codes, slots, np.uint8(1), n, codes[0], np.uint8(key), np.uint8(shift), left
        )
        assert splittable == expected
        answers.add(splittable)
    assert answers == {True, False}


@pytest.mark.parametrize("n", ROWS)
def test_relabelling(rng, n):
    """After a grow, rows going right take the new slot; a prune rejoins them and moves the last slot."""
    slots = padded(rng.integers(0, 5, n).astype(np.uint8), 255)
    column = padded(codes_of(rng, n), 0)
    grown = slots.copy()
    key, shift = rows.shifted(9, 1)
    rows.relabel_grown(grown, column, np.uint8(2), np.uint8(key), np.uint8(shift), np.uint8(5))
    expected = np.where((slots == 2) & ~goes_left(column, 9, 1), 5, slots)
    np.testing.assert_array_equal(grown, expected)
    for keep, drop, last in ((1, 3, 4), (1, 4, 4)):
        pruned = slots.copy()
        rows.relabel_pruned(pruned, np.uint8(keep), np.uint8(drop), np.uint8(last))
        name = {drop: keep} | ({last: drop} if last != drop else {})
        np.testing.assert_array_equal(pruned, [name.get(s, s) for s in slots.tolist()])


@pytest.mark.parametrize("size", [2**19, 2**25 - 20])
@pytest.mark.parametrize("weighted", [False, True])
def test_settle(rng, weighted, size):
    """The change is applied exactly; the largest size and the sum of squares do not depend on row order."""
    n = 3000
    residual = rng.integers(-size, size, n).astype(np.int32)
    slots = rng.integers(0, 3, n).astype(np.uint8)
    delta = np.array([5, -7, 11], np.int32)
    weights = rng.integers(0, 2**24, n).astype(np.int32) if weighted else np.zeros(0, np.int32)
    after = residual.astype(np.int64) + delta[slots]
    exact = sum(int(w) * int(r) ** 2 for w, r in zip(weights if weighted else [1] * n, after, strict=True))
    order = rng.permutation(n)
    for which in (np.arange(n), order):
        moved = residual[which]
        squares, largest = rows.settle(
            moved, slots[which], slots, False, delta, 3, weights[which] if weighted else weights, n
        )
        np.testing.assert_array_equal(moved, after[which])
        if which is not order:
            first = squares
        assert squares == first
        assert squares == pytest.approx(float(exact), rel=1e-15)
        assert largest == np.abs(after).max()
