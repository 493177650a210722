"""Iteration of one of several outcomes' chains, but for what stands beside its trees; called by address."""

from __future__ import annotations

from typing import Any

from sampler.bart.kernels.forest_sweep import sweep_trees
from sampler.bart.kernels.leaf_models.normal import Normal
from sampler.bart.kernels.state import Forest, Work, sweep_signature
from sampler.bart.kernels.sweep import draw_leaf_variance
from sampler.kernels.arrays import Data, Float
from sampler.kernels.jit import pointer_kernel


def _sweep_outcome(at_data: Any, at_forest: Any, at_model: Any, at_work: Any) -> Float:
    """Update every tree once, and draw the leaves' variance; return the residual's sum of squares."""
    data: Data = at_data[0]
    forest: Forest = at_forest[0]
    model: Normal = at_model[0]
    work: Work = at_work[0]
    squares = sweep_trees(data, forest, model, work)
    draw_leaf_variance(forest, model.variance, work.random)
    return squares


SWEEP_OUTCOME = pointer_kernel(__name__, sweep_signature, _sweep_outcome)
