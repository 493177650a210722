"""Operations of a leaf model; inside kernels each is the function of its name in the model's module.

A leaf's rows are known by two whole numbers: `count` (of rows, or of their weights) and `sum` (of whatever
the model adds up over rows, with the leaf's value `old` in place). `size` and `total` are the numbers that
the evidence is computed of; both are additive, so that a right child is the leaf less the left child. Every
model has `weights` int32 [n], a row's part of the count; empty where each row counts 1.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, TypeVar

from numba.extending import overload

from sampler.bart.kernels.state import LeafPair, Slots, Trial, Work
from sampler.kernels.arrays import Bool, Byte, Bytes, Data, Float, Floats, Int, Int32, Ints2, Longs, Words

F = TypeVar("F", bound="Callable[..., Any]")
_overload: Any = overload


def by_leaf_model(operation: F) -> F:
    """Let kernels that call an operation contain the one of their leaf model."""

    @_overload(
        operation,
        strict=False,
        jit_options={"forceinline": True, "no_cpython_wrapper": True, "no_cfunc_wrapper": True},
    )  # type: ignore[untyped-decorator]
    def choose(model: Any, *_rest: Any) -> Callable[..., Any]:
        implementation: Callable[..., Any] = getattr(
            sys.modules[model.instance_class.__module__], operation.__name__
        )
        return implementation

    return operation


@by_leaf_model
def units(model: Any) -> tuple[Float, Float]:
    """Factors that make a count a size and a sum a total; 0 where the data don't count."""
    raise NotImplementedError


@by_leaf_model
def partial_sum(model: Any, total: Int, count: Int, old: Int32) -> Float:
    """Sum over a leaf's rows without this tree, from their sum with the value `old` in place."""
    raise NotImplementedError


@by_leaf_model
def log_evidence(model: Any, size: Float, total: Float) -> Float:
    """l(node) of docs/maths.md#leaf-prior, up to terms common to all trees on the same rows."""
    raise NotImplementedError


@by_leaf_model
def split_gain(
    model: Any, left_size: Float, left_total: Float, right_size: Float, right_total: Float
) -> Float:
    """l(left) + l(right) - l(both)."""
    raise NotImplementedError


@by_leaf_model
def draw_leaf(model: Any, size: Float, total: Float, random: Words) -> Float:
    """Draw a leaf value from its conditional, in grid steps, not yet rounded."""
    raise NotImplementedError


@by_leaf_model
def redraw_leaf(model: Any, size: Float, total: Float, old: Int32, random: Words) -> Float:
    """Draw a leaf value by a kernel that leaves its conditional invariant; `old` is the present value."""
    raise NotImplementedError


@by_leaf_model
def pair_terms(model: Any, total: Float, size: Float, terms: Floats, factors: Floats) -> None:
    """Evidence of many rules of a node of `total` and `size`, from the left children's totals and sizes.

    In `terms` stand totals, in `factors` sizes; both are replaced: e^(l(left) + l(right)) = factors e^terms.
    """
    raise NotImplementedError


@by_leaf_model
def pair_term(
    model: Any, left_total: Float, left_size: Float, right_total: Float, right_size: Float
) -> tuple[Float, Float]:
    """Evidence of one rule as term and factor: e^(l(left) + l(right)) = factor e^term."""
    raise NotImplementedError


@by_leaf_model
def move_and_sum(model: Any, work: Work, num_rows: Int, before: Slots, now: Slots, trial: Trial) -> None:
    """Apply the pending change of leaf values to the rows, then sum them.

    `PendingChange.delta` has the change by the slots `before`, 0 beyond the leaves up to MOST_LEAVES. Sums
    by the slots `now` go to `LeafSums.sums` from TRIAL on, the trial's left sum and count to its start.
    """
    raise NotImplementedError


@by_leaf_model
def measure(model: Any) -> None:
    """Measure again what the model knows of its rows as a whole, such as a bound."""
    raise NotImplementedError


@by_leaf_model
def take_out(model: Any, slots: Slots, leaf: Ints2, num_rows: Int) -> None:
    """Take a tree out of the rows, by its table of leaves."""
    raise NotImplementedError


@by_leaf_model
def row_values(model: Any, num_rows: Int, values: Longs) -> None:
    """Find what each row adds to the sum of its leaf."""
    raise NotImplementedError


@by_leaf_model
def settle(model: Any, work: Work, num_rows: Int, before: Slots) -> Float:
    """Apply the pending change of leaf values to the rows after a forest's last tree.

    Returns the weighted sum of squares of what is left of y, in grid steps^2. Sets BROKEN where a row has
    left the grid.
    """
    raise NotImplementedError


@by_leaf_model
def widen(model: Any, change: Int) -> None:
    """Note that no row will move by more than `change` grid steps."""
    raise NotImplementedError


@by_leaf_model
def give_back(model: Any, work: Work, pair: LeafPair) -> None:
    """Take this tree's old values out of the rows of two leaves: their new old value is 0."""
    raise NotImplementedError


@by_leaf_model
def reroute_pair(model: Any, work: Work, pair: LeafPair, column: Bytes, cut: Byte, side: Byte) -> None:
    """Take the old values out of a pair's rows (`give_back`), then give these the slots of a new rule."""
    raise NotImplementedError


@by_leaf_model
def left_part(
    model: Any, pair: LeafPair, column: Bytes, cut: Byte, side: Byte, num_rows: Int
) -> tuple[Int, Int]:
    """Sum, old value 0, and count of the rows of two leaves that a rule sends left."""
    raise NotImplementedError


@by_leaf_model
def sum_by_code(model: Any, data: Data, work: Work, pair: LeafPair, own: Int, other: Int) -> Bool:
    """Sum, with old value 0, and count the rows of two leaves by code of two columns, into `Work.codes`.

    Returns whether numbers of rows are in `CodeSums.rows`; else they are the counts.
    """
    raise NotImplementedError
