"""Shapley values of trees at coded rows, exact, leaf by leaf (docs/maths.md#shap-values).

A leaf's *players* are the distinct columns on its path; a column tested twice is one player. A row's *mask*
has the bit of each player whose conditions the row satisfies. What a leaf gives each player depends on the
row's mask alone, so it is computed once for each mask, and every row adds the entry of its mask.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from sampler.kernels.arrays import Bool, Bytes, Bytes2, Float, Floats, Floats2, Floats3, Int, Ints, Longs
from sampler.kernels.jit import kernel

FEW_PLAYERS = 5  # up to so many, what a leaf gives is tabulated for every mask
MOST_PLAYERS = 62  # bits of a mask


class Trees(NamedTuple):
    """Trees of draws, nodes in pre-order as in `sampler.storage.draws.Draws`; `leaf` in any unit.

    `player` [coded column] is the column of the table that a coded column belongs to.
    """

    num_trees: Int
    tree_start: Longs
    feature: Ints
    cut: Bytes
    missing_left: Bytes
    leaf: Floats
    player: Longs


class Game(NamedTuple):
    """Worth of a coalition of players at a leaf.

    Interventional: the players outside take their values from a background row; `masks` and `shares` list the
    distinct masks of the background rows and the share of each. Path-dependent: `flow` [player] is the share
    of background rows that go the leaf's way at the player's conditions.
    """

    by_path: Bool
    weight: Floats2  # [a, b]: a! b! / (a + b + 1)!
    masks: Longs
    shares: Floats
    flow: Floats
    coefficient: Floats  # [player + 1], scratch
    gain: Floats  # [player], gains of one mask
    base: Floats  # [draw], worth of the empty coalition: the average over the background rows


@kernel(allocates=False)
def _give_interventional(game: Game, num_masks: Int, mask: Int, num_players: Int) -> None:
    """Fill `game.gain` [player] for a row with this mask, compared with each mask of the background."""
    everybody = (np.int64(1) << num_players) - 1
    for j in range(num_players):
        game.gain[j] = 0.0
    for k in range(num_masks):
        other = game.masks[k]
        if (mask | other) != everybody or mask == other:
            continue
        mine, theirs = mask & ~other, other & ~mask
        a, b = np.int64(0), np.int64(0)
        for j in range(num_players):
            a += (mine >> j) & 1
            b += (theirs >> j) & 1
        for j in range(num_players):
            if (mine >> j) & 1:
                game.gain[j] += game.shares[k] * game.weight[a - 1, b]
            elif (theirs >> j) & 1:
                game.gain[j] -= game.shares[k] * game.weight[a, b - 1]


@kernel(allocates=False)
def _give_by_path(game: Game, mask: Int, num_players: Int) -> None:
    """Fill `game.gain` [player] for a row with this mask; other players go both ways, by shares of rows."""
    for j in range(num_players):
        for k in range(num_players + 1):
            game.coefficient[k] = 0.0
        game.coefficient[0] = 1.0
        degree = 0
        for other in range(num_players):  # the product of (flow + t * inside) over the others
            if other == j:
                continue
            inside = np.float64((mask >> other) & 1)
            degree += 1
            for k in range(degree, 0, -1):
                game.coefficient[k] = (
                    game.coefficient[k] * game.flow[other] + game.coefficient[k - 1] * inside
                )
            game.coefficient[0] *= game.flow[other]
        total = 0.0
        for k in range(num_players):
            total += game.weight[k, num_players - 1 - k] * game.coefficient[k]
        game.gain[j] = (np.float64((mask >> j) & 1) - game.flow[j]) * total


@kernel()
def _mark(
    trees: Trees, path: Longs, seat: Longs, depth: Int, num_players: Int, codes: Bytes2, mask: Longs
) -> None:
    """Find each row's mask at the leaf below `path` (a node, or ~node where the path goes right)."""
    everybody = (np.int64(1) << num_players) - 1
    for i in range(len(mask)):
        mask[i] = everybody
    for step in range(depth):
        node = path[step] if path[step] >= 0 else ~path[step]
        goes_left = path[step] >= 0
        without = ~(np.int64(1) << seat[step])
        side = trees.missing_left[node]
        cut = np.uint8(trees.cut[node] + side)
        code = codes[trees.feature[node]]
        for i in range(len(mask)):
            if (np.uint8(code[i] + side) <= cut) != goes_left:
                mask[i] &= without


@kernel()
def _list_masks(game: Game, mask: Longs) -> Int:
    """List the distinct masks of the background rows, with their shares; return their number."""
    count = 0
    for i in range(len(mask)):
        k = 0
        while k < count and game.masks[k] != mask[i]:
            k += 1
        if k == count:
            game.masks[k] = mask[i]
            game.shares[k] = 0.0
            count += 1
        game.shares[k] += 1.0
    for k in range(count):
        game.shares[k] /= len(mask)
    return count


@kernel()
def _find_flow(
    trees: Trees, path: Longs, seat: Longs, depth: Int, num_players: Int, codes: Bytes2, game: Game
) -> None:
    """Follow the background rows down the path; a node that none reaches sends one half each way."""
    num_rows = codes.shape[1]
    here = np.ones(num_rows, np.bool_)
    for j in range(num_players):
        game.flow[j] = 1.0
    for step in range(depth):
        node = path[step] if path[step] >= 0 else ~path[step]
        goes_left = path[step] >= 0
        side = trees.missing_left[node]
        cut = np.uint8(trees.cut[node] + side)
        code = codes[trees.feature[node]]
        before, after = 0, 0
        for i in range(num_rows):
            if here[i]:
                before += 1
                here[i] = (np.uint8(code[i] + side) <= cut) == goes_left
                after += here[i]
        game.flow[seat[step]] *= after / before if before > 0 else 0.5


@kernel()
def _add_leaf(
    trees: Trees,
    path: Longs,
    depth: Int,
    value: Float,
    codes: Bytes2,
    background: Bytes2,
    game: Game,
    out: Int,
    phi: Floats2,
    mask: Longs,
    background_mask: Longs,
) -> Bool:
    """Add what the leaf of this value, below `path`, gives to `phi` [player, row] and to `game.base[out]`.

    False for too many players.
    """
    players = np.empty(depth, np.int64)
    seat = np.empty(depth, np.int64)  # of each step of the path, its player's place among `players`
    num_players = 0
    for step in range(depth):
        node = path[step] if path[step] >= 0 else ~path[step]
        player = trees.player[trees.feature[node]]
        k = 0
        while k < num_players and players[k] != player:
            k += 1
        if k == num_players:
            players[k] = player
            num_players += 1
        seat[step] = k
    if num_players > MOST_PLAYERS:
        return False
    _mark(trees, path, seat, depth, num_players, codes, mask)
    num_masks = 0
    if game.by_path:
        _find_flow(trees, path, seat, depth, num_players, background, game)
        product = 1.0
        for j in range(num_players):
            product *= game.flow[j]
        game.base[out] += value * product
    else:
        _mark(trees, path, seat, depth, num_players, background, background_mask)
        num_masks = _list_masks(game, background_mask)
        for k in range(num_masks):
            if game.masks[k] == (np.int64(1) << num_players) - 1:
                game.base[out] += value * game.shares[k]
    if num_players <= FEW_PLAYERS:
        size = 1 << num_players
        table = np.empty((num_players, size))
        for m in range(size):
            if game.by_path:
                _give_by_path(game, m, num_players)
            else:
                _give_interventional(game, num_masks, m, num_players)
            for j in range(num_players):
                table[j, m] = value * game.gain[j]
        for j in range(num_players):
            source, into = table[j], phi[players[j]]
            for i in range(len(mask)):
                into[i] += source[mask[i]]
        return True
    last = np.int64(-1)
    for i in range(len(mask)):
        if mask[i] != last:
            last = mask[i]
            if game.by_path:
                _give_by_path(game, last, num_players)
            else:
                _give_interventional(game, num_masks, last, num_players)
        for j in range(num_players):
            phi[players[j], i] += value * game.gain[j]
    return True


@kernel(entry=True)
def shapley_values(
    trees: Trees,
    draws: Longs,
    codes: Bytes2,
    background: Bytes2,
    by_path: Bool,
    phi: Floats3,
    base: Floats,
) -> Bool:
    """Add up the Shapley values of the trees of each draw.

    Parameters
    ----------
    trees
        Trees of all draws.
    draws
        Positions of the draws, int64 [g].
    codes
        Rows to explain, uint8 [coded column, row].
    background
        Background rows, uint8 [coded column, row], at least one.
    by_path
        Whether the game is the path-dependent one.
    phi
        float64 [g, player, row], zeros; the answer, in the unit of `trees.leaf`.
    base
        float64 [g], zeros; becomes the sum of the trees averaged over the background rows.

    Returns
    -------
    bool
        False when a path tests more than `MOST_PLAYERS` distinct columns: `phi` is unfinished then.

    """
    size = MOST_PLAYERS + 1
    weight = np.empty((size, size))
    for a in range(size):
        weight[a, 0] = 1.0 / (a + 1)
        for b in range(1, size):
            weight[a, b] = weight[a, b - 1] * b / (a + b + 1)
    num_background = background.shape[1]
    game = Game(
        by_path,
        weight,
        np.empty(num_background, np.int64),
        np.empty(num_background),
        np.empty(size),
        np.empty(size + 1),
        np.empty(size),
        base,
    )
    mask = np.empty(codes.shape[1], np.int64)
    background_mask = np.empty(num_background, np.int64)
    path = np.empty(size, np.int64)
    for out in range(len(draws)):
        for tree in range(draws[out] * trees.num_trees, (draws[out] + 1) * trees.num_trees):
            depth = 0
            for node in range(trees.tree_start[tree], trees.tree_start[tree + 1]):
                if trees.feature[node] >= 0:
                    if depth == len(path):
                        longer = np.empty(2 * depth, np.int64)
                        longer[:depth] = path
                        path = longer
                    path[depth] = node
                    depth += 1
                    continue
                if depth == 0:
                    base[out] += trees.leaf[node]
                    continue
                if not _add_leaf(
                    trees,
                    path,
                    depth,
                    trees.leaf[node],
                    codes,
                    background,
                    game,
                    out,
                    phi[out],
                    mask,
                    background_mask,
                ):
                    return False
                while depth > 0 and path[depth - 1] < 0:  # both sides of these are done
                    depth -= 1
                if depth > 0:
                    path[depth - 1] = ~path[depth - 1]
    return True
