"""Passes over rows for new rules (of CHANGE, SWAP and the rule draw) equal their plain NumPy twins."""

import math

import numpy as np
import pytest
from scipy.special import gammaln

from sampler.bart.kernels.leaf_models.normal import Normal
from sampler.bart.kernels.state import CodeSums, LeafPair
from sampler.kernels import arrays
from tests.support.kernel_cases import codes_of, goes_left, padded
from tests.support.open_kernels import (
    below_split,
    histograms,
    log_linear_pass,
    logarithm,
    pairs,
    parts_by_code,
    rows,
    rule_draw,
)

ROWS = [1, 63, 64, 200, 1000]


@pytest.mark.parametrize("n", [100, 5000])
@pytest.mark.parametrize("weighted", [False, True])
def test_histograms(rng, n, weighted):
    """Sums and counts of partial residuals by code cover the rows of the two leaves only."""
    slots = rng.integers(0, 4, n).astype(np.uint8)
    residual = rng.integers(-(2**20), 2**20, n).astype(np.int32)
    columns = [codes_of(rng, n), codes_of(rng, n, highest=5)]
    weights = rng.integers(0, 2**23, n).astype(np.int32)
    sums, counts, present = (np.full((2, 256), 99, np.int64) for _ in range(3))
    values, bins = np.full(2048, 5, np.int64), np.zeros((2, 1024), np.int64)
    terms, info = np.zeros((2, 512)), np.zeros((2, 9), np.int64)
    into = CodeSums(values, bins, sums, counts, present, terms, terms, info)
    pair = LeafPair(padded(slots, 255), np.uint8(1), np.uint8(3), np.int32(-50), np.int32(70))
    (first, second), all_rows = [padded(column, 0) for column in columns], padded(residual, 0)
    if weighted:
        histograms.weighted_histograms(pair, all_rows, weights, first, second, n, into)
    else:
        histograms.histograms(pair, all_rows, first, second, 21, 6, into)
    assert not bins.any()
    inside = (slots == 1) | (slots == 3)
    w = weights.astype(np.int64) if weighted else np.ones(n, np.int64)
    partial = w * (residual + np.where(slots == 1, -50, 70))
    for which, (column, width) in enumerate(zip(columns, (21, 6), strict=True)):
        for code in [*range(width), 255]:
            here = inside & (column == code)
            assert sums[which, code] == partial[here].sum()
            assert counts[which, code] == w[here].sum()
            if weighted:
                assert present[which, code] == here.sum()


@pytest.mark.parametrize("n", [100, 5000])
@pytest.mark.parametrize("weighted", [False, True])
def test_parts_by_code(rng, n, weighted):
    """Sums of parts without the tree, and counts, by code cover the rows of the two leaves only."""
    slots = rng.integers(0, 4, n).astype(np.uint8)
    part, scale = rng.uniform(size=n), 2.0**30
    columns = [codes_of(rng, n), codes_of(rng, n, highest=5)]
    weights = rng.integers(0, 2**23, n).astype(np.int32) if weighted else np.zeros(0, np.int32)
    sums, counts, present = (np.full((2, 256), 99, np.int64) for _ in range(3))
    values, bins = np.full(2048, 5, np.int64), np.zeros((2, 1024), np.int64)
    terms, info = np.zeros((2, 512)), np.zeros((2, 9), np.int64)
    into = CodeSums(values, bins, sums, counts, present, terms, terms, info)
    pair = LeafPair(padded(slots, 255), np.uint8(1), np.uint8(3), np.int32(-50_000), np.int32(70_000))
    first, second = [padded(column, 0) for column in columns]
    parts_by_code.sum_by_code(padded(part, 0.0), weights, scale, pair, first, second, n, into)
    assert not bins.any()
    inside = (slots == 1) | (slots == 3)
    without = part * np.where(slots == 1, np.exp(50_000 * 2.0**-20), np.exp(-70_000 * 2.0**-20))
    for which, column in enumerate(columns):
        for code in range(256):
            here = inside & (column == code)
            assert sums[which, code] == pytest.approx(np.sum(without[here]) * scale, abs=float(here.sum()))
            assert counts[which, code] == (weights[here].sum() if weighted else here.sum())
            if weighted:
                assert present[which, code] == here.sum()


def test_exp_negative():
    """e^x of the rule draw is within 1e-15 of the library's, and 0 below -700."""
    x = -np.concatenate([np.linspace(0, 50, 5001), np.linspace(50, 699, 3001)])
    values = np.array([rule_draw.exp_negative(value) for value in x])
    assert np.max(np.abs(values / np.exp(x) - 1)) < 1e-15
    assert rule_draw.exp_negative(0.0) == 1.0
    assert rule_draw.exp_negative(-701.0) == 0.0


def test_logarithm():
    """Our logarithm is within 3e-16 of the library's, relatively where that is beyond 1."""
    x = np.concatenate([np.geomspace(1e-300, 1e300, 5001), np.linspace(0.5, 2, 5001), [2.0**-1022]])
    got, expected = np.array([logarithm.logarithm(value) for value in x]), np.log(x)
    assert np.max(np.abs(got - expected) / np.maximum(np.abs(expected), 1)) < 3e-16
    assert logarithm.logarithm(1.0) == 0.0


@pytest.mark.parametrize("unit", [1.0, 0.5, 0.3])  # 0.3: of an annealed likelihood
@pytest.mark.parametrize("most", [300, 60_000])  # more than log Gamma is tabled for
def test_evidence_of_log_linear_rules(rng, unit, most):
    """The evidence of all rules of a column is that of the conjugate leaves, rule by rule."""
    shape, rate = 2.3, 1.7
    table = np.empty(8192)
    log_linear_pass.tabulate_log_gamma(shape, table)
    sizes = unit * np.sort(rng.integers(0, most, 101))
    size = float(sizes[-1])
    totals = np.sort(rng.uniform(0, 2 * size, 101))
    total, terms, factors = float(totals[-1]), totals.copy(), sizes.copy()
    log_linear_pass.pair_evidences(np.array([shape, rate]), table, unit, total, size, terms, factors)

    def evidence(r, s):
        return gammaln(shape + r) - (shape + r) * np.log(rate + s)

    expected = evidence(sizes, totals) + evidence(size - sizes, total - totals)
    np.testing.assert_allclose(terms, expected, rtol=1e-13)
    assert np.all(factors == 1.0)


@pytest.mark.parametrize("gaps", [False, True])
def test_rule_weights(rng, gaps):
    """Every rule's weight is e^(l(left) + l(right)) s(left) s(right), by the conjugate leaf's formula."""
    sums, counts = np.zeros(256, np.int64), np.zeros(256, np.int64)
    occupied = np.array([3, 4, 7, 8, 11, 12])
    counts[occupied] = rng.integers(1, 9, len(occupied))
    sums[occupied] = rng.integers(-300, 300, len(occupied))
    if gaps:
        counts[255], sums[255] = 4, 111
    none = np.zeros(0, np.int32)
    model = Normal(
        np.array([250.0]), np.array([900.0, 1.0, 0.5]), none, none, np.zeros(2, int), np.zeros(0, int)
    )
    info = np.zeros(9, np.int64)
    info[[rule_draw.LOW, rule_draw.SECOND, rule_draw.BELOW, rule_draw.HIGH]] = 3, 4, 11, 12
    info[rule_draw.GAPS], info[rule_draw.RULES] = gaps, 19 if gaps else 9
    info[[rule_draw.LOW_SPLITS, rule_draw.HIGH_SPLITS, rule_draw.MISSING_SPLITS]] = 0, 1, 0
    stay = 0.7
    terms, factors = np.zeros(512), np.zeros(512)
    largest = rule_draw.weigh_rules(model, sums, counts, stay, info, terms, factors)
    total = rule_draw.sum_rules(info, terms, factors, largest)

    def evidence(member):
        size, s = 0.5 * counts[member].sum(), 0.5 * sums[member].sum()
        spread = 900.0 + size * 250.0
        return 0.5 * math.log(900.0 / spread) + 250.0 * s * s / (2 * 900.0 * spread)

    def factor(member):
        held = [code for code in member if counts[code]]
        alone = {3: 1.0, 12: stay, 255: 1.0}
        return stay if len(held) > 1 else alone[held[0]]

    expected = {}
    present, lone = list(range(3, 13)), ([255] if gaps else [])
    for cut in range(3, 12):
        left, right = [c for c in present if c <= cut], [c for c in present if c > cut]
        for side in range(2 if gaps else 1):
            parts = (left + lone, right) if side else (left, right + lone)
            expected[side * 256 + cut] = math.exp(sum(map(evidence, parts)) - largest) * math.prod(
                map(factor, parts)
            )
    if gaps:
        parts = (present, lone)
        expected[511] = math.exp(sum(map(evidence, parts)) - largest) * math.prod(map(factor, parts))
    for place, value in expected.items():
        assert factors[place] == pytest.approx(value, rel=1e-11)
    assert total == pytest.approx(sum(expected.values()), rel=1e-11)


def test_rerouting_gives_old_values_back(rng):
    """After a new rule, rows lie where it sends them and residuals have the old leaf values returned."""
    n = 300
    slots = padded(rng.integers(0, 3, n).astype(np.uint8), 255)
    residual = padded(rng.integers(-999, 999, n).astype(np.int32), 0)
    column = padded(codes_of(rng, n), 0)
    key, shift = rows.shifted(8, 0)
    after, moved = residual.copy(), slots.copy()
    pair = LeafPair(moved, np.uint8(0), np.uint8(2), np.int32(40), np.int32(-60))
    pairs.reroute_pair(after, pair, column, np.uint8(key), np.uint8(shift))
    np.testing.assert_array_equal(after, residual + np.select([slots == 0, slots == 2], [40, -60], 0))
    inside = (slots == 0) | (slots == 2)
    np.testing.assert_array_equal(moved, np.where(inside, np.where(goes_left(column, 8, 0), 0, 2), slots))


@pytest.mark.parametrize("weighted", [False, True])
def test_left_part(rng, weighted):
    """The left child's sum of partial residuals and count under CHANGE equal the twin's."""
    n = 300
    slots = rng.integers(0, 3, n).astype(np.uint8)
    residual = rng.integers(-999, 999, n).astype(np.int32)
    column = codes_of(rng, n)
    weights = rng.integers(0, 9, n).astype(np.int32)
    key, shift = rows.shifted(8, 1)
    sums = pairs.left_part(
        residual, weights if weighted else weights[:0],
        LeafPair(slots, np.uint8(0), np.uint8(2), np.int32(40), np.int32(-60)), column, np.uint8(key),
        np.uint8(shift), n,
    )  # fmt: skip
    w = weights.astype(np.int64) if weighted else np.ones(n, np.int64)
    here = ((slots == 0) | (slots == 2)) & goes_left(column, 8, 1)
    partial = residual + np.where(slots == 0, 40, -60)
    assert sums == ((w * partial)[here].sum(), w[here].sum())


@pytest.mark.parametrize("n", ROWS)
@pytest.mark.parametrize("weighted", [False, True])
def test_send_down(rng, n, weighted):
    """Rows of a label that a rule sends right take the new label, and are counted or weighted."""
    member, column = padded(rng.integers(0, 4, n).astype(np.uint8), 255), padded(codes_of(rng, n), 0)
    weights = rng.integers(0, 2**28, n).astype(np.int32)
    key, shift = rows.shifted(9, 1)
    sent = member.copy()
    moved = below_split.send_down(
        sent, column, np.uint8(2), np.uint8(key), np.uint8(shift), np.uint8(7),
        weights if weighted else weights[:0], n,
    )  # fmt: skip
    right = (member == 2) & ~goes_left(column, 9, 1)
    np.testing.assert_array_equal(sent, np.where(right, 7, member))
    assert moved == (weights[right[:n]].sum(dtype=np.int64) if weighted else right.sum())


@pytest.mark.parametrize("share", [0.002, 0.03, 0.5, 1.0])
def test_constant_columns(rng, share):
    """A single differing row makes a column non-constant at a node of any size."""
    n = 2000
    for _ in range(20):
        member = (rng.random(n) >= share).astype(np.uint8)
        codes = np.zeros((6, -(-n // 64) * 64), np.uint8)
        codes[1, :n] = codes_of(rng, n, highest=2)
        codes[2, :n] = 255
        codes[3, rng.integers(0, n)] = 4
        codes[4, rng.integers(0, n)] = 255
        codes[5, :n] = np.where(member == 0, 8, 3)
        inside = np.flatnonzero(member == 0)
        expected = [j for j in range(6) if len(np.unique(codes[j, inside])) <= 1]
        data = arrays.Data(
            codes, *(np.zeros(6, np.int64),) * 2, np.zeros(6, np.uint8), n, np.zeros((6, 256, 8), np.int32),
            n,
        )  # fmt: skip
        columns = np.zeros(6, np.int32)
        constants = below_split.list_constant(data, padded(member, 255), np.uint8(0), columns)
        assert columns[:constants].tolist() == expected
