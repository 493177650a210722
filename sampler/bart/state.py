"""The arrays that a chain's kernels share (kernels.shapes says what they are), made from its training."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

import numpy as np

from sampler.kernels.jit import address
from sampler.methods import MOVE_NAMES, MOVES

if TYPE_CHECKING:
    from sampler.bart.kernels.state import Forest, KeptDraws, Work
    from sampler.kernels.arrays import Data
    from sampler.settings import Settings
    from sampler.training import Training

DEPTHS = 64  # tabled depths of the tree prior


def make_data(training: Training) -> Data:
    """Coded rows and what is known of each column."""
    from sampler.kernels.arrays import Data  # noqa: PLC0415

    codes = training.codes
    present = [column[column != 255] for column in codes]
    low = np.array([column.min(initial=255) for column in present], np.int64)
    high = np.array([column.max(initial=0) if len(column) else -1 for column in present], np.int64)
    missing = np.array([len(column) < codes.shape[1] for column in present], np.uint8)
    rows, weights = codes.shape[1], training.grid_weights
    seen = rows if len(weights) == 0 else int(np.count_nonzero(weights))
    probit = training.settings.family == "probit"
    labels = training.y.astype(np.uint8) if probit else np.zeros(0, np.uint8)
    return Data(training.padded_codes, low, high, missing, weights, rows, seen, labels, training.examples)


def can_split(data: Data) -> bool:
    """Whether any column has two codes, so that the root can be split."""
    rules = data.high - data.low + data.missing * (data.high >= 0)
    return bool(np.any((data.high >= data.low) & (rules > 0)))


def make_prior(
    training: Training,
) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """The prior vector (kernels.shapes), log p and log(1 - p) by depth, and the moves' probabilities."""
    from sampler.bart.kernels import state  # noqa: PLC0415

    constants, settings = training.constants, training.settings
    step = constants.step
    prior = np.zeros(state.PRIOR_SIZE)
    prior[state.SIGMA2] = (constants.sigma_start / step) ** 2
    prior[state.TAU2] = (constants.leaf_sd / step) ** 2
    prior[state.NU], prior[state.LAMBDA] = constants.nu, constants.lambda_ / step**2
    prior[state.ALPHA], prior[state.BETA] = constants.alpha, constants.beta
    prior[state.LIKELIHOOD] = not settings.prior_only
    prior[state.SIGMA_FIXED], prior[state.STEP] = constants.sigma_fixed, step
    prior[state.UNIT], prior[state.OFFSET] = training.weight_unit, constants.offset
    split = constants.alpha * (1.0 + np.arange(DEPTHS)) ** -constants.beta
    depths = np.stack([np.log1p(-split), np.log(split)])
    moves = np.array([settings.moves.get(name, 0.0) for name in MOVE_NAMES])
    local = moves[: len(MOVES)]
    local /= max(local.sum(), np.finfo(float).tiny)  # of an iteration without particles
    return prior, depths, moves


def make_forest(data: Data, num_trees: int, capacity: int, *, rows: bool = True) -> Forest:
    """Trees of one leaf of value 0, with room for `capacity` leaves each."""
    from sampler.bart.kernels.state import Forest  # noqa: PLC0415

    width = data.codes.shape[1] if rows else 0
    return Forest(
        num_leaves=np.ones(num_trees, np.int32),
        node=np.zeros((num_trees, capacity, 6), np.int32),
        leaf=np.zeros((num_trees, capacity, 4), np.int32),
        count=np.zeros((num_trees, capacity), np.int64),
        slots=np.zeros((num_trees, width), np.uint8),
        plane=np.full(num_trees, -1, np.int32),
        high=np.zeros((1, 0), np.uint8),
    )


def make_work(
    data: Data, capacity: int, random: np.ndarray[Any, Any], settings: Settings, *, rows: bool = True
) -> Work:
    """Room to work in, the random numbers' state, and the addresses of passes and moves."""
    from sampler.bart.kernels import state  # noqa: PLC0415

    restructures = "restructure" in settings.moves
    width = data.codes.shape[1] if rows else 0
    return state.Work(
        residual=np.zeros(width, np.int32),
        delta=np.zeros(capacity + 16, np.int32),
        old=np.zeros(capacity + 16, np.int32),
        sums=np.zeros(capacity + 16, np.int64),
        lanes=np.zeros((4, capacity + 16), np.int64),
        total=np.zeros(capacity + 16),
        size=np.zeros(capacity + 16),
        rule=np.zeros(3, np.int64),
        span=np.zeros(3, np.int64),
        state=np.zeros(state.STATE_SIZE, np.int64),
        columns=np.zeros(len(data.codes), np.int32),
        mask=np.zeros(width, np.uint8),
        member=np.zeros(width, np.uint8),
        latent=np.zeros(width if len(data.labels) else 0, np.int32),
        address=_addresses(settings, weighted=len(data.weights) > 0),
        random=np.array(random, np.uint64),
        values=np.zeros(2048, np.int64),
        bins=np.zeros((2, 256), np.int64),
        code_sum=np.zeros((2, 256), np.int64),
        code_count=np.zeros((2, 256), np.int64),
        code_rows=np.zeros((2, 256), np.int64),
        terms=np.zeros((2, 512)),
        factors=np.zeros((2, 512)),
        info=np.zeros((2, 9), np.int64),
        order=np.zeros(capacity, np.int32),
        stack=np.zeros(capacity, np.int32),
        label=np.zeros(capacity, np.int32),
        moved=np.zeros(capacity, np.int64),
        blocks=np.zeros(capacity, np.int32),
        shelf=np.zeros((capacity if restructures else 1, 6), np.int32),
        leaf_ranges=np.zeros((capacity if restructures else 1, len(data.codes), 3), np.int32),
        node_ranges=np.zeros((capacity if restructures else 1, len(data.codes), 3), np.int32),
        law=np.zeros((0, 0)),
    )


def make_kept(draws: int, nodes: int, num_trees: int) -> KeptDraws:
    """Room for kept draws."""
    from sampler.bart.kernels.state import KeptDraws  # noqa: PLC0415

    return KeptDraws(
        fill=np.zeros(2, np.int64),
        sigma=np.zeros(draws),
        tree_start=np.zeros(draws * num_trees + 1, np.int64),
        feature=np.zeros(nodes, np.int32),
        cut=np.zeros(nodes, np.uint8),
        missing_left=np.zeros(nodes, np.uint8),
        leaf=np.zeros(nodes, np.int32),
    )


def _addresses(settings: Settings, *, weighted: bool) -> np.ndarray[Any, Any]:
    """Addresses of the fused passes, of the moves by number (0: never made), of the passes with weights."""
    from sampler.bart.kernels import residual_pass  # noqa: PLC0415
    from sampler.bart.kernels.weighted_pass import WEIGHTED  # noqa: PLC0415
    from sampler.kernels.groups import MOVES  # noqa: PLC0415

    steps = []
    for name in MOVE_NAMES:
        used = name in MOVES and settings.moves.get(name)
        module = import_module(f"sampler.{MOVES[name].module}") if used else None
        steps.append(address(getattr(module, MOVES[name].name)) if module else 0)
    weights = [address(entry) if weighted else 0 for entry in WEIGHTED]
    return np.array([address(entry) for entry in residual_pass.FUSED] + steps + weights, np.int64)
