"""Means and variances over draws at each row, lines added to draws, and draws put row by row."""

from __future__ import annotations

import numpy as np

from sampler.kernels.arrays import Float, Floats, Floats2, Ints2, Longs
from sampler.kernels.jit import kernel

TILE = 32  # rows and draws turned at once: both sides of a tile stay in the nearest cache
LINE_ROWS, LINE_DRAWS = 64, 16  # likewise, of lines: sixteen places fill a cache line


@kernel(entry=True)
def moments(sums: Ints2, total: Longs, mean: Floats, squares: Floats) -> None:
    """Find the exact total of `sums` [draw, row], the mean, and the sum of squares about it, per row.

    Each row is summed over draws in order, so it has the same answer whatever rows come along.
    """
    num_draws, num_rows = sums.shape
    for i in range(num_rows):
        total[i] = 0
        squares[i] = 0.0
    for d in range(num_draws):
        for i in range(num_rows):
            total[i] += sums[d, i]
    for i in range(num_rows):
        mean[i] = total[i] / num_draws
    for d in range(num_draws):
        for i in range(num_rows):
            away = sums[d, i] - mean[i]
            squares[i] += away * away


@kernel(entry=True)
def add_lines(f: Floats2, slopes: Floats2, terms: Floats2) -> None:
    """Add slopes [draw, term] times terms [term, row] to `f` [draw, row], term by term."""
    num_draws, num_rows = f.shape
    for d in range(num_draws):
        for t in range(len(terms)):
            slope = slopes[d, t]
            for i in range(num_rows):
                f[d, i] += slope * terms[t, i]


@kernel(entry=True)
def lined_steps(
    sums: Ints2, slopes: Floats2, terms: Floats2, finer: Float, pivot: Floats, steps: Ints2, moments: Floats2
) -> None:
    """Add slopes [draw, term] times terms [term, row] to `sums` [draw, row], all in grid steps, in one pass.

    Per row: `steps` [row, draw], the results rounded to a share 1 / `finer` of a step; to `moments` [2, row],
    sums of their distances from `pivot` and of the squares are added. Rows don't depend on others.
    """
    num_draws, num_rows = sums.shape
    x = np.empty(LINE_ROWS)
    room = np.empty((LINE_DRAWS, LINE_ROWS), np.int32)
    for first_row in range(0, num_rows, LINE_ROWS):
        width = np.uint64(min(LINE_ROWS, num_rows - first_row))
        first = np.uint64(first_row)  # indices that can't be negative: else the loops aren't vectorised
        for draw in range(num_draws):
            for i in range(width):
                x[i] = sums[draw, first + i]
            for t in range(len(terms)):
                slope = slopes[draw, t]
                for i in range(width):
                    x[i] += slope * terms[t, first + i]
            place = np.uint64(draw % LINE_DRAWS)
            for i in range(width):
                away = x[i] - pivot[first + i]
                moments[0, first + i] += away
                moments[1, first + i] += away * away
                room[place, i] = np.int32(np.rint(finer * x[i]))
            if draw % LINE_DRAWS == LINE_DRAWS - 1 or draw == num_draws - 1:
                first_draw = np.uint64(draw) - place
                for i in range(width):
                    for d in range(place + np.uint64(1)):
                        steps[first + i, first_draw + d] = room[d, i]


@kernel(entry=True)
def turn(sums: Ints2, steps: Ints2) -> None:
    """Transpose `sums` [draw, row] to `steps` [row, draw], tile by tile."""
    num_draws, num_rows = sums.shape
    for first_row in range(0, num_rows, TILE):
        end_row = min(first_row + TILE, num_rows)
        for first_draw in range(0, num_draws, TILE):
            end_draw = min(first_draw + TILE, num_draws)
            for i in range(first_row, end_row):
                for d in range(first_draw, end_draw):
                    steps[i, d] = sums[d, i]
