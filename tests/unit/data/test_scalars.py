"""Numbers as people write them."""

import math

import numpy as np
import pytest

from sampler.data.scalars import (
    ABSENT,
    GAP,
    cells_to_text,
    estimate_to_text,
    number_to_text,
    numbers_to_text,
    range_to_text,
)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0"),
        (-0.0, "0"),
        (1987, "1987"),  # a year, and any number of four digits, has nothing to group
        (-4321.0, "-4321"),
        (12_345, f"12{GAP}345"),
        (np.int64(-1_234_567), f"-1{GAP}234{GAP}567"),
        (np.float64(9_999.97), f"10{GAP}000"),
        (48_765_432.1, f"48{GAP}765{GAP}432"),  # the whole part is never rounded
        (0.1 + 0.2, "0.3"),
        (3.14159, "3.142"),
        (0.000_012_345, "0.00001234"),
        (2.5e-9, "2.5e-9"),
        (3e18, "3e18"),
        (None, ABSENT),
        (math.nan, ABSENT),
        (math.inf, ABSENT),
    ],
)
def test_numbers_have_the_digits_of_a_person(value, text):
    """Four significant digits, thousands apart, and no exponent but where the zeros can't be counted."""
    assert number_to_text(value) == text


@pytest.mark.parametrize(("value", "text"), [(7_351.2, "7400"), (0.0376, "0.038"), (96_111.0, f"96{GAP}000")])
def test_estimates_are_rounded_as_a_whole(value, text):
    """A rough figure has two significant digits, those before the point included."""
    assert estimate_to_text(value) == text


@pytest.mark.parametrize(
    ("low", "high", "digits", "text"),
    [
        (4.4e-16, 0.0298, 3, "0 to 0.0298"),  # what a rounding error left is nothing
        (-0.0000001, 5.0, 4, "0 to 5"),
        (881.371, 881.902, 4, "881.37 to 881.90"),
        (20_561.512, 20_561.638, 4, f"20{GAP}561.51 to 20{GAP}561.64"),  # else both ends would be the same
        (-31.04, 4.271, 3, "-31.0 to 4.3"),
        (None, 2.5, 4, f"{ABSENT} to 2.5"),
        (3e-9, 2e-8, 2, "3e-9 to 2e-8"),
        (0.25, 0.25, 4, "0.25 to 0.25"),
    ],
)
def test_ends_of_an_interval_have_equal_places(low, high, digits, text):
    """They are those of the larger end, more where the ends are close."""
    assert range_to_text(low, high, digits) == text


def test_cells_of_one_kind_are_aligned():
    """A mean and its interval have equal places; an absent one is a dash."""
    assert numbers_to_text(np.array([0.5, 1e-15, 1.25]), 3) == ["0.50", "0", "1.25"]
    assert cells_to_text([150.26, None], 8) == f"{'150.3':>8}{ABSENT:>8}"
